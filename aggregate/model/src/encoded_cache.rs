//! Cache of encoded answers, stored with the inputs that they were built from (law 5).
//!
//! The core creates empty caches; xds fills them. The first session that needs an answer of a projection
//! encodes it, outside the core task; concurrent sessions wait for that result.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::certificates::CertificateSource;
use crate::closed_ports::ClosedPorts;
use crate::hash::Version;
use crate::id::{ClusterId, Namespace, NetworkId, NodeName};
use crate::labels::Labels;
use crate::locality::Locality;
use crate::resource_inputs::ClientDimensions;
use crate::route_choice::RouteChoice;

/// Kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// Envoy that is not a sidecar: EDS and CDS on request.
    Envoy,
    /// Envoy sidecar of a workload, recognised by its four-part node id.
    Sidecar,
    /// Proxyless gRPC client.
    Grpc,
    /// Envoy that forwards the traffic of others, recognised by the role of its node id.
    Router,
}

impl ClientKind {
    /// Whether the client may receive connections of its own workload by listeners of this server.
    #[must_use]
    pub const fn receives(self) -> bool {
        match self {
            Self::Sidecar | Self::Grpc => true,
            Self::Envoy | Self::Router => false,
        }
    }
}

/// Client reduced to the dimensions that an answer declares, and in them to the values that its inputs name. Clients
/// with equal projections get equal bytes.
///
/// An outer `None` means "not declared, cannot be read"; an inner `None` means "the client has no value".
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Projection {
    /// Kind.
    pub kind: Option<ClientKind>,
    /// Network.
    pub network: Option<Option<NetworkId>>,
    /// Cluster.
    pub cluster: Option<Option<ClusterId>>,
    /// Location.
    pub locality: Option<Locality>,
    /// Node.
    pub node: Option<Option<NodeName>>,
    /// Namespace.
    pub namespace: Option<Option<Namespace>>,
    /// Whether it uses IPv4, and whether it uses IPv6.
    pub families: Option<(bool, bool)>,
    /// Whether its listeners bind their ports (INTERCEPTION_MODE=NONE).
    pub binds: Option<bool>,
    /// Ports on which it cannot listen; has the dimension of `binds`.
    pub closed: Option<ClosedPorts>,
    /// DNS domain that completes short names.
    pub domain: Option<Option<Arc<str>>>,
    /// Whether it captures DNS and therefore uses allocated addresses.
    pub dns_capture: Option<bool>,
    /// Labels that order endpoints, empty text for an absent one. A key that is not here has a value that no endpoint has.
    pub labels: Option<Labels>,
    /// Where it has its certificates of the mesh.
    pub certificates: Option<CertificateSource>,
    /// VirtualServices that serve it, decided from its namespace, labels and Sidecar; absent where none is in question.
    pub choices: Option<Arc<[RouteChoice]>>,
}

impl Projection {
    /// Returns the dimensions that are present.
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
        note(self.labels.is_some(), ClientDimensions::LABELS);
        note(self.certificates.is_some(), ClientDimensions::CERTIFICATES);
        out
    }
    /// Whether the client can use this address; true if its IP families are not declared.
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

/// One encoded resource. The version stays available when the bytes are evicted to save memory.
#[derive(Debug)]
pub struct EncodedResource {
    /// Name of the resource.
    pub name: Arc<str>,
    /// Hash of the bytes; for a composite resource, hash of the versions of its parts.
    pub version: Version,
    /// Length in bytes.
    pub len: u32,
    body: Mutex<Option<Bytes>>,
    used: AtomicBool,
}

