//! The removal gate: absence alone does not empty a host (law 2).
//!
//! Intake proposes, [`Core::judge`] decides once per turn, when all of the turn is known. The gate
//! judges only what rests on absence (`AbsentFromList`, or endpoints missing from an `Unsure` Put)
//! and only of registries that can confirm. It doubts an emptied host, a vanished service, and more
//! than 30 % of a scope in one turn. What it doubts is held: served, shown, and asked about until
//! the source answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Ask, Evidence, Fact, Group, GroupKey, Hostname, Item, Key, Mono, RegistryName, Scope, ServiceKey,
};

use crate::core::{Core, Turn};
use crate::service::{Decl, GroupFact, Service, decl_key, group_key};
use crate::shards::ShardId;
use crate::unsure::{missing, with_kept};

/// What a hold is about.
pub(crate) type HoldKey = (ShardId, Item);

/// A removal that rests on absence.
#[derive(Debug)]
pub(crate) enum Proposal {
    /// A list did not name it.
    Absent,
    /// An unsure answer named these endpoints only.
    Fewer(Arc<Group>, Mono),
}

/// A removal that waits for proof.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// Since when.
    pub(crate) since: Mono,
    /// Why it is doubted.
    pub(crate) reason: &'static str,
    /// How often the source was asked.
    pub(crate) asked: u32,
    /// When it is asked next.
    pub(crate) next: Mono,
}

/// What was proposed in this turn, what is held, and when to ask.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    proposals: BTreeMap<HoldKey, Proposal>,
    holds: BTreeMap<HoldKey, Hold>,
    due: BTreeSet<(Mono, HoldKey)>,
}

impl Gate {
    /// A source says nothing of this any more.
    pub(crate) fn propose(&mut self, key: HoldKey, proposal: Proposal) {
        self.proposals.insert(key, proposal);
    }
    /// Whether nothing is proposed or held, as nearly always.
    pub(crate) fn is_idle(&self) -> bool {
        self.proposals.is_empty() && self.holds.is_empty()
    }
    /// Whatever was proposed or held of this is settled.
    pub(crate) fn end(&mut self, key: &HoldKey) {
        self.proposals.remove(key);
        if let Some(hold) = self.holds.remove(key) {
            self.due.remove(&(hold.next, key.clone()));
        }
    }
    /// Every hold.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (&HoldKey, &Hold)> {
        self.holds.iter()
    }
    /// Whether this is held.
    pub(crate) fn is_held(&self, key: &HoldKey) -> bool {
        self.holds.contains_key(key)
    }
    /// When the next question is due.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }
    fn hold(&mut self, key: HoldKey, now: Mono, reason: &'static str) -> bool {
        if self.holds.contains_key(&key) {
            return false;
        }
        self.due.insert((now, key.clone()));
        self.holds.insert(key, Hold { since: now, reason, asked: 0, next: now });
        true
    }
    /// A registry runs anew: it is asked again at once.
    pub(crate) fn ask_again(&mut self, shards: &[ShardId], now: Mono) {
        for (key, hold) in self.holds.iter_mut().filter(|((shard, _), _)| shards.contains(shard)) {
            self.due.remove(&(hold.next, key.clone()));
            (hold.next, hold.asked) = (now, 0);
            self.due.insert((now, key.clone()));
        }
    }
    /// The next hold that is to be asked about, if its time has come.
    fn take_due(&mut self, now: Mono, first: Duration, most: Duration) -> Option<HoldKey> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(hold) = self.holds.get_mut(&key) {
            let wait = first.saturating_mul(1_u32 << hold.asked.min(16)).min(most);
            hold.asked = hold.asked.saturating_add(1);
            hold.next = now.plus(wait.max(Duration::from_millis(1)));
            self.due.insert((hold.next, key.clone()));
        }
        Some(key)
    }
}

/// What the gate doubts in one turn.
#[derive(Debug, Default)]
struct Doubts {
    heavy: BTreeSet<ShardId>,
    emptied: BTreeSet<Hostname>,
    vanished: BTreeSet<ServiceKey>,
}

type Proposals = BTreeMap<HoldKey, Proposal>;

