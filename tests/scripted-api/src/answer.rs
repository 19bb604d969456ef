//! Regular answers, and the faults that a test injects.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use futures::stream;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::fault::{Answer, Verb};
use crate::patch;
use crate::query::ReceivedRequest;
use crate::server::{ApiServer, status};
use crate::store::{Kind, Name, name_of};
use crate::stream as watch;

/// Answers a request.
pub(crate) async fn respond(State(server): State<ApiServer>, request: Request<Body>) -> Response<Body> {
    let received = ReceivedRequest::read(request.method(), request.uri());
    let answer = {
        let mut state = server.0.state.lock();
        state.requests.push(received.clone());
        let fault = state.faults.iter_mut().find(|fault| fault.fits(&received));
        fault.map(|fault| {
            fault.times -= 1;
            fault.answer.clone()
        })
    };
    match answer {
        None => truth(&server, &received, request).await,
        Some(Answer::Status(code, message)) => json_of(code, &status(code, message)),
        Some(Answer::Busy(pause)) => busy(pause),
        Some(Answer::Text(text)) => text_of(200, text),
        Some(Answer::Torn(at)) => torn(truth(&server, &received, request).await, at).await,
        Some(Answer::Silence) => std::future::pending().await,
        Some(Answer::Reset) => broken(Vec::new()),
    }
}

fn text_of(code: u16, text: String) -> Response<Body> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(text)).expect("a response")
}

pub(crate) fn json_of(code: u16, value: &Value) -> Response<Body> {
    text_of(code, value.to_string())
}

fn busy(pause: Duration) -> Response<Body> {
    let mut response = json_of(429, &status(429, "too many requests"));
    response.headers_mut().insert("retry-after", pause.as_secs().to_string().parse().expect("a header"));
    response
}

fn broken(begin: Vec<u8>) -> Response<Body> {
    let parts = [Ok(bytes::Bytes::from(begin)), Err(std::io::Error::other("connection reset"))];
    Response::new(Body::from_stream(stream::iter(parts)))
}

async fn torn(response: Response<Body>, at: usize) -> Response<Body> {
    let mut body = response.into_body();
    let mut held = Vec::new();
    while held.len() < at {
        let Some(Ok(frame)) = body.frame().await else { break };
        held.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    held.truncate(at);
    broken(held)
}

async fn truth(server: &ApiServer, received: &ReceivedRequest, request: Request<Body>) -> Response<Body> {
    if let Some(found) = discovery(server, &received.path) {
        return json_of(200, &found);
    }
    if received.path.ends_with("/selfsubjectaccessreviews") {
        let body = body_of(request).await;
        return json_of(201, &patch::review(body, &server.0.state.lock().faults));
    }
    let resolved = server.0.state.lock().store.resolve(&received.path);
    let Some((kind, namespace, name)) = resolved else {
        return text_of(404, "404 page not found\n".to_owned());
    };
    match (received.verb, name) {
        (Verb::Watch, _) => watch::begin(server, received, kind, namespace),
        (Verb::Get | Verb::Probe, None) => {
            list(server, received, kind, namespace.as_deref(), names_only(&request))
        }
        (Verb::Get | Verb::Probe, Some(name)) => {
            match server.get(kind.plural, &namespace.unwrap_or_default(), &name) {
                Some(object) => json_of(200, &object),
                None => json_of(404, &status(404, "no such object")),
            }
        }
        (Verb::Write, name) => {
            let method = request.method().clone();
            let named: Option<Name> = name.map(|name| (namespace.clone().unwrap_or_default(), name));
            let body = body_of(request).await;
            patch::write(server, kind, &method, named, namespace, body)
        }
    }
}

fn names_only(request: &Request<Body>) -> bool {
    let accept = request.headers().get("accept").and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadataList"))
}

async fn body_of(request: Request<Body>) -> Value {
    let bytes = request.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

/// Answers `/apis`, `/apis/group/version` and `/api/v1`.
fn discovery(server: &ApiServer, path: &str) -> Option<Value> {
    let kinds: Vec<Kind> = server.0.state.lock().store.kinds.clone();
    if path == "/apis" {
        let group = |kind: &Kind| json!({"name": kind.group, "versions": versions(&kinds, kind.group)});
        let groups: Vec<Value> = kinds.iter().filter(|kind| !kind.group.is_empty()).map(group).collect();
        return Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}));
    }
    let here: Vec<&Kind> = kinds.iter().filter(|kind| kind.root() == path).collect();
    if here.is_empty() {
        return None;
    }
    let resources: Vec<Value> =
        here.iter().map(|kind| json!({"name": kind.plural, "kind": kind.kind})).collect();
    Some(json!({"kind": "APIResourceList", "resources": resources}))
}

fn versions(kinds: &[Kind], group: &str) -> Vec<Value> {
    kinds.iter().filter(|kind| kind.group == group).map(|kind| json!({"version": kind.version})).collect()
}

/// Returns a list or a page of it; a page starts after the name in its token.
fn list(
    server: &ApiServer,
    received: &ReceivedRequest,
    kind: Kind,
    namespace: Option<&str>,
    names_only: bool,
) -> Response<Body> {
    let state = server.0.state.lock();
    let token = received.query.get("continue").map(|token| {
        let (version, after) = token.split_once('|').expect("a token of this server");
        (version.parse::<u64>().expect("a version"), after.to_owned())
    });
    if token.as_ref().is_some_and(|(version, _)| *version < state.store.compacted) {
        return json_of(410, &status(410, "the continue token is too old"));
    }
    let version = token.as_ref().map_or(state.store.version, |(version, _)| *version);
    let after = token.map(|(_, after)| after).unwrap_or_default();
    let shown = |name: &Name| format!("{}/{}", name.0, name.1);
    let mut all = state.store.list(kind.plural, namespace);
    all.retain(|(name, object)| {
        shown(name) > after && received.selects(&name.1) && received.selects_labels(object)
    });
    let limit = received.number("limit").map_or(usize::MAX, |limit| limit as usize);
    let more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| more).map(|(name, _)| format!("{version}|{}", shown(name)));
    let items: Vec<Value> =
        all.into_iter().map(|(_, object)| if names_only { only_name(object) } else { object }).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next.unwrap_or_default()});
    json_of(200, &json!({"kind": format!("{}List", kind.kind), "metadata": metadata, "items": items}))
}

fn only_name(object: Value) -> Value {
    debug_assert!(!name_of(&object).1.is_empty(), "an object has a name");
    json!({"metadata": object["metadata"]})
}
