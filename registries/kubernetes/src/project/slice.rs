//! An EndpointSlice, compact: there may be a million of its entries.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use tributary_model::{GroupPort, PortName, PortNumber, PortSet};

use super::meta::{Meta, RawMeta};
use super::text::Text;
use crate::input::{Kind, Name};
use crate::interner::Interner;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MCS_SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
const MOST_ENTRIES: usize = 10_000;
const MOST_PORTS: usize = 1024;

/// An EndpointSlice, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its metadata.
    pub meta: Meta,
    /// The Service whose endpoints it lists; `None` where it names none, or is an MCS controller's.
    pub service: Option<Arc<str>>,
    /// Whether it lists names, which no assignment can carry.
    pub names: bool,
    /// Its ports, the same for all of its entries.
    pub ports: PortSet,
    /// Its entries, in the object's order.
    pub entries: Box<[Entry]>,
}

/// One address of a slice: 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub ip: IpAddr,
    /// What the slice says of its state.
    pub state: State,
    /// Where the slice says that it runs.
    pub spot: Option<Arc<EntryTopology>>,
    /// The pod that it names; `namespace/name` where that is not of the slice's namespace.
    pub pod: Option<Atom>,
}

impl Entry {
    /// Namespace and name of the pod that it names, in a slice of this namespace.
    #[must_use]
    pub fn pod_parts<'a>(&'a self, namespace: &'a str) -> Option<(&'a str, &'a str)> {
        let pod: &str = self.pod.as_deref()?;
        Some(pod.split_once('/').unwrap_or((namespace, pod)))
    }
    /// The pod that it names, in a slice of this namespace.
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

/// A text behind one pointer, because every entry may have one.
pub type Atom = Arc<Box<str>>;

/// Where a slice says that an entry runs; shared by all that run there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EntryTopology {
    /// The node.
    pub node: Option<Arc<str>>,
    /// The zone.
    pub zone: Option<Arc<str>>,
}

/// The conditions of an entry that decide its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Ready, or nothing was said.
    Ready,
    /// Not ready, and not said to be going away.
    NotReady,
    /// Going away, and serving still (or nothing was said of that).
    Leaving,
    /// Going away, and serving no more.
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
    /// From the object's JSON.
    pub fn parse(json: &str) -> Result<Self, String> {
        let raw: Raw<'_> = super::read(json)?;
        let meta = raw.metadata.meta(Kind::Slice)?;
        let names = raw.address_type.as_deref() == Some("FQDN");
        let endpoints = raw.endpoints.unwrap_or_default();
        super::bounded("endpoints", &endpoints, MOST_ENTRIES)?;
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
    /// Exchanges what others have too for the shared copy.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
        self.service = self.service.take().map(|name| shared.text(&name));
        self.ports = shared.port_set(self.ports.clone());
        for entry in &mut self.entries {
            entry.spot = entry.spot.take().map(|spot| shared.spot(&spot));
        }
    }
    /// The Service whose endpoints it lists.
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
            spot: spot(endpoint),
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

/// A condition that is not said: ready is true, serving is true, terminating is false. (That a missing
/// `terminating` counted as true dropped the endpoints of slices that were written by hand.)
fn state(endpoint: &RawEndpoint<'_>) -> State {
    let Some(said) = &endpoint.conditions else { return State::Ready };
    match (said.ready, said.terminating, said.serving) {
        (None | Some(true), _, _) => State::Ready,
        (Some(false), Some(true), Some(false)) => State::Left,
        (Some(false), Some(true), _) => State::Leaving,
        (Some(false), _, _) => State::NotReady,
    }
}

fn spot(endpoint: &RawEndpoint<'_>) -> Option<Arc<EntryTopology>> {
    let text = |text: &Option<Text<'_>>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
    let spot = EntryTopology { node: text(&endpoint.node_name), zone: text(&endpoint.zone) };
    (spot != EntryTopology::default()).then(|| Arc::new(spot))
}

/// A pod is in the namespace that its reference names, which may be another namespace in slices written by hand.
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

/// A port without a number leads nowhere in particular and is left out.
fn ports(list: Vec<RawPort<'_>>) -> Result<PortSet, String> {
    super::bounded("ports", &list, MOST_PORTS)?;
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
