//! Plans the xDS cluster of one service port (CDS; `docs/reference/xds.md`).

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Algorithm, ClientKind, ClientTls, ClusterInputs, Code, EndpointInputs, EndpointUse, Identity, PolicyKey,
    PoolHttp, PortNumber, Preference, Projection, Protocol, Recorder, Resolution, ServiceKey, Stage, Subset,
    TrafficPolicy, Verdict,
};

use crate::endpoints::{Assignment, inline_of};
use crate::names::ClusterName;
use crate::steps::about;
use crate::transport::{Reach, Transport, transport};

/// How a client finds the endpoints of an xDS cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Discovery<'a> {
    /// EDS, under the xDS cluster's own name.
    Eds,
    /// DNS resolution of every name in the assignment.
    StrictDns(Assignment<'a>),
    /// DNS resolution of the single endpoint in the assignment.
    LogicalDns(Assignment<'a>),
    /// The original destination of the connection, at this port if there is one.
    OriginalDestination(Option<PortNumber>),
    /// DNS resolution of each request's host.
    ForwardProxy,
}

/// Load balancing policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadBalancing {
    /// Least request (Envoy).
    LeastRequest,
    /// Round robin (gRPC: its C core rejects least request).
    RoundRobin,
    /// Random (Envoy).
    Random,
    /// By hash, with a ring of at least this size.
    RingHash(Option<u64>),
    /// By hash, with a table of this size (Envoy).
    Maglev(Option<u64>),
    /// As the xDS cluster's type requires (original destination, forward proxy).
    ByType,
}

/// Version of HTTP on connections to endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamHttp {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// That of the request, where the port declares none and the client detects HTTP.
    AsDownstream,
}

/// Plan of an xDS cluster, before encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterPlan<'a> {
    /// Name: `outbound|80||pay.shop`.
    pub name: ClusterName,
    /// Service.
    pub service: &'a ServiceKey,
    /// Port.
    pub port: PortNumber,
    /// How clients find the endpoints.
    pub discovery: Discovery<'a>,
    /// Load balancing policy.
    pub balancing: LoadBalancing,
    /// Whether clients choose among the localities of a priority by their weights.
    pub weighs_localities: bool,
    /// Settings of the DestinationRule that applies to the client.
    pub policy: Option<&'a TrafficPolicy>,
    /// That rule, the first of several.
    pub rule: Option<&'a PolicyKey>,
    /// Whether it is for gRPC, which lacks most settings.
    pub grpc: bool,
    /// Version of HTTP on connections to endpoints.
    pub http: UpstreamHttp,
    /// Maximum duration of a connection attempt.
    pub connect_timeout: Duration,
    /// Security of connections.
    pub transport: Transport<'a>,
    /// Identities that its first declaration names, sorted.
    pub declared_names: &'a Arc<[Identity]>,
    /// Whether clients try all addresses of a DNS answer at once.
    pub race_connect: bool,
    /// Whether the client resolves names and reaches IPv6 addresses only.
    pub ipv6_only: bool,
}

/// Plans the xDS cluster of a port, or of a subset of its endpoints. Returns `None` for UDP, for an alias, for a
/// resolution that the client does not support, and for a subset that no rule of the client declares.
pub fn cluster<'a, R: Recorder>(
    facts: &'a ClusterInputs,
    subset: Option<&Subset>,
    client: &Projection,
    r: &mut R,
) -> Option<ClusterPlan<'a>> {
    let namespace = client.namespace.as_ref().and_then(Option::as_ref);
    let found = facts.policy_of(namespace);
    let policy = match (found, subset) {
        (Some(policy), subset) => Some(policy.of(subset)?),
        (None, Some(_)) => return None,
        (None, None) => None,
    };
    let discovery = discovery(facts, subset, client, policy, r)?;
    let is_resolved = matches!(discovery, Discovery::StrictDns(_) | Discovery::LogicalDns(_));
    let pool = policy.and_then(|policy| policy.pool.as_ref());
    let timeout = pool.and_then(|pool| pool.connect_timeout);
    let name = ClusterName { subset: subset.cloned(), ..ClusterName::new(facts.port, &facts.service.host) };
    let name = name.of(client.kind);
    let Ok(transport) = transport(facts, policy, reach(&discovery), client, &name) else {
        let step = (Stage::Merge, Verdict::Drop, Code::NO_CERTIFICATES);
        about(
            r,
            step,
            &facts.service,
            "its rule has mode ISTIO_MUTUAL, and the client's node names no certificates",
        );
        return None;
    };
    Some(ClusterPlan {
        name,
        transport,
        service: &facts.service,
        port: facts.port,
        balancing: balancing(&discovery, client, policy),
        weighs_localities: weighs_localities(facts, &discovery, policy),
        discovery,
        http: upstream_http(facts.protocol, client, pool.map_or(PoolHttp::OfPort, |pool| pool.http)),
        connect_timeout: timeout.unwrap_or(facts.connect_timeout),
        declared_names: &facts.attributes.identities,
        race_connect: facts.attributes.race_connect,
        ipv6_only: is_resolved && client.families == Some((false, true)),
        policy,
        rule: found.and_then(|found| found.from.first()),
        grpc: client.kind == Some(ClientKind::Grpc),
    })
}

