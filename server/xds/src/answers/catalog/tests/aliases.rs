//! Aliases: a host that leads to another service claims its domains itself, as each client sees it.

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use prost::Message;
use tributary_model::{Hostname, Visibility};

use super::*;
use crate::answers::ClientClass;

pub(super) fn mk_leading(host: &str, to: &str) -> Svc {
    mk_svc(host).at(&[]).resolved(Resolution::Alias(Hostname::new(to).unwrap()))
}
/// Returns the domains of a class's table, by virtual host.
pub(super) fn table_of(
    answers: &CatalogAnswers,
    catalog: &Arc<Catalog>,
    class: &ClientClassKey,
    name: &str,
) -> Vec<String> {
    let found = answers.one(catalog, class, ResourceType::Route, name).unwrap();
    let body = answers.bytes(catalog, class, ResourceType::Route, &found).unwrap();
    let table = RouteConfiguration::decode(body).unwrap();
    let names = table.virtual_hosts.iter().filter(|host| host.name != "allow_any");
    names.map(|host| format!("{}: {}", host.name, host.domains.join(" "))).collect()
}

#[test]
fn alias_leads_through_the_service_that_the_client_sees() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = Svc { created: Some(1), ..mk_svc("b.shop") };
    let own = Svc { created: Some(2), ..mk_leading("b.shop", "c.shop").in_namespace("web") };
    let mut services = [mk_leading("a.shop", "b.shop"), own, first, mk_svc("c.shop")];
    services[0].created = Some(3);
    let catalog = world.next(&services);
    let table =
        |catalog, namespace| table_of(&answers, catalog, &mk_class(ClientKind::Sidecar, namespace), "80");
    assert_eq!(
        table(&catalog, ""),
        ["b.shop:80: b.shop b.shop. a.shop a.shop.", "c.shop:80: c.shop c.shop."]
    );
    assert_eq!(table(&catalog, "web"), ["c.shop:80: c.shop c.shop. a.shop a.shop. b.shop b.shop."]);
    services[1] = mk_svc("b.shop").in_namespace("web");
    let again = world.next(&services);
    assert_eq!(
        table(&again, "web"),
        ["c.shop:80: c.shop c.shop.", "b.shop:80: b.shop b.shop. a.shop a.shop."]
    );
}

#[test]
fn alias_gives_its_name_only_to_clients_whose_sidecar_imports_it() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let both = [(80, Protocol::Http), (81, Protocol::Http)];
    let catalog = world.next(&[mk_svc("pay.shop").on(&both), mk_leading("old.shop", "pay.shop").on(&both)]);
    let (hidden, all): (&[&str], &[&str]) = (&["shop/pay.shop"], &["*/*"]);
    let own = "pay.shop pay.shop.";
    for (egress, of_80, of_81) in [
        (&[(None, hidden)][..], false, false),
        (&[(None, all)], true, true),
        (&[(Some(80), hidden), (None, all)], false, true),
        (&[(Some(80), all), (None, hidden)], true, false),
    ] {
        let class = mk_scoped(ClientKind::Sidecar, "web", egress);
        for (port, claims) in [("80", of_80), ("81", of_81)] {
            let domains = if claims { format!("{own} old.shop old.shop.") } else { own.to_owned() };
            let expected = [format!("pay.shop:{port}: {domains}")];
            assert_eq!(table_of(&answers, &catalog, &class, port), expected, "{egress:?}");
        }
        let class = mk_scoped(ClientKind::Grpc, "web", egress);
        let table = table_of(&answers, &catalog, &class, "outbound|80||pay.shop").join(" ");
        assert!(!table.contains("old.shop") || of_80 || of_81, "{egress:?}: {table}");
    }
}

