//! Turns a request of a machine into HTTP, and decodes its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_registry_api::Reason;

use crate::answer::{Headers, RequestFailure};
use crate::client::{Client, Fault, Get, Raw};
use crate::config::ConsulConfig;
use crate::content::{CheckStates, Instances, Names};
use crate::machine::{Answer, Request, RequestTarget};
use crate::map::name::Tenancy;
use crate::watch::{Mode, key_of};
use crate::wire::{self, WireError, lists};

/// Size in bytes from which an answer is decoded on a blocking thread.
const LARGE: usize = 256 << 10;

/// Filter of the list of names: without proxies and gateways. A Consul before 1.14 ignores it.
const PLAIN: &str = "ServiceKind == \"\"";
/// Filter of the list of names: only proxies.
const PROXIES: &str = "ServiceKind == \"connect-proxy\"";
/// Maximum time that the list of proxies delays the list of names.
const PROXIES_WITHIN: Duration = Duration::from_secs(2);

/// Request settings of one scope.
#[derive(Clone)]
pub(super) struct Fetch {
    pub(super) client: Client,
    part: Arc<Tenancy>,
    /// Whether the agent must forward requests to another datacenter.
    elsewhere: bool,
    /// Whether the leader's lists no longer name the scope; then "not found" means that it has no names.
    pub(super) unlisted: bool,
    config: Arc<ConsulConfig>,
}

impl Fetch {
    pub(super) fn new(client: Client, part: Tenancy, own: &str, config: Arc<ConsulConfig>) -> Self {
        let elsewhere = !part.datacenter.eq_ignore_ascii_case(own);
        Self { client, part: Arc::new(part), elsewhere, unlisted: false, config }
    }

    pub(super) async fn run(self, request: Request) -> Result<Answer, Fault> {
        let Request { target, server, mode, timeout, skip, .. } = request;
        if let RequestTarget::Service(name) = &target
            && matches!(&**name, "" | "." | "..")
        {
            let reason = Reason::new(format!(
                "a URL cannot contain the service name {name:?}; register it under another name"
            ));
            return Err(Fault { failure: RequestFailure::Config, reason });
        }
        let path = self.path(&target);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let get = Get { path: &path, query: self.query(&target, mode), timeout, skip };
        let raw = match self.client.get(server, &get).await {
            Err(fault)
                if self.unlisted
                    && target == RequestTarget::Names
                    && fault.failure == RequestFailure::Unsupported =>
            {
                let headers = Headers { index: Some(1), known_leader: Some(true), ..Headers::default() };
                return Ok(Answer::Names(headers, Some(Names::of_nothing())));
            }
            Err(fault) if target == RequestTarget::Token && self.is_anonymous(&fault) => {
                return Ok(Answer::Token(None));
            }
            other => other?,
        };
        let proxies = self.proxies(&target, server, &raw).await;
        let large = raw.body.as_ref().is_some_and(|body| body.len() > LARGE);
        let (fetch, named) = (self.clone(), target);
        let decoded = if large {
            let decoding = tokio::task::spawn_blocking(move || fetch.decode(&named, &raw));
            decoding.await.unwrap_or_else(|_| Err(lost()))
        } else {
            fetch.decode(&named, &raw)
        };
        let decoded = decoded.map(|answer| with_proxies(answer, proxies));
        decoded.map_err(|error| Fault {
            failure: failure(&error),
            reason: Reason::new(format!("{}: {error}", self.client.address(server))),
        })
    }

    /// Reads the names of proxies after a new list of names; they only add a condition to services. The server waits
    /// until it has what the list of names showed. `None` if they cannot be read.
    async fn proxies(
        &self,
        target: &RequestTarget,
        server: usize,
        names: &Raw,
    ) -> Option<BTreeMap<String, Vec<String>>> {
        let index =
            names.headers.index.filter(|_| *target == RequestTarget::Names && self.part.peer.is_empty())?;
        names.body.as_ref()?;
        let mode = match index.checked_sub(1).filter(|before| *before > 0) {
            Some(index) => Mode::Blocking { index, wait: PROXIES_WITHIN / 2 },
            None => Mode::Any,
        };
        let mut query = self.query(target, mode);
        query.retain(|(name, _)| *name != "filter");
        query.push(("filter", PROXIES.to_owned()));
        let path = ["catalog", "services"];
        let get = Get { path: &path, query, timeout: PROXIES_WITHIN, skip: None };
        let raw = self.client.get(server, &get).await.ok()?;
        wire::services(raw.content_type.as_deref(), &raw.body?).ok()
    }

