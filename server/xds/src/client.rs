//! Parses a client's node into the attributes that resources may depend on
//! (docs/reference/xds.md#client-kinds).
//!
//! The transport calls [`ClientNode::parse`] with the first request. Sessions call [`ClientNode::at`] at
//! the start of each round, because the client's workload may have attributes that its metadata lacks. Values
//! that cannot be parsed are absent; there are no guesses.

use std::net::IpAddr;
use std::sync::Arc;

use tonic::Code as GrpcCode;
use tributary_answer::{ProxyFacts, Selectable, inbound_modes, withholds_inbound};
use tributary_model::closed_ports::{METRICS_PORT, STATUS_PORT};
use tributary_model::{
    Catalog, ClientKind, ClosedPorts, ClusterId, Code, Labels, Locality, Namespace, NetworkId, NodeName,
    WorkloadKey, WorkloadView,
};
use tributary_proto::{Metadata, Node, Value};

use crate::answers::ClientClass;
use crate::session::Refusal;

mod certificates;
mod identity;
mod selections;

pub use identity::{Proof, Verified};
pub use selections::{OwnPolicies, Selections};

use selections::SelectionKey;

/// Most addresses that a client may list.
const MAX_IPS: usize = 64;
/// A client as its node describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientNode {
    /// Node id.
    pub id: Arc<str>,
    /// Attributes from metadata, before the client's workload is looked up.
    pub class: ClientClass,
    /// Cluster of a client whose node and workload name none.
    pub default_cluster: Option<ClusterId>,
    /// Identity that it proves, if one is required.
    pub verified: Option<Verified>,
    /// Addresses of the client.
    pub ips: Arc<[IpAddr]>,
    /// Name of its workload: part 3 of a four-part id without the namespace.
    pub workload: Option<Arc<str>>,
    /// xDS cluster of its bootstrap that serves its certificates of the mesh, as its node names it.
    pub sds_cluster: Option<Arc<str>>,
    /// Labels.
    pub labels: Labels,
    /// Service account.
    pub account: Option<Arc<str>>,
    /// What patches may require of it.
    pub proxy: Arc<ProxyFacts>,
    /// Program, with its version if the node gives one as text.
    pub agent: Arc<str>,
    /// What policies select for it.
    pub policies: OwnPolicies,
}

/// Listeners or routes that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenersWanted {
    /// None.
    Nothing,
    /// Those of its own requests alone.
    Outbound,
    /// That of a gRPC server as well.
    Inbound,
}

/// The parts of an id of the form `type~ip~name.namespace~domain`.
struct Parts<'a> {
    role: &'a str,
    ip: &'a str,
    name: &'a str,
    domain: &'a str,
}

impl<'a> Parts<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.split('~');
        let mut next = || parts.next();
        let out = Self { role: next()?, ip: next()?, name: next()?, domain: next()? };
        (parts.next().is_none() && !out.role.is_empty()).then_some(out)
    }
}

/// Returns `pod.namespace` of a node id of the form `type~ip~pod.namespace~domain`.
#[must_use]
pub fn pod_of(node: &str) -> Option<&str> {
    Parts::parse(node).map(|parts| parts.name).filter(|name| name.contains('.'))
}

