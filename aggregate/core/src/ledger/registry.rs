//! One registry as the core sees it: its served run and the shadow that may replace it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Fingerprint, Generation, Mono, RegistryId, RegistryName, RegistrySpec, Scopes, ShardPriority, StalePolicy,
};

use super::Ledger;
use super::adopt::Obstacle;
use super::restore::RESTORED;

/// All registries, by name.
pub(crate) type Registries = BTreeMap<RegistryName, Registry>;

/// A run that is not served yet.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// What it has reported.
    pub(crate) ledger: Ledger,
    /// The registries whose shadows are adopted together, this one included.
    pub(crate) set: Arc<[RegistryName]>,
    /// Whether an operator accepted that it holds less, or that its source's identity changed.
    pub(crate) accepted: bool,
}

/// What every shard of a registry has in common.
#[derive(Debug, Clone)]
pub(crate) struct Face {
    /// Its name, provider and cluster.
    pub(crate) id: Arc<RegistryId>,
    /// Its rank within its provider; 0 is the config cluster.
    pub(crate) rank: u16,
    /// Whether it answers a question about a removal.
    pub(crate) can_confirm: bool,
    /// Normal, or demoted by policy.
    pub(crate) standing: ShardPriority,
}

/// A registry.
#[derive(Debug)]
pub(crate) struct Registry {
    /// What its shards have in common.
    pub(crate) face: Face,
    /// Scopes that its configuration allows.
    pub(crate) scopes: Scopes,
    /// What becomes of scopes that are stale.
    pub(crate) stale: StalePolicy,
    /// The run that is served.
    pub(crate) ledger: Ledger,
    /// The run that may replace it.
    pub(crate) shadow: Option<Shadow>,
    /// Another identity that the source of the served run reports; its updates are refused.
    pub(crate) stranger: Option<Fingerprint>,
    /// Whether what is held came from a source that is configured otherwise now.
    pub(crate) moved: bool,
    /// When a journal gave facts back: staleness policies count from here, so that a run gets its time to list.
    pub(crate) restored: Mono,
    /// The take that has not ended, where it comes in slices.
    pub(crate) taking: Option<super::Take>,
}

impl Registry {
    /// A registry of which nothing is known.
    pub(crate) fn new(spec: &RegistrySpec) -> Self {
        let (rank, can_confirm) = (spec.rank, spec.can_confirm);
        Self {
            face: Face { id: Arc::clone(&spec.id), rank, can_confirm, standing: ShardPriority::Normal },
            scopes: spec.scopes.clone(),
            stale: spec.stale,
            ledger: Ledger::new(RESTORED),
            shadow: None,
            stranger: None,
            moved: false,
            restored: Mono::default(),
            taking: None,
        }
    }
    /// A run begins that the configuration describes so now. Shards keep their rank until they are made again.
    pub(crate) fn describe(&mut self, spec: &RegistrySpec) {
        (self.face.rank, self.face.can_confirm) = (spec.rank, spec.can_confirm);
        (self.scopes, self.stale) = (spec.scopes.clone(), spec.stale);
    }
    /// Whether updates of this run are taken.
    pub(crate) fn hears(&self, generation: Generation) -> bool {
        self.ledger.generation == generation
            || self.shadow.as_ref().is_some_and(|shadow| shadow.ledger.generation == generation)
    }
    /// What keeps its shadow from serving; `None` where there is no shadow.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        let shadow = self.shadow.as_ref()?;
        shadow.ledger.obstacle(&self.ledger, &self.scopes)
    }
    /// Whether a run waits until an operator accepts it, be it in a shadow or in place of the served one.
    pub(crate) fn needs_accept(&self) -> bool {
        let accepted = self.shadow.as_ref().is_some_and(|shadow| shadow.accepted);
        self.stranger.is_some() || (!accepted && self.obstacle().is_some_and(|it| it.is_acceptable()))
    }
    /// Whether its shadow may serve.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(shadow) = &self.shadow else { return false };
        self.obstacle().is_none_or(|it| shadow.accepted && it.is_acceptable())
    }
}
