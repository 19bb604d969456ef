//! Builds the next catalog from the changes of a batch: builds only dirty services, and puts only changed
//! entries into the persistent maps.
//!
//! Called at the end of every batch; [`Core::publish`](crate::Core::publish) returns the result.

pub(crate) mod assemble;
mod audience;
pub(crate) mod dims;
mod names;
mod peers;
mod pending;
mod policies;
pub(crate) mod registries;
mod rules;
mod subsets;
mod virtual_services;

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use tributary_model::{
    Catalog, CatalogChanges, HostEntry, Hostname, Namespace, NetworkId, PortNumber, ResourceInputs,
    RouteInputs, RouteOwner, ServiceKey, ServiceView, Shared, Workload, WorkloadAddress, WorkloadKey,
    WorkloadView,
};

use crate::build::assemble::{Kept, assemble, audiences, routes_without_service, with_conditions};
use crate::build::audience::audience_views;
use crate::ledger::Registries;
use crate::merge::conditions::host_conflict;
use crate::merge::merge;
use crate::merge::precedence::{claimants, first_object};
use crate::state::State;
use crate::state::settings::SettingsChange;
use crate::state::workloads::{WorkloadId, WorkloadSlot};

impl State {
    /// Builds everything that is dirty. Returns the changes of the catalog.
    pub(crate) fn build(&mut self, registries: &Registries, membership_known: bool) -> CatalogChanges {
        let mut changed = CatalogChanges::default();
        let complete = membership_known && registries.values().all(|r| !r.ledger.is_unknown());
        let relabeled = self.build_settings(&mut changed);
        self.follow_peers();
        let (rules_relabeled, ruled) = self.follow_rules();
        if relabeled | rules_relabeled | self.follow_virtual_services() {
            self.draft.compared_labels = self.context.labels.all();
        }
        self.judge_policies(&ruled);
        let built =
            self.context.selection.build(&self.context.workloads, &self.context.shards, &mut self.counters);
        self.dirty.urgent |= built.urgent;
        self.dirty.services.extend(built.services);
        self.build_gateways(&mut changed);
        self.build_outages(registries);
        let services = self.settle_names(complete);
        let hosts = self.build_services(services, &mut changed);
        self.build_pending(&hosts, &mut changed);
        self.build_policies(&mut changed);
        self.build_workloads(&mut changed);
        self.record_lists(registries);
        self.build_registries(registries, complete, &mut changed);
        changed
    }

    /// Builds the settings. Returns whether the client labels changed by which the mesh orders endpoints.
    fn build_settings(&mut self, changed: &mut CatalogChanges) -> bool {
        if !std::mem::take(&mut self.dirty.settings) {
            return false;
        }
        let change = self.context.settings.fold(&self.context.shards);
        if change == SettingsChange::Nothing {
            return false;
        }
        changed.settings = true;
        self.draft.settings = self.context.settings.effective.clone();
        if change == SettingsChange::Carried {
            return false;
        }
        self.counters.full_passes.settings += 1;
        self.context.rules.complete(&self.context.settings.effective);
        self.complete_virtual_services();
        self.dirty.services.extend(self.hosts.iter().map(|s| s.key.clone()));
        self.context.labels.set_mesh(self.context.settings.effective.locality.as_deref())
    }

    fn build_services(
        &mut self,
        keys: BTreeSet<ServiceKey>,
        changed: &mut CatalogChanges,
    ) -> BTreeSet<Hostname> {
        let mut hosts: BTreeSet<Hostname> = keys.iter().map(|key| key.host.clone()).collect();
        hosts.extend(std::mem::take(&mut self.dirty.hosts));
        keys.iter().for_each(|key| self.build_service(key));
        for host in &hosts {
            let before = self.draft.hosts.get(host).cloned();
            if self.build_host(host) {
                changed.hosts.insert(host.clone());
                let (aliases, after) = (self.draft.aliases_of(host), self.draft.hosts.get(host));
                if !aliases.is_empty() && leads_elsewhere(before.as_deref(), after.map(|entry| &**entry)) {
                    changed.hosts.extend(aliases.into_iter().cloned());
                }
            }
            self.hosts.prune(host);
        }
        hosts
    }

