//! Kinds of Istio that are known and not served, and what that means for clients.
//!
//! The decoder names documents of these kinds, and the source of a cluster lists their objects. No object becomes a fact.

use std::borrow::Cow;

use tributary_kube_client::Resource;

use super::API_GROUP;

/// A kind that is not served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnservedKind {
    /// The kind, as the API server names it.
    pub(crate) resource: Resource,
    /// What its absence means for clients.
    effect: &'static str,
}

/// The kinds of Istio that are not served.
pub(crate) static UNSERVED: [UnservedKind; 3] = [
    unserved(
        (API_GROUP, &["v1beta1"]),
        ("proxyconfigs", "ProxyConfig"),
        "proxies do not have its concurrency, image and environment from it",
    ),
    unserved(
        ("telemetry.istio.io", &["v1", "v1alpha1"]),
        ("telemetries", "Telemetry"),
        "they write no access logs, metrics and traces because of it",
    ),
    unserved(
        ("extensions.istio.io", &["v1alpha1"]),
        ("wasmplugins", "WasmPlugin"),
        "requests do not pass through its filter",
    ),
];

const fn unserved(
    (group, versions): (&'static str, &'static [&'static str]),
    (plural, kind): (&'static str, &'static str),
    effect: &'static str,
) -> UnservedKind {
    let group = Cow::Borrowed(group);
    let resource = Resource { group, versions, plural, kind, namespaced: true, optional: true };
    UnservedKind { resource, effect }
}

impl UnservedKind {
    /// Returns the kind of this name in an API version, if it is known and not served.
    pub(crate) fn find(kind: &str, version: &str) -> Option<&'static Self> {
        let (group, _) = version.split_once('/')?;
        UNSERVED.iter().find(|known| known.resource.group == group && known.resource.kind == kind)
    }
    /// Returns what it means that an object of the kind is not served.
    pub(crate) fn message(&self) -> String {
        format!("{} is not served: clients behave as without it, and {}", self.resource.kind, self.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_and_name_in_any_version() {
        for known in &UNSERVED {
            let Resource { group, kind, .. } = &known.resource;
            assert_eq!(UnservedKind::find(kind, &format!("{group}/v9")), Some(known));
            assert_eq!(UnservedKind::find(kind, "gateway.networking.k8s.io/v1"), None, "{kind}");
        }
        assert_eq!(UnservedKind::find("Sidecar", "networking.istio.io/v1"), None);
        for kind in ["PeerAuthentication", "AuthorizationPolicy", "RequestAuthentication"] {
            assert_eq!(UnservedKind::find(kind, "security.istio.io/v1"), None);
        }
    }

    #[test]
    fn kinds_are_listed_where_the_cluster_has_them() {
        assert!(UNSERVED.iter().all(|known| known.resource.optional && known.resource.namespaced));
    }
}
