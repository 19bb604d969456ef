//! Traces of changes from real sources to real clients, and CPU profiles of a server under load.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::net::TcpListener;
use tributary_suites::ads::{EDS, node};
use tributary_suites::{
    Backend, Collector, Entry, Envoy, EnvoyConfig, Files, Follower, ServerOptions, TestServer, Variant,
    eventually, http_client, ports,
};

const SOON: Duration = Duration::from_secs(20);
const HOST: &str = "traced.test";
const SECRET: &str = "c4n4ry-of-the-collector";

/// Writes a configuration with one file registry and these lines.
fn config(place: &Files, files: &Files, lines: &str) -> Result<PathBuf> {
    let head = "apiVersion: tributary.dev/v1alpha1\nkind: Config";
    let folder = files.path().display();
    place.put("config.yaml", &format!("{head}\nregistries: [{{kind: file, path: {folder}}}]\n{lines}\n"))?;
    Ok(place.path().join("config.yaml"))
}

/// Returns the generation of the served catalog.
async fn generation(server: &TestServer) -> Result<String> {
    let list = http_client::get_json(server.admin(), "/debug/services").await?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("no generation")?.to_owned())
}

/// Waits until the endpoints of the host are this one.
async fn serves(port: u16, backend: &Backend) -> Result<()> {
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let name = backend.name();
    eventually("the backend to answer", SOON, || async {
        let (status, body) = http_client::get_as(addr, HOST, ("x-user", "ann")).await?;
        ensure!(status == 200 && body.contains(name), "{status} {body}");
        Ok(())
    })
    .await
}

/// The file changes while an Envoy is connected: one trace leads from the registry to Envoy's acknowledgement.
#[tokio::test]
async fn change_of_a_file_is_one_trace_to_the_acknowledgement_of_envoy() -> Result<()> {
    let (files, place, collector) = (Files::new()?, Files::new()?, Collector::start().await?);
    let (first, second) = (Backend::start("first").await?, Backend::start("second").await?);
    let port = ports::free_port()?;
    files.put("a.yaml", &Entry::http(HOST, port).at(first.addr()).yaml())?;
    let config = config(&place, &files, "traces: {enabled: true}")?;
    let options = ServerOptions::default()
        .config(&config)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())
        .env("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization=Bearer%20{SECRET}"))
        .env("OTEL_SERVICE_NAME", "mesh")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    let mut server = TestServer::start(options).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("traced")).await?;
    envoy.live(SOON).await?;
    serves(port, &first).await?;
    files.put("a.yaml", &Entry::http(HOST, port).at(second.addr()).yaml())?;
    serves(port, &second).await?;
    let generation = generation(&server).await?;
    let chain = eventually("the acknowledgement of Envoy", SOON, || async {
        let spans = collector.spans();
        let ack = spans.iter().find(|span| {
            span.name == "ack"
                && span.attributes["xds.type_url"] == EDS
                && span.attributes["tributary.generation"] == generation
        });
        collector.chain(ack.with_context(|| format!("generation {generation} in {spans:?}"))?)
    })
    .await?;
    let names: Vec<_> = chain.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["registry.event", "merge", "encode", "push", "ack"]);
    assert!(chain.iter().all(|span| span.attributes["tributary.generation"] == generation), "{chain:?}");
    assert!(chain[4].attributes["xds.client"].contains("traced"), "{chain:?}");
    let of = |name: &str| chain[0].resource.get(name).cloned().unwrap_or_default();
    assert_eq!((of("service.name"), of("deployment.environment")), ("mesh".into(), "test".into()));
    // the secret reaches the collector, and nothing else
    let headers = collector.headers();
    assert!(headers.iter().all(|one| one["authorization"] == format!("Bearer {SECRET}")));
    let document = http_client::get_text(server.admin(), "/debug/config").await?;
    let metrics = http_client::get_text(server.admin(), "/metrics").await?;
    ensure!(!document.contains(SECRET) && !format!("{:?}", collector.spans()).contains(SECRET));
    ensure!(metrics.contains("tributary_trace_spans_total{result=\"exported\"}"), "{metrics}");
    ensure!(!server.process().output().contains(SECRET), "the log has the secret");
    Ok(())
}

/// A collector that accepts connections and never answers delays neither clients nor the end of the server.
#[tokio::test]
async fn collector_that_never_answers_delays_nothing() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    files.put("a.yaml", &Entry::http(HOST, 80).at("10.0.0.1:80".parse()?).yaml())?;
    let lines = format!("traces: {{enabled: true, endpoint: \"http://{}\"}}", silent.local_addr()?);
    let mut server =
        TestServer::start(ServerOptions::default().config(&config(&place, &files, &lines)?)).await?;
    let mut follower = Follower::like_envoy(server.xds(), Variant::Delta, node("a")).await?;
    for last in 2..=5 {
        let at: SocketAddr = format!("10.0.0.{last}:80").parse()?;
        files.put("a.yaml", &Entry::http(HOST, 80).at(at).yaml())?;
        follower.has_endpoints(&Entry::http(HOST, 80).cluster(), &[at], SOON).await?;
    }
    let began = Instant::now();
    drop(follower);
    let status = server.process().terminate(SOON).await?;
    ensure!(status.success(), "{status}");
    ensure!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    let log = server.process().output();
    ensure!(log.contains("spans dropped at the end"), "{log}");
    Ok(())
}

/// Variables that other programs use turn nothing on.
#[tokio::test]
async fn without_the_setting_the_collector_gets_no_connection() -> Result<()> {
    let (files, collector) = (Files::new()?, Collector::start().await?);
    files.put("a.yaml", &Entry::http(HOST, 80).at("10.0.0.1:80".parse()?).yaml())?;
    let options =
        ServerOptions::files(files.path()).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint());
    let mut server = TestServer::start(options).await?;
    let mut follower = Follower::like_envoy(server.xds(), Variant::Sotw, node("a")).await?;
    let at: SocketAddr = "10.0.0.2:80".parse()?;
    files.put("a.yaml", &Entry::http(HOST, 80).at(at).yaml())?;
    follower.has_endpoints(&Entry::http(HOST, 80).cluster(), &[at], SOON).await?;
    server.process().terminate(SOON).await?;
    assert_eq!(collector.connections(), 0);
    Ok(())
}

/// The profile of a server that is asked for a document again and again names a function of it.
#[tokio::test]
async fn profile_of_a_busy_server_names_its_functions() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    for n in 0..400 {
        files.put(
            &format!("{n}.yaml"),
            &Entry::http(&format!("h{n}.test"), 80).at("10.0.0.1:80".parse()?).yaml(),
        )?;
    }
    let config = config(&place, &files, "admin: {profile: true}")?;
    let server = TestServer::start(ServerOptions::default().config(&config)).await?;
    let admin = server.admin();
    let load =
        tokio::spawn(async move { while http_client::get_text(admin, "/debug/services").await.is_ok() {} });
    let path = place.path().join("cpu.pb.gz");
    let output = path.display().to_string();
    let (status, out, error) = server.command(&["profile", "--seconds", "2", "-o", &output]).await?;
    load.abort();
    ensure!(status.success(), "{status} {out} {error}");
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(&*std::fs::read(&path)?).read_to_end(&mut profile)?;
    // names are strings of the profile's table
    let text = String::from_utf8_lossy(&profile);
    ensure!(text.contains("tributary_app::document"), "no function of ours in {} bytes", profile.len());
    Ok(())
}
