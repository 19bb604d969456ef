//! Follows chains of aliases through the first claimant of each host to their ends.
//!
//! Called by the build's name phase with the hosts that changed.

use std::collections::BTreeSet;

use tributary_model::{Hostname, ServiceKey};

use crate::merge::outline::{Outline, outlines};
use crate::state::State;
use crate::state::names::{Declared, End, Reader, Settling};

impl State {
    /// Updates aliases after these hosts changed. Returns the hosts that must be built again because of it.
    pub(super) fn settle_leads(&mut self, hosts: &BTreeSet<Hostname>) -> BTreeSet<Hostname> {
        let mut settling = Settling::default();
        for host in hosts {
            if !self.may_lead(host) {
                continue;
            }
            let now = self.declared_leads(host);
            let names = &mut self.context.names;
            names.aliases.declare(host, now, &mut names.edges, &mut settling);
        }
        hosts.iter().for_each(|host| self.upstream(host, &mut settling.aliases));
        for alias in settling.aliases {
            let end = self.context.names.aliases.declared(&alias).map(|to| self.follow(&alias, to));
            self.context.names.aliases.end(alias, end, &mut settling.again);
        }
        settling.again
    }

    /// Returns whether a host may have an alias; cheap, since most hosts have none.
    fn may_lead(&self, host: &Hostname) -> bool {
        let shards = self.hosts.of(host).iter().flat_map(|service| &service.shards);
        let mut declarations = shards.flat_map(|shard| &shard.declarations);
        self.context.names.aliases.declares(host)
            || declarations.any(|decl| decl.declaration.alias_target().is_some())
    }

    fn declared_leads(&self, host: &Hostname) -> Declared {
        let declared =
            |outline: &Outline<'_>| Some((outline.service.key.clone(), outline.alias_target()?.clone()));
        outlines(&self.context, &self.hosts, host).iter().filter_map(declared).collect()
    }

    /// Adds the aliases whose chains pass a host.
    fn upstream(&self, host: &Hostname, aliases: &mut BTreeSet<ServiceKey>) {
        let mut hosts = vec![host];
        let mut seen = BTreeSet::from([host]);
        while let Some(host) = hosts.pop() {
            for reader in self.context.names.edges.readers_of_any(host) {
                let Reader::Alias(alias) = reader else { continue };
                aliases.insert(alias.clone());
                if seen.insert(&alias.host) {
                    hosts.push(&alias.host);
                }
            }
        }
    }

    fn follow(&self, alias: &ServiceKey, to: &Hostname) -> End {
        let mut seen = BTreeSet::from([alias.host.clone()]);
        let mut at = to.clone();
        loop {
            if !seen.insert(at.clone()) {
                return End::Loop;
            }
            let outlines = outlines(&self.context, &self.hosts, &at);
            match outlines.first().map(Outline::alias_target) {
                None => return End::Missing(at),
                Some(None) => return End::Host(at),
                Some(Some(next)) => at = next.clone(),
            }
        }
    }
}
