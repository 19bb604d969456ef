//! One real cluster under several names: the UID of its namespace `kube-system` is that of two clusters of the table.
//!
//! The table calls it with every cluster. It adds a condition to each and removes nothing: the operator decides which name stays.

use std::collections::BTreeMap;

use tributary_model::Code;

use crate::document::clusters::{ClusterConditionItem, ClusterItem};

/// Kind of the condition.
pub const SAME_CLUSTER: &str = "SameCluster";

/// Adds the condition to clusters that have one identity.
pub(super) fn mark<'a>(items: impl Iterator<Item = &'a mut ClusterItem>) {
    let mut by_identity: BTreeMap<String, Vec<&mut ClusterItem>> = BTreeMap::new();
    for item in items.filter(|item| !item.identity.is_empty() && item.state != "Removing") {
        by_identity.entry(item.identity.clone()).or_default().push(item);
    }
    for (identity, mut same) in by_identity.into_iter().filter(|(_, same)| same.len() > 1) {
        let names: Vec<String> = same.iter().map(|item| item.name.clone()).collect();
        for item in &mut same {
            let others = names.iter().filter(|name| **name != item.name);
            let condition = condition(&identity, &others.map(String::as_str).collect::<Vec<_>>().join(", "));
            item.conditions.push(condition);
        }
    }
}

fn condition(identity: &str, others: &str) -> ClusterConditionItem {
    let message = format!(
        "it is one cluster with {others}: the UID of kube-system is {identity} in each, and its endpoints are served under each name"
    );
    ClusterConditionItem { kind: SAME_CLUSTER.to_owned(), code: Code::SAME_CLUSTER.to_string(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(items: &[(&str, &str, &str)]) -> Vec<(String, Vec<String>)> {
        let item = |(name, state, identity): &(&str, &str, &str)| ClusterItem {
            name: (*name).into(),
            state: (*state).into(),
            identity: (*identity).into(),
            ..ClusterItem::default()
        };
        let mut items: Vec<ClusterItem> = items.iter().map(item).collect();
        mark(items.iter_mut());
        let shown = |item: ClusterItem| {
            (
                item.name,
                item.conditions.into_iter().map(|one| format!("{} {}", one.code, one.message)).collect(),
            )
        };
        items.into_iter().map(shown).collect()
    }

    #[test]
    fn clusters_with_one_identity_name_each_other() {
        let text = |others: &str| {
            let why = "the UID of kube-system is u in each, and its endpoints are served under each name";
            vec![format!("TRB0717 it is one cluster with {others}: {why}")]
        };
        let found = marked(&[("a", "Live", "u"), ("b", "Stale", "u"), ("c", "Live", "v")]);
        assert_eq!(found, [("a".into(), text("b")), ("b".into(), text("a")), ("c".into(), vec![])]);
        assert_eq!(marked(&[("a", "Live", "u"), ("b", "Live", "u"), ("c", "Live", "u")])[0].1, text("b, c"));
    }

    #[test]
    fn unknown_identities_and_clusters_that_leave_are_no_pair() {
        for other in [("b", "Removing", "u"), ("b", "Live", "")] {
            assert!(marked(&[("a", "Live", "u"), other]).iter().all(|(_, conditions)| conditions.is_empty()));
        }
        let unverified = marked(&[("a", "Live", ""), ("b", "Live", "")]);
        assert!(unverified.iter().all(|(_, conditions)| conditions.is_empty()));
    }
}
