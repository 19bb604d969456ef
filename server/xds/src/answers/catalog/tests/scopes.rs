//! Sidecars: what a client is sent equals a naive reading of all services, its namespace and its Sidecar, for any
//! services and any Sidecar; clients outside a Sidecar share everything as before.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;
use tributary_answer::ClientSidecar;
use tributary_fixtures::{mk_egress, mk_host, mk_ns, mk_sidecar};
use tributary_model::{
    CaptureMode, EgressListener, EgressProxy, ListenerPort, Namespace, OutboundMode, PortNumber, Sidecar,
};

use super::properties::some_services;
use super::*;
use crate::answers::ClientClass;

fn some_import() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("*/*"),
        Just("./*"),
        Just("~/*"),
        Just("shop/*"),
        Just("web/*.shop"),
        Just("*/a.shop"),
        Just("./b.shop"),
        Just("shop/c.shop"),
        Just("web/d.shop"),
    ]
}
/// Address, capture mode and protocol of an egress listener.
fn some_socket() -> impl Strategy<Value = (Option<IpAddr>, CaptureMode, Protocol)> {
    let bind = prop_oneof![Just(None), Just(Some(IpAddr::from([127, 0, 0, 9])))];
    let capture = prop_oneof![3 => Just(CaptureMode::Default), 1 => Just(CaptureMode::None)];
    let protocol = prop_oneof![Just(Protocol::Unspecified), Just(Protocol::Tcp), Just(Protocol::Http)];
    (bind, capture, protocol)
}
pub(super) fn some_listeners() -> impl Strategy<Value = Arc<[EgressListener]>> {
    let hosts = || prop::option::of((prop::collection::vec(some_import(), 1..4), some_socket()));
    (hosts(), hosts(), hosts()).prop_map(|of_ports| {
        let listener = |port, of: Option<(Vec<&str>, _)>| {
            let (hosts, (bind, capture, protocol)) = of?;
            let listener = mk_egress(&[(port, &hosts)])[0].clone();
            let port = listener.port.clone().map(|port| ListenerPort { protocol, ..port });
            Some(EgressListener { port, bind, capture, ..listener })
        };
        let (a, b, c) = of_ports;
        [listener(Some(80), a), listener(Some(82), b), listener(None, c)].into_iter().flatten().collect()
    })
}
/// A Sidecar, or none; its namespace is that of its key only.
pub(super) fn some_sidecar() -> impl Strategy<Value = Option<Arc<ClientSidecar>>> {
    let proxy = EgressProxy { host: mk_host("a.shop"), port: PortNumber::new(80).unwrap() };
    let modes = [OutboundMode::RegistryOnly, OutboundMode::AllowAny, OutboundMode::Proxy(proxy)];
    let outbound = prop::option::of(prop::sample::select(modes.to_vec()));
    let sidecar = (some_listeners(), outbound).prop_map(|(egress, outbound)| {
        let sidecar = Sidecar { egress, outbound, ..Sidecar::default() };
        Arc::new(ClientSidecar::new(&mk_sidecar("shop", "default", sidecar.clone()).0, &sidecar))
    });
    prop::option::of(sidecar)
}

/// The services that a client reaches, with their ports: a naive reading of the facts.
pub(super) fn reached(
    services: &[Svc],
    own: &Namespace,
    egress: &[EgressListener],
) -> BTreeSet<(String, String, u32)> {
    let hosts: BTreeSet<&str> = services.iter().map(|svc| svc.host.as_str()).collect();
    hosts.into_iter().flat_map(|host| reached_as(services, host, own, egress)).collect()
}
fn reached_as(
    services: &[Svc],
    host: &str,
    own: &Namespace,
    egress: &[EgressListener],
) -> Vec<(String, String, u32)> {
    let imports = |listener: &EgressListener, svc: &Svc, port: u32| {
        let key = svc.key();
        listener.port.as_ref().is_none_or(|of| u32::from(of.number.get()) == port)
            && listener.hosts.iter().any(|import| import.admits(own, &key.namespace, &key.host))
    };
    let ports = |svc: &Svc| svc.ports.iter().map(|(port, _)| *port).collect::<BTreeSet<_>>();
    let first = |svc: &&Svc| {
        let any = |listener: &EgressListener| ports(svc).iter().any(|port| imports(listener, svc, *port));
        if egress.is_empty() { Some(0) } else { egress.iter().position(any) }
    };
    let of_host = services.iter().filter(|svc| svc.host == host);
    let seen = of_host.filter(|svc| svc.visibility.admits(&svc.key().namespace, Some(own)));
    let imported = seen.filter_map(|svc| Some((first(&svc)?, svc.key().namespace != *own, svc)));
    let age = |svc: &Svc| (svc.created.is_none(), svc.created, svc.namespace.clone());
    let chosen = imported.min_by_key(|(listener, foreign, svc)| (*listener, *foreign, age(svc)));
    let Some((_, _, svc)) = chosen else { return Vec::new() };
    let reaches = |port: &u32| egress.is_empty() || egress.iter().any(|l| imports(l, svc, *port));
    let ports = ports(svc).into_iter().filter(reaches);
    ports.map(|port| (svc.host.clone(), svc.namespace.clone(), port)).collect()
}

