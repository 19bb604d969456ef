//! Registry properties that the core receives when a registry is added.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{Fingerprint, RegistryId, Scope};
use crate::precedence::Precedence;

/// Properties of a registry that the core uses, independent of the adapter.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RegistrySpec {
    /// Name, provider and cluster.
    pub id: Arc<RegistryId>,
    /// Position in the order of all registries.
    pub precedence: Precedence,
    /// Whether it answers confirm requests. The core holds unconfirmed removals only of such registries;
    /// it applies every update of other registries at once.
    pub can_confirm: bool,
    /// Whether [`Settings::entry_visibility`](crate::Settings::entry_visibility) limits the visibility of its declarations.
    pub limited_visibility: bool,
    /// Whether its settings take precedence over those of all other registries.
    pub overrides_settings: bool,
    /// Whether the required services of each scope decide the start, also where nothing else of the scope is known.
    pub services_decide: bool,
    /// Scopes that the configuration allows. Facts of other scopes end after a run has synced.
    pub scopes: Scopes,
    /// How a later run starts.
    pub restart: RestartMode,
    /// Policy for scopes whose source is no longer followed.
    pub stale: StalePolicy,
    /// Identity that its source has, where something outside knows it. It counts until the source reports one.
    pub pinned: Option<Fingerprint>,
}

/// Scopes that a registry may report.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub enum Scopes {
    /// The configuration lists all scopes; other scopes were removed from the configuration.
    Configured(BTreeSet<Scope>),
    /// The source lists the scopes; a scope missing from the list stays, stale, until its end is proven.
    #[default]
    Discovered,
}

impl Scopes {
    /// Whether the configuration allows the scope.
    #[must_use]
    pub fn allow(&self, scope: &Scope) -> bool {
        match self {
            Self::Configured(scopes) => scopes.contains(scope),
            Self::Discovered => true,
        }
    }
}

/// Policy for a scope whose source is no longer followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum StalePolicy {
    /// Serve its last known facts without a time limit.
    #[default]
    Hold,
    /// Serve it one priority lower after this time.
    Degrade(Duration),
    /// Stop serving it after this time.
    Withdraw(Duration),
}

/// How a run starts when an earlier run has reported facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum RestartMode {
    /// With the served facts, which are stale until the run lists them.
    #[default]
    InPlace,
    /// In a shadow, which replaces the served facts after the run has read all required collections.
    Shadow,
}

impl RegistrySpec {
    /// Creates a registry that restarts in place, discovers its scopes and cannot confirm removals. The rank is 0 for
    /// the config cluster and 1 for all other registries of the provider.
    #[must_use]
    pub fn new(id: Arc<RegistryId>, rank: u16) -> Self {
        let precedence = Precedence { provider: Precedence::of_provider(&id.provider), rank };
        let (scopes, restart, stale) = (Scopes::Discovered, RestartMode::InPlace, StalePolicy::Hold);
        let (can_confirm, limited_visibility, overrides_settings) = (false, false, false);
        let services_decide = false;
        Self {
            id,
            precedence,
            can_confirm,
            limited_visibility,
            overrides_settings,
            services_decide,
            scopes,
            restart,
            stale,
            pinned: None,
        }
    }
    /// Sets the scopes that the configuration lists.
    #[must_use]
    pub fn configured(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        self.scopes = Scopes::Configured(scopes.into_iter().collect());
        self
    }
    /// Enables confirm requests.
    #[must_use]
    pub const fn confirming(mut self) -> Self {
        self.can_confirm = true;
        self
    }
    /// Sets the position of its provider among all providers.
    #[must_use]
    pub const fn provider_position(mut self, provider: u16) -> Self {
        self.precedence.provider = provider;
        self
    }
    /// Makes the settings limit the visibility of its declarations.
    #[must_use]
    pub const fn limiting_visibility(mut self) -> Self {
        self.limited_visibility = true;
        self
    }
    /// Makes its settings take precedence over those of all other registries.
    #[must_use]
    pub const fn overriding_settings(mut self) -> Self {
        self.overrides_settings = true;
        self
    }
    /// Makes the required services of each scope decide the start: its scopes are parts of one source.
    #[must_use]
    pub const fn deciding_by_services(mut self) -> Self {
        self.services_decide = true;
        self
    }
    /// Sets the staleness policy.
    #[must_use]
    pub const fn when_stale(mut self, policy: StalePolicy) -> Self {
        self.stale = policy;
        self
    }
    /// Pins the identity of its source, unless one is known.
    #[must_use]
    pub fn pinned(mut self, identity: Option<Fingerprint>) -> Self {
        self.pinned = identity;
        self
    }
    /// Makes later runs start in a shadow.
    #[must_use]
    pub const fn shadowing(mut self) -> Self {
        self.restart = RestartMode::Shadow;
        self
    }
}
