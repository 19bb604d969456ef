//! VirtualServices in explanations: why a client has no route of one that names the host.

use super::*;

/// VirtualServices such as `a *.shop other`: name, host, and the namespace whose clients have its route, if not all.
fn mk_routed(all: &[&str]) -> Catalog {
    let parts = |text: &&str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = all.iter().map(parts).collect();
    let service = |of: &Vec<String>| VirtualService {
        hosts: [HostPattern::new(&of[1]).unwrap()].into(),
        export: ExportTo::default(),
        mesh: true,
        http: [mk_route(of.get(2).map(String::as_str))].into(),
        tls: Arc::default(),
        tcp: Arc::default(),
        ignored: Arc::default(),
    };
    let published = |of| (of, service(of));
    let published: Vec<_> = all.iter().map(published).collect();
    let candidate = |(of, service): &(&Vec<String>, VirtualService)| {
        let key = PolicyKey {
            kind: PolicyKind::VirtualService,
            namespace: mk_ns("shop"),
            name: of[0].as_str().into(),
        };
        let (visibility, hosts) = (Visibility::Public, Arc::clone(&service.hosts));
        let owner = RouteOwner { key, visibility, hosts, delegates: Arc::default() };
        RouteCandidate {
            of: Arc::new(owner),
            host: service.hosts[0].clone(),
            routes: Arc::clone(&service.http),
        }
    };
    let mut port = mk_port_view(mk_one(vec![mk_address("10.0.0.1")]));
    let virtual_services = published.iter().map(candidate).collect();
    let route = RouteInputs { virtual_services, ..port.route.inputs.clone() };
    let dims = ClientDimensions::KIND | ClientDimensions::NAMESPACE;
    port.route = Shared::new(ResourceInputs::new(route, dims));
    let view = mk_view("pay.shop", "shop", &[Visibility::Public]);
    let view = ServiceView { ports: [port].into(), ..Arc::into_inner(view).unwrap() };
    let policies = published
        .into_iter()
        .map(|(of, service)| mk_policy("shop", &of[0], Policy::VirtualService(service)))
        .collect();
    Catalog { complete: true, policies, ..mk_catalog(vec![Arc::new(view)]) }
}

/// Returns a route of every request, or of those of the clients of a namespace.
fn mk_route(of: Option<&str>) -> HttpRoute {
    let clients = |namespace| ClientMatch { namespace: Some(mk_ns(namespace)), ..ClientMatch::default() };
    let found = |namespace| HttpMatch { clients: clients(namespace), ..HttpMatch::default() };
    HttpRoute {
        name: "".into(),
        matches: of.map(found).into_iter().collect(),
        action: HttpAction::Route(Arc::default()),
        settings: RouteSettings::default(),
        delegate: None,
        position: RoutePosition::default(),
    }
}

/// Returns the lines of why-not about VirtualServices without a route for a client of the namespace `web`.
fn without_routes(all: &[&str]) -> Vec<String> {
    let reached = why_not(&mk_routed(all), "pay.shop", &mk_client("web")).reached;
    let empty = reached.into_iter().filter(|step| step.code == Code::ROUTES_EMPTY);
    empty.map(|step| format!("{}: {}", step.object.unwrap().name, step.detail)).collect()
}

#[test]
fn wildcard_behind_the_exact_host_names_what_precedes_it() {
    let none = "exact: port 80: none of its routes is for requests of the client";
    let behind = |why: &str| format!("wild: port 80: its routes do not count, because {why}");
    let exact = behind("VirtualService shop/exact names pay.shop exactly");
    assert_eq!(without_routes(&["exact pay.shop other", "wild *.shop"]), [none, &exact]);
    let both = behind("VirtualService shop/exact, VirtualService shop/next name pay.shop exactly");
    let next = "next: port 80: none of its routes is for requests of the client";
    assert_eq!(
        without_routes(&["exact pay.shop other", "next pay.shop other", "wild *.shop"]),
        [none, next, &both]
    );
    let longer = behind("VirtualService shop/longer names *y.shop, which precedes its own host");
    let none = "longer: port 80: none of its routes is for requests of the client";
    assert_eq!(without_routes(&["longer *y.shop other", "wild *.shop"]), [none, &longer]);
    assert_eq!(without_routes(&["exact pay.shop web", "wild *.shop"]), [""; 0], "the client has a route");
}
