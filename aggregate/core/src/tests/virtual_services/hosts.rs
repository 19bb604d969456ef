//! Routes of the hosts that VirtualServices name, for clients for which no service has them.

use tributary_model::{HostEntry, Hostname, HttpRetries, RouteInputs, Shared};

use super::*;

/// Returns the routes of each host that a VirtualService names.
pub(super) fn routes(catalog: &Catalog) -> Vec<(String, RouteInputs)> {
    let of = |(host, entry): (&Hostname, &Shared<HostEntry>)| {
        Some((host.to_string(), entry.routes.as_ref()?.inputs.clone()))
    };
    catalog.hosts.iter().filter_map(of).collect()
}

/// Returns the VirtualServices that name a host, in order.
fn naming(catalog: &Catalog, host: &str) -> String {
    let found = catalog.hosts.get(host).and_then(|entry| entry.routes.as_ref());
    let candidates = found.into_iter().flat_map(|routes| routes.inputs.virtual_services.iter());
    let names = candidates.map(|one| {
        assert_eq!(one.host.as_str(), host);
        format!("{}/{}", one.of.key.namespace, one.of.key.name)
    });
    names.collect::<Vec<_>>().join(" ")
}

/// Asserts that each host has the VirtualServices that name it, in order. Those with delegates alone may have no route.
pub(super) fn have_those_that_name_them(catalog: &Catalog, facts: &[Fact]) {
    let domain = domain(facts).unwrap_or("cluster.local");
    let mut want: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut unsure = BTreeSet::new();
    for (_, name, namespace, own) in ordered(facts).into_iter().filter(|(.., own)| own.mesh) {
        let name = format!("{namespace}/{name}");
        let hosts: BTreeSet<_> = own.hosts.iter().map(|h| h.completed(namespace.as_str(), domain)).collect();
        if own.http.iter().any(|route| !matches!(route.action, HttpAction::Delegate(..))) {
            hosts.iter().for_each(|host| want.entry(host.to_string()).or_default().push(name.clone()));
        } else if !own.http.is_empty() {
            unsure.insert(name);
        }
    }
    let hosts = catalog.hosts.keys().map(Hostname::to_string).chain(want.keys().cloned());
    for host in hosts.collect::<BTreeSet<_>>() {
        let found = naming(catalog, &host);
        let sure: Vec<&str> = found.split(' ').filter(|n| !n.is_empty() && !unsure.contains(*n)).collect();
        assert_eq!(sure, want.remove(&host).unwrap_or_default(), "{host}");
    }
}

/// VirtualServices, a host, and those that name it in order.
const NAMING: &[(&[&str], &str, &str)] = &[
    (&["svc/a@2 pay.example", "oth/b@1 pay.example,x.test"], "pay.example", "oth/b svc/a"),
    // neither a wildcard around it nor a name within it
    (&["svc/a@1 *.example", "svc/b@2 pay.example", "svc/c@3 *.pay.example"], "pay.example", "svc/b"),
    (&["svc/a@1 *.example", "svc/b@2 pay.example", "oth/c@0 *.example"], "*.example", "oth/c svc/a"),
    // a short name is a service of the namespace
    (&["svc/a@1 pay"], "pay.svc.svc.cluster.local", "svc/a"),
    (&["svc/a@1 pay"], "pay", ""),
    // whether or not a service has it: not every client sees that
    (&["svc/a@1 pay.test"], "pay.test", "svc/a"),
];

#[test]
fn hosts_have_the_virtual_services_that_name_them() {
    for (all, host, want) in NAMING {
        let mut world = World::of_files();
        let declared = mk_service(PAY, mk_decl("pay", "80 http"));
        world.list("file", all.iter().map(|text| mk_vs(text, &["- * a.test"])).chain([declared]));
        let catalog = world.catalog();
        assert_eq!(naming(&catalog, host), *want, "{all:?}");
        assert_eq!(catalog.has_service(host), *host == "pay.test");
        let listed = |namespace: &str| catalog.led_to.get(namespace).is_some_and(|of| of.contains(*host));
        assert_eq!(listed("svc"), want.contains("svc/"), "{host}");
        assert_eq!(listed("oth"), want.contains("oth/"), "{host}");
    }
}

#[test]
fn a_change_of_a_virtual_service_changes_its_hosts_alone() {
    let mut world = World::of_files();
    let at = |text: &str, to: &str| mk_vs(text, &[&format!("- * {to}")]);
    let pay = mk_service(PAY, mk_decl("pay", "80 http"));
    world.list("file", [at("svc/a@1 a.example", "a.test"), at("svc/b@1 *.b.example", "a.test"), pay]);
    let before = world.catalog();
    world.put("file", [at("svc/a@1 a.example,c.example", "b.test")]);
    let after = world.catalog();
    let changed: Vec<String> = before.hosts.diff(&after.hosts).map(|item| format!("{item:?}")).collect();
    assert_eq!(changed.len(), 2, "a.example and c.example: {changed:?}");
    assert_eq!(naming(&after, "c.example"), "svc/a");
    // without routes of requests, no host has an entry
    world.put("file", [mk_vs("svc/a@1 a.example", &[])]);
    let last = world.catalog();
    assert!(last.hosts.get("a.example").is_none() && last.hosts.get("c.example").is_none());
    world.report("file", [mk_deleted(&at("svc/b@1 *.b.example", "a.test"))]);
    assert!(world.catalog().hosts.get("*.b.example").is_none());
}

#[test]
fn destinations_and_retries_of_a_host_follow_what_they_lead_to() {
    let mut world = World::of_files();
    world.list("file", [mk_vs("svc/a@1 a.example", &["- * alias.test"])]);
    let ends = |world: &mut World| {
        let found = routes(&world.catalog());
        let [(_, own)] = &found[..] else { panic!("{found:?}") };
        let ends = own.destinations.iter().map(|to| to.host.to_string()).collect::<Vec<_>>();
        (ends.join(" "), own.retries.is_some())
    };
    assert_eq!(ends(&mut world), (String::new(), false));
    let alias = destinations::mk_alias("alias", "end.test");
    world.put("file", [mk_service("svc/alias.test", alias)]);
    assert_eq!(ends(&mut world), ("end.test".to_owned(), false));
    let retries = HttpRetries {
        attempts: 1,
        conditions: "reset".into(),
        codes: Arc::default(),
        per_try_timeout: None,
        backoff: None,
        remote_localities: false,
        other_hosts: false,
    };
    let retries = Some(Arc::new(retries));
    world.put("file", [Fact::Settings(Arc::new(Settings { http_retries: retries, ..Settings::default() }))]);
    assert_eq!(ends(&mut world), ("end.test".to_owned(), true));
}
