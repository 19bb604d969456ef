//! Calls through `xds:///` with real gRPC clients: endpoints that move under load without a failed call,
//! localities ordered by distance, and failover when the nearest are removed or dead.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::grpc::Called;
use tributary_suites::{
    Backend, Entry, Files, GrpcClient, GrpcConfig, Language, ServerOptions, TestServer, eventually, moves,
};

const SOON: Duration = Duration::from_secs(20);
const HOST: &str = "echo.test";
const TARGET: &str = "echo.test:80";

fn entry(hosts: &[SocketAddr]) -> Entry {
    Entry::http(HOST, 80).protocol("GRPC").all(hosts)
}

async fn serve(entry: &Entry) -> Result<(Files, TestServer)> {
    let files = Files::new()?;
    files.put("echo.yaml", &entry.yaml())?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    Ok((files, server))
}

async fn moves_under_load(language: Language, turns: usize) -> Result<()> {
    let first = Backend::start("first").await?;
    let (files, server) = serve(&entry(&[first.addr()])).await?;
    let mut client = GrpcClient::start(language, &GrpcConfig::new(server.xds())).await?;
    let set = async |hosts: &[SocketAddr]| files.put("echo.yaml", &entry(hosts).yaml());
    let moved = moves::through_grpc(&mut client, TARGET, first, turns, set).await?;
    moved.tally.check_clean()?;
    server.is_content("grpc-under-test", SOON).await.map(drop)
}

#[tokio::test]
async fn grpc_core_follows_moves_under_load() -> Result<()> {
    moves_under_load(Language::Python, 100).await
}

#[tokio::test]
async fn grpc_javascript_follows_moves_under_load() -> Result<()> {
    moves_under_load(Language::JavaScript, 20).await
}

#[tokio::test]
async fn grpc_javascript_reaches_a_backend() -> Result<()> {
    let backend = Backend::start("only").await?;
    let (_files, server) = serve(&entry(&[backend.addr()])).await?;
    let mut client = GrpcClient::start(Language::JavaScript, &GrpcConfig::new(server.xds())).await?;
    let called = client.call(TARGET, SOON, true).await?;
    ensure!(called.ok && called.backend == "only", "{called:?}");
    server.is_content("grpc-under-test", SOON).await.map(drop)
}

/// Three backends at increasing distance from a client in eu/a.
struct Places {
    near: Backend,
    next: Backend,
    far: Backend,
}

impl Places {
    async fn start() -> Result<Self> {
        let (near, next) = (Backend::start("near").await?, Backend::start("next").await?);
        Ok(Self { near, next, far: Backend::start("far").await? })
    }

    /// Returns an entry with the named backends that prefers near endpoints.
    fn entry(&self, names: &[&str]) -> Entry {
        let places = [(&self.near, "eu/a"), (&self.next, "eu/b"), (&self.far, "us/c")];
        let wanted = places.into_iter().filter(|(backend, _)| names.contains(&backend.name()));
        let close = entry(&[]).distribution("PreferClose");
        wanted.fold(close, |entry, (backend, locality)| entry.near(backend.addr(), locality))
    }
}

fn in_eu_a(server: &TestServer) -> GrpcConfig {
    GrpcConfig::new(server.xds()).locality("eu", "a", "")
}

/// Calls until `backend` answers. No call waits for the channel to recover: the C core never finishes a call
/// that waited while the target did not exist.
async fn answered_by(client: &mut GrpcClient, backend: &str) -> Result<()> {
    let client = tokio::sync::Mutex::new(client);
    eventually(&format!("{backend} to answer"), SOON, || async {
        let called: Called = client.lock().await.call(TARGET, Duration::from_secs(5), false).await?;
        ensure!(called.ok && called.backend == backend, "{called:?}");
        Ok(())
    })
    .await
}

async fn calls_fall_over(language: Language) -> Result<()> {
    let places = Places::start().await?;
    let (files, server) = serve(&places.entry(&["near", "next", "far"])).await?;
    let mut client = GrpcClient::start(language, &in_eu_a(&server)).await?;
    answered_by(&mut client, "near").await?;
    let steps =
        [&["next", "far"][..], &["far"], &["near", "far"], &["next", "far"], &["near", "next", "far"]];
    for (step, nearest) in steps.into_iter().zip(["next", "far", "near", "next", "near"]) {
        files.put("echo.yaml", &places.entry(step).yaml())?;
        answered_by(&mut client, nearest).await?;
    }
    // Dead, but still listed: the client itself fails over to the next priority.
    let Places { near, .. } = places;
    near.close().await;
    answered_by(&mut client, "next").await?;
    server.is_content("grpc-under-test", SOON).await.map(drop)
}

#[tokio::test]
async fn grpc_core_falls_over_by_locality() -> Result<()> {
    calls_fall_over(Language::Python).await
}

#[tokio::test]
async fn grpc_javascript_falls_over_by_locality() -> Result<()> {
    calls_fall_over(Language::JavaScript).await
}

