//! Listeners and route tables: of sidecars, joined from many services; of gRPC clients, one each.

use envoy_types::pb::envoy::config::cluster::v3::cluster::DnsLookupFamily;
use envoy_types::pb::envoy::config::core::v3::{Address, address};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use prost::Name;
use tributary_model::{Settings, Shared};

use super::aliases::mk_leading;
use super::*;
use crate::answers::ClientClass;

fn mk_sidecar() -> ClientClassKey {
    mk_class(ClientKind::Sidecar, "shop")
}
fn mk_grpc(domain: &str) -> ClientClassKey {
    ClientClassKey::alone(ClientClass { domain: Some(domain.into()), ..ClientClass::new(ClientKind::Grpc) })
}
fn mk_listener(answers: &CatalogAnswers, catalog: &Arc<Catalog>, name: &str) -> Listener {
    let (class, kind) = (mk_sidecar(), ResourceType::Listener);
    let found = answers.one(catalog, &class, kind, name).unwrap();
    Listener::decode(answers.bytes(catalog, &class, kind, &found).unwrap()).unwrap()
}
fn mk_table(answers: &CatalogAnswers, catalog: &Arc<Catalog>, name: &str) -> RouteConfiguration {
    let (class, kind) = (mk_sidecar(), ResourceType::Route);
    let found = answers.one(catalog, &class, kind, name).unwrap();
    RouteConfiguration::decode(answers.bytes(catalog, &class, kind, &found).unwrap()).unwrap()
}
/// Returns the target of a chain: `cluster x` or `routes x`.
fn leads_to(chain: &FilterChain) -> String {
    let Some(filter::ConfigType::TypedConfig(config)) = &chain.filters[0].config_type else { panic!() };
    if config.type_url == TcpProxy::type_url() {
        let proxy = TcpProxy::decode(&config.value[..]).unwrap();
        let Some(tcp_proxy::ClusterSpecifier::Cluster(name)) = proxy.cluster_specifier else { panic!() };
        return format!("cluster {name}");
    }
    let manager = HttpConnectionManager::decode(&config.value[..]).unwrap();
    let Some(RouteSpecifier::Rds(rds)) = manager.route_specifier else { panic!() };
    format!("routes {}", rds.route_config_name)
}
fn domains(table: &RouteConfiguration) -> Vec<Vec<&str>> {
    table.virtual_hosts.iter().map(|h| h.domains.iter().map(String::as_str).collect()).collect()
}

#[test]
fn http_services_share_a_listener_and_tcp_ones_have_their_own() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let tcp = mk_svc("db.shop").on(&[(5432, Protocol::Tcp)]).virtual_at(&["10.9.0.1"]);
    let tls = mk_svc("api.example").on(&[(443, Protocol::Tls)]);
    let catalog = world.next(&[mk_svc("pay.shop"), mk_svc("cart.shop"), tcp, tls]);
    let set = answers.all(&catalog, &mk_sidecar(), ResourceType::Listener);
    assert_eq!(names_of(&set), ["0.0.0.0_443", "0.0.0.0_80", "10.9.0.1_5432", "virtualOutbound"]);
    let http = mk_listener(&answers, &catalog, "0.0.0.0_80");
    assert_eq!(leads_to(&http.filter_chains[0]), "routes 80");
    assert_eq!(http.bind_to_port.map(|b| b.value), Some(false));
    let tcp = mk_listener(&answers, &catalog, "10.9.0.1_5432");
    assert_eq!(leads_to(&tcp.filter_chains[0]), "cluster outbound|5432||db.shop");
    let tls = mk_listener(&answers, &catalog, "0.0.0.0_443");
    assert_eq!(tls.filter_chains[0].filter_chain_match.as_ref().unwrap().server_names, ["api.example"]);
    assert_eq!(tls.listener_filters[0].name, "envoy.filters.listener.tls_inspector");
    assert_eq!(leads_to(&tls.default_filter_chain.unwrap()), "cluster PassthroughCluster");
}

