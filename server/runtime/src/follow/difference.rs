//! Differences of two catalogs in a scope. Their cost follows the number of changes, since equal parts are shared and skipped.
//!
//! [`super::ScopeSubscription`] computes its changes with it, [`super::subscribers`] whom to wake.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use tributary_model::{
    Catalog, ClusterId, Gateway, GatewayKey, HostEntry, ServiceKey, ServiceView, Shared, WorkloadKey,
    WorkloadView,
};

use super::{ClusterScope, ObjectChange};

/// Returns the changed services that the scope declares, or declared.
pub(super) fn services(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<ObjectChange<ServiceKey, Arc<ServiceView>>> {
    let of = |entry: Option<&Shared<HostEntry>>| -> Vec<Arc<ServiceView>> {
        let all = entry.map_or(&[][..], |entry| &entry.claimants);
        all.iter().filter(|view| scope.declares(view)).cloned().collect()
    };
    let mut out = Vec::new();
    for (_, old, new) in changed(&old.hosts, &new.hosts) {
        claimants(&of(old), of(new), &mut out);
    }
    out
}

fn claimants(
    old: &[Arc<ServiceView>],
    new: Vec<Arc<ServiceView>>,
    out: &mut Vec<ObjectChange<ServiceKey, Arc<ServiceView>>>,
) {
    for view in old.iter().filter(|view| !new.iter().any(|other| other.key == view.key)) {
        out.push(ObjectChange { key: view.key.clone(), before: Some(Arc::clone(view)), after: None });
    }
    for view in new {
        let before = old.iter().find(|before| before.key == view.key).cloned();
        if !before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &view)) {
            out.push(ObjectChange { key: view.key.clone(), before, after: Some(view) });
        }
    }
}

/// Returns the changed workloads of the scope.
pub(super) fn workloads(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<ObjectChange<WorkloadKey, Shared<WorkloadView>>> {
    keyed(&old.workloads, &new.workloads, |key| scope.has(&key.cluster))
}

/// Returns the changed gateways of the scope.
pub(super) fn gateways(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<ObjectChange<GatewayKey, Shared<Gateway>>> {
    keyed(&old.gateways, &new.gateways, |key| scope.has(&key.cluster))
}

/// Returns the clusters of the objects that changed.
pub(super) fn clusters(old: &Catalog, new: &Catalog) -> BTreeSet<ClusterId> {
    let mut out = BTreeSet::new();
    for (_, old, new) in changed(&old.hosts, &new.hosts) {
        let views = old.into_iter().chain(new).flat_map(|entry| entry.claimants.iter());
        for declaration in views.flat_map(|view| view.declarations.iter()) {
            add(&mut out, &declaration.shard.registry.cluster);
        }
    }
    changed(&old.workloads, &new.workloads).for_each(|(key, ..)| add(&mut out, &key.cluster));
    changed(&old.gateways, &new.gateways).for_each(|(key, ..)| add(&mut out, &key.cluster));
    out
}

fn add(all: &mut BTreeSet<ClusterId>, cluster: &ClusterId) {
    if !all.contains(cluster) {
        all.insert(cluster.clone());
    }
}

fn keyed<K: Ord + Clone, V: Clone + PartialEq>(
    old: &OrdMap<K, V>,
    new: &OrdMap<K, V>,
    is_of: impl Fn(&K) -> bool,
) -> Vec<ObjectChange<K, V>> {
    let own = changed(old, new).filter(|(key, ..)| is_of(key));
    own.map(|(key, old, new)| ObjectChange { key: key.clone(), before: old.cloned(), after: new.cloned() })
        .collect()
}

/// Returns the keys whose value changed, with both values.
pub(super) fn changed<'c, K: Ord + 'c, V: PartialEq + 'c>(
    old: &'c OrdMap<K, V>,
    new: &'c OrdMap<K, V>,
) -> impl Iterator<Item = (&'c K, Option<&'c V>, Option<&'c V>)> {
    old.diff(new).map(|item| match item {
        DiffItem::Add(key, new) => (key, None, Some(new)),
        DiffItem::Update { old: (key, old), new: (_, new) } => (key, Some(old), Some(new)),
        DiffItem::Remove(key, old) => (key, Some(old), None),
    })
}
