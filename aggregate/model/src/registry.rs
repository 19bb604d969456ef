//! What the core is told of a registry when it joins.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{RegistryId, Scope};

/// A registry as the core knows it, whatever runs it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RegistrySpec {
    /// Its name, provider and cluster.
    pub id: Arc<RegistryId>,
    /// Its place among registries of one provider: the config cluster is 0, every other is 1.
    pub rank: u16,
    /// Whether it answers when it is asked to confirm a removal. Only then does the core doubt an
    /// absence; of any other registry it takes every word at once.
    pub can_confirm: bool,
    /// Scopes that the configuration allows. Facts of any other scope end once a run has synced.
    pub scopes: Scopes,
    /// How a later run begins.
    pub restart: RestartMode,
    /// What becomes of scopes whose source is not followed any more.
    pub stale: StalePolicy,
}

/// Scopes that a registry may report.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub enum Scopes {
    /// The configuration lists them all: a scope outside the set was configured away.
    Configured(BTreeSet<Scope>),
    /// The source lists them: a scope that it omits stays, stale, until there is proof of its end.
    #[default]
    Discovered,
}

impl Scopes {
    /// Whether the configuration still allows the scope.
    #[must_use]
    pub fn allow(&self, scope: &Scope) -> bool {
        match self {
            Self::Configured(scopes) => scopes.contains(scope),
            Self::Discovered => true,
        }
    }
}

/// What becomes of a scope whose source is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum StalePolicy {
    /// It stays served as it was, however long.
    #[default]
    Hold,
    /// It is served one priority lower after this time.
    Degrade(Duration),
    /// It is not served after this time.
    Withdraw(Duration),
}

/// How a run after another begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum RestartMode {
    /// On the served facts, which become stale until the run lists them.
    #[default]
    InPlace,
    /// In a shadow, which replaces the served facts once it has read all that they rest on.
    Shadow,
}

impl RegistrySpec {
    /// A registry that restarts in place, discovers its scopes and cannot confirm removals.
    #[must_use]
    pub fn new(id: Arc<RegistryId>, rank: u16) -> Self {
        let (scopes, restart, stale) = (Scopes::Discovered, RestartMode::InPlace, StalePolicy::Hold);
        Self { id, rank, can_confirm: false, scopes, restart, stale }
    }
    /// With the scopes that the configuration lists.
    #[must_use]
    pub fn configured(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        self.scopes = Scopes::Configured(scopes.into_iter().collect());
        self
    }
    /// Answering when it is asked to confirm a removal.
    #[must_use]
    pub const fn confirming(mut self) -> Self {
        self.can_confirm = true;
        self
    }
    /// With a staleness policy.
    #[must_use]
    pub const fn when_stale(mut self, policy: StalePolicy) -> Self {
        self.stale = policy;
        self
    }
    /// Restarting in a shadow.
    #[must_use]
    pub const fn shadowing(mut self) -> Self {
        self.restart = RestartMode::Shadow;
        self
    }
}
