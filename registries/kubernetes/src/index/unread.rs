//! Kinds that cannot be read: what that means for everything else.
//!
//! Part of the index. What was read of a kind before it could not be read stays in the tables; where this run has never
//! read it, the caller passes in what an earlier run knew. Where neither is known of a kind that decides whether anything may
//! be reported at all, nothing is.

use tributary_model::{Collection, Evidence, Fingerprint, RegistryUpdate, Withheld};

use super::Index;
use super::sync::Sync;
use crate::input::{Kind, Object, WatchScope};

/// The kinds without which no Service may be exported.
const DECIDE_EXPORTS: [Kind; 4] = [Kind::Namespace, Kind::Service, Kind::Export, Kind::MeshConfig];

impl Index {
    /// Whether this run, or an earlier one, knows the objects of a feed.
    #[must_use]
    pub fn is_known(&self, feed: &WatchScope) -> bool {
        self.sync.is_known(feed)
    }
    /// Whether every feed of a kind has listed in this run.
    #[must_use]
    pub fn has_listed(&self, kind: Kind) -> bool {
        self.sync.has_listed(kind)
    }
    /// Whether it is known which Services lack an export.
    #[must_use]
    pub fn knows_exports(&self) -> bool {
        !self.sync.lacks(&DECIDE_EXPORTS)
    }
    /// The complete collections of which every feed that can be read is followed, with the state of each.
    pub fn followed(&self, follows: impl Fn(&WatchScope) -> bool) -> impl Iterator<Item = &Collection> {
        self.sync.followed(follows)
    }

    pub(super) fn withhold(&mut self, feed: &WatchScope, why: Withheld) {
        self.sync.withheld(feed, why);
        self.around_stale = true;
    }
    /// A feed can be read: what was reported in doubt of it is derived again.
    pub(super) fn readable(&mut self, feed: &WatchScope, how: fn(&mut Sync, &WatchScope)) {
        how(&mut self.sync, feed);
        if feed.kind == Kind::MeshConfig {
            self.inputs.forget_mesh();
        }
        self.around_stale |= matches!(feed.kind, Kind::Namespace | Kind::MeshConfig);
        if matches!(feed.kind, Kind::Slice | Kind::Pod | Kind::Export) {
            let doubted = self.said.doubted().map(|output| (output.clone(), Evidence::AbsentFromList));
            self.marks.extend(doubted);
        }
    }
    /// What an earlier run knew of the mesh configuration: its good parts stand in for those that are not valid when
    /// this run reads it.
    pub fn remember_mesh(&mut self, objects: Vec<Object>) {
        for object in objects {
            if let Object::MeshConfig(config) = object
                && config.meta.name == *self.inputs.mesh_name()
            {
                self.inputs.remember_mesh(config);
            }
        }
    }
    /// Takes in what an earlier run knew, where this one knows nothing.
    pub(super) fn recall(&mut self, feed: &WatchScope, objects: Vec<Object>) {
        if self.sync.is_known(feed) {
            return;
        }
        objects.into_iter().for_each(|object| self.put(object));
        self.sync.recalled(feed);
    }

    /// Decides whether anything may be reported: not while the mesh configuration is unknown, which says who sees what,
    /// nor while it selects namespaces by labels that are unknown.
    pub(super) fn judge(&mut self) {
        let selects = !self.inputs.mesh().discovery.is_empty();
        let mesh = self.sync.unknown(Kind::MeshConfig).map(|why| explain(why, MESH));
        let namespaces = || self.sync.unknown(Kind::Namespace).filter(|_| selects);
        let why = mesh.or_else(|| namespaces().map(|why| explain(why, NAMESPACES)));
        self.around_stale |= self.sync.held_back() != why.as_ref();
        self.sync.hold_back(why);
    }

    /// Takes the cluster's identity, confirmed before anything of it was read.
    pub fn learn(&mut self, identity: Fingerprint) {
        self.learned = Some(identity);
    }
    /// The cluster's identity goes before every fact, so that a run which learns it later keeps it to itself.
    pub(super) fn identify(&mut self) -> Option<RegistryUpdate> {
        let found = self.learned.clone()?;
        let is_late = self.identity.is_none() && self.said.count() > 0;
        if is_late || self.identity.as_ref() == Some(&found) {
            return None;
        }
        self.identity = Some(found.clone());
        self.around_stale = true;
        Some(RegistryUpdate::Identity(found))
    }
}

const MESH: &str = "the mesh configuration is unknown, so nothing of the cluster is reported; grant the right to read it, \
                    or set meshConfig: none";
const NAMESPACES: &str = "the mesh configuration selects namespaces by labels that are unknown, so nothing of the cluster \
                          is reported; grant the right to read namespaces";

fn explain(why: &Withheld, what: &str) -> Withheld {
    Withheld { why: format!("{what}: {}", why.why).into(), ..why.clone() }
}
