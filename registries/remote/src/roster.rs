//! The roster: which remote clusters the server should hold, decided from every claim of every source.
//!
//! Its caller is the application, which turns the watches of Secrets, looks at a directory and timers into [`Event`]s and passes
//! [`Order`]s on. The source [`Source::ConfigFile`] has no caller yet.
//!
//! It is synchronous and pure: time and the key of digests are passed in, and it holds no credential. It promises:
//!
//! - Any order of events about the same objects ends in the same claims, winners and held clusters as a fresh build from the last
//!   objects. Exceptions: a cluster whose claims are all refused keeps the connection it has; a slot of the 1,000 and a registry name
//!   stay with the cluster that holds them.
//! - Claims are ordered by verdict, `remove`, source, priority, creation and name; orders of one call come in that order of their clusters.
//! - A cluster leaves only after a grace, of which only the time counts in which its source is complete, or by the policy `remove`. A
//!   source that fails removes nothing.
//! - An equal digest gives no order.

mod claim;
mod digest;
mod members;
mod order;
mod policy;
mod registry_name;
mod sources;
mod state;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{ClusterId, Mono, RegistryName};

use claim::Claim;
pub use claim::{ClaimObject, Fault, SecretLabel, Source, SourceKind, Verdict};
pub(crate) use digest::hex;
pub use digest::{Digest, DigestKey};
use members::{Denied, Member, Members};
pub use members::{GRACE, LONG_GRACE, MOST_CLUSTERS};
pub use order::{Access, Action, Event, Order, RestoredCluster, SourceHealth, State};
pub use policy::{ACCEPT_RIGHTS, ACCEPT_UID, DRAIN, FOUND_UID, LONGEST_DRAIN, PREFIX, Policy, REMOVE};
pub use registry_name::{ENTRIES, registry_name};
pub use sources::{MOST_CLAIMS, MOST_OBJECTS};
use sources::{Sources, Touched};
use state::{Holding, Next, Step, Wish};
pub use status::{ClaimStatus, ClusterStatus, ObjectStatus, Outcome, RosterStatus, SourceStatus, both};

/// Settings of the roster, from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterSettings {
    /// Sources that are read.
    pub sources: BTreeSet<Source>,
    /// IDs of the clusters of the configuration; claims to them are ignored.
    pub configured: BTreeSet<ClusterId>,
    /// Names of configured registries.
    pub registries: BTreeSet<RegistryName>,
    /// Grace of a cluster that is no longer declared, [`GRACE`] unless configured.
    pub grace: Duration,
}

/// Every claim, and the state of every cluster.
#[derive(Debug, Clone)]
pub struct Roster {
    settings: RosterSettings,
    sources: Sources,
    members: Members,
    /// Number of the last order.
    number: u64,
}

impl Roster {
    /// Creates a roster without claims.
    #[must_use]
    pub fn new(settings: RosterSettings) -> Self {
        let sources = Sources::new(&settings.sources);
        Self { settings, sources, members: Members::default(), number: 0 }
    }

    /// Takes one event and returns the orders that follow from it, those of graces that ended included.
    pub fn apply(&mut self, now: Mono, event: Event) -> Vec<Order> {
        let was_complete = self.complete();
        let touched = self.take(now, event);
        let is_complete = self.complete();
        self.members.stop_graces(now, |kind| was_complete.contains(&kind) && !is_complete.contains(&kind));
        self.members
            .continue_graces(now, |kind| is_complete.contains(&kind) && !was_complete.contains(&kind));
        let mut orders = Vec::new();
        for cluster in self.in_order(touched) {
            orders.extend(self.evaluate(now, cluster));
        }
        self.members.judge_mass(now, self.settings.grace);
        orders.extend(self.expire(now));
        orders
    }

