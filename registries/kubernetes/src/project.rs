//! Projections: objects as the cluster writes them become compact values with only the used fields.
//!
//! Each `decode` reads JSON once, borrowed where possible, and rejects values that no server should accept (a port over
//! 65535, an invalid address), so that only the invalid object is quarantined and its last valid version stays. A missing
//! list and `null` are equal. All collections are bounded.

pub mod configmap;
mod doubts;
pub mod gateway;
pub mod mcs;
pub mod meta;
pub mod namespace;
pub mod node;
mod object;
pub mod pod;
mod read;
pub mod service;
pub mod slice;
mod text;

pub use configmap::MeshConfig;
pub use gateway::Gateway;
pub use mcs::{Export, Import};
pub use meta::Meta;
pub use namespace::Namespace;
pub use node::Node;
pub use object::{Object, ObjectEvent};
pub use pod::Pod;
pub use service::Service;
pub use slice::Slice;

macro_rules! projection {
    ($($type:ty),*) => {$(
        impl tributary_kube_client::Projection for $type {
            fn decode(raw: &serde_json::value::RawValue) -> Result<Self, String> {
                Self::parse(raw.get())
            }
        }
    )*};
}
projection!(Export, Gateway, Import, MeshConfig, Namespace, Node, Pod, Service, Slice);
