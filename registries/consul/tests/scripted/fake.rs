//! Scripted Consul: datacenters with services and checks, indexes that move as Consul's do, long polls, and rules
//! that change answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::serve;
use crate::stage::eventually;

/// One datacenter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Datacenter {
    pub(crate) services: BTreeMap<String, Service>,
    /// Indexes of the catalog, of all checks, and of the last removed service.
    pub(crate) catalog: u64,
    pub(crate) checks: u64,
    pub(crate) extinction: u64,
    /// Status and body of every answer.
    pub(crate) fails: Option<(u16, &'static str)>,
    /// Whether the list of its services is not found.
    pub(crate) nameless: bool,
}

/// One service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    pub(crate) index: u64,
    pub(crate) entries: Vec<Value>,
}

/// Change of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Alteration {
    /// Replaces status and body.
    Status(u16, &'static str),
    /// Adds or replaces a header.
    Header(&'static str, &'static str),
    /// Removes the index.
    NoIndex,
    /// Replaces the index.
    Index(u64),
    /// Replaces content type and body.
    Body(&'static str, Vec<u8>),
    /// Ends the body early.
    Truncated,
    /// Delays the body.
    Slow(Duration),
    /// Redirects.
    Redirect(String),
    /// Sends a small compressed body of great size: [`serve::bomb`].
    Bomb(bytes::Bytes),
}

/// Requests whose answers are changed, and how often.
pub(crate) struct Rule {
    pub(crate) path: &'static str,
    /// Whether answers to leader reads stay unchanged.
    pub(crate) spares_leader: bool,
    pub(crate) left: usize,
    pub(crate) alteration: Alteration,
}

/// Received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) token: Option<String>,
}

impl Seen {
    /// Returns whether it is a leader read of a service. A read without a mode may be answered by any server if the
    /// agent sets `discovery_max_stale`.
    pub(crate) fn reads_leader(&self) -> bool {
        self.query.contains_key("leader") && self.path.starts_with("/v1/health/service")
    }
}

/// Auth method and its logins.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// Accepted bearer token; empty accepts none.
    pub(crate) bearer: String,
    /// Lifetime of issued tokens in seconds; 0 for no expiry.
    pub(crate) seconds: i64,
    /// Issued tokens.
    pub(crate) given: Vec<String>,
    /// Number of refused logins.
    pub(crate) refused: usize,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) own: String,
    /// Datacenters by name, and parts by the name of their scope, `dc1/eu/shop` or `dc1@east`.
    pub(crate) datacenters: BTreeMap<String, Datacenter>,
    /// Contents of `/v1/namespaces`, `/v1/partitions` and `/v1/peerings`; 404 for absent keys.
    pub(crate) lists: BTreeMap<&'static str, Vec<String>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) seen: Vec<Seen>,
    /// Accepted tokens with their identity; empty accepts all requests.
    pub(crate) tokens: BTreeMap<String, &'static str>,
    /// Identity of the agent's default token, which requests without a token use.
    pub(crate) agent_token: Option<&'static str>,
    pub(crate) logins: Logins,
    pub(crate) shuffled: bool,
    pub(crate) twice: bool,
    /// Maximum concurrent long polls; further ones get 429.
    pub(crate) most_polls: Option<usize>,
    pub(crate) polls: usize,
    pub(crate) most_seen: usize,
    pub(crate) at_once: usize,
    pub(crate) most_at_once: usize,
}

/// Handle; clones share one Consul.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) moved: watch::Sender<u64>,
    pub(crate) url: String,
    _server: Arc<tokio_util::task::AbortOnDropHandle<()>>,
}

