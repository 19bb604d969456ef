//! Answers of the scripted Consul: paths, long polls and headers of the real one.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::fake::{Alteration, Datacenter, Seen, Service, State};

type Shared = Arc<Mutex<State>>;

pub(crate) fn router(state: Shared, moved: watch::Sender<u64>) -> Router {
    Router::new().fallback(move |request: Request| {
        let (state, moved) = (Arc::clone(&state), moved.clone());
        async move {
            state.lock().at_once += 1;
            let most = state.lock().at_once;
            let before = state.lock().most_at_once;
            state.lock().most_at_once = before.max(most);
            let _guard = Guard(Arc::clone(&state));
            let (parts, body) = request.into_parts();
            if parts.uri.path() == "/v1/acl/login" {
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                return log_in(&state, &parts, &serde_json::from_slice(&body).unwrap());
            }
            answer(&state, &moved, &parts).await
        }
    })
}

struct Guard(Shared);
impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().at_once -= 1;
    }
}

struct Poll(Shared);
impl Drop for Poll {
    fn drop(&mut self) {
        self.0.lock().polls -= 1;
    }
}

/// Answer before any rule changes it.
struct Plain {
    index: u64,
    body: Value,
}

async fn answer(state: &Shared, moved: &watch::Sender<u64>, request: &Parts) -> Response {
    let query = query(request.uri.query().unwrap_or_default());
    let path = decode(request.uri.path());
    let token = request.headers.get("x-consul-token").map(|value| value.to_str().unwrap().to_owned());
    state.lock().seen.push(Seen { path: path.clone(), query: query.clone(), token: token.clone() });
    let mut waits = moved.subscribe();
    let index: Option<u64> = query.get("index").map(|index| index.parse().unwrap());
    let until = Instant::now() + wait(query.get("wait"));
    let mut poll = None;
    loop {
        waits.borrow_and_update();
        if let Some(refused) = refused(state, &path, &query, token.as_deref()) {
            return refused;
        }
        let query = in_peer(&path, &query);
        let plain = plain(&state.lock(), &path, &query, token.as_deref());
        let Some(plain) = plain else {
            let of_token = path == "/v1/acl/token/self";
            return if of_token { status(403, "ACL not found") } else { status(404, "no such path") };
        };
        let late = Instant::now() >= until;
        if index.is_none_or(|index| plain.index != index) || late {
            return altered(state, &path, &query, plain).await;
        }
        if poll.is_none() {
            let mut locked = state.lock();
            if locked.most_polls.is_some_and(|most| locked.polls >= most) {
                return status(429, "Your IP is issuing too many concurrent connections");
            }
            locked.polls += 1;
            locked.most_seen = locked.most_seen.max(locked.polls);
            drop(locked);
            poll = Some(Poll(Arc::clone(state)));
        }
        let _ = timeout_at(until, waits.changed()).await;
    }
}

/// Takes the peer from the path of a peering; its services name it in the query.
fn in_peer(path: &str, query: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut query = query.clone();
    if let Some(peer) = path.strip_prefix("/v1/peering/") {
        query.insert("peer".to_owned(), peer.to_owned());
    }
    query
}

/// Logs in like the auth method `kube`: a known bearer token gets a new token.
fn log_in(state: &Shared, request: &Parts, body: &Value) -> Response {
    let mut state = state.lock();
    let token = request.headers.get("x-consul-token").map(|value| value.to_str().unwrap().to_owned());
    state.seen.push(Seen { path: request.uri.path().to_owned(), query: BTreeMap::new(), token });
    let is_known = body["AuthMethod"] == "kube" && body["BearerToken"] == state.logins.bearer.as_str();
    if request.method != "POST" || !is_known {
        state.logins.refused += 1;
        return status(403, "rpc error: lookup failed: Unauthorized");
    }
    let secret = format!("given-{}", state.logins.given.len());
    state.logins.given.push(secret.clone());
    state.tokens.insert(secret.clone(), "from a login");
    let mut reply = json!({"AccessorID": secret, "SecretID": secret, "AuthMethod": "kube"});
    if state.logins.seconds > 0 {
        let now = jiff::Timestamp::now();
        reply["ExpirationTime"] = json!(now + jiff::SignedDuration::from_secs(state.logins.seconds));
    }
    let body = Body::from(reply.to_string());
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}