    fn build_service(&mut self, key: &ServiceKey) {
        let Some(service) = self.hosts.get(key) else { return };
        let mut merged = merge(&self.context, &self.hosts, service, &mut ());
        let mut kept = Kept { counters: &mut self.counters, identity_sets: &mut self.identity_sets };
        if let Some(merged) = &mut merged {
            merged.audiences = audience_views(&self.context, &self.hosts, service, merged, &mut kept);
        }
        let is_join = merged.as_ref().is_some_and(|m| m.is_join);
        let networks = merged.as_ref().map(|m| m.networks.clone()).unwrap_or_default();
        let old = service.view.as_ref();
        let view = merged.and_then(|m| assemble(&self.context, &self.hosts, key, m, old, &mut kept));
        self.context.gateways.index(key, &service.networks, &networks);
        self.wait(key);
        let Some(service) = self.hosts.get_mut(key) else { return };
        (service.view, service.networks) = (view, networks);
        if std::mem::replace(&mut service.is_join, is_join) != is_join
            || service.federated.is_some() && !is_join
        {
            let owner = self.context.names.join_owner(&key.host).and_then(|shard| self.source_of(shard));
            self.dirty.registries.extend(owner.map(|(registry, _)| registry));
        }
    }

    /// Updates which groups of a service wait for a declaration.
    fn wait(&mut self, key: &ServiceKey) {
        let Some(service) = self.hosts.get_mut(key) else { return };
        let now = waiting_by_shard(service);
        let shards = now.iter().map(|(shard, _)| *shard).collect();
        let before = std::mem::replace(&mut service.waiting, shards);
        for shard in before.into_iter().filter(|shard| !now.iter().any(|(s, _)| s == shard)) {
            self.note_waiting(shard, key, 0);
        }
        for (shard, count) in now {
            self.note_waiting(shard, key, count);
        }
    }

    /// Orders the claimants of a host and adds their conflict. Returns whether the host's entry changed.
    fn build_host(&mut self, host: &Hostname) -> bool {
        let services = self.hosts.of(host);
        let ordered = claimants(&self.context.shards, services);
        let is_join = ordered.first().is_some_and(|s| s.is_join);
        let conflict = (!is_join && contested(&ordered))
            .then(|| host_conflict(host, ordered.iter().filter_map(|s| first_object(s)).collect()));
        let views: Vec<(ServiceKey, Arc<ServiceView>)> = ordered
            .iter()
            .filter_map(|s| {
                let view = s.view.as_ref()?;
                let mut conditions: Vec<_> = view.conditions.to_vec();
                conditions.retain(|c| c.code != tributary_model::Code::HOST_CONFLICT);
                conditions.extend(conflict.clone());
                conditions.sort();
                Some((s.key.clone(), with_conditions(view, conditions)))
            })
            .collect();
        for (key, view) in &views {
            if let Some(service) = self.hosts.get_mut(key) {
                service.view = Some(Arc::clone(view));
            }
        }
        let entry = views.into_iter().map(|(_, view)| view).collect::<Vec<_>>();
        self.set_host_entry(host, entry)
    }

    fn set_host_entry(&mut self, host: &Hostname, views: Vec<Arc<ServiceView>>) -> bool {
        let old = self.draft.hosts.get(host).cloned();
        let before = old.as_ref().map(|entry| &*entry.claimants).unwrap_or_default();
        let led_before = old.as_ref().map(|entry| &*entry.led_by).unwrap_or_default();
        let led_by = if views.is_empty() { Vec::new() } else { self.led_by(host) };
        let known = (old.as_deref(), views.first().map(|view| &**view));
        let routes = routes_without_service(&self.context, &self.hosts, host, known, &mut self.counters);
        let routes_before = old.as_ref().and_then(|entry| entry.routes.as_ref());
        let same_claimants =
            before.len() == views.len() && before.iter().zip(&views).all(|(a, b)| Arc::ptr_eq(a, b));
        if same_claimants && *led_before == *led_by && routes_before == routes.as_ref() {
            return false;
        }
        self.count_unexplained_loss(host, before, &views);
        let visible_in = |views: &[Arc<ServiceView>]| {
            views.iter().flat_map(|v| audiences(v).cloned()).collect::<BTreeSet<Namespace>>()
        };
        let (were, are) = (visible_in(before), visible_in(&views));
        for namespace in were.symmetric_difference(&are) {
            set_listed(&mut self.draft.scoped, namespace, host, are.contains(namespace));
        }
        let (were, are) = (alias_targets(before), alias_targets(&views));
        for target in were.symmetric_difference(&are) {
            set_listed(&mut self.draft.aliases, target, host, are.contains(target));
        }
        let (were, are) = (namespaces(led_before, routes_before), namespaces(&led_by, routes.as_ref()));
        for namespace in were.symmetric_difference(&are) {
            set_listed(&mut self.draft.led_to, namespace, host, are.contains(namespace));
        }
        if views.is_empty() && routes.is_none() {
            self.draft.hosts.remove(host);
        } else {
            let entry = HostEntry { claimants: views.into(), led_by: led_by.into(), routes };
            self.draft.hosts.insert(host.clone(), Shared::new(entry));
        }
        true
    }

