//! Where encoded answers hang: off the facet that they were made from (law 5).
//!
//! The model defines slots and fills none: core makes them empty, xds fills them. A slot is filled
//! once per projection, off the owner, by whoever asks first; others wait for that one.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::hash::Version;
use crate::id::{ClusterId, Namespace, NetworkId, NodeName};
use crate::locality::Locality;
use crate::resource_inputs::ClientDimensions;

/// What kind of client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// Any Envoy that is not a sidecar: EDS and CDS as asked.
    Envoy,
    /// An Envoy beside a workload, by its four-part node id.
    Sidecar,
    /// A proxyless gRPC client.
    Grpc,
}

/// A client reduced to the dimensions that an answer declares; the rest is absent. Two clients
/// with equal projections get equal bytes.
///
/// An outer `None` is "not declared, cannot be read"; an inner `None` is "the client has none".
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Projection {
    /// Its kind.
    pub kind: Option<ClientKind>,
    /// Its network.
    pub network: Option<Option<NetworkId>>,
    /// Its cluster.
    pub cluster: Option<Option<ClusterId>>,
    /// Where it runs.
    pub locality: Option<Locality>,
    /// Its node.
    pub node: Option<Option<NodeName>>,
    /// Its namespace.
    pub namespace: Option<Option<Namespace>>,
    /// Whether it uses IPv4 and IPv6.
    pub families: Option<(bool, bool)>,
    /// Whether its listeners bind their ports (INTERCEPTION_MODE=NONE).
    pub binds: Option<bool>,
    /// The DNS domain of its short names.
    pub domain: Option<Option<Arc<str>>>,
    /// Whether it captures DNS, so that it uses allocated addresses.
    pub dns_capture: Option<bool>,
}

impl Projection {
    /// Which dimensions are present.
    #[must_use]
    pub fn dims(&self) -> ClientDimensions {
        let mut out = ClientDimensions::NONE;
        let mut note = |present: bool, dim: ClientDimensions| {
            if present {
                out = out | dim;
            }
        };
        note(self.kind.is_some(), ClientDimensions::KIND);
        note(self.network.is_some(), ClientDimensions::NETWORK);
        note(self.cluster.is_some(), ClientDimensions::CLUSTER);
        note(self.locality.is_some(), ClientDimensions::LOCALITY);
        note(self.node.is_some(), ClientDimensions::NODE);
        note(self.namespace.is_some(), ClientDimensions::NAMESPACE);
        note(self.families.is_some(), ClientDimensions::FAMILIES);
        note(self.binds.is_some(), ClientDimensions::BINDS);
        note(self.domain.is_some(), ClientDimensions::DOMAIN);
        note(self.dns_capture.is_some(), ClientDimensions::DNS_CAPTURE);
        out
    }
    /// Whether a client that declares its families can use this address.
    #[must_use]
    pub fn takes(&self, ip: IpAddr) -> bool {
        match self.families {
            None => true,
            Some((v4, v6)) => {
                if ip.is_ipv4() {
                    v4
                } else {
                    v6
                }
            }
        }
    }
}

/// One resource, encoded once. The version stays when the bytes are dropped to save memory.
#[derive(Debug)]
pub struct EncodedResource {
    /// The resource's name.
    pub name: Arc<str>,
    /// The hash of its bytes; of a resource joined from parts, the hash over theirs.
    pub version: Version,
    /// How many bytes it has.
    pub len: u32,
    body: Mutex<Option<Bytes>>,
    used: AtomicBool,
}

