//! Topology and identity values that many endpoints share.

use std::sync::Arc;

use tributary_model::{Identity, Labels, Origin, Topology};

/// Node and zone of entries; shared by all with the same ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EntryTopology {
    /// Node.
    pub node: Option<Arc<str>>,
    /// Zone.
    pub zone: Option<Arc<str>>,
}

/// Topology and identity of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadAttributes {
    /// Topology.
    pub topology: Arc<Topology>,
    /// Labels with topology labels added.
    pub augmented: Labels,
    /// Identity that it proves.
    pub identity: Option<Identity>,
    /// Whether it accepts mesh TLS.
    pub mtls: bool,
    /// Origin of the endpoints of a pod.
    pub origin: Option<Arc<Origin>>,
}
