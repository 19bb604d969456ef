//! Plans the virtual host of one service port in sidecars' route tables, and the whole route table of a
//! gRPC client (RDS; `docs/reference/xds.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ClientKind, DelegateRef, HashKey, Hostname, HttpRetries, HttpRoute, PolicyKey, Projection, Protocol,
    Resolution, RouteDestination, RouteInputs, RoutePosition,
};

use crate::grpc_route::{GrpcGap, grpc_routes};
use crate::http_route::{RouteContext, RoutePlan, Routes, Target, declared_routes};
use crate::names::ClusterName;
use crate::vip::{short_forms, vips};
use crate::virtual_service::{Chosen, chosen, owner};

/// Where a route is declared, and the delegate that declares it.
pub(crate) type DeclaredAt<'f> = (RoutePosition, Option<&'f DelegateRef>);

/// Virtual host: requests for its domains go to its xDS cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VirtualHostPlan {
    /// Name: `pay.shop:80`.
    pub name: String,
    /// Host names in lower case, each once, the most exact name of the service first.
    pub domains: Vec<String>,
    /// Virtual addresses as hosts of requests, none of them in `domains`.
    pub addresses: Vec<String>,
    /// Name of the xDS cluster.
    pub cluster: String,
    /// Whether the proxy resolves each request's host itself (wildcard hosts).
    pub dynamic: bool,
    /// Retries of requests by the default route; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// Property of requests that decides their endpoint on the default route.
    pub hash: Option<Arc<HashKey>>,
    /// Routes of its requests.
    pub routes: Routes,
    /// VirtualService that the routes are from.
    pub rule: Option<PolicyKey>,
}

impl VirtualHostPlan {
    /// Returns the names and addresses that the service itself claims, in order.
    pub fn claims(&self) -> impl Iterator<Item = &String> {
        self.domains.iter().chain(&self.addresses)
    }
    /// Returns the virtual host with the domains that remain to it: those of its own that `owns` admits, and those of
    /// aliases.
    #[must_use]
    pub fn with_claims(
        &self,
        owns: impl Fn(&str) -> bool,
        of_aliases: impl IntoIterator<Item = String>,
    ) -> Self {
        let own = |all: &[String]| all.iter().filter(|domain| owns(domain)).cloned().collect::<Vec<_>>();
        let domains = own(&self.domains).into_iter().chain(of_aliases).collect();
        Self { domains, addresses: own(&self.addresses), ..self.clone() }
    }
    /// Whether no domain leads to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.addresses.is_empty()
    }
}

/// Plans the virtual host of a service port in the port's route table, with everything that the service itself claims;
/// `None` unless the protocol is or may be HTTP. An alias and a host without a service have one only with routes of a
/// VirtualService.
#[must_use]
pub fn route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let no_sidecar = matches!(client.kind, Some(ClientKind::Envoy | ClientKind::Grpc | ClientKind::Router));
    let virtual_addresses = vips(&facts.addresses, client);
    // A virtual address leads to a port without a protocol by itself.
    let detects = facts.protocol == Protocol::Unspecified && virtual_addresses.is_empty();
    if no_sidecar || !(facts.protocol.is_http() || detects) {
        return None;
    }
    let routes = routes(facts, client).map_or(Routes::Default, |routes| Routes::Of(routes.into()));
    let is_alias = matches!(facts.resolution, Resolution::Alias(_));
    if routes == Routes::Default && (is_alias || !facts.has_service) {
        return None;
    }
    let domain = client.domain.as_ref().and_then(|d| d.as_deref());
    let domains = match facts.has_service {
        true => names_of(&facts.service.host, domain, facts.headless),
        false => vec![facts.service.host.to_string()],
    };
    let mut seen: BTreeSet<String> = domains.iter().cloned().collect();
    let addresses = virtual_addresses.into_iter().filter(|a| a.is_host()).map(|a| authority(a.ip));
    let addresses = addresses.filter(|address| seen.insert(address.clone())).collect();
    let rule = owner_of_routes(facts, client).cloned();
    Some(VirtualHostPlan { domains, addresses, routes, rule, ..plan(facts, client) })
}

