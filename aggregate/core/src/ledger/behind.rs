//! Whether a shadow lacks what the served run has seen since the shadow's lists began.
//!
//! [`Registry`](super::Registry) calls it once for a batch of either run. Both runs read one source over connections of their own: an event can reach the served run first, and a
//! watch of the shadow can be broken for a moment while it still counts as followed. An adoption then would take away an endpoint that
//! was just added.

use tributary_model::{CollectionKind, Fact, Scopes};

use super::{Ledger, Mark, Scoped};

impl Ledger {
    /// Returns whether the served run has seen a change that this run lacks. A served run that is not live has seen nothing lately.
    pub(super) fn is_behind(&self, served: &Self, scopes: &Scopes) -> bool {
        self.shared_scopes(served, scopes).any(|(own, theirs)| {
            CollectionKind::ALL.into_iter().any(|kind| self.lacks_changes(own, theirs, kind))
        })
    }

    /// The last change of the collection is looked at first: facts are compared only if it is recent.
    fn lacks_changes(&self, own: &Scoped, theirs: &Scoped, kind: CollectionKind) -> bool {
        let list = own.list(kind);
        list.may_lack_changes_of(theirs.list(kind))
            && theirs
                .tables
                .iter(kind)
                .any(|(fact, mark)| list.may_lack(mark.changed) && self.lacks(own, &fact, mark))
    }

    fn lacks(&self, own: &Scoped, fact: &Fact, theirs: Mark) -> bool {
        match own.tables.get(&fact.item()) {
            Some((known, mark)) => known != *fact && mark.changed < theirs.changed,
            None => {
                own.list(fact.item().kind()).decides() && !own.problems.is_bad(fact.object(), self.generation)
            }
        }
    }
}
