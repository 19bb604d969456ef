//! Converts an EnvoyFilter to a policy.

use std::sync::Arc;

use tributary_model::{
    ConfigPatch, DeclaredPolicy, EnvoyFilter, Fact, ObjectMatch, PatchContext, Policy, PolicyKey, PolicyKind,
    ProxyMatch, VersionPattern,
};

use crate::document::envoy_filter::{self, PatchValue};
use crate::document::{Meta, Object};

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &envoy_filter::EnvoyFilter) -> Fact {
    let key = PolicyKey {
        kind: PolicyKind::EnvoyFilter,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.sort();
    let priority = document.priority.map_or(0, |priority| priority.value);
    let policy = Policy::EnvoyFilter(EnvoyFilter {
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        priority: i32::try_from(priority).unwrap_or_default(),
        has_targets: document.has_targets,
        patches: document.patches.iter().filter_map(patch).collect(),
        ignored: ignored.into(),
    });
    Fact::Policy(key, Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }))
}

fn patch(document: &envoy_filter::ConfigPatch) -> Option<ConfigPatch> {
    Some(ConfigPatch {
        apply_to: document.apply_to?.value,
        context: document.context.map_or(PatchContext::Any, |context| context.value),
        proxy: ProxyMatch {
            version: match &document.version {
                Some(text) => Some(VersionPattern::new(&text.value).ok()?),
                None => None,
            },
            metadata: document.metadata.iter().cloned().collect(),
        },
        object: document.objects.first().map_or(ObjectMatch::All, |object| match &object.value {
            envoy_filter::ObjectMatch::Listener(listener) => {
                ObjectMatch::Listener(Box::new(listener.clone()))
            }
            envoy_filter::ObjectMatch::Routes(routes) => ObjectMatch::Routes(Box::new(routes.clone())),
            envoy_filter::ObjectMatch::Cluster(cluster) => ObjectMatch::Cluster(cluster.clone()),
            // concerns no client, as its context
            envoy_filter::ObjectMatch::Waypoint => ObjectMatch::All,
        }),
        operation: document.operation?.value,
        value: document.value.as_ref().and_then(|value| match &value.value {
            PatchValue::Message(bytes) => Some(Arc::clone(bytes)),
            PatchValue::Unread => None,
        }),
    })
}
