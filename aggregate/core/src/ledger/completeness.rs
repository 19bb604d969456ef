//! Which collections a run requires, and whether they are synced and known.
//!
//! The registry asks before it serves a run, and the build and the report for the state of the catalog. Unknown is
//! not empty (law 1). Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Code, Collection, CollectionKind, Condition, Freshness, ListResult, Scope};

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
    /// Returns whether a required collection that was never known keeps failing. A later read may know it, so a start waits
    /// for it, unlike for one that may not be read.
    pub(crate) fn awaits_failing(&self) -> bool {
        let is_failing =
            |of: &Collection| self.list(of).is_some_and(super::List::is_failing) && !self.is_known(of);
        self.follows.iter().flat_map(|all| &all.required).any(is_failing)
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
    /// Returns whether the collections that decide what clients may receive were ever known: the policies, and the services
    /// of each scope of which anything else is known, or of every scope if `services_decide`. Without them, clients would
    /// reach more or lose whole services.
    pub(crate) fn knows_deciding(&self, services_decide: bool) -> bool {
        let required = self.follows.iter().flat_map(|all| &all.required);
        let mut deciding = required.filter(|collection| match collection.kind {
            CollectionKind::Policies => true,
            CollectionKind::Services => services_decide || self.knows_part_of(&collection.scope),
            _ => false,
        });
        deciding.all(|collection| self.is_known(collection))
    }
    fn knows_part_of(&self, scope: &Scope) -> bool {
        let of_scope = |kind| Collection { scope: scope.clone(), kind };
        CollectionKind::ALL.into_iter().any(|kind| self.is_known(&of_scope(kind)))
    }
    /// Returns whether a required collection was ever known. A run that may read none of them knows nothing of its source,
    /// which is not the same as an empty source.
    pub(crate) fn knows_any(&self) -> bool {
        let required = self.follows.as_ref().map(|all| &all.required);
        required.is_none_or(|all| all.is_empty() || all.iter().any(|collection| self.is_known(collection)))
    }
    /// Returns the followed collections that were never known, sorted.
    pub(crate) fn unread(&self) -> impl Iterator<Item = Collection> {
        let all = self.follows.iter().flat_map(|all| all.required.iter().chain(&all.optional));
        let unread: BTreeSet<&Collection> = all.filter(|collection| !self.is_known(collection)).collect();
        unread.into_iter().cloned()
    }
    /// Returns whether a collection was ever known. One that could never be read is unknown but does not block sync.
    pub(crate) fn is_known(&self, collection: &Collection) -> bool {
        let Some(scoped) = self.scopes.get(&collection.scope) else {
            return self.has_ended(&collection.scope);
        };
        let list = scoped.list(collection.kind);
        let was_read = list.result != Some(ListResult::Withheld) || list.confirmed.is_some();
        list.is_known() && (was_read || scoped.tables.len(collection.kind) > 0)
    }
    /// Returns the conditions for collections that no run could read, if clients receive something else than they should.
    /// Endpoints matter by themselves only where the services of their scope are known, workloads also where it has none.
    pub(crate) fn unread_conditions(&self) -> Vec<Condition> {
        let unread: BTreeSet<Collection> = self.unread().collect();
        let condition = |collection: &Collection| {
            let list = self.list(collection)?;
            let Freshness::Stale { why, .. } = &list.freshness else { return None };
            let services = Collection { scope: collection.scope.clone(), kind: CollectionKind::Services };
            let matters = match collection.kind {
                CollectionKind::Groups => self.is_known(&services),
                CollectionKind::Workloads => !unread.contains(&services),
                _ => true,
            };
            unread_condition(collection, why).filter(|_| matters)
        };
        unread.iter().filter_map(condition).collect()
    }
}

fn unread_condition(Collection { scope, kind }: &Collection, why: &str) -> Option<Condition> {
    let (code, what, effect) = match kind {
        CollectionKind::Services => {
            (Code::SERVICES_UNREAD, "services", "hosts that only they declare are not served")
        }
        CollectionKind::Policies => {
            let effect = "clients reach all that is exported to them, also where a policy restricts them";
            (Code::POLICIES_UNREAD, "policies", effect)
        }
        CollectionKind::Groups => {
            (Code::ENDPOINTS_UNREAD, "endpoints", "clients that hold endpoints of its services keep them")
        }
        CollectionKind::Workloads => {
            let effect = "clients that hold endpoints of services that select them keep these";
            (Code::ENDPOINTS_UNREAD, "workloads", effect)
        }
        _ => return None,
    };
    let message = format!("the {what} of {scope} have never been read: {why}; {effect}");
    Some(Condition { code, objects: Arc::from([]), message: message.into() })
}
