//! Scenarios 1 and 14: start of clients.

use tributary_suites::ads::{CDS, EDS, LDS, RDS, client::Tuning, node};
use tributary_suites::{AdsClient, Follower, ports};

use super::*;

async fn cold_start(variant: Variant) -> Result<()> {
    let port = ports::free_port()?;
    let entries =
        [1, 2].map(|last| Entry::http(&format!("svc-{last}.test"), port).at(tributary_suites::nowhere(last)));
    let world = World::start(&entries).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(world.xds(), variant).sidecar("cold")).await?;
    envoy.live(SOON).await?;
    settled(&envoy, &names(&entries)).await?;
    let listener = format!("127.0.0.1_{port}");
    assert!(envoy.listeners().await?.contains(&listener), "{:?}", envoy.listeners().await?);
    assert_eq!(envoy.stat("listener_manager.total_listeners_warming").await?, 0);
    nothing_refused(&envoy).await?;
    let client = world.server.is_content(&sidecar_id("cold"), SOON).await?;
    let types: Vec<_> = client["types"].as_array().into_iter().flatten().map(|one| &one["type"]).collect();
    assert_eq!(types.len(), 4, "clusters, endpoints, listeners and routes: {types:?}");
    ensure!(
        client["notes"].to_string().contains("xDS clusters without mesh TLS"),
        "no note about mesh TLS: {client}"
    );
    Ok(())
}

#[tokio::test]
async fn scenario_01_cold_start_sotw() -> Result<()> {
    cold_start(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_01_cold_start_delta() -> Result<()> {
    cold_start(Variant::Delta).await
}

/// The order that a client requires: xDS clusters before their endpoints, listeners before their routes, even
/// if it requests all at once.
#[tokio::test]
async fn scenario_01_responses_follow_the_order_of_dependence() -> Result<()> {
    let world = World::start(&three()).await?;
    for variant in Variant::BOTH {
        let mut client = Follower::connect(world.xds(), variant, sidecar("ordered")).await?;
        client.subscribe(CDS, &[])?;
        client.subscribe(EDS, &texts(&names(&three())))?;
        client.subscribe(LDS, &[])?;
        client.subscribe(RDS, &["80"])?;
        client.until("all four types", SOON, |now| (now.held().len() == 4).then_some(())).await?;
        let order: Vec<&str> = client.answers().iter().map(|answer| answer.type_url.as_str()).collect();
        let first = |kind: &str| order.iter().position(|other| *other == kind);
        assert!(first(CDS) < first(EDS) && first(LDS) < first(RDS), "{variant:?}: {order:?}");
    }
    Ok(())
}

async fn without_node(variant: Variant, node: Option<Node>) -> Result<()> {
    let world = World::start(&three()).await?;
    let stream = tokio::net::TcpStream::connect(world.xds()).await?;
    let mut client = AdsClient::over(stream, variant, node, Tuning::default()).await?;
    client.subscribe(CDS, &[])?;
    let status = client.expect_end(SOON).await?;
    assert_eq!(status.code, 3, "{status}");
    ensure!(status.message.contains("node"), "{status}");
    let mut other = Follower::connect(world.xds(), variant, self::node("fine")).await?;
    other.subscribe(CDS, &[])?;
    other.holds(CDS, &texts(&names(&three())), SOON).await
}

#[tokio::test]
async fn scenario_14_a_first_request_without_node_is_invalid() -> Result<()> {
    for variant in Variant::BOTH {
        without_node(variant, None).await?;
    }
    Ok(())
}

#[tokio::test]
async fn scenario_14_an_empty_node_id_is_invalid() -> Result<()> {
    for variant in Variant::BOTH {
        without_node(variant, Some(node(""))).await?;
    }
    Ok(())
}

/// A folder that does not exist yet keeps its registry unknown: the server answers health checks but no stream.
#[tokio::test]
async fn scenario_14_a_server_that_is_not_ready_is_unavailable() -> Result<()> {
    let files = Files::new()?;
    let later = files.path().join("later");
    let options = ServerOptions::files(&later).arg("--first-sync-timeout").arg("0s");
    let server = TestServer::launch(options)?;
    for variant in Variant::BOTH {
        let status = eventually("a stream to be refused", SOON, || async {
            let mut client = AdsClient::connect(server.xds(), variant, node("early")).await?;
            client.subscribe(CDS, &[])?;
            client.expect_end(SOON).await
        })
        .await?;
        assert_eq!(status.code, 14, "{variant:?}: {status}");
    }
    assert!(!server.is_ready().await?, "a registry that was never read counts as read");
    std::fs::create_dir(&later)?;
    std::fs::write(later.join("one.yaml"), three()[0].yaml())?;
    eventually("the server to be ready", SOON, || async {
        ensure!(server.is_ready().await?, "it is not");
        Ok(())
    })
    .await?;
    let mut client = Follower::connect(server.xds(), Variant::Delta, node("later")).await?;
    client.subscribe(CDS, &[])?;
    client.holds(CDS, &[&three()[0].cluster()], SOON).await
}

/// An Envoy that is not a sidecar has its own listeners: it receives none, becomes live, and is shown with a
/// note.
#[tokio::test]
async fn plain_envoy_that_requests_listeners_receives_none() -> Result<()> {
    let world = World::start(&three()).await?;
    for variant in Variant::BOTH {
        let envoy = Envoy::start(&EnvoyConfig::new(world.xds(), variant).with_listeners()).await?;
        envoy.live(SOON).await?;
        settled(&envoy, &names(&three())).await?;
        ensure!(envoy.listeners().await?.is_empty(), "{:?}", envoy.listeners().await?);
        let client = world.server.is_content("envoy-under-test", SOON).await?;
        ensure!(client["notes"].to_string().contains("TRB0605"), "no note about it: {client}");
        drop(envoy);
        world.server.shows("clients", SOON, <[_]>::is_empty).await?;
    }
    Ok(())
}
