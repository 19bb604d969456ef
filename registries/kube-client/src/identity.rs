//! Identity of the cluster that answers: the UID of namespace `kube-system`, confirmed before a result counts.
//!
//! One run owns it and its watches share it. An address and a credential can outlive a cluster: another cluster with
//! other objects and versions can answer at the same address. Each watch therefore confirms the identity after the server
//! answered and before it uses the answer. Concurrent callers share one request; no caller uses the result of a request
//! that began before its call. The first identity is pinned. Guarantees that no result is used after another identity
//! was seen, nor while a known identity cannot be confirmed, except where the right to read it is missing.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tributary_model::Fingerprint;

use crate::watch::{ApiFailure, send};

/// Namespace whose UID is the identity; a run lists it by name.
pub const SYSTEM: &str = "kube-system";
const TARGET: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";

type Flight = Shared<BoxFuture<'static, Result<Fingerprint, ApiFailure>>>;

/// Result of the identity checks so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Found {
    /// No request has been answered.
    #[default]
    Unknown,
    /// The server answered without a readable identity.
    Unreadable,
    /// Identity pinned for this run.
    Is(Fingerprint),
    /// Another cluster answers at the same address.
    Replaced {
        /// Pinned identity.
        was: Fingerprint,
        /// Identity of the other cluster.
        now: Fingerprint,
    },
}

/// Identity of one run's cluster. Clones share it.
#[derive(Clone)]
pub struct ClusterIdentity {
    client: kube::Client,
    flights: Arc<Mutex<Flights>>,
    found: Arc<watch::Sender<Found>>,
}

/// Request in flight, with its number.
#[derive(Default)]
struct Flights {
    begun: u64,
    open: Option<(u64, Flight)>,
}

impl ClusterIdentity {
    /// Creates an unknown identity. Sends no request before [`ClusterIdentity::confirm`].
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, flights: Arc::default(), found: Arc::new(watch::Sender::default()) }
    }
    /// Returns the current result.
    #[must_use]
    pub fn found(&self) -> Found {
        self.found.borrow().clone()
    }
    /// Returns the pinned identity.
    #[must_use]
    pub fn known(&self) -> Option<Fingerprint> {
        match self.found() {
            Found::Is(identity) | Found::Replaced { was: identity, .. } => Some(identity),
            Found::Unknown | Found::Unreadable => None,
        }
    }
    /// Waits until another cluster answers; returns the reason to report.
    pub async fn replaced(&self) -> String {
        let mut found = self.found.subscribe();
        let seen = found.wait_for(|found| matches!(found, Found::Replaced { .. })).await;
        let Some(why) = seen.ok().map(|found| describe(&found)) else { return std::future::pending().await };
        why
    }
    /// Confirms that the pinned cluster still answers, with a request that begins after this call. Fails when another
    /// cluster answers, or when the identity cannot be read now.
    pub async fn confirm(&self) -> Result<(), ApiFailure> {
        let answer = self.request().await;
        let mut judged = Ok(());
        self.found.send_if_modified(|found| {
            let before = found.clone();
            judged = judge(found, answer);
            *found != before
        });
        judged
    }

    async fn request(&self) -> Result<Fingerprint, ApiFailure> {
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
    /// Returns the request in flight, or starts one.
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

/// Applies one answer to the result so far.
fn judge(found: &mut Found, answer: Result<Fingerprint, ApiFailure>) -> Result<(), ApiFailure> {
    match (&*found, answer) {
        (Found::Replaced { .. }, _) => return Err(ApiFailure::Replaced(describe(found))),
        (Found::Is(was), Ok(now)) if *was == now => {}
        (Found::Is(was), Ok(now)) => {
            *found = Found::Replaced { was: was.clone(), now };
            return Err(ApiFailure::Replaced(describe(found)));
        }
        (Found::Unknown | Found::Unreadable, Ok(now)) => *found = Found::Is(now),
        (Found::Is(_), Err(ApiFailure::Forbidden(_))) => {}
        (Found::Unknown | Found::Unreadable, Err(why)) if is_refusal(&why) => *found = Found::Unreadable,
        (_, Err(why)) => return Err(unconfirmed(why)),
    }
    Ok(())
}

/// Whether the server answered without the namespace; a retry can bring the same answer forever.
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

/// Error of the request that awaits the confirmation; it reveals nothing about its own kind.
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

/// Lists with a field selector, because roles grant `list` on namespaces.
pub(crate) async fn read(client: kube::Client) -> Result<Fingerprint, ApiFailure> {
    let body = send::names(client, TARGET).await?;
    let garbled = |why: &dyn std::fmt::Display| ApiFailure::Garbled(format!("namespace {SYSTEM}: {why}"));
    let Namespaces { items } = serde_json::from_slice(&body).map_err(|error| garbled(&error))?;
    let system = items.into_iter().find(|namespace| namespace.metadata.name == SYSTEM);
    let system = system.ok_or_else(|| ApiFailure::NotFound(format!("there is no namespace {SYSTEM}")))?;
    Fingerprint::new(system.metadata.uid).map_err(|error| garbled(&error))
}

#[cfg(test)]
mod tests;
