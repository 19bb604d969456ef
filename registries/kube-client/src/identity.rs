//! Which cluster answers: the UID of namespace `kube-system`, confirmed before anything that was read counts.
//!
//! Owned by one run and shared by its watches. An address and a credential may outlive a cluster: a different cluster,
//! with other objects and other versions, can answer in its place. Each watch therefore asks here after the server has
//! answered it and before it takes the answer. Callers that wait at the same time share one request; none takes the answer to a
//! request that began before it called. The first identity is pinned. Guarantees that nothing passes once another identity
//! was seen, nor while a known identity cannot be confirmed, except where the right to read it is missing.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tributary_model::Fingerprint;

use crate::watch::{ApiFailure, send};

const SYSTEM: &str = "kube-system";
const TARGET: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";
/// A server that has not answered within this is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

type Flight = Shared<BoxFuture<'static, Result<Fingerprint, ApiFailure>>>;

/// What is known of the cluster that answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Found {
    /// It has not answered yet.
    #[default]
    Unasked,
    /// It answered that its identity cannot be read, or has none.
    Unreadable,
    /// Its identity, pinned for this run.
    Is(Fingerprint),
    /// Another cluster answers in its place.
    Replaced {
        /// The pinned identity.
        was: Fingerprint,
        /// The identity of the other cluster.
        now: Fingerprint,
    },
}

/// The identity of one run's cluster. Clones share it.
#[derive(Clone)]
pub struct ClusterIdentity {
    client: kube::Client,
    flights: Arc<Mutex<Flights>>,
    found: Arc<watch::Sender<Found>>,
}

/// The request under way, by its number.
#[derive(Default)]
struct Flights {
    begun: u64,
    open: Option<(u64, Flight)>,
}

impl ClusterIdentity {
    /// Nothing is known, and nothing is asked before [`ClusterIdentity::confirm`].
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, flights: Arc::default(), found: Arc::new(watch::Sender::default()) }
    }
    /// What is known.
    #[must_use]
    pub fn found(&self) -> Found {
        self.found.borrow().clone()
    }
    /// The pinned identity.
    #[must_use]
    pub fn known(&self) -> Option<Fingerprint> {
        match self.found() {
            Found::Is(identity) | Found::Replaced { was: identity, .. } => Some(identity),
            Found::Unasked | Found::Unreadable => None,
        }
    }
    /// Waits until another cluster answers; returns what to report of that.
    pub async fn replaced(&self) -> String {
        let mut found = self.found.subscribe();
        let seen = found.wait_for(|found| matches!(found, Found::Replaced { .. })).await;
        let Some(why) = seen.ok().map(|found| describe(&found)) else { return std::future::pending().await };
        why
    }
    /// Confirms that the pinned cluster still answers, by a request that begins after this call. Fails where another
    /// does, and where that cannot be read now.
    pub async fn confirm(&self) -> Result<(), ApiFailure> {
        let answer = self.ask().await;
        let mut judged = Ok(());
        self.found.send_if_modified(|found| {
            let before = found.clone();
            judged = judge(found, answer);
            *found != before
        });
        judged
    }

    async fn ask(&self) -> Result<Fingerprint, ApiFailure> {
        let before = self.flights.lock().begun;
        loop {
            let (number, flight) = self.flight();
            let answer = flight.await;
            drop(self.flights.lock().open.take_if(|(open, _)| *open == number));
            if number > before {
                return answer;
            }
        }
    }
    /// The request under way, or a new one.
    fn flight(&self) -> (u64, Flight) {
        let mut flights = self.flights.lock();
        if let Some(open) = &flights.open {
            return open.clone();
        }
        flights.begun += 1;
        let open = (flights.begun, read(self.client.clone()).boxed().shared());
        flights.open = Some(open.clone());
        open
    }
}

impl std::fmt::Debug for ClusterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClusterIdentity({:?})", self.found())
    }
}

/// What an answer comes to.
fn judge(found: &mut Found, answer: Result<Fingerprint, ApiFailure>) -> Result<(), ApiFailure> {
    match (&*found, answer) {
        (Found::Replaced { .. }, _) => return Err(ApiFailure::Replaced(describe(found))),
        (Found::Is(was), Ok(now)) if *was == now => {}
        (Found::Is(was), Ok(now)) => {
            *found = Found::Replaced { was: was.clone(), now };
            return Err(ApiFailure::Replaced(describe(found)));
        }
        (Found::Unasked | Found::Unreadable, Ok(now)) => *found = Found::Is(now),
        (Found::Is(_), Err(ApiFailure::Forbidden(_))) => {}
        (Found::Unasked | Found::Unreadable, Err(why)) if is_refusal(&why) => *found = Found::Unreadable,
        (_, Err(why)) => return Err(unconfirmed(why)),
    }
    Ok(())
}

/// Whether the server answers, and not with the namespace; asking again may bring the same for good.
const fn is_refusal(why: &ApiFailure) -> bool {
    matches!(
        why,
        ApiFailure::Forbidden(_)
            | ApiFailure::NotFound(_)
            | ApiFailure::Invalid(..)
            | ApiFailure::Server(..)
            | ApiFailure::Garbled(_)
    )
}

/// A failure of the request that waits for the confirmation: nothing is known of its own kind.
fn unconfirmed(why: ApiFailure) -> ApiFailure {
    match why {
        ApiFailure::Unauthorized(_) | ApiFailure::TooMany(..) => why,
        why => ApiFailure::Unreachable(format!("the cluster's identity cannot be confirmed: {why}")),
    }
}

fn describe(found: &Found) -> String {
    match found {
        Found::Replaced { was, now } => {
            format!("the cluster's identity is {now}, not {was} as before; another cluster answers")
        }
        other => format!("{other:?}"),
    }
}

#[derive(Deserialize)]
struct Namespaces {
    #[serde(default)]
    items: Vec<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
}

/// Asks for a list of one: the right to list namespaces is what is granted.
async fn read(client: kube::Client) -> Result<Fingerprint, ApiFailure> {
    let answer = send::fetch(client, send::get(TARGET, send::NAMES_ONLY));
    let late = |_| ApiFailure::Unreachable(format!("nothing came for {} s", PATIENCE.as_secs()));
    let body = tokio::time::timeout(PATIENCE, answer).await.map_err(late)??;
    let garbled = |why: &dyn std::fmt::Display| ApiFailure::Garbled(format!("namespace {SYSTEM}: {why}"));
    let Namespaces { items } = serde_json::from_slice(&body).map_err(|error| garbled(&error))?;
    let system = items.into_iter().find(|namespace| namespace.metadata.name == SYSTEM);
    let system = system.ok_or_else(|| ApiFailure::NotFound(format!("there is no namespace {SYSTEM}")))?;
    Fingerprint::new(system.metadata.uid).map_err(|error| garbled(&error))
}

#[cfg(test)]
mod tests;
