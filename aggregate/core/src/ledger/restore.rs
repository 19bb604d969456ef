//! What a journal kept becomes the ledger of generation 0.
//!
//! Called before a registry's first run. Everything restored is stale since the source last
//! confirmed it; the first run lists onto it like any run after another.

use tributary_model::{Collection, Generation, Mono, Record, Scope};

use super::tables::{BasisKind, Change, Mark};
use super::{Ended, Ledger, Output};

/// The generation of facts that a journal restored.
pub(crate) const RESTORED: Generation = Generation(0);

impl Ledger {
    /// Takes one record. The records of a collection's list come before those of its facts.
    pub(crate) fn restore(&mut self, record: Record, now: Mono, out: &mut impl Output) {
        match record {
            Record::Put(_, scope, fact) => {
                let kind = fact.item().kind();
                let Some(scoped) = self.scoped(&scope) else { return out.refuse() };
                let changed = scoped.list(kind).confirmed.unwrap_or(now);
                let mark = Mark { changed, seen: scoped.list(kind).epoch, basis: BasisKind::Authoritative };
                scoped.tables.put(&fact, mark);
                if !scoped.list(kind).is_known() {
                    scoped.list_mut(kind).restore(None, now);
                }
                out.put(&scope, fact, BasisKind::Authoritative, changed, Change::New);
            }
            Record::List(_, collection, list) => {
                let Some(scoped) = self.scoped(&collection.scope) else { return out.refuse() };
                // what no run has listed yet stays unknown
                if list.count > 0 || list.result.is_some() || list.confirmed.is_some() {
                    scoped.list_mut(collection.kind).restore(list.confirmed, now);
                }
                if list.required {
                    self.follows.get_or_insert_default().required.insert(collection.clone());
                }
                if let Some(at) = list.confirmed {
                    out.confirm(&Collection { scope: collection.scope, kind: collection.kind }, at);
                }
            }
            Record::Problem(_, scope, id, problem) => {
                let Some(scoped) = self.scoped(&scope) else { return out.refuse() };
                if let Some(problem) = problem {
                    out.problem(&scope, &id, Some(&problem));
                    scoped.problems.restore(problem);
                }
            }
            // of an empty scope that was freed nothing is shown
            Record::Ended(_, _, evidence, _) if evidence.is_absence() => {}
            Record::Ended(_, scope, evidence, at) => self.ended.push_back(Ended { scope, evidence, at }),
            Record::Identity(_, identity) => self.identity = Some(identity),
            Record::Drop(..) | Record::Hold(..) | Record::Left(_) => {}
        }
        out.note();
    }

    /// Scopes that were lost and are known by now: ended, listed in full, or not followed by a run that has synced.
    pub(super) fn settle_lost(&mut self) {
        if self.lost.is_empty() || !self.is_synced() {
            return;
        }
        let lost = std::mem::take(&mut self.lost);
        let is_unknown = |scope: &Scope| !self.has_ended(scope) && !self.lists_all_of(scope);
        self.lost = lost.into_iter().filter(is_unknown).collect();
    }
}