fn dc<'a>(state: &'a State, query: &BTreeMap<String, String>) -> Option<&'a Datacenter> {
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let mut name = query.get("dc").unwrap_or(&state.own).clone();
    if query.contains_key("ns") {
        name = format!("{name}/{}/{}", of("partition"), of("ns"));
    }
    if query.contains_key("peer") {
        name = format!("{name}@{}", of("peer"));
    }
    state.datacenters.get(&name)
}

fn is_list(path: &str) -> bool {
    ["/v1/namespaces", "/v1/partitions", "/v1/peerings"].contains(&path)
}

fn refused(
    state: &Shared,
    path: &str,
    query: &BTreeMap<String, String>,
    token: Option<&str>,
) -> Option<Response> {
    let state = state.lock();
    let known = state.tokens.is_empty() || token.is_some_and(|token| state.tokens.contains_key(token));
    if !known {
        return Some(status(403, "ACL not found"));
    }
    if query.contains_key("ns") || query.contains_key("peer") || is_list(path) {
        return None;
    }
    let Some(dc) = dc(&state, query) else { return Some(status(500, "No path to datacenter")) };
    if path == "/v1/catalog/datacenters"
        && query.is_empty()
        && state.datacenters.values().any(|dc| dc.fails.is_none())
    {
        return None;
    }
    dc.fails.map(|(code, body)| status(code, body))
}

fn plain(state: &State, path: &str, query: &BTreeMap<String, String>, token: Option<&str>) -> Option<Plain> {
    if is_list(path) {
        let names = state.lists.get(path.strip_prefix("/v1/")?)?;
        return Some(Plain { index: 1, body: names.iter().map(|name| json!({"Name": name})).collect() });
    }
    let Some(dc) = dc(state, query) else {
        // a missing part still answers for services, with an empty list
        return path.starts_with("/v1/health/service/").then(|| Plain { index: 1, body: json!([]) });
    };
    if path.starts_with("/v1/peering/") {
        let names: Vec<&String> = dc.services.keys().collect();
        return Some(Plain { index: 1, body: json!({"StreamStatus": {"ImportedServices": names}}) });
    }
    let is_whole = |name: &&String| !name.contains(['/', '@']);
    let mut names: Vec<&String> = state.datacenters.keys().filter(is_whole).collect();
    names.sort_by_key(|name| **name != state.own);
    let plain = match path {
        "/v1/catalog/datacenters" => Plain { index: 1, body: json!(names) },
        "/v1/agent/self" => Plain { index: 1, body: json!({"Config": {"Datacenter": state.own}}) },
        "/v1/acl/token/self" => {
            let who = match token {
                Some(token) => state.tokens.get(token).copied().unwrap_or("unlisted"),
                None => state.agent_token?,
            };
            Plain { index: 1, body: json!({"AccessorID": who, "Policies": []}) }
        }
        "/v1/catalog/services" if dc.nameless => return None,
        "/v1/catalog/services" => {
            let filter = query.get("filter").map(String::as_str);
            let named = dc.services.iter().filter(|(_, service)| has_kind(service, filter));
            let names = named.map(|(name, _)| (name.clone(), json!([])));
            let consul = [("consul".to_owned(), json!([]))];
            Plain { index: dc.catalog, body: Value::Object(names.chain(consul).collect()) }
        }
        "/v1/health/state/any" => {
            let checks = dc.services.values().flat_map(|service| &service.entries);
            let checks = checks.flat_map(|entry| entry["Checks"].as_array().unwrap().clone());
            Plain { index: dc.checks, body: Value::Array(checks.collect()) }
        }
        _ => {
            let name = path.strip_prefix("/v1/health/service/")?;
            match dc.services.get(name) {
                Some(service) => {
                    let mut entries = service.entries.clone();
                    if state.shuffled {
                        entries.reverse();
                    }
                    Plain { index: service.index, body: Value::Array(entries) }
                }
                None => Plain { index: dc.extinction, body: json!([]) },
            }
        }
    };
    Some(plain)
}