    /// Begins the withdrawal of a Leave. Returns false if a claim came back since, so that the Leave with this number is void.
    #[must_use = "a void Leave must not withdraw"]
    pub fn withdraw(&mut self, cluster: &ClusterId, number: u64) -> bool {
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.leave == number) else {
            return false;
        };
        match &mut member.state {
            State::Leaving { is_withdrawn } => {
                *is_withdrawn = true;
                true
            }
            _ => false,
        }
    }

    /// Returns true while the Leave with this number is to be carried out: no claim came back since.
    #[must_use]
    pub fn is_leaving(&self, cluster: &ClusterId, number: u64) -> bool {
        let member = self.members.get(cluster).filter(|member| member.leave == number);
        member.is_some_and(|member| matches!(member.state, State::Leaving { .. }))
    }

    /// Returns whether a Leave rests on the absence of Secrets, which a watch that was cut off unnoticed may not know to be over.
    #[must_use]
    pub fn rests_on_absent_secrets(&self, cluster: &ClusterId) -> bool {
        let source = self.members.get(cluster).and_then(|member| member.source);
        self.sources.claims(cluster).is_empty() && source.is_none_or(|kind| kind == SourceKind::Secrets)
    }

    /// Returns the drain that the first claim of a cluster sets; `None` if it sets none, or nothing declares the cluster any longer.
    #[must_use]
    pub fn drain(&self, cluster: &ClusterId) -> Option<Duration> {
        self.sources.claims(cluster).first().and_then(|claim| claim.object.policy.drain)
    }

    /// Returns the time of the next [`Event::Tick`] that has an effect.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        let graces = self.members.graces(self.settings.grace);
        graces.filter(|(_, _, source)| self.sources.is_complete(*source)).map(|(_, due, _)| due).min()
    }

    /// Returns what operators see.
    #[must_use]
    pub fn status(&self) -> RosterStatus {
        let known = self.members.iter().map(|(cluster, _)| cluster).chain(self.sources.clusters());
        let clusters: BTreeSet<&ClusterId> = known.collect();
        let graces = self.members.graces(self.settings.grace);
        let leaves: BTreeMap<&ClusterId, Mono> = graces.map(|(cluster, due, _)| (cluster, due)).collect();
        let status = |cluster: &ClusterId| {
            let claims = self.sources.claims(cluster);
            let member = (self.members.get(cluster), leaves.get(cluster).copied());
            status::cluster(cluster, member, &claims, self.is_ignored(cluster))
        };
        RosterStatus {
            clusters: clusters.into_iter().map(status).collect(),
            sources: status::sources(&self.sources),
            objects: status::objects(&self.sources),
            unread: self.members.unread(),
        }
    }

    /// Stores an event and returns the clusters to evaluate.
    fn take(&mut self, now: Mono, event: Event) -> Touched {
        let members = &self.members;
        let is_held = |cluster: &ClusterId| members.is_held(cluster);
        match event {
            Event::Put(source, object) => self.sources.put(source, object, &is_held),
            Event::Delete(source, name) => self.sources.delete(source, &name),
            Event::List(source, objects) => {
                self.sources.list(source, objects, &is_held);
                self.every_cluster()
            }
            Event::Health(source, health) => {
                self.sources.set_health(source, health);
                self.every_cluster()
            }
            Event::Restored(clusters) => self.restore(now, clusters),
            Event::Receipt(cluster, number) => self.receive(cluster, number),
            Event::Tick => Touched::new(),
        }
    }

    fn every_cluster(&self) -> Touched {
        self.members.iter().map(|(cluster, _)| cluster).chain(self.sources.clusters()).cloned().collect()
    }

    /// Adds clusters of a journal, up to the bound. One that is known keeps its state.
    fn restore(&mut self, now: Mono, clusters: Vec<RestoredCluster>) -> Touched {
        let mut touched = Touched::new();
        for RestoredCluster { cluster, source } in clusters {
            let registry = registry_name(&cluster, &self.settings.registries);
            let is_known = self.members.is_held(&cluster) || self.is_ignored(&cluster);
            if is_known || self.members.check(&cluster, &registry).is_some() {
                continue;
            }
            let member = Member { source, ..Member::new(now, registry) };
            let (state, holding) = (State::Restored, Holding::Journal);
            self.members.store(cluster.clone(), Member { state, holding, ..member });
            touched.insert(cluster);
        }
        touched
    }

    /// Forgets a cluster that has left; its claims are evaluated as new ones.
    fn receive(&mut self, cluster: ClusterId, number: u64) -> Touched {
        let left = self
            .members
            .get(&cluster)
            .filter(|member| member.leave == number && member.state == State::Leaving { is_withdrawn: true });
        let Some(member) = left.cloned() else { return Touched::new() };
        let (state, holding) = (State::Absent, Holding::Nothing);
        self.members.store(cluster.clone(), Member { state, holding, ..member });
        Touched::from([cluster])
    }

    /// Returns clusters, and those that wait for a slot or a name, in the order of their first claims; those without a claim first.
    fn in_order(&self, mut clusters: Touched) -> Vec<ClusterId> {
        clusters.extend(self.members.denied().iter().cloned());
        let mut ranked: Vec<_> = clusters
            .into_iter()
            .map(|cluster| (self.sources.claims(&cluster).first().map(Claim::rank), cluster))
            .collect();
        ranked.sort();
        ranked.into_iter().map(|(_, cluster)| cluster).collect()
    }

    /// Moves one cluster to its next state.
    fn evaluate(&mut self, now: Mono, cluster: ClusterId) -> Option<Order> {
        if self.is_ignored(&cluster) {
            return None;
        }
        let known = self.members.get(&cluster).cloned();
        let mut member =
            known.unwrap_or_else(|| Member::new(now, registry_name(&cluster, &self.settings.registries)));
        let claims = self.sources.claims(&cluster);
        let first = claims.first();
        member.source = first.map(|claim| claim.source.kind()).or(member.source);
        member.denied = first.and_then(|claim| self.denied(&cluster, &member, claim));
        let wish = self.wish(&member, first);
        let access = first.and_then(access);
        let next = state::next(now, member.state, member.holding, wish);
        self.enter(now, cluster, member, next, access)
    }

    /// Returns why a vetted claim cannot have effect.
    fn denied(&self, cluster: &ClusterId, member: &Member, claim: &Claim<'_>) -> Option<Denied> {
        let is_usable = matches!(claim.verdict, Verdict::Vetted(_)) && !claim.object.policy.remove;
        is_usable.then(|| self.members.check(cluster, &member.registry)).flatten()
    }

    fn wish(&self, member: &Member, first: Option<&Claim<'_>>) -> Wish {
        let Some(claim) = first else {
            return Wish::Gone { is_proven: self.sources.is_complete(member.source) };
        };
        let is_paused = claim.object.policy.paused;
        match claim.verdict {
            _ if claim.object.policy.remove => Wish::Remove,
            Verdict::Vetted(digest) if member.denied.is_none() => Wish::Vetted { digest: *digest, is_paused },
            _ => Wish::Refused { is_paused },
        }
    }

    /// Stores the next state of a cluster and returns its order.
    fn enter(
        &mut self,
        now: Mono,
        cluster: ClusterId,
        member: Member,
        (state, holding, step): Next,
        access: Option<Access>,
    ) -> Option<Order> {
        let action = step.and_then(|step| action(step, access));
        self.number += u64::from(action.is_some());
        let leave = if action == Some(Action::Leave) { self.number } else { member.leave };
        let since = if state == member.state { member.since } else { now };
        let is_in_grace = matches!(member.state, State::Grace { .. }) && matches!(state, State::Grace { .. });
        let spent = if is_in_grace { member.spent } else { Duration::ZERO };
        let registry = member.registry.clone();
        self.members.store(cluster.clone(), Member { state, since, holding, spent, leave, ..member });
        action.map(|action| Order { number: self.number, cluster, registry, action })
    }

    /// Orders the Leave of clusters whose grace is over and whose source is complete.
    fn expire(&mut self, now: Mono) -> Vec<Order> {
        let graces = self.members.graces(self.settings.grace);
        let over = graces.filter(|(_, due, source)| *due <= now && self.sources.is_complete(*source));
        let over: Vec<ClusterId> = over.map(|(cluster, _, _)| cluster.clone()).collect();
        let leave = |cluster: ClusterId| {
            let member = self.members.get(&cluster)?.clone();
            let next = state::leave(member.holding);
            self.enter(now, cluster, member, next, None)
        };
        over.into_iter().filter_map(leave).collect()
    }

    fn is_ignored(&self, cluster: &ClusterId) -> bool {
        self.settings.configured.contains(cluster)
    }
    /// Returns the kinds of sources that are complete; `None` stands for all of them.
    fn complete(&self) -> BTreeSet<Option<SourceKind>> {
        let kinds = SourceKind::ALL.into_iter().map(Some).chain([None]);
        kinds.filter(|kind| self.sources.is_complete(*kind)).collect()
    }
}

fn access(claim: &Claim<'_>) -> Option<Access> {
    let Verdict::Vetted(digest) = claim.verdict else { return None };
    let (source, object) = (claim.source, claim.object.name.clone());
    Some(Access { source, object, digest: *digest, policy: claim.object.policy.clone() })
}

fn action(step: Step, access: Option<Access>) -> Option<Action> {
    match step {
        Step::Join => access.map(Action::Join),
        Step::Rotate => access.map(Action::Rotate),
        Step::Pause => Some(Action::Pause),
        Step::Leave => Some(Action::Leave),
    }
}