/// Describes why clients of any kind receive nothing for a port.
pub(crate) fn udp_not_served(port: PortNumber) -> String {
    format!("port {port} is UDP: clients receive nothing for it, and its traffic does not pass through them")
}

fn upstream_http(protocol: Protocol, client: &Projection, rule: PoolHttp) -> UpstreamHttp {
    let detects = protocol == Protocol::Unspecified && client.kind == Some(ClientKind::Sidecar);
    match rule {
        PoolHttp::Upgrade => return UpstreamHttp::Http2,
        PoolHttp::OfClient => return UpstreamHttp::AsDownstream,
        PoolHttp::OfPort => {}
    }
    match protocol.is_http2() {
        true => UpstreamHttp::Http2,
        false if detects => UpstreamHttp::AsDownstream,
        false => UpstreamHttp::Http1,
    }
}

fn discovery<'a, R: Recorder>(
    facts: &'a ClusterInputs,
    subset: Option<&Subset>,
    client: &Projection,
    policy: Option<&TrafficPolicy>,
    r: &mut R,
) -> Option<Discovery<'a>> {
    let grpc = client.kind == Some(ClientKind::Grpc);
    let passes = policy.is_some_and(TrafficPolicy::passes);
    let none = |r: &mut R, code, detail: &str| {
        about(r, (Stage::Merge, Verdict::Drop, code), &facts.service, detail);
        None
    };
    if grpc && policy.is_some_and(has_files) {
        return none(
            r,
            Code::KIND_CANNOT_REACH,
            "gRPC reads no files of certificates, as the TLS of its DestinationRule needs",
        );
    }
    if facts.protocol == Protocol::Udp {
        return none(r, Code::UDP_NOT_SERVED, &udp_not_served(facts.port));
    }
    if client.kind == Some(ClientKind::Router) {
        let outside = facts.attributes.mesh_external || !is_listed(&facts.resolution);
        let detail = "a router forwards mesh TLS to endpoints that the server lists, and the service has none in the mesh";
        return if outside { none(r, Code::KIND_CANNOT_REACH, detail) } else { Some(Discovery::Eds) };
    }
    match &facts.resolution {
        Resolution::ClientSide | Resolution::DnsStrict | Resolution::DnsLogical if passes && !grpc => {
            Some(Discovery::OriginalDestination(None))
        }
        Resolution::ClientSide => Some(Discovery::Eds),
        // gRPC cannot pass a connection through; it gets the known endpoints.
        Resolution::Passthrough if grpc => Some(Discovery::Eds),
        Resolution::Passthrough => Some(Discovery::OriginalDestination(facts.target)),
        Resolution::Dynamic if grpc => none(
            r,
            Code::KIND_CANNOT_REACH,
            "gRPC cannot resolve the host of each request, as DYNAMIC_DNS needs",
        ),
        Resolution::Dynamic => Some(Discovery::ForwardProxy),
        Resolution::Alias(_) => none(r, Code::ALIAS, "an alias has no xDS cluster of its own"),
        Resolution::DnsStrict | Resolution::DnsLogical => {
            let found = facts.inline.as_ref().map(|inline| resolved(&inline.inputs, subset, client, grpc, r));
            match found.flatten() {
                Some(discovery) => Some(discovery),
                None => none(r, Code::NO_ENDPOINTS, "a DNS service without endpoints has no xDS cluster"),
            }
        }
    }
}

