//! `/debug/profile`: off unless it is set, and bounded.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use tributary_app::admin::access::Peer;
use tributary_app::admin::{Shared, Surface, router};

use crate::admin::mk_fake;

async fn get(surface: Surface, profiles: bool, query: &str) -> (StatusCode, String) {
    let shared = Shared::new(mk_fake(true), surface).with_profiles(profiles);
    let request = Request::get(format!("/debug/profile{query}"));
    let request = request.header("host", "localhost").extension(Peer(([127, 0, 0, 1], 1).into()));
    let response = router(shared).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn profiles_are_off_unless_set_and_bounded() {
    let (status, body) = get(Surface::Admin, false, "?seconds=1").await;
    assert!(status == StatusCode::FORBIDDEN && body.contains("admin.profile"), "{status} {body}");
    for query in ["?seconds=0", "?seconds=61", "?seconds=x", "?seconds=1&kind=heap"] {
        let (status, body) = get(Surface::Admin, true, query).await;
        assert!(status == StatusCode::BAD_REQUEST && body.contains("seconds"), "{query}: {status} {body}");
    }
    assert_eq!(get(Surface::Health, true, "?seconds=1").await.0, StatusCode::NOT_FOUND);
    let (status, _) = get(Surface::Remote, true, "?seconds=1").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "no operator has rights");
}