impl EncodedResource {
    /// Keeps an encoded resource; its version is the hash of the bytes.
    #[must_use]
    pub fn new(name: Arc<str>, body: Bytes) -> Self {
        Self::joined(name, Version::of(&body), body)
    }
    /// Keeps a resource made of many parts, whose version is the hash over the parts' versions.
    #[must_use]
    pub fn joined(name: Arc<str>, version: Version, body: Bytes) -> Self {
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        Self { name, version, len, body: Mutex::new(Some(body)), used: AtomicBool::new(true) }
    }
    /// A resource made of many parts whose bytes nobody has needed yet.
    #[must_use]
    pub fn unfilled(name: Arc<str>, version: Version, len: usize) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Self { name, version, len, body: Mutex::new(None), used: AtomicBool::new(false) }
    }
    /// The bytes, unless they were dropped.
    #[must_use]
    pub fn body(&self) -> Option<Bytes> {
        self.used.store(true, Ordering::Relaxed);
        self.body.lock().clone()
    }
    /// Whether the bytes were asked for since this was last called; for whoever decides which to
    /// drop.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
    /// Drops the bytes; whoever needs them encodes again.
    pub fn evict(&self) -> Option<Bytes> {
        self.body.lock().take()
    }
    /// Puts back bytes that were encoded again.
    pub fn refill(&self, body: Bytes) {
        debug_assert_eq!(u32::try_from(body.len()).ok(), Some(self.len), "an encoding is not deterministic");
        *self.body.lock() = Some(body);
    }
}

/// What one projection gets from a facet: no resource, one, or several (listeners).
pub type Answers = Arc<[Arc<EncodedResource>]>;

type Cell = Arc<OnceLock<Answers>>;
type Cells = Mutex<Vec<(Projection, Cell)>>;

/// The answers made from one facet. That of the empty projection is inline, others lie behind a
/// small lock that is released before anything is encoded.
#[derive(Debug, Default)]
pub struct EncodedCache {
    common: OnceLock<Answers>,
    others: OnceLock<Box<Cells>>,
}

impl EncodedCache {
    /// The answer for a projection, made by `make` when nobody has asked before.
    pub fn get_or_make(&self, projection: &Projection, make: impl FnOnce() -> Answers) -> Answers {
        if projection.dims() == ClientDimensions::NONE {
            return self.common.get_or_init(make).clone();
        }
        self.cell(projection).get_or_init(make).clone()
    }
    /// The answer for a projection, if somebody has asked before.
    #[must_use]
    pub fn get(&self, projection: &Projection) -> Option<Answers> {
        if projection.dims() == ClientDimensions::NONE {
            return self.common.get().cloned();
        }
        let others = self.others.get()?.lock();
        others.iter().find(|(p, _)| p == projection).and_then(|(_, cell)| cell.get().cloned())
    }
    /// All answers made so far.
    #[must_use]
    pub fn made(&self) -> Vec<Answers> {
        let others =
            self.others.get().map(|o| o.lock().iter().filter_map(|(_, c)| c.get().cloned()).collect());
        let others: Vec<Answers> = others.unwrap_or_default();
        self.common.get().cloned().into_iter().chain(others).collect()
    }
    fn cell(&self, projection: &Projection) -> Cell {
        let mut others = self.others.get_or_init(Box::default).lock();
        if let Some((_, cell)) = others.iter().find(|(p, _)| p == projection) {
            return Arc::clone(cell);
        }
        let cell = Cell::default();
        others.push((projection.clone(), Arc::clone(&cell)));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static [u8]) -> Answers {
        Arc::from([Arc::new(EncodedResource::new("x".into(), Bytes::from_static(body)))])
    }

    #[test]
    fn a_slot_is_filled_once_per_projection() {
        let slots = EncodedCache::default();
        let grpc = Projection { kind: Some(ClientKind::Grpc), ..Projection::default() };
        let first = slots.get_or_make(&grpc, || answer(b"a"));
        let again = slots.get_or_make(&grpc, || unreachable!("made twice"));
        assert!(Arc::ptr_eq(&first, &again));
        let common = slots.get_or_make(&Projection::default(), || answer(b"b"));
        assert_ne!(common[0].version, first[0].version);
        assert_eq!(slots.made().len(), 2);
    }

    #[test]
    fn a_version_outlives_its_bytes() {
        let encoded = EncodedResource::new("x".into(), Bytes::from_static(b"abc"));
        let version = encoded.version;
        encoded.evict();
        assert!(encoded.body().is_none());
        encoded.refill(Bytes::from_static(b"abc"));
        assert_eq!((encoded.version, encoded.body().unwrap().len()), (version, 3));
    }

    #[test]
    fn use_is_told_once() {
        let encoded = EncodedResource::new("x".into(), Bytes::from_static(b"abc"));
        assert!(encoded.take_used(), "what is new is in use");
        assert!(!encoded.take_used());
        let _ = encoded.body();
        assert!(encoded.take_used());
    }
}
