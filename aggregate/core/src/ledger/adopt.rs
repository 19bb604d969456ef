//! Rotation: decides when a shadow may replace the served run, and applies the difference.
//!
//! Called by [`ingest`](crate::ingest) at the end of a batch. Until adoption the old run serves, with no
//! time limit. A run that has listed and lost its connection since waits until it is followed again, and one that the last changes did not
//! reach yet until they have. A credential that can read less therefore waits, visibly, until the old run fails or an
//! operator accepts it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Collection, CollectionKind, EndEvidence, Evidence, FactKey, Fingerprint, Freshness, Generation,
    ListResult, Mono, Scope, Scopes, SourceState,
};

use super::tables::{Change, Mark};
use super::{Ledger, List, Output, Scoped, stands_in};

/// Reason why a shadow does not replace the served run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A required collection has no result yet.
    NotSynced,
    /// The source's identity changed to this one.
    Identity(Fingerprint),
    /// A required collection that the served run knows was listed and is not followed now: it may lack what the served run has seen.
    NotFollowed,
    /// The served run has seen changes that did not reach the shadow yet; [`Registry`](super::Registry) judges it.
    Behind,
    /// The served run reads more.
    Weaker(Less),
}

/// What a shadow can read less of than the served run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Less {
    /// Collections that are live in the served run, and of which the shadow's list covers less.
    pub(crate) collections: Vec<Collection>,
    /// Parts of the source that the served run reads and the shadow may not, such as a kind that gives attributes only.
    pub(crate) parts: Vec<Arc<str>>,
}

impl Obstacle {
    /// Returns whether an operator may accept it; a run that has not listed everything, or does not follow it, must sync first.
    pub(crate) const fn is_acceptable(&self) -> bool {
        matches!(self, Self::Identity(_) | Self::Weaker(_))
    }
}

impl Ledger {
    /// Returns why this run may not replace the served one; `None` if it may. Its source may have the `accepted` identity.
    pub(crate) fn obstacle(
        &self,
        served: &Self,
        scopes: &Scopes,
        accepted: Option<&Fingerprint>,
    ) -> Option<Obstacle> {
        if !self.is_synced() {
            return Some(Obstacle::NotSynced);
        }
        let identity = self.identity.as_ref().filter(|identity| Some(*identity) != accepted);
        if let Some(identity) = identity.filter(|_| self.is_of_another_source(served)) {
            return Some(Obstacle::Identity(identity.clone()));
        }
        if !self.follows_what_is_known(served) {
            return Some(Obstacle::NotFollowed);
        }
        let less = Less {
            collections: self.weaker(served, scopes).collect(),
            parts: self.parts_lost(served, scopes).cloned().collect(),
        };
        (less != Less::default()).then_some(Obstacle::Weaker(less))
    }

    /// Returns whether the two runs report different identities of their source.
    pub(crate) fn is_of_another_source(&self, served: &Self) -> bool {
        self.identity.is_some() && served.identity.is_some() && self.identity != served.identity
    }

    fn follows_what_is_known(&self, served: &Self) -> bool {
        let is_behind = |list: &List| {
            list.result.is_some_and(|result| result > ListResult::Withheld)
                && list.freshness != Freshness::Live
        };
        let mut required = self.follows.iter().flat_map(|all| &all.required);
        !required
            .any(|of| self.list(of).is_some_and(is_behind) && served.list(of).is_some_and(List::is_known))
    }

