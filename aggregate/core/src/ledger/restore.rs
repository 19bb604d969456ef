//! Restores the ledger of generation 0 from journal records.
//!
//! Called before a registry's first run. Restored facts are stale since the source's last
//! confirmation; the first run lists them like any later run.

use tributary_model::{Collection, Generation, Mono, Record, Scope};

use super::tables::{BasisKind, Change, Mark};
use super::{Ended, Ledger, Output};

/// Generation of facts that were restored from a journal.
pub(crate) const RESTORED: Generation = Generation(0);

impl Ledger {
    /// Restores one record. The list record of a collection comes before its facts.
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
                // a collection that no run listed or could read stays unknown
                if list.was_read() {
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
            // an empty scope that was freed is not shown
            Record::Ended(_, _, evidence, _) if evidence.is_absence() => {}
            Record::Ended(_, scope, evidence, at) => self.ended.push_back(Ended { scope, evidence, at }),
            Record::Identity(_, identity) => self.identity = Some(identity),
            Record::Remove(..) | Record::Hold(..) | Record::Left(_) => {}
        }
        out.note();
    }

    /// Removes lost scopes that are known now: ended, fully listed, or not followed by a synced run.
    pub(super) fn settle_lost(&mut self) {
        if self.lost.is_empty() || !self.is_synced() {
            return;
        }
        let lost = std::mem::take(&mut self.lost);
        let is_unknown = |scope: &Scope| !self.has_ended(scope) && !self.lists_all_of(scope);
        self.lost = lost.into_iter().filter(is_unknown).collect();
    }
}