    /// Returns whether a token check failed because requests carry no token and the agent has no default one.
    fn is_anonymous(&self, fault: &Fault) -> bool {
        let has_token = self.config.auth.has_token() && self.client.gives_token();
        fault.failure == RequestFailure::Auth && !has_token
    }

    fn path(&self, target: &RequestTarget) -> Vec<String> {
        let plain = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        match target {
            RequestTarget::Names if !self.part.peer.is_empty() => plain(&["peering", &self.part.peer]),
            RequestTarget::Names => plain(&["catalog", "services"]),
            RequestTarget::Checks => plain(&["health", "state", "any"]),
            RequestTarget::Token => plain(&["acl", "token", "self"]),
            RequestTarget::Service(name) => plain(&["health", "service", name]),
        }
    }

    fn query(&self, target: &RequestTarget, mode: Mode) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        if *target == RequestTarget::Token {
            return query;
        }
        let part = &self.part;
        let peer = if matches!(target, RequestTarget::Service(_)) { part.peer.as_str() } else { "" };
        let dc = if self.elsewhere { part.datacenter.as_str() } else { "" };
        for (name, value) in
            [("dc", dc), ("partition", &part.partition), ("ns", &part.namespace), ("peer", peer)]
        {
            if !value.is_empty() {
                query.push((name, value.to_owned()));
            }
        }
        if *target == RequestTarget::Names && part.peer.is_empty() {
            query.push(("filter", PLAIN.to_owned()));
        }
        match mode {
            // without a mode any server may answer: the agent's `discovery_max_stale` allows it
            Mode::Leader => query.push(("leader", String::new())),
            Mode::Any => query.push(("stale", String::new())),
            Mode::Blocking { index, wait } => {
                query.push(("stale", String::new()));
                query.push(("index", index.to_string()));
                query.push(("wait", milliseconds(wait)));
            }
        }
        query
    }

    fn decode(&self, target: &RequestTarget, raw: &Raw) -> Result<Answer, WireError> {
        let Raw { headers, content_type, body } = raw;
        let (kind, select) = (content_type.as_deref(), &self.config.select);
        let mut headers = headers.clone();
        let content = body.as_deref();
        Ok(match target {
            RequestTarget::Names if !self.part.peer.is_empty() => {
                // a peering has no index for the names that it imports
                headers.index = headers.index.or(Some(1));
                let names = content.map(|body| lists::imported(kind, body)).transpose()?;
                let listed = |names: Vec<String>| names.into_iter().map(|name| (name, Vec::new())).collect();
                Answer::Names(headers, names.map(|names| Names::new(listed(names), select)))
            }
            RequestTarget::Names => {
                let listed = content.map(|body| wire::services(kind, body)).transpose()?;
                Answer::Names(headers, listed.map(|listed| Names::new(listed, select)))
            }
            RequestTarget::Checks => {
                let checks = content.map(|body| lists::checks(kind, body)).transpose()?;
                Answer::Checks(headers, checks.map(|checks| CheckStates::new(&checks)))
            }
            RequestTarget::Service(_) => {
                let entries = content.map(|body| wire::health(kind, body)).transpose()?;
                // an agent translates only addresses of other datacenters than its own
                let direct = self.config.datacenter_addresses.contains_key(&self.part.datacenter);
                let translated = headers.translated && !direct;
                Answer::Service(headers, entries.map(|entries| Instances::new(entries, translated, select)))
            }
            RequestTarget::Token => {
                let token = lists::token_self(kind, content.unwrap_or_default())?;
                Answer::Token((token.accessor != lists::ANONYMOUS).then(|| key_of(&token)))
            }
        })
    }
}

fn with_proxies(answer: Answer, proxies: Option<BTreeMap<String, Vec<String>>>) -> Answer {
    match (answer, proxies) {
        (Answer::Names(headers, Some(names)), Some(proxies)) => {
            Answer::Names(headers, Some(names.with_sidecars(&proxies)))
        }
        (answer, _) => answer,
    }
}

fn failure(error: &WireError) -> RequestFailure {
    match error {
        WireError::TooMany { .. } => RequestFailure::TooLarge,
        WireError::NotJson(_) | WireError::Shape(_) => RequestFailure::Broken,
    }
}

fn lost() -> WireError {
    WireError::NotJson("not decoded".to_owned())
}

fn milliseconds(wait: Duration) -> String {
    format!("{}ms", wait.as_millis())
}