#[test]
fn tcp_services_without_address_match_their_endpoints() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let tcp = |host, at: &[&str]| mk_svc(host).on(&[(8080, Protocol::Tcp)]).at(at);
    let services = [tcp("a.shop", &["10.0.0.1"]), tcp("b.shop", &["10.0.0.2"]), tcp("none.shop", &[])];
    let catalog = world.next(&services);
    let set = answers.all(&catalog, &mk_sidecar(), ResourceType::Listener);
    assert_eq!(names_of(&set), ["10.0.0.1_8080", "10.0.0.2_8080", "virtualOutbound"]);
    for (listener, host) in [("10.0.0.1_8080", "a.shop"), ("10.0.0.2_8080", "b.shop")] {
        let listener = mk_listener(&answers, &catalog, listener);
        assert_eq!(leads_to(&listener.filter_chains[0]), format!("cluster outbound|8080||{host}"));
    }
}

#[test]
fn endpoint_change_encodes_only_its_own_listener() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let all: Vec<String> = (1..=100).map(|n| format!("10.0.0.{n}")).collect();
    let tcp = |at: &[String]| {
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        [mk_svc("a.shop").on(&[(8080, Protocol::Tcp)]).at(&at)]
    };
    let (first, second) = (world.next(&tcp(&all[1..])), world.next(&tcp(&all[..99])));
    answers.all(&first, &mk_sidecar(), ResourceType::Listener);
    // without the first set, a difference holds all listeners that the change touches
    for answers in [&answers, &CatalogAnswers::default()] {
        let changed = answers.changed(&first, &second, &mk_sidecar(), ResourceType::Listener);
        let upserted: Vec<&str> = changed.upserted.iter().map(|listener| &*listener.name).collect();
        let removed: Vec<&str> = changed.removed.iter().map(|name| &**name).collect();
        assert_eq!((upserted, removed), (vec!["10.0.0.1_8080"], vec!["10.0.0.100_8080"]));
    }
    assert_eq!(answers.counters().encodes(ResourceType::Listener), 100);
}

#[test]
fn many_endpoints_share_a_filter_chain_of_their_port() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let many: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let tcp = |host| mk_svc(host).on(&[(8080, Protocol::Tcp)]);
    let other = tcp("b.shop").at(&["10.9.9.9", "10.0.0.7"]);
    let catalog = world.next(&[tcp("a.shop").at(&many), other]);
    let set = answers.all(&catalog, &mk_sidecar(), ResourceType::Listener);
    assert_eq!(names_of(&set), ["0.0.0.0_8080", "10.0.0.7_8080", "10.9.9.9_8080", "virtualOutbound"]);
    let listener = mk_listener(&answers, &catalog, "0.0.0.0_8080");
    let [chain] = &listener.filter_chains[..] else { panic!("{} chains", listener.filter_chains.len()) };
    let ranges = &chain.filter_chain_match.as_ref().unwrap().prefix_ranges;
    assert_eq!((ranges.len(), &*ranges[299].address_prefix), (300, "10.0.1.43"));
    assert_eq!(leads_to(chain), "cluster outbound|8080||a.shop");
    assert_eq!(leads_to(&listener.default_filter_chain.unwrap()), "cluster PassthroughCluster");
}

#[test]
fn contested_domain_belongs_to_the_first_claimant() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let old = Svc { created: Some(1), ..mk_svc("z.shop").virtual_at(&["10.9.0.1"]) };
    let young = Svc { created: Some(2), ..mk_svc("a.shop").virtual_at(&["10.9.0.1"]) };
    let both = world.next(&[old, young.clone()]);
    let table = mk_table(&answers, &both, "80");
    assert_eq!(
        domains(&table),
        [vec!["a.shop", "a.shop."], vec!["z.shop", "z.shop.", "10.9.0.1"], vec!["*"]]
    );
    let alone = world.next(&[young]);
    let table = mk_table(&answers, &alone, "80");
    assert_eq!(domains(&table), [vec!["a.shop", "a.shop.", "10.9.0.1"], vec!["*"]]);
    let changed = answers.changed(&both, &alone, &mk_sidecar(), ResourceType::Route);
    assert_eq!((changed.upserted.len(), changed.removed.len()), (1, 0));
}

