//! Namespace selection, and the reason for an excluded namespace.
//!
//! [`ClusterObjects`] calls it for every namespaced object; the mesh configuration supplies the selectors. A deselected
//! namespace keeps its objects in the tables: when it is selected again, they return with their current values and without
//! another list.

use std::sync::Arc;

use tributary_model::{Code, ExcludedObject, HostPattern, ObjectRef};

use super::objects::ClusterObjects;
use crate::kind::{Kind, Name};

/// Returns the reason why a namespace is not selected; `None` if it is.
#[must_use]
pub fn unselected(objects: &ClusterObjects, namespace: &str) -> Option<&'static str> {
    let named = &objects.options.namespaces;
    if !named.is_empty() && !named.iter().any(|own| own.as_str() == namespace) {
        return Some("it is not among the `namespaces` that are read");
    }
    let discovery = &objects.mesh().discovery;
    let admitted = || objects.namespace(namespace).is_some_and(|ns| discovery.admit(&ns.meta.labels));
    if discovery.is_empty() || admitted() {
        return None;
    }
    Some("none of meshConfig.discoverySelectors matches its labels")
}

/// Returns the unselected namespaces with the hosts that are missing because of that.
#[must_use]
pub fn excluded(objects: &ClusterObjects) -> Arc<[ExcludedObject]> {
    let all = objects.namespaces.keys();
    let unselected = all.filter_map(|name| Some((name, unselected(objects, &name.name)?)));
    unselected.take(ExcludedObject::MAX).map(|(name, why)| one(objects, name, why)).collect()
}

fn one(objects: &ClusterObjects, name: &Name, why: &str) -> ExcludedObject {
    let hosts = HostPattern::new(format!("*.{}.svc.{}", name.name, objects.options.domain));
    ExcludedObject {
        object: ObjectRef::new(name.object(Kind::Namespace)),
        code: Code::NAMESPACE_NOT_SELECTED,
        message: format!("namespace {} is not selected: {why}", name.name).into(),
        hosts: hosts.into_iter().collect(),
    }
}
