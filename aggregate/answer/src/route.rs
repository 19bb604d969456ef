//! Plans the virtual host of one service port in sidecars' route tables, and the whole route table of a
//! gRPC client (RDS; `docs/reference/xds.md`).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ClientKind, HashKey, Hostname, HttpRetries, Projection, Protocol, Resolution, RouteInputs,
};

use crate::http_route::Routes;
use crate::names::ClusterName;
use crate::vip::{short_forms, vips};

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
/// `None` unless the protocol is or may be HTTP.
#[must_use]
pub fn route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let no_sidecar = matches!(client.kind, Some(ClientKind::Envoy | ClientKind::Grpc));
    let virtual_addresses = vips(&facts.addresses, client);
    // A virtual address leads to a port without a protocol by itself.
    let detects = facts.protocol == Protocol::Unspecified && virtual_addresses.is_empty();
    if no_sidecar
        || !(facts.protocol.is_http() || detects)
        || matches!(facts.resolution, Resolution::Alias(_))
    {
        return None;
    }
    let domain = client.domain.as_ref().and_then(|d| d.as_deref());
    let domains = names_of(&facts.service.host, domain, facts.headless);
    let mut seen: BTreeSet<String> = domains.iter().cloned().collect();
    let addresses = virtual_addresses.into_iter().filter(|a| a.is_host()).map(|a| authority(a.ip));
    let addresses = addresses.filter(|address| seen.insert(address.clone())).collect();
    Some(VirtualHostPlan { domains, addresses, ..plan(facts, client) })
}

/// Plans the single virtual host of the route table `outbound|80||pay.shop` that a gRPC client requests. It takes any
/// authority: the client has the table from the listener of its target, whatever name or alias the target has.
#[must_use]
pub fn grpc_route(facts: &RouteInputs, client: &Projection) -> Option<VirtualHostPlan> {
    let unroutable = matches!(facts.resolution, Resolution::Alias(_) | Resolution::Dynamic);
    let has_table = facts.protocol != Protocol::Udp && !unroutable;
    has_table.then(|| VirtualHostPlan { domains: vec!["*".to_owned()], ..plan(facts, client) })
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
    use tributary_model::ServiceAddress;

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
            headless: false,
            retries: None,
            hash: None,
            virtual_services: Arc::default(),
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
    fn grpc_table_takes_any_authority() {
        let facts = mk_route("pay.shop.svc.cluster.local", Protocol::Grpc);
        let plan = grpc_route(&facts, &client(ClientKind::Grpc)).unwrap();
        assert_eq!((plan.claims().count(), &*plan.domains, plan.dynamic), (1, &["*".to_owned()][..], false));
    }
}
