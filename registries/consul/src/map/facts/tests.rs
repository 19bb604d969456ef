//! Services as tables: instances in; hosts, ports and endpoints out.

use tributary_model::{Health, Protocol, Scope};

use super::*;
use crate::map::instance::read;
use crate::map::name::Tenancy;
use crate::map::{Direct, Interner};
use crate::wire::{Check, HealthEntry, NamedPort, Node, Service};

fn mk_area(datacenter: &str) -> Area {
    let part = Tenancy { datacenter: datacenter.into(), ..Tenancy::default() };
    Area::new(part, "dc1", Scope::new(format!("dc:{datacenter}")).unwrap())
}

/// Parses an instance such as `node/id 10.0.0.1:80`, with ports `web=80+admin=9`, state `~` warning, `!` critical,
/// `%` maintenance, and further Meta pairs.
fn mk_entry(text: &str) -> HealthEntry {
    let mut parts = text.split(' ');
    let (node, id) = parts.next().unwrap().split_once('/').unwrap();
    let (at, state) =
        parts.next().map(|at| (at.trim_end_matches(['~', '!', '%']), at.chars().last())).unwrap();
    let (address, ports) = at.rsplit_once(':').unwrap();
    let mut service =
        Service { id: id.into(), service: "web".into(), address: address.into(), ..Service::default() };
    for port in ports.split('+') {
        match port.split_once('=') {
            Some((name, number)) => {
                let default = service.ports.is_empty();
                service.ports.push(NamedPort { name: name.into(), port: number.parse().unwrap(), default });
            }
            None => service.port = port.parse().unwrap(),
        }
    }
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        service.meta.insert(key.into(), value.into());
    }
    let status = match state {
        Some('~') => "warning",
        Some('!') => "critical",
        Some('%') => "maintenance",
        _ => "passing",
    };
    let checks = vec![Check { check_id: "c".into(), status: status.into() }];
    let node = Node { node: node.into(), address: "10.9.9.9".into(), ..Node::default() };
    HealthEntry { node, service, checks }
}

fn mapped(instances: &[&str], area: &Area, config: &MapConfig) -> Mapped {
    let entries: Vec<HealthEntry> = instances.iter().map(|text| mk_entry(text)).collect();
    facts(area, "web", &read(&entries, area, config, false, &mut Interner::default()), config)
}

fn declarations(mapped: &Mapped) -> Vec<(&DeclKey, &Declaration)> {
    let mut out = Vec::new();
    for fact in &mapped.facts {
        if let Fact::Service(key, value) = fact {
            out.push((key, &**value));
        }
    }
    out
}
fn groups(mapped: &Mapped) -> Vec<(&EndpointGroupKey, &Arc<EndpointGroup>)> {
    let mut out = Vec::new();
    for fact in &mapped.facts {
        if let Fact::Group(key, value) = fact {
            out.push((key, value));
        }
    }
    out
}

