//! Kinds that a credential must be able to list, for the checks of clusters.

use std::borrow::Cow;

use tributary_kube_client::Resource;

/// Kinds that a remote cluster is read for; the optional ones only add localities.
pub const KINDS: [Resource; 5] = [
    kind("", "namespaces", "Namespace", false),
    kind("", "nodes", "Node", true),
    kind("", "pods", "Pod", false),
    kind("", "services", "Service", false),
    kind("discovery.k8s.io", "endpointslices", "EndpointSlice", false),
];

const fn kind(group: &'static str, plural: &'static str, kind: &'static str, optional: bool) -> Resource {
    Resource { group: Cow::Borrowed(group), versions: &["v1"], plural, kind, namespaced: false, optional }
}
