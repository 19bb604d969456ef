//! Documents from the custom resources of a Kubernetes cluster.
//!
//! [`source`] reads a cluster's objects through the watches of `kube-client`; [`fetched`] decodes and
//! validates each as any document; [`resource_table`] is the pure table of one kind. [`unserved`] lists the objects of
//! kinds that are not served. Each kind is optional and a scope of its own: absence, a missing right or an old API
//! version affects that kind alone.

mod factory;
mod fetched;
pub(crate) mod kinds;
mod options;
mod resource_table;
mod send;
mod source;
mod unserved;

pub use factory::CrdFactory;
pub use kinds::Kinds;
pub use options::{Addresses, CrdOptions};
pub use source::CrdSource;
