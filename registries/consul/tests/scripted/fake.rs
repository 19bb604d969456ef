//! A Consul that a test scripts: datacenters with services and their checks, indexes that move as Consul's do, long
//! polls, and rules that spoil answers.

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
    /// Of the catalog, of all checks, and of the last service that vanished.
    pub(crate) catalog: u64,
    pub(crate) checks: u64,
    pub(crate) extinction: u64,
    /// Answers everything like this.
    pub(crate) fails: Option<(u16, &'static str)>,
    /// The list of its services is not found.
    pub(crate) nameless: bool,
}

/// One service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    pub(crate) index: u64,
    pub(crate) entries: Vec<Value>,
}

/// What spoils an answer.
#[derive(Debug, Clone)]
pub(crate) enum Spoil {
    /// Another status and body.
    Status(u16, &'static str),
    /// A header more, or another.
    Header(&'static str, &'static str),
    /// No index.
    NoIndex,
    /// This index.
    Index(u64),
    /// Another body of this kind.
    Body(&'static str, Vec<u8>),
    /// The body breaks off.
    Truncated,
    /// The body comes after this long.
    Slow(Duration),
    /// A redirect.
    Redirect(String),
    /// Much that is nothing in a small answer, compressed: [`serve::bomb`].
    Bomb(bytes::Bytes),
}

/// Which requests are spoilt, and how often.
pub(crate) struct Rule {
    pub(crate) path: &'static str,
    /// Whether answers of the leader itself are left alone.
    pub(crate) spares_leader: bool,
    pub(crate) left: usize,
    pub(crate) spoil: Spoil,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) token: Option<String>,
}

impl Seen {
    /// Whether the leader itself is asked. A read that names no mode is answered by any server where the agent's
    /// `discovery_max_stale` allows it.
    pub(crate) fn asks_leader(&self) -> bool {
        self.query.contains_key("leader") && self.path.starts_with("/v1/health/service")
    }
}

/// The auth method, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// Whose bearer token is taken; none takes nobody.
    pub(crate) bearer: String,
    /// For how long what is given is good; 0 for ever.
    pub(crate) seconds: i64,
    /// What was given so far.
    pub(crate) given: Vec<String>,
    /// Logins that were refused.
    pub(crate) refused: usize,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) own: String,
    /// By name; a part of one by its scope's name, `dc1/eu/shop` or `dc1@east`.
    pub(crate) datacenters: BTreeMap<String, Datacenter>,
    /// What `/v1/namespaces`, `/v1/partitions` and `/v1/peerings` list; 404 for those that are not here.
    pub(crate) lists: BTreeMap<&'static str, Vec<String>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) seen: Vec<Seen>,
    /// Tokens that are taken, with who they are; none takes everybody.
    pub(crate) tokens: BTreeMap<String, &'static str>,
    pub(crate) logins: Logins,
    pub(crate) shuffled: bool,
    pub(crate) twice: bool,
    /// Long polls at once; more are refused with 429.
    pub(crate) most_polls: Option<usize>,
    pub(crate) polls: usize,
    pub(crate) most_seen: usize,
    pub(crate) at_once: usize,
    pub(crate) most_at_once: usize,
}

/// Handles share one Consul.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) moved: watch::Sender<u64>,
    pub(crate) url: String,
    _server: Arc<tokio_util::task::AbortOnDropHandle<()>>,
}

impl Fake {
    /// With these datacenters, the first of which is the agent's own.
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
    /// Changes something; whoever waits looks again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut self.state.lock());
        self.moved.send_modify(|n| *n += 1);
        out
    }
    /// A part of a datacenter, by its scope's name, has come.
    pub(crate) fn add(&self, scope: &str) {
        let fresh = Datacenter { catalog: 10, checks: 10, extinction: 5, ..Datacenter::default() };
        self.change(|state| state.datacenters.insert(scope.to_owned(), fresh));
    }
    /// A list names these.
    pub(crate) fn list(&self, what: &'static str, names: &[&str]) {
        self.change(|state| state.lists.insert(what, names.iter().map(|name| (*name).to_owned()).collect()));
    }
    /// A datacenter has this service with these instances; with none it has no such service.
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
    /// An instance's check says something else: the catalog does not move.
    pub(crate) fn flip(&self, datacenter: &str, name: &str, at: usize, status: &str) {
        self.change(|state| {
            let dc = state.datacenters.get_mut(datacenter).unwrap();
            dc.checks = dc.catalog.max(dc.checks) + 1;
            let service = dc.services.get_mut(name).unwrap();
            service.index = dc.checks;
            service.entries[at]["Checks"][0]["Status"] = json!(status);
        });
    }
    /// Spoils the next so many answers of paths that begin like this.
    pub(crate) fn spoil(&self, path: &'static str, left: usize, spoil: Spoil) {
        self.change(|state| state.rules.push(Rule { path, spares_leader: false, left, spoil }));
    }
    /// Spoils all answers of such paths that any server may give.
    pub(crate) fn spoil_stale(&self, path: &'static str, spoil: Spoil) {
        let rule = Rule { path, spares_leader: true, left: usize::MAX, spoil };
        self.change(|state| state.rules.push(rule));
    }
    /// Only tokens that are known are taken.
    pub(crate) fn know(&self, token: &str, who: &'static str) {
        self.change(|state| {
            state.tokens.insert(token.to_owned(), who);
        });
    }
    /// No answer is spoilt any more.
    pub(crate) fn heal(&self) {
        self.change(|state| {
            state.rules.clear();
            state.datacenters.values_mut().for_each(|dc| dc.fails = None);
        });
    }
    /// Waits until so many more requests have come for a path. By the last of them whoever asks has been told what the
    /// one before it was answered.
    pub(crate) async fn until_asked(&self, path: &str, count: usize) {
        let asked = || self.state.lock().seen.iter().filter(|seen| seen.path == path).count();
        let before = asked();
        eventually(&format!("{path} is asked for again"), async || asked() >= before + count).await;
    }
    /// All that was asked for so far, and forgets it.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().seen)
    }
    /// Indexes begin anew, as after a snapshot was restored.
    pub(crate) fn restore(&self) {
        self.change(|state| {
            for dc in state.datacenters.values_mut() {
                (dc.catalog, dc.checks, dc.extinction) = (3, 3, 1);
                dc.services.values_mut().for_each(|service| service.index = 3);
            }
        });
    }
}

/// An instance at 10.0.0.`host`:80 on a node of its own, passing.
pub(crate) fn mk_entry(name: &str, ip: &str) -> Value {
    let node = format!("node-{ip}");
    json!({
        "Node": {"Node": node, "Address": "10.255.0.1", "Datacenter": "dc1"},
        "Service": {"ID": name, "Service": name, "Address": ip, "Port": 80, "Tags": null, "Meta": {}},
        "Checks": [{"Node": node, "CheckID": format!("service:{name}"), "Status": "passing", "Output": "fine", "ServiceName": name}],
    })
}

/// Instances at 10.`net`.0.x.
pub(crate) fn mk_entries(name: &str, net: u8, hosts: impl IntoIterator<Item = u8>) -> Vec<Value> {
    hosts.into_iter().map(|host| mk_entry(name, &format!("10.{net}.0.{host}"))).collect()
}
