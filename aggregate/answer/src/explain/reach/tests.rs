//! What leads to a port: kinds of services by kinds of clients.

use std::sync::Arc;

use tributary_model::*;

use super::*;
use crate::explain::subsets::subsets_with;
use crate::explain::{WhyNot, explain, why_not};
use crate::fixtures::*;
use crate::{Client, ClientClass, Takes};

/// Port 80 of `shop/pay.shop` as the core builds it.
struct Kind {
    protocol: Protocol,
    resolution: Resolution,
    addresses: &'static [&'static str],
    endpoints: &'static [&'static str],
}

const TCP: Kind = Kind {
    protocol: Protocol::Tcp,
    resolution: Resolution::ClientSide,
    addresses: &["10.9.0.1"],
    endpoints: &["10.0.0.1"],
};

fn mk_endpoints(kind: &Kind) -> EndpointInputs {
    let addresses = kind.endpoints.iter().map(|at| match at.parse::<std::net::IpAddr>() {
        Ok(_) => mk_address(at),
        Err(_) => Address::new(AddressRef::Name(0), Arc::default()),
    });
    let facts = mk_facts(vec![mk_source("east", mk_group("a", &["db.example.com"], addresses.collect()))]);
    EndpointInputs { resolution: kind.resolution.clone(), ..facts }
}

fn mk_catalog_of(kind: &Kind, host: &str) -> Catalog {
    let facts = EndpointInputs { service: mk_key(host, "shop"), ..mk_endpoints(kind) };
    let (dns, http) = (kind.resolution.is_dns(), kind.protocol.is_http());
    let matches = kind.addresses.is_empty() && !kind.endpoints.is_empty() && !http;
    let port = mk_port_view(facts);
    let inline = |when: bool| when.then(|| port.endpoints.clone());
    let address =
        |ip: &&str| ServiceAddress { cluster: None, ip: ip.parse().unwrap(), prefix: 32, allocated: false };
    let addresses: Arc<[ServiceAddress]> = kind.addresses.iter().map(address).collect();
    let cluster =
        ClusterInputs { protocol: kind.protocol, inline: inline(dns), ..port.cluster.inputs.clone() };
    let listener = ListenerInputs {
        protocol: kind.protocol,
        addresses: addresses.clone(),
        endpoints: inline(matches),
        ..port.listener.inputs.clone()
    };
    let route = RouteInputs { protocol: kind.protocol, addresses, ..port.route.inputs.clone() };
    let port = PortView {
        protocol: kind.protocol,
        cluster: Shared::new(ResourceInputs::new(cluster, ClientDimensions::KIND)),
        listener: Shared::new(ResourceInputs::new(listener, ClientDimensions::KIND)),
        route: Shared::new(ResourceInputs::new(route, ClientDimensions::KIND)),
        ..port.clone()
    };
    let view = ServiceView::clone(&mk_view(host, "shop", &[Visibility::Public]));
    Catalog { complete: true, ..mk_catalog(vec![Arc::new(ServiceView { ports: [port].into(), ..view })]) }
}

#[test]
fn connections_that_a_virtual_service_leads_elsewhere_do_not_reach_the_port() {
    let shown = |hosts: &[&str]| {
        let destination = |host: &&str| RouteDestination { host: mk_host(host), subset: None, port: None };
        let to = |host| L4Destination { destination: destination(host), weight: 1 };
        let route = TcpRoute { matches: Arc::default(), destinations: hosts.iter().map(to).collect() };
        let mut catalog = mk_catalog_of(&TCP, "pay.shop");
        let view = catalog.services().next().unwrap().clone();
        let port = &view.ports[0];
        let virtual_services = [mk_l4_candidate(L4Routes { tcp: [route].into(), ..L4Routes::default() })];
        let inputs =
            ListenerInputs { virtual_services: virtual_services.into(), ..port.listener.inputs.clone() };
        let listener = Shared::new(ResourceInputs::new(inputs, ClientDimensions::KIND));
        let port = PortView { listener, ..port.clone() };
        catalog =
            mk_catalog(vec![Arc::new(ServiceView { ports: [port].into(), ..ServiceView::clone(&view) })]);
        steps(&why_not(&catalog, "pay.shop", &mk_client(ClientKind::Sidecar)))
    };
    let reached =
        "TRB0534 port 80 (TCP): listener 10.9.0.1_80 leads connections to xDS cluster outbound|80||pay.shop";
    assert_eq!(shown(&["pay.shop"]), reached);
    assert_eq!(shown(&["b.test", "pay.shop"]), reached, "a share of them");
    let led = "TRB0532 port 80 (TCP): a VirtualService leads the connections of listener 10.9.0.1_80 to outbound|80||b.test";
    assert_eq!(shown(&["b.test"]), led);
}