    fn weaker<'a>(&'a self, served: &'a Self, scopes: &'a Scopes) -> impl Iterator<Item = Collection> {
        let live = served.collections().filter(|(c, list)| {
            scopes.allow(&c.scope) && list.freshness == Freshness::Live && list.result.is_some()
        });
        let less = live.filter(|(c, list)| self.list(c).and_then(|own| own.result) < list.result);
        less.filter(|(c, _)| !self.has_ended(&c.scope)).map(|(collection, _)| collection)
    }

    /// Returns what both runs have reported of the scopes that they share: of this one, then of the served one.
    pub(super) fn shared_scopes<'a>(
        &'a self,
        served: &'a Self,
        scopes: &'a Scopes,
    ) -> impl Iterator<Item = (&'a Scoped, &'a Scoped)> {
        let allowed = served.scopes.iter().filter(|(scope, _)| scopes.allow(scope));
        allowed.filter_map(|(scope, theirs)| Some((self.scopes.get(scope)?, theirs)))
    }

    fn parts_lost<'a>(&'a self, served: &'a Self, scopes: &'a Scopes) -> impl Iterator<Item = &'a Arc<str>> {
        self.shared_scopes(served, scopes).flat_map(|(own, theirs)| {
            let read = theirs.parts(SourceState::Live);
            let refused: BTreeSet<&Arc<str>> = own.parts(SourceState::Forbidden).collect();
            read.filter(move |name| refused.contains(name))
        })
    }

    /// Replaces this run by `next`. Equal facts keep their handles; facts that a complete list lacks are
    /// superseded, which counts as absence; all other facts of the old run move to `next`, stale.
    pub(crate) fn adopt(self, mut next: Self, scopes: &Scopes, now: Mono, out: &mut impl Output) -> Self {
        let (generation, identity, ended) = (next.generation, self.identity, self.ended);
        next.lost.extend(self.lost);
        for (scope, old) in self.scopes {
            if next.scopes.contains_key(&scope) {
                next.take_over(&scope, old, generation, now, out);
            } else if !scopes.allow(&scope) {
                next.scopes.insert(scope.clone(), old);
                next.end_scope(&scope, EndEvidence::Operator, now, out);
            } else if next.has_ended(&scope) || old.is_empty() {
                next.release(&scope, &old, now, out);
            } else {
                next.keep(scope, old, now);
            }
        }
        for (scope, scoped) in &next.scopes {
            scoped.report_all(scope, out);
        }
        let room = Self::MOST_ENDED.saturating_sub(next.ended.len());
        let older = ended.into_iter().filter(|e| !next.scopes.contains_key(&e.scope)).rev().take(room);
        older.collect::<Vec<_>>().into_iter().for_each(|ended| next.ended.push_front(ended));
        next.identity = next.identity.or(identity);
        next.untidy = true;
        out.note();
        next
    }

    /// Keeps a scope that the new run does not report, stale.
    fn keep(&mut self, scope: Scope, mut old: Scoped, now: Mono) {
        for kind in CollectionKind::ALL {
            let known = old.list(kind).freshness != Freshness::Unknown || old.tables.len(kind) > 0;
            let list = old.list_mut(kind);
            list.restart(now, &"the run that serves now does not follow it".into());
            if known {
                list.rest(now, "the run that serves now does not follow it");
            }
        }
        old.excluded = None;
        self.scopes.insert(scope, old);
    }

    /// Removes a scope that ended in the new run or was empty.
    fn release(&self, scope: &Scope, old: &Scoped, now: Mono, out: &mut impl Output) {
        let ended = self.ended.iter().find(|ended| ended.scope == *scope);
        let evidence = ended.map_or(Evidence::Operator, |ended| ended.evidence.clone());
        for item in old.tables.items() {
            out.remove(&FactKey { scope: scope.clone(), item }, &evidence);
        }
        out.free(scope, &evidence, now);
    }

    fn take_over(
        &mut self,
        scope: &Scope,
        mut old: Scoped,
        generation: Generation,
        now: Mono,
        out: &mut impl Output,
    ) {
        let listed_all = self.lists_all_of(scope);
        let Some(new) = self.scopes.get_mut(scope) else { return };
        for kind in CollectionKind::ALL {
            new.take_over(kind, scope, &mut old, (generation, now), out);
        }
        if listed_all {
            for record in old.problems.iter().filter(|record| !new.problems.is_open(&record.object.id)) {
                out.problem(scope, &record.object.id, None);
            }
        } else {
            let Scoped { tables, problems, .. } = new;
            problems.inherit(old.problems, |item| tables.get(item).is_some_and(|(_, mark)| mark.seen == 0));
        }
        if new.status.is_none() {
            new.status = old.status;
        }
    }

    pub(super) fn lists_all_of(&self, scope: &Scope) -> bool {
        let listed = |kind| {
            let list = self.list(&Collection { scope: scope.clone(), kind });
            list.and_then(|list| list.result).is_some_and(|result| result > ListResult::Withheld)
        };
        self.follows.as_ref().is_some_and(|all| all.kinds(scope).all(listed))
    }
}

impl Scoped {
    /// Returns the parts of the source in a state, as it reported them last.
    fn parts(&self, state: SourceState) -> impl Iterator<Item = &Arc<str>> {
        let parts = self.status.iter().flat_map(|dated| &*dated.status.parts);
        parts.filter(move |part| part.state == state).map(|part| &part.name)
    }
    /// Takes over a collection of the old run.
    fn take_over(
        &mut self,
        kind: CollectionKind,
        scope: &Scope,
        old: &mut Self,
        (generation, now): (Generation, Mono),
        out: &mut impl Output,
    ) {
        let list = self.list(kind);
        let complete = list.decides();
        let mut inherited = 0;
        let facts: Vec<_> = old.tables.iter(kind).collect();
        for (fact, mark) in facts {
            let item = fact.item();
            let own = if kind == CollectionKind::Policies { self.tables.get(&item) } else { None };
            if let Some((_, seen)) = own.filter(|(own, _)| stands_in(own) && !stands_in(&fact)) {
                self.tables.put(&fact, Mark { changed: mark.changed, ..seen });
                continue;
            }
            if self.tables.prefer(&fact, mark) {
                continue;
            }
            let spared = complete && self.problems.is_bad(fact.object(), generation);
            if complete && !spared {
                out.remove(&FactKey { scope: scope.clone(), item }, &Evidence::Superseded(generation));
                continue;
            }
            if spared {
                self.problems.spare(fact.object(), &item, generation);
            }
            inherited += usize::from(!complete);
            self.tables.put(&fact, Mark { seen: 0, ..mark });
        }
        let list = self.list_mut(kind);
        list.inherit(inherited, now);
        if list.freshness == Freshness::Unknown && old.list(kind).is_known() {
            list.rest(now, "the run that serves now does not follow it");
        }
        if list.confirmed.is_none() {
            list.confirmed = old.list(kind).confirmed;
        }
    }

    /// Outputs every fact of a run that begins to serve, and when each collection was confirmed.
    fn report_all(&self, scope: &Scope, out: &mut impl Output) {
        for kind in CollectionKind::ALL {
            for (fact, mark) in self.tables.iter(kind).filter(|(_, mark)| mark.seen > 0) {
                out.put(scope, fact, mark.basis, mark.changed, Change::Changed);
            }
            if let Some(at) = self.list(kind).confirmed {
                out.confirm(&Collection { scope: scope.clone(), kind }, at);
            }
        }
        for record in self.problems.iter() {
            out.problem(scope, &record.object.id, Some(record));
        }
    }
}