#[test]
fn host_owns_its_name_before_hosts_that_shorten_to_it() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let long = Svc { created: Some(1), ..mk_svc("pay.shop.svc.cluster.local") };
    let short = Svc { created: Some(2), ..mk_svc("pay.shop") };
    let domain = Some("shop.svc.cluster.local".into());
    let class = ClientClassKey::alone(ClientClass { domain, ..ClientClass::new(ClientKind::Sidecar) });
    let owner = |catalog: &Arc<Catalog>| {
        let found = answers.one(catalog, &class, ResourceType::Route, "80").unwrap();
        let body = answers.bytes(catalog, &class, ResourceType::Route, &found).unwrap();
        let table = RouteConfiguration::decode(body).unwrap();
        let mut owners =
            table.virtual_hosts.iter().filter(|host| host.domains.iter().any(|d| d == "pay.shop"));
        owners.next().map(|host| host.name.clone())
    };
    let both = world.next(&[long.clone(), short]);
    assert_eq!(owner(&both).as_deref(), Some("pay.shop:80"));
    let alone = world.next(&[long]);
    assert_eq!(owner(&alone).as_deref(), Some("pay.shop.svc.cluster.local:80"));
}

#[test]
fn a_public_change_reaches_a_namespace_in_its_own_composites() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let tls = |host| mk_svc(host).on(&[(80, Protocol::Http), (443, Protocol::Tls)]);
    let private = tls("cart.shop").seen_by(&["web"]);
    let first = world.next(&[tls("pay.shop"), private.clone()]);
    let second = world.next(&[tls("pay.shop").virtual_at(&["10.9.0.1"]), private]);
    let classes = ["", "web"].map(|namespace| mk_class(ClientKind::Sidecar, namespace));
    for class in &classes {
        [ResourceType::Listener, ResourceType::Route]
            .iter()
            .for_each(|&kind| drop(answers.folded(&first, class, kind)));
    }
    for class in &classes {
        for kind in [ResourceType::Listener, ResourceType::Route] {
            let changed = answers.changed(&first, &second, class, kind);
            assert!(!changed.upserted.is_empty());
            for upserted in &changed.upserted {
                let own = answers.one(&second, class, kind, &upserted.name).unwrap();
                assert_eq!(own.version, upserted.version, "{} of {:?}", upserted.name, class.namespace);
            }
        }
    }
}

#[test]
fn endpoint_change_encodes_no_listener_or_route_part() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let mut services: Vec<Svc> = (0..100).map(|n| mk_svc(&format!("s{n:02}.shop"))).collect();
    let first = world.next(&services);
    answers.all(&first, &mk_sidecar(), ResourceType::Listener);
    answers.one(&first, &mk_sidecar(), ResourceType::Route, "80").unwrap();
    let encodes =
        || [ResourceType::Listener, ResourceType::Route].map(|kind| answers.counters().encodes(kind));
    assert_eq!(encodes(), [1, 100]);
    services[7] = services[7].clone().at(&["10.0.0.9"]);
    let second = world.next(&services);
    for kind in [ResourceType::Listener, ResourceType::Route] {
        assert!(answers.changed(&first, &second, &mk_sidecar(), kind).is_empty(), "{kind:?}");
    }
    assert_eq!(encodes(), [1, 100], "endpoints are not part of listeners and routes");
    services.push(mk_svc("new.shop"));
    let third = world.next(&services);
    let upserted = |kind| {
        let changed = answers.changed(&second, &third, &mk_sidecar(), kind);
        changed.upserted.iter().map(|e| e.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (upserted(ResourceType::Listener), upserted(ResourceType::Route)),
        (vec![], vec!["80".to_owned()])
    );
    assert_eq!(encodes(), [1, 101], "the port's listener is unchanged");
    let passes: u64 = Cause::ALL.iter().map(|&cause| answers.counters().passes(cause)).sum();
    assert_eq!(passes, 2, "one full fold per type");
}