/// Whether gRPC clients have a route table for a port, and a listener that names it.
#[must_use]
pub fn has_grpc_route(facts: &RouteInputs) -> bool {
    let unroutable = matches!(facts.resolution, Resolution::Alias(_) | Resolution::Dynamic);
    facts.protocol != Protocol::Udp && !unroutable
}

/// Plans the single virtual host of the route table `outbound|80||pay.shop` that a gRPC client requests. It takes any
/// authority: the client has the table from the listener of its target, whatever name or alias the target has.
#[must_use]
pub fn grpc_route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let reduced = |routes: Vec<RoutePlan>| Routes::Of(grpc_routes(&routes).0.into());
    has_grpc_route(facts).then(|| VirtualHostPlan {
        domains: vec!["*".to_owned()],
        routes: routes(facts, client).map_or(Routes::Default, reduced),
        ..plan(facts, client)
    })
}

/// Returns the VirtualService that serves a client; `None` if the client has the usual route.
pub(crate) fn owner_of_routes<'a>(facts: &'a RouteInputs, client: &Projection) -> Option<&'a PolicyKey> {
    routes(facts, client).and_then(|_| owner(facts, client))
}

/// Returns what a gRPC client lacks of the routes of the VirtualService that serves it, with where the routes that have it are
/// declared.
pub(crate) fn grpc_gaps<'f>(
    facts: &'f RouteInputs,
    client: &Projection,
) -> BTreeMap<GrpcGap, BTreeSet<DeclaredAt<'f>>> {
    let mut out: BTreeMap<GrpcGap, BTreeSet<DeclaredAt<'f>>> = BTreeMap::new();
    let Some(chosen) = chosen(facts, client) else { return out };
    for (route, plan) in planned(&chosen, facts, client) {
        for gap in grpc_routes(std::slice::from_ref(&plan)).1 {
            out.entry(gap).or_default().insert((route.position, route.delegate.as_deref()));
        }
    }
    out
}

/// Returns the name of each route of [`grpc_route`], in order, with the delegate that declares it.
pub(crate) fn grpc_delegates(
    facts: &RouteInputs,
    client: &Projection,
) -> Vec<(Arc<str>, Option<Arc<DelegateRef>>)> {
    let Some(chosen) = chosen(facts, client) else { return Vec::new() };
    let all = planned(&chosen, facts, client).into_iter();
    let is_used = |plan: &RoutePlan| !grpc_routes(std::slice::from_ref(plan)).0.is_empty();
    let used = all.map(|(_, plan)| plan).filter(is_used);
    used.map(|plan| (plan.name, plan.delegate)).collect()
}

/// Plans the routes of the VirtualService that serves a client; `None` if no VirtualService does.
fn routes(facts: &RouteInputs, client: &Projection) -> Option<Vec<RoutePlan>> {
    let planned = planned(&chosen(facts, client)?, facts, client);
    let plans: Vec<RoutePlan> = planned.into_iter().map(|(_, plan)| plan).collect();
    Some(plans).filter(|routes| !routes.is_empty())
}

/// Plans chosen routes, each with the one that it is planned from.
fn planned<'f>(
    chosen: &Chosen<'f>,
    facts: &RouteInputs,
    client: &Projection,
) -> Vec<(&'f HttpRoute, RoutePlan)> {
    let context = RouteContext {
        port: facts.port,
        retries: facts.retries.as_ref(),
        applies: &|at, _| chosen.applies.get(at).copied().unwrap_or_default(),
        resolve: &|destination| target(facts, client, destination),
    };
    declared_routes(chosen.routes, &context)
}

