//! Planted bugs of readers: answers as a reader with the bug would understand them.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{Site, json_of, status};
use crate::bugs::Bug;

type KubeRequest = Request<kube::client::Body>;

/// Returns an answer that a bug gives before the server is asked.
pub(super) fn before(site: &Site, plural: &str, request: &KubeRequest) -> Option<Response<Body>> {
    let mut state = site.state.lock();
    match site.bug {
        Some(Bug::IdentityOnce) if super::is_identity(request) => {
            Some(Response::new(Body::from(state.identity.clone()?)))
        }
        Some(Bug::ResetIsEmpty) if is_list(request) => {
            state.reset.remove(plural).then(|| empty(site, request))
        }
        _ => None,
    }
}

/// Whether a request asks for every object of a kind.
fn is_list(request: &KubeRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    !query.contains("watch=true") || query.contains("sendInitialEvents=true")
}

/// Returns the answer to a refused or failed request.
pub(super) fn refused(site: &Site, plural: &str, request: &KubeRequest, code: u16) -> Response<Body> {
    let is_read_empty = match site.bug {
        Some(Bug::UnauthorizedIsEmpty) => code == 401,
        Some(Bug::WithheldIsEmpty) => code == 403,
        Some(Bug::MeshIsEmpty) => plural == "configmaps",
        Some(Bug::FailedListLeaves) => plural == "secrets" && is_list(request),
        _ => false,
    };
    let is_kind = !plural.is_empty() && request.method() == Method::GET && !super::is_identity(request);
    if is_read_empty && is_kind { empty(site, request) } else { status(code) }
}

/// Changes the answer of the server.
pub(super) async fn after(
    site: &Arc<Site>,
    plural: &str,
    is_identity: bool,
    response: Response<Body>,
) -> Response<Body> {
    match site.bug {
        Some(Bug::IdentityOnce) if is_identity => {
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map(|all| all.to_bytes().to_vec()).unwrap_or_default();
            if parts.status.is_success() {
                site.state.lock().identity.get_or_insert_with(|| bytes.clone());
            }
            Response::from_parts(parts, Body::from(bytes))
        }
        Some(Bug::LoserIsForgotten) if plural == "secrets" => without_losers(response),
        Some(Bug::ResetIsEmpty) => watched_for_reset(Arc::clone(site), plural.to_owned(), response),
        _ => response,
    }
}

/// Notes that a version expired: the next list reads as empty.
fn watched_for_reset(site: Arc<Site>, plural: String, response: Response<Body>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let noted = futures::StreamExt::map(body.into_data_stream(), move |piece| {
        if piece.as_ref().is_ok_and(|bytes| is_gone(bytes)) {
            site.state.lock().reset.insert(plural.clone());
        }
        piece
    });
    Response::from_parts(parts, Body::from_stream(noted))
}

fn is_gone(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains("\"code\":410")
}

/// Returns an empty list of now, or an empty streamed one, after which a watch continues.
fn empty(site: &Site, request: &KubeRequest) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let version = site.server.version().to_string();
    if query.contains("watch=true") {
        let end = json!({"k8s.io/initial-events-end": "true"});
        let object = json!({"kind": "List", "metadata": {"resourceVersion": version, "annotations": end}});
        let line = json!({"type": "BOOKMARK", "object": object}).to_string() + "\n";
        return Response::new(Body::from(line));
    }
    json_of(200, &json!({"kind": "List", "metadata": {"resourceVersion": version}, "items": []}))
}

/// Leaves out the Secrets that lose against another claim.
fn without_losers(response: Response<Body>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let lines = body.into_data_stream();
    let kept = futures::StreamExt::map(lines, |piece| {
        piece.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines = text.split_inclusive('\n').filter(|line| !is_loser(line));
            bytes::Bytes::from(lines.collect::<String>())
        })
    });
    Response::from_parts(parts, Body::from_stream(kept))
}

fn is_loser(line: &str) -> bool {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    let name = value["object"]["metadata"]["name"].as_str().unwrap_or_default();
    name.starts_with(crate::secrets::SECOND)
}
