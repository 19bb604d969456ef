//! Watches that a run needs, and the selectors that the server applies.
//!
//! Pure: the run loop opens exactly these watches, and `tributary rbac` lists the rights that they need. The server applies
//! a selector only if no derivation reads the objects that it excludes. Selections that depend on other objects (namespaces
//! by label, Services that are gateways) happen here, because a server cannot join.

use std::borrow::Cow;

use tributary_kube_client::Resource;

use crate::kind::{Kind, WatchScope};
use crate::options::{Mcs, Options};

/// Planned watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Watch scope of its events.
    pub scope: WatchScope,
    /// Kind, as the API server names it.
    pub resource: Resource,
    /// Label selector.
    pub label_selector: Option<String>,
    /// Field selector.
    pub field_selector: Option<String>,
}

/// Returns the watches of a run, in the order of their start.
#[must_use]
pub fn watch_plan(options: &Options) -> Vec<Planned> {
    let planned = |scope: WatchScope| Planned {
        resource: resource_of(&scope, options),
        label_selector: label_selector(scope.kind),
        field_selector: field_selector(&scope, options),
        scope,
    };
    options.watch_scopes().into_iter().map(planned).collect()
}

/// Excludes slices without a Service, and slices from another cluster's exports. A Gateway that loses its network label
/// leaves the watch and is thereby removed.
fn label_selector(kind: Kind) -> Option<String> {
    match kind {
        Kind::Slice => Some("kubernetes.io/service-name,!multicluster.kubernetes.io/service-name".to_owned()),
        Kind::Gateway => Some(tributary_model::labels::NETWORK.to_owned()),
        _ => None,
    }
}

/// Returns the API resource of a watch. A system namespace that is not named is read where that is allowed.
fn resource_of(scope: &WatchScope, options: &Options) -> Resource {
    let resource = resource(scope.kind, options);
    Resource { optional: resource.optional || options.is_for_network_only(scope), ..resource }
}

/// Excludes pods that have ended, and selects a named namespace.
fn field_selector(scope: &WatchScope, options: &Options) -> Option<String> {
    match scope.kind {
        Kind::Namespace => scope.namespace.as_ref().map(|namespace| format!("metadata.name={namespace}")),
        Kind::Pod => Some("status.phase!=Failed,status.phase!=Succeeded".to_owned()),
        Kind::MeshConfig => Some(format!("metadata.name={}", options.mesh_config())),
        _ => None,
    }
}

/// Returns the kinds that a remote cluster is always read for. The run needs those that are not optional; without one of the others
/// it lacks attributes or gateways.
pub fn remote_kinds() -> impl Iterator<Item = Resource> {
    let mcs = Mcs::default();
    let of_options = |kind: &Kind| matches!(kind, Kind::MeshConfig | Kind::Export | Kind::Import);
    Kind::ALL.into_iter().filter(move |kind| !of_options(kind)).map(move |kind| resource_with(kind, &mcs))
}

/// Returns the API resource of a kind.
#[must_use]
pub(super) fn resource(kind: Kind, options: &Options) -> Resource {
    resource_with(kind, &options.mcs)
}

fn resource_with(kind: Kind, mcs: &Mcs) -> Resource {
    let core = |plural: &'static str| (Cow::Borrowed(""), &["v1"][..], plural);
    let of_mcs =
        |plural: &'static str| (Cow::Owned(mcs.group.to_string()), &["v1beta1", "v1alpha1"][..], plural);
    let (group, versions, plural) = match kind {
        Kind::Namespace => core("namespaces"),
        Kind::Service => core("services"),
        Kind::Pod => core("pods"),
        Kind::Node => core("nodes"),
        Kind::MeshConfig => core("configmaps"),
        Kind::Slice => ("discovery.k8s.io".into(), &["v1"][..], "endpointslices"),
        Kind::Export => of_mcs("serviceexports"),
        Kind::Import => of_mcs("serviceimports"),
        Kind::Gateway => ("gateway.networking.k8s.io".into(), &["v1", "v1beta1"][..], "gateways"),
    };
    // nodes give the locality of pods, which nothing needs to wait for
    let optional =
        matches!(kind, Kind::Node | Kind::Export | Kind::Import | Kind::Gateway | Kind::MeshConfig);
    Resource { group, versions, plural, kind: kind.as_str(), namespaced: kind.is_namespaced(), optional }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mk_options;
    use tributary_model::Namespace;

    fn of(kind: Kind, options: &Options) -> Vec<Planned> {
        watch_plan(options).into_iter().filter(|planned| planned.scope.kind == kind).collect()
    }

    #[test]
    fn objects_that_are_never_read_are_excluded_by_the_server() {
        let options = Options { revision: Some("blue".into()), ..mk_options() };
        let table = [
            (Kind::Pod, None, Some("status.phase!=Failed,status.phase!=Succeeded")),
            (Kind::Slice, Some("kubernetes.io/service-name,!multicluster.kubernetes.io/service-name"), None),
            (Kind::Gateway, Some("topology.istio.io/network"), None),
            (Kind::MeshConfig, None, Some("metadata.name=istio-blue")),
            (Kind::Service, None, None),
            (Kind::Namespace, None, None),
            (Kind::Node, None, None),
        ];
        for (kind, labels, fields) in table {
            let planned = of(kind, &options);
            assert_eq!(planned.len(), 1, "{kind:?}");
            assert_eq!(planned[0].label_selector.as_deref(), labels, "{kind:?}");
            assert_eq!(planned[0].field_selector.as_deref(), fields, "{kind:?}");
        }
        assert_eq!(watch_plan(&options).len(), table.len(), "kinds that no option needs are not watched");
    }

    #[test]
    fn named_namespaces_restrict_namespaced_kinds_only() {
        let options = Options { namespaces: vec![Namespace::new("shop").unwrap()], ..mk_options() };
        let namespace = |kind| of(kind, &options)[0].scope.namespace.clone().map(|ns| ns.to_string());
        assert_eq!(namespace(Kind::Service).as_deref(), Some("shop"));
        assert_eq!(namespace(Kind::Node), None);
        assert_eq!(namespace(Kind::Namespace).as_deref(), Some("shop"));
        let namespaces: Vec<_> = of(Kind::Namespace, &options)
            .into_iter()
            .map(|planned| (planned.field_selector.unwrap(), planned.resource.optional))
            .collect();
        let want = [("shop", false), ("tributary-system", true), ("istio-system", true)];
        assert_eq!(namespaces, want.map(|(name, optional)| (format!("metadata.name={name}"), optional)));
        assert_eq!(namespace(Kind::MeshConfig).as_deref(), Some("tributary-system"));
    }

    #[test]
    fn remote_cluster_is_read_with_these_kinds_and_needs_some() {
        let of = |optional: bool| {
            let all = remote_kinds().filter(|kind| kind.optional == optional);
            all.map(|kind| kind.plural).collect::<Vec<_>>()
        };
        assert_eq!(of(false), ["namespaces", "pods", "services", "endpointslices"]);
        assert_eq!(of(true), ["nodes", "gateways"]);
    }

    #[test]
    fn mcs_api_group_comes_from_the_options() {
        let mcs = Mcs { discovery: true, host: true, group: "mcs.example.test".into(), ..Mcs::default() };
        let options = Options { mcs, ..mk_options() };
        let import = &of(Kind::Import, &options)[0].resource;
        assert_eq!(
            (&*import.group, import.plural, import.versions[0]),
            ("mcs.example.test", "serviceimports", "v1beta1")
        );
        assert!(import.optional && !of(Kind::Pod, &options)[0].resource.optional);
    }
}