#[test]
fn alias_without_ports_has_those_of_its_service() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let domain = |namespace: &str| Some(format!("{namespace}.svc.cluster.local").into());
    let (name, end) = ("old.web.svc.cluster.local", "pay.shop.svc.cluster.local");
    let alias = mk_leading(name, end).on(&[]).in_namespace("web");
    let first = world.next(&[mk_svc(end), alias.clone()]);
    let second = world.next(&[mk_svc(end).on(&[(80, Protocol::Http), (81, Protocol::Http)]), alias]);
    for namespace in ["web", "shop", "blog"] {
        let class = (*mk_class(ClientKind::Sidecar, namespace)).clone();
        let class = ClientClassKey::alone(ClientClass { domain: domain(namespace), ..class });
        let [shop, web] = ["shop", "web"].map(|own| if own == namespace { 1 } else { 0 });
        let pay = format!("{end} {end}. {}pay.shop pay.shop.svc", ["", "pay "][shop]);
        let old = format!("{name} {name}. {}old.web old.web.svc", ["", "old "][web]);
        for (catalog, port) in [(&first, "80"), (&second, "80"), (&second, "81")] {
            let expected = [format!("{end}:{port}: {pay} {old}")];
            assert_eq!(table_of(&answers, catalog, &class, port), expected, "{namespace}");
        }
        let changed = answers.changed(&first, &second, &class, ResourceType::Route);
        assert_eq!(changed.upserted.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["81"]);
    }
}

#[test]
fn alias_claims_its_domain_where_it_is_exported() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let table =
        |catalog, namespace| table_of(&answers, catalog, &mk_class(ClientKind::Sidecar, namespace), "80");
    // The target is older than the other namespace's declaration of the name; the alias is younger.
    let target = Svc { created: Some(1), ..mk_svc("pay.shop") };
    let own = Svc { created: Some(2), ..mk_svc("old.shop").in_namespace("web") };
    let name = Svc { created: Some(3), ..mk_leading("old.shop", "pay.shop").seen_by(&["shop"]) };
    let catalog = world.next(&[name.clone(), own.clone(), target.clone()]);
    let plain = ["pay.shop:80: pay.shop pay.shop.", "old.shop:80: old.shop old.shop."];
    assert_eq!(table(&catalog, "web"), plain, "its own declaration owns the domain");
    assert_eq!(table(&catalog, ""), plain, "the alias is exported to one namespace");
    let led = ["pay.shop:80: pay.shop pay.shop. old.shop old.shop."];
    assert_eq!(table(&catalog, "shop"), led, "the alias is the namespace's own service");
    let first = Svc { created: Some(1), visibility: Visibility::Public, ..name };
    let catalog = world.next(&[first, own, target]);
    assert_eq!(table(&catalog, ""), led, "the older host has precedence");
    assert_eq!(table(&catalog, "web"), plain, "a namespace's own declaration has precedence");
}

#[test]
fn alias_encodes_only_the_part_of_its_service() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let mut services: Vec<Svc> = (0..100).map(|n| mk_svc(&format!("s{n:02}.shop"))).collect();
    let class = mk_class(ClientKind::Sidecar, "web");
    let mut encoded = |services: &[Svc]| {
        let catalog = world.next(services);
        answers.all(&catalog, &class, ResourceType::Listener);
        answers.one(&catalog, &class, ResourceType::Route, "80").unwrap();
        [ResourceType::Listener, ResourceType::Route].map(|kind| answers.counters().encodes(kind))
    };
    assert_eq!(encoded(&services), [1, 100]);
    services.push(mk_leading("old.shop", "s07.shop"));
    assert_eq!(encoded(&services), [1, 101], "a new alias");
    services[100] = mk_leading("old.shop", "s08.shop");
    assert_eq!(encoded(&services), [1, 102], "its part of s07.shop is the shared one again");
    services[8] = services[8].clone().at(&["10.0.0.9"]);
    assert_eq!(encoded(&services), [1, 102], "an endpoint of its service");
    services[9] = services[9].clone().virtual_at(&["10.9.0.9"]);
    assert_eq!(encoded(&services), [1, 103], "another service");
}