impl ClientNode {
    /// Parses the node of a first request. Rejects only a missing node and an empty id.
    pub fn parse(node: Option<&Node>) -> Result<Self, Refusal> {
        let Some(node) = node.filter(|node| !node.id.is_empty()) else {
            let message = "missing node information: set node.id in the client's bootstrap";
            return Err(Refusal::new(GrpcCode::InvalidArgument, Code::CLIENT_NO_NODE, message));
        };
        let meta = &node.metadata;
        let ips = addresses(meta, Parts::parse(node.id.as_str()).map(|parts| parts.ip));
        let parts = Parts::parse(node.id.as_str()).filter(|_| !ips.is_empty());
        let labels = labels(meta);
        let class = ClientClass {
            namespace: namespace(meta, parts.as_ref()),
            cluster: meta.text("CLUSTER_ID").and_then(|text| ClusterId::new(text).ok()),
            network: meta.text("NETWORK").and_then(|text| NetworkId::new(text).ok()),
            locality: locality(node, &labels),
            node: meta.text("NODE_NAME").and_then(|text| NodeName::new(text).ok()),
            families: families(&ips),
            binds: meta.text("INTERCEPTION_MODE").is_some_and(|mode| mode == "NONE"),
            domain: parts.as_ref().map(|parts| parts.domain).filter(|d| !d.is_empty()).map(Arc::from),
            closed: closed(meta),
            dns_capture: is_true(meta, "DNS_CAPTURE"),
            certificate_files: certificates::files(meta).map(Arc::new),
            ..ClientClass::new(ClientKind::Envoy)
        };
        let kind = kind(node, parts.as_ref(), class.namespace.is_some());
        let class = ClientClass { kind, ..class };
        Ok(Self {
            id: node.id.as_str().into(),
            class,
            default_cluster: None,
            verified: None,
            ips,
            workload: parts.and_then(|parts| Some(parts.name.split_once('.')?.0.into())),
            sds_cluster: certificates::sds_cluster(meta),
            labels,
            account: meta.text("SERVICE_ACCOUNT").map(Arc::from),
            proxy: Arc::new(proxy(meta)),
            agent: format!("{} {}", node.user_agent, node.user_agent_version).trim().into(),
            policies: OwnPolicies::default(),
        })
    }
    /// Sets the table in which clients of one server find what policies select for them.
    #[must_use]
    pub fn sharing(self, selections: &Arc<Selections>) -> Self {
        Self { policies: OwnPolicies::of(selections), ..self }
    }
    /// Sets the cluster of a client whose node and workload name none.
    #[must_use]
    pub fn defaulting_to(self, default_cluster: Option<ClusterId>) -> Self {
        Self { default_cluster, ..self }
    }
    /// Returns its class in a generation, completed from its workloads and the default cluster, and the keys of those
    /// workloads.
    #[must_use]
    pub fn at(&self, catalog: &Catalog) -> (ClientClass, Vec<WorkloadKey>) {
        let mut class = self.class.clone();
        let own = self.own(catalog);
        if let Some(first) = own.first() {
            overlay(&mut class, first.1);
        }
        class.cluster = class.cluster.take().or_else(|| self.default_cluster.clone());
        class.certificates = self.certificates(catalog);
        let labels = own.first().map_or(&self.labels, |(_, view)| &view.workload.labels);
        class.labels = class.compared(catalog, labels);
        let (kind, namespace) = (class.kind, class.namespace.clone());
        let key = SelectionKey { kind, namespace, labels: labels.clone() };
        let selected = self.policies.at(catalog, key, &self.proxy);
        class.inbound = inbound_modes(catalog, &class, labels, &selected.policies);
        class.sidecar.clone_from(&selected.policies.sidecar);
        class.authorization.clone_from(&selected.policies.authorization);
        class.tokens.clone_from(&selected.policies.tokens);
        class.patches = selected.patches;
        let compares_identities = class.inbound.is_some() || class.authorization.is_some();
        let is_server = class.kind == ClientKind::Grpc && compares_identities;
        class.trust_domains = is_server.then(|| catalog.settings.trust_domains());
        class.withholds_inbound = withholds_inbound(catalog, &class);
        (class, own.into_iter().map(|(key, _)| key.clone()).collect())
    }
    /// Returns what policies select the client by; `None` if none can.
    #[must_use]
    pub fn selectable(&self, catalog: &Catalog, wants: ListenersWanted) -> Option<Selectable> {
        let namespace = self.class.namespace.clone().filter(|_| self.class.kind != ClientKind::Envoy)?;
        let own = self.own(catalog);
        let labels = own.first().map_or(&self.labels, |(_, view)| &view.workload.labels).clone();
        let (kind, is_known) = (self.class.kind, !own.is_empty());
        let is_grpc_server = kind == ClientKind::Grpc && wants == ListenersWanted::Inbound;
        Some(Selectable { kind, is_grpc_server, namespace, labels, is_known })
    }
    /// Whether the client has these labels in a generation: its workload, else its node.
    pub(crate) fn has_labels(&self, catalog: &Catalog, labels: &Labels) -> bool {
        let own = self.own(catalog);
        labels.is_subset_of(own.first().map_or(&self.labels, |(_, view)| &view.workload.labels))
    }
    /// Only a sidecar is looked up: any other client with the same address is not the workload.
    fn own<'c>(&self, catalog: &'c Catalog) -> Vec<(&'c WorkloadKey, &'c WorkloadView)> {
        if self.workload.is_none() {
            return Vec::new();
        }
        let keys = self.ips.iter().filter_map(|ip| catalog.workload_ips.get(ip)).flat_map(|keys| keys.iter());
        let mut own: Vec<_> = keys
            .filter(|key| self.is(key))
            .filter_map(|key| catalog.workloads.get_key_value(key))
            .map(|(key, view)| (key, &**view))
            .collect();
        own.sort_by_key(|(key, _)| *key);
        own.dedup_by_key(|(key, _)| *key);
        own
    }
    fn is(&self, key: &WorkloadKey) -> bool {
        let cluster = self.class.cluster.as_ref().is_none_or(|cluster| *cluster == key.cluster);
        cluster && self.class.namespace.as_ref() == Some(&key.namespace)
    }
    /// Returns the code of the note that `get clients` shows.
    #[must_use]
    pub fn remark(&self, wants: ListenersWanted, catalog: &Catalog) -> Option<Code> {
        let receives = match self.class.kind {
            ClientKind::Grpc => wants == ListenersWanted::Inbound,
            kind => kind.receives(),
        };
        if receives && withholds_inbound(catalog, &self.class) {
            return Some(Code::CLIENT_INBOUND_WITHHELD);
        }
        match self.class.kind {
            ClientKind::Sidecar if self.certificates(catalog).is_known() => {
                (!catalog.settings.auto_mtls()).then_some(Code::CLIENT_PARTIAL_MTLS)
            }
            ClientKind::Sidecar => {
                let refuses = self.at(catalog).0.inbound.is_some();
                Some(if refuses { Code::CLIENT_REFUSES_PLAIN } else { Code::CLIENT_PARTIAL_MTLS })
            }
            ClientKind::Envoy if wants != ListenersWanted::Nothing => Some(Code::CLIENT_NO_PROFILE),
            ClientKind::Grpc if receives && self.class.namespace.is_none() => Some(Code::CLIENT_NO_NAMESPACE),
            ClientKind::Envoy | ClientKind::Grpc | ClientKind::Router => None,
        }
    }
}

