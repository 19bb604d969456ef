//! API server of one cluster and the network before it.
//!
//! A [`Wire`] is the client side of one connection: it carries requests of one credential to the scripted server, and does to them
//! what the network and the server do at that time. The runner sets the state of the [`Site`]; the wires of all processes share it.

mod body;
mod planted;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};
use tributary_kube_client::Connection;
use tributary_scripted_api::{ApiServer, Kind};

use crate::bugs::Bug;
use crate::dice::Dice;

/// State of the network before a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// Requests are answered.
    #[default]
    Up,
    /// Nothing passes, without an error: requests wait, streams are silent.
    Frozen,
    /// Connections are refused and broken.
    Down,
    /// Many answers are errors, cut off or late.
    Flaky,
}

/// What a credential may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// Whether the server refuses the credential.
    pub revoked: bool,
    /// Kinds that it may not read, by plural name.
    pub denied: BTreeSet<String>,
}

/// API server with its network.
#[derive(Debug)]
pub struct Site {
    /// Name of the cluster.
    pub name: String,
    /// The server.
    pub server: ApiServer,
    state: Mutex<State>,
    /// Wakes the wires at each change of the link, in the order in which they wait. The receivers of a watch channel wake in random order.
    changes: Notify,
    /// Number of frozen sites, for a planted bug.
    frozen: FrozenSites,
    bug: Option<Bug>,
}

/// Number of sites whose network is frozen; all sites of a world share it.
pub type FrozenSites = Arc<watch::Sender<usize>>;

#[derive(Debug)]
struct State {
    link: Link,
    /// Since when the network has been up.
    up: Option<Instant>,
    grants: BTreeMap<String, Grant>,
    dice: Dice,
    /// Number of requests.
    requests: u64,
    /// Number of times that all connections were broken.
    breaks: u64,
    /// Time at which a successful answer about a kind last passed, by plural name.
    delivered: BTreeMap<String, Instant>,
    /// First answer about the identity, for a planted bug.
    identity: Option<Vec<u8>>,
    /// Credential of the last connection.
    token: Option<String>,
    /// Kinds whose watched version expired, for a planted bug.
    reset: BTreeSet<String>,
}

impl Site {
    /// Creates the server of a cluster.
    #[must_use]
    pub fn new(
        name: &str,
        kinds: &[Kind],
        dice: Dice,
        (frozen, bug): (FrozenSites, Option<Bug>),
    ) -> Arc<Self> {
        let state = State {
            link: Link::Up,
            up: Some(Instant::now()),
            grants: BTreeMap::new(),
            dice,
            requests: 0,
            breaks: 0,
            delivered: BTreeMap::new(),
            identity: None,
            token: None,
            reset: BTreeSet::new(),
        };
        let (server, state) = (ApiServer::new(kinds), Mutex::new(state));
        Arc::new(Self { name: name.to_owned(), server, state, changes: Notify::new(), frozen, bug })
    }
    /// Opens a connection with a credential; it dials at its first request.
    #[must_use]
    pub fn connect(self: &Arc<Self>, token: &str) -> Connection {
        // another cluster's claim may lead here
        if token.starts_with(&format!("{}-", self.name)) {
            self.state.lock().token = Some(token.to_owned());
        }
        let wire = Wire { site: Arc::clone(self), token: token.into() };
        let client = kube::Client::new(wire, "default");
        Connection::over(client, "a simulated credential", format!("https://{}.test", self.name))
    }
    /// Sets the state of the network.
    pub fn set_link(&self, link: Link) {
        let mut state = self.state.lock();
        let (was, is) = (state.link == Link::Frozen, link == Link::Frozen);
        self.frozen.send_modify(|number| *number = *number + usize::from(is) - usize::from(was));
        state.link = link;
        state.up = if link == Link::Up { state.up.or_else(|| Some(Instant::now())) } else { None };
        drop(state);
        self.changes.notify_waiters();
    }
    /// Returns the state of the network.
    #[must_use]
    pub fn link(&self) -> Link {
        self.state.lock().link
    }
    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state.lock().requests
    }
    /// Returns since when the network has been up.
    #[must_use]
    pub fn up_since(&self) -> Option<Instant> {
        self.state.lock().up
    }
    /// Breaks all connections.
    pub fn disconnect(&self) {
        self.state.lock().breaks += 1;
        self.changes.notify_waiters();
        self.server.disconnect();
    }
    /// Returns the credential of the last connection.
    #[must_use]
    pub fn last_token(&self) -> Option<String> {
        self.state.lock().token.clone()
    }
    /// Changes what a credential may do. An unknown one is refused.
    pub fn grant(&self, token: &str, grant: Grant) {
        self.state.lock().grants.insert(token.to_owned(), grant);
    }
    /// Refuses every credential of now.
    pub fn revoke_all(&self) {
        self.state.lock().grants.values_mut().for_each(|grant| grant.revoked = true);
    }
    /// Returns what a credential may do.
    #[must_use]
    pub fn granted(&self, token: &str) -> Option<Grant> {
        self.state.lock().grants.get(token).cloned()
    }
    /// Returns the time at which a successful answer about one of these kinds last passed.
    #[must_use]
    pub fn delivered(&self, plurals: &[&str]) -> Option<Instant> {
        let state = self.state.lock();
        plurals.iter().filter_map(|plural| state.delivered.get(*plural).copied()).max()
    }
    /// Forgets what passed: a new process has received nothing.
    pub fn forget_delivered(&self) {
        self.state.lock().delivered.clear();
    }
    fn note(&self, plural: &str) {
        self.state.lock().delivered.insert(plural.to_owned(), Instant::now());
    }
    fn breaks(&self) -> u64 {
        self.state.lock().breaks
    }
    /// Waits while nothing passes; fails if connections are refused.
    async fn pass(&self) -> Result<(), BoxError> {
        if self.bug == Some(Bug::FrozenBlocksOthers) {
            // the sender is a part of `self`
            let _ = self.frozen.subscribe().wait_for(|number| *number == 0).await;
        }
        loop {
            let mut change = pin!(self.changes.notified());
            change.as_mut().enable();
            match self.link() {
                Link::Up | Link::Flaky => return Ok(()),
                Link::Down => return Err("connection refused".into()),
                Link::Frozen => change.await,
            }
        }
    }
}

