//! What operators see of the roster: clusters with their claims, sources, and what is beyond a bound.
//!
//! Computed from the roster when it is read; plain data without a credential.

use std::collections::BTreeSet;

use tributary_model::{ClusterId, Mono, RegistryName};

use super::claim::{Claim, Fault, Source, SourceKind, Verdict};
use super::members::{Denied, Member};
use super::order::{SourceHealth, State};
use super::policy::Policy;
use super::registry_name::ENTRIES;
use super::sources::Sources;

/// What becomes of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is the first: its credential and its policy count.
    Wins,
    /// It is vetted, but another one is first; it steps in when those before it go.
    Conflicts,
    /// It cannot be used.
    Refused(Vec<Fault>),
    /// It is about a cluster of the configuration, which is read without it.
    Ignored,
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimStatus {
    /// Source.
    pub source: Source,
    /// Name of the object.
    pub object: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Cluster.
    pub cluster: ClusterId,
    /// Name of its registry; `None` for clusters of the configuration and for one that nothing is served of.
    pub registry: Option<RegistryName>,
    /// State.
    pub state: State,
    /// Start of the state; `None` where no state is kept.
    pub since: Option<Mono>,
    /// End of the grace of one that is no longer declared; it leaves then if its source is complete.
    pub leaves: Option<Mono>,
    /// Kind of source of its last claim; `None` if it is not known.
    pub source: Option<SourceKind>,
    /// Policy of the first claim.
    pub policy: Option<Policy>,
    /// Claims, the first in order first.
    pub claims: Vec<ClaimStatus>,
}

/// One source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// Source.
    pub source: Source,
    /// State.
    pub health: SourceHealth,
    /// Number of objects.
    pub objects: usize,
    /// Number of objects beyond the bound in the last list, and of updates of such objects since. They are not read.
    pub beyond: usize,
}

/// Object with faults of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Source.
    pub source: Source,
    /// Name.
    pub object: String,
    /// Faults.
    pub faults: Vec<Fault>,
    /// Number of clusters beyond the bound, which are refused.
    pub beyond: usize,
}

/// The roster at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RosterStatus {
    /// Clusters, by ID.
    pub clusters: Vec<ClusterStatus>,
    /// Enabled sources.
    pub sources: Vec<SourceStatus>,
    /// Objects with faults.
    pub objects: Vec<ObjectStatus>,
    /// Declared clusters of which nothing was ever read: every declaration is refused, or they are paused.
    pub unread: BTreeSet<ClusterId>,
}

impl ClusterStatus {
    /// Returns the names of its registries: of its objects, and of its entries. None for one that nothing is served of.
    pub fn registries(&self) -> impl Iterator<Item = RegistryName> {
        self.registry.iter().flat_map(both)
    }
}

/// Returns the names of both registries of a cluster: of its objects, and of its entries.
pub fn both(objects: &RegistryName) -> impl Iterator<Item = RegistryName> + use<> {
    let entries = RegistryName::new(format!("{objects}{ENTRIES}"));
    std::iter::once(objects.clone()).chain(entries.ok())
}

impl RosterStatus {
    /// Returns true if a cluster is held whose last claim came from this kind of source, or may have.
    #[must_use]
    pub fn holds_of(&self, kind: SourceKind) -> bool {
        let is_of = |one: &ClusterStatus| one.source.is_none_or(|source| source == kind);
        self.clusters.iter().any(|one| one.state != State::Absent && is_of(one))
    }
}

/// Returns the status of a cluster.
pub(super) fn cluster(
    cluster: &ClusterId,
    (member, leaves): (Option<&Member>, Option<Mono>),
    claims: &[Claim<'_>],
    is_ignored: bool,
) -> ClusterStatus {
    let denied = member.and_then(|member| member.denied.as_ref());
    let status = |(at, claim): (usize, &Claim<'_>)| ClaimStatus {
        source: claim.source,
        object: claim.object.name.clone(),
        outcome: outcome(at, claim.verdict, denied, is_ignored),
    };
    ClusterStatus {
        cluster: cluster.clone(),
        registry: member.map(|member| member.registry.clone()),
        state: member.map_or(State::Absent, |member| member.state),
        since: member.map(|member| member.since),
        leaves,
        source: member
            .map_or_else(|| claims.first().map(|claim| claim.source.kind()), |member| member.source),
        policy: claims.first().map(|claim| claim.object.policy.clone()),
        claims: claims.iter().enumerate().map(status).collect(),
    }
}

fn outcome(at: usize, verdict: &Verdict, denied: Option<&Denied>, is_ignored: bool) -> Outcome {
    match (verdict, denied) {
        _ if is_ignored => Outcome::Ignored,
        (Verdict::Refused(faults), _) => Outcome::Refused(faults.clone()),
        (Verdict::Vetted(_), Some(denied)) if at == 0 => Outcome::Refused(vec![denied.fault()]),
        (Verdict::Vetted(_), _) if at == 0 => Outcome::Wins,
        (Verdict::Vetted(_), _) => Outcome::Conflicts,
    }
}

/// Returns the status of every source.
pub(super) fn sources(sources: &Sources) -> Vec<SourceStatus> {
    let tables = sources.tables();
    let status = tables.map(|(source, table)| SourceStatus {
        source,
        health: table.health,
        objects: table.objects.len(),
        beyond: table.beyond,
    });
    status.collect()
}

/// Returns the objects with faults of their own.
pub(super) fn objects(sources: &Sources) -> Vec<ObjectStatus> {
    let kept =
        sources.tables().flat_map(|(source, table)| table.objects.values().map(move |kept| (source, kept)));
    let faulty = kept.filter(|(_, kept)| kept.beyond > 0 || !kept.object.faults.is_empty());
    let status = faulty.map(|(source, kept)| ObjectStatus {
        source,
        object: kept.object.name.clone(),
        faults: kept.object.faults.clone(),
        beyond: kept.beyond,
    });
    status.collect()
}
