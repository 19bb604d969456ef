//! The table of clusters: those of the configuration and those that Secrets and files declare, each with one status.
//!
//! [`ClusterReport`] combines the roster, the core and the supervisor when it is read; `get clusters`, metrics and the log show its
//! result. [`state`] decides a state, [`conditions`] what else to know, and [`board`] has what the task of the remote clusters publishes.
//! Clusters with trouble come first.

pub mod board;
pub mod conditions;
pub mod findings;
pub mod kinds;
pub mod metrics;
pub mod objects;
pub mod renewal;
pub mod same;
pub mod sources;
pub mod state;
pub mod tries;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tributary_core::RegistryStatus;
use tributary_model::{ClusterId, Mono, RegistryName};
use tributary_remote::roster::{ClusterStatus, Outcome};
use tributary_runtime::RunReport;

use super::counts::RegistryCounts;
use super::report::parts;
use crate::config::Config;
use crate::config::model::RegistryConfig;
use crate::config::staleness::Staleness;
use crate::document::clusters::{ClusterItem, ClusterRegistryItem, ClusterSourceItem};
use board::RemotesView;
use objects::ObjectCounts;
use state::{Facts, Judged, Lane};

/// Age of a confirmation from which a cluster is stale, unless its watches may be quiet for longer.
pub const BOUND: Duration = Duration::from_secs(150);

/// Cluster of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredCluster {
    /// Cluster ID.
    pub name: String,
    /// Names of its registries.
    pub registries: Vec<String>,
}

/// Returns the clusters of a configuration.
#[must_use]
pub fn configured(config: &Config) -> Vec<ConfiguredCluster> {
    let of = |registry: &RegistryConfig| ConfiguredCluster {
        name: registry.cluster_id.clone().unwrap_or_else(|| config.cluster_id.clone()),
        registries: registry.names(),
    };
    config.registries.iter().filter(|registry| registry.kubernetes().is_some()).map(of).collect()
}

/// Returns the age from which a confirmation is too old: that from which a watch of the config cluster is, and [`BOUND`] at least.
#[must_use]
pub fn bound(config: &Config) -> Duration {
    let live =
        config.config_cluster().and_then(RegistryConfig::kubernetes).map(|fields| fields.timing().live);
    live.map_or(BOUND, |live| live.max(BOUND))
}

/// State of all clusters at one moment.
pub struct ClusterReport<'a> {
    /// What the task of the remote clusters published.
    pub view: &'a RemotesView,
    /// Clusters of the configuration.
    pub configured: &'a [ConfiguredCluster],
    /// Registries of the core.
    pub registries: &'a [RegistryStatus],
    /// Runs of the supervisor.
    pub runs: &'a BTreeMap<RegistryName, RunReport>,
    /// Services and endpoints of the registries.
    pub counts: &'a RegistryCounts,
    /// Objects of the clusters.
    pub objects: &'a BTreeMap<ClusterId, ObjectCounts>,
    /// Age from which a confirmation is too old.
    pub bound: Duration,
    /// Time of the report.
    pub now: Mono,
    /// The same time of the calendar.
    pub wall: Timestamp,
}