    fn build_workloads(&mut self, changed: &mut CatalogChanges) {
        for id in std::mem::take(&mut self.dirty.workloads) {
            let Some(slot) = self.context.workloads.get(id) else { continue };
            let key = slot.key.clone();
            let view = self.workload_view(id);
            let old = self.draft.workloads.get(&key).cloned();
            let same = match (&old, &view) {
                (Some(a), Some(b)) => same_workload(a, b),
                (None, None) => true,
                _ => false,
            };
            if !same {
                let (was, is) = (old.as_ref().map(|o| &*o.workload), view.as_ref().map(|v| &*v.workload));
                index_ips(&mut self.draft, &key, was, is);
                match view {
                    Some(view) => self.draft.workloads.insert(key.clone(), Shared::new(view)),
                    None => self.draft.workloads.remove(&key),
                };
                changed.workloads.insert(key);
            }
            self.context.workloads.prune(id);
        }
    }

    fn workload_view(&self, id: WorkloadId) -> Option<WorkloadView> {
        let slot = self.context.workloads.get(id)?;
        let fact = slot.first()?;
        Some(WorkloadView {
            shard: Arc::clone(&self.context.shards.get(fact.shard)?.shard),
            workload: Arc::clone(&fact.workload),
            services: self.services_of(slot, &fact.workload),
        })
    }

    /// Returns the services of a workload, sorted: those that select it and those that its adapter lists.
    fn services_of(&self, slot: &WorkloadSlot, workload: &Workload) -> Arc<[ServiceKey]> {
        if slot.selected_by.is_empty() {
            return Arc::clone(&workload.listed);
        }
        let owners = slot.selected_by.iter().filter_map(|&s| self.context.selection.owner(s));
        let owners = owners.map(|(key, ..)| key).chain(workload.listed.iter());
        let mut services: Vec<ServiceKey> = owners.cloned().collect();
        services.sort();
        services.dedup();
        services.into()
    }

    /// Builds gateways and their host names, and marks the services of networks whose gateways changed.
    fn build_gateways(&mut self, changed: &mut CatalogChanges) {
        let keys = std::mem::take(&mut self.dirty.gateways);
        let named = self.build_gateway_names(changed);
        let networks: BTreeSet<NetworkId> = keys.iter().map(|key| key.network.clone()).chain(named).collect();
        for network in networks {
            let again = self.context.gateways.join(&network, &self.context.shards);
            self.dirty.services.extend(again);
        }
        for key in keys {
            let now = self.context.gateways.first(&key, &self.context.shards);
            if self.draft.gateways.get(&key) == now.as_ref() {
                continue;
            }
            changed.gateways = true;
            match now {
                Some(gateway) => self.draft.gateways.insert(key, gateway),
                None => self.draft.gateways.remove(&key),
            };
        }
    }

    /// Builds host names of gateways. Returns the networks of the gateways that have one that changed.
    fn build_gateway_names(&mut self, changed: &mut CatalogChanges) -> BTreeSet<NetworkId> {
        let mut networks = BTreeSet::new();
        for name in std::mem::take(&mut self.dirty.gateway_names) {
            let now = self.context.gateways.names().first(&name, &self.context.shards);
            if self.draft.gateway_names.get(&name) == now.as_ref() {
                continue;
            }
            changed.gateway_names = true;
            networks.extend(self.context.gateways.names().networks_of(&name).cloned());
            match now {
                Some(resolved) => self.draft.gateway_names.insert(name, resolved),
                None => self.draft.gateway_names.remove(&name),
            };
        }
        networks
    }
}