/// Returns a catalog of a port 80 whose connections have these routes.
fn mk_routed(kind: &Kind, host: &str, routes: L4Routes) -> Catalog {
    let catalog = mk_catalog_of(kind, host);
    let view = catalog.services().next().unwrap().clone();
    let port = &view.ports[0];
    let inputs =
        ListenerInputs { virtual_services: [mk_l4_candidate(routes)].into(), ..port.listener.inputs.clone() };
    let port = PortView {
        listener: Shared::new(ResourceInputs::new(inputs, ClientDimensions::KIND)),
        ..port.clone()
    };
    mk_catalog(vec![Arc::new(ServiceView { ports: [port].into(), ..ServiceView::clone(&view) })])
}

fn mk_to(host: &str, subset: Option<&str>) -> L4Destination {
    let subset = subset.and_then(Subset::new);
    L4Destination { destination: RouteDestination { host: mk_host(host), subset, port: None }, weight: 1 }
}

#[test]
fn connections_to_subsets_of_a_port_reach_it() {
    let all = [mk_to("pay.shop", Some("v1")), mk_to("pay.shop", Some("v2"))];
    let route = TcpRoute { matches: Arc::default(), destinations: all.into() };
    let catalog = mk_routed(&TCP, "pay.shop", L4Routes { tcp: [route].into(), ..L4Routes::default() });
    let reached = "TRB0534 port 80 (TCP): listener 10.9.0.1_80 leads connections to xDS clusters outbound|80|v1|pay.shop, \
                   outbound|80|v2|pay.shop";
    let client = mk_client(ClientKind::Sidecar);
    assert_eq!(steps(&why_not(&catalog, "pay.shop", &client)), reached);
    let view = catalog.services().next().unwrap().clone();
    assert_eq!(connected_subsets(&view.ports[0], &client.class).len(), 2);
}

#[test]
fn connections_of_tls_that_are_led_elsewhere_are_those_of_the_host() {
    let route = |sni: &str, to: &str| TlsRoute {
        matches: [TlsMatch {
            names: [HostPattern::new(sni).unwrap()].into(),
            connection: L4Match::default(),
        }]
        .into(),
        destinations: [mk_to(to, None)].into(),
    };
    let tls = Kind { protocol: Protocol::Tls, ..TCP };
    let routes = [route("other.shop", "b.test"), route("pay.shop", "c.test")];
    let catalog = mk_routed(&tls, "pay.shop", L4Routes { tls: routes.into(), ..L4Routes::default() });
    let found = steps(&why_not(&catalog, "pay.shop", &mk_client(ClientKind::Sidecar)));
    assert!(found.contains("(server name pay.shop) to outbound|80||c.test"), "{found}");
}

#[test]
fn sidecar_without_listeners_of_this_server_has_its_own() {
    let http = Kind { protocol: Protocol::Http, ..TCP };
    let own = "TRB0534 port 80 (TCP): listeners are the client's own; it receives xDS cluster outbound|80||pay.shop";
    let table = "TRB0534 port 80 (HTTP): route table 80 leads requests for pay.shop to xDS cluster outbound|80||pay.shop";
    let rows = [
        (
            &http,
            Takes::Clusters,
            "TRB0534 port 80 (HTTP): listeners and routes are the client's own; it receives xDS cluster outbound|80||pay.shop",
        ),
        (&TCP, Takes::Routes, own),
        (&http, Takes::Routes, table),
    ];
    for (kind, takes, want) in rows {
        let client = Client { takes, ..mk_client(ClientKind::Sidecar) };
        assert_eq!(steps(&why_not(&mk_catalog_of(kind, "pay.shop"), "pay.shop", &client)), want);
    }
}

#[test]
fn routes_of_connections_are_not_those_of_a_client_with_its_own_listeners() {
    let route = TcpRoute { matches: Arc::default(), destinations: [mk_to("pay.shop", Some("v1"))].into() };
    let catalog = mk_routed(&TCP, "pay.shop", L4Routes { tcp: [route].into(), ..L4Routes::default() });
    let client = Client { takes: Takes::Routes, ..mk_client(ClientKind::Sidecar) };
    let found = steps(&why_not(&catalog, "pay.shop", &client));
    assert!(
        found.ends_with("listeners are the client's own; it receives xDS cluster outbound|80||pay.shop"),
        "{found}"
    );
    let port = &catalog.services().next().unwrap().ports[0];
    assert!(subsets_with(port, &client, "10.0.0.1:8080").is_empty());
}

