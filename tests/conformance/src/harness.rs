//! What an adapter's tests provide: a source that does what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tributary_model::{Hostname, WithheldCause};
use tributary_registry_api::RegistryFactory;

/// A service with one TCP port and healthy endpoints, as a source may hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name: a DNS label.
    pub name: String,
    /// Where it stands.
    pub endpoints: BTreeSet<IpAddr>,
}

impl Service {
    /// A service at 10.`net`.0.1 and so on.
    #[must_use]
    pub fn new(name: impl Into<String>, net: u8, hosts: impl IntoIterator<Item = u8>) -> Self {
        let endpoints = hosts.into_iter().map(|host| IpAddr::from([10, net, 0, host])).collect();
        Self { name: name.into(), endpoints }
    }
}

/// What a source may be told to do, beside holding services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// This part cannot be read any more; all of them where `None`.
    Fail(Option<usize>),
    /// Everything can be read again.
    Recover,
    /// This service's object turns into something that is not valid.
    Corrupt(String),
    /// The adapter must list everything again.
    Relist,
    /// The next so many lists of each part break off before their end.
    Tear(u32),
    /// The next list of each part says that there is nothing, which is not true.
    LieEmpty,
    /// From now on everything is said twice.
    Duplicate,
    /// From now on things are said in an unhelpful order.
    Reorder,
    /// This one of the harness's [`Refusable`]s cannot be read any more, because the credential may not or because it
    /// keeps failing. Everything else of the source can be.
    Refuse(&'static str, WithheldCause),
    /// The source does not list part 1 any more when the adapter discovers its parts, but still answers for it.
    Shorten,
    /// Part 1 has ended, and the source proves it.
    End,
    /// Part 1 is configured away: factories that are asked for from now on do not follow it.
    Narrow,
    /// Another source with another identity answers from now on, which holds what the script is given next.
    Swap,
}

/// What can be refused while the rest of a source can be read: a part, or one kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusable {
    /// Its name, for the script.
    pub name: &'static str,
    /// Whether facts are made of it, so that they are stale while it is refused. What only adds to facts of other
    /// kinds is shown in the status, and every collection stays live.
    pub goes_stale: bool,
    /// What is still seen to change.
    pub rest: Rest,
}

/// A change that is seen although something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// A service of part 0 goes.
    Removal,
    /// An endpoint of a service of this part goes.
    Endpoint(usize),
}

impl Refusable {
    /// Part 1, on which no service of part 0 rests.
    pub const PART: Self = Self { name: "part 1", goes_stale: true, rest: Rest::Removal };
}

/// What a source may be unable to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// [`Act::Fail`] and [`Act::Recover`].
    Fail,
    /// [`Act::Corrupt`].
    Corrupt,
    /// [`Act::Relist`].
    Relist,
    /// [`Act::Tear`].
    Tear,
    /// [`Act::LieEmpty`]; an adapter that believes an empty list must decline it and say why.
    LieEmpty,
    /// [`Act::Duplicate`].
    Duplicate,
    /// [`Act::Reorder`].
    Reorder,
    /// Having two parts (scopes) that fail apart.
    Parts,
    /// [`Act::Refuse`], for this cause.
    Refuse(WithheldCause),
    /// [`Act::Shorten`].
    Shorten,
    /// [`Act::End`].
    End,
    /// [`Act::Narrow`].
    Narrow,
    /// [`Act::Swap`].
    Swap,
}

/// Makes sources.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A fresh source that holds nothing.
    async fn script(&self) -> Box<dyn Script>;
    /// Why the source cannot do this; `None` where it can.
    fn declines(&self, _: Ability) -> Option<&'static str> {
        None
    }
    /// All that can be refused apart from the rest. Never empty.
    fn refusables(&self) -> &[Refusable] {
        &[Refusable::PART]
    }
    /// How long the adapter takes to hear of what the source does, its own retries included: so long is waited before
    /// something is said not to have happened. What must happen is waited for as long as it takes.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
    /// Whether a run is cheap enough to be ended after each of its updates; else some of them are chosen.
    fn is_quick(&self) -> bool {
        true
    }
}

/// One source.
#[async_trait]
pub trait Script: Send + Sync {
    /// The adapter's factory for this source.
    fn factory(&self) -> Arc<dyn RegistryFactory>;
    /// The host under which the adapter declares a service of this name.
    fn host(&self, service: &str) -> Hostname;
    /// What a fresh source holds beside the services that it is given, and goes on holding: hosts and their addresses.
    fn always(&self) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
        BTreeMap::new()
    }
    /// The part (0 or 1) holds this service now.
    async fn set(&mut self, part: usize, service: &Service);
    /// No part holds a service of this name any more.
    async fn delete(&mut self, service: &str);
    /// Does something else. Never asked for what the harness has declined.
    async fn act(&mut self, act: Act);
}