/// Whether the server lists the endpoints of a service.
const fn is_listed(resolution: &Resolution) -> bool {
    matches!(resolution, Resolution::ClientSide | Resolution::Passthrough)
}

/// Returns the DNS discovery of a client. gRPC supports LOGICAL_DNS only (gRFC A37).
fn resolved<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    subset: Option<&Subset>,
    client: &Projection,
    grpc: bool,
    r: &mut R,
) -> Option<Discovery<'a>> {
    let within = inline_of(facts, subset, client, r)?;
    if within.is_empty() {
        return None;
    }
    let logical = grpc || facts.resolution == Resolution::DnsLogical;
    Some(if logical { Discovery::LogicalDns(within) } else { Discovery::StrictDns(within) })
}

/// Whether localities have weights that count: only where the server sends endpoints.
fn weighs_localities(
    facts: &ClusterInputs,
    discovery: &Discovery<'_>,
    policy: Option<&TrafficPolicy>,
) -> bool {
    let order = policy.map(EndpointUse::of);
    let preference = Preference::of(order.as_ref(), facts.attributes.traffic, facts.locality.as_deref());
    matches!(discovery, Discovery::Eds | Discovery::StrictDns(_) | Discovery::LogicalDns(_))
        && preference.weighs_localities()
}

fn has_files(policy: &TrafficPolicy) -> bool {
    matches!(policy.tls.as_deref(), Some(ClientTls::Simple(_) | ClientTls::Mutual(..)))
}

const fn reach(discovery: &Discovery<'_>) -> Reach {
    match discovery {
        Discovery::Eds | Discovery::StrictDns(_) | Discovery::LogicalDns(_) => Reach::Endpoint,
        Discovery::OriginalDestination(_) => Reach::Original,
        Discovery::ForwardProxy => Reach::Host,
    }
}

fn algorithm(policy: &TrafficPolicy) -> Option<&Algorithm> {
    policy.balancer.as_ref().map(|balancer| &balancer.algorithm)
}

