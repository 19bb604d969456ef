//! When a collection of facts is all there: the sync of collections from the sync of feeds.
//!
//! A collection is synced once every feed of every kind that its derivations join has listed, or has been
//! found absent or withheld. Until then nothing of it is said: an endpoint derived without its pods would be
//! a shrunk one. Later lists do not unsync it, because the index keeps what it knew and says differences only.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Collection, CollectionKind, Completeness, Delta, Scope};

use crate::input::{Feed, Kind};
use crate::options::Options;
use crate::touch::Marks;

/// The collections of this registry.
pub const COLLECTIONS: [CollectionKind; 5] = [
    CollectionKind::Services,
    CollectionKind::Groups,
    CollectionKind::Workloads,
    CollectionKind::Gateways,
    CollectionKind::Settings,
];

/// The kinds that a collection's derivations join.
#[must_use]
pub const fn joined(collection: CollectionKind) -> &'static [Kind] {
    match collection {
        CollectionKind::Services => {
            &[Kind::Namespace, Kind::Service, Kind::Export, Kind::Import, Kind::MeshConfig]
        }
        CollectionKind::Groups => &[
            Kind::Namespace,
            Kind::Service,
            Kind::Slice,
            Kind::Pod,
            Kind::Node,
            Kind::Export,
            Kind::Import,
            Kind::MeshConfig,
        ],
        CollectionKind::Workloads => &[Kind::Namespace, Kind::Pod, Kind::Node, Kind::MeshConfig],
        CollectionKind::Gateways => {
            &[Kind::Namespace, Kind::Service, Kind::Node, Kind::Gateway, Kind::MeshConfig]
        }
        CollectionKind::Settings => &[Kind::Namespace, Kind::MeshConfig],
    }
}

/// The optional kinds that are not only joined by a collection's facts, but become facts of it.
const fn made_of(collection: CollectionKind) -> &'static [Kind] {
    match collection {
        CollectionKind::Services | CollectionKind::Groups => &[Kind::Import],
        CollectionKind::Gateways => &[Kind::Gateway],
        CollectionKind::Settings => &[Kind::MeshConfig],
        CollectionKind::Workloads => &[],
    }
}

/// What is known of the feeds, and what follows for the collections.
#[derive(Debug)]
pub(super) struct Sync {
    scope: Scope,
    feeds: BTreeSet<Feed>,
    listed: BTreeSet<Feed>,
    confirmed: BTreeSet<Feed>,
    /// Optional feeds that cannot be read now.
    withheld: BTreeSet<Feed>,
    synced: BTreeMap<CollectionKind, Completeness>,
    started: bool,
    /// Collections that are being said.
    begun: BTreeSet<CollectionKind>,
}

