//! Effects of unreadable kinds.
//!
//! Part of the index. Objects that were read before a kind became unreadable stay in the tables; where this run has never
//! read it, the caller passes the objects of an earlier run. If both are missing for a kind that decides whether anything
//! may be published, nothing is published.

use std::sync::Arc;

use tributary_model::{Collection, Evidence, Fingerprint, ObjectRef, RegistryUpdate, Withheld};

use super::index::Index;
use super::sync::Sync;
use crate::kind::{Kind, WatchScope};
use crate::mesh::Mesh;
use crate::project::Object;
use crate::state::invalidate;

/// Kinds that must be readable before a Service may be exported.
const DECIDE_EXPORTS: [Kind; 4] = [Kind::Namespace, Kind::Service, Kind::Export, Kind::MeshConfig];

impl Index {
    /// Whether the objects of a watch are known, from this run or an earlier one.
    #[must_use]
    pub fn is_known(&self, scope: &WatchScope) -> bool {
        self.sync.is_known(scope)
    }
    /// Whether every watch of a kind has listed in this run.
    #[must_use]
    pub fn has_listed(&self, kind: Kind) -> bool {
        self.sync.has_listed(kind)
    }
    /// Whether it is known which Services lack an export.
    #[must_use]
    pub fn knows_exports(&self) -> bool {
        let options = &self.objects.options;
        !self.sync.lacks(|scope| DECIDE_EXPORTS.contains(&scope.kind) && !options.is_for_network_only(scope))
    }
    /// Returns the complete collections whose every readable watch is followed, as `follows` reports of each.
    pub fn followed(&self, follows: impl Fn(&WatchScope) -> bool) -> impl Iterator<Item = &Collection> {
        self.sync.followed(follows)
    }

    pub(super) fn withhold(&mut self, scope: &WatchScope, why: Withheld) {
        self.sync.withheld(scope, why);
        self.context_stale = true;
    }
    /// Records a readable watch; derives again what was published in doubt because of it.
    pub(super) fn readable(&mut self, scope: &WatchScope, how: fn(&mut Sync, &WatchScope)) {
        how(&mut self.sync, scope);
        if scope.kind == Kind::MeshConfig {
            self.objects.forget_mesh();
        }
        self.context_stale |= matches!(scope.kind, Kind::Namespace | Kind::MeshConfig);
        if matches!(scope.kind, Kind::Slice | Kind::Pod | Kind::Export) {
            let doubted = self.published.doubted().map(|output| (output.clone(), Evidence::AbsentFromList));
            self.dirty.extend(doubted);
        }
    }
    /// Sets the mesh configuration of an earlier run: its valid fields replace those that are invalid when this run reads
    /// it.
    pub fn remember_mesh(&mut self, objects: Vec<Object>) {
        for object in objects {
            if let Object::MeshConfig(config) = object
                && config.meta.name == *self.objects.mesh_name()
            {
                self.objects.remember_mesh(config);
            }
        }
    }
    /// Applies the objects of an unreadable kind from an earlier run, if this run knows none.
    pub fn recall(&mut self, scope: &WatchScope, objects: Vec<Object>) {
        if self.sync.is_known(scope) {
            return;
        }
        objects.into_iter().for_each(|object| self.put(object));
        self.sync.recalled(scope);
    }

    /// Takes a value of the config cluster's mesh configuration; the first one lets this run publish facts.
    pub fn follow_mesh(&mut self, mesh: Arc<Mesh>) {
        let changes = self.objects.changes();
        let old = self.objects.follow_mesh(Arc::clone(&mesh));
        let evidence = Evidence::Changed(ObjectRef::new(self.objects.mesh_name().object(Kind::MeshConfig)));
        self.excluded.stale = true;
        self.context_stale = true;
        self.sync.wait_for_mesh(false);
        if self.objects.changes() != changes {
            self.touch_all(&evidence);
        }
        if self.sync.has_begun() {
            let old = old.unwrap_or_default();
            invalidate::followed_mesh(&self.objects, (&old, &mesh), &evidence, &mut self.dirty);
            self.sync.forget(&mut self.dirty);
        }
    }
    /// Returns the mesh configuration that other clusters follow; `None` while it is not known, or while namespaces that it
    /// selects are not.
    #[must_use]
    pub fn mesh_for_others(&self) -> Option<&Mesh> {
        let is_known = self.sync.held_back().is_none() && self.sync.is_context_known();
        is_known.then(|| self.objects.mesh())
    }

    /// Decides whether anything may be published: not while the mesh configuration is unknown, which sets visibilities, nor
    /// while it selects namespaces by unknown labels.
    pub(super) fn judge(&mut self) {
        let selects = !self.objects.mesh().discovery.is_empty();
        let options = &self.objects.options;
        let selected =
            |scope: &WatchScope| scope.kind == Kind::Namespace && !options.is_for_network_only(scope);
        let own = || self.sync.unknown(|scope| scope.kind == Kind::MeshConfig).map(|why| explain(why, MESH));
        // of a cluster that follows another's mesh configuration only the trust domain is its own
        let mesh = if options.follows_mesh { None } else { own() };
        let namespaces = || self.sync.unknown(selected).filter(|_| selects);
        let why = mesh.or_else(|| namespaces().map(|why| explain(why, NAMESPACES)));
        self.context_stale |= self.sync.held_back() != why.as_ref();
        self.sync.hold_back(why);
    }

    /// Sets the identity of the cluster, confirmed before anything was read.
    pub fn learn(&mut self, identity: Fingerprint) {
        self.learned = Some(identity);
    }
    /// Returns the identity update. It precedes every fact; a run that learns the identity later does not publish it.
    pub(super) fn identify(&mut self) -> Option<RegistryUpdate> {
        let found = self.learned.clone()?;
        let is_late = self.identity.is_none() && self.published.count() > 0;
        if is_late || self.identity.as_ref() == Some(&found) {
            return None;
        }
        self.identity = Some(found.clone());
        self.context_stale = true;
        Some(RegistryUpdate::Identity(found))
    }
}

const MESH: &str = "the mesh configuration is unknown, so this run reports nothing of the cluster, and known facts stay; \
                    grant the right to read it, or set meshConfig: none";
const NAMESPACES: &str = "the mesh configuration selects namespaces by labels that are unknown, so this run reports nothing \
                          of the cluster, and known facts stay; grant the right to read namespaces";

fn explain(why: &Withheld, what: &str) -> Withheld {
    Withheld { why: format!("{what}: {}", why.why).into(), ..why.clone() }
}
