//! Order of a service's shards and declarations by precedence, for merge and build.
//!
//! Shards are ordered by their first declaration, declarations within a shard by their own key, a
//! host's services by their first declaration. [`PrecedenceKey::order`] defines the order of keys.

use std::cmp::Ordering;

use tributary_model::{ObjectRef, PrecedenceKey};

use crate::state::services::{Decl, Service, ServiceShard};
use crate::state::shards::{ShardInfo, Shards};

/// Shard that declares a service.
#[derive(Debug)]
pub(crate) struct Ranked<'a> {
    /// Properties of the shard.
    pub(crate) info: &'a ShardInfo,
    /// Its facts about the service.
    pub(crate) facts: &'a ServiceShard,
    /// Its declarations, the first in precedence first; never empty.
    pub(crate) declarations: Vec<&'a Decl>,
}

impl<'a> Ranked<'a> {
    fn new(info: &'a ShardInfo, facts: &'a ServiceShard) -> Option<Self> {
        let mut declarations: Vec<&Decl> = facts.declarations.iter().collect();
        declarations.sort_by(|a, b| key_of(info, a).order(&key_of(info, b)));
        (!declarations.is_empty()).then_some(Self { info, facts, declarations })
    }
    /// Returns the precedence key of its first declaration.
    pub(crate) fn first(&self) -> Option<PrecedenceKey<'a>> {
        self.declarations.first().map(|d| key_of(self.info, d))
    }
}

/// Returns the precedence key of a declaration.
pub(crate) fn key_of<'a>(info: &'a ShardInfo, decl: &'a Decl) -> PrecedenceKey<'a> {
    info.precedence(decl.declaration.created, &decl.object)
}

/// Compares two keys: the first in precedence first, `None` last.
pub(crate) fn compare(a: Option<PrecedenceKey<'_>>, b: Option<PrecedenceKey<'_>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.order(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Returns the served shards that declare a service, the first in precedence first.
pub(crate) fn ranked<'a>(shards: &'a Shards, service: &'a Service) -> Vec<Ranked<'a>> {
    let is_served = |s: &&ServiceShard| shards.get(s.id).is_some_and(ShardInfo::is_served);
    let served = service.shards.iter().filter(is_served).filter_map(|s| Ranked::new(shards.get(s.id)?, s));
    let mut out: Vec<Ranked<'a>> = served.collect();
    out.sort_by(|a, b| compare(a.first(), b.first()));
    out
}

/// Returns the declared services of a host, the first in precedence first. A federated service is the only one.
pub(crate) fn claimants<'a>(shards: &'a Shards, services: &'a [Service]) -> Vec<&'a Service> {
    if let Some(federated) = services.iter().find(|s| s.is_join && s.view.is_some()) {
        return vec![federated];
    }
    let mut out: Vec<&Service> = services.iter().filter(|s| s.view.is_some()).collect();
    if out.len() > 1 {
        out.sort_by(|a, b| {
            compare(first_key(shards, a), first_key(shards, b)).then_with(|| a.key.cmp(&b.key))
        });
    }
    out
}

fn first_key<'a>(shards: &'a Shards, service: &'a Service) -> Option<PrecedenceKey<'a>> {
    ranked(shards, service).first().and_then(Ranked::first)
}

/// Returns the object of a service's first declaration.
pub(crate) fn first_object(service: &Service) -> Option<ObjectRef> {
    service.view.as_ref()?.first().map(|d| d.declaration.source.reference())
}
