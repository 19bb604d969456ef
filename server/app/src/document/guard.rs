//! Held removals as documents.

use serde::{Deserialize, Serialize};

use super::filter::Filter;

/// Removal that waits for proof.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldItem {
    /// Id for `guard release`; equal on every replica and after a restart.
    #[serde(default)]
    pub id: String,
    /// Registry that reported the removal.
    #[serde(default)]
    pub registry: String,
    /// Scope of the registry.
    #[serde(default)]
    pub scope: String,
    /// Description of the fact.
    pub what: String,
    /// Reason.
    pub reason: String,
    /// Number of confirm requests to its source.
    pub confirm_attempts: u32,
    /// Time since the removal was held, in milliseconds.
    #[serde(rename = "sinceMillisAgo")]
    pub since_millis_ago: u64,
}

/// Returns the held removals that match the filter, oldest first.
#[must_use]
pub fn list(mut held: Vec<HeldItem>, filter: &Filter) -> Vec<HeldItem> {
    held.retain(|item| filter.takes_name(&item.id) && filter.takes_registry(&item.registry));
    held.sort_by(|a, b| (b.since_millis_ago, &a.id).cmp(&(a.since_millis_ago, &b.id)));
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_removals_are_sorted_by_age_and_filtered_by_id() {
        let item =
            |id: &str, since_millis_ago| HeldItem { id: id.into(), since_millis_ago, ..HeldItem::default() };
        let all = vec![item("b", 1), item("c", 9), item("a", 1)];
        let ids = |filter: &Filter| list(all.clone(), filter).into_iter().map(|i| i.id).collect::<Vec<_>>();
        assert_eq!(ids(&Filter::default()), ["c", "a", "b"]);
        assert_eq!(ids(&Filter { name: Some("a".into()), ..Filter::default() }), ["a"]);
    }
}
