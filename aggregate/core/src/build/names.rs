//! Settles the graph of names, before services are built: which services must be built because of names.
//!
//! Called by the build once a turn. It reads declarations, never views.

mod decide;
mod leads;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{FederatedService, Hostname, MergeByName, SameName, ServiceKey, Shared};

use crate::state::State;
use crate::state::names::Reader;

impl State {
    /// Settles names after services changed: all services that must be built, each once. `complete` is whether
    /// everything that is configured is known.
    pub(crate) fn settle_names(&mut self, complete: bool) -> BTreeSet<ServiceKey> {
        self.settle_same_names(complete);
        let mut services = std::mem::take(&mut self.dirty.services);
        let names = &self.world.names;
        // a join reads its members' declarations, never their views: it is built in the same pass
        let readers = services.iter().flat_map(|key| names.readers(&key.namespace, &key.host));
        let joining: Vec<ServiceKey> = readers.filter_map(Reader::join).cloned().collect();
        services.extend(joining);
        let hosts: BTreeSet<Hostname> = services.iter().map(|key| key.host.clone()).collect();
        let again = self.settle_leads(&hosts);
        services.extend(again.iter().flat_map(|host| self.hosts.of(host)).map(|service| service.key.clone()));
        services
    }

    /// Follows the names of services that changed, and makes the joins that they come to.
    fn settle_same_names(&mut self, complete: bool) {
        let renamed = self.world.names.joins.take_renamed();
        let names = &mut self.world.names.same;
        let mut again = names.begin(&self.world.settings.effective, complete);
        if names.mode != MergeByName::Off {
            // other claimants of a host decide about its name too
            let changed = self.dirty.services.iter().map(|key| &key.host).chain(&renamed);
            for service in changed.flat_map(|host| self.hosts.of(host)) {
                again.extend(names.follow(&service.key, &self.hosts, &self.world.shards));
            }
        }
        for name in again {
            self.settle_name(&name);
        }
    }

    fn settle_name(&mut self, name: &Arc<str>) {
        let before = self.world.names.same.found.get(name).cloned();
        let decided = self.decide_name(name, before.as_deref().is_some_and(SameName::is_merged));
        let (after, alias) = decided.map_or((None, None), |(same, alias)| (Some(Arc::new(same)), alias));
        let host = |same: &Arc<SameName>| same.services.first().map(|service| service.key.host.clone());
        let was = before.as_ref().filter(|same| same.is_merged()).and_then(host);
        let is = alias.as_ref().map(|(host, _)| host.clone());
        if let Some(was) = was.filter(|was| is.as_ref() != Some(was)) {
            self.imply(&was, None);
        }
        if let Some((host, alias)) = alias {
            self.imply(&host, Some(Arc::new(alias)));
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
                self.world.names.same.found.insert(Arc::clone(name), same);
            }
            None => {
                self.draft.same_names.remove(name);
                self.world.names.same.found.remove(name);
            }
        }
    }

    fn imply(&mut self, host: &Hostname, alias: Option<Arc<FederatedService>>) {
        if let Some(moved) = self.world.names.imply(host, alias, &self.world.shards) {
            self.dirty.implied.insert(host.clone());
            self.move_alias(host, moved);
        }
    }
}
