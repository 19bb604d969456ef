//! Documents from the custom resources of a Kubernetes cluster.
//!
//! A cluster's objects are read through `kube-client`'s watches ([`source`]), each as JSON that goes
//! the way of every document ([`fetched`]), and kept as one table for each kind ([`resource_table`]), which is
//! pure. Each kind is optional and a scope of its own: one that is absent, forbidden or of an older
//! version is so alone.

mod factory;
mod fetched;
mod kinds;
mod resource_table;
mod send;
mod source;

pub use factory::{Addresses, CrdFactory, CrdOptions};
pub use kinds::Kinds;
pub use source::CrdSource;
