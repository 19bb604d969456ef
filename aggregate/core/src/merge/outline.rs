//! What a host comes to by its declarations, before anything is built: who claims it, and where that leads.
//!
//! Called when names are settled. Agrees with what merge then builds: a service has an outline exactly when it has
//! a view, and outlines come in the order of the host's claimants.

use tributary_model::{Hostname, Resolution, Settings, Visibility};

use super::precedence::{Ranked, compare, ranked};
use super::{join, parts, visibility};
use crate::state::MergeContext;
use crate::state::services::{Decl, Hosts, Service};

/// A service that will be served.
pub(crate) struct Outline<'a> {
    /// The service.
    pub(crate) service: &'a Service,
    shards: Vec<Ranked<'a>>,
    /// Its first declaration; none where it joins others.
    first: Option<&'a Decl>,
}

impl<'a> Outline<'a> {
    fn of(world: &'a MergeContext, service: &'a Service) -> Option<Self> {
        let shards = ranked(&world.shards, service);
        let first = Some(parts::deciding(&shards)?);
        Some(Self { service, shards, first })
    }
    /// Where it leads, if it is another name for a host.
    pub(crate) fn leads_to(&self) -> Option<&'a Hostname> {
        match &self.first?.declaration.resolution {
            Resolution::Alias(host) => Some(host),
            _ => None,
        }
    }
    /// Who sees one of its declarations.
    pub(crate) fn visibility(&self, settings: &Settings) -> Visibility {
        let key = &self.service.key;
        let of_shard = |shard: &Ranked<'a>| {
            let own = shard.declarations.iter().filter(|decl| !parts::is_import(decl));
            own.map(|decl| visibility(settings, shard, &decl.declaration, key)).collect::<Vec<_>>()
        };
        let all: Vec<Visibility> = self.shards.iter().flat_map(of_shard).collect();
        Visibility::any_of(&all, &key.namespace)
    }
}

/// The services of a host that will be served, the first in precedence first. One that joins others is the only one.
pub(crate) fn outlines<'a>(world: &'a MergeContext, hosts: &'a Hosts, host: &Hostname) -> Vec<Outline<'a>> {
    let services = hosts.of(host);
    let joins =
        |service: &&Service| service.alias.as_ref().is_some_and(|alias| join::can_join(world, hosts, alias));
    if let Some(service) = services.iter().find(joins) {
        return vec![Outline { service, shards: Vec::new(), first: None }];
    }
    let mut out: Vec<Outline<'a>> =
        services.iter().filter_map(|service| Outline::of(world, service)).collect();
    let claim = |outline: &Outline<'a>| outline.shards.first().and_then(Ranked::first);
    out.sort_by(|a, b| compare(claim(a), claim(b)).then_with(|| a.service.key.cmp(&b.service.key)));
    out
}
