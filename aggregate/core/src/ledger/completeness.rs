//! Which collections a run requires, and whether they are synced and known.
//!
//! The registry asks before it serves a run, and the build and the report for the state of the catalog. Unknown is
//! not empty (law 1). Pure.

use tributary_model::{Collection, ListResult};

use super::Ledger;

impl Ledger {
    /// Returns whether the run is synced only with a result of this collection.
    pub(crate) fn requires(&self, collection: &Collection) -> bool {
        self.follows.as_ref().is_some_and(|all| all.required.contains(collection))
    }
    /// Returns whether every required collection has a result in this run.
    pub(crate) fn is_synced(&self) -> bool {
        let settled = |collection: &Collection| {
            self.list(collection)
                .map_or_else(|| self.has_ended(&collection.scope), |list| list.result.is_some())
        };
        self.reported && self.follows.as_ref().is_some_and(|all| all.required.iter().all(settled))
    }
    /// Returns whether a required collection was never known; the catalog is then incomplete.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.lost.is_empty() || self.lacks_required()
    }
    fn lacks_required(&self) -> bool {
        match &self.follows {
            None => !self.collections().any(|(_, list)| list.is_known()),
            Some(all) => !all.required.iter().all(|collection| self.is_known(collection)),
        }
    }
    /// Returns whether a required collection was ever known. A run that may read none of them knows nothing of its source,
    /// which is not the same as an empty source.
    pub(crate) fn knows_any(&self) -> bool {
        let required = self.follows.as_ref().map(|all| &all.required);
        required.is_none_or(|all| all.is_empty() || all.iter().any(|collection| self.is_known(collection)))
    }
    /// Returns whether a collection was ever known. One that could never be read is unknown but does not block sync.
    fn is_known(&self, collection: &Collection) -> bool {
        let Some(scoped) = self.scopes.get(&collection.scope) else {
            return self.has_ended(&collection.scope);
        };
        let list = scoped.list(collection.kind);
        let was_read = list.result != Some(ListResult::Withheld) || list.confirmed.is_some();
        list.is_known() && (was_read || scoped.tables.len(collection.kind) > 0)
    }
}
