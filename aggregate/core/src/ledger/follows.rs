//! Collections that a run follows.
//!
//! Owned by the ledger; each report of a run replaces the whole set.

use std::collections::BTreeSet;

use tributary_model::{Collection, CollectionKind, Scope};

/// Collections that a run follows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follows {
    /// Collections that must have a result before the run is synced.
    pub(crate) required: BTreeSet<Collection>,
    /// Collections that the sync does not wait for.
    pub(crate) optional: BTreeSet<Collection>,
}

impl Follows {
    /// Returns the followed collections of a scope; the sets are ordered by scope first.
    pub(super) fn of<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Collection> {
        let first = Collection { scope: scope.clone(), kind: CollectionKind::ALL[0] };
        let all = self.required.range(&first..).take_while(|collection| collection.scope == *scope);
        let optional = self.optional.range(first..).take_while(|collection| collection.scope == *scope);
        all.chain(optional)
    }
    /// Returns whether any collection of a scope is followed.
    pub(super) fn scope(&self, scope: &Scope) -> bool {
        self.of(scope).next().is_some()
    }
    /// Returns the followed kinds of a scope.
    pub(super) fn kinds<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = CollectionKind> {
        self.of(scope).map(|collection| collection.kind)
    }
}