/// Returns the endpoints as `10.0.0.1:80 weight health`, with all ports of each, sorted.
fn endpoints(mapped: &Mapped) -> Vec<String> {
    let (_, group) = groups(mapped)[0];
    let one = |a: &Address| {
        let at = a.ip().map_or_else(|| group.name(a).unwrap().to_owned(), |ip| ip.to_string());
        let port = |p: &tributary_model::GroupPort| format!("{}={}", p.name.as_str(), p.number.unwrap());
        let ports: Vec<String> = group.ports(a).iter().map(port).collect();
        let sick = if a.health == Health::Healthy { "" } else { a.health.as_str() };
        format!("{at} {} {} {sick}", ports.join("+"), a.weight).trim_end().to_owned()
    };
    let mut out: Vec<String> = group.addresses.iter().map(one).collect();
    out.sort();
    out
}
fn codes(mapped: &Mapped) -> Vec<Code> {
    declarations(mapped)[0].1.attributes.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn service_is_declared_under_its_hosts_with_one_group() {
    let config = MapConfig::new().unwrap();
    let here = mapped(&["n1/1 10.0.0.1:80", "n2/1 10.0.0.2:80!"], &mk_area("dc1"), &config);
    let hosts: Vec<String> = declarations(&here).iter().map(|(key, _)| key.service.to_string()).collect();
    assert_eq!(hosts, ["consul/web.service.consul", "consul/web.service.dc1.dc.consul"]);
    assert_eq!(endpoints(&here), ["10.0.0.1 default=80 1", "10.0.0.2 default=80 1 UNHEALTHY"]);
    let groups = groups(&here);
    assert!(Arc::ptr_eq(groups[0].1, groups[1].1), "an address is held once");
    let origin = groups[0].1.addresses[0].origin.as_ref().unwrap();
    assert_eq!((origin.object.to_string(), &*origin.workload), ("Instance dc1/n1/1".to_owned(), "web"));
    let there = mapped(&["n1/1 10.0.0.1:80"], &mk_area("dc2"), &config);
    assert_eq!(declarations(&there).len(), 1, "a service of another datacenter has only the long host");
}

#[test]
fn keys_cover_all_reported_facts() {
    let config = MapConfig::new().unwrap();
    for area in [mk_area("dc1"), mk_area("dc2")] {
        let mapped = mapped(&["n1/1 10.0.0.1:80"], &area, &config);
        let reported = mapped.facts.iter().map(|f| FactKey { scope: area.scope.clone(), item: f.item() });
        assert_eq!(reported.collect::<Vec<_>>(), keys(&area, "web", &config));
    }
}

#[test]
fn no_instances_empty_the_group_and_keep_the_declaration() {
    let config = MapConfig::new().unwrap();
    let none = mapped(&[], &mk_area("dc1"), &config);
    assert!(declarations(&none).is_empty());
    assert_eq!(groups(&none).len(), 2);
    assert!(groups(&none).iter().all(|(_, group)| group.addresses.is_empty()));
}

#[test]
fn every_number_reaches_every_instance_at_its_own_port() {
    let config = MapConfig::new().unwrap();
    let rolling = mapped(&["n1/1 10.0.0.1:8080", "n2/1 10.0.0.2:9090"], &mk_area("dc1"), &config);
    let ports: Vec<(u16, &str)> =
        declarations(&rolling)[0].1.ports.iter().map(|p| (p.number.get(), p.name.as_str())).collect();
    assert_eq!(ports, [(8080, "default"), (9090, "default")]);
    assert_eq!(endpoints(&rolling), ["10.0.0.1 default=8080 1", "10.0.0.2 default=9090 1"]);
    assert!(codes(&rolling).is_empty());
}

#[test]
fn named_ports_and_single_port_share_the_primary_port() {
    let config = MapConfig::new().unwrap();
    let mixed = mapped(&["n1/1 10.0.0.1:80", "n2/1 10.0.0.2:http-web=80+admin=9"], &mk_area("dc1"), &config);
    assert_eq!(endpoints(&mixed), ["10.0.0.1 default=80 1", "10.0.0.2 default=80+admin=9 1"]);
    let protocols: Vec<Protocol> = declarations(&mixed)[0].1.ports.iter().map(|p| p.protocol).collect();
    assert_eq!(protocols, [Protocol::Tcp, Protocol::Tcp], "one declares http, the other nothing");
    assert_eq!(codes(&mixed), [Code::PROTOCOL_DISAGREES]);
}

#[test]
fn warning_leaves_the_unit_of_the_weights() {
    let (config, area) = (MapConfig::new().unwrap(), mk_area("dc1"));
    let entry = |text: &str, passing, warning| {
        let mut entry = mk_entry(text);
        entry.service.weights = Some(crate::wire::Weights { passing, warning });
        entry
    };
    let relative = |entries: &[HealthEntry]| {
        let mapped =
            facts(&area, "web", &read(entries, &area, &config, false, &mut Interner::default()), &config);
        let (_, group) = groups(&mapped)[0];
        let unit = f64::from(group.weight_unit.get());
        group.addresses.iter().map(|a| f64::from(a.weight) / unit).collect::<Vec<_>>()
    };
    let (a, b) = ("a/1 10.0.0.1:80", "b/1 10.0.0.2:80");
    assert_eq!(relative(&[entry(a, 10, 1), entry(b, 10, 1)]), [1.0, 1.0]);
    assert_eq!(relative(&[entry(a, 10, 1), entry("b/1 10.0.0.2:80~", 10, 1)]), [1.0, 0.1]);
    assert_eq!(relative(&[entry("a/1 10.0.0.1:80~", 10, 4), entry("b/1 10.0.0.2:80~", 10, 4)]), [0.4, 0.4]);
    assert_eq!(relative(&[entry(a, 10, 1), entry(b, 20, 1)]), [1.0, 2.0]);
}

#[test]
fn states_and_weights_are_relative() {
    let config = MapConfig::new().unwrap();
    let entry = |text: &str, passing, warning| {
        let mut entry = mk_entry(text);
        entry.service.weights = Some(crate::wire::Weights { passing, warning });
        entry
    };
    let area = mk_area("dc1");
    let endpoints = |entries: &[HealthEntry]| {
        endpoints(&facts(
            &area,
            "web",
            &read(entries, &area, &config, false, &mut Interner::default()),
            &config,
        ))
    };
    let same = [entry("a/1 10.0.0.1:80", 10, 1), entry("b/1 10.0.0.2:80", 10, 1)];
    assert_eq!(endpoints(&same), ["10.0.0.1 default=80 1", "10.0.0.2 default=80 1"]);
    let warns = [entry("a/1 10.0.0.1:80", 10, 4), entry("b/1 10.0.0.2:80~", 10, 4)];
    assert_eq!(endpoints(&warns), ["10.0.0.1 default=80 5", "10.0.0.2 default=80 2"]);
    let out = [entry("a/1 10.0.0.1:80%", 3, 1), entry("b/1 10.0.0.2:80~", 3, 0)];
    assert_eq!(endpoints(&out), ["10.0.0.1 default=80 3 DRAINING", "10.0.0.2 default=80 1 UNHEALTHY"]);
}

#[test]
fn names_are_resolved_by_clients() {
    let config = MapConfig::new().unwrap();
    let named = mapped(&["a/1 db.example.com:80", "b/1 10.0.0.2:80"], &mk_area("dc1"), &config);
    assert_eq!(declarations(&named)[0].1.resolution, Resolution::DnsStrict);
    assert_eq!(endpoints(&named), ["10.0.0.2 default=80 1", "db.example.com default=80 1"]);
    assert_eq!(codes(&named), [Code::NAMED_INSTANCES]);
    let plain = mapped(&["b/1 10.0.0.2:80"], &mk_area("dc1"), &config);
    assert_eq!(declarations(&plain)[0].1.resolution, Resolution::ClientSide);
}

#[test]
fn unservable_instance_is_excluded_with_a_problem() {
    let config = MapConfig::new().unwrap();
    let bad = mapped(&["a/1 0.0.0.0:80", "b/1 10.0.0.2:0", "c/1 10.0.0.3:80"], &mk_area("dc1"), &config);
    assert_eq!(endpoints(&bad), ["10.0.0.3 default=80 1"]);
    let problems: Vec<(String, Code)> =
        bad.problems.iter().map(|(object, p)| (object.to_string(), p.code)).collect();
    let want = [("Instance dc1/a/1", Code::INVALID_ADDRESS), ("Instance dc1/b/1", Code::INVALID_PORT)];
    assert_eq!(problems, want.map(|(object, code)| (object.to_owned(), code)));
    assert_eq!(codes(&bad), [Code::INVALID_ADDRESS]);
}

#[test]
fn copies_of_a_watched_cluster_are_excluded_with_a_warning() {
    let cluster = tributary_model::ClusterId::new("east").unwrap();
    let nodes = [("k8s-sync".to_owned(), cluster.clone())].into();
    let direct = Direct { clusters: [cluster].into(), nodes, all: false };
    let config = MapConfig { direct, ..MapConfig::new().unwrap() };
    let texts = ["k8s-sync/1 10.0.0.1:80 external-source=kubernetes", "n/1 10.0.0.2:80"];
    let mapped = mapped(&texts, &mk_area("dc1"), &config);
    assert_eq!(endpoints(&mapped), ["10.0.0.2 default=80 1"]);
    assert_eq!(codes(&mapped), [Code::MIRRORED]);
    assert!(mapped.problems.is_empty(), "nothing is wrong with them");
}

#[test]
fn name_too_long_for_dns_is_a_problem() {
    let (config, area) = (MapConfig::new().unwrap(), mk_area("dc1"));
    let read = read(&[mk_entry("a/1 10.0.0.1:80")], &area, &config, false, &mut Interner::default());
    let mapped = facts(&area, &"w".repeat(64), &read, &config);
    assert!(mapped.facts.is_empty());
    assert_eq!(mapped.problems[0].1.code, Code::INVALID_HOST);
}

mod properties {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn any_instance() -> impl Strategy<Value = String> {
        let at = select(&["10.0.0.1", "10.0.0.2", "0.0.0.0", "db.example.com", "2001:db8::1", ""][..]);
        let ports = select(&["80", "81", "0", "web=80", "web=81+admin=9", "http-a=1+b=2+c=3"][..]);
        let state = select(&["", "~", "!", "%"][..]);
        let meta = select(
            &["", " protocol=http", " service-port=443", " service-port=x", " external-source=kubernetes"][..],
        );
        (select(&["a", "b", "k8s-sync"][..]), 0..4_u8, at, ports, state, meta)
            .prop_map(|(node, id, at, ports, state, meta)| format!("{node}/{id} {at}:{ports}{state}{meta}"))
    }

    fn turned(entries: &[HealthEntry], order: &[u16]) -> Vec<HealthEntry> {
        let mut at: Vec<(u16, usize)> = order.iter().copied().zip(0..entries.len()).collect();
        at.sort_unstable();
        at.into_iter().map(|(_, i)| entries[i].clone()).collect()
    }

    proptest! {
        #[test]
        fn the_order_of_instances_makes_no_difference(
            texts in proptest::collection::vec(any_instance(), 0..12),
            order in proptest::collection::vec(any::<u16>(), 12),
            all in any::<bool>(),
        ) {
            let config = MapConfig { direct: Direct { all, ..Direct::default() }, ..MapConfig::new().unwrap() };
            let area = mk_area("dc1");
            let entries: Vec<HealthEntry> = texts.iter().map(|text| mk_entry(text)).collect();
            let mut interner = Interner::default();
            let mapped = |entries: &[HealthEntry], interner: &mut Interner| {
                facts(&area, "web", &read(entries, &area, &config, false, interner), &config)
            };
            let first = mapped(&entries, &mut interner);
            prop_assert_eq!(&first, &mapped(&turned(&entries, &order), &mut interner), "with the same interner");
            prop_assert_eq!(&first, &mapped(&turned(&entries, &order), &mut Interner::default()), "with a new interner");
            for (_, declaration) in declarations(&first) {
                let numbers: Vec<_> = declaration.ports.iter().map(|p| p.number).collect();
                let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
                prop_assert_eq!(numbers.len(), distinct.len(), "a number is declared twice");
                for (_, group) in groups(&first) {
                    let primary = group.port_sets.iter().all(|set| set[0].name.as_str() == "default");
                    prop_assert!(primary && group.addresses.iter().all(|a| a.weight > 0));
                }
            }
        }
    }
}
