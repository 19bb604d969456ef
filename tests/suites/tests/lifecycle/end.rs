//! End of the process on request, with open streams.

use std::time::Instant;

use rustix::process::Signal;
use tributary_suites::ads::{CDS, EDS, client::Tuning};
use tributary_suites::{AdsClient, Backend, Envoy, EnvoyConfig, Load, LoadPlan, eventually};

use super::*;

#[tokio::test]
async fn sigterm_drains_and_ends_well() -> Result<()> {
    let files = Files::new()?;
    files.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut clients = Vec::new();
    for variant in Variant::BOTH {
        let mut client = AdsClient::connect(server.xds(), variant, node("stays")).await?;
        client.subscribe(CDS, &[])?;
        client.next(SOON).await?;
        clients.push(client);
    }
    let xds = server.xds();
    let began = Instant::now();
    let status = server.stop(SOON).await?;
    assert_eq!(status.code(), Some(0), "{status}");
    ensure!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    for client in &mut clients {
        let status = client.expect_end(SOON).await?;
        ensure!([0, 14].contains(&status.code), "a stream ended with {status}");
    }
    ensure!(std::net::TcpStream::connect(xds).is_err(), "the port is still open");
    Ok(())
}

#[tokio::test]
async fn sighup_ends_no_stream() -> Result<()> {
    let files = Files::new()?;
    files.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let mut server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut client = AdsClient::connect(server.xds(), Variant::Delta, node("stays")).await?;
    client.subscribe(CDS, &[])?;
    client.next(SOON).await?;
    server.process().signal(Signal::HUP)?;
    files.put("more.yaml", &Entry::http("more.test", 80).at(nowhere(2)).yaml())?;
    client.next(SOON).await.map(drop)
}

/// Writes more endpoints than fit into any window on the way to a client.
fn crowd(files: &Files) -> Result<()> {
    let hosts: Vec<SocketAddr> = (1..=100).map(nowhere).collect();
    let entry = |number| Entry::http(&format!("many-{number}.test"), 80).all(&hosts);
    (0..50).try_for_each(|number| files.put(&format!("many-{number}.yaml"), &entry(number).yaml()))
}

/// Returns a client that has requested all of them and reads nothing.
async fn stuck(server: &TestServer) -> Result<AdsClient> {
    let stream = tokio::net::TcpStream::connect(server.xds()).await?;
    let tuning = Tuning { stream_window: 1 << 16, connection_window: 1 << 16, ..Tuning::default() };
    let mut client = AdsClient::over(stream, Variant::Delta, Some(node("stuck")), tuning).await?;
    let names: Vec<String> = (0..50).map(|number| format!("outbound|80||many-{number}.test")).collect();
    client.subscribe(EDS, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let waits = |one: &serde_json::Value| one["types"][0]["state"] == "STALE";
    server.shows("clients", SOON, |clients| clients.first().is_some_and(waits)).await?;
    Ok(client)
}

/// A client that does not read delays the end no longer than the drain time.
#[tokio::test]
async fn stuck_client_does_not_delay_the_end() -> Result<()> {
    let files = Files::new()?;
    crowd(&files)?;
    let options = ServerOptions::files(files.path()).arg("--drain-timeout").arg("1s");
    let server = TestServer::start(options).await?;
    let _client = stuck(&server).await?;
    let began = Instant::now();
    assert_eq!(server.stop(SOON).await?.code(), Some(0));
    ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    Ok(())
}

/// A draining server reports so: not ready, but alive, until the last stream has ended.
#[tokio::test]
async fn a_draining_server_is_not_ready() -> Result<()> {
    let files = Files::new()?;
    crowd(&files)?;
    let mut server = TestServer::start(ServerOptions::files(files.path())).await?;
    let client = stuck(&server).await?;
    server.process().signal(Signal::TERM)?;
    eventually("it to be not ready", SOON, || async {
        ensure!(!server.is_ready().await?, "it is ready");
        Ok(())
    })
    .await?;
    drop(client);
    assert_eq!(server.process().ended(SOON).await?.code(), Some(0));
    Ok(())
}

/// A restart of the server has no effect on the data plane.
#[tokio::test]
async fn traffic_is_unaffected_by_the_drain() -> Result<()> {
    let backend = Backend::start("only").await?;
    let files = Files::new()?;
    files.put("svc.yaml", &svc(&[backend.addr()]).yaml())?;
    let options = ServerOptions::files(files.path());
    let server = TestServer::start(options.clone()).await?;
    let (xds, admin) = (server.xds(), server.admin());
    let cluster = svc(&[]).cluster();
    let envoy = Envoy::start(&EnvoyConfig::new(xds, Variant::Delta).listen_for(&cluster)).await?;
    envoy.has_hosts(&cluster, &[backend.addr()], SOON).await?;
    let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
    load.reaches("only", 20, SOON).await?;
    assert_eq!(server.stop(SOON).await?.code(), Some(0));
    load.reaches("only", 50, SOON).await?;
    let server = TestServer::start(options.on(xds, admin)).await?;
    server.is_content("envoy-under-test", SOON).await?;
    load.reaches("only", 20, SOON).await?;
    load.finish().await.check_clean()
}

/// A connection has a maximum age, so replicas share clients evenly. Envoy and its traffic are unaffected.
#[tokio::test]
async fn connections_are_renewed_without_an_effect() -> Result<()> {
    let (backend, files) = (Backend::start("only").await?, Files::new()?);
    files.put("svc.yaml", &svc(&[backend.addr()]).yaml())?;
    let place = Files::new()?;
    place.put("config.yaml", &config(&[files.path()], "xds: {maxConnectionAge: 1s}\n"))?;
    let options = ServerOptions::default().config(&place.path().join("config.yaml"));
    let server = TestServer::start(options).await?;
    let cluster = svc(&[]).cluster();
    for variant in Variant::BOTH {
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).listen_for(&cluster)).await?;
        envoy.has_hosts(&cluster, &[backend.addr()], SOON).await?;
        let touched = envoy.stat("cluster_manager.cluster_modified").await?;
        let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
        // While one connection replaces another there may be two streams, or none.
        let one = eventually("one stream", SOON, || server.client("envoy-under-test")).await?;
        let first = one["connection"].clone();
        let is_other = |one: &serde_json::Value| one["connection"] != first;
        server.shows("clients", SOON, |clients| clients.first().is_some_and(is_other)).await?;
        load.reaches("only", 50, SOON).await?;
        load.finish().await.check_clean()?;
        assert_eq!(envoy.stat("cluster_manager.cluster_modified").await?, touched);
        assert_eq!((envoy.warming_clusters().await?, envoy.refused().await?), (0, 0));
        drop(envoy);
        server.shows("clients", SOON, <[_]>::is_empty).await?;
    }
    Ok(())
}