/// Returns the load balancing policy; what gRPC does not support is round robin there.
fn balancing(
    discovery: &Discovery<'_>,
    client: &Projection,
    policy: Option<&TrafficPolicy>,
) -> LoadBalancing {
    if let Discovery::OriginalDestination(_) | Discovery::ForwardProxy = discovery {
        return LoadBalancing::ByType;
    }
    let set = match policy.and_then(algorithm).unwrap_or(&Algorithm::Usual) {
        Algorithm::Usual | Algorithm::LeastRequest | Algorithm::Passthrough => LoadBalancing::LeastRequest,
        Algorithm::Random => LoadBalancing::Random,
        Algorithm::RoundRobin => LoadBalancing::RoundRobin,
        Algorithm::RingHash(_, size) => LoadBalancing::RingHash(*size),
        Algorithm::Maglev(_, size) => LoadBalancing::Maglev(*size),
    };
    match (client.kind, set) {
        (Some(ClientKind::Grpc), LoadBalancing::RingHash(size)) => LoadBalancing::RingHash(size),
        (Some(ClientKind::Grpc), _) => LoadBalancing::RoundRobin,
        (_, set) => set,
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{Address, AddressRef, ByNamespace, ClusterPolicy, TlsSettings, Trace};

    use super::*;
    use crate::fixtures::*;

    fn mk_named(hosts: &[&str]) -> EndpointInputs {
        let addresses = (0..hosts.len())
            .map(|i| Address::new(AddressRef::Name(u16::try_from(i).unwrap()), Arc::default()));
        let group = mk_group("a", hosts, addresses.collect());
        mk_facts(vec![mk_source("east", group)])
    }
    fn found(resolution: Resolution, kind: ClientKind) -> Option<&'static str> {
        let hosts = if resolution.is_dns() { &["a.example.com", "b.example.com"][..] } else { &[] };
        let inline = EndpointInputs { resolution: resolution.clone(), ..mk_named(hosts) };
        let facts = mk_cluster(resolution.clone(), resolution.is_dns().then_some(inline));
        cluster(&facts, None, &mk_projection(kind), &mut ()).map(|plan| match plan.discovery {
            Discovery::Eds => "EDS",
            Discovery::StrictDns(a) => {
                assert_eq!(a.endpoints().count(), 2);
                "STRICT_DNS"
            }
            Discovery::LogicalDns(a) => {
                assert_eq!(a.endpoints().count(), 1, "LOGICAL_DNS has one endpoint");
                "LOGICAL_DNS"
            }
            Discovery::OriginalDestination(_) => "ORIGINAL_DST",
            Discovery::ForwardProxy => "DFP",
        })
    }

    #[test]
    fn discovery_depends_on_resolution_and_client_kind() {
        let alias = Resolution::Alias(mk_host("b.shop"));
        let cases = [
            (Resolution::ClientSide, Some("EDS"), Some("EDS")),
            (Resolution::Passthrough, Some("ORIGINAL_DST"), Some("EDS")),
            (Resolution::DnsStrict, Some("STRICT_DNS"), Some("LOGICAL_DNS")),
            (Resolution::DnsLogical, Some("LOGICAL_DNS"), Some("LOGICAL_DNS")),
            (Resolution::Dynamic, Some("DFP"), None),
            (alias, None, None),
        ];
        for (resolution, envoy, grpc) in cases {
            assert_eq!(found(resolution.clone(), ClientKind::Sidecar), envoy, "{resolution:?}");
            assert_eq!(found(resolution.clone(), ClientKind::Envoy), envoy, "{resolution:?}");
            assert_eq!(found(resolution.clone(), ClientKind::Grpc), grpc, "{resolution:?}");
        }
    }

    #[test]
    fn missing_xds_cluster_records_a_reason() {
        let mut udp = mk_cluster(Resolution::ClientSide, None);
        udp.protocol = Protocol::Udp;
        let empty = mk_cluster(Resolution::DnsStrict, Some(mk_named(&[])));
        for (facts, code) in [(udp, Code::UDP_NOT_SERVED), (empty, Code::NO_ENDPOINTS)] {
            let mut trace = Trace::default();
            assert!(cluster(&facts, None, &mk_projection(ClientKind::Envoy), &mut trace).is_none());
            assert_eq!(trace.steps.last().unwrap().code, code);
        }
    }

    #[test]
    fn grpc_has_no_cluster_with_tls_of_files() {
        let mut facts = mk_cluster(Resolution::ClientSide, None);
        let rule = |tls: ClientTls| {
            let whole = TrafficPolicy { tls: Some(Arc::new(tls)), ..TrafficPolicy::default() };
            let policy = ClusterPolicy { whole, ..ClusterPolicy::default() };
            Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), [])))
        };
        let has = |facts: &ClusterInputs, kind| cluster(facts, None, &mk_projection(kind), &mut ()).is_some();
        facts.policy = rule(ClientTls::Simple(TlsSettings::default()));
        assert!(has(&facts, ClientKind::Sidecar) && has(&facts, ClientKind::Envoy));
        let mut trace = Trace::default();
        assert!(cluster(&facts, None, &mk_projection(ClientKind::Grpc), &mut trace).is_none());
        assert_eq!(trace.steps.last().unwrap().code, Code::KIND_CANNOT_REACH);
        facts.policy = rule(ClientTls::Disable);
        assert!(has(&facts, ClientKind::Grpc));
        facts.policy = rule(ClientTls::IstioMutual(TlsSettings::default()));
        assert!(has(&facts, ClientKind::Grpc));
        let mut trace = Trace::default();
        assert!(cluster(&facts, None, &mk_projection(ClientKind::Sidecar), &mut trace).is_none());
        assert_eq!(
            trace.steps.last().unwrap().code,
            Code::NO_CERTIFICATES,
            "plain text would not be the rule's"
        );
    }

    #[test]
    fn balancing_and_http2_match_the_client_kind() {
        let mut facts = mk_cluster(Resolution::ClientSide, None);
        facts.protocol = Protocol::Grpc;
        let plan = |facts, kind| {
            let plan = cluster(facts, None, &mk_projection(kind), &mut ()).unwrap();
            (plan.name.to_string(), plan.balancing, plan.http == UpstreamHttp::Http2)
        };
        let name = "outbound|80||pay.shop".to_owned();
        assert_eq!(plan(&facts, ClientKind::Grpc), (name.clone(), LoadBalancing::RoundRobin, true));
        assert_eq!(plan(&facts, ClientKind::Sidecar), (name.clone(), LoadBalancing::LeastRequest, true));
        let dst = mk_cluster(Resolution::Passthrough, None);
        assert_eq!(plan(&dst, ClientKind::Sidecar), (name, LoadBalancing::ByType, false));
    }
}
