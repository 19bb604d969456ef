//! Tracing through real Envoy: the spans of requests reach the tracer of the proxy's bootstrap with the tags of the settings.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_suites::{
    Echo, Entry, Envoy, EnvoyConfig, Files, ServerOptions, TestServer, Variant, eventually, http_client,
    ports,
};

const SOON: Duration = Duration::from_secs(20);
const HOST: &str = "echo.test";
/// Spans that Envoy collects before it sends them.
const BATCH: usize = 5;

/// Server of a configuration file with these settings and one service, and the port of the service.
async fn serve(files: &Files, place: &Files, settings: &str) -> Result<(TestServer, Echo, u16)> {
    let (echo, port) = (Echo::start().await?, ports::free_port()?);
    files.put("echo.yaml", &Entry::http(HOST, port).at(echo.addr()).yaml())?;
    let folder = files.path().display();
    let head = "apiVersion: tributary.dev/v1alpha1\nkind: Config";
    place
        .put("config.yaml", &format!("{head}\nregistries: [{{kind: file, path: {folder}}}]\n{settings}\n"))?;
    let config = place.path().join("config.yaml");
    Ok((TestServer::start(ServerOptions::default().config(&config)).await?, echo, port))
}

/// Returns the text of a request of the collector's API, and answers it.
async fn received(mut stream: TcpStream) -> Result<String> {
    let (mut text, mut part) = (String::new(), [0; 16 << 10]);
    // Envoy sends the list of spans in chunks, of which the last one is empty.
    while !text.ends_with("\r\n0\r\n\r\n") {
        let read = stream.read(&mut part).await?;
        ensure!(read > 0, "the request ended after {text:?}");
        text.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
    Ok(text)
}

#[tokio::test]
async fn spans_have_the_tags_of_the_settings() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    let settings = "settings: {tracing: {sampling: 100, customTags: \
        {team: {literal: blue}, user: {header: x-user, defaultValue: none}}}}";
    let (server, echo, port) = serve(&files, &place, settings).await?;
    let collector = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let config =
        EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("traced").tracer(collector.local_addr()?);
    let envoy = Envoy::start(&config).await?;
    envoy.live(SOON).await?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    eventually("the service", SOON, || async {
        let (status, body) = http_client::get_as(addr, HOST, ("x-user", "ann")).await?;
        ensure!(status == 200 && body.contains("x-user: ann"), "{status} {body}");
        ensure!(body.contains("x-b3-sampled: 1"), "the request has no trace: {body}");
        Ok(())
    })
    .await?;
    for _ in 1..BATCH {
        http_client::get_as(addr, HOST, ("x-user", "ann")).await?;
    }
    let (stream, _) = tokio::time::timeout(SOON, collector.accept()).await??;
    let spans = tokio::time::timeout(SOON, Box::pin(received(stream))).await??;
    for tag in [r#""team":"blue""#, r#""user":"ann""#, r#""istio.namespace":"default""#] {
        ensure!(spans.contains(tag), "no {tag} in {spans}");
    }
    assert_eq!(envoy.refused().await?, 0);
    assert!(echo.requests() >= BATCH as u64);
    Ok(())
}

#[tokio::test]
async fn without_tracing_no_request_has_a_trace() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    let (server, _echo, port) = serve(&files, &place, "settings: {tracing: {enabled: false}}").await?;
    let collector = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let config =
        EnvoyConfig::new(server.xds(), Variant::Sotw).sidecar("plain").tracer(collector.local_addr()?);
    let envoy = Envoy::start(&config).await?;
    envoy.live(SOON).await?;
    eventually("the service", SOON, || async {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (status, body) = http_client::get_as(addr, HOST, ("x-user", "ann")).await?;
        ensure!(status == 200 && body.contains("x-user: ann"), "{status} {body}");
        ensure!(!body.contains("x-b3-"), "the request has a trace: {body}");
        Ok(())
    })
    .await
}
