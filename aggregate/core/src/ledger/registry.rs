//! State of one registry: its configuration, its served run and the shadow that may replace it.
//!
//! Owned by [`Core`](crate::Core); ingest applies updates through it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Fingerprint, Generation, Mono, Precedence, RegistryId, RegistryName, RegistrySpec, Scopes, ShardPriority,
    StalePolicy,
};

use super::Ledger;
use super::adopt::Obstacle;
use super::restore::RESTORED;

/// All registries, by name.
pub(crate) type Registries = BTreeMap<RegistryName, Registry>;

/// Runs of several registries that begin to serve in one turn, such as those of one cluster with one credential.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunGroup {
    /// Number of the group; a later rotation has another one.
    pub number: u64,
    /// Names of the registries.
    pub names: Arc<[RegistryName]>,
}

/// Run that is not served yet.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Everything that it has reported.
    pub(crate) ledger: Ledger,
    /// Registries whose shadows are adopted together, including this one.
    pub(crate) group: RunGroup,
    /// Scopes that its configuration allows. Those of the served run keep theirs until this run serves.
    pub(crate) scopes: Scopes,
    /// Whether an operator accepted its weaker lists or its source's changed identity.
    pub(crate) accepted: bool,
    /// Since when it lacks changes that the served run has seen.
    behind: Option<Mono>,
    /// Whether it has waited for them long enough: a source that changes all the time has always some under way.
    waited: bool,
}

impl Shadow {
    /// Longest wait for changes that the served run has seen.
    const LONGEST_WAIT: Duration = Duration::from_secs(30);

    /// Creates a run that has reported nothing.
    pub(crate) fn new(generation: Generation, group: RunGroup, scopes: Scopes) -> Self {
        Self { ledger: Ledger::new(generation), group, scopes, accepted: false, behind: None, waited: false }
    }
    fn is_behind(&self) -> bool {
        self.behind.is_some() && !self.waited
    }
    fn await_changes(&mut self, is_behind: bool, now: Mono) {
        self.behind = is_behind.then(|| self.behind.unwrap_or(now));
        self.waited |= self.behind.is_some_and(|since| now.since(since) >= Self::LONGEST_WAIT);
    }
}

/// Properties that all shards of a registry share.
#[derive(Debug, Clone)]
pub(crate) struct RegistryInfo {
    /// Name, provider and cluster.
    pub(crate) id: Arc<RegistryId>,
    /// Position in the order of all registries.
    pub(crate) precedence: Precedence,
    /// Whether it answers confirm requests.
    pub(crate) can_confirm: bool,
    /// Whether the settings limit the visibility of its declarations.
    pub(crate) limited_visibility: bool,
    /// Whether its settings take precedence over those of all other registries.
    pub(crate) overrides_settings: bool,
    /// Whether the required services of each scope decide the start.
    pub(crate) services_decide: bool,
    /// Configured priority of its facts.
    pub(crate) priority: ShardPriority,
}

impl RegistryInfo {
    fn new(spec: &RegistrySpec) -> Self {
        Self {
            id: Arc::clone(&spec.id),
            precedence: spec.precedence,
            can_confirm: spec.can_confirm,
            limited_visibility: spec.limited_visibility,
            overrides_settings: spec.overrides_settings,
            services_decide: spec.services_decide,
            priority: ShardPriority::Normal,
        }
    }
}

/// State of one registry.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Properties that its shards share.
    pub(crate) info: RegistryInfo,
    /// Scopes that the configuration of the served run allows.
    pub(crate) scopes: Scopes,
    /// Policy for stale scopes.
    pub(crate) stale: StalePolicy,
    /// Served run.
    pub(crate) ledger: Ledger,
    /// Group of the served run, if it began in one; later runs of its factory belong to it too.
    pub(crate) group: Option<RunGroup>,
    /// Run that may replace it.
    pub(crate) shadow: Option<Shadow>,
    /// Changed identity that the source of the served run reports; its updates are refused until accepted.
    pub(crate) rejected_identity: Option<Fingerprint>,
    /// Identity that its source may have in place of the pinned one.
    pub(crate) accepted_identity: Option<Fingerprint>,
    /// Whether a run that can read less than the served one may replace it.
    pub(crate) accepts_fewer_rights: bool,
    /// Whether the facts came from a source whose configuration has changed since.
    pub(crate) source_changed: bool,
    /// Time of the restore from a journal; staleness policies count from here to give the first run time to list.
    pub(crate) restored: Mono,
    /// Since when each scope has its state.
    pub(crate) shown: super::ShownStates,
    /// Batch that has not ended, if it arrives in slices.
    pub(crate) sliced: Option<super::SlicedBatch>,
}

