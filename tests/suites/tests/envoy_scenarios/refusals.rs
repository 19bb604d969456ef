//! Scenario 5: a client rejects a resource. The rejection is shown, the rest is applied, the stream stays open,
//! and the next valid push clears the error.

use std::net::TcpListener;

use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{AdsClient, nowhere, ports};

use super::*;

/// Envoy cannot bind a port that another program uses, and rejects the listener: valid for the server, invalid
/// for this Envoy.
async fn taken_port(variant: Variant) -> Result<()> {
    let (good, taken) = (ports::free_port()?, ports::free_port()?);
    let _holder = TcpListener::bind(("127.0.0.1", taken))?;
    let bad = Entry::http("bad.test", taken).at(nowhere(2));
    let world = World::start(&[Entry::http("good.test", good).at(nowhere(1)), bad.clone()]).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(world.xds(), variant).sidecar("refuses")).await?;
    let id = sidecar_id("refuses");
    let nack = eventually("the refusal to be shown", SOON, || async {
        let listeners = world.server.client_type(&id, "LDS").await?;
        ensure!(listeners["state"] == "ERROR", "{listeners}");
        Ok(listeners["nack"].as_str().unwrap_or_default().to_owned())
    })
    .await?;
    ensure!(nack.contains(&taken.to_string()), "the client's message is not shown: {nack}");
    eventually("the good one to be applied", SOON, || async {
        let listeners = envoy.listeners().await?;
        ensure!(listeners.contains(&format!("127.0.0.1_{good}")), "there are {listeners:?}");
        Ok(())
    })
    .await?;
    // The stream stays open: endpoints still move on it.
    world.put(&Entry::http("good.test", good).at(nowhere(9)))?;
    envoy.has_hosts(&outbound(good, "good.test"), &[nowhere(9)], SOON).await?;
    assert_eq!(world.server.client_type(&id, "LDS").await?["state"], "ERROR", "forgotten without an answer");
    // The port is free again, and the next listeners are valid.
    world.remove(&bad)?;
    eventually("the error to be over", SOON, || async {
        let listeners = world.server.client_type(&id, "LDS").await?;
        ensure!(listeners["state"] == "SYNCED", "{listeners}");
        ensure!(listeners["nack"].as_str().unwrap_or_default().is_empty(), "{listeners}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn scenario_05_a_refused_listener_is_shown_and_cleared_sotw() -> Result<()> {
    taken_port(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_05_a_refused_listener_is_shown_and_cleared_delta() -> Result<()> {
    taken_port(Variant::Delta).await
}

/// The same for endpoints, rejected by a raw client, with the message in `get clients` and in the log.
async fn refused_endpoints(variant: Variant) -> Result<()> {
    let entry = three()[0].clone();
    let mut world = World::start(&three()).await?;
    let mut client = AdsClient::connect(world.xds(), variant, node("picky")).await?;
    client.subscribe(EDS, &[&entry.cluster()])?;
    let answer = client.next(SOON).await?;
    client.nack(&answer, "not these endpoints")?;
    eventually("the refusal to be shown", SOON, || async {
        let endpoints = world.server.client_type("picky", "EDS").await?;
        ensure!(endpoints["state"] == "ERROR" && endpoints["nack"] == "not these endpoints", "{endpoints}");
        Ok(())
    })
    .await?;
    let (status, table, _) = world.server.command(&["get", "clients", "-o", "json"]).await?;
    ensure!(status.success() && table.contains("not these endpoints"), "{status}: {table}");
    let process = world.server.process();
    eventually("the log to show it", SOON, || async {
        let log = process.output();
        ensure!(log.contains("not these endpoints") && log.contains("TRB0604"), "the log is:\n{log}");
        Ok(())
    })
    .await?;
    client.expect_nothing(QUIET).await?;
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(5)))?;
    client.expect(EDS, &[&entry.cluster()], SOON).await?;
    eventually("the error to be over", SOON, || async {
        let endpoints = world.server.client_type("picky", "EDS").await?;
        ensure!(endpoints["state"] == "SYNCED", "{endpoints}");
        Ok(())
    })
    .await?;
    client.subscribe(CDS, &[])?;
    let clusters = client.next(SOON).await?;
    ensure!(clusters.type_url == CDS && clusters.names().contains(&entry.cluster()), "{clusters:?}");
    Ok(())
}

#[tokio::test]
async fn scenario_05_refused_endpoints_are_shown_logged_and_cleared() -> Result<()> {
    for variant in Variant::BOTH {
        refused_endpoints(variant).await?;
    }
    Ok(())
}