impl EncodedResource {
    /// Creates a resource whose version is the hash of its bytes.
    #[must_use]
    pub fn new(name: Arc<str>, body: Bytes) -> Self {
        Self::joined(name, Version::of(&body), body)
    }
    /// Creates a composite resource whose version is the hash of the parts' versions.
    #[must_use]
    pub fn joined(name: Arc<str>, version: Version, body: Bytes) -> Self {
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        Self { name, version, len, body: Mutex::new(Some(body)), used: AtomicBool::new(true) }
    }
    /// Creates a composite resource without its bytes.
    #[must_use]
    pub fn unfilled(name: Arc<str>, version: Version, len: usize) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Self { name, version, len, body: Mutex::new(None), used: AtomicBool::new(false) }
    }
    /// Returns the bytes and marks them as used; `None` after eviction.
    #[must_use]
    pub fn body(&self) -> Option<Bytes> {
        self.used.store(true, Ordering::Relaxed);
        self.body.lock().clone()
    }
    /// Whether the bytes were used since the last call. The memory limit evicts unused bytes.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
    /// Evicts and returns the bytes. The next reader encodes the resource again.
    pub fn evict(&self) -> Option<Bytes> {
        self.body.lock().take()
    }
    /// Restores bytes that were encoded again.
    pub fn refill(&self, body: Bytes) {
        debug_assert_eq!(u32::try_from(body.len()).ok(), Some(self.len), "encoding is not deterministic");
        *self.body.lock() = Some(body);
    }
}

/// Resources of one projection: none, one, or several (listeners).
pub type Answers = Arc<[Arc<EncodedResource>]>;

type Cell = Arc<OnceLock<Answers>>;
type Cells = Mutex<HashMap<Projection, Cell>>;

/// Answers built from one set of inputs. The answer of the empty projection is stored inline; the
/// others are behind a lock that is released before encoding starts.
#[derive(Debug, Default)]
pub struct EncodedCache {
    common: OnceLock<Answers>,
    others: OnceLock<Box<Cells>>,
}

impl EncodedCache {
    /// Returns the answer for a projection; calls `make` on the first request.
    pub fn get_or_make(&self, projection: &Projection, make: impl FnOnce() -> Answers) -> Answers {
        if projection.dims() == ClientDimensions::NONE {
            return self.common.get_or_init(make).clone();
        }
        self.cell(projection).get_or_init(make).clone()
    }
    /// Returns the answer for a projection if it was built before.
    #[must_use]
    pub fn get(&self, projection: &Projection) -> Option<Answers> {
        if projection.dims() == ClientDimensions::NONE {
            return self.common.get().cloned();
        }
        self.others.get()?.lock().get(projection)?.get().cloned()
    }
    /// Returns all answers built so far.
    #[must_use]
    pub fn made(&self) -> Vec<Answers> {
        let others = self.others.get().map(|o| o.lock().values().filter_map(|c| c.get().cloned()).collect());
        let others: Vec<Answers> = others.unwrap_or_default();
        self.common.get().cloned().into_iter().chain(others).collect()
    }
    fn cell(&self, projection: &Projection) -> Cell {
        let mut others = self.others.get_or_init(Box::default).lock();
        if let Some(cell) = others.get(projection) {
            return Arc::clone(cell);
        }
        Arc::clone(others.entry(projection.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static [u8]) -> Answers {
        Arc::from([Arc::new(EncodedResource::new("x".into(), Bytes::from_static(body)))])
    }

    #[test]
    fn answers_are_encoded_once_per_projection() {
        let cache = EncodedCache::default();
        let grpc = Projection { kind: Some(ClientKind::Grpc), ..Projection::default() };
        let first = cache.get_or_make(&grpc, || answer(b"a"));
        let again = cache.get_or_make(&grpc, || unreachable!("encoded twice"));
        assert!(Arc::ptr_eq(&first, &again));
        let common = cache.get_or_make(&Projection::default(), || answer(b"b"));
        assert_ne!(common[0].version, first[0].version);
        assert_eq!(cache.made().len(), 2);
    }

    #[test]
    fn version_survives_eviction_of_the_bytes() {
        let encoded = EncodedResource::new("x".into(), Bytes::from_static(b"abc"));
        let version = encoded.version;
        encoded.evict();
        assert!(encoded.body().is_none());
        encoded.refill(Bytes::from_static(b"abc"));
        assert_eq!((encoded.version, encoded.body().unwrap().len()), (version, 3));
    }

    #[test]
    fn use_is_reported_once() {
        let encoded = EncodedResource::new("x".into(), Bytes::from_static(b"abc"));
        assert!(encoded.take_used(), "new resources count as used");
        assert!(!encoded.take_used());
        let _ = encoded.body();
        assert!(encoded.take_used());
    }
}
