//! Admin surface: access checks and the content of the documents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tributary_app::admin::access::Peer;
use tributary_app::admin::backend::{Answer, Explained, NotThere, Summary, Versions};
use tributary_app::admin::metrics::{self, Sample};
use tributary_app::admin::routes;
use tributary_app::admin::{Access, AdminBackend, Check, ROUTES, Readiness, Shared, Surface, router};
use tributary_app::document::ResourceItem;
use tributary_app::document::state::{EndItem, Part, StateDocument};
use tributary_app::document::{
    CertificateItem, ClientItem, ClusterItem, ClusterSourceItem, Filter, Findings, HeldItem, LeavePlan, Page,
    PolicyItem, ReceiptItem, RegistryItem, TriedCluster,
};
use tributary_app::ops::diff::Differences;
use tributary_app::ops::resources::{ResourceRequest, Resources};
use tributary_app::ops::routes::Routes;
use tributary_app::ops::timeline::Timeline;
use tributary_model::{Catalog, Mono, RegistryName};
use tributary_xds::answers::ResourceType;

/// Server with a secret in every answer, so that a leak shows.
pub(crate) struct Fake {
    pub(crate) generations: watch::Sender<u64>,
    pub(crate) versions: watch::Sender<Versions>,
    pub(crate) timeline: Timeline,
    ready: bool,
}

pub(crate) const SECRET: &str = "canary";

#[async_trait]
impl AdminBackend for Fake {
    fn now(&self) -> Mono {
        Mono(0)
    }
    fn name(&self) -> &str {
        SECRET
    }
    fn catalog(&self) -> Arc<Catalog> {
        Arc::new(Catalog { generation: *self.generations.borrow(), complete: true, ..Catalog::default() })
    }
    fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }
    fn readiness(&self) -> Readiness {
        Readiness {
            ready: self.ready,
            checks: vec![Check::new(format!("registry {SECRET}"), self.ready, SECRET)],
        }
    }
    async fn explained_readiness(&self) -> Readiness {
        let mut readiness = self.readiness();
        readiness.checks.push(Check::new(format!("run {SECRET}"), false, SECRET));
        readiness
    }
    async fn is_alive(&self) -> bool {
        true
    }
    fn has_binding_client(&self) -> bool {
        false
    }
    fn changes(&self) -> watch::Receiver<Versions> {
        let mut receiver = self.versions.subscribe();
        receiver.mark_changed();
        receiver
    }
    async fn summary(&self) -> Summary {
        let registries = self.registries().await;
        Summary { registries, held: 1, clients: [("SYNCED", 2)].into(), ..Summary::default() }
    }
    fn timeline(&self) -> Timeline {
        self.timeline.clone()
    }
    async fn clients(&self, filter: Filter) -> Page<ClientItem> {
        let all = [SECRET, "b"].into_iter().filter(|id| filter.finds([*id]));
        Page::of(all, &filter, |id| ClientItem { id: id.into(), ..ClientItem::default() })
    }
    async fn policies(&self, filter: Filter) -> Page<PolicyItem> {
        Page::of([SECRET], &filter, |name| PolicyItem { name: name.into(), ..PolicyItem::default() })
    }
    async fn registries(&self) -> Vec<RegistryItem> {
        // a hostile text, which the answers must bound
        let reason = "<b>\u{1b}é".repeat(2_000_000);
        vec![RegistryItem { name: SECRET.into(), reason, ..RegistryItem::default() }]
    }
    fn receipts(&self) -> Vec<ReceiptItem> {
        let plan = LeavePlan { services: 1, endpoints: 2, emptied: 1, hosts: vec![SECRET.into()] };
        vec![ReceiptItem {
            cluster: SECRET.into(),
            registry: SECRET.into(),
            object: SECRET.into(),
            generation: 3,
            began: jiff::Timestamp::UNIX_EPOCH,
            plan,
            removed: jiff::Timestamp::UNIX_EPOCH,
        }]
    }
    async fn clusters(&self) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>) {
        let item = |name: &str| ClusterItem { name: name.into(), ..ClusterItem::default() };
        let source = ClusterSourceItem { name: SECRET.into(), ..ClusterSourceItem::default() };
        (vec![item("b"), item(SECRET)], vec![source])
    }
    async fn try_clusters(&self, _: Option<&str>) -> Option<Vec<TriedCluster>> {
        let findings = Findings::default();
        Some(vec![TriedCluster { cluster: SECRET.into(), source: SECRET.into(), server: None, findings }])
    }
    async fn held(&self) -> Vec<HeldItem> {
        vec![HeldItem { id: "held".into(), what: SECRET.into(), ..HeldItem::default() }]
    }
    async fn release(&self, id: &str) -> Option<HeldItem> {
        self.held().await.into_iter().find(|item| item.id == id)
    }
    async fn state(&self) -> StateDocument {
        StateDocument { directory: SECRET.into(), ..StateDocument::of(None) }
    }
    async fn end(&self, part: Part, _: bool) -> Result<Vec<EndItem>, NotThere> {
        let item =
            EndItem { registry: part.registry.to_string(), scope: SECRET.into(), ..EndItem::default() };
        let is_known = part.registry.as_str() == "east";
        is_known.then(|| vec![item]).ok_or_else(|| NotThere("not found".to_owned()))
    }
    async fn accept(&self, registry: RegistryName) -> Result<(), NotThere> {
        let is_known = registry.as_str() == "east";
        is_known.then_some(()).ok_or_else(|| NotThere("not found".to_owned()))
    }
    async fn explain(&self, endpoint: &str, _: (Option<&str>, Option<&str>), _: Option<&str>) -> Explained {
        if endpoint == "10.0.0.1" {
            let items = vec![json!({"endpoint": endpoint, "service": SECRET})];
            Ok(Answer { items, ..Answer::default() })
        } else {
            Err("no endpoint".into())
        }
    }
    async fn why_not(&self, _: &str, _: Option<&str>, client: &str) -> Explained {
        Err(format!("no client {client}"))
    }
    async fn resources(&self, request: ResourceRequest) -> Resources {
        let item = ResourceItem { name: SECRET.into(), ..ResourceItem::default() };
        let answer = Answer { items: vec![item], more: 3, notes: Vec::new() };
        if request.client == "b" { Ok(answer) } else { Err(format!("no client {}", request.client)) }
    }
    async fn routes(&self, _: &str, _: &str) -> Routes {
        Ok(Answer::default())
    }
    async fn diff(&self, a: &str, _: &str, _: Option<ResourceType>) -> Differences {
        Err(format!("no client {a}"))
    }
    fn certificates(&self) -> Vec<CertificateItem> {
        vec![CertificateItem { name: SECRET.into(), ..CertificateItem::default() }]
    }
    fn config(&self) -> Value {
        json!({"name": SECRET})
    }
    async fn samples(&self) -> Vec<Sample> {
        vec![Sample::new(metrics::READY, &[], 1.0)]
    }
}

