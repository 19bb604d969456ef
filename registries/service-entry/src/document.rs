//! Documents as Istio publishes them: ServiceEntry, WorkloadEntry and WorkloadGroup, typed.
//!
//! A document is what its source says and nothing else: not yet validated, without file names, and
//! compared without its places, so that a moved document is an equal one. [`Object`] adds where a
//! version of it was read.

pub mod service_entry;
pub mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::object::ObjectVersion;
use tributary_model::{Labels, Namespace, ObjectId, Source, Timestamp};
use tributary_registry_api::ClusterContext;

pub use service_entry::{Location, Resolution, SePort, ServiceEntry};
pub use workload::{Probe, WorkloadEntry, WorkloadGroup, WorkloadSpec};

use crate::fault::Pos;

/// A value and its place in the document; the place is not compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Located<T> {
    /// Where it stands.
    pub at: Pos,
    /// The value.
    pub value: T,
}

impl<T> Located<T> {
    /// A value at a place.
    pub const fn new(at: Pos, value: T) -> Self {
        Self { at, value }
    }
}
impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
impl<T: Eq> Eq for Located<T> {}

/// Shared text with its place.
pub type Text = Located<Arc<str>>;

/// What every document says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Its namespace; `default` where it says none.
    pub namespace: Namespace,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Located<Labels>,
    /// Its annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// When it was created, where its source knows.
    pub created: Option<Timestamp>,
}

impl Meta {
    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(|value| &**value)
    }
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where its first key stands.
    pub at: Located<()>,
    /// Names and annotations.
    pub meta: Meta,
    /// What it declares.
    pub body: Body,
}

/// What a document declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Hosts and how to reach them.
    ServiceEntry(ServiceEntry),
    /// A workload that can be selected.
    WorkloadEntry(WorkloadEntry),
    /// A template for workloads that register themselves; accepted and checked, declares nothing.
    WorkloadGroup(WorkloadGroup),
}

/// The kind of a [`Body::ServiceEntry`].
pub const SERVICE_ENTRY: &str = "ServiceEntry";
/// The kind of a [`Body::WorkloadEntry`].
pub const WORKLOAD_ENTRY: &str = "WorkloadEntry";
/// The kind of a [`Body::WorkloadGroup`].
pub const WORKLOAD_GROUP: &str = "WorkloadGroup";
/// What stands for the kind of a document that does not say one that is read.
pub const UNIDENTIFIED: &str = "Document";

/// The kind of that name, where it is one that is read.
pub(crate) fn known_kind(text: &str) -> Option<&'static str> {
    [SERVICE_ENTRY, WORKLOAD_ENTRY, WORKLOAD_GROUP].into_iter().find(|kind| *kind == text)
}

impl Body {
    /// The kind's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ServiceEntry(_) => SERVICE_ENTRY,
            Self::WorkloadEntry(_) => WORKLOAD_ENTRY,
            Self::WorkloadGroup(_) => WORKLOAD_GROUP,
        }
    }
}

impl Document {
    /// Which object this is a version of.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        ObjectId::new(self.body.kind(), self.meta.namespace.as_str(), &self.meta.name)
    }
    /// The hosts that it declares, as written.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = if let Body::ServiceEntry(entry) = &self.body { &*entry.hosts } else { &[] };
        hosts.iter().map(|host| &*host.value)
    }
}

/// A version of a document as a source holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it says.
    pub document: Arc<Document>,
    /// Where it was read (`shop/pay.yaml:12:1`); empty where the source has no places.
    pub place: Arc<str>,
    /// The source's own version of it.
    pub version: Arc<str>,
    /// What holds around it and is not said by it; nothing where the source is no cluster.
    pub cluster_context: Arc<ClusterContext>,
}

impl Object {
    /// Provenance for the facts made from it.
    #[must_use]
    pub fn source(&self) -> Source {
        Source {
            object: self.document.id(),
            place: ObjectVersion(self.place.clone()),
            version: ObjectVersion(self.version.clone()),
        }
    }
}
