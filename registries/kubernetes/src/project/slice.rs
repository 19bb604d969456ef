//! EndpointSlice, in a compact form for a million entries.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use tributary_model::{GroupPort, PortName, PortNumber, PortSet};

use super::meta::{Meta, RawMeta};
use super::text::Text;
use crate::attributes::EntryTopology;
use crate::interner::Interner;
use crate::kind::{Kind, Name};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MCS_SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
const MOST_ENTRIES: usize = 10_000;
const MOST_PORTS: usize = 1024;

/// EndpointSlice with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Metadata.
    pub meta: Meta,
    /// Service that it belongs to; `None` if it names none, or if an MCS controller owns it.
    pub service: Option<Arc<str>>,
    /// Whether it lists host names, which an assignment cannot hold.
    pub names: bool,
    /// Ports of all entries.
    pub ports: PortSet,
    /// Entries, in the object's order.
    pub entries: Box<[Entry]>,
}

/// Address of a slice: 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Address.
    pub ip: IpAddr,
    /// State from its conditions.
    pub state: State,
    /// Node and zone, if set.
    pub topology: Option<Arc<EntryTopology>>,
    /// Name of its pod; `namespace/name` if that is in another namespace than the slice.
    pub pod: Option<Atom>,
}

impl Entry {
    /// Returns namespace and name of its pod, in a slice of this namespace.
    #[must_use]
    pub fn pod_parts<'a>(&'a self, namespace: &'a str) -> Option<(&'a str, &'a str)> {
        let pod: &str = self.pod.as_deref()?;
        Some(pod.split_once('/').unwrap_or((namespace, pod)))
    }
    /// Returns the name of its pod, in a slice of this namespace.
    #[must_use]
    pub fn pod_name(&self, namespace: &Arc<str>) -> Option<Name> {
        let (of, name) = self.pod_parts(namespace)?;
        let namespace = if *of == **namespace { Arc::clone(namespace) } else { of.into() };
        Some(Name { namespace, name: name.into() })
    }
    /// Whether it names this pod, in a slice of this namespace.
    #[must_use]
    pub fn is_of(&self, namespace: &str, pod: &Name) -> bool {
        self.pod_parts(namespace) == Some((&pod.namespace, &pod.name))
    }
}

/// Text behind a thin pointer, to keep entries small.
pub type Atom = Arc<Box<str>>;

/// State from the conditions of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Ready, or without conditions.
    Ready,
    /// Not ready and not terminating.
    NotReady,
    /// Terminating and serving (or without a serving condition).
    Leaving,
    /// Terminating and not serving.
    Left,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    #[serde(borrow, default)]
    address_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    ports: Option<Vec<RawPort<'a>>>,
    #[serde(borrow, default)]
    endpoints: Option<Vec<RawEndpoint<'a>>>,
}

#[derive(Deserialize)]
struct RawPort<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(default)]
    port: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEndpoint<'a> {
    #[serde(borrow, default)]
    addresses: Option<Vec<Text<'a>>>,
    #[serde(default)]
    conditions: Option<RawConditions>,
    #[serde(borrow, default)]
    node_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    zone: Option<Text<'a>>,
    #[serde(borrow, default)]
    target_ref: Option<RawTarget<'a>>,
}

#[derive(Deserialize, Default)]
struct RawConditions {
    #[serde(default)]
    ready: Option<bool>,
    #[serde(default)]
    serving: Option<bool>,
    #[serde(default)]
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct RawTarget<'a> {
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

impl Slice {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let raw: Raw<'_> = super::read::read(json)?;
        let meta = raw.metadata.meta(Kind::Slice)?;
        let names = raw.address_type.as_deref() == Some("FQDN");
        let endpoints = raw.endpoints.unwrap_or_default();
        super::read::bounded("endpoints", &endpoints, MOST_ENTRIES)?;
        let entries = if names { Vec::new() } else { entries(&endpoints, &meta.name.namespace)? };
        let imported = meta.labels.get(MCS_SERVICE_NAME).is_some();
        let service = meta.labels.get(SERVICE_NAME).filter(|name| !imported && !name.is_empty());
        Ok(Self {
            service: service.map(Arc::from),
            names,
            ports: ports(raw.ports.unwrap_or_default())?,
            entries: entries.into(),
            meta,
        })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
        self.service = self.service.take().map(|name| shared.text(&name));
        self.ports = shared.port_set(self.ports.clone());
        for entry in &mut self.entries {
            entry.topology = entry.topology.take().map(|own| shared.entry_topology(&own));
        }
    }
    /// Returns the name of its Service.
    #[must_use]
    pub fn service_name(&self) -> Option<Name> {
        let name = self.service.clone()?;
        Some(Name { namespace: self.meta.name.namespace.clone(), name })
    }
}

fn entries(endpoints: &[RawEndpoint<'_>], namespace: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        let first = Entry {
            ip: [0, 0, 0, 0].into(),
            state: state(endpoint),
            topology: entry_topology(endpoint),
            pod: pod(endpoint, namespace),
        };
        for text in endpoint.addresses.as_deref().unwrap_or_default() {
            let ip = text
                .parse()
                .map_err(|_| format!("endpoints.addresses: {:?} is not an IP address", &**text))?;
            if entries.len() >= MOST_ENTRIES {
                return Err(format!("endpoints: more than {MOST_ENTRIES} addresses are not read"));
            }
            entries.push(Entry { ip, ..first.clone() });
        }
    }
    Ok(entries)
}

/// Returns the state. A missing condition counts as ready, serving and not terminating. (Counting a missing
/// `terminating` as true would drop the endpoints of slices that are written by hand.)
fn state(endpoint: &RawEndpoint<'_>) -> State {
    let Some(conditions) = &endpoint.conditions else { return State::Ready };
    match (conditions.ready, conditions.terminating, conditions.serving) {
        (None | Some(true), _, _) => State::Ready,
        (Some(false), Some(true), Some(false)) => State::Left,
        (Some(false), Some(true), _) => State::Leaving,
        (Some(false), _, _) => State::NotReady,
    }
}

fn entry_topology(endpoint: &RawEndpoint<'_>) -> Option<Arc<EntryTopology>> {
    let text = |text: &Option<Text<'_>>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
    let own = EntryTopology { node: text(&endpoint.node_name), zone: text(&endpoint.zone) };
    (own != EntryTopology::default()).then(|| Arc::new(own))
}

/// Returns the pod; its namespace is the reference's, which can be another one in slices that are written by hand.
fn pod(endpoint: &RawEndpoint<'_>, own: &str) -> Option<Atom> {
    let target = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let name = target.name.as_deref().filter(|name| !name.is_empty() && !name.contains('/'))?;
    let namespace =
        target.namespace.as_deref().filter(|namespace| !namespace.is_empty() && *namespace != own);
    Some(Arc::new(match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }))
}

/// Returns the ports; excludes ports without a number.
fn ports(list: Vec<RawPort<'_>>) -> Result<PortSet, String> {
    super::read::bounded("ports", &list, MOST_PORTS)?;
    let port = |raw: &RawPort<'_>| -> Result<GroupPort, String> {
        let refused = |error| format!("ports: {error}");
        let number = PortNumber::new(raw.port.unwrap_or_default()).map_err(refused)?;
        let name = PortName::new(raw.name.as_deref().unwrap_or_default()).map_err(refused)?;
        Ok(GroupPort { name, number: Some(number) })
    };
    list.iter().filter(|raw| raw.port.is_some_and(|number| number != 0)).map(port).collect()
}

#[cfg(test)]
mod tests;
