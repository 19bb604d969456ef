//! Audit of law 2: a host loses its last endpoint only with a record that explains the loss.
//!
//! Called by the build when a host's entry is replaced. The removal guard prevents unexplained losses;
//! the audit is independent of the guard and compares the views with the records of the batch. A
//! removal by absence explains nothing if the source can confirm.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{FactId, FactKey, Hostname, Record, RegistryName, ServiceView, WorkloadKey};

use crate::state::State;

impl State {
    /// Counts a host that has lost all of its endpoints if no record of this batch explains it.
    pub(crate) fn count_unexplained_loss(
        &mut self,
        host: &Hostname,
        before: &[Arc<ServiceView>],
        after: &[Arc<ServiceView>],
    ) {
        if !has_endpoints(before) || has_endpoints(after) {
            return;
        }
        // computed once per batch: the removal of a registry may empty thousands of hosts
        let explained = self.dirty.explained.take().unwrap_or_else(|| self.explained());
        self.counters.unexplained_empty += u64::from(!explained.contains(host));
        self.dirty.explained = Some(explained);
    }

    /// Returns the hosts for which this batch has a Put or a removal with evidence.
    fn explained(&self) -> BTreeSet<Hostname> {
        let mut out = BTreeSet::new();
        for record in &self.dirty.records {
            let item = match record {
                Record::Put(_, _, fact) => fact.item(),
                Record::Remove(name, key, evidence)
                    if evidence.is_absence() && self.can_confirm_key(name, key) =>
                {
                    continue;
                }
                Record::Remove(_, key, _) => key.item.clone(),
                _ => continue,
            };
            match item {
                FactId::Service(key) => drop(out.insert(key.service.host)),
                FactId::Group(key) => drop(out.insert(key.service.host)),
                FactId::Workload(key) => out.extend(self.selecting(&key)),
                FactId::FederatedService(host) => drop(out.insert(host)),
                FactId::Gateway(_)
                | FactId::GatewayName(_)
                | FactId::Settings
                | FactId::Waiting(_)
                | FactId::Policy(_) => {}
            }
        }
        out.extend(self.dirty.implied.iter().cloned());
        // what explains a member explains the services that join it
        let joining = out.iter().flat_map(|host| self.context.names.joining(host));
        let joining: Vec<Hostname> = joining.map(|key| key.host.clone()).collect();
        out.extend(joining);
        out
    }

    fn can_confirm_key(&self, name: &RegistryName, key: &FactKey) -> bool {
        let shard = self.context.shards.find(name, &key.scope);
        shard.and_then(|shard| self.context.shards.get(shard)).is_some_and(|info| info.can_confirm)
    }

    /// Returns the hosts that had a workload as an endpoint before this batch.
    fn selecting(&self, key: &WorkloadKey) -> Vec<Hostname> {
        let view = self.draft.workloads.get(key);
        view.into_iter().flat_map(|view| view.services.iter().map(|service| service.host.clone())).collect()
    }
}

/// Returns whether a port of any of these views has an endpoint.
fn has_endpoints(views: &[Arc<ServiceView>]) -> bool {
    let mut sources =
        views.iter().flat_map(|view| view.ports.iter()).flat_map(|p| p.endpoints.inputs.sources.iter());
    sources.any(|source| !source.group.addresses.is_empty())
}
