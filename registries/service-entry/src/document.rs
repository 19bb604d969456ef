//! Documents as Istio publishes them: ServiceEntry, WorkloadEntry, WorkloadGroup, Sidecar, DestinationRule, VirtualService,
//! EnvoyFilter, Gateway, PeerAuthentication, AuthorizationPolicy and RequestAuthentication, typed.
//!
//! A document holds the content of its source: not validated, without file names, and compared without
//! positions, so that a moved document is equal. [`Object`] adds the position and version that were read.

pub mod authorization_policy;
pub mod destination_rule;
pub mod envoy_filter;
pub mod gateway;
pub mod http_route;
pub mod peer_authentication;
pub mod request_authentication;
pub mod service_entry;
pub mod sidecar;
pub mod traffic_policy;
pub(crate) mod unserved;
pub mod virtual_service;
pub mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_kube_client::ClusterContext;
use tributary_model::{Labels, Namespace, ObjectId, Source, Timestamp};
use tributary_model::{ObjectVersion, Position};

pub use authorization_policy::AuthorizationPolicy;
pub use destination_rule::DestinationRule;
pub use envoy_filter::EnvoyFilter;
pub use gateway::Gateway;
pub use peer_authentication::PeerAuthentication;
pub use request_authentication::RequestAuthentication;
pub use service_entry::{Location, Resolution, SePort, ServiceEntry};
pub use sidecar::Sidecar;
pub use virtual_service::VirtualService;
pub use workload::{Probe, WorkloadEntry, WorkloadGroup, WorkloadSpec};

use crate::read::fault::Pos;

/// A value and its position in the document; comparison ignores the position.
#[derive(Debug, Clone, Copy, Default)]
pub struct Located<T> {
    /// The position.
    pub at: Pos,
    /// The value.
    pub value: T,
}

impl<T> Located<T> {
    /// Creates a value with its position.
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

/// Shared text with its position.
pub type Text = Located<Arc<str>>;

/// Metadata of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The namespace; `default` if absent.
    pub namespace: Namespace,
    /// The name.
    pub name: Arc<str>,
    /// The labels.
    pub labels: Located<Labels>,
    /// The annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Creation time, if the source has one.
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
    /// Position of the first key.
    pub at: Located<()>,
    /// Metadata.
    pub meta: Meta,
    /// The declared object.
    pub body: Body,
}

/// The content of a document, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Hosts and their endpoints.
    ServiceEntry(ServiceEntry),
    /// A workload that services select.
    WorkloadEntry(WorkloadEntry),
    /// A template for workloads that register themselves; validated only, it has no facts.
    WorkloadGroup(WorkloadGroup),
    /// What workloads reach and receive.
    Sidecar(Sidecar),
    /// How clients use the endpoints of a host.
    DestinationRule(Box<DestinationRule>),
    /// How requests and connections to hosts are routed.
    VirtualService(VirtualService),
    /// How resources of clients are changed.
    EnvoyFilter(Box<EnvoyFilter>),
    /// Which connections workloads accept.
    PeerAuthentication(PeerAuthentication),
    /// Which requests and connections workloads accept.
    AuthorizationPolicy(Box<AuthorizationPolicy>),
    /// Which tokens of requests workloads accept.
    RequestAuthentication(Box<RequestAuthentication>),
    /// Ports of routers.
    Gateway(Gateway),
}