/// What becomes of one request.
enum Fate {
    Answer,
    Status(u16),
    Reset,
    Cut(usize),
}

/// Client side of a connection.
#[derive(Clone)]
struct Wire {
    site: Arc<Site>,
    token: Arc<str>,
}

impl Wire {
    async fn answer(self, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        let plural = plural(request.uri().path());
        self.site.state.lock().requests += 1;
        let (delay, fate) = self.fate();
        tokio::time::sleep(delay).await;
        self.site.pass().await?;
        if let Some(response) = planted::before(&self.site, &plural, &request) {
            return Ok(response);
        }
        if let Some(code) = self.refusal(&plural) {
            return Ok(planted::refused(&self.site, &plural, &request, code));
        }
        let breaks = self.site.breaks();
        let cut = match fate {
            Fate::Status(code) => return Ok(planted::refused(&self.site, &plural, &request, code)),
            Fate::Reset => return Err("connection reset".into()),
            Fate::Answer => None,
            Fate::Cut(at) => Some(at),
        };
        let is_probe = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("limit=1&") || query.ends_with("limit=1"));
        let identity = is_identity(&request);
        let response = self.site.server.router().oneshot(request).await?;
        let response = planted::after(&self.site, &plural, identity, response).await;
        self.site.pass().await?;
        let counts = response.status().is_success() && !is_probe && !identity;
        if counts {
            self.site.note(&plural);
        }
        let (parts, inner) = response.into_parts();
        let noted = counts.then_some(plural);
        Ok(Response::from_parts(parts, body::over(self.site, breaks, cut, noted, inner)))
    }
    fn fate(&self) -> (Duration, Fate) {
        let mut state = self.site.state.lock();
        let is_flaky = state.link == Link::Flaky;
        let delay = state.dice.millis(if is_flaky { 4_000 } else { 20 });
        if !is_flaky {
            return (delay, Fate::Answer);
        }
        let fate = match state.dice.below(10) {
            0 => Fate::Status(500),
            1 => Fate::Status(429),
            2 => Fate::Status(503),
            3 => Fate::Reset,
            4 | 5 => Fate::Cut(state.dice.below(3_000)),
            _ => Fate::Answer,
        };
        (delay, fate)
    }
    fn refusal(&self, plural: &str) -> Option<u16> {
        let state = self.site.state.lock();
        match state.grants.get(&*self.token) {
            None => Some(401),
            Some(grant) if grant.revoked => Some(401),
            Some(grant) if grant.denied.contains(plural) => Some(403),
            Some(_) => None,
        }
    }
}

impl Service<Request<kube::client::Body>> for Wire {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

/// Returns the plural name of the kind that a path is about; empty for discovery.
fn plural(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let name = match rest {
        ["namespaces", _, plural, ..] => plural,
        [plural, ..] => plural,
        [] => "",
    };
    name.to_owned()
}

fn is_identity(request: &Request<kube::client::Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("kube-system"))
}

fn json_of(code: u16, value: &serde_json::Value) -> Response<Body> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(value.to_string())).expect("a response")
}

fn status(code: u16) -> Response<Body> {
    json_of(code, &json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "simulated"}))
}