impl Registry {
    /// Creates a registry without facts.
    pub(crate) fn new(spec: &RegistrySpec) -> Self {
        Self {
            info: RegistryInfo::new(spec),
            scopes: spec.scopes.clone(),
            stale: spec.stale,
            ledger: Ledger { identity: spec.pinned.clone(), ..Ledger::new(RESTORED) },
            group: None,
            shadow: None,
            rejected_identity: None,
            accepted_identity: None,
            accepts_fewer_rights: false,
            source_changed: false,
            restored: Mono::default(),
            shown: super::ShownStates::new(),
            sliced: None,
        }
    }
    /// Applies the current configuration when a run begins. Existing shards keep their properties, and scopes are those of each run.
    pub(crate) fn describe(&mut self, spec: &RegistrySpec) {
        self.info = RegistryInfo { priority: self.info.priority, ..RegistryInfo::new(spec) };
        self.stale = spec.stale;
        if self.ledger.identity.is_none() {
            self.ledger.identity.clone_from(&spec.pinned);
        }
    }
    /// Returns whether it has facts or knows the identity of their source.
    pub(crate) fn holds(&self) -> bool {
        self.ledger.identity.is_some() || self.ledger.holds_facts()
    }
    /// Returns whether updates of this run are accepted.
    pub(crate) fn accepts(&self, generation: Generation) -> bool {
        self.ledger.generation == generation
            || self.shadow.as_ref().is_some_and(|shadow| shadow.ledger.generation == generation)
    }
    /// Returns why its shadow does not serve; `None` without a shadow or if the shadow may serve.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        let shadow = self.shadow.as_ref()?;
        let accepted = self.accepted_identity.as_ref();
        let obstacle = shadow.ledger.obstacle(&self.ledger, &shadow.scopes, accepted);
        match obstacle {
            Some(obstacle @ (Obstacle::NotSynced | Obstacle::NotFollowed | Obstacle::Identity(_))) => {
                Some(obstacle)
            }
            _ if shadow.is_behind() => Some(Obstacle::Behind),
            other => other.filter(|_| !self.accepts_fewer_rights),
        }
    }
    /// Judges at the end of a batch whether changes that are under way keep its shadow from serving.
    pub(crate) fn await_changes(&mut self, now: Mono) {
        let Some(shadow) = &mut self.shadow else { return };
        let is_behind = !shadow.waited && shadow.ledger.is_behind(&self.ledger, &shadow.scopes);
        shadow.await_changes(is_behind, now);
    }
    /// Returns whether a run, served or in a shadow, waits until an operator accepts it.
    pub(crate) fn needs_accept(&self) -> bool {
        let accepted = self.shadow.as_ref().is_some_and(|shadow| shadow.accepted);
        self.rejected_identity.is_some()
            || (!accepted && self.obstacle().is_some_and(|it| it.is_acceptable()))
    }
    /// Returns whether its shadow may serve.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(shadow) = &self.shadow else { return false };
        self.obstacle().is_none_or(|it| shadow.accepted && it.is_acceptable())
    }
    /// Returns whether it serves with this group already, or has a shadow of it that may serve.
    pub(crate) fn is_ready_for(&self, group: &RunGroup) -> bool {
        match &self.shadow {
            Some(shadow) if shadow.group == *group => self.is_ready(),
            _ => self.group.as_ref() == Some(group),
        }
    }
}