/// A router has a namespace, from which it sees what it forwards; one without is a plain Envoy.
fn kind(node: &Node, parts: Option<&Parts<'_>>, has_namespace: bool) -> ClientKind {
    let generator = node.metadata.text("GENERATOR").is_some_and(|generator| generator == "grpc");
    if generator || node.user_agent.as_str().starts_with("gRPC") {
        ClientKind::Grpc
    } else if parts.is_some_and(|parts| parts.role == "sidecar") {
        ClientKind::Sidecar
    } else if has_namespace && parts.is_some_and(|parts| parts.role == "router") {
        ClientKind::Router
    } else {
        ClientKind::Envoy
    }
}

fn addresses(meta: &Metadata, part: Option<&str>) -> Arc<[IpAddr]> {
    let listed = meta.text("INSTANCE_IPS");
    let text = listed.as_deref().or(part).unwrap_or_default();
    text.split(',').filter_map(|ip| ip.trim().parse().ok()).take(MAX_IPS).collect()
}

/// Both families, unless the client lists its addresses. Loopback and link-local addresses reach no other host: they
/// decide only if it has no others.
fn families(ips: &[IpAddr]) -> (bool, bool) {
    let is_local = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    };
    let routed: Vec<&IpAddr> = ips.iter().filter(|ip| !is_local(ip)).collect();
    let all = if routed.is_empty() { ips.iter().collect() } else { routed };
    if all.is_empty() {
        return (true, true);
    }
    (all.iter().any(|ip| ip.is_ipv4()), all.iter().any(|ip| ip.is_ipv6()))
}

fn namespace(meta: &Metadata, parts: Option<&Parts<'_>>) -> Option<Namespace> {
    let of_domain = || parts.and_then(|parts| Some(parts.domain.split_once('.')?.0.to_owned()));
    meta.text("NAMESPACE").or_else(of_domain).and_then(|text| Namespace::new(text).ok())
}

fn labels(meta: &Metadata) -> Labels {
    let Some(Value::Struct(fields)) = meta.get("LABELS") else { return Labels::default() };
    let pairs: Vec<(&str, String)> = fields.iter().filter_map(|(k, v)| Some((k, v.text()?))).collect();
    pairs.iter().map(|(k, v)| (*k, v.as_str())).collect()
}

fn locality(node: &Node, labels: &Labels) -> Locality {
    use tributary_model::labels::{LOCALITY, LOCALITY_LEGACY};
    if let Some(label) = labels.get(LOCALITY).or_else(|| labels.get(LOCALITY_LEGACY)) {
        return Locality::parse_label(label);
    }
    match &node.locality {
        Some([region, zone, subzone]) => Locality::new(region.as_str(), zone.as_str(), subzone.as_str()),
        None => Locality::default(),
    }
}

