//! One kind of one cluster, followed.
//!
//! A pure machine says what to ask and what to say; a thin loop around it asks. Lists are streamed where the
//! server can, and read in pages elsewhere. No object is kept: a hash of each name with a hash of its version
//! is, so that a list that is read again costs what has changed.

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

/// How often and how long; shortened in tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Between two small authenticated lists beside a running watch, and between two looks for a kind that is
    /// absent or forbidden.
    pub probe: Duration,
    /// A watch that has brought neither event nor bookmark for this long is not live: it is opened again.
    pub live: Duration,
    /// Between two audits of what the watch has delivered; spread by chance.
    pub audit: Duration,
    /// How long the server may take to begin an answer, or to go on with a list.
    pub answer: Duration,
    /// Between the two equal answers that prove that a kind, of which objects are held, is not installed.
    pub uninstalled: Duration,
    /// How long a watch is asked to last before the server ends it; spread by chance.
    pub session: Duration,
    /// Pauses after failures.
    pub backoff: BackoffPolicy,
    /// How many objects a page of a list holds at most.
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

/// What to watch.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchSpec {
    /// The kind.
    pub resource: Resource,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels, as the server understands it.
    pub label_selector: Option<String>,
    /// Only objects with these fields, as the server understands it.
    pub field_selector: Option<String>,
    /// How often and how long.
    pub timing: Timing,
}

impl WatchSpec {
    /// All objects of a kind.
    #[must_use]
    pub fn all(resource: Resource, timing: Timing) -> Self {
        Self { resource, namespace: None, label_selector: None, field_selector: None, timing }
    }
}

/// Follows one kind: lists it, watches it, tries again for ever.
pub struct Watch<P> {
    follow: WatchLoop,
    says: PhantomData<fn() -> P>,
}

impl<P: Projection> Watch<P> {
    /// A watch that begins when it is first asked for events. `chance` spreads pauses and audits.
    #[must_use]
    pub fn new(client: kube::Client, spec: WatchSpec, chance: SplitMix) -> Self {
        Self { follow: WatchLoop::new(client, spec, chance), says: PhantomData }
    }
    /// Takes no list, no watch and no audit before this cluster is confirmed to have answered.
    #[must_use]
    pub fn of(mut self, cluster: ClusterIdentity) -> Self {
        self.follow.of(cluster);
        self
    }
    /// What it follows.
    #[must_use]
    pub const fn spec(&self) -> &WatchSpec {
        &self.follow.spec
    }
    /// Informs the watch that objects of its kind are held from earlier runs, so that one answer of the server does not
    /// prove that the kind is not installed.
    pub const fn hold(&mut self) {
        self.follow.hold();
    }
    /// The events that came, in order; waits until there is one. Never fails, never ends, and may be dropped
    /// while it waits without losing an event.
    pub async fn next(&mut self) -> Vec<Event<P>> {
        self.follow.next().await
    }
}
