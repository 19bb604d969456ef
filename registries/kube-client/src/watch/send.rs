//! Requests to the API server, and the classification of their answers.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, DATE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;

use super::WatchSpec;
use super::api_failure::ApiFailure;
use super::protocol::WatchRequest;
use super::wire::{Status, garbled};
use crate::resource::Resource;

/// Largest answer in bytes.
pub(crate) const LARGEST_BODY: usize = 256 << 20;

/// Time limit of one small request beside the watches.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest error answer in bytes.
const LARGEST_REFUSAL: usize = 64 << 10;

/// Media types of a list with names and versions only, where the server supports it.
pub(crate) const NAMES_ONLY: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";

/// Media types of a watch with the metadata of objects only, where the server supports it.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1,application/json";

/// Appends `&name=value`.
fn pair(query: &mut String, name: &str, value: &str) {
    let joint = if query.contains('?') { '&' } else { '?' };
    query.push(joint);
    query.push_str(name);
    query.push('=');
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            query.push(char::from(byte));
        } else {
            // writing to a String cannot fail
            let _ = write!(query, "%{byte:02X}");
        }
    }
}

/// Returns a target with `name=value` added to its query.
pub(crate) fn with_pair(mut target: String, name: &str, value: &str) -> String {
    pair(&mut target, name, value);
    target
}

/// Returns path and query of a request.
pub(crate) fn target(spec: &WatchSpec, request: &WatchRequest) -> String {
    let (version, limit, next) = match request {
        WatchRequest::Watch { version, .. } => (version, None, None),
        WatchRequest::Page { version, limit, next } | WatchRequest::Audit { version, limit, next } => {
            (version, Some(*limit), next.as_deref())
        }
        WatchRequest::Probe { version } => (version, Some(1), None),
        WatchRequest::Served => return "/apis".to_owned(),
    };
    let mut to = spec.resource.path(version, spec.namespace.as_deref());
    let selectors = [("labelSelector", &spec.label_selector), ("fieldSelector", &spec.field_selector)];
    for (name, selector) in selectors {
        if let Some(selector) = selector {
            pair(&mut to, name, selector);
        }
    }
    if let Some(limit) = limit {
        pair(&mut to, "limit", &limit.to_string());
    }
    if let Some(next) = next {
        pair(&mut to, "continue", next);
    }
    if let WatchRequest::Watch { from, lasting, .. } = request {
        watch_pairs(&mut to, from.as_deref(), *lasting);
    }
    to
}

fn watch_pairs(to: &mut String, from: Option<&str>, lasting: Duration) {
    pair(to, "watch", "true");
    pair(to, "allowWatchBookmarks", "true");
    pair(to, "timeoutSeconds", &lasting.as_secs().max(1).to_string());
    match from {
        Some(version) => pair(to, "resourceVersion", version),
        None => {
            pair(to, "sendInitialEvents", "true");
            pair(to, "resourceVersionMatch", "NotOlderThan");
        }
    }
}

/// Builds a request of the machine.
pub(crate) fn request(spec: &WatchSpec, request: &WatchRequest) -> Result<Request<Body>, ApiFailure> {
    get(&target(spec, request), accepted(spec, request))
}

/// Returns the media types to ask for.
const fn accepted(spec: &WatchSpec, request: &WatchRequest) -> &'static str {
    match request {
        WatchRequest::Probe { .. } | WatchRequest::Audit { .. } => NAMES_ONLY,
        WatchRequest::Page { .. } if spec.metadata_only => NAMES_ONLY,
        WatchRequest::Watch { .. } if spec.metadata_only => METADATA_ONLY,
        _ => "application/json",
    }
}

/// Builds a GET request.
pub(crate) fn get(target: &str, accept: &'static str) -> Result<Request<Body>, ApiFailure> {
    with_body(Method::GET, target, Body::empty()).map(|mut request| {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        // compression of the whole stream would delay events
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request
    })
}

/// Builds a request with a body.
pub(crate) fn with_body(method: Method, target: &str, body: Body) -> Result<Request<Body>, ApiFailure> {
    let request = Request::builder().method(method).uri(target).body(body);
    request.map_err(|error| ApiFailure::Invalid(400, format!("{target}: {error}")))
}