#[test]
fn port_without_services_has_a_pass_through_table() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = world.next(&[mk_svc("pay.shop")]);
    assert_eq!(domains(&mk_table(&answers, &first, "9999")), [["*"]]);
    for bad in ["0", "080", "65536", "http", ""] {
        assert!(answers.one(&first, &mk_sidecar(), ResourceType::Route, bad).is_none(), "{bad:?} is a table");
    }
    answers.one(&first, &mk_sidecar(), ResourceType::Route, "80").unwrap();
    let second = world.next(&[]);
    let changed = answers.changed(&first, &second, &mk_sidecar(), ResourceType::Route);
    assert_eq!(changed.upserted.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["80"]);
    assert!(changed.removed.is_empty(), "a client that subscribes to a removed table would wait forever");
    assert_eq!(domains(&mk_table(&answers, &second, "80")), [["*"]]);
}

#[test]
fn outbound_policy_change_updates_every_resource() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = world.next(&[mk_svc("pay.shop")]);
    let settings = Shared::new(Settings { block_unknown: Some(true), ..Settings::default() });
    let second = Arc::new(Catalog { settings, generation: 2, ..(*first).clone() });
    answers.one(&first, &mk_sidecar(), ResourceType::Route, "80").unwrap();
    let names = |kind| {
        let changed = answers.changed(&first, &second, &mk_sidecar(), kind);
        changed.upserted.iter().map(|e| e.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(ResourceType::Route), ["80"]);
    assert_eq!(names(ResourceType::Listener), ["0.0.0.0_80", "virtualOutbound"]);
    let caught = mk_listener(&answers, &second, "virtualOutbound");
    assert_eq!(leads_to(&caught.filter_chains[1]), "cluster BlackHoleCluster");
}

#[test]
fn a_client_whose_listeners_bind_has_no_interceptor() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let catalog = world.next(&[mk_svc("pay.shop")]);
    let class = ClientClassKey::alone(ClientClass { binds: true, ..ClientClass::new(ClientKind::Sidecar) });
    let set = answers.all(&catalog, &class, ResourceType::Listener);
    assert_eq!(names_of(&set), ["127.0.0.1_80"]);
    let body = Listener::decode(set.members()[0].body().unwrap()).unwrap();
    assert!(body.bind_to_port.is_none());
    assert!(answers.private(&catalog, &class, ResourceType::Listener, OwnSide::default()).is_empty());
    let intercepted = answers.private(&catalog, &mk_sidecar(), ResourceType::Listener, OwnSide::default());
    assert_eq!(intercepted.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["virtualInbound"]);
}

#[test]
fn sidecar_has_inbound_resources_for_its_workloads_ports() {
    let answers = CatalogAnswers::default();
    let catalog = World::default().next(&[mk_svc("pay.shop"), mk_svc("db.shop").on(&[(81, Protocol::Tcp)])]);
    let (catalog, own) = mk_with_workload(&catalog, "10.0.0.1", &["pay.shop"]);
    let own = OwnSide { workloads: &[own], ips: &[] };
    let clusters = answers.private(&catalog, &mk_sidecar(), ResourceType::Cluster, own);
    assert_eq!(clusters.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["inbound|8080||"]);
    let body = Cluster::decode(clusters[0].body().unwrap()).unwrap();
    assert_eq!(body.upstream_bind_config.unwrap().source_address.unwrap().address, "127.0.0.6");
    let listeners = answers.private(&catalog, &mk_sidecar(), ResourceType::Listener, own);
    let body = Listener::decode(listeners[0].body().unwrap()).unwrap();
    let ports: Vec<u32> = body
        .filter_chains
        .iter()
        .filter_map(|chain| chain.filter_chain_match.as_ref()?.destination_port.map(|port| port.value))
        .collect();
    assert_eq!(ports, [15006, 8080]);
    assert_eq!(leads_to(body.filter_chains.last().unwrap()), "cluster InboundPassthroughCluster");
    assert_eq!(body.default_filter_chain, None, "it would take what a known port does not accept");
    let none = answers.private(&catalog, &mk_envoy(), ResourceType::Listener, OwnSide::default());
    assert!(none.is_empty(), "a plain Envoy has no interceptor");
}