impl Core {
    /// Decides what was proposed in this turn.
    pub(crate) fn judge(&mut self, now: Mono) {
        let proposals = std::mem::take(&mut self.gate.proposals);
        if proposals.is_empty() {
            return;
        }
        let doubts = self.doubts(&proposals);
        for (key, proposal) in proposals {
            let reason = self.reason(&doubts, &key);
            match proposal {
                Proposal::Fewer(said, at) => self.settle_fewer(key, &said, at, reason, now),
                Proposal::Absent => match reason {
                    _ if self.gate.is_held(&key) => self.hold_all(key, "", now),
                    Some(reason) => self.hold_all(key, reason, now),
                    None => {
                        self.remove(key.0, &key.1, Evidence::AbsentFromList);
                    }
                },
            }
        }
    }

    fn reason(&self, doubts: &Doubts, key: &HoldKey) -> Option<&'static str> {
        let (service, hosts) = match &key.1 {
            Item::Service(decl) => (Some(&decl.service), vec![&decl.service.host]),
            Item::Group(group) => (Some(&group.service), vec![&group.service.host]),
            Item::Workload(_) => (None, self.hosts_selecting(&key.1)),
            Item::Gateway(_) | Item::Settings | Item::Alias(_) => (None, Vec::new()),
        };
        if service.is_some_and(|s| doubts.vanished.contains(s)) {
            return Some("the service would vanish");
        }
        if hosts.iter().any(|h| doubts.emptied.contains(*h)) {
            return Some("the host would have no endpoint left");
        }
        doubts.heavy.contains(&key.0).then_some("more than 30 % of the scope would go at once")
    }

    fn hosts_selecting(&self, item: &Item) -> Vec<&Hostname> {
        let Item::Workload(key) = item else { return Vec::new() };
        let workloads = &self.world.workloads;
        let slot = workloads.id(key).and_then(|id| workloads.get(id));
        let selectors = slot.map(|s| s.selected_by.as_slice()).unwrap_or_default();
        selectors.iter().filter_map(|&s| self.world.selection.owner(s)).map(|(key, ..)| &key.host).collect()
    }

    fn doubts(&self, proposals: &Proposals) -> Doubts {
        let mut lost: BTreeMap<ShardId, u64> = BTreeMap::new();
        let mut hosts: BTreeSet<&Hostname> = BTreeSet::new();
        let mut services: BTreeSet<&ServiceKey> = BTreeSet::new();
        for (key, proposal) in proposals {
            *lost.entry(key.0).or_default() += self.weight(key, proposal);
            match &key.1 {
                Item::Service(decl) => {
                    hosts.insert(&decl.service.host);
                    services.insert(&decl.service);
                }
                Item::Group(group) => {
                    hosts.insert(&group.service.host);
                }
                Item::Workload(_) => hosts.extend(self.hosts_selecting(&key.1)),
                Item::Gateway(_) | Item::Settings | Item::Alias(_) => {}
            }
        }
        let heavy = lost.into_iter().filter(|(shard, lost)| self.is_heavy(*shard, *lost));
        let emptied = hosts.into_iter().filter(|host| self.is_emptied(host, proposals));
        let vanished = services.into_iter().filter(|key| self.vanishes(key, proposals));
        Doubts {
            heavy: heavy.map(|(shard, _)| shard).collect(),
            emptied: emptied.cloned().collect(),
            vanished: vanished.cloned().collect(),
        }
    }

    fn is_heavy(&self, shard: ShardId, lost: u64) -> bool {
        let before = self.world.shards.get(shard).map_or(0, |info| info.weight_before);
        lost.saturating_mul(10) > before.saturating_mul(3)
    }

    /// How many addresses, workloads and gateways would go, beyond those that are held already.
    fn weight(&self, (shard, item): &HoldKey, proposal: &Proposal) -> u64 {
        let workloads = &self.world.workloads;
        let count = match item {
            Item::Group(key) => {
                let fact = self.hosts.get(&key.service).and_then(|s| s.group(*shard, key));
                fact.map_or(0, |fact| gone(fact, Some(proposal)))
            }
            Item::Workload(key) => usize::from(workloads.fact(*shard, key).is_some_and(|f| !f.held)),
            Item::Gateway(key) => usize::from(self.world.gateways.get(*shard, key).is_some_and(|f| !f.held)),
            Item::Service(_) | Item::Settings | Item::Alias(_) => 0,
        };
        count as u64
    }

    fn vanishes(&self, key: &ServiceKey, proposals: &Proposals) -> bool {
        let Some(service) = self.hosts.get(key) else { return false };
        let shards = service.shards.iter();
        let mut all = shards.flat_map(|s| s.declarations.iter().map(move |d| (s.id, d)));
        all.all(|(shard, d)| !self.decl_stays(service, shard, d, proposals))
    }

    fn decl_stays(&self, service: &Service, shard: ShardId, decl: &Decl, proposals: &Proposals) -> bool {
        !decl.held && !proposals.contains_key(&(shard, Item::Service(decl_key(&service.key, &decl.object))))
    }

    /// Whether a host that has endpoints would have none that its sources vouch for.
    fn is_emptied(&self, host: &Hostname, proposals: &Proposals) -> bool {
        let (mut before, mut after) = (0, 0);
        for service in self.hosts.of(host) {
            for shard in &service.shards {
                for decl in &shard.declarations {
                    let stays = self.decl_stays(service, shard.id, decl, proposals);
                    for fact in shard.groups_of(&decl.object) {
                        let key = (shard.id, Item::Group(group_key(&service.key, fact)));
                        before += fact.group.addresses.len();
                        let held = fact.held.as_ref().map_or(0, |h| h.len());
                        let left = fact.group.addresses.len() - held.min(fact.group.addresses.len());
                        let left = left.saturating_sub(gone(fact, proposals.get(&key)));
                        after += if stays { left } else { 0 };
                    }
                    let (had, left) = self.selected(decl, proposals);
                    before += had;
                    after += if stays { left } else { 0 };
                }
            }
        }
        before > 0 && after == 0
    }

    fn selected(&self, decl: &Decl, proposals: &Proposals) -> (usize, usize) {
        let members = decl.selector.map(|id| self.world.selection.members(id)).into_iter().flatten();
        let slots = members.filter_map(|id| self.world.workloads.get(id));
        slots.fold((0, 0), |(had, left), slot| {
            let vouched = slot
                .facts
                .iter()
                .any(|f| !f.held && !proposals.contains_key(&(f.shard, Item::Workload(slot.key.clone()))));
            (had + 1, left + usize::from(vouched))
        })
    }

    /// Keeps a fact whose removal is doubted.
    fn hold_all(&mut self, key: HoldKey, reason: &'static str, now: Mono) {
        let (shard, item) = &key;
        match item {
            Item::Service(decl) => {
                let service = self.hosts.get_mut(&decl.service);
                let Some(known) = service.and_then(|s| s.declaration_mut(*shard, &decl.object)) else {
                    return;
                };
                known.held = true;
                self.dirty.services.insert(decl.service.clone());
            }
            Item::Group(group) => {
                let service = self.hosts.get_mut(&group.service);
                let Some(known) = service.and_then(|s| s.group_mut(*shard, group)) else { return };
                let all = u32::try_from(known.group.addresses.len()).unwrap_or(u32::MAX);
                known.held = Some((0..all).collect());
                self.dirty.services.insert(group.service.clone());
            }
            Item::Workload(workload) => {
                let Some(known) = self.world.workloads.fact_mut(*shard, workload) else { return };
                known.held = true;
                self.touch_workload(&workload.clone());
            }
            Item::Gateway(gateway) => {
                let Some(known) = self.world.gateways.get_mut(*shard, gateway) else { return };
                known.held = true;
            }
            Item::Settings | Item::Alias(_) => {
                self.remove(*shard, &item.clone(), Evidence::AbsentFromList);
                return;
            }
        }
        self.counters.held += u64::from(self.gate.hold(key, now, reason));
    }

    /// An unsure answer: what was held before stays held, what goes now goes or is held too.
    fn settle_fewer(
        &mut self,
        key: HoldKey,
        said: &Group,
        at: Mono,
        reason: Option<&'static str>,
        now: Mono,
    ) {
        let (shard, Item::Group(group)) = &key else { return };
        let known = self.hosts.get(&group.service).and_then(|s| s.group(*shard, group));
        let Some(known) = known else { return };
        let held_before = |at: &u32| known.held.as_ref().is_some_and(|h| h.binary_search(at).is_ok());
        let mut kept = missing(&known.group, said);
        if reason.is_none() {
            kept.retain(held_before);
        }
        let (merged, held) = with_kept(said, &known.group, &kept);
        let held = (!held.is_empty()).then_some(held);
        let (shard, group) = (*shard, group.clone());
        match held {
            None => self.gate.end(&key),
            Some(_) => self.counters.held += u64::from(self.gate.hold(key, now, reason.unwrap_or_default())),
        }
        self.put_group(shard, &group, Arc::new(merged), held, at);
    }

    /// An unsure Put: applied at once unless something is missing from it.
    pub(crate) fn put_unsure(&mut self, shard: ShardId, fact: Fact, at: Mono) {
        let Fact::Group(key, said) = &fact else { return self.put(shard, fact, at) };
        let known = self.hosts.get(&key.service).and_then(|s| s.group(shard, key));
        if known.is_none_or(|known| missing(&known.group, said).is_empty()) {
            return self.put(shard, fact, at);
        }
        let key = (shard, Item::Group(key.clone()));
        self.gate.propose(key, Proposal::Fewer(Arc::clone(said), at));
    }

    /// The questions whose time has come.
    pub(crate) fn take_asks(&mut self, now: Mono) -> Vec<Ask> {
        let mut asks = Vec::new();
        while asks.len() < self.config.asks_per_turn {
            let due = self.gate.take_due(now, self.config.ask_first, self.config.ask_most);
            let Some((shard, item)) = due else { break };
            let Some(info) = self.world.shards.get(shard) else { continue };
            let name = &info.shard.registry.name;
            let Some(registry) = self.registries.get(name) else { continue };
            asks.push(Ask {
                registry: name.clone(),
                generation: registry.run.generation,
                confirm: Key { scope: info.shard.scope.clone(), item },
            });
        }
        self.counters.asks += asks.len() as u64;
        asks
    }

    /// An operator lets a held removal happen; whether there was one.
    pub fn release(&mut self, now: Mono, registry: &RegistryName, key: &Key) -> Option<Turn> {
        let shard = self.world.shards.find(registry, &key.scope)?;
        let hold = (shard, key.item.clone());
        if !self.gate.is_held(&hold) {
            return None;
        }
        self.begin(now);
        match &key.item {
            Item::Group(group) => self.release_group(shard, group, now),
            item => {
                self.remove(shard, item, Evidence::Operator);
            }
        }
        Some(self.finish(now))
    }

    fn release_group(&mut self, shard: ShardId, key: &GroupKey, now: Mono) {
        let Some(known) = self.hosts.get(&key.service).and_then(|s| s.group(shard, key)) else { return };
        let stays = |at: usize| {
            let held = |at| known.held.as_ref().is_some_and(|h| h.binary_search(&at).is_ok());
            !u32::try_from(at).is_ok_and(held)
        };
        let kept = known.group.addresses.iter().enumerate().filter(|(at, _)| stays(*at));
        let kept: Vec<_> = kept.map(|(_, address)| address.clone()).collect();
        if kept.is_empty() {
            self.remove(shard, &Item::Group(key.clone()), Evidence::Operator);
            return;
        }
        let group = &known.group;
        let left = Group::new(group.source.clone(), group.port_sets.to_vec(), group.names.to_vec(), kept);
        self.put(shard, Fact::Group(key.clone(), Arc::new(left)), now);
    }

    /// The scope and registry of a shard, for people.
    pub(crate) fn place_of(&self, shard: ShardId) -> Option<(RegistryName, Scope)> {
        let info = self.world.shards.get(shard)?;
        Some((info.shard.registry.name.clone(), info.shard.scope.clone()))
    }
}

/// How many of a group's endpoints would go that are not held already.
fn gone(fact: &GroupFact, proposal: Option<&Proposal>) -> usize {
    let held = |at: &u32| fact.held.as_ref().is_some_and(|h| h.binary_search(at).is_ok());
    match proposal {
        None => 0,
        Some(Proposal::Absent) => {
            let all = 0..u32::try_from(fact.group.addresses.len()).unwrap_or(u32::MAX);
            all.filter(|at| !held(at)).count()
        }
        Some(Proposal::Fewer(said, _)) => missing(&fact.group, said).iter().filter(|at| !held(at)).count(),
    }
}
