//! Watch of one kind in one cluster.
//!
//! A pure machine decides on requests and events; a thin loop around it performs the requests. Lists are streamed where
//! the server supports it and read in pages elsewhere. The watch keeps no object, only a hash of each name with a hash
//! of its version, so that the cost of a repeated list depends on what changed.

mod api_failure;
mod audit;
mod head;
mod health;
mod machine;
mod protocol;
pub(crate) mod send;
mod version_table;
mod watch_loop;
mod wire;

use std::marker::PhantomData;
use std::time::Duration;

pub use api_failure::ApiFailure;
pub(crate) use api_failure::causes;

use tributary_registry_api::{BackoffPolicy, SplitMix};

use crate::event::{Event, Projection};
use crate::identity::ClusterIdentity;
use crate::resource::Resource;
use watch_loop::WatchLoop;

/// Intervals, time limits and page size of a watch; shortened in tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Interval between small authenticated lists beside a running watch, and between checks for an absent or
    /// forbidden kind.
    pub probe: Duration,
    /// A watch without an event or a bookmark for this long is not live: it is opened again.
    pub live: Duration,
    /// Mean interval between audits of the delivered versions; randomized.
    pub audit: Duration,
    /// Longest wait for the first byte of an answer, and for progress of a list.
    pub answer: Duration,
    /// Least time between the two equal answers that prove that a kind with held objects is not installed.
    pub uninstalled: Duration,
    /// Mean duration of a watch that is requested from the server; randomized.
    pub session: Duration,
    /// Backoff after failures.
    pub backoff: BackoffPolicy,
    /// Largest number of objects in a page of a list.
    pub page: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(30),
            live: Duration::from_secs(150),
            audit: Duration::from_secs(600),
            answer: Duration::from_secs(30),
            uninstalled: Duration::from_secs(30),
            session: Duration::from_secs(420),
            backoff: BackoffPolicy { cap: Duration::from_secs(30), ..BackoffPolicy::default() },
            page: 100,
        }
    }
}

/// Selection of objects to watch.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchSpec {
    /// Kind of object.
    pub resource: Resource,
    /// Restricts the watch to this namespace.
    pub namespace: Option<String>,
    /// Label selector, in the server's syntax.
    pub label_selector: Option<String>,
    /// Field selector, in the server's syntax.
    pub field_selector: Option<String>,
    /// Requests only the metadata of objects. A server that cannot leave the rest out sends whole objects.
    pub metadata_only: bool,
    /// Intervals and time limits.
    pub timing: Timing,
}

impl WatchSpec {
    /// Selects all objects of a kind.
    #[must_use]
    pub fn all(resource: Resource, timing: Timing) -> Self {
        Self {
            resource,
            namespace: None,
            label_selector: None,
            field_selector: None,
            metadata_only: false,
            timing,
        }
    }
}

/// Watch of one kind: lists, watches, and retries forever.
pub struct Watch<P> {
    watch_loop: WatchLoop,
    projection: PhantomData<fn() -> P>,
}

impl<P: Projection> Watch<P> {
    /// Creates a watch that starts when its first event is awaited. `random` spreads pauses and audits.
    #[must_use]
    pub fn new(client: kube::Client, spec: WatchSpec, random: SplitMix) -> Self {
        Self { watch_loop: WatchLoop::new(client, spec, random), projection: PhantomData }
    }
    /// Requires that this cluster is confirmed before a list, watch or audit is used.
    #[must_use]
    pub fn of_cluster(mut self, cluster: ClusterIdentity) -> Self {
        self.watch_loop.set_cluster(cluster);
        self
    }
    /// Returns the selection.
    #[must_use]
    pub const fn spec(&self) -> &WatchSpec {
        &self.watch_loop.spec
    }
    /// Marks that objects of the kind are held from earlier runs, so that a single answer does not prove that the kind is
    /// not installed.
    pub const fn hold(&mut self) {
        self.watch_loop.hold();
    }
    /// Lists again: every list that begins with an event of this call or of a later one began after the call. A pause after a failure
    /// lasts as long as before.
    pub fn list_again(&mut self) -> Vec<Event<P>> {
        self.watch_loop.list_again()
    }
    /// Returns the next events in order; waits for at least one. Never fails and never ends. Cancel-safe: a dropped
    /// call loses no event.
    pub async fn next(&mut self) -> Vec<Event<P>> {
        self.watch_loop.next().await
    }
}