#[test]
fn grpc_target_may_name_an_alias() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let (name, end) = ("old.shop.svc.cluster.local", "pay.shop.svc.cluster.local");
    let grpc = mk_svc(end).on(&[(80, Protocol::Grpc)]);
    let catalog = world.next(&[grpc, mk_leading(name, end).on(&[])]);
    let class = mk_grpc("shop.svc.cluster.local");
    for target in ["old:80", "old.shop.svc.cluster.local:80"] {
        let found = answers.one(&catalog, &class, ResourceType::Listener, target).unwrap();
        assert_eq!(&*found.name, target);
        let body = Listener::decode(found.body().unwrap()).unwrap();
        let api = body.api_listener.unwrap().api_listener.unwrap();
        let manager = HttpConnectionManager::decode(&api.value[..]).unwrap();
        let Some(RouteSpecifier::Rds(rds)) = manager.route_specifier else { panic!() };
        assert_eq!(rds.route_config_name, format!("outbound|80||{end}"));
    }
    assert!(answers.one(&catalog, &class, ResourceType::Listener, "old:81").is_none());
    let dangling = world.next(&[mk_leading(name, end).on(&[])]);
    assert!(answers.one(&dangling, &class, ResourceType::Listener, "old:80").is_none());
}

#[test]
fn grpc_target_is_served_under_the_requested_name() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let host = "pay.shop.svc.cluster.local";
    let catalog = world.next(&[mk_svc(host).on(&[(80, Protocol::Grpc), (53, Protocol::Udp)])]);
    let class = mk_grpc("shop.svc.cluster.local");
    let route = format!("outbound|80||{host}");
    for target in ["pay:80", "pay.shop:80", "pay.shop.svc.cluster.local:80", "PAY.shop:80"] {
        let found = answers.one(&catalog, &class, ResourceType::Listener, target).unwrap();
        let body = Listener::decode(found.body().unwrap()).unwrap();
        let api = body.api_listener.unwrap().api_listener.unwrap();
        let manager = HttpConnectionManager::decode(&api.value[..]).unwrap();
        let Some(RouteSpecifier::Rds(rds)) = manager.route_specifier else { panic!("{target}: no routes") };
        assert_eq!((body.name.as_str(), rds.route_config_name.as_str()), (target, route.as_str()));
        assert_eq!(manager.http_filters.last().unwrap().name, "envoy.filters.http.router");
    }
    for target in ["pay:81", "pay:53", "cart:80", "pay", ":80", "pay:080x"] {
        assert!(answers.one(&catalog, &class, ResourceType::Listener, target).is_none(), "{target}");
    }
    let table = answers.one(&catalog, &class, ResourceType::Route, &route).unwrap();
    let table = RouteConfiguration::decode(table.body().unwrap()).unwrap();
    assert_eq!(table.virtual_hosts[0].domains, ["*"], "whatever the target is called");
    let all = answers.all(&catalog, &class, ResourceType::Listener);
    assert_eq!(names_of(&all), [format!("{host}:80")]);
}

#[test]
fn endpoint_change_touches_no_api_listener() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let services =
        |ip: &str| ["a.shop", "b.shop"].map(|host| mk_svc(host).on(&[(80, Protocol::Tcp)]).at(&[ip]));
    let class = mk_grpc("shop.svc.cluster.local");
    let mut first = world.next(&services("10.0.0.1"));
    for kind in [ResourceType::Listener, ResourceType::Route] {
        assert_eq!(answers.folded(&first, &class, kind).set.len(), 2, "{kind:?}");
    }
    let encodes =
        || [ResourceType::Listener, ResourceType::Route].map(|kind| answers.counters().encodes(kind));
    for n in 2..5 {
        let second = world.next(&services(&format!("10.0.0.{n}")));
        for kind in [ResourceType::Listener, ResourceType::Route] {
            assert!(answers.changed(&first, &second, &class, kind).is_empty(), "{kind:?}");
        }
        first = second;
    }
    assert_eq!(encodes(), [2, 2]);
}

#[test]
fn only_an_unambiguous_target_has_a_host() {
    let answers = CatalogAnswers::default();
    let class = mk_grpc("shop.svc.cluster.local");
    let host = |name| answers.host_of(&class, ResourceType::Listener, name).map(|h| h.to_string());
    assert_eq!(host("pay.shop.svc.cluster.local:80").as_deref(), Some("pay.shop.svc.cluster.local"));
    assert_eq!(host("pay:80"), None, "it may mean a different host in the next generation");
    let plain = mk_class(ClientKind::Grpc, "");
    assert_eq!(
        answers.host_of(&plain, ResourceType::Listener, "pay:80").map(|h| h.to_string()).as_deref(),
        Some("pay")
    );
}