/// Shares of localities that a DestinationRule sets; localities without a share are sent without endpoints.
async fn calls_follow_shares(language: Language) -> Result<()> {
    let places = Places::start().await?;
    let (files, server) = serve(&places.entry(&["near", "next", "far"])).await?;
    let share = |to: &str| {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: echo, namespace: default}}\n\
             spec: {{host: {HOST}, trafficPolicy: {{loadBalancer: {{localityLbSetting: {{distribute: [{{from: eu/*, to: {{{to}: 100}}}}]}}}}}}}}\n"
        );
        files.put("rule.yaml", &text)
    };
    share("eu/b")?;
    let mut client = GrpcClient::start(language, &in_eu_a(&server)).await?;
    for (to, backend) in [("us/*", "far"), ("eu/b", "next"), ("eu/a", "near")] {
        share(to)?;
        answered_by(&mut client, backend).await?;
        for _ in 0..20 {
            let called: Called = client.call(TARGET, SOON, true).await?;
            ensure!(called.ok && called.backend == backend, "{called:?}, not {backend}");
        }
    }
    server.is_content("grpc-under-test", SOON).await.map(drop)
}

#[tokio::test]
async fn grpc_core_follows_shares_of_localities() -> Result<()> {
    calls_follow_shares(Language::Python).await
}

#[tokio::test]
async fn grpc_javascript_follows_shares_of_localities() -> Result<()> {
    calls_follow_shares(Language::JavaScript).await
}

/// While the nearest locality exists, no call leaves it; when it is removed under load, no call fails.
#[tokio::test]
async fn grpc_core_changes_priority_under_load() -> Result<()> {
    let places = Places::start().await?;
    let (files, server) = serve(&places.entry(&["near", "next", "far"])).await?;
    let mut client = GrpcClient::start(Language::Python, &in_eu_a(&server)).await?;
    answered_by(&mut client, "near").await?;
    client.start_load(TARGET, 200, 8).await?;
    client.reaches("near", 200, SOON).await?;
    ensure!(client.calls().await?.answers.len() == 1, "calls left: {:?}", client.calls().await?);
    for (step, new, old) in
        [(&["next", "far"][..], "next", "near"), (&["near", "next", "far"], "near", "next")]
    {
        files.put("echo.yaml", &places.entry(step).yaml())?;
        client.reaches(new, 20, SOON).await?;
        client.avoids(old, 20, SOON).await?;
    }
    let calls = client.stop_load().await?;
    calls.check_clean()?;
    assert_eq!(calls.of("far"), 0, "the farthest was never needed: {calls:?}");
    Ok(())
}

/// An absent service cannot be called, and is found when it appears.
#[tokio::test]
async fn grpc_core_finds_a_service_that_appears_late() -> Result<()> {
    let backend = Backend::start("only").await?;
    let files = Files::new()?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut client = GrpcClient::start(Language::Python, &GrpcConfig::new(server.xds())).await?;
    let called = client.call(TARGET, Duration::from_secs(1), false).await?;
    ensure!(!called.ok, "{called:?}");
    files.put("echo.yaml", &entry(&[backend.addr()]).yaml())?;
    answered_by(&mut client, "only").await
}

/// The server is down for a while or for good: a client that has its resources needs nothing.
#[tokio::test]
async fn grpc_core_outlives_the_server() -> Result<()> {
    let (first, second) = (Backend::start("first").await?, Backend::start("second").await?);
    let (files, server) = serve(&entry(&[first.addr()])).await?;
    let mut client = GrpcClient::start(Language::Python, &GrpcConfig::new(server.xds())).await?;
    answered_by(&mut client, "first").await?;
    client.start_load(TARGET, 200, 8).await?;
    let both = entry(&[first.addr(), second.addr()]).yaml();
    let _server = server.restart_after(|| files.put("echo.yaml", &both)).await?;
    client.reaches("second", 20, SOON).await?;
    client.stop_load().await?.check_clean()
}

/// A rule with all that sidecars read is accepted, and calls go on. With TLS of files, which gRPC does not read, calls fail
/// in place of plain text.
async fn rule_is_accepted(language: Language) -> Result<()> {
    let backend = Backend::start("only").await?;
    let (files, server) = serve(&entry(&[backend.addr()])).await?;
    let rule = |policy: &str| {
        let of = "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: echo, namespace: default}, spec: ";
        files.put("rule.yaml", &format!("{of}{{host: {HOST}, trafficPolicy: {{{policy}}}}}}}\n"))
    };
    rule(
        "loadBalancer: {consistentHash: {httpHeaderName: x-user, ringHash: {minimumRingSize: 64}}}, \
         outlierDetection: {consecutive5xxErrors: 2, interval: 1s, baseEjectionTime: 5s, maxEjectionPercent: 50}, \
         connectionPool: {tcp: {maxConnections: 9, connectTimeout: 2s, tcpKeepalive: {time: 60s}}, \
         http: {http2MaxRequests: 100, idleTimeout: 5s}}",
    )?;
    let client = GrpcClient::start(language, &GrpcConfig::new(server.xds())).await?;
    let client = tokio::sync::Mutex::new(client);
    let calls = async |wanted: bool| {
        eventually(&format!("calls to succeed: {wanted}"), SOON, || async {
            let called: Called = client.lock().await.call(TARGET, Duration::from_secs(5), false).await?;
            ensure!(called.ok == wanted, "{called:?}");
            Ok(())
        })
        .await
    };
    calls(true).await?;
    server.is_content("grpc-under-test", SOON).await?;
    rule("tls: {mode: SIMPLE}")?;
    calls(false).await?;
    rule("tls: {mode: DISABLE}")?;
    calls(true).await
}

#[tokio::test]
async fn grpc_core_accepts_a_rule() -> Result<()> {
    rule_is_accepted(Language::Python).await
}

#[tokio::test]
async fn grpc_javascript_accepts_a_rule() -> Result<()> {
    rule_is_accepted(Language::JavaScript).await
}
