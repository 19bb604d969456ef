//! A service's shards and declarations in order of precedence, as merge and publication read them.
//!
//! Shards order by their first declaration, declarations within a shard by their own claims, a
//! host's services by their first declaration. All of it is [`PrecedenceKey::order`].

use std::cmp::Ordering;

use tributary_model::{ObjectRef, PrecedenceKey};

use crate::state::services::{Decl, Service, ServiceShard};
use crate::state::shards::{ShardInfo, Shards};

/// A shard that declares a service.
#[derive(Debug)]
pub(crate) struct Ranked<'a> {
    /// What the core keeps of it.
    pub(crate) info: &'a ShardInfo,
    /// What it says.
    pub(crate) said: &'a ServiceShard,
    /// Its declarations, the first in precedence first. Never empty.
    pub(crate) declarations: Vec<&'a Decl>,
}

impl<'a> Ranked<'a> {
    fn new(info: &'a ShardInfo, said: &'a ServiceShard) -> Option<Self> {
        let mut declarations: Vec<&Decl> = said.declarations.iter().collect();
        declarations.sort_by(|a, b| claim(info, a).order(&claim(info, b)));
        (!declarations.is_empty()).then_some(Self { info, said, declarations })
    }
    /// The claim of its first declaration.
    pub(crate) fn first(&self) -> Option<PrecedenceKey<'a>> {
        self.declarations.first().map(|d| claim(self.info, d))
    }
}

/// The claim of a declaration.
pub(crate) fn claim<'a>(info: &'a ShardInfo, decl: &'a Decl) -> PrecedenceKey<'a> {
    info.claim(decl.declaration.created, &decl.object)
}

/// The first in precedence first; nothing comes last.
pub(crate) fn compare(a: Option<PrecedenceKey<'_>>, b: Option<PrecedenceKey<'_>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.order(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// The shards that declare a service and are served, the first in precedence first.
pub(crate) fn ranked<'a>(shards: &'a Shards, service: &'a Service) -> Vec<Ranked<'a>> {
    let served = |s: &&ServiceShard| shards.get(s.id).is_some_and(ShardInfo::is_served);
    let said = service.shards.iter().filter(served).filter_map(|s| Ranked::new(shards.get(s.id)?, s));
    let mut out: Vec<Ranked<'a>> = said.collect();
    out.sort_by(|a, b| compare(a.first(), b.first()));
    out
}

/// The declared services of a host, the first in precedence first. An alias that joins others is the only one.
pub(crate) fn claimants<'a>(shards: &'a Shards, services: &'a [Service]) -> Vec<&'a Service> {
    if let Some(alias) = services.iter().find(|s| s.is_join && s.view.is_some()) {
        return vec![alias];
    }
    let mut out: Vec<&Service> = services.iter().filter(|s| s.view.is_some()).collect();
    if out.len() > 1 {
        out.sort_by(|a, b| {
            compare(first_claim(shards, a), first_claim(shards, b)).then_with(|| a.key.cmp(&b.key))
        });
    }
    out
}

fn first_claim<'a>(shards: &'a Shards, service: &'a Service) -> Option<PrecedenceKey<'a>> {
    ranked(shards, service).first().and_then(Ranked::first)
}

/// The object that a service's first declaration comes from.
pub(crate) fn first_object(service: &Service) -> Option<ObjectRef> {
    service.view.as_ref()?.first().map(|d| d.declaration.source.reference())
}