fn mk_sidecar_of(families: (bool, bool)) -> ClientClassKey {
    ClientClassKey::alone(ClientClass { families, ..ClientClass::new(ClientKind::Sidecar) })
}

#[test]
fn sidecar_listens_on_each_of_its_families() {
    let (catalog, answers) = (World::default().next(&[mk_svc("pay.shop")]), CatalogAnswers::default());
    let ip = |address: Option<&Address>| match &address.unwrap().address {
        Some(address::Address::SocketAddress(socket)) => socket.address.clone(),
        other => panic!("{other:?}"),
    };
    for (families, wanted) in
        [((true, false), &["0.0.0.0"][..]), ((false, true), &["::"]), ((true, true), &["0.0.0.0", "::"])]
    {
        let class = mk_sidecar_of(families);
        let set = answers.all(&catalog, &class, ResourceType::Listener);
        let inbound = answers.private(&catalog, &class, ResourceType::Listener, OwnSide::default());
        let all: Vec<_> = set.members().iter().chain(&inbound).collect();
        assert_eq!(all.len(), 3, "one of the port, virtualOutbound, virtualInbound");
        for listener in all {
            let body = Listener::decode(listener.body().unwrap()).unwrap();
            let also = body.additional_addresses.iter().map(|more| ip(more.address.as_ref()));
            let listens: Vec<String> = [ip(body.address.as_ref())].into_iter().chain(also).collect();
            assert_eq!(listens, wanted, "{}", listener.name);
        }
    }
}

#[test]
fn inbound_connections_come_from_an_address_of_each_family() {
    let catalog = World::default().next(&[mk_svc("pay.shop")]);
    let (catalog, own) = mk_with_workload(&catalog, "10.0.0.1", &["pay.shop"]);
    let answers = CatalogAnswers::default();
    for (families, wanted) in [
        ((true, false), &["127.0.0.6"][..]),
        ((false, true), &["::6"]),
        ((true, true), &["127.0.0.6", "::6"]),
    ] {
        let (class, kind) = (mk_sidecar_of(families), ResourceType::Cluster);
        let all = answers.all(&catalog, &class, kind);
        let own = OwnSide { workloads: std::slice::from_ref(&own), ips: &[] };
        let mut inbound = answers.private(&catalog, &class, kind, own);
        inbound.extend(all.get("InboundPassthroughCluster").cloned());
        assert_eq!(inbound.len(), 2);
        for cluster in inbound {
            let body = Cluster::decode(cluster.body().unwrap()).unwrap();
            let bind = body.upstream_bind_config.unwrap();
            let extra = bind.extra_source_addresses.iter().filter_map(|extra| extra.address.as_ref());
            let from: Vec<&str> =
                bind.source_address.iter().chain(extra).map(|source| source.address.as_str()).collect();
            assert_eq!(from, wanted, "{}", cluster.name);
        }
    }
}

#[test]
fn dns_answers_follow_the_clients_families() {
    let dns = Svc { names: vec!["db.example".into()], ..mk_svc("db.shop").resolved(Resolution::DnsStrict) };
    let (catalog, answers) = (World::default().next(&[dns]), CatalogAnswers::default());
    for (families, wanted) in [
        ((true, false), DnsLookupFamily::V4Preferred),
        ((true, true), DnsLookupFamily::V4Preferred),
        ((false, true), DnsLookupFamily::Auto),
    ] {
        let class = mk_sidecar_of(families);
        let found = answers.one(&catalog, &class, ResourceType::Cluster, "outbound|80||db.shop").unwrap();
        let body = Cluster::decode(found.body().unwrap()).unwrap();
        assert_eq!(body.dns_lookup_family(), wanted, "{families:?}");
        let in_set = answers.all(&catalog, &class, ResourceType::Cluster);
        assert_eq!(in_set.get(&found.name).map(|in_set| in_set.version), Some(found.version));
    }
}
