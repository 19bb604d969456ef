//! The witness of law 2: a host that had endpoints and has none now must have been told so.
//!
//! Called by publication where a host's entry is replaced. The gate prevents what this looks for;
//! the witness does not ask the gate, it compares what is served with the records of the turn. An
//! absence explains nothing where the source could have been asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{FactId, FactKey, Hostname, Record, RegistryName, ServiceView, WorkloadKey};

use crate::state::State;

impl State {
    /// Counts a host that has lost all of its endpoints if no record of this turn explains it.
    pub(crate) fn witness(
        &mut self,
        host: &Hostname,
        before: &[Arc<ServiceView>],
        after: &[Arc<ServiceView>],
    ) {
        if !has_endpoints(before) || has_endpoints(after) {
            return;
        }
        // Gathered once a turn: a registry that leaves may empty thousands of hosts.
        let explained = self.dirty.explained.take().unwrap_or_else(|| self.explained());
        self.counters.unexplained_empty += u64::from(!explained.contains(host));
        self.dirty.explained = Some(explained);
    }

    /// The hosts of which this turn's records take something with evidence, or say something else.
    fn explained(&self) -> BTreeSet<Hostname> {
        let mut out = BTreeSet::new();
        for record in &self.dirty.records {
            let item = match record {
                Record::Put(_, _, fact) => fact.item(),
                Record::Drop(name, key, evidence) if evidence.is_absence() && self.can_ask(name, key) => {
                    continue;
                }
                Record::Drop(_, key, _) => key.item.clone(),
                _ => continue,
            };
            match item {
                FactId::Service(key) => drop(out.insert(key.service.host)),
                FactId::Group(key) => drop(out.insert(key.service.host)),
                FactId::Workload(key) => out.extend(self.selecting(&key)),
                FactId::Alias(host) => drop(out.insert(host)),
                FactId::Gateway(_) | FactId::Settings | FactId::Waiting(_) => {}
            }
        }
        out.extend(self.dirty.implied.iter().cloned());
        // What explains a member explains its aliases
        let joining = out.iter().flat_map(|host| self.world.names.joining(host));
        let joining: Vec<Hostname> = joining.map(|key| key.host.clone()).collect();
        out.extend(joining);
        out
    }

    fn can_ask(&self, name: &RegistryName, key: &FactKey) -> bool {
        let shard = self.world.shards.find(name, &key.scope);
        shard.and_then(|shard| self.world.shards.get(shard)).is_some_and(|info| info.can_confirm)
    }

    /// The hosts behind which a workload stood until this turn.
    fn selecting(&self, key: &WorkloadKey) -> Vec<Hostname> {
        let view = self.draft.workloads.get(key);
        view.into_iter().flat_map(|view| view.services.iter().map(|service| service.host.clone())).collect()
    }
}

/// Whether an endpoint is reached by a port of any of these.
fn has_endpoints(views: &[Arc<ServiceView>]) -> bool {
    let mut sources =
        views.iter().flat_map(|view| view.ports.iter()).flat_map(|p| p.endpoints.inputs.sources.iter());
    sources.any(|source| !source.group.addresses.is_empty())
}
