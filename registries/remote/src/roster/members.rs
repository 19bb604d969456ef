//! The clusters that the roster knows, their names, and the grace of those that vanished.
//!
//! The roster owns it. A registry name and one of 1,000 slots belong to a cluster from its first order to its receipt, so that no
//! newcomer takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{ClusterId, Code, Mono, RegistryName};

use super::claim::{Fault, SourceKind};
use super::order::State;
use super::state::Holding;

/// Most clusters that are held at one time.
pub const MOST_CLUSTERS: usize = 1_000;
/// Grace of a cluster that is no longer declared.
pub const GRACE: Duration = Duration::from_secs(30);
/// Grace when over half of three or more clusters vanish within the normal one.
pub const LONG_GRACE: Duration = Duration::from_secs(600);
/// Fewest clusters of which a half is a mass.
const FEWEST: usize = 3;

/// One cluster.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) state: State,
    pub(super) since: Mono,
    pub(super) holding: Holding,
    pub(super) registry: RegistryName,
    /// Kind of source of its last claim; `None` if unknown.
    pub(super) source: Option<SourceKind>,
    /// Time of its grace that passed before its source was complete again.
    pub(super) spent: Duration,
    /// Number of its last Leave.
    pub(super) leave: u64,
    /// Why its first claim has no effect although it is vetted.
    pub(super) denied: Option<Denied>,
}

impl Member {
    pub(super) const fn new(now: Mono, registry: RegistryName) -> Self {
        let (state, holding) = (State::Absent, Holding::Nothing);
        let spent = Duration::ZERO;
        Self { state, since: now, holding, registry, source: None, spent, leave: 0, denied: None }
    }
    fn is_held(&self) -> bool {
        self.holding != Holding::Nothing
    }
    /// Returns true for a cluster that counts in the share that vanished.
    fn is_counted(&self) -> bool {
        self.is_held() && !matches!(self.state, State::Leaving { .. })
    }
}

/// Why a vetted claim is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    TooMany,
    NameOf(ClusterId),
}

impl Denied {
    pub(super) fn fault(&self) -> Fault {
        let text = match self {
            Self::TooMany => format!("{MOST_CLUSTERS} clusters are served; remove one"),
            Self::NameOf(other) => {
                format!("its registry would have the name of that of cluster {other}; rename its key")
            }
        };
        Fault::coded(Code::CLUSTER_NOT_ADDED, text)
    }
}

/// Every known cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    all: BTreeMap<ClusterId, Member>,
    names: BTreeMap<RegistryName, ClusterId>,
    denied: BTreeSet<ClusterId>,
}

impl Members {
    pub(super) fn get(&self, cluster: &ClusterId) -> Option<&Member> {
        self.all.get(cluster)
    }
    /// Returns the declared clusters of which nothing was ever read.
    pub(super) fn unread(&self) -> BTreeSet<ClusterId> {
        let is_unread = |member: &Member| {
            member.holding == Holding::Nothing && matches!(member.state, State::Refused | State::Paused)
        };
        let unread = self.all.iter().filter(|(_, member)| is_unread(member));
        unread.map(|(cluster, _)| cluster.clone()).collect()
    }
    pub(super) fn get_mut(&mut self, cluster: &ClusterId) -> Option<&mut Member> {
        self.all.get_mut(cluster)
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ClusterId, &Member)> {
        self.all.iter()
    }
    /// Returns clusters with a vetted claim that had no effect.
    pub(super) const fn denied(&self) -> &BTreeSet<ClusterId> {
        &self.denied
    }
    pub(super) fn is_held(&self, cluster: &ClusterId) -> bool {
        self.all.get(cluster).is_some_and(Member::is_held)
    }

    /// Returns why a cluster cannot be held, if that is so.
    pub(super) fn check(&self, cluster: &ClusterId, registry: &RegistryName) -> Option<Denied> {
        match self.names.get(registry) {
            _ if self.is_held(cluster) => None,
            Some(other) if other != cluster => Some(Denied::NameOf(other.clone())),
            _ => (self.names.len() >= MOST_CLUSTERS).then_some(Denied::TooMany),
        }
    }

    /// Stores a cluster, with its name if it is held; forgets it if nothing is known of it.
    pub(super) fn store(&mut self, cluster: ClusterId, member: Member) {
        let registry = member.registry.clone();
        if member.is_held() {
            self.names.insert(registry, cluster.clone());
        } else if self.names.get(&registry) == Some(&cluster) {
            self.names.remove(&registry);
        }
        if member.denied.is_some() {
            self.denied.insert(cluster.clone());
        } else {
            self.denied.remove(&cluster);
        }
        if member.state == State::Absent {
            self.all.remove(&cluster);
        } else {
            self.all.insert(cluster, member);
        }
    }

    /// Gives the long grace to clusters that vanished within `grace`, if they are over half of three or more.
    pub(super) fn judge_mass(&mut self, now: Mono, grace: Duration) {
        let vanished = |member: &Member| match member.state {
            State::Grace { since, .. } => now.since(since) <= grace,
            _ => false,
        };
        let total = self.all.values().filter(|member| member.is_counted()).count();
        let gone = self.all.values().filter(|member| vanished(member)).count();
        if total < FEWEST || gone * 2 <= total {
            return;
        }
        for member in self.all.values_mut().filter(|member| vanished(member)) {
            if let State::Grace { is_long, .. } = &mut member.state {
                *is_long = true;
            }
        }
    }

    /// Counts the time of graces whose source was complete until now.
    pub(super) fn stop_graces(&mut self, now: Mono, is_stopped: impl Fn(Option<SourceKind>) -> bool) {
        for member in self.all.values_mut().filter(|member| is_stopped(member.source)) {
            if let State::Grace { since, .. } = member.state {
                member.spent = member.spent.saturating_add(now.since(since));
            }
        }
    }

    /// Continues graces whose source becomes complete: while it was not, it could not have shown that the cluster is back.
    pub(super) fn continue_graces(&mut self, now: Mono, is_complete: impl Fn(Option<SourceKind>) -> bool) {
        for member in self.all.values_mut().filter(|member| is_complete(member.source)) {
            if let State::Grace { since, .. } = &mut member.state {
                *since = now;
            }
        }
    }

    /// Returns the clusters in grace, with the end of it and the source that must be complete.
    pub(super) fn graces(
        &self,
        grace: Duration,
    ) -> impl Iterator<Item = (&ClusterId, Mono, Option<SourceKind>)> {
        self.all.iter().filter_map(move |(cluster, member)| {
            let State::Grace { since, is_long } = member.state else { return None };
            let whole = if is_long { grace.max(LONG_GRACE) } else { grace };
            Some((cluster, since.plus(whole.saturating_sub(member.spent)), member.source))
        })
    }
}