/// Whether a port of this protocol and resolution has an xDS cluster.
pub(super) fn is_listed(svc: &Svc, port: u32) -> bool {
    let mut of_port: Vec<_> = svc.ports.iter().filter(|(number, _)| *number == port).collect();
    of_port.sort();
    let udp = of_port.first().is_some_and(|(_, protocol)| *protocol == Protocol::Udp);
    let empty = svc.resolution.is_dns() && svc.endpoints.is_empty();
    !udp && !empty && !matches!(svc.resolution, Resolution::Alias(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn served_clusters_are_those_of_a_naive_reading(
        worlds in prop::collection::vec(some_services(), 1..4),
        listeners in some_listeners(),
        own in prop_oneof![Just("shop"), Just("web")],
    ) {
        let sidecar = Sidecar { egress: Arc::clone(&listeners), ..Sidecar::default() };
        let sidecar = ClientSidecar::new(&mk_sidecar(own, "default", sidecar.clone()).0, &sidecar);
        let class = (*mk_class(ClientKind::Sidecar, own)).clone();
        let class = ClientClassKey::alone(ClientClass { sidecar: Some(Arc::new(sidecar)), ..class });
        let (mut world, answers) = (World::default(), CatalogAnswers::default());
        for services in &worlds {
            let catalog = world.next(services);
            let set = answers.all(&catalog, &class, ResourceType::Cluster);
            let served: BTreeSet<&str> = set.members().iter().map(|m| &*m.name).filter(|n| n.contains('|')).collect();
            let reached = reached(services, &mk_ns(own), &listeners);
            let expected: BTreeSet<String> = reached
                .iter()
                .filter(|(host, ns, port)| {
                    services.iter().any(|svc| svc.host == *host && svc.namespace == *ns && is_listed(svc, *port))
                })
                .map(|(host, _, port)| format!("outbound|{port}||{host}"))
                .collect();
            prop_assert_eq!(served, expected.iter().map(String::as_str).collect::<BTreeSet<_>>());
        }
    }
}

fn names(answers: &CatalogAnswers, catalog: &Arc<Catalog>, class: &ClientClassKey) -> Vec<String> {
    let set = answers.all(catalog, class, ResourceType::Cluster);
    set.members().iter().map(|m| m.name.to_string()).filter(|name| name.contains('|')).collect()
}

/// The route table of port 80, as text.
fn table_of(answers: &CatalogAnswers, catalog: &Arc<Catalog>, class: &ClientClassKey) -> String {
    let found = answers.one(catalog, class, ResourceType::Route, "80").unwrap();
    let body = answers.bytes(catalog, class, ResourceType::Route, &found).unwrap();
    String::from_utf8_lossy(&body).into_owned()
}

#[test]
fn sidecar_shrinks_clusters_endpoints_listeners_and_routes() {
    let services = [
        mk_svc("a.shop"),
        mk_svc("b.shop").in_namespace("web"),
        mk_svc("c.shop").on(&[(81, Protocol::Http)]).in_namespace("web"),
    ];
    let (catalog, answers) = (World::default().next(&services), CatalogAnswers::default());
    let class = mk_scoped(ClientKind::Sidecar, "web", &[(None, &["./b.shop"])]);
    assert_eq!(names(&answers, &catalog, &class), ["outbound|80||b.shop"]);
    let one = |kind, name| answers.one(&catalog, &class, kind, name);
    assert!(one(ResourceType::Endpoints, "outbound|80||a.shop").is_none());
    assert!(one(ResourceType::Endpoints, "outbound|80||b.shop").is_some());
    let listeners = answers.all(&catalog, &class, ResourceType::Listener);
    let listeners: Vec<&str> = listeners.members().iter().map(|m| &*m.name).collect();
    assert_eq!(listeners, ["0.0.0.0_80", "virtualOutbound"]);
    let table = table_of(&answers, &catalog, &class);
    assert!(table.contains("b.shop") && !table.contains("a.shop"));
}

#[test]
fn a_port_with_its_own_listener_has_routes_of_that_listener_only() {
    let services = [mk_svc("a.shop"), mk_svc("b.shop").in_namespace("web")];
    let (catalog, answers) = (World::default().next(&services), CatalogAnswers::default());
    let class = mk_scoped(ClientKind::Sidecar, "web", &[(Some(80), &["./*"]), (None, &["shop/*"])]);
    let both = ["outbound|80||a.shop", "outbound|80||b.shop"];
    assert_eq!(names(&answers, &catalog, &class), both, "the union of all listeners");
    let table = table_of(&answers, &catalog, &class);
    assert!(table.contains("b.shop") && !table.contains("a.shop"));
}

#[test]
fn sidecar_decides_about_connections_to_unknown_hosts() {
    let answers = CatalogAnswers::default();
    let catalog = World::default().next(&[mk_svc("a.shop")]);
    let of = |outbound| {
        let sidecar = Sidecar { outbound, ..Sidecar::default() };
        let sidecar = ClientSidecar::new(&mk_sidecar("shop", "default", sidecar.clone()).0, &sidecar);
        let class = (*mk_class(ClientKind::Sidecar, "shop")).clone();
        let class = ClientClassKey::alone(ClientClass { sidecar: Some(Arc::new(sidecar)), ..class });
        answers.one(&catalog, &class, ResourceType::Listener, "virtualOutbound").unwrap().version
    };
    let none = mk_class(ClientKind::Sidecar, "shop");
    let mesh = answers.one(&catalog, &none, ResourceType::Listener, "virtualOutbound").unwrap().version;
    assert_eq!([of(None), of(Some(OutboundMode::AllowAny))], [mesh, mesh]);
    assert_ne!(of(Some(OutboundMode::RegistryOnly)), mesh);
}

#[test]
fn unknown_hosts_go_to_the_egress_proxy_of_a_sidecar() {
    let (answers, proxy) = (CatalogAnswers::default(), "outbound|8080||out.shop");
    let catalog = World::default().next(&[mk_svc("a.shop")]);
    let class = |outbound| {
        let sidecar = Sidecar { outbound, ..Sidecar::default() };
        let sidecar = ClientSidecar::new(&mk_sidecar("shop", "default", sidecar.clone()).0, &sidecar);
        let class = (*mk_class(ClientKind::Sidecar, "shop")).clone();
        ClientClassKey::alone(ClientClass { sidecar: Some(Arc::new(sidecar)), ..class })
    };
    let through = EgressProxy { host: mk_host("out.shop"), port: PortNumber::new(8080).unwrap() };
    let (plain, proxied) = (class(None), class(Some(OutboundMode::Proxy(through))));
    let names = |class: &ClientClassKey, kind, name: &str| {
        let resource = answers.one(&catalog, class, kind, name).unwrap();
        let body = answers.bytes(&catalog, class, kind, &resource).unwrap();
        [proxy, "PassthroughCluster"].map(|cluster| contains(&body, cluster))
    };
    for (kind, name) in [
        (ResourceType::Listener, "virtualOutbound"),
        (ResourceType::Listener, "0.0.0.0_80"),
        (ResourceType::Route, "80"),
        (ResourceType::Route, "81"),
    ] {
        assert_eq!(names(&plain, kind, name), [false, true], "{name}");
        assert_eq!(names(&proxied, kind, name), [true, false], "{name}");
    }
    let version = |class: &ClientClassKey| answers.all(&catalog, class, ResourceType::Cluster).version();
    assert_eq!(
        version(&plain),
        version(&proxied),
        "its xDS cluster is that of the service, if it is declared"
    );
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn sidecars_encode_nothing_again_and_share_what_they_import() {
    let services: Vec<Svc> = (0..50).map(|n| mk_svc(&format!("s{n}.shop"))).collect();
    let (catalog, answers) = (World::default().next(&services), CatalogAnswers::default());
    let all = |class: &ClientClassKey| answers.all(&catalog, class, ResourceType::Cluster);
    let base = all(&mk_class(ClientKind::Sidecar, "web"));
    let encodes = answers.counters().encodes(ResourceType::Cluster);
    for namespace in ["web", "pay"] {
        let scoped =
            all(&mk_scoped(ClientKind::Sidecar, namespace, &[(None, &["shop/s7.shop", "*/s9.shop"])]));
        let of_services: Vec<_> = scoped.members().iter().filter(|m| m.name.contains('|')).collect();
        assert_eq!(of_services.len(), 2);
        assert!(of_services.iter().all(|m| Arc::ptr_eq(m, base.get(&m.name).unwrap())));
    }
    assert_eq!(answers.counters().encodes(ResourceType::Cluster), encodes);
}
