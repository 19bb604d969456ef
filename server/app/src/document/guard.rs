//! Removals that are held until their source confirms them, as people read and release them.

use serde::{Deserialize, Serialize};

use super::filter::Filter;

/// A removal that waits for proof.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldItem {
    /// What `guard release` takes; the same on every replica and after a restart.
    #[serde(default)]
    pub id: String,
    /// The registry whose source announced it.
    #[serde(default)]
    pub registry: String,
    /// The part of the registry.
    #[serde(default)]
    pub scope: String,
    /// What is held.
    pub what: String,
    /// Why.
    pub reason: String,
    /// How often its source was asked to confirm it.
    pub confirm_attempts: u32,
    /// For how long, in milliseconds.
    #[serde(rename = "sinceMillisAgo")]
    pub since_millis_ago: u64,
}

/// The held removals that the filter takes, the oldest first.
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
    fn the_oldest_come_first_and_ids_narrow() {
        let item =
            |id: &str, since_millis_ago| HeldItem { id: id.into(), since_millis_ago, ..HeldItem::default() };
        let all = vec![item("b", 1), item("c", 9), item("a", 1)];
        let ids = |filter: &Filter| list(all.clone(), filter).into_iter().map(|i| i.id).collect::<Vec<_>>();
        assert_eq!(ids(&Filter::default()), ["c", "a", "b"]);
        assert_eq!(ids(&Filter { name: Some("a".into()), ..Filter::default() }), ["a"]);
    }
}
