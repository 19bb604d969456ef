//! `/debug/events`: server-sent events, one for each change of what the documents show. The access check precedes the handler.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backend::Versions;
use super::debug::busy;
use super::{Shared, Surface};
use crate::document::timestamp;

/// Longest time of a stream on the remote admin listener. Its client then proves itself again, so that a stream outlives a token, or
/// a right, by no more than this.
const REMOTE: Duration = Duration::from_secs(300);
/// Interval of comments, which show that the connection is open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Data of an event.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeData {
    /// Generation of the catalog.
    generation: u64,
    /// Time of the event.
    at: String,
    /// Number of connected clients.
    clients: u64,
    /// Number of held removals.
    held: u64,
    /// Whether a registry or a cluster changed since the last event.
    registries_changed: bool,
    /// Whether a client changed since the last event: it came or left, or what it was sent or acknowledged.
    clients_changed: bool,
    /// Number of the last entry of the timeline.
    timeline: u64,
}

/// Changes from now on, the current versions first.
pub async fn events(State(shared): State<Shared>) -> Response {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else { return busy() };
    let follower = Follower {
        versions: shared.inside.changes(),
        sent: None,
        stop: shared.stop.clone(),
        until: (shared.surface == Surface::Remote).then(|| Instant::now() + REMOTE),
        _permit: permit,
    };
    let events = futures::stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// One stream.
struct Follower {
    versions: watch::Receiver<Versions>,
    sent: Option<Versions>,
    stop: CancellationToken,
    until: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    /// Returns the next event; `None` when the server stops, or the stream has lasted long enough.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = at(self.until) => return None,
                changed = self.versions.changed() => changed.ok()?,
            }
            let now = *self.versions.borrow_and_update();
            if self.sent == Some(now) {
                continue;
            }
            let data = data(self.sent.replace(now), now);
            return Event::default().event("change").json_data(data).ok();
        }
    }
}

/// Waits until a time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn data(before: Option<Versions>, now: Versions) -> ChangeData {
    let differs = |of: fn(&Versions) -> u64| before.is_none_or(|before| of(&before) != of(&now));
    ChangeData {
        generation: now.generation,
        at: timestamp(Timestamp::now()),
        clients: now.clients,
        held: now.held,
        registries_changed: differs(|versions| versions.registries),
        clients_changed: differs(|versions| versions.clients_changes) || differs(|versions| versions.clients),
        timeline: now.timeline,
    }
}