impl Fake {
    /// Starts a Consul with these datacenters; the first is the agent's own.
    pub(crate) async fn start(datacenters: &[&str]) -> Self {
        let mut state = State { own: datacenters[0].to_owned(), ..State::default() };
        for name in datacenters {
            let fresh = Datacenter { catalog: 10, checks: 10, extinction: 5, ..Datacenter::default() };
            state.datacenters.insert((*name).to_owned(), fresh);
        }
        let state = Arc::new(Mutex::new(state));
        let moved = watch::Sender::new(0);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = serve::router(Arc::clone(&state), moved.clone());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let _server = Arc::new(tokio_util::task::AbortOnDropHandle::new(server));
        Self { state, moved, url, _server }
    }
    /// Changes the state and wakes all long polls.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut self.state.lock());
        self.moved.send_modify(|n| *n += 1);
        out
    }
    /// Adds a part of a datacenter by the name of its scope.
    pub(crate) fn add(&self, scope: &str) {
        let fresh = Datacenter { catalog: 10, checks: 10, extinction: 5, ..Datacenter::default() };
        self.change(|state| state.datacenters.insert(scope.to_owned(), fresh));
    }
    /// Replaces the contents of a list.
    pub(crate) fn list(&self, what: &'static str, names: &[&str]) {
        self.change(|state| state.lists.insert(what, names.iter().map(|name| (*name).to_owned()).collect()));
    }
    /// Replaces the instances of a service; without instances the service is removed.
    pub(crate) fn set(&self, datacenter: &str, name: &str, entries: Vec<Value>) {
        self.change(|state| {
            let twice = u64::from(state.twice);
            let dc = state.datacenters.get_mut(datacenter).unwrap();
            let index = dc.catalog.max(dc.checks) + 1 + twice;
            (dc.catalog, dc.checks) = (index, index);
            if entries.is_empty() {
                dc.services.remove(name);
                dc.extinction = index;
            } else {
                dc.services.insert(name.to_owned(), Service { index, entries });
            }
        });
    }
    /// Changes the status of an instance's check; the catalog's index does not move.
    pub(crate) fn flip(&self, datacenter: &str, name: &str, at: usize, status: &str) {
        self.change(|state| {
            let dc = state.datacenters.get_mut(datacenter).unwrap();
            dc.checks = dc.catalog.max(dc.checks) + 1;
            let service = dc.services.get_mut(name).unwrap();
            service.index = dc.checks;
            service.entries[at]["Checks"][0]["Status"] = json!(status);
        });
    }
    /// Changes the next `left` answers of paths with this prefix.
    pub(crate) fn alter(&self, path: &'static str, left: usize, alteration: Alteration) {
        self.change(|state| state.rules.push(Rule { path, spares_leader: false, left, alteration }));
    }
    /// Changes all answers of such paths that any server may give.
    pub(crate) fn alter_stale(&self, path: &'static str, alteration: Alteration) {
        let rule = Rule { path, spares_leader: true, left: usize::MAX, alteration };
        self.change(|state| state.rules.push(rule));
    }
    /// Accepts only known tokens, and adds one.
    pub(crate) fn know(&self, token: &str, who: &'static str) {
        self.change(|state| {
            state.tokens.insert(token.to_owned(), who);
        });
    }
    /// Removes all rules and failures.
    pub(crate) fn heal(&self) {
        self.change(|state| {
            state.rules.clear();
            state.datacenters.values_mut().for_each(|dc| dc.fails = None);
        });
    }
    /// Waits for `count` more requests for a path. When the last one arrives, the client has processed the answer to
    /// the one before.
    pub(crate) async fn until_requested(&self, path: &str, count: usize) {
        let requested = || self.state.lock().seen.iter().filter(|seen| seen.path == path).count();
        let before = requested();
        eventually(&format!("{path} is requested again"), async || requested() >= before + count).await;
    }
    /// Returns the requests so far, and clears them.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().seen)
    }
    /// Resets the indexes, as a restored snapshot does.
    pub(crate) fn restore(&self) {
        self.change(|state| {
            for dc in state.datacenters.values_mut() {
                (dc.catalog, dc.checks, dc.extinction) = (3, 3, 1);
                dc.services.values_mut().for_each(|service| service.index = 3);
            }
        });
    }
}

/// Creates a passing instance at this address and port 80 on its own node.
pub(crate) fn mk_entry(name: &str, ip: &str) -> Value {
    let node = format!("node-{ip}");
    json!({
        "Node": {"Node": node, "Address": "10.255.0.1", "Datacenter": "dc1"},
        "Service": {"ID": name, "Service": name, "Address": ip, "Port": 80, "Tags": null, "Meta": {}},
        "Checks": [{"Node": node, "CheckID": format!("service:{name}"), "Status": "passing", "Output": "fine", "ServiceName": name}],
    })
}

/// Creates instances at 10.`net`.0.x.
pub(crate) fn mk_entries(name: &str, net: u8, hosts: impl IntoIterator<Item = u8>) -> Vec<Value> {
    hosts.into_iter().map(|host| mk_entry(name, &format!("10.{net}.0.{host}"))).collect()
}