impl ClusterReport<'_> {
    /// Returns every cluster, those with trouble first.
    #[must_use]
    pub fn items(&self) -> Vec<ClusterItem> {
        let ids: BTreeSet<&str> = self.configured.iter().map(|one| one.name.as_str()).collect();
        let of_roster =
            |name: &str| self.view.roster.clusters.iter().find(|one| one.cluster.as_str() == name);
        let configured = self.configured.iter().map(|one| self.configured(one, of_roster(&one.name)));
        let others = self.view.roster.clusters.iter().filter(|one| !ids.contains(one.cluster.as_str()));
        let mut all: Vec<_> = configured.chain(others.map(|one| self.declared(one))).collect();
        same::mark(all.iter_mut().map(|(_, item)| item));
        let place =
            |(place, item): &(usize, ClusterItem)| place * 2 + usize::from(item.conditions.is_empty());
        all.sort_by(|a, b| (place(a), &a.1.name).cmp(&(place(b), &b.1.name)));
        all.into_iter().map(|(_, item)| item).collect()
    }
    /// Returns the sources of declarations; none if the server finds no remote clusters. One that has just started knows no source
    /// yet and reports that.
    #[must_use]
    pub fn sources(&self, finds_remotes: bool) -> Vec<ClusterSourceItem> {
        let all = sources::items(self.view);
        if all.is_empty() && finds_remotes { vec![sources::not_begun()] } else { all }
    }
    fn configured(&self, own: &ConfiguredCluster, roster: Option<&ClusterStatus>) -> (usize, ClusterItem) {
        let lanes = self.lanes(own.registries.iter().map(String::as_str));
        let (bound, now) = (self.bound, self.now);
        let facts = Facts { roster: None, failure: None, unread: None, lanes: &lanes, bound, now };
        let credential = self.view.configured.get(&own.name);
        let item = ClusterItem {
            name: own.name.clone(),
            source: "configuration".to_owned(),
            credential_expires: credential.map(|one| one.validity.until),
            ..self.item(&facts)
        };
        let (place, mut item) = self.placed(&facts, item, roster);
        item.conditions.extend(credential.and_then(|one| conditions::of_configured(one, self.wall)));
        (place, item)
    }
    fn declared(&self, roster: &ClusterStatus) -> (usize, ClusterItem) {
        let names: Vec<RegistryName> = roster.registries().collect();
        let lanes = self.lanes(names.iter().map(RegistryName::as_str));
        let connection = self.view.connections.get(&roster.cluster);
        let failure = connection.and_then(|connection| connection.failure.as_ref());
        let (unread, bound, now) = (sources::unread(self.view, roster), self.bound, self.now);
        let facts =
            Facts { roster: Some(roster), failure, unread: unread.as_ref(), lanes: &lanes, bound, now };
        let used = roster.claims.iter().find(|claim| claim.outcome == Outcome::Wins);
        let source = used.or_else(|| roster.claims.first());
        let validity = connection.and_then(|connection| conditions::validity(connection, &lanes));
        let item = ClusterItem {
            name: roster.cluster.to_string(),
            source: source
                .map(|claim| conditions::object(claim.source, &claim.object))
                .or_else(|| self.view.objects.get(&roster.cluster).cloned())
                .unwrap_or_default(),
            credential_expires: validity.map(|validity| validity.until),
            renewal: renewal::next(self.view, roster, validity),
            rotations: connection.map_or(0, |connection| connection.rotations),
            ..self.item(&facts)
        };
        self.placed(&facts, item, Some(roster))
    }
    /// Adds the declarations and conditions, and returns the place of the state in the list.
    fn placed(
        &self,
        facts: &Facts<'_>,
        item: ClusterItem,
        roster: Option<&ClusterStatus>,
    ) -> (usize, ClusterItem) {
        let connection = roster.and_then(|roster| self.view.connections.get(&roster.cluster));
        let mut conditions = conditions::conditions(roster, connection, facts.lanes, (facts.now, self.wall));
        let taken = connection.and_then(|connection| connection.validity);
        let renewal = facts.roster.and_then(|one| renewal::condition(self.view, one, taken, self.wall));
        conditions.extend(renewal);
        let claims = roster.map(conditions::claims).unwrap_or_default();
        let place = state::judge(facts).state.place();
        let ObjectCounts { workloads, gateways } =
            self.objects.get(item.name.as_str()).copied().unwrap_or_default();
        (place, ClusterItem { conditions, claims, workloads, gateways, ..item })
    }
    fn lanes<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Lane<'_>> {
        let find = |name: &str| self.registries.iter().find(|status| status.id.name.as_str() == name);
        let lane = |status: &'_ RegistryStatus| status.id.name.clone();
        names.filter_map(find).map(|status| Lane { status, run: self.runs.get(&lane(status)) }).collect()
    }
    fn item(&self, facts: &Facts<'_>) -> ClusterItem {
        let Judged { state, code, reason, since, next } = state::judge(facts);
        let ago = |at: Mono| millis(self.now.since(at));
        let names = || facts.lanes.iter().map(|lane| &lane.status.id.name);
        let cluster = facts.lanes.first().map(|lane| &lane.status.id.cluster);
        let services = cluster.and_then(|cluster| self.counts.of_clusters.get(cluster));
        let identity = facts.lanes.iter().find_map(|lane| lane.status.identity.as_ref());
        let found = facts.lanes.iter().find_map(|lane| lane.status.found_identity.as_ref());
        let staleness = facts.lanes.first().map(|lane| Staleness::from(lane.status.stale).to_string());
        ClusterItem {
            state: state.as_str().to_owned(),
            code: code.map(|code| code.to_string()).unwrap_or_default(),
            reason,
            since_millis_ago: since.map(ago),
            confirmed_millis_ago: state::confirmed(facts.lanes).map(ago),
            retry_in_millis: next.map(|at| millis(at.since(self.now))),
            registries: facts.lanes.iter().map(|lane| self.registry(lane)).collect(),
            services: services.copied().unwrap_or_default(),
            endpoints: names().map(|name| self.counts.endpoints_of(name)).sum(),
            unverified: identity.is_none() && state::confirmed(facts.lanes).is_some(),
            identity: identity.map(ToString::to_string).unwrap_or_default(),
            found_identity: found.map(ToString::to_string).unwrap_or_default(),
            staleness: staleness.unwrap_or_default(),
            ..ClusterItem::default()
        }
    }
    fn registry(&self, lane: &Lane<'_>) -> ClusterRegistryItem {
        let all = lane.status.sources.values();
        ClusterRegistryItem {
            name: lane.status.id.name.to_string(),
            generation: lane.status.generation.0,
            next_generation: lane.status.shadow.map(|generation| generation.0),
            parts: all.flat_map(|view| parts(view, self.now)).collect(),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