/// Sends a request; returns a successful response, its body still unread.
pub(crate) async fn answer(
    client: kube::Client,
    request: Result<Request<Body>, ApiFailure>,
) -> Result<Response<Body>, ApiFailure> {
    let response = client.send(request?).await.map_err(|error| ApiFailure::of_client(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let seconds = |value: &HeaderValue| value.to_str().ok()?.trim().parse().ok();
    let pause = response.headers().get(RETRY_AFTER).and_then(seconds).map(Duration::from_secs);
    let body = collect(response, LARGEST_REFUSAL).await.unwrap_or_default();
    let status_body = serde_json::from_slice::<Status>(&body).unwrap_or_default();
    Err(status_body.failure(status.as_u16(), pause))
}

/// Sends a request and reads the whole body.
pub(crate) async fn fetch(
    client: kube::Client,
    request: Result<Request<Body>, ApiFailure>,
) -> Result<Bytes, ApiFailure> {
    collect(answer(client, request).await?, LARGEST_BODY).await
}

/// Requests names and versions at a path, within [`PATIENCE`].
pub(crate) async fn names(client: kube::Client, target: &str) -> Result<Bytes, ApiFailure> {
    let late = |_| ApiFailure::Unreachable(format!("nothing came for {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, fetch(client, get(target, NAMES_ONLY))).await.map_err(late)?
}

/// Requests a path within [`PATIENCE`]; also returns the time that the server states in its answer.
pub(crate) async fn dated(client: kube::Client, target: &str) -> Result<(Bytes, Option<String>), ApiFailure> {
    let late = |_| ApiFailure::Unreachable(format!("nothing came for {} s", PATIENCE.as_secs()));
    let request = get(target, "application/json");
    let received = async {
        let response = answer(client, request).await?;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        Ok((collect(response, LARGEST_BODY).await?, date))
    };
    tokio::time::timeout(PATIENCE, received).await.map_err(late)?
}

async fn collect(response: Response<Body>, largest: usize) -> Result<Bytes, ApiFailure> {
    let mut body = response.into_body();
    let mut held = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiFailure::Torn(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if held.len() + data.len() > largest {
            return Err(ApiFailure::Garbled(format!("an answer of more than {largest} bytes")));
        }
        held.extend_from_slice(&data);
    }
    Ok(held.freeze())
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct Kinds {
    resources: Vec<KindName>,
}

#[derive(Deserialize)]
struct KindName {
    name: String,
}

/// Returns the index of the first of the resource's versions that the server serves. Only an API server answers
/// discovery, so `None` is a statement of the API server.
pub(crate) async fn served(client: kube::Client, resource: Resource) -> Result<Option<usize>, ApiFailure> {
    let root =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    if !resource.group.is_empty() {
        let body = fetch(client.clone(), get("/apis", "application/json")).await?;
        let Groups { groups } =
            serde_json::from_slice(&body).map_err(|e| garbled("the list of groups", &e))?;
        let Some(group) = groups.into_iter().find(|group| group.name == resource.group) else {
            return Ok(None);
        };
        let known = |version: &&str| group.versions.iter().any(|served| served.version == **version);
        return first_with(client, &root, &resource, known).await;
    }
    first_with(client, &root, &resource, |_| true).await
}

async fn first_with(
    client: kube::Client,
    root: &str,
    resource: &Resource,
    known: impl Fn(&&str) -> bool,
) -> Result<Option<usize>, ApiFailure> {
    for (at, version) in resource.versions.iter().enumerate().filter(|(_, version)| known(version)) {
        let body = fetch(client.clone(), get(&format!("{root}/{version}"), "application/json")).await;
        let body = match body {
            Err(ApiFailure::NotFound(_)) if !resource.group.is_empty() => continue,
            other => other?,
        };
        let Kinds { resources } =
            serde_json::from_slice(&body).map_err(|e| garbled("the list of kinds", &e))?;
        if resources.iter().any(|kind| kind.name == resource.plural) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Timing;

    const PODS: Resource = Resource {
        group: std::borrow::Cow::Borrowed(""),
        versions: &["v1"],
        plural: "pods",
        kind: "Pod",
        namespaced: true,
        optional: false,
    };

    #[test]
    fn watch_request_names_version_and_duration() {
        let mut spec = WatchSpec::all(PODS, Timing::default());
        spec.field_selector = Some("status.phase!=Failed".to_owned());
        let lasting = Duration::from_secs(300);
        let resumed = WatchRequest::Watch { version: "v1", from: Some("7".to_owned()), lasting };
        assert_eq!(
            target(&spec, &resumed),
            "/api/v1/pods?fieldSelector=status.phase%21%3DFailed&watch=true&allowWatchBookmarks=true\
             &timeoutSeconds=300&resourceVersion=7"
        );
        let streamed = target(&spec, &WatchRequest::Watch { version: "v1", from: None, lasting });
        assert!(streamed.ends_with("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
        assert!(!streamed.contains("resourceVersion="), "{streamed}");
    }

    #[test]
    fn metadata_is_requested_alone_where_nothing_else_is_read() {
        let accept = |metadata_only, ask: &WatchRequest| {
            let spec = WatchSpec { metadata_only, ..WatchSpec::all(PODS, Timing::default()) };
            request(&spec, ask).unwrap().headers()[ACCEPT].to_str().unwrap().to_owned()
        };
        let watch = WatchRequest::Watch { version: "v1", from: None, lasting: Duration::from_secs(1) };
        let page = WatchRequest::Page { version: "v1", limit: 1, next: None };
        assert!(accept(true, &watch).starts_with("application/json;as=PartialObjectMetadata;"));
        assert!(accept(true, &page).starts_with("application/json;as=PartialObjectMetadataList;"));
        assert_eq!([accept(false, &watch), accept(false, &page)], ["application/json"; 2]);
    }

    #[test]
    fn next_page_continues_the_list() {
        let mut spec = WatchSpec::all(PODS, Timing::default());
        spec.namespace = Some("shop".to_owned());
        let page = WatchRequest::Page { version: "v1", limit: 100, next: Some("a+b=".to_owned()) };
        assert_eq!(target(&spec, &page), "/api/v1/namespaces/shop/pods?limit=100&continue=a%2Bb%3D");
        assert_eq!(
            target(&spec, &WatchRequest::Probe { version: "v1" }),
            "/api/v1/namespaces/shop/pods?limit=1"
        );
    }

    #[tokio::test]
    async fn answer_beyond_its_bound_is_refused() {
        let answer = |size: usize| Response::new(Body::from(vec![b' '; size]));
        assert_eq!(collect(answer(8), 8).await.map(|all| all.len()).ok(), Some(8));
        let refused = collect(answer(9), 8).await;
        assert!(
            matches!(&refused, Err(ApiFailure::Garbled(why)) if why.contains("more than 8 bytes")),
            "{refused:?}"
        );
    }
}
