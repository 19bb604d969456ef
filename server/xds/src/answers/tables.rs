//! Differences between two maps of tables that share structure; listeners and routes use them for overlays.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use tributary_model::{EncodedResource, Shared};

/// Resources of an overlay, and the resources of its base that it lacks or replaces.
#[derive(Debug, Default)]
pub(crate) struct TableChanges<'a> {
    pub(crate) own: Vec<&'a Arc<EncodedResource>>,
    pub(crate) replaced: Vec<&'a Arc<EncodedResource>>,
}

impl TableChanges<'_> {
    /// Returns both lists.
    pub(crate) fn into_owned(self) -> (Vec<Arc<EncodedResource>>, Vec<Arc<EncodedResource>>) {
        (self.own.into_iter().cloned().collect(), self.replaced.into_iter().cloned().collect())
    }
}

/// Returns the resources that differ between two maps of tables.
pub(crate) fn table_changes<'a, K: Ord, T>(
    from: &'a OrdMap<K, Shared<T>>,
    to: &'a OrdMap<K, Shared<T>>,
    resource: impl Fn(&'a Shared<T>) -> Option<&'a Arc<EncodedResource>>,
) -> TableChanges<'a> {
    let mut out = TableChanges::default();
    for item in from.diff(to) {
        let (before, after) = match item {
            DiffItem::Add(_, after) => (None, Some(after)),
            DiffItem::Remove(_, before) => (Some(before), None),
            DiffItem::Update { old: (_, before), new: (_, after) } => (Some(before), Some(after)),
        };
        let (before, after) = (before.and_then(&resource), after.and_then(&resource));
        if before.zip(after).is_none_or(|(a, b)| a.version != b.version) {
            out.own.extend(after);
            out.replaced.extend(before);
        }
    }
    out
}