/// The API group of all supported kinds but those of [`SECURITY_GROUP`].
pub const API_GROUP: &str = "networking.istio.io";
/// Its versions, which have the same fields here; the preferred one first.
pub const API_VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha3"];
/// The API group of policies that restrict requests and connections.
pub const SECURITY_GROUP: &str = "security.istio.io";
/// Its versions, which have the same fields here; the preferred one first.
pub const SECURITY_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The API group of Gateways of Kubernetes, which are no documents.
pub(crate) const GATEWAY_API: &str = "gateway.networking.k8s.io";
/// The kind of a [`Body::ServiceEntry`].
pub const SERVICE_ENTRY: &str = "ServiceEntry";
/// The kind of a [`Body::WorkloadEntry`].
pub const WORKLOAD_ENTRY: &str = "WorkloadEntry";
/// The kind of a [`Body::WorkloadGroup`].
pub const WORKLOAD_GROUP: &str = "WorkloadGroup";
/// The kind of a [`Body::Sidecar`].
pub const SIDECAR: &str = "Sidecar";
/// The kind of a [`Body::DestinationRule`].
pub const DESTINATION_RULE: &str = "DestinationRule";
/// The kind of a [`Body::VirtualService`].
pub const VIRTUAL_SERVICE: &str = "VirtualService";
/// The kind of a [`Body::EnvoyFilter`].
pub const ENVOY_FILTER: &str = "EnvoyFilter";
/// The kind of a [`Body::PeerAuthentication`].
pub const PEER_AUTHENTICATION: &str = "PeerAuthentication";
/// The kind of a [`Body::AuthorizationPolicy`].
pub const AUTHORIZATION_POLICY: &str = "AuthorizationPolicy";
/// The kind of a [`Body::RequestAuthentication`].
pub const REQUEST_AUTHENTICATION: &str = "RequestAuthentication";
/// The kind of a [`Body::Gateway`].
pub const GATEWAY: &str = "Gateway";
/// The kind shown for a document without a supported kind.
pub const UNIDENTIFIED: &str = "Document";

/// The kind of that name, if it is supported.
pub(crate) fn known_kind(text: &str) -> Option<&'static str> {
    const ALL: [&str; 11] = [
        SERVICE_ENTRY,
        WORKLOAD_ENTRY,
        WORKLOAD_GROUP,
        SIDECAR,
        DESTINATION_RULE,
        VIRTUAL_SERVICE,
        ENVOY_FILTER,
        PEER_AUTHENTICATION,
        AUTHORIZATION_POLICY,
        REQUEST_AUTHENTICATION,
        GATEWAY,
    ];
    ALL.into_iter().find(|kind| *kind == text)
}

/// The API group of a supported kind, and its versions.
pub(crate) fn api_of(kind: &str) -> (&'static str, &'static [&'static str]) {
    if [PEER_AUTHENTICATION, AUTHORIZATION_POLICY, REQUEST_AUTHENTICATION].contains(&kind) {
        (SECURITY_GROUP, &SECURITY_VERSIONS)
    } else {
        (API_GROUP, &API_VERSIONS)
    }
}

impl Body {
    /// The name of the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ServiceEntry(_) => SERVICE_ENTRY,
            Self::WorkloadEntry(_) => WORKLOAD_ENTRY,
            Self::WorkloadGroup(_) => WORKLOAD_GROUP,
            Self::Sidecar(_) => SIDECAR,
            Self::DestinationRule(_) => DESTINATION_RULE,
            Self::VirtualService(_) => VIRTUAL_SERVICE,
            Self::EnvoyFilter(_) => ENVOY_FILTER,
            Self::PeerAuthentication(_) => PEER_AUTHENTICATION,
            Self::AuthorizationPolicy(_) => AUTHORIZATION_POLICY,
            Self::RequestAuthentication(_) => REQUEST_AUTHENTICATION,
            Self::Gateway(_) => GATEWAY,
        }
    }
}

impl Document {
    /// The identity of the object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        let (namespace, name) = (self.meta.namespace.to_shared(), Arc::clone(&self.meta.name));
        ObjectId { kind: self.body.kind(), namespace, name }
    }
    /// Whether it stands in for a document that is not valid.
    pub(crate) fn is_stand_in(&self) -> bool {
        match &self.body {
            Body::AuthorizationPolicy(policy) => policy.is_stand_in,
            Body::RequestAuthentication(policy) => policy.is_stand_in,
            _ => false,
        }
    }
    /// The declared hosts, as written.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = if let Body::ServiceEntry(entry) = &self.body { &*entry.hosts } else { &[] };
        hosts.iter().map(|host| &*host.value)
    }
}

/// A version of an object, as its source reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The document.
    pub document: Arc<Document>,
    /// Position in the source (`shop/pay.yaml:12:1`); empty if the source has no positions.
    pub position: Arc<str>,
    /// Version assigned by the source.
    pub version: Arc<str>,
    /// Context of the cluster; empty for files.
    pub cluster_context: Arc<ClusterContext>,
}

impl Object {
    /// Provenance for the facts made from it.
    #[must_use]
    pub fn source(&self) -> Source {
        Source {
            object: self.document.id(),
            position: Position::new(self.position.clone()),
            version: ObjectVersion(self.version.clone()),
        }
    }
}
