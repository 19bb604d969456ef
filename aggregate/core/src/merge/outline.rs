//! Outlines of a host's services from their declarations, before views are built: claimants and alias targets.
//!
//! Called by the build's name phase. Agrees with the later merge: a service has an outline if and only if it gets a
//! view, and outlines have the order of the host's claimants.

use std::collections::BTreeSet;

use tributary_model::{Hostname, PortNumber};

use super::precedence::{Ranked, compare, ranked};
use super::{join, merge, parts};
use crate::state::MergeContext;
use crate::state::services::{Decl, Hosts, Service};

/// Service that will be served.
pub(crate) struct Outline<'a> {
    /// Service.
    pub(crate) service: &'a Service,
    shards: Vec<Ranked<'a>>,
    /// First declaration; `None` for a federated service.
    first: Option<&'a Decl>,
}

impl<'a> Outline<'a> {
    fn of(context: &'a MergeContext, service: &'a Service) -> Option<Self> {
        let shards = ranked(&context.shards, service);
        let first = Some(parts::deciding(&shards)?);
        Some(Self { service, shards, first })
    }
    /// Returns the numbers of its ports.
    pub(crate) fn ports(&self, context: &MergeContext, hosts: &Hosts) -> BTreeSet<PortNumber> {
        if self.first.is_none() {
            let joined = merge(context, hosts, self.service, &mut ());
            return joined.into_iter().flat_map(|joined| joined.ports.into_keys()).collect();
        }
        let declared = self.shards.iter().flat_map(|shard| &shard.declarations);
        let whole = declared.filter(|decl| !parts::is_import(decl));
        whole.flat_map(|decl| decl.declaration.ports.iter()).map(|port| port.number).collect()
    }
    /// Returns the target host if it is an alias.
    pub(crate) fn alias_target(&self) -> Option<&'a Hostname> {
        self.first?.declaration.alias_target()
    }
}

/// Returns the services of a host that will be served, the first in precedence first. A federated service is the only one.
pub(crate) fn outlines<'a>(context: &'a MergeContext, hosts: &'a Hosts, host: &Hostname) -> Vec<Outline<'a>> {
    let services = hosts.of(host);
    let joins = |service: &&Service| {
        service.federated.as_ref().is_some_and(|federated| join::can_join(context, hosts, federated))
    };
    if let Some(service) = services.iter().find(joins) {
        return vec![Outline { service, shards: Vec::new(), first: None }];
    }
    let mut out: Vec<Outline<'a>> =
        services.iter().filter_map(|service| Outline::of(context, service)).collect();
    let first = |outline: &Outline<'a>| outline.shards.first().and_then(Ranked::first);
    out.sort_by(|a, b| compare(first(a), first(b)).then_with(|| a.service.key.cmp(&b.service.key)));
    out
}
