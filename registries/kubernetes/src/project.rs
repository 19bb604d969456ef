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
pub mod pod;
pub mod service;
pub mod slice;
mod text;

pub use configmap::MeshConfig;
pub use gateway::Gateway;
pub use mcs::{Export, Import};
pub use meta::Meta;
pub use namespace::Namespace;
pub use node::Node;
pub use pod::Pod;
pub use service::Service;
pub use slice::Slice;

use serde::Deserialize;

use meta::RawMeta;

/// Object with metadata, spec and status, as in the document.
#[derive(Deserialize)]
#[serde(bound(deserialize = "Spec: Deserialize<'de>, Status: Deserialize<'de>"))]
struct RawObject<'a, Spec, Status> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// Decodes one object; the error names position and cause for operators.
fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Decodes metadata, `spec` and `status` of an object; a missing part is empty.
fn read_object<'a, Spec, Status>(json: &'a str) -> Result<(RawMeta<'a>, Spec, Status), String>
where
    Spec: Deserialize<'a> + Default,
    Status: Deserialize<'a> + Default,
{
    let RawObject { metadata, spec, status } = read(json)?;
    Ok((metadata, spec.unwrap_or_default(), status.unwrap_or_default()))
}

/// Rejects lists that are longer than any real one.
fn bounded<T>(what: &str, list: &[T], most: usize) -> Result<(), String> {
    if list.len() > most {
        return Err(format!("{what} has {} items, more than {most} are not read", list.len()));
    }
    Ok(())
}

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
