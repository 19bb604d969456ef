//! Event streams of the admin surface: what wakes them, their pace and their bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tributary_app::admin::access::Peer;
use tributary_app::admin::backend::Versions;
use tributary_app::admin::remote::PeerNames;
use tributary_app::admin::{RemoteAccess, Shared, Surface, router};
use tributary_app::config::model::RemoteAdminConfig;

use crate::admin::{Fake, HERE, mk_fake};
use crate::world::{LONG, World, file_registry, mk_entry, mk_folder, put};

fn mk_shared(fake: &Arc<Fake>, stop: &CancellationToken) -> Shared {
    Shared::new(Arc::<Fake>::clone(fake), Surface::Admin).until(stop.clone())
}

/// Opens a stream; returns its status and body.
async fn open(shared: &Shared) -> (StatusCode, BodyDataStream) {
    let request = Request::builder().uri("/debug/events").header("host", "localhost");
    let request = request.extension(Peer(HERE.parse().unwrap())).body(Body::empty()).unwrap();
    let response = router(shared.clone()).oneshot(request).await.unwrap();
    (response.status(), response.into_body().into_data_stream())
}

/// Returns the data of the next event.
async fn next(stream: &mut BodyDataStream) -> Option<Value> {
    let chunk = tokio::time::timeout(LONG, stream.next()).await.expect("no event came")?;
    let text = String::from_utf8(chunk.unwrap().to_vec()).unwrap();
    let data = text.strip_prefix("event: change\ndata: ").and_then(|data| data.strip_suffix("\n\n"));
    Some(serde_json::from_str(data.unwrap_or_else(|| panic!("{text:?}"))).unwrap())
}

#[tokio::test]
async fn stream_begins_with_the_current_state_and_names_what_changed() {
    let (fake, stop) = (mk_fake(true), CancellationToken::new());
    let (_, mut stream) = open(&mk_shared(&fake, &stop)).await;
    let first = next(&mut stream).await.unwrap();
    assert_eq!((&first["generation"], &first["clients"], &first["held"]), (&7.into(), &2.into(), &0.into()));
    assert!(first["registriesChanged"] == true && first["clientsChanged"] == true, "{first}");
    let mut change = async |change: &dyn Fn(&mut Versions)| {
        fake.versions.send_modify(change);
        let event = next(&mut stream).await.unwrap();
        (event["registriesChanged"] == true, event["clientsChanged"] == true, event["timeline"].clone())
    };
    assert_eq!(change(&|versions| versions.registries += 1).await, (true, false, 0.into()));
    assert_eq!(change(&|versions| versions.clients_changes += 1).await, (false, true, 0.into()));
    // an equal value is no event: the next one is that of the timeline
    fake.versions.send_modify(|_| {});
    assert_eq!(change(&|versions| versions.timeline = 4).await, (false, false, 4.into()));
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_the_server() {
    let (fake, stop) = (mk_fake(true), CancellationToken::new());
    let shared = mk_shared(&fake, &stop);
    let mut streams = Vec::new();
    for _ in 0..Shared::MAX_STREAMS {
        let (status, mut stream) = open(&shared).await;
        assert_eq!(status, StatusCode::OK);
        next(&mut stream).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(open(&shared).await.0, StatusCode::SERVICE_UNAVAILABLE);
    streams.pop();
    let (status, mut last) = open(&shared).await;
    assert_eq!(status, StatusCode::OK, "a stream that its reader closed counts no longer");
    next(&mut last).await.unwrap();
    stop.cancel();
    assert_eq!(next(&mut last).await, None);
}

#[tokio::test(start_paused = true)]
async fn remote_stream_ends_so_that_its_client_proves_itself_again() {
    let (fake, stop) = (mk_fake(true), CancellationToken::new());
    let config =
        RemoteAdminConfig { viewers: vec!["ops.example".to_owned()], ..RemoteAdminConfig::default() };
    let access = RemoteAccess::new(&config, None);
    let shared = Shared::new(Arc::<Fake>::clone(&fake), Surface::Remote).until(stop).with_remote(access);
    let request = |names: &[&str]| {
        let names = PeerNames(names.iter().map(ToString::to_string).collect());
        Request::builder().uri("/debug/events").extension(names).body(Body::empty()).unwrap()
    };
    let refused = router(shared.clone()).oneshot(request(&["other.example"])).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let began = tokio::time::Instant::now();
    let response = router(shared).oneshot(request(&["ops.example"])).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = response.into_body().into_data_stream();
    assert!(next(&mut stream).await.is_some());
    // comments come until its end
    while stream.next().await.is_some() {}
    assert_eq!(began.elapsed().as_secs(), 300);
}

#[tokio::test]
async fn change_of_a_source_reaches_a_stream_within_its_pace() {
    let dir = mk_folder(&[("a.yaml", mk_entry("a", "a.test", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let admin = world.server.addresses().admin;
    let response = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut response = response.get(format!("http://{admin}/debug/events")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let mut read = async |wanted: &dyn Fn(&Value) -> bool| loop {
        let events: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        if let Some(event) = events.iter().find(|event| wanted(event)) {
            break (event.clone(), events.len());
        }
        let chunk = tokio::time::timeout(LONG, response.chunk()).await.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    };
    let (first, _) = read(&|_| true).await;
    let before = first["generation"].as_u64().unwrap();
    // the events follow the generations, but not each one: 40 changes in 2 seconds are at most 41 events
    let began = Instant::now();
    for at in 0..40_u8 {
        put(dir.path(), "a.yaml", &mk_entry("a", "a.test", &format!("10.0.1.{at}")));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut generations = world.server.live().handle.generation();
    generations.wait_for(|generation| *generation > before).await.unwrap();
    world.until("get endpoints", "10.0.1.39").await;
    let last = *generations.borrow_and_update();
    let (event, count) = read(&|event| event["generation"].as_u64() == Some(last)).await;
    let most = began.elapsed().as_millis() / 50 + 3;
    assert!(count as u128 <= most, "{count} events in {:?}, the last {event}", began.elapsed());
}