/// Reads the ports on which the proxy cannot listen. The listeners of its bootstrap count only at Istio's default ports: sets
/// of listeners are shared, and a port of each client's choice would divide them.
fn closed(meta: &Metadata) -> ClosedPorts {
    let has = |name: &str, port: u16| meta.text(name).is_some_and(|text| text.parse() == Ok(port));
    ClosedPorts {
        privileged: is_true(meta, "UNPRIVILEGED_POD"),
        status: has("ENVOY_STATUS_PORT", STATUS_PORT),
        metrics: has("ENVOY_PROMETHEUS_PORT", METRICS_PORT),
    }
}

/// Reads the metadata that patches may compare: texts of some length, of a bounded number.
fn proxy(meta: &Metadata) -> ProxyFacts {
    const MAX_VALUES: usize = 64;
    const MAX_BYTES: usize = 256;
    let text = |(name, value): (&str, &Value)| match value {
        Value::Text(text) if name.len() + text.as_str().len() <= MAX_BYTES => {
            Some((Box::from(name), Box::from(text.as_str())))
        }
        _ => None,
    };
    let mut metadata: Vec<(Box<str>, Box<str>)> = meta.iter().filter_map(text).take(MAX_VALUES).collect();
    metadata.sort();
    let version = meta.text("ISTIO_VERSION").filter(|version| version.len() <= MAX_BYTES);
    ProxyFacts { version: version.map(Into::into), metadata: metadata.into() }
}

fn is_true(meta: &Metadata, name: &str) -> bool {
    meta.text(name).is_some_and(|text| matches!(text.as_str(), "true" | "1" | "True" | "TRUE"))
}

/// Completes a class from a workload: the registry's locality wins over the client's.
fn overlay(class: &mut ClientClass, view: &WorkloadView) {
    let place = &view.workload.topology;
    if !place.locality.is_empty() {
        class.locality = place.locality.clone();
    }
    class.network = class.network.take().or_else(|| place.network.clone());
    class.cluster = class.cluster.take().or_else(|| place.cluster.clone());
    class.node = class.node.take().or_else(|| place.node.clone());
}

#[cfg(test)]
mod tests {
    use tributary_model::{Settings, Shared};

    use super::*;

    fn mk_node(id: &str, metadata: &[(&str, &str)]) -> Node {
        let metadata = metadata.iter().map(|&(k, v)| (k, Value::Text(v.into()))).collect();
        Node { id: id.into(), metadata, ..Node::default() }
    }

    pub(super) fn parse(id: &str, metadata: &[(&str, &str)]) -> ClientNode {
        ClientNode::parse(Some(&mk_node(id, metadata))).unwrap()
    }

    pub(super) const SIDECAR: &str = "sidecar~10.0.0.1~pay-1.shop~shop.svc.cluster.local";