impl Sync {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            scope: options.scope.clone(),
            feeds: options.feeds().into_iter().collect(),
            listed: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            withheld: BTreeSet::new(),
            synced: BTreeMap::new(),
            started: false,
            begun: BTreeSet::new(),
        }
    }
    fn collection(&self, kind: CollectionKind) -> Collection {
        Collection { scope: self.scope.clone(), kind }
    }
    /// A feed has listed.
    pub(super) fn listed(&mut self, feed: &Feed) {
        self.withheld.remove(feed);
        self.listed.insert(feed.clone());
        self.confirmed.insert(feed.clone());
    }
    /// A feed need not be waited for, and says nothing of what is gone.
    pub(super) fn withheld(&mut self, feed: &Feed) {
        self.withheld.insert(feed.clone());
        self.listed.insert(feed.clone());
    }
    /// A feed is followed up to now.
    pub(super) fn confirmed(&mut self, feed: &Feed) {
        self.confirmed.insert(feed.clone());
    }
    /// Whether all that a collection joins is known, so that it may be said.
    pub(super) fn is_ready(&self, kind: CollectionKind) -> bool {
        self.all_in(kind, &self.listed)
    }
    fn all_in(&self, kind: CollectionKind, known: &BTreeSet<Feed>) -> bool {
        self.feeds.iter().filter(|feed| joined(kind).contains(&feed.kind)).all(|feed| known.contains(feed))
    }
    /// A collection whose facts are made of objects that cannot be read is not all there: what an earlier run
    /// said of them stays.
    fn completeness(&self, kind: CollectionKind) -> Completeness {
        let lacks = self.withheld.iter().any(|feed| made_of(kind).contains(&feed.kind));
        if lacks { Completeness::Partial } else { Completeness::Complete }
    }
    /// The collections that are ready since this was last asked.
    pub(super) fn begun(&mut self) -> Vec<CollectionKind> {
        let new = |kind: &CollectionKind| !self.begun.contains(kind) && self.is_ready(*kind);
        let new: Vec<CollectionKind> = COLLECTIONS.into_iter().filter(new).collect();
        self.begun.extend(&new);
        new
    }
    /// Whether anything is being said: before that nothing need be marked.
    pub(super) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }
    /// Forgets marks of what is not being said yet: all of it is derived once it is.
    pub(super) fn forget(&self, marks: &mut Marks) {
        if self.begun.len() < COLLECTIONS.len() {
            marks.retain(|output, _| self.begun.contains(&output.collection()));
        }
    }
    /// The run's first words: what is required, and that nothing of it has been kept from another run.
    pub(super) fn begin(&mut self) -> Vec<Delta> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        let all = || COLLECTIONS.iter().map(|kind| self.collection(*kind));
        std::iter::once(Delta::Follows { required: all().collect(), optional: Vec::new() })
            .chain(all().map(Delta::Restart))
            .collect()
    }
    /// Collections that have become synced, and those whose every feed has been confirmed since last asked.
    pub(super) fn end(&mut self) -> Vec<Delta> {
        let mut out = Vec::new();
        for kind in COLLECTIONS {
            let how = self.completeness(kind);
            let before = self.synced.get(&kind).copied();
            let news =
                before.is_none() || before == Some(Completeness::Partial) && how == Completeness::Complete;
            if news && self.is_ready(kind) {
                self.synced.insert(kind, how);
                out.push(Delta::Synced(self.collection(kind), how));
            }
        }
        let quiet = |feed: &Feed| self.confirmed.contains(feed) || self.withheld.contains(feed);
        if !self.confirmed.is_empty() && self.feeds.iter().all(quiet) {
            self.confirmed.clear();
            out.extend(COLLECTIONS.iter().map(|kind| Delta::Progress(self.collection(*kind))));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mk::mk_options;

    fn synced(sync: &mut Sync, of: CollectionKind) -> Vec<Completeness> {
        let said = |delta: Delta| match delta {
            Delta::Synced(collection, how) if collection.kind == of => Some(how),
            _ => None,
        };
        sync.end().into_iter().filter_map(said).collect()
    }

    #[test]
    fn what_cannot_be_read_sweeps_nothing_until_it_can() {
        let options = mk_options();
        let mut sync = Sync::new(&options);
        for feed in options.feeds().iter().filter(|feed| feed.kind != Kind::Gateway) {
            sync.listed(feed);
        }
        assert!(synced(&mut sync, CollectionKind::Gateways).is_empty(), "waited for");
        sync.withheld(&Feed::all(Kind::Gateway));
        assert_eq!(synced(&mut sync, CollectionKind::Gateways), [Completeness::Partial]);
        assert!(synced(&mut sync, CollectionKind::Gateways).is_empty(), "said once");
        sync.listed(&Feed::all(Kind::Gateway));
        assert_eq!(synced(&mut sync, CollectionKind::Gateways), [Completeness::Complete]);
    }

    #[test]
    fn a_kind_that_cannot_be_read_does_not_keep_the_others_from_being_confirmed() {
        let options = mk_options();
        let mut sync = Sync::new(&options);
        let is_progress = |delta: &Delta| matches!(delta, Delta::Progress(_));
        for feed in options.feeds() {
            sync.listed(&feed);
        }
        sync.withheld(&Feed::all(Kind::Gateway));
        sync.end();
        for feed in options.feeds().iter().filter(|feed| feed.kind != Kind::Gateway) {
            assert!(!sync.end().iter().any(is_progress), "{feed:?} is not confirmed yet");
            sync.confirmed(feed);
        }
        assert_eq!(sync.end().iter().filter(|delta| is_progress(delta)).count(), COLLECTIONS.len());
    }
}
