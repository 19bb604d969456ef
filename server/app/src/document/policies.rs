//! Policies as documents: their source, what they select, and the conditions that concern them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tributary_model::{Catalog, Collection, CollectionKind, PolicyKey, PolicyView};

use super::endpoints::freshness_text;
use super::filter::Filter;
use super::{ConditionItem, ObjectItem, timestamp};

/// One policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyItem {
    /// `Sidecar`, …
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Registry that reports it.
    pub registry: String,
    /// Scope that reports it.
    pub scope: String,
    /// Freshness of that scope: `Live`, `Stale: why`, `Syncing`, `Unknown`.
    pub freshness: String,
    /// Object that declares it.
    pub source: ObjectItem,
    /// Creation time; empty if the source has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Labels of the workloads that it selects; empty for all workloads of its namespace.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionItem>,
}

/// Returns the policies that match the filter, in order, and the number beyond its limit.
#[must_use]
pub fn list(catalog: &Catalog, filter: &Filter) -> (Vec<PolicyItem>, usize) {
    let matching = catalog.policies.iter().filter(|(key, view)| {
        filter.takes_name(&key.name)
            && filter.takes_namespace(key.namespace.as_str())
            && filter.takes_registry(view.shard.registry.name.as_str())
            && filter.host.is_none()
    });
    let more = matching.clone().count().saturating_sub(filter.limit());
    (matching.take(filter.limit()).map(|(key, view)| item(catalog, key, view)).collect(), more)
}

fn item(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> PolicyItem {
    let registry = &view.shard.registry.name;
    let of = Collection { scope: view.shard.scope.clone(), kind: CollectionKind::Policies };
    let collections = catalog.registries.get(registry).map(|known| &*known.collections).unwrap_or_default();
    let freshness = collections.iter().find(|(known, _)| *known == of).map(|(_, freshness)| freshness);
    let labels = view.policy().selector().pairs();
    PolicyItem {
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        registry: registry.to_string(),
        scope: view.shard.scope.to_string(),
        freshness: freshness.map_or_else(|| "Unknown".to_owned(), freshness_text),
        source: ObjectItem::from(&view.declared.source),
        created: view.declared.created.map(timestamp).unwrap_or_default(),
        selector: labels.map(|(label, value)| (label.to_string(), value.to_string())).collect(),
        conditions: view.conditions.iter().map(ConditionItem::from).collect(),
    }
}