fn contested(ordered: &[&crate::state::services::Service]) -> bool {
    let providers = ordered.iter().filter_map(|s| s.view.as_ref()).flat_map(|v| v.declarations.iter());
    let providers: BTreeSet<_> = providers.map(|d| &d.shard.registry.provider).collect();
    ordered.len() > 1 || providers.len() > 1
}

fn waiting_by_shard(
    service: &crate::state::services::Service,
) -> Vec<(crate::state::shards::ShardId, usize)> {
    service.shards.iter().map(|s| (s.id, s.waiting().count())).filter(|(_, count)| *count > 0).collect()
}

/// Adds a host to the list of a key, or removes it.
fn set_listed<K: Ord + Clone>(
    lists: &mut OrdMap<K, Shared<OrdSet<Hostname>>>,
    key: &K,
    host: &Hostname,
    listed: bool,
) {
    let mut hosts = lists.get(key).map(|hosts| (**hosts).clone()).unwrap_or_default();
    if listed {
        hosts.insert(host.clone());
    } else {
        hosts.remove(host);
    }
    if hosts.is_empty() {
        lists.remove(key);
    } else {
        lists.insert(key.clone(), Shared::new(hosts));
    }
}

/// Returns the namespaces of VirtualServices that lead to a host, or name it.
fn namespaces(
    owners: &[Arc<RouteOwner>],
    routes: Option<&Shared<ResourceInputs<RouteInputs>>>,
) -> BTreeSet<Namespace> {
    let naming = routes.into_iter().flat_map(|routes| routes.inputs.virtual_services.iter());
    let owners = owners.iter().chain(naming.map(|candidate| &candidate.of));
    owners.map(|owner| owner.key.namespace.clone()).collect()
}

/// Returns the hosts that declarations name as targets of aliases.
fn alias_targets(views: &[Arc<ServiceView>]) -> BTreeSet<Hostname> {
    let declarations = views.iter().flat_map(|view| view.declarations.iter());
    declarations.filter_map(|seen| seen.declaration.alias_target().cloned()).collect()
}

/// Whether an alias of a host may mean other ports than before: those of a different service, or more or fewer.
fn leads_elsewhere(before: Option<&HostEntry>, after: Option<&HostEntry>) -> bool {
    let led = |entry: Option<&HostEntry>| {
        let views = entry.into_iter().flat_map(|entry| entry.claimants.iter());
        let of = |view: &Arc<ServiceView>| {
            let numbers: Vec<PortNumber> = view.ports.iter().map(|port| port.number).collect();
            let seen = view
                .declarations
                .iter()
                .map(|seen| (seen.visibility.clone(), seen.declaration.alias_target().cloned()));
            (view.key.clone(), numbers, seen.collect::<Vec<_>>())
        };
        views.map(of).collect::<Vec<_>>()
    };
    led(before) != led(after)
}

fn same_workload(a: &WorkloadView, b: &WorkloadView) -> bool {
    Arc::ptr_eq(&a.shard, &b.shard) && a.workload == b.workload && a.services == b.services
}

fn ips(workload: Option<&Workload>) -> BTreeSet<std::net::IpAddr> {
    let addresses = workload.into_iter().flat_map(|w| w.addresses.iter());
    let ip = |a: &WorkloadAddress| match a {
        WorkloadAddress::Ip(ip) => Some(*ip),
        WorkloadAddress::Name(_) | WorkloadAddress::Unix(_) => None,
    };
    addresses.filter_map(ip).collect()
}

/// Updates the index by address for a workload.
fn index_ips(draft: &mut Catalog, key: &WorkloadKey, was: Option<&Workload>, is: Option<&Workload>) {
    let (were, are) = (ips(was), ips(is));
    for ip in were.symmetric_difference(&are) {
        let mut keys = draft.workload_ips.get(ip).map(|k| k.to_vec()).unwrap_or_default();
        keys.retain(|k| k != key);
        if are.contains(ip) {
            keys.push(key.clone());
            keys.sort();
        }
        if keys.is_empty() {
            draft.workload_ips.remove(ip);
        } else {
            draft.workload_ips.insert(*ip, Shared::new(keys.into()));
        }
    }
}
