//! Updates the graph of names before services are built, and finds the services that depend on it.
//!
//! Called by the build once per batch. It reads declarations, never views.

mod aliases;
mod decide;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{FederatedService, Hostname, MergeByName, SameName, ServiceKey, Shared};

use crate::state::State;
use crate::state::names::Reader;

impl State {
    /// Updates names after services changed. Returns all services that must be built. `complete`: every registry is
    /// known.
    pub(crate) fn settle_names(&mut self, complete: bool) -> BTreeSet<ServiceKey> {
        self.settle_same_names(complete);
        let mut services = std::mem::take(&mut self.dirty.services);
        let names = &self.context.names;
        // a join reads its members' declarations, not their views, so one pass builds both
        let readers = services.iter().flat_map(|key| names.readers(&key.namespace, &key.host));
        let joining: Vec<ServiceKey> = readers.filter_map(Reader::join).cloned().collect();
        services.extend(joining);
        let hosts: BTreeSet<Hostname> = services.iter().map(|key| key.host.clone()).collect();
        let again = self.settle_leads(&hosts);
        services.extend(again.iter().flat_map(|host| self.hosts.of(host)).map(|service| service.key.clone()));
        services.extend(self.led_to(hosts.iter().chain(&again)));
        services
    }

    /// Updates the names of changed services, and the joins that they imply.
    fn settle_same_names(&mut self, complete: bool) {
        let renamed = self.context.names.joins.take_renamed();
        let names = &mut self.context.names.same;
        let mut again = names.begin(&self.context.settings.effective, complete);
        if names.mode != MergeByName::Off {
            // the outcome for a name depends on all claimants of its host
            let changed = self.dirty.services.iter().map(|key| &key.host).chain(&renamed);
            for service in changed.flat_map(|host| self.hosts.of(host)) {
                again.extend(names.follow(&service.key, &self.hosts));
            }
        }
        for name in again {
            self.settle_name(&name);
        }
    }

    fn settle_name(&mut self, name: &Arc<str>) {
        let before = self.context.names.same.found.get(name).cloned();
        let decided = self.decide_name(name, before.as_deref().is_some_and(SameName::is_merged));
        let (after, federated) =
            decided.map_or((None, None), |(same, federated)| (Some(Arc::new(same)), federated));
        let host = |same: &Arc<SameName>| same.services.first().map(|service| service.key.host.clone());
        let was = before.as_ref().filter(|same| same.is_merged()).and_then(host);
        let is = federated.as_ref().map(|(host, _)| host.clone());
        if let Some(was) = was.filter(|was| is.as_ref() != Some(was)) {
            self.imply(&was, None);
        }
        if let Some((host, federated)) = federated {
            self.imply(&host, Some(Arc::new(federated)));
        }
        if before == after {
            return;
        }
        for service in before.iter().chain(&after).flat_map(|same| same.services.iter()) {
            self.dirty.services.insert(service.key.clone());
        }
        match after {
            Some(same) => {
                self.draft.same_names.insert(Arc::clone(name), Shared(Arc::clone(&same)));
                self.context.names.same.found.insert(Arc::clone(name), same);
            }
            None => {
                self.draft.same_names.remove(name);
                self.context.names.same.found.remove(name);
            }
        }
    }

    fn imply(&mut self, host: &Hostname, federated: Option<Arc<FederatedService>>) {
        if let Some(change) = self.context.names.imply(host, federated, &self.context.shards) {
            self.dirty.implied.insert(host.clone());
            self.apply_join_change(host, change);
        }
    }
}
