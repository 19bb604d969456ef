//! Plans the virtual host of one service port in sidecars' route tables, and the whole route table of a
//! gRPC client (RDS; `docs/reference/xds.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    AliasHost, ClientKind, Hostname, HttpRetries, Projection, Protocol, Resolution, RouteInputs,
};

use crate::names::ClusterName;
use crate::vip::{short_forms, vips};

/// Virtual host: requests for its domains go to its xDS cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VirtualHostPlan {
    /// Name: `pay.shop:80`.
    pub name: String,
    /// Domains in lower case, each once, the most exact name of the service first.
    pub domains: Vec<String>,
    /// Domains that belong to an alias of the service, with the alias's host.
    pub alias_domains: BTreeMap<String, Hostname>,
    /// Name of the xDS cluster.
    pub cluster: String,
    /// Whether the proxy resolves each request's host itself (wildcard hosts).
    pub dynamic: bool,
    /// Retries of requests; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
}

/// Plans the virtual host of a service port in the port's route table; `None` unless the protocol is or may be HTTP.
#[must_use]
pub fn route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let no_sidecar = matches!(client.kind, Some(ClientKind::Envoy | ClientKind::Grpc));
    // A virtual address leads to a port without a protocol by itself.
    let detects = facts.protocol == Protocol::Unspecified && vips(&facts.addresses, client).is_empty();
    if no_sidecar
        || !(facts.protocol.is_http() || detects)
        || matches!(facts.resolution, Resolution::Alias(_))
    {
        return None;
    }
    let mut plan = plan(facts);
    add_domains(facts, client, &mut plan);
    Some(plan)
}

/// Plans the single virtual host of the route table `outbound|80||pay.shop` that a gRPC client requests.
/// gRPC matches the authority of its target, including the port if the target has one.
#[must_use]
pub fn grpc_route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let unroutable = matches!(facts.resolution, Resolution::Alias(_) | Resolution::Dynamic);
    if facts.protocol == Protocol::Udp || unroutable {
        return None;
    }
    let mut plan = plan(facts);
    add_domains(facts, client, &mut plan);
    let with_port: Vec<String> = plan.domains.iter().map(|d| format!("{d}:{}", facts.port)).collect();
    plan.domains.extend(with_port);
    Some(plan)
}

fn plan(facts: &RouteInputs) -> VirtualHostPlan {
    VirtualHostPlan {
        name: format!("{}:{}", facts.service.host, facts.port),
        domains: Vec::new(),
        alias_domains: BTreeMap::new(),
        cluster: ClusterName::new(facts.port, &facts.service.host).to_string(),
        dynamic: facts.resolution == Resolution::Dynamic,
        retries: facts.retries.clone(),
    }
}

/// Adds the domains, each once: clients reject a route table with a duplicate domain.
fn add_domains(facts: &RouteInputs, client: &Projection, plan: &mut VirtualHostPlan) {
    let domain = client.domain.as_ref().and_then(|d| d.as_deref());
    let mut seen = BTreeSet::new();
    let mut own = Vec::new();
    names_of(&facts.service.host, domain, facts.headless, &mut own);
    plan.domains.extend(own.into_iter().filter(|name| seen.insert(name.clone())));
    for alias in facts.aliases.iter().filter(|alias| sees(alias, client)) {
        let mut names = Vec::new();
        names_of(&alias.service.host, domain, facts.headless, &mut names);
        for name in names.into_iter().filter(|name| seen.insert(name.clone())) {
            plan.alias_domains.insert(name.clone(), alias.service.host.clone());
            plan.domains.push(name);
        }
    }
    let addresses = vips(&facts.addresses, client).into_iter().filter(|a| a.is_host());
    plan.domains.extend(addresses.map(|a| authority(a.ip)).filter(|name| seen.insert(name.clone())));
}

/// Whether this client sees an alias. Without a namespace in the projection all aliases are public.
fn sees(alias: &AliasHost, client: &Projection) -> bool {
    let namespace = client.namespace.as_ref().and_then(Option::as_ref);
    alias.visibility.admits(&alias.service.namespace, namespace)
}

