//! Tests the harness itself, without any real server: load that counts failures, and the raw ADS client with
//! the scripted server on both protocols. Every suite relies on them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{AdsClient, Backend, Load, LoadPlan, ScriptedAds, Variant, eventually, resources};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn load_keeps_its_rate_and_names_backends() -> Result<()> {
    let backend = Backend::start("one").await?;
    let load = Load::start(&LoadPlan::to(backend.addr()));
    load.reaches("one", 200, SOON).await?;
    load.keeps(200.0, SOON).await?;
    let tally = load.finish().await;
    tally.check_clean()?;
    assert_eq!(tally.of("one"), backend.requests());
    Ok(())
}

#[tokio::test]
async fn load_counts_every_failure() -> Result<()> {
    let backend = Backend::start("one").await?;
    let load = Load::start(&LoadPlan::to(backend.addr()));
    load.reaches("one", 50, SOON).await?;
    backend.close().await;
    eventually("failures to be seen", SOON, || async {
        let failed = load.tally().failed;
        ensure!(failed > 20, "{failed} failures so far");
        Ok(())
    })
    .await?;
    assert!(load.finish().await.check_clean().is_err());
    Ok(())
}

fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

async fn scripted() -> Result<ScriptedAds> {
    let server = ScriptedAds::start().await?;
    server.put(CDS, &[("web", resources::cluster("web")), ("db", resources::cluster("db"))]);
    server.put(EDS, &[("web", resources::endpoints("web", &[host(1)]))]);
    Ok(server)
}

async fn first_answers_and_a_push(variant: Variant) -> Result<()> {
    let server = scripted().await?;
    let mut client = AdsClient::connect(server.addr(), variant, node("raw")).await?;
    client.subscribe(CDS, &[])?;
    client.expect(CDS, &["db", "web"], SOON).await?;
    client.subscribe(EDS, &["web"])?;
    let before = client.expect(EDS, &["web"], SOON).await?;
    client.expect_nothing(Duration::from_millis(50)).await?;
    server.put(EDS, &[("web", resources::endpoints("web", &[host(1), host(2)]))]);
    let after = client.next(SOON).await?;
    assert_ne!(before.versions(), after.versions());
    client.nack(&after, "not today")?;
    eventually("the server to receive the rejection", SOON, || async {
        ensure!(server.nacks() == ["not today"], "it received {:?}", server.requests());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn raw_client_speaks_sotw() -> Result<()> {
    first_answers_and_a_push(Variant::Sotw).await
}

#[tokio::test]
async fn raw_client_speaks_delta() -> Result<()> {
    first_answers_and_a_push(Variant::Delta).await
}

#[tokio::test]
async fn delta_removals_are_named() -> Result<()> {
    let server = scripted().await?;
    let mut client = AdsClient::connect(server.addr(), Variant::Delta, node("raw")).await?;
    client.subscribe(CDS, &[])?;
    client.expect(CDS, &["db", "web"], SOON).await?;
    server.remove(CDS, "db");
    let answer = client.expect(CDS, &[], SOON).await?;
    assert_eq!(answer.removed, ["db"]);
    Ok(())
}

#[tokio::test]
async fn node_goes_with_the_first_request_only() -> Result<()> {
    let server = scripted().await?;
    let mut client = AdsClient::connect(server.addr(), Variant::Sotw, node("raw")).await?;
    client.subscribe(CDS, &[])?;
    client.expect(CDS, &["db", "web"], SOON).await?;
    client.subscribe(EDS, &["web"])?;
    client.expect(EDS, &["web"], SOON).await?;
    let nodes: Vec<_> = server.requests().into_iter().filter_map(|request| request.node).collect();
    assert_eq!(nodes, ["raw"]);
    Ok(())
}

#[tokio::test]
async fn end_of_a_stream_has_its_status() -> Result<()> {
    let server = scripted().await?;
    let mut client = AdsClient::connect(server.addr(), Variant::Sotw, node("raw")).await?;
    client.half_close()?;
    assert_eq!(client.expect_end(SOON).await?.code, 0);
    Ok(())
}