/// Returns the xDS clusters to which the VirtualService that serves a client leads requests; `None` if no VirtualService does.
/// They need not exist.
pub(crate) fn targets(facts: &RouteInputs, client: &Projection) -> Option<BTreeSet<ClusterName>> {
    let all = routes(facts, client)?;
    let all = if client.kind == Some(ClientKind::Grpc) { grpc_routes(&all).0 } else { all };
    Some(all.iter().flat_map(RoutePlan::clusters).cloned().collect())
}

/// Returns those of [`targets`] that are of the port, those of subsets included.
pub(crate) fn own_targets(facts: &RouteInputs, client: &Projection) -> Option<BTreeSet<ClusterName>> {
    let mut all = targets(facts, client)?;
    all.retain(|to| to.host == facts.service.host && to.port == facts.port);
    Some(all)
}

fn target(facts: &RouteInputs, client: &Projection, destination: &RouteDestination) -> Target {
    let at = facts.destinations.binary_search_by(|known| known.destination.cmp(destination));
    let Some(known) = at.ok().and_then(|at| facts.destinations.get(at)) else {
        return Target::of(destination);
    };
    let namespace = client.namespace.as_ref().and_then(Option::as_ref);
    Target { host: known.host.clone(), hash: known.hash_on(facts.port, namespace).cloned() }
}

fn plan(facts: &RouteInputs, client: &Projection) -> VirtualHostPlan {
    VirtualHostPlan {
        name: format!("{}:{}", facts.service.host, facts.port),
        domains: Vec::new(),
        addresses: Vec::new(),
        cluster: ClusterName::new(facts.port, &facts.service.host).to_string(),
        dynamic: facts.resolution == Resolution::Dynamic,
        retries: facts.retries.clone(),
        hash: facts.hash_of(client.namespace.as_ref().and_then(Option::as_ref)).cloned(),
        routes: Routes::Default,
        rule: None,
    }
}

/// Returns the names by which clients of a DNS domain request a host, the most exact first, each once.
#[must_use]
pub fn names_of(host: &Hostname, domain: Option<&str>, headless: bool) -> Vec<String> {
    let mut out = vec![host.to_string(), format!("{host}.")];
    // A wildcard matches all names that end in it, and has no short forms.
    if !host.is_wildcard() {
        out.extend(short_forms(host.as_str(), domain).into_iter().map(str::to_owned));
        out.extend(headless.then(|| format!("*.{host}")));
    }
    out
}