    #[test]
    fn only_a_missing_node_or_an_empty_id_is_rejected() {
        for node in [None, Some(&mk_node("", &[]))] {
            let refusal = ClientNode::parse(node).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (GrpcCode::InvalidArgument, Code::CLIENT_NO_NODE));
        }
        assert_eq!(parse("test-id", &[]).class, ClientClass::new(ClientKind::Envoy));
    }

    #[test]
    fn four_part_id_describes_a_sidecar() {
        let client =
            parse(SIDECAR, &[("CLUSTER_ID", "east"), ("NETWORK", "n1"), ("INTERCEPTION_MODE", "NONE")]);
        assert_eq!(client.class.kind, ClientKind::Sidecar);
        assert_eq!(client.class.namespace, Namespace::new("shop").ok());
        assert_eq!(client.class.cluster, ClusterId::new("east").ok());
        assert_eq!(client.class.network, NetworkId::new("n1").ok());
        assert_eq!(client.class.domain.as_deref(), Some("shop.svc.cluster.local"));
        assert_eq!((client.class.families, client.class.binds), ((true, false), true));
        assert_eq!(client.workload.as_deref(), Some("pay-1"));
    }

    #[test]
    fn link_local_address_adds_no_family() {
        let of = |ips| parse(SIDECAR, &[("INSTANCE_IPS", ips)]).class.families;
        assert_eq!(of("10.0.0.1,fe80::1"), (true, false));
        assert_eq!(of("fd00::1,169.254.0.1,::1"), (false, true));
        assert_eq!(of("fe80::1"), (false, true));
        assert_eq!(of("10.0.0.1,fd00::1,fe80::1"), (true, true));
    }

    #[test]
    fn ids_that_do_not_parse_are_served_without_guesses() {
        for id in ["sidecar~not-an-ip~a.b~c.d", "sidecar~10.0.0.1~a.b", "a~b~c~d~e", "~~~"] {
            let client = parse(id, &[]);
            assert_eq!(client.class, ClientClass::new(ClientKind::Envoy), "{id}");
            assert_eq!(client.workload, None, "{id}");
        }
    }

    #[test]
    fn grpc_is_detected_by_generator_or_user_agent() {
        assert_eq!(parse("x", &[("GENERATOR", "grpc")]).class.kind, ClientKind::Grpc);
        let node = Node { user_agent: "gRPC C-core linux".into(), ..mk_node(SIDECAR, &[]) };
        assert_eq!(ClientNode::parse(Some(&node)).unwrap().class.kind, ClientKind::Grpc);
    }

    #[test]
    fn metadata_precedes_the_domain_and_labels_precede_the_locality() {
        let labels = [("istio-locality", Value::Text("eu.west.1".into()))].into_iter().collect();
        let mut node = mk_node(SIDECAR, &[("NAMESPACE", "web"), ("INSTANCE_IPS", "10.0.0.1, fd00::1")]);
        node.metadata = node
            .metadata
            .iter()
            .map(|(k, v)| (k, v.clone()))
            .chain([("LABELS", Value::Struct(labels))])
            .collect();
        node.locality = Some(["us".into(), "".into(), "".into()]);
        let client = ClientNode::parse(Some(&node)).unwrap();
        assert_eq!(client.class.namespace, Namespace::new("web").ok());
        assert_eq!(client.class.locality, Locality::parse("eu/west/1"));
        assert_eq!(client.class.families, (true, true));
    }

    #[test]
    fn client_without_a_cluster_is_in_the_servers() {
        let catalog = Catalog::default();
        let cluster = |metadata: &[(&str, &str)]| {
            let client = parse(SIDECAR, metadata).defaulting_to(ClusterId::new("own").ok());
            client.at(&catalog).0.cluster
        };
        assert_eq!(cluster(&[]), ClusterId::new("own").ok());
        assert_eq!(cluster(&[("CLUSTER_ID", "east")]), ClusterId::new("east").ok());
        assert_eq!(parse(SIDECAR, &[]).at(&catalog).0.cluster, None, "the server has no cluster");
    }

    #[test]
    fn ports_of_the_proxy_are_closed_to_listeners() {
        let closed = |metadata: &[(&str, &str)]| parse(SIDECAR, metadata).class.closed;
        assert_eq!(closed(&[]), ClosedPorts::default());
        let istio = [
            ("UNPRIVILEGED_POD", "true"),
            ("ENVOY_STATUS_PORT", "15021"),
            ("ENVOY_PROMETHEUS_PORT", "15090"),
        ];
        assert_eq!(closed(&istio), ClosedPorts { privileged: true, status: true, metrics: true });
        let other =
            [("UNPRIVILEGED_POD", "false"), ("ENVOY_STATUS_PORT", "15022"), ("ENVOY_PROMETHEUS_PORT", "x")];
        assert_eq!(closed(&other), ClosedPorts::default());
        let number = [("ENVOY_STATUS_PORT", Value::Number(15_021.0))].into_iter().collect();
        let node = Node { id: SIDECAR.into(), metadata: number, ..Node::default() };
        assert!(ClientNode::parse(Some(&node)).unwrap().class.closed.status, "Istio sends a number");
    }

    #[test]
    fn note_follows_the_client_kind() {
        let remark =
            |id, metadata: &[(&str, &str)], wants| parse(id, metadata).remark(wants, &Catalog::default());
        let (nothing, some) = (ListenersWanted::Nothing, ListenersWanted::Outbound);
        assert_eq!(remark(SIDECAR, &[], some), Some(Code::CLIENT_PARTIAL_MTLS));
        assert_eq!(remark(SIDECAR, &[("ISTIO_VERSION", "1.30.3")], some), None);
        assert_eq!(remark("x", &[], some), Some(Code::CLIENT_NO_PROFILE));
        assert_eq!(remark("x", &[], nothing), None);
        let (grpc, server) = (("GENERATOR", "grpc"), ListenersWanted::Inbound);
        assert_eq!(remark("x", &[grpc], server), Some(Code::CLIENT_NO_NAMESPACE));
        assert_eq!(remark("x", &[grpc], some), None, "a client needs no namespace");
        assert_eq!(remark("x", &[grpc, ("NAMESPACE", "shop")], server), None);
        let settings = Shared::new(Settings { auto_mtls: Some(false), ..Settings::default() });
        let off = Catalog { settings, ..Catalog::default() };
        let with_agent = parse(SIDECAR, &[("ISTIO_VERSION", "1.30.3")]);
        assert_eq!(with_agent.remark(some, &off), Some(Code::CLIENT_PARTIAL_MTLS));
    }
}
