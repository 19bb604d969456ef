//! Service: the fields that its declaration and gateways use.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use tributary_model::{Labels, PortName, PortNumber, Protocol, ServicePort, Target, TrafficDistribution};

use super::doubts;
use super::meta::{Meta, RawMeta};
use super::namespace::TRAFFIC_DISTRIBUTION;
use super::text::{Pairs, Text};
use crate::interner::Interner;
use crate::kind::{Kind, Name};

/// Annotation that excludes a Service from the synchronization with a Consul.
const CONSUL_SYNC: &str = "consul.hashicorp.com/service-sync";

/// Label of a Service that implements a Gateway, with the name of the Gateway.
const IMPLEMENTS_LABEL: &str = "gateway.networking.k8s.io/gateway-name";

pub(super) const EXPORT_TO: &str = "networking.istio.io/exportTo";
pub(super) const CANONICAL_ACCOUNTS: &str = "alpha.istio.io/canonical-serviceaccounts";
const KUBERNETES_ACCOUNTS: &str = "alpha.istio.io/kubernetes-serviceaccounts";
pub(super) const NODE_SELECTOR: &str = "traffic.istio.io/nodeSelector";
const MOST_PORTS: usize = 1024;
const MOST_ADDRESSES: usize = 1024;

/// Service with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Metadata.
    pub meta: Meta,
    /// Kind of its address.
    pub address: ServiceKind,
    /// Ports, in the object's order.
    pub ports: Box<[Port]>,
    /// Label selector; an empty one selects nothing.
    pub selector: Labels,
    /// Whether clients use only endpoints of their own node.
    pub node_local: bool,
    /// Traffic distribution of the specification, else of the annotation.
    pub traffic: Option<TrafficDistribution>,
    /// Whether endpoints that are not ready appear in DNS tables.
    pub publish_not_ready: bool,
    /// Value of its exportTo annotation.
    pub export: Option<Arc<str>>,
    /// Identities that an annotation lists.
    pub identities: Box<[Arc<str>]>,
    /// Service accounts of its namespace that an annotation lists.
    pub accounts: Box<[Arc<str>]>,
    /// External addresses or names: load balancers, then external IPs.
    pub external: Box<[Arc<str>]>,
    /// Selector of the nodes whose external addresses lead to it, if annotated.
    pub node_selector: Option<Labels>,
    /// Whether an annotation excludes it from the synchronization with a Consul.
    pub unsynced: bool,
    /// Descriptions of invalid values in its annotations, one line each.
    pub doubts: Box<[Arc<str>]>,
}

/// Kind of a Service's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceKind {
    /// Virtual addresses; empty until they are assigned.
    Cluster(Box<[IpAddr]>),
    /// No virtual address: clients use the addresses of the endpoints.
    Headless,
    /// Alias of this host name.
    External(Arc<str>),
}

/// Port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Port of the declaration.
    pub service: ServicePort,
    /// Port on every node.
    pub node: Option<PortNumber>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default, rename = "clusterIP")]
    cluster_ip: Option<Text<'a>>,
    #[serde(borrow, default, rename = "clusterIPs")]
    cluster_ips: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    external_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    ports: Option<Vec<RawPort<'a>>>,
    #[serde(borrow, default)]
    selector: Option<Pairs<'a>>,
    #[serde(borrow, default, rename = "externalIPs")]
    external_ips: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    internal_traffic_policy: Option<Text<'a>>,
    #[serde(borrow, default)]
    traffic_distribution: Option<Text<'a>>,
    #[serde(default)]
    publish_not_ready_addresses: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    protocol: Option<Text<'a>>,
    #[serde(borrow, default)]
    app_protocol: Option<Text<'a>>,
    port: u32,
    #[serde(borrow, default)]
    target_port: Option<RawTarget<'a>>,
    #[serde(default)]
    node_port: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTarget<'a> {
    Number(u32),
    #[serde(borrow)]
    Name(Text<'a>),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawStatus<'a> {
    #[serde(borrow, default)]
    load_balancer: Option<RawBalancer<'a>>,
}

#[derive(Deserialize, Default)]
struct RawBalancer<'a> {
    #[serde(borrow, default)]
    ingress: Option<Vec<RawIngress<'a>>>,
}

#[derive(Deserialize)]
struct RawIngress<'a> {
    #[serde(borrow, default)]
    ip: Option<Text<'a>>,
    #[serde(borrow, default)]
    hostname: Option<Text<'a>>,
}

impl Service {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, spec, status) = super::read::read_object(json)?;
        let listed = |key| metadata.annotation(key).map(items).unwrap_or_default();
        Ok(Self {
            address: kind(&spec)?,
            ports: ports(spec.ports.as_deref().unwrap_or_default())?,
            node_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            traffic: traffic(&metadata, &spec),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or_default(),
            export: metadata.annotation(EXPORT_TO).map(Arc::from),
            identities: listed(CANONICAL_ACCOUNTS),
            accounts: listed(KUBERNETES_ACCOUNTS),
            external: external(&spec, status)?,
            unsynced: metadata.annotation(CONSUL_SYNC) == Some("false"),
            doubts: doubts::of(&metadata),
            node_selector: metadata
                .annotation(NODE_SELECTOR)
                .filter(|_| spec.kind.as_deref() == Some("NodePort"))
                .and_then(node_selector),
            selector: spec.selector.as_ref().map(Pairs::labels).unwrap_or_default(),
            meta: metadata.meta(Kind::Service)?,
        })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
        self.selector = shared.labels(&self.selector);
    }
    /// Returns the Gateway of gateway-api that it implements.
    #[must_use]
    pub fn gateway(&self) -> Option<Name> {
        self.meta.labels.get(IMPLEMENTS_LABEL).map(|name| Name::new(&self.meta.name.namespace, name))
    }
    /// Whether terminating endpoints keep the sessions that are bound to them.
    #[must_use]
    pub fn keeps_sessions(&self) -> bool {
        self.meta.labels.keep_sessions()
    }
}

