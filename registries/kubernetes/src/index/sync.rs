//! When a collection of facts is all there: the sync of collections from the sync of feeds.
//!
//! A collection is synced once every feed of every kind that its derivations join has listed, or has been
//! found absent or withheld. Until then nothing of it is said: an endpoint derived without its pods would be
//! a shrunk one. Later lists do not unsync it, because the index keeps what it knew and says differences only.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Collection, CollectionKind, Completeness, Delta, Scope};

use crate::input::{Feed, Kind};
use crate::options::Options;

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

/// What is known of the feeds, and what follows for the collections.
#[derive(Debug)]
pub(super) struct Sync {
    scope: Scope,
    feeds: BTreeSet<Feed>,
    listed: BTreeSet<Feed>,
    confirmed: BTreeSet<Feed>,
    synced: BTreeMap<CollectionKind, bool>,
    started: bool,
}

impl Sync {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            scope: options.scope.clone(),
            feeds: options.feeds().into_iter().collect(),
            listed: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            synced: COLLECTIONS.into_iter().map(|kind| (kind, false)).collect(),
            started: false,
        }
    }
    fn collection(&self, kind: CollectionKind) -> Collection {
        Collection { scope: self.scope.clone(), kind }
    }
    /// A feed has listed, or need not be waited for.
    pub(super) fn listed(&mut self, feed: &Feed) {
        self.listed.insert(feed.clone());
        self.confirmed.insert(feed.clone());
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
    /// The run's first words: what is required, and that nothing of it has been kept from another run.
    pub(super) fn begin(&mut self) -> Vec<Delta> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        let all = || COLLECTIONS.iter().map(|kind| self.collection(*kind));
        std::iter::once(Delta::Required(all().collect())).chain(all().map(Delta::Restart)).collect()
    }
    /// Collections that have become synced, and those whose every feed has been confirmed since last asked.
    pub(super) fn end(&mut self) -> Vec<Delta> {
        let mut out = Vec::new();
        for kind in COLLECTIONS {
            let before = self.synced.get(&kind).copied().unwrap_or_default();
            if !before && self.is_ready(kind) {
                self.synced.insert(kind, true);
                out.push(Delta::Synced(self.collection(kind), Completeness::Complete));
            }
        }
        if !self.confirmed.is_empty() && self.feeds.iter().all(|feed| self.confirmed.contains(feed)) {
            self.confirmed.clear();
            out.extend(COLLECTIONS.iter().map(|kind| Delta::Progress(self.collection(*kind))));
        }
        out
    }
}
