//! What an adapter's tests implement: a source that a test can script. The scenarios call it.

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
    /// Addresses of its endpoints.
    pub endpoints: BTreeSet<IpAddr>,
}

impl Service {
    /// Returns a service with endpoints at 10.`net`.0.N for each N of `hosts`.
    #[must_use]
    pub fn new(name: impl Into<String>, net: u8, hosts: impl IntoIterator<Item = u8>) -> Self {
        let endpoints = hosts.into_iter().map(|host| IpAddr::from([10, net, 0, host])).collect();
        Self { name: name.into(), endpoints }
    }
}

/// Things that a source can be made to do, besides holding services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// This part fails from now on; every part where `None`.
    Fail(Option<usize>),
    /// Everything can be read again.
    Recover,
    /// This service's object becomes invalid.
    Corrupt(String),
    /// The adapter must list everything again.
    Relist,
    /// The next N lists of each part end before they are complete.
    Tear(u32),
    /// The next list of each part is empty although the part holds services.
    LieEmpty,
    /// Every change is delivered twice from now on.
    Duplicate,
    /// Changes are delivered in an unfavourable order from now on.
    Reorder,
    /// This [`Refusable`] of the harness cannot be read any more, for lack of permission or because it keeps
    /// failing. The rest of the source can still be read.
    Refuse(&'static str, WithheldCause),
    /// Discovery no longer lists part 1, but the source still serves it.
    Shorten,
    /// Part 1 has ended, with proof from the source.
    End,
    /// Part 1 is removed from the configuration: factories built from now on do not follow it.
    Narrow,
    /// Another source with another identity serves from now on. It holds what the script sets next.
    Swap,
}

/// Something that can be refused while the rest of a source can be read: a part, or one kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusable {
    /// Name that the script uses.
    pub name: &'static str,
    /// Whether facts are derived from it, and so become stale while it is refused. A kind that only adds to
    /// facts of other kinds shows in the status, and every collection stays live.
    pub goes_stale: bool,
    /// The change that is still visible.
    pub rest: Rest,
}

/// A change that is visible while something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// A service of part 0 is removed.
    Removal,
    /// An endpoint of a service of this part is removed.
    Endpoint(usize),
}

impl Refusable {
    /// Part 1; no service of part 0 depends on it.
    pub const PART: Self = Self { name: "part 1", goes_stale: true, rest: Rest::Removal };
}

/// Things that some sources cannot do.
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
    /// [`Act::LieEmpty`]; an adapter that trusts an empty list must decline it with a reason.
    LieEmpty,
    /// [`Act::Duplicate`].
    Duplicate,
    /// [`Act::Reorder`].
    Reorder,
    /// Two parts (scopes) that fail independently.
    Parts,
    /// [`Act::Refuse`] with this cause.
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

/// Creates sources.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Returns a new, empty source.
    async fn script(&self) -> Box<dyn Script>;
    /// Returns the reason why the source cannot do this, `None` if it can.
    fn declines(&self, _: Ability) -> Option<&'static str> {
        None
    }
    /// Returns everything that can be refused separately. Never empty.
    fn refusables(&self) -> &[Refusable] {
        &[Refusable::PART]
    }
    /// Returns how long the adapter takes to notice a change of the source, its own retries included. A
    /// scenario waits this long before it asserts that nothing happened.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
    /// Returns true if a run is cheap enough to be ended after each of its updates; otherwise scenarios choose
    /// some of them.
    fn is_quick(&self) -> bool {
        true
    }
}

/// One source.
#[async_trait]
pub trait Script: Send + Sync {
    /// Returns the adapter's factory for this source.
    fn factory(&self) -> Arc<dyn RegistryFactory>;
    /// Returns the host under which the adapter declares a service of this name.
    fn host(&self, service: &str) -> Hostname;
    /// Returns the hosts and addresses that a new source always holds, besides the services that it is given.
    fn always(&self) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
        BTreeMap::new()
    }
    /// Makes a part (0 or 1) hold this service.
    async fn set(&mut self, part: usize, service: &Service);
    /// Removes the service of this name from every part.
    async fn delete(&mut self, service: &str);
    /// Performs an act. Never called with an act that the harness declines.
    async fn act(&mut self, act: Act);
}