fn mk_client(kind: ClientKind) -> Client {
    Client {
        class: ClientClass { namespace: Some(mk_ns("web")), ..ClientClass::new(kind) },
        ..Client::new("c", kind)
    }
}

fn asked(kind: &Kind, host: &str, client: ClientKind) -> WhyNot {
    why_not(&mk_catalog_of(kind, host), host, &mk_client(client))
}

/// Returns the steps of why-not that are about the port, as `TRB0534 …`, and whether the client reaches it.
fn explained_port(kind: &Kind, host: &str, client: ClientKind) -> (String, bool) {
    let out = asked(kind, host, client);
    (steps(&out), !out.reached.is_empty())
}

fn steps(out: &WhyNot) -> String {
    let reached = out.reached.iter().map(|step| format!("{} {}", step.code, step.detail));
    let dropped = out
        .reasons
        .iter()
        .flat_map(|reason| reason.dropped.iter().map(move |one| format!("{} {}", reason.code, one.detail)));
    reached.chain(dropped).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_kind_of_service_names_what_leads_to_it() {
    use ClientKind::{Envoy, Grpc, Sidecar};
    let http = Kind { protocol: Protocol::Http, ..TCP };
    let headless = Kind { addresses: &[], endpoints: &["10.0.0.1", "10.0.0.2"], ..TCP };
    let none = Kind { resolution: Resolution::Passthrough, addresses: &[], endpoints: &[], ..TCP };
    let http_none = Kind {
        protocol: Protocol::Http,
        resolution: Resolution::Passthrough,
        addresses: &[],
        endpoints: &[],
    };
    let headless_none = Kind { resolution: Resolution::Passthrough, addresses: &[], ..TCP };
    let tls =
        Kind { protocol: Protocol::Tls, addresses: &[], endpoints: &[], resolution: Resolution::Passthrough };
    let dynamic = Kind { resolution: Resolution::Dynamic, endpoints: &[], ..http_none };
    let empty = Kind { endpoints: &[], ..TCP };
    let named =
        Kind { resolution: Resolution::DnsStrict, addresses: &[], endpoints: &["db.example.com"], ..TCP };
    let udp = Kind { protocol: Protocol::Udp, ..TCP };
    let rows: &[(&Kind, &str, ClientKind, bool, &str)] = &[
        (
            &TCP,
            "pay.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (TCP): listener 10.9.0.1_80 leads connections to xDS cluster outbound|80||pay.shop",
        ),
        (
            &TCP,
            "pay.shop",
            Grpc,
            true,
            "TRB0534 port 80 (TCP): target pay.shop:80 leads to xDS cluster outbound|80||pay.shop",
        ),
        (
            &TCP,
            "pay.shop",
            Envoy,
            true,
            "TRB0534 port 80 (TCP): listeners and routes are the client's own; it receives xDS cluster outbound|80||pay.shop",
        ),
        (
            &http,
            "pay.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (HTTP): listener 0.0.0.0_80 leads requests for pay.shop by route table 80 to xDS cluster outbound|80||pay.shop",
        ),
        (
            &headless,
            "pay.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (TCP): listeners 10.0.0.1_8080, 10.0.0.2_8080 lead connections to xDS cluster outbound|80||pay.shop",
        ),
        (
            &headless_none,
            "pay.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (TCP): listener 10.0.0.1_8080 leads connections to xDS cluster outbound|80||pay.shop, which keeps the destination of each connection",
        ),
        (
            &headless_none,
            "pay.shop",
            Grpc,
            true,
            "TRB0534 port 80 (TCP): target pay.shop:80 leads to xDS cluster outbound|80||pay.shop",
        ),
        (
            &none,
            "pay.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (TCP): listener 0.0.0.0_80 leads connections to xDS cluster outbound|80||pay.shop, which keeps the destination of each connection",
        ),
        (
            &none,
            "pay.shop",
            Grpc,
            false,
            "TRB0538 port 80 (TCP): gRPC cannot keep the destination of a connection, as resolution NONE without endpoints needs",
        ),
        (
            &http_none,
            "*.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (HTTP): listener 0.0.0.0_80 leads requests for *.shop by route table 80 to xDS cluster outbound|80||*.shop, which keeps the destination of each connection",
        ),
        (
            &tls,
            "*.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (TLS): listener 0.0.0.0_80 (server name *.shop) leads connections to xDS cluster outbound|80||*.shop, which keeps the destination of each connection",
        ),
        (
            &dynamic,
            "*.shop",
            Sidecar,
            true,
            "TRB0534 port 80 (HTTP): listener 0.0.0.0_80 leads requests for *.shop by route table 80 to xDS cluster outbound|80||*.shop, which resolves the host of each request",
        ),
        (
            &dynamic,
            "*.shop",
            Grpc,
            false,
            "TRB0538 shop/*.shop: gRPC cannot resolve the host of each request, as DYNAMIC_DNS needs",
        ),
        (&empty, "pay.shop", Sidecar, false, "TRB0535 port 80 (TCP): no source lists an endpoint"),
        (&empty, "pay.shop", Envoy, false, "TRB0535 port 80 (TCP): no source lists an endpoint"),
        (
            &named,
            "pay.shop",
            Sidecar,
            false,
            "TRB0537 port 80 (TCP): it has no virtual address that the client uses, no endpoint with an IP address that the client uses, and no host in its protocol, so no listener of the client matches its connections",
        ),
        (
            &named,
            "pay.shop",
            Grpc,
            true,
            "TRB0534 port 80 (TCP): target pay.shop:80 leads to xDS cluster outbound|80||pay.shop, whose names the client resolves",
        ),
        (
            &udp,
            "pay.shop",
            Sidecar,
            false,
            "TRB0536 shop/pay.shop: port 80 is UDP: clients receive nothing for it, and its traffic does not pass through them",
        ),
        (
            &udp,
            "pay.shop",
            Grpc,
            false,
            "TRB0536 shop/pay.shop: port 80 is UDP: clients receive nothing for it, and its traffic does not pass through them",
        ),
        (
            &udp,
            "pay.shop",
            Envoy,
            false,
            "TRB0536 shop/pay.shop: port 80 is UDP: clients receive nothing for it, and its traffic does not pass through them",
        ),
    ];
    for (kind, host, client, reached, sentence) in rows {
        assert_eq!(explained_port(kind, host, *client), ((*sentence).to_owned(), *reached));
    }
}

#[test]
fn headless_service_without_endpoints_is_not_for_another_kind_of_client() {
    let none = Kind { resolution: Resolution::Passthrough, addresses: &[], endpoints: &[], ..TCP };
    let catalog = mk_catalog_of(&none, "pay.shop");
    let view = catalog.services().next().unwrap().clone();
    let port = &view.ports[0];
    let headless = RouteInputs { headless: true, ..port.route.inputs.clone() };
    let route = Shared::new(ResourceInputs::new(headless, ClientDimensions::KIND));
    let port = PortView { route, ..port.clone() };
    let catalog =
        mk_catalog(vec![Arc::new(ServiceView { ports: [port].into(), ..ServiceView::clone(&view) })]);
    let out = why_not(&catalog, "pay.shop", &mk_client(ClientKind::Grpc));
    assert_eq!(steps(&out), "TRB0535 port 80 (TCP): no source lists an endpoint");
}

#[test]
fn port_without_resources_serves_no_endpoint() {
    let udp = Kind { protocol: Protocol::Udp, ..TCP };
    assert_eq!(asked(&udp, "pay.shop", ClientKind::Sidecar).served, 0);
    let (catalog, client) = (mk_catalog_of(&udp, "pay.shop"), mk_client(ClientKind::Grpc));
    let explained = explain(&catalog, &"10.0.0.1".parse().unwrap(), Some(&client)).remove(0);
    assert_eq!(explained.verdict, crate::explain::Outcome::Dropped);
    assert!(explained.steps.iter().any(|step| step.code == Code::UDP_NOT_SERVED), "{explained:?}");
    let explained = explain(&catalog, &"10.0.0.1".parse().unwrap(), None).remove(0);
    assert_eq!(explained.verdict, crate::explain::Outcome::Dropped, "no client of any kind receives it");
    assert!(explained.steps.iter().any(|step| step.code == Code::UDP_NOT_SERVED), "{explained:?}");
    let explained =
        explain(&mk_catalog_of(&TCP, "pay.shop"), &"10.0.0.1".parse().unwrap(), Some(&client)).remove(0);
    assert_eq!(explained.verdict, crate::explain::Outcome::Served);
    assert_eq!(explained.steps.last().map(|step| step.code), Some(Code::REACHED));
}

#[test]
fn endpoints_of_connections_that_keep_their_destination_are_in_the_cluster() {
    let carried = |kind: &Kind, client| {
        let catalog = mk_catalog_of(kind, "pay.shop");
        let view = catalog.services().next().unwrap().clone();
        carrier(&view.ports[0], None, &ClientClass::new(client))
    };
    let headless = Kind { resolution: Resolution::Passthrough, addresses: &[], ..TCP };
    assert_eq!(carried(&TCP, ClientKind::Sidecar), Some(Carrier::Endpoints));
    assert_eq!(carried(&headless, ClientKind::Sidecar), Some(Carrier::Destination));
    assert_eq!(carried(&headless, ClientKind::Grpc), Some(Carrier::Endpoints));
    assert_eq!(carried(&Kind { protocol: Protocol::Udp, ..TCP }, ClientKind::Sidecar), None);
}

#[test]
fn alias_and_host_of_a_wildcard_name_the_service_that_serves_them() {
    let mut catalog = mk_catalog_of(&TCP, "pay.shop");
    catalog
        .hosts
        .extend(mk_catalog(vec![mk_alias("old.shop", "pay.shop"), mk_alias("lost.shop", "gone.shop")]).hosts);
    let explained_port = |host: &str| {
        let out = why_not(&catalog, host, &mk_client(ClientKind::Sidecar));
        let steps: Vec<_> = out.reached.iter().map(|step| format!("{} {}", step.code, step.detail)).collect();
        (
            out.served,
            steps[0].clone(),
            out.reasons.iter().map(|reason| reason.code.number()).collect::<Vec<_>>(),
        )
    };
    let alias = |of: &str, target: &str| {
        format!("TRB0539 shop/{of}: is an alias of {target}, whose listeners and routes take its traffic")
    };
    assert_eq!(explained_port("old.shop"), (1, alias("old.shop", "pay.shop"), Vec::new()));
    let outside = "TRB0539 shop/lost.shop: is an alias of gone.shop, which no source declares; connections to it are \
                   those to an unknown host";
    assert_eq!(explained_port("lost.shop"), (0, outside.to_owned(), vec![524]));
    let out = why_not(&catalog, "old.shop", &mk_client(ClientKind::Grpc));
    let details: Vec<&str> = out.reached.iter().map(|step| step.detail.as_str()).collect();
    let target = "port 80 (TCP): target old.shop:80 leads to xDS cluster outbound|80||pay.shop";
    assert!(details.contains(&target), "{details:?}");
    let catalog =
        mk_catalog_of(&Kind { endpoints: &[], resolution: Resolution::Passthrough, ..TCP }, "*.shop");
    let out = why_not(&catalog, "a.b.shop", &mk_client(ClientKind::Sidecar));
    assert_eq!(
        (out.host.as_str(), out.reasons.len(), out.served, out.any_destination),
        ("*.shop", 0, 0, true)
    );
    let detail = "no source declares a.b.shop itself; *.shop matches it";
    assert_eq!((out.reached[0].code, out.reached[0].detail.as_str()), (Code::WILDCARD, detail));
    let grpc = why_not(&catalog, "a.b.shop", &mk_client(ClientKind::Grpc));
    assert_eq!((grpc.reached[0].code, grpc.served, grpc.any_destination), (Code::WILDCARD, 0, false));
    let reasons: Vec<(Code, &str)> =
        grpc.reasons.iter().map(|reason| (reason.code, &*reason.dropped[0].detail)).collect();
    let detail = "gRPC requests the listener of a.b.shop by name, and only a declared host has one";
    assert_eq!(reasons, [(Code::NO_TARGET_OF_WILDCARD, detail)]);
    let other = why_not(&catalog, "a.b.shops", &mk_client(ClientKind::Sidecar));
    assert_eq!(other.reasons[0].code, Code::NO_SUCH_HOST);
}

#[test]
fn what_the_client_was_not_sent_is_forgotten_by_port() {
    let mut out = asked(&TCP, "pay.shop", ClientKind::Sidecar);
    out.forget_reach(mk_port(8));
    assert_eq!(out.reached.len(), 1);
    out.forget_reach(mk_port(80));
    assert!(out.reached.is_empty());
}

#[test]
fn unread_endpoints_are_not_called_missing() {
    let mut catalog = mk_catalog_of(&Kind { endpoints: &[], ..TCP }, "pay.shop");
    add_unread(&mut catalog, CollectionKind::Groups);
    let out = why_not(&catalog, "pay.shop", &mk_client(ClientKind::Sidecar));
    let codes: Vec<Code> = out.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [Code::ENDPOINTS_UNREAD]);
}