async fn altered(state: &Shared, path: &str, query: &BTreeMap<String, String>, plain: Plain) -> Response {
    let alterations = take_rules(state, path, query);
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    headers.insert("content-type", "application/json".to_owned());
    headers.insert("x-consul-index", plain.index.to_string());
    headers.insert("x-consul-knownleader", "true".to_owned());
    headers.insert("x-consul-lastcontact", "0".to_owned());
    let mut body = serde_json::to_vec(&plain.body).unwrap();
    let mut truncated = false;
    let mut slow = Duration::ZERO;
    for alteration in alterations {
        match alteration {
            Alteration::Status(code, text) => return status(code, text),
            Alteration::Header(name, "") => drop(headers.remove(name)),
            Alteration::Header(name, value) => drop(headers.insert(name, value.to_owned())),
            Alteration::NoIndex => drop(headers.remove("x-consul-index")),
            Alteration::Index(index) => drop(headers.insert("x-consul-index", index.to_string())),
            Alteration::Body(kind, other) => {
                headers.insert("content-type", kind.to_owned());
                body = other;
            }
            Alteration::Truncated => truncated = true,
            Alteration::Slow(by) => slow = by,
            Alteration::Redirect(to) => {
                return Response::builder().status(302).header("location", to).body(Body::empty()).unwrap();
            }
            Alteration::Bomb(bomb) => {
                headers.insert("content-encoding", "gzip".to_owned());
                body = bomb.to_vec();
            }
        }
    }
    let mut response = Response::builder().status(200);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    if truncated {
        response = response.header("content-length", body.len());
        body.truncate(body.len() / 2);
        let chunks = [Ok(Bytes::from(body)), Err(std::io::Error::other("broken off"))];
        return response.body(Body::from_stream(stream::iter(chunks))).unwrap();
    }
    tokio::time::sleep(slow).await;
    response.body(Body::from(body)).unwrap()
}

fn take_rules(state: &Shared, path: &str, query: &BTreeMap<String, String>) -> Vec<Alteration> {
    let mut state = state.lock();
    let leader = query.contains_key("leader");
    let mut out = Vec::new();
    for rule in &mut state.rules {
        if rule.left > 0 && !(leader && rule.spares_leader) && path.starts_with(rule.path) {
            rule.left -= 1;
            out.push(rule.alteration.clone());
        }
    }
    out
}

/// Returns a JSON list with this many megabytes of spaces, compressed. The test creates it once, because compressing
/// takes as long as a request may. One gzip member is repeated, which keeps even that short.
pub(crate) fn bomb(megabytes: usize) -> Bytes {
    let member = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let spaces = member(&[b' '; 1 << 20]).repeat(megabytes);
    [member(b"["), spaces, member(b"]")].concat().into()
}

fn status(code: u16, body: &'static str) -> Response {
    Response::builder().status(code).body(Body::from(body)).unwrap()
}

/// Returns whether a filter of the list of names selects a service by the kind of its instances.
fn has_kind(service: &Service, filter: Option<&str>) -> bool {
    let Some(filter) = filter else { return true };
    let kind = filter.strip_prefix("ServiceKind == \"").unwrap().strip_suffix('"').unwrap();
    service.entries.iter().any(|entry| entry["Service"]["Kind"].as_str().unwrap_or_default() == kind)
}

fn wait(text: Option<&String>) -> Duration {
    let Some(text) = text else { return Duration::ZERO };
    let wait = Duration::from_millis(text.strip_suffix("ms").unwrap().parse().unwrap());
    wait + wait / 16
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).unwrap()
}