pub(super) fn items(list: &str) -> Box<[Arc<str>]> {
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .take(MOST_ADDRESSES)
        .map(Arc::from)
        .collect()
}

/// Returns the kind of address; a headless Service is headless for any type.
fn kind(spec: &RawSpec<'_>) -> Result<ServiceKind, String> {
    let one = spec.cluster_ip.as_deref().unwrap_or_default();
    if one == "None" {
        return Ok(ServiceKind::Headless);
    }
    if spec.kind.as_deref() == Some("ExternalName") {
        return Ok(ServiceKind::External(spec.external_name.as_deref().unwrap_or_default().into()));
    }
    let all = spec.cluster_ips.as_deref().unwrap_or_default();
    super::read::bounded("spec.clusterIPs", all, MOST_ADDRESSES)?;
    let texts: Vec<&str> = if all.len() > 1 { all.iter().map(|ip| &**ip).collect() } else { vec![one] };
    let ip = |text: &str| text.parse().map_err(|_| format!("spec.clusterIP: {text:?} is not an IP address"));
    texts
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(ip)
        .collect::<Result<_, _>>()
        .map(ServiceKind::Cluster)
}

/// Returns the traffic distribution of the specification, else of the annotation; an unknown value counts as set.
fn traffic(metadata: &RawMeta<'_>, spec: &RawSpec<'_>) -> Option<TrafficDistribution> {
    let text = spec.traffic_distribution.as_deref().filter(|text| !text.is_empty());
    text.or_else(|| metadata.annotation(TRAFFIC_DISTRIBUTION)).map(TrafficDistribution::parse)
}

fn ports(list: &[RawPort<'_>]) -> Result<Box<[Port]>, String> {
    super::read::bounded("spec.ports", list, MOST_PORTS)?;
    let mut ports: Vec<Port> = Vec::with_capacity(list.len());
    for raw in list {
        let port = port(raw)?;
        // a number is declared once: of a TCP and a UDP port, xDS serves the TCP port
        match ports.iter_mut().find(|known| known.service.number == port.service.number) {
            Some(known) if known.service.protocol == Protocol::Udp => *known = port,
            Some(_) => {}
            None => ports.push(port),
        }
    }
    Ok(ports.into())
}

fn port(raw: &RawPort<'_>) -> Result<Port, String> {
    let number = PortNumber::new(raw.port).map_err(|error| format!("spec.ports: {error}"))?;
    let name = raw.name.as_deref().unwrap_or_default();
    let app = raw.app_protocol.as_deref();
    let protocol =
        Protocol::from_kubernetes(raw.protocol.as_deref().unwrap_or_default(), app, name, number.get());
    let name = PortName::new(name).map_err(|error| format!("spec.ports: {error}"))?;
    let service = ServicePort { number, name, protocol, target: target(raw.target_port.as_ref())? };
    Ok(Port { service, node: raw.node_port.and_then(|number| PortNumber::new(number).ok()) })
}

/// Returns the target port; a missing target and the number 0 mean the port's own number.
fn target(raw: Option<&RawTarget<'_>>) -> Result<Target, String> {
    let refused = |error| format!("spec.ports.targetPort: {error}");
    match raw {
        None | Some(RawTarget::Number(0)) => Ok(Target::Same),
        Some(RawTarget::Name(name)) if name.is_empty() => Ok(Target::Same),
        Some(RawTarget::Number(number)) => PortNumber::new(*number).map(Target::Number).map_err(refused),
        Some(RawTarget::Name(name)) => PortName::new(&**name).map(Target::Name).map_err(refused),
    }
}

/// Returns the addresses of load balancers, followed by external IPs.
fn external(spec: &RawSpec<'_>, status: RawStatus<'_>) -> Result<Box<[Arc<str>]>, String> {
    let balanced = status.load_balancer.unwrap_or_default().ingress.unwrap_or_default();
    let balanced = balanced.iter().filter(|_| spec.kind.as_deref() == Some("LoadBalancer"));
    let balanced = balanced.filter_map(|at| at.ip.as_deref().or(at.hostname.as_deref()));
    let own = spec.external_ips.as_deref().unwrap_or_default().iter().map(|ip| &**ip);
    let mut out: Vec<Arc<str>> = Vec::new();
    for text in balanced.chain(own).filter(|text| !text.is_empty()) {
        if !out.iter().any(|known| **known == *text) {
            out.push(text.into());
        }
    }
    super::read::bounded("external addresses", &out, MOST_ADDRESSES)?;
    Ok(out.into())
}

/// Parses a JSON map of strings; `{}` selects every node, an invalid map none.
fn node_selector(json: &str) -> Option<Labels> {
    serde_json::from_str::<Pairs<'_>>(json).ok().map(|pairs| pairs.labels())
}
