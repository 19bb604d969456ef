//! A real Kubernetes API server over a real etcd, for tests: started on free ports, killed, paused and
//! restarted on the same ones, and accessed through [`KubeApi`]. No controller runs in it, so tests write
//! slices, pods and nodes themselves.

pub mod api;
pub mod credentials;
pub mod marks;
pub mod objects;
pub mod remotes;
pub mod server;
pub mod watched;

pub use api::{KubeApi, Named};
pub use credentials::{Login, Signer};
pub use marks::Marks;
pub use objects::{With, mk_namespace, mk_node, mk_pod, mk_service, mk_slice, mk_slices};
pub use server::{ApiServer, ApiServerOptions};
pub use watched::Watched;

/// Definitions of the custom resources that Tributary reads; minimal versions of the originals.
pub const CRDS: [&str; 14] = [
    include_str!("../crds/serviceentries.yaml"),
    include_str!("../crds/workloadentries.yaml"),
    include_str!("../crds/workloadgroups.yaml"),
    include_str!("../crds/sidecars.yaml"),
    include_str!("../crds/destinationrules.yaml"),
    include_str!("../crds/virtualservices.yaml"),
    include_str!("../crds/envoyfilters.yaml"),
    include_str!("../crds/istio-gateways.yaml"),
    include_str!("../crds/peerauthentications.yaml"),
    include_str!("../crds/authorizationpolicies.yaml"),
    include_str!("../crds/requestauthentications.yaml"),
    include_str!("../crds/serviceexports.yaml"),
    include_str!("../crds/serviceimports.yaml"),
    include_str!("../crds/gateways.yaml"),
];

/// Definitions of some kinds that are not served.
pub const UNSERVED_CRDS: &str = include_str!("../crds/unserved.yaml");

/// Verbs of a credential that only reads.
pub const READ: [&str; 3] = ["get", "list", "watch"];

/// Every resource that Tributary reads in a cluster, with its API group.
pub const READABLE: [&str; 23] = [
    "namespaces",
    "services",
    "discovery.k8s.io/endpointslices",
    "pods",
    "nodes",
    "configmaps",
    "networking.istio.io/serviceentries",
    "networking.istio.io/workloadentries",
    "networking.istio.io/workloadgroups",
    "networking.istio.io/sidecars",
    "networking.istio.io/destinationrules",
    "networking.istio.io/virtualservices",
    "networking.istio.io/envoyfilters",
    "networking.istio.io/gateways",
    "security.istio.io/peerauthentications",
    "security.istio.io/authorizationpolicies",
    "security.istio.io/requestauthentications",
    "multicluster.x-k8s.io/serviceexports",
    "multicluster.x-k8s.io/serviceimports",
    "gateway.networking.k8s.io/gateways",
    "networking.istio.io/proxyconfigs",
    "telemetry.istio.io/telemetries",
    "extensions.istio.io/wasmplugins",
];

/// Returns those of [`READABLE`] whose objects are served; the others are only named.
pub fn served() -> impl Iterator<Item = &'static str> {
    READABLE.into_iter().take(20)
}

/// Returns [`READABLE`] without one kind.
#[must_use]
pub fn without(kind: &str) -> Vec<&'static str> {
    READABLE.into_iter().filter(|one| *one != kind).collect()
}

/// The kinds that [`CRDS`] define.
pub const CUSTOM_KINDS: [(&str, &str); 13] = [
    ("networking.istio.io/v1", "ServiceEntry"),
    ("networking.istio.io/v1", "WorkloadEntry"),
    ("networking.istio.io/v1", "WorkloadGroup"),
    ("networking.istio.io/v1", "Sidecar"),
    ("networking.istio.io/v1", "DestinationRule"),
    ("networking.istio.io/v1", "VirtualService"),
    ("networking.istio.io/v1alpha3", "EnvoyFilter"),
    ("networking.istio.io/v1", "Gateway"),
    ("security.istio.io/v1", "PeerAuthentication"),
    ("security.istio.io/v1", "AuthorizationPolicy"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
];
