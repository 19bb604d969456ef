//! The binary with the kind `listing`: its configuration, and a service of the listing from the source to the
//! admin surface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: an error here is a failed test")]

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

const BINARY: &str = env!("CARGO_BIN_EXE_tributary-listing");
const EXAMPLE: &str = include_str!("../tributary.yaml");
const PATIENCE: Duration = Duration::from_secs(30);

/// Body of the one answer that the listing gives.
type Body = Arc<Mutex<String>>;

async fn listing(ip: &str) -> (Body, String) {
    let body = Body::new(Mutex::new(answer(ip)));
    let answer = |State(body): State<Body>| async move { body.lock().clone() };
    let routes = Router::new().route("/namespaces/shop/services", get(answer)).with_state(Arc::clone(&body));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (body, base)
}

fn answer(ip: &str) -> String {
    format!(
        r#"{{"services":[{{"name":"pay","port":80,"protocol":"http","instances":[{{"ip":"{ip}","port":8080}}]}}]}}"#
    )
}

async fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Runs a command until its output contains the text.
async fn until(args: &[&str], wanted: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let output = text(&run(args).await);
        if output.contains(wanted) {
            return output;
        }
        assert!(Instant::now() < end, "{args:?} has no {wanted}:\n{output}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn write_config(folder: &TempDir, text: &str) -> String {
    let path = folder.path().join("tributary.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

async fn serve(config: &str, state: &Path) -> (Child, String) {
    let admin = format!("127.0.0.1:{}", free_port().await);
    let state = state.join("state");
    let mut command = Command::new(BINARY);
    command.args(["serve", "--config", config, "--xds-listen", "127.0.0.1:0", "--admin-listen", &admin]);
    let child = command.arg("--state-dir").arg(state).kill_on_drop(true).spawn().unwrap();
    (child, format!("http://{admin}"))
}

#[tokio::test]
async fn listed_service_is_served_and_follows_its_listing() {
    let (body, base) = listing("10.0.0.1").await;
    let folder = TempDir::new().unwrap();
    let config = write_config(&folder, &EXAMPLE.replace("http://127.0.0.1:8848", &base));
    let (_server, admin) = serve(&config, folder.path()).await;
    let services = until(&["get", "services", "--server", &admin], "pay.catalog.example").await;
    assert!(services.contains("shop"), "{services}");
    let registries = until(&["get", "registries", "--server", &admin], "listing").await;
    assert!(registries.contains("catalog"), "{registries}");
    until(&["explain", "10.0.0.1", "--server", &admin], "10.0.0.1:8080  served").await;
    *body.lock() = answer("10.0.0.2");
    until(&["explain", "10.0.0.2", "--server", &admin], "10.0.0.2:8080  served").await;
    let endpoints = until(&["get", "endpoints", "--server", &admin], "10.0.0.2:8080").await;
    assert!(!endpoints.contains("10.0.0.1"), "{endpoints}");
}

#[tokio::test]
async fn registry_follows_a_reload_of_its_fields() {
    let (_, base) = listing("10.0.0.1").await;
    let folder = TempDir::new().unwrap();
    let example = EXAMPLE.replace("http://127.0.0.1:8848", &base);
    let config = write_config(&folder, &example);
    let (_server, admin) = serve(&config, folder.path()).await;
    until(&["get", "services", "--server", &admin], "pay.catalog.example").await;
    write_config(&folder, &example.replace("catalog.example", "other.example"));
    until(&["get", "services", "--server", &admin], "pay.other.example").await;
}

#[tokio::test]
async fn invalid_fields_name_their_position() {
    let folder = TempDir::new().unwrap();
    let config = |text: &str| write_config(&folder, text);
    let valid = run(&["config", "validate", &config(EXAMPLE)]).await;
    assert!(valid.status.success(), "{}", text(&valid));
    for (from, to, expected) in [
        ("interval: 1s", "interval: 0s", "tributary.yaml:9:5: registries[0].interval: must be more than 0"),
        ("interval: 1s", "every: 1s", "tributary.yaml:9:5: registries[0].every: unknown field `every`"),
        ("kind: listing", "kind: listings", "use one of file, kubernetes, consul, listing"),
    ] {
        let output = run(&["config", "validate", &config(&EXAMPLE.replace(from, to))]).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
}