fn names_of(host: &Hostname, domain: Option<&str>, headless: bool, out: &mut Vec<String>) {
    out.extend([host.to_string(), format!("{host}.")]);
    // A wildcard matches all names that end in it, and has no short forms.
    if host.is_wildcard() {
        return;
    }
    out.extend(short_forms(host.as_str(), domain).into_iter().map(str::to_owned));
    if headless {
        out.push(format!("*.{host}"));
    }
}

/// Formats an address as a request's host.
fn authority(ip: IpAddr) -> String {
    if ip.is_ipv4() { ip.to_string() } else { format!("[{ip}]") }
}

#[cfg(test)]
mod tests {
    use tributary_model::{ServiceAddress, Visibility};

    use super::*;
    use crate::fixtures::*;

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
            aliases: Arc::from([]),
            headless: false,
            retries: None,
        }
    }
    fn client(kind: ClientKind) -> Projection {
        Projection { domain: Some(Some("shop.svc.cluster.local".into())), ..mk_projection(kind) }
    }

    #[test]
    fn virtual_host_has_every_name_of_its_service() {
        let mut facts = mk_route("pay.shop.svc.cluster.local", Protocol::Http);
        facts.aliases = [mk_alias_host("checkout.example.com", Visibility::Public)].into();
        let plan = route(&facts, &client(ClientKind::Sidecar)).unwrap();
        assert_eq!(plan.name, "pay.shop.svc.cluster.local:80");
        assert_eq!(plan.cluster, "outbound|80||pay.shop.svc.cluster.local");
        let want = [
            "pay.shop.svc.cluster.local",
            "pay.shop.svc.cluster.local.",
            "pay",
            "pay.shop",
            "pay.shop.svc",
            "checkout.example.com",
            "checkout.example.com.",
            "10.0.0.1",
            "[fd00::1]",
        ];
        assert_eq!(plan.domains, want);
        let aliased: Vec<&str> = plan.alias_domains.keys().map(String::as_str).collect();
        assert_eq!(aliased, ["checkout.example.com", "checkout.example.com."]);
    }

    #[test]
    fn alias_is_a_domain_for_clients_that_see_it() {
        let mut facts = mk_route("pay.shop.svc.cluster.local", Protocol::Grpc);
        let web = Visibility::Namespaces([mk_ns("web")].into());
        facts.aliases = [mk_alias_host("checkout.example.com", web)].into();
        let has = |namespace: Option<&str>| {
            let namespace = Some(namespace.map(mk_ns));
            let client = Projection { namespace, ..client(ClientKind::Grpc) };
            let plan = grpc_route(&facts, &client).unwrap();
            plan.domains.iter().any(|domain| domain == "checkout.example.com:80")
        };
        assert_eq!([has(Some("web")), has(Some("shop")), has(None)], [true, false, false]);
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
        assert!(grpc_route(&facts, &client(ClientKind::Grpc)).is_none(), "gRPC has no forward proxy");
    }

    #[test]
    fn sidecars_route_http_only_and_grpc_all_but_udp() {
        let cases =
            [(Protocol::Http, true, true), (Protocol::Tcp, false, true), (Protocol::Udp, false, false)];
        for (protocol, sidecar, grpc) in cases {
            let facts = mk_route("pay.shop", protocol);
            assert_eq!(route(&facts, &client(ClientKind::Sidecar)).is_some(), sidecar, "{protocol:?}");
            assert_eq!(grpc_route(&facts, &client(ClientKind::Grpc)).is_some(), grpc, "{protocol:?}");
        }
        let mut alias = mk_route("pay.shop", Protocol::Http);
        alias.resolution = Resolution::Alias(mk_host("b.shop"));
        assert!(route(&alias, &client(ClientKind::Sidecar)).is_none());
    }

    #[test]
    fn grpc_target_matches_with_its_port() {
        let facts = mk_route("pay.shop.svc.cluster.local", Protocol::Grpc);
        let domains = grpc_route(&facts, &client(ClientKind::Grpc)).unwrap().domains;
        for target in ["pay", "pay:80", "pay.shop.svc.cluster.local:80", "10.0.0.1:80", "[fd00::1]:80"] {
            assert!(domains.iter().any(|d| d == target), "{target} is not among {domains:?}");
        }
    }
}