/// Formats an address as a request's host.
fn authority(ip: IpAddr) -> String {
    if ip.is_ipv4() { ip.to_string() } else { format!("[{ip}]") }
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        ByNamespace, ClientDimensions, ClientMatch, HostPattern, HttpAction, HttpCandidate, HttpMatch,
        HttpRoute, PolicyKind, ResolvedDestination, ResourceInputs, RouteCandidate, RouteChoice,
        RouteDestination, RouteOwner, RoutePosition, RouteSettings, ServiceAddress, TextMatch, Visibility,
        WeightedDestination,
    };

    use super::*;
    use crate::client::ClientClass;
    use crate::fixtures::*;
    use crate::http_route::RouteAction;
    use crate::key::key;

    fn mk_route(host: &str, protocol: Protocol) -> RouteInputs {
        let ip = |ip: &str, prefix| {
            let ip = ip.parse().unwrap();
            ServiceAddress { cluster: None, ip, prefix, allocated: false }
        };
        RouteInputs {
            service: mk_key(host, "shop"),
            port: mk_port(80),
            protocol,
            resolution: Resolution::ClientSide,
            addresses: [ip("10.0.0.1", 32), ip("10.1.0.0", 16), ip("fd00::1", 128)].into(),
            headless: false,
            retries: None,
            hash: None,
            virtual_services: Arc::default(),
            destinations: Arc::default(),
            has_service: true,
        }
    }
    fn client(kind: ClientKind) -> Projection {
        Projection { domain: Some(Some("shop.svc.cluster.local".into())), ..mk_projection(kind) }
    }

    #[test]
    fn virtual_host_has_every_name_of_its_service() {
        let facts = mk_route("pay.shop.svc.cluster.local", Protocol::Http);
        let plan = route(&facts, &client(ClientKind::Sidecar)).unwrap();
        assert_eq!(plan.name, "pay.shop.svc.cluster.local:80");
        assert_eq!(plan.cluster, "outbound|80||pay.shop.svc.cluster.local");
        let want = [
            "pay.shop.svc.cluster.local",
            "pay.shop.svc.cluster.local.",
            "pay",
            "pay.shop",
            "pay.shop.svc",
            "10.0.0.1",
            "[fd00::1]",
        ];
        assert_eq!(plan.claims().collect::<Vec<_>>(), want);
        let left = plan.with_claims(|domain| domain.len() < 5, ["old.shop".to_owned()]);
        assert_eq!((left.domains, left.addresses), (vec!["pay".to_owned(), "old.shop".to_owned()], vec![]));
    }

    #[test]
    fn headless_and_wildcard_hosts_have_special_domains() {
        let mut facts = mk_route("db.example.com", Protocol::Http2);
        (facts.addresses, facts.headless) = (Arc::from([]), true);
        let plan = route(&facts, &client(ClientKind::Sidecar)).unwrap();
        assert_eq!(plan.domains, ["db.example.com", "db.example.com.", "*.db.example.com"]);
        let mut facts = mk_route("*.example.com", Protocol::Http);
        (facts.addresses, facts.resolution) = (Arc::from([]), Resolution::Dynamic);
        let plan = route(&facts, &client(ClientKind::Sidecar)).unwrap();
        assert_eq!(
            (plan.domains, plan.dynamic),
            (vec!["*.example.com".to_owned(), "*.example.com.".to_owned()], true)
        );
        assert!(!has_grpc_route(&facts), "gRPC has no forward proxy");
    }

    #[test]
    fn sidecars_route_http_only_and_grpc_all_but_udp() {
        let cases =
            [(Protocol::Http, true, true), (Protocol::Tcp, false, true), (Protocol::Udp, false, false)];
        for (protocol, sidecar, grpc) in cases {
            let facts = mk_route("pay.shop", protocol);
            assert_eq!(route(&facts, &client(ClientKind::Sidecar)).is_some(), sidecar, "{protocol:?}");
            assert_eq!(has_grpc_route(&facts), grpc, "{protocol:?}");
        }
        let mut alias = mk_route("pay.shop", Protocol::Http);
        alias.resolution = Resolution::Alias(mk_host("b.shop"));
        assert!(route(&alias, &client(ClientKind::Sidecar)).is_none());
    }

    #[test]
    fn grpc_table_takes_any_authority() {
        let facts = mk_route("pay.shop.svc.cluster.local", Protocol::Grpc);
        let plan = grpc_route(&facts, &client(ClientKind::Grpc)).unwrap();
        assert_eq!((plan.claims().count(), &*plan.domains, plan.dynamic), (1, &["*".to_owned()][..], false));
    }
    fn mk_candidate(matches: Vec<HttpMatch>) -> HttpCandidate {
        let destination = RouteDestination { host: mk_host("b.test"), subset: None, port: None };
        let to = WeightedDestination { destination, weight: 0, headers: None };
        let route = HttpRoute {
            name: "r".into(),
            matches: matches.into(),
            action: HttpAction::Route([to].into()),
            settings: RouteSettings::default(),
            delegate: None,
            position: RoutePosition::default(),
        };
        let key = PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns("shop"), name: "v".into() };
        let host = HostPattern::new("pay.shop").unwrap();
        let (visibility, hosts) = (Visibility::Public, [host.clone()].into());
        let of = Arc::new(RouteOwner { key, visibility, hosts, delegates: Arc::default() });
        RouteCandidate { of, host, routes: [route].into() }
    }

    #[test]
    fn virtual_service_replaces_the_default_route() {
        let clients = ClientMatch { labels: [("app", "a")].into_iter().collect(), ..ClientMatch::default() };
        let of_clients = HttpMatch { clients, name: "own".into(), ..HttpMatch::default() };
        let query = [("q".into(), TextMatch::Present)].into();
        let of_query = HttpMatch { query, name: "query".into(), ..HttpMatch::default() };
        let mut facts = mk_route("pay.shop", Protocol::Http);
        facts.virtual_services = [mk_candidate(vec![of_query, of_clients, HttpMatch::default()])].into();
        let served = |kind, fulfilled: Option<bool>| -> Vec<String> {
            let choice = fulfilled.map(|is| [RouteChoice { candidate: 0, fulfilled: [is].into() }].into());
            let client = Projection { choices: choice, ..client(kind) };
            let plan = match kind {
                ClientKind::Grpc => grpc_route(&facts, &client),
                ClientKind::Envoy | ClientKind::Sidecar | ClientKind::Router => route(&facts, &client),
            };
            match plan.unwrap().routes {
                Routes::Default => vec!["default".to_owned()],
                Routes::Of(routes) => routes.iter().map(|route| route.name.to_string()).collect(),
            }
        };
        assert_eq!(served(ClientKind::Sidecar, None), ["default"]);
        assert_eq!(served(ClientKind::Sidecar, Some(false)), ["r.query", "r"]);
        assert_eq!(served(ClientKind::Sidecar, Some(true)), ["r.query", "r.own"]);
        assert_eq!(served(ClientKind::Grpc, Some(false)), ["r"], "gRPC matches no query");
        assert_eq!(served(ClientKind::Grpc, None), ["default"]);
    }

    #[test]
    fn destination_has_the_end_of_its_alias_and_the_hash_of_its_rule() {
        let to = RouteDestination { host: mk_host("b.test"), subset: None, port: None };
        let header = |name: &str| Some(Arc::new(HashKey::Header(name.into())));
        let hash = Some(Arc::new(ByNamespace::new(header("usual"), [(mk_ns("shop"), header("own"))])));
        let mut facts = mk_route("pay.shop", Protocol::Http);
        facts.virtual_services = [mk_candidate(vec![])].into();
        let of_port = Some(Arc::new(ByNamespace::new(header("port"), [])));
        let resolved = ResolvedDestination {
            destination: to,
            host: mk_host("a.test"),
            hash,
            hash_of_ports: [(mk_port(81), of_port)].into(),
        };
        facts.destinations = [resolved].into();
        let dims = ClientDimensions::KIND | ClientDimensions::NAMESPACE;
        let node = ResourceInputs::new(facts, dims);
        let on_81 = ResourceInputs::new(RouteInputs { port: mk_port(81), ..node.inputs.clone() }, dims);
        let served_by = |node: &ResourceInputs<RouteInputs>, namespace| {
            let class = ClientClass { namespace, ..ClientClass::new(ClientKind::Sidecar) };
            let Routes::Of(routes) = route(&node.inputs, &key(node, &class)).unwrap().routes else {
                panic!("the default route")
            };
            let RouteAction::Forward(forward) = &routes[0].action else { panic!("no destination") };
            format!("{:?} {:?}", forward.targets, forward.hash)
        };
        let served = |namespace| served_by(&node, namespace);
        let (own, other) = (served(Some(mk_ns("shop"))), served(Some(mk_ns("web"))));
        assert!(own.contains("a.test") && own.ends_with(r#"[Header("own")]"#), "{own}");
        assert!(other.contains("a.test") && other.ends_with(r#"[Header("usual")]"#), "{other}");
        let of_port = served_by(&on_81, Some(mk_ns("shop")));
        assert!(of_port.ends_with(r#"[Header("port")]"#), "{of_port}");
    }
}
