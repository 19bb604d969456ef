//! Removals that the guard doubts in a batch: emptied hosts, vanished services, and scopes that lose too much.
//!
//! Called by [`State::judge`] after all updates of a batch. Reads the facts, changes nothing. Facts
//! whose removal is already held do not count as remaining: two batches cannot empty a host either.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Declaration, EndpointGroup, FactId, Hostname, Resolution, ServiceKey};

use super::Proposals;
use super::guard::{HoldKey, Proposal, reason};
use crate::merge::matching_port;
use crate::merge::target::serves_any_port;
use crate::removal::difference::missing;
use crate::state::State;
use crate::state::services::{Decl, GroupFact, Service, decl_key, group_key};
use crate::state::shards::ShardId;
use crate::state::workloads::WorkloadFact;

/// Doubted removals of one batch.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    heavy: BTreeSet<ShardId>,
    emptied: BTreeSet<Hostname>,
    vanished: BTreeSet<ServiceKey>,
}

impl State {
    /// Returns why a removal is doubted; `None` if it is not.
    pub(super) fn reason(&self, doubts: &Doubts, key: &HoldKey) -> Option<&'static str> {
        let (service, hosts) = match &key.1 {
            FactId::Service(decl) => (Some(&decl.service), vec![&decl.service.host]),
            FactId::Group(group) => (Some(&group.service), vec![&group.service.host]),
            FactId::Workload(_) => (None, self.hosts_selecting(&key.1)),
            FactId::Gateway(_)
            | FactId::GatewayName(_)
            | FactId::Settings
            | FactId::FederatedService(_)
            | FactId::Waiting(_)
            | FactId::Policy(_) => (None, Vec::new()),
        };
        if service.is_some_and(|s| doubts.vanished.contains(s)) {
            return Some(reason::SERVICE_VANISHES);
        }
        if hosts.iter().any(|h| doubts.emptied.contains(*h)) {
            return Some(reason::HOST_EMPTIED);
        }
        doubts.heavy.contains(&key.0).then_some(reason::LARGE_LOSS)
    }

    fn hosts_selecting(&self, item: &FactId) -> Vec<&Hostname> {
        let FactId::Workload(key) = item else { return Vec::new() };
        let workloads = &self.context.workloads;
        let slot = workloads.id(key).and_then(|id| workloads.get(id));
        let selectors = slot.map(|s| s.selected_by.as_slice()).unwrap_or_default();
        selectors.iter().filter_map(|&s| self.context.selection.owner(s)).map(|(key, ..)| &key.host).collect()
    }

    /// Returns which of the proposed removals are doubted.
    pub(super) fn doubts(&self, proposals: &Proposals) -> Doubts {
        let mut lost: BTreeMap<ShardId, u64> = BTreeMap::new();
        let mut hosts: BTreeSet<&Hostname> = BTreeSet::new();
        let mut services: BTreeSet<&ServiceKey> = BTreeSet::new();
        for (key, proposal) in proposals {
            *lost.entry(key.0).or_default() += self.weight(key, proposal);
            match &key.1 {
                FactId::Service(decl) => {
                    hosts.insert(&decl.service.host);
                    services.insert(&decl.service);
                }
                FactId::Group(group) => {
                    hosts.insert(&group.service.host);
                }
                FactId::Workload(_) => hosts.extend(self.hosts_selecting(&key.1)),
                FactId::Gateway(_)
                | FactId::GatewayName(_)
                | FactId::Settings
                | FactId::FederatedService(_)
                | FactId::Waiting(_)
                | FactId::Policy(_) => {}
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
        let (before, gone) =
            self.context.shards.get(shard).map_or((0, 0), |info| (info.weight_before, info.lost));
        (lost + gone).saturating_mul(10) > before.saturating_mul(3)
    }

    /// Returns how many addresses, workloads, gateways and policies a removal concerns, without those held already.
    pub(super) fn weight(&self, (shard, item): &HoldKey, proposal: &Proposal) -> u64 {
        let workloads = &self.context.workloads;
        let count = match item {
            FactId::Group(key) => {
                let fact = self.hosts.get(&key.service).and_then(|s| s.group(*shard, key));
                fact.map_or(0, |fact| gone(fact, Some(proposal)))
            }
            FactId::Workload(key) => usize::from(workloads.fact(*shard, key).is_some_and(|f| !f.held)),
            FactId::Gateway(key) => {
                usize::from(self.context.gateways.get(*shard, key).is_some_and(|f| !f.held))
            }
            FactId::Policy(key) => {
                usize::from(self.context.policies.get(*shard, key).is_some_and(|f| !f.held))
            }
            FactId::Service(_)
            | FactId::GatewayName(_)
            | FactId::Settings
            | FactId::FederatedService(_)
            | FactId::Waiting(_) => 0,
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
        !decl.held && !proposals.contains_key(&(shard, FactId::Service(decl_key(&service.key, &decl.object))))
    }

    /// Returns whether a host that has endpoints would keep none except held ones.
    fn is_emptied(&self, host: &Hostname, proposals: &Proposals) -> bool {
        let (mut before, mut after) = (0, 0);
        for service in self.hosts.of(host) {
            for shard in &service.shards {
                for decl in shard.declarations.iter().filter(|decl| serves_endpoints(&decl.declaration)) {
                    let stays = self.decl_stays(service, shard.id, decl, proposals);
                    let groups = shard.groups_of(&decl.object).iter();
                    for fact in groups.filter(|fact| is_reached(&decl.declaration, &fact.group)) {
                        let key = (shard.id, FactId::Group(group_key(&service.key, fact)));
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

    /// Returns how many selected workloads are endpoints of a declaration, and how many of them would remain.
    fn selected(&self, decl: &Decl, proposals: &Proposals) -> (usize, usize) {
        let Some(id) = decl.selector else { return (0, 0) };
        let slots =
            self.context.selection.members(id).filter_map(|member| self.context.workloads.get(member));
        slots.fold((0, 0), |(had, left), slot| {
            let goes = |shard| proposals.contains_key(&(shard, FactId::Workload(slot.key.clone())));
            // the value that the next registry reports may not match the selector
            let next = slot.facts.iter().find(|fact| !fact.held && !goes(fact.shard));
            let serves =
                |fact: &WorkloadFact| serves_any_port(&decl.declaration, slot.key.kind, &fact.workload);
            let stays = next.is_some_and(|fact| {
                serves(fact) && self.context.selection.would_match(id, &slot.key, &fact.workload)
            });
            (had + usize::from(slot.first().is_some_and(serves)), left + usize::from(stays))
        })
    }
}

/// Returns whether endpoints of a declaration are served: an alias points to a different host, and without a port no
/// endpoint is reachable.
fn serves_endpoints(declaration: &Declaration) -> bool {
    !matches!(declaration.resolution, Resolution::Alias(_)) && !declaration.ports.is_empty()
}

/// Returns whether a port of the declaration matches a port of the group.
fn is_reached(declaration: &Declaration, group: &EndpointGroup) -> bool {
    let leads = |port| group.port_sets.iter().any(|set| matching_port(declaration, port, set).is_some());
    declaration.ports.iter().any(leads)
}

/// Returns how many endpoints of a group would be removed, without those held already.
fn gone(fact: &GroupFact, proposal: Option<&Proposal>) -> usize {
    let held = |at: &u32| fact.held.as_ref().is_some_and(|h| h.binary_search(at).is_ok());
    match proposal {
        None => 0,
        Some(Proposal::Absent(_)) => {
            let all = 0..u32::try_from(fact.group.addresses.len()).unwrap_or(u32::MAX);
            all.filter(|at| !held(at)).count()
        }
        Some(Proposal::Fewer { reported, .. }) => {
            missing(&fact.group, reported).iter().filter(|at| !held(at)).count()
        }
    }
}