pub(crate) fn mk_fake(ready: bool) -> Arc<Fake> {
    let versions = watch::Sender::new(Versions { generation: 7, clients: 2, ..Versions::default() });
    Arc::new(Fake { generations: watch::channel(7).0, versions, timeline: Timeline::default(), ready })
}

pub(crate) const HERE: &str = "127.0.0.1:9";
const AWAY: &str = "10.0.0.9:9";

async fn ask_as(
    surface: Surface,
    method: Method,
    peer: &str,
    host: &str,
    path: &str,
) -> (StatusCode, String) {
    let peer: SocketAddr = peer.parse().unwrap();
    let request = Request::builder().method(method).uri(path).header("host", host).extension(Peer(peer));
    let router = router(Shared::new(mk_fake(true), surface));
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn ask(path: &str) -> (StatusCode, String) {
    ask_as(Surface::Admin, Method::GET, HERE, "localhost:15014", path).await
}

#[tokio::test]
async fn every_route_denies_by_default() {
    for route in ROUTES {
        let guarded = route.access == Access::Loopback;
        let at = |why: &str| format!("{} {why}", route.path);
        let own = if route.changes { Method::POST } else { Method::GET };
        let all = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
        for method in all.into_iter().filter(|method| *method != own) {
            let (status, body) = ask_as(Surface::Admin, method.clone(), HERE, "localhost", route.path).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{}", at(method.as_str()));
            assert!(!body.contains(SECRET), "{}", at("leaks"));
        }
        for (peer, host) in [(AWAY, "localhost"), (HERE, "evil.example"), (AWAY, "10.0.0.1"), (HERE, "")] {
            let (status, body) = ask_as(Surface::Admin, own.clone(), peer, host, route.path).await;
            assert_eq!(status == StatusCode::FORBIDDEN, guarded, "{}", at(&format!("from {peer} as {host}")));
            assert!(!guarded || !body.contains(SECRET), "{}", at("leaks"));
        }
        let (status, body) = ask_as(Surface::Health, own, HERE, "localhost", route.path).await;
        assert_eq!(
            status == StatusCode::NOT_FOUND,
            !matches!(route.access, Access::Anyone | Access::Scrape),
            "{}",
            at("on the health listener")
        );
        assert!(!body.contains(SECRET), "{}", at("leaks on the health listener"));
        for near in [
            format!("{}/", route.path),
            format!("/x/..{}", route.path),
            format!("/{}", route.path),
            route.path.to_uppercase(),
        ] {
            // a route may be near another one, such as `/console` near `/console/`
            if routes::find(&near).is_some() {
                continue;
            }
            let (status, _) = ask(&near).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{near}");
        }
    }
    assert!(
        ROUTES.iter().filter(|route| matches!(route.access, Access::Anyone | Access::Scrape)).count() == 3,
        "a route was opened to anyone"
    );
}

#[tokio::test]
async fn request_without_a_known_peer_is_refused() {
    let request = Request::builder().uri("/debug/clients").header("host", "localhost").body(Body::empty());
    let response =
        router(Shared::new(mk_fake(true), Surface::Admin)).oneshot(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn requests_from_other_sites_are_refused() {
    for (name, value) in
        [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        let request = Request::builder().uri("/debug/config").header("host", "localhost").header(name, value);
        let request = request.extension(Peer(HERE.parse().unwrap())).body(Body::empty()).unwrap();
        let response = router(Shared::new(mk_fake(true), Surface::Admin)).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{name}: {value}");
    }
}

#[tokio::test]
async fn page_of_this_server_may_release_and_no_other() {
    let release = async |origin: &str| {
        let request = Request::builder().method(Method::POST).uri("/debug/guard/release?id=held");
        let request = request.header("host", "localhost:15014").header("origin", origin);
        let request = request.extension(Peer(HERE.parse().unwrap())).body(Body::empty()).unwrap();
        router(Shared::new(mk_fake(true), Surface::Admin)).oneshot(request).await.unwrap().status()
    };
    assert_eq!(release("http://localhost:15014").await, StatusCode::OK);
    for origin in ["null", "http://localhost:8080", "http://evil.example", "https://localhost:15014"] {
        assert_eq!(release(origin).await, StatusCode::FORBIDDEN, "{origin}");
    }
}

#[tokio::test]
async fn health_off_this_machine_names_nothing() {
    let (_, body) = ask_as(Surface::Health, Method::GET, AWAY, "x", "/readyz?verbose").await;
    assert_eq!(body, "[+] registry\nok\n");
    let (_, body) = ask("/readyz?verbose").await;
    assert_eq!(body, "[+] registry canary: canary\n[-] run canary: canary\nok\n");
}

#[tokio::test]
async fn readiness_sets_the_http_status() {
    let request = || Request::builder().uri("/readyz").body(Body::empty()).unwrap();
    for (ready, status) in [(true, StatusCode::OK), (false, StatusCode::SERVICE_UNAVAILABLE)] {
        let router = router(Shared::new(mk_fake(ready), Surface::Health));
        assert_eq!(router.oneshot(request()).await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn lists_have_one_shape_and_a_bound() {
    for (path, kind) in [
        ("/debug/services", "ServiceList"),
        ("/debug/endpoints", "EndpointList"),
        ("/debug/clients", "ClientList"),
        ("/debug/registries", "RegistryList"),
        ("/debug/timeline", "Timeline"),
        ("/debug/guard", "HeldList"),
        ("/debug/explain?endpoint=10.0.0.1", "ExplainList"),
    ] {
        let (status, body) = ask(path).await;
        let list: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &list["kind"]), (StatusCode::OK, &json!(kind)), "{path}");
        assert_eq!(list["apiVersion"], "tributary.dev/v1");
        assert_eq!(list["metadata"]["observedFrom"], json!([SECRET]));
        assert_eq!(list["metadata"]["resourceVersion"], "7");
        assert!(list["items"].is_array() && list["metadata"]["asOf"].is_string(), "{path}");
    }
    let (_, body) = ask("/debug/clients?limit=1").await;
    let list: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((list["items"].as_array().unwrap().len(), &list["metadata"]["remaining"]), (1, &json!(1)));
}

#[tokio::test]
async fn text_of_ten_megabytes_is_cut_in_documents() {
    for path in ["/debug/registries", "/debug/overview", "/debug/map"] {
        let (status, body) = ask(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        assert!(body.len() < 40_000, "{path} has {} bytes", body.len());
        let document: Value = serde_json::from_str(&body).unwrap();
        assert!(path == "/debug/map" || body.contains("…\""), "{path}: {body}");
        let reason =
            document["registries"][0]["reason"].as_str().or_else(|| document["items"][0]["reason"].as_str());
        assert!(reason.is_none_or(|reason| reason.starts_with("<b>\u{1b}é<b>")), "{path}: {reason:?}");
    }
}

#[tokio::test]
async fn release_returns_the_released_removal() {
    let release = |id: &str| {
        let path = format!("/debug/guard/release?id={id}");
        async move { ask_as(Surface::Admin, Method::POST, HERE, "localhost", &path).await }
    };
    let (status, body) = release("held").await;
    let list: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &list["items"][0]["what"]), (StatusCode::OK, &json!(SECRET)), "{body}");
    assert_eq!(release("other").await.0, StatusCode::NOT_FOUND);
    assert_eq!(release(&"x".repeat(3000)).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn bad_requests_differ_from_unknown_names() {
    let long = "x".repeat(3000);
    for (path, status) in [
        ("/debug/services?nmae=x".to_owned(), StatusCode::BAD_REQUEST),
        ("/debug/services?limit=-1".to_owned(), StatusCode::BAD_REQUEST),
        (format!("/debug/services?name={long}"), StatusCode::BAD_REQUEST),
        ("/debug/explain".to_owned(), StatusCode::BAD_REQUEST),
        (format!("/debug/why-not?host=a&client={long}"), StatusCode::BAD_REQUEST),
        ("/debug/explain?endpoint=10.0.0.2".to_owned(), StatusCode::NOT_FOUND),
        ("/debug/why-not?host=a&client=b".to_owned(), StatusCode::NOT_FOUND),
    ] {
        let (got, body) = ask(&path).await;
        assert_eq!(got, status, "{path}: {body}");
        assert!(body.contains("\"kind\":\"Problem\""), "{path}: {body}");
    }
}

/// Returns a request that waits for a generation of a server that `stop` stops.
async fn wait_for_generation(
    fake: &Arc<Fake>,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<Result<Response<Body>, std::convert::Infallible>> {
    let router = router(Shared::new(Arc::<Fake>::clone(fake), Surface::Admin).until(stop));
    let request = Request::builder().uri("/debug/services?after=7").header("host", "localhost");
    let request = request.extension(Peer(HERE.parse().unwrap())).body(Body::empty()).unwrap();
    let waiting = tokio::spawn(router.oneshot(request));
    while fake.generations.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    waiting
}

#[tokio::test]
async fn request_after_a_generation_waits_for_the_next() {
    let fake = mk_fake(true);
    let waiting = wait_for_generation(&fake, CancellationToken::new()).await;
    fake.generations.send_replace(8);
    let body = to_bytes(waiting.await.unwrap().unwrap().into_body(), 1 << 20).await.unwrap();
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(list["metadata"]["resourceVersion"], "8");
}

#[tokio::test]
async fn request_that_waits_is_answered_when_the_server_stops() {
    let (fake, stop) = (mk_fake(true), CancellationToken::new());
    let waiting = wait_for_generation(&fake, stop.clone()).await;
    stop.cancel();
    let answer = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert!(
        answer.is_ok_and(|answer| answer.unwrap().unwrap().status().is_success()),
        "it holds the shutdown up"
    );
}

#[tokio::test]
async fn page_and_documents_have_policies_of_their_own() {
    let policy = async |surface: Surface, path: &str| {
        let request =
            Request::builder().uri(path).header("host", "localhost").extension(Peer(HERE.parse().unwrap()));
        let response = router(Shared::new(mk_fake(true), surface))
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        response.headers()["content-security-policy"].to_str().unwrap().to_owned()
    };
    for path in ["/", "/console", "/console/", "/console/app.js", "/console/page.css"] {
        let found = policy(Surface::Admin, path).await;
        assert!(
            found.contains("script-src 'self'") && found.contains("require-trusted-types-for 'script'"),
            "{path}: {found}"
        );
        assert_eq!(
            policy(Surface::Health, path).await,
            "default-src 'none'",
            "{path} on the health listener"
        );
    }
    for path in ["/debug/config", "/debug", "/livez", "/console/absent.js", "/console/..%2fCargo.toml"] {
        assert_eq!(policy(Surface::Admin, path).await, "default-src 'none'", "{path}");
    }
}

#[tokio::test]
async fn console_without_its_slash_leads_to_the_page() {
    for surface in [Surface::Admin, Surface::Remote] {
        let request = Request::builder().uri("/console").header("host", "localhost");
        let request = request.extension(Peer(HERE.parse().unwrap())).body(Body::empty()).unwrap();
        let response = router(Shared::new(mk_fake(true), surface)).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT, "{surface:?}");
        assert_eq!(response.headers()["location"], "console/", "relative to any place");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
    let access = |path: &str| routes::find(path).unwrap().access;
    assert_eq!(access("/console"), access("/console/"), "of one right");
}
