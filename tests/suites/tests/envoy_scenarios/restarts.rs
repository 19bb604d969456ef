//! Scenario 6: the server is killed and restarts with the same content, or with one change.

use std::collections::BTreeMap;

use tributary_suites::ads::{CDS, EDS, LDS, RDS};
use tributary_suites::{Answer, Follower, nowhere, ports};

use super::*;

/// An absent name, whose empty response shows that the server has processed all earlier requests.
const LAST: &str = "outbound|80||last.test";

/// Returns a client that holds every resource that a sidecar requests.
async fn all_of(world: &World, variant: Variant) -> Result<Follower> {
    let mut client = Follower::like_envoy(world.xds(), variant, sidecar("again")).await?;
    client.holds(EDS, &texts(&names(&three())), SOON).await?;
    client.subscribe(LDS, &[])?;
    client.subscribe(RDS, &["80"])?;
    client.until("routes", SOON, |now| now.names(RDS).contains("80").then_some(())).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

/// Connects a delta client to the restarted server with the resources of `held`. Returns what it then receives.
async fn come_back(world: &World, held: &Follower) -> Result<Follower> {
    let mut client = Follower::connect(world.xds(), Variant::Delta, sidecar("again")).await?;
    for (kind, names) in [(CDS, &[][..]), (EDS, &texts(&names(&three()))), (LDS, &[]), (RDS, &["80"])] {
        let versions = held.versions(kind);
        let versions = versions.iter().map(|(name, version)| (name.as_str(), version.as_str()));
        client.client().resume(kind, names, versions)?;
    }
    // The last request is answered last: the responses before it have been received by then.
    client.subscribe(EDS, &[LAST])?;
    client.until("the last answer", SOON, |now| now.names(EDS).contains(LAST).then_some(())).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

fn received(answers: &[Answer]) -> BTreeMap<&str, Vec<String>> {
    let mut received: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for answer in answers {
        let names = answer.names().into_iter().chain(answer.removed.iter().map(|name| format!("-{name}")));
        received.entry(&answer.type_url).or_default().extend(names.filter(|name| name != LAST));
    }
    received.retain(|_, names| !names.is_empty());
    received
}

#[tokio::test]
async fn scenario_06_delta_restart_without_a_change_sends_nothing() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    world.server = world.server.restart().await?;
    let back = come_back(&world, &held).await?;
    assert_eq!(received(back.answers()), BTreeMap::new());
    Ok(())
}

#[tokio::test]
async fn scenario_06_delta_restart_sends_only_the_changed_cluster() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    let changed = three()[1].clone().protocol("HTTP2");
    let files = &world.files;
    world.server = world.server.restart_after(|| put(files, std::slice::from_ref(&changed))).await?;
    let back = come_back(&world, &held).await?;
    let one = vec![changed.cluster()];
    assert_eq!(received(back.answers()), BTreeMap::from([(CDS, one.clone()), (EDS, one)]));
    let order: Vec<&str> = back.answers().iter().map(|answer| answer.type_url.as_str()).collect();
    assert!(order.iter().position(|kind| *kind == CDS) < order.iter().position(|kind| *kind == EDS));
    Ok(())
}

/// Removals during the downtime are sent as removed, once the server has read everything.
#[tokio::test]
async fn scenario_06_delta_restart_without_a_service_removes_it() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    let gone = three()[2].clone();
    let files = &world.files;
    world.server = world.server.restart_after(|| files.remove(&file_of(&gone))).await?;
    let back = come_back(&world, &held).await?;
    let received = received(back.answers());
    assert_eq!(received.get(CDS), Some(&vec![format!("-{}", gone.cluster())]), "{received:?}");
    Ok(())
}

/// grpc-java#12663: a version that counts from the start of the process has another content after a restart.
#[tokio::test]
async fn stream_restart_versions_are_content_hashes() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let kinds = [CDS, EDS, LDS, RDS];
    let mut before = Vec::new();
    for variant in Variant::BOTH {
        let client = all_of(&world, variant).await?;
        before.push(kinds.map(|kind| (client.versions(kind), client.bytes(kind))));
    }
    world.server = world.server.restart().await?;
    for (variant, before) in Variant::BOTH.into_iter().zip(before) {
        let client = all_of(&world, variant).await?;
        assert_eq!(kinds.map(|kind| (client.versions(kind), client.bytes(kind))), before, "{variant:?}");
    }
    Ok(())
}

/// Real Envoy across a restart: connected again, with no cluster warmed or modified.
async fn envoy_keeps_all(variant: Variant) -> Result<()> {
    let mut world = World::start(&three()).await?;
    let envoy = world.envoy(variant).await?;
    settled(&envoy, &names(&three())).await?;
    let before = seen(&envoy, variant).await?;
    world.server = world.server.restart().await?;
    world.server.is_content("envoy-under-test", SOON).await?;
    assert_eq!(seen(&envoy, variant).await?, before, "the restart touched something");
    // The stream is in use: a change still arrives.
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(4)))?;
    envoy.has_hosts(&three()[0].cluster(), &[nowhere(4)], SOON).await?;
    nothing_refused(&envoy).await
}

/// Returns the counters that a restart must not change: clusters added, modified, removed, warming; on SotW the
/// version of all clusters, which delta does not have.
async fn seen(envoy: &Envoy, variant: Variant) -> Result<Vec<u64>> {
    let mut stats = vec!["cluster_added", "cluster_modified", "cluster_removed", "warming_clusters"];
    if variant == Variant::Sotw {
        stats.push("cds.version");
    }
    let mut seen = Vec::new();
    for stat in stats {
        seen.push(envoy.stat(&format!("cluster_manager.{stat}")).await?);
    }
    Ok(seen)
}

#[tokio::test]
async fn scenario_06_envoy_keeps_all_over_a_restart_sotw() -> Result<()> {
    envoy_keeps_all(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_06_envoy_keeps_all_over_a_restart_delta() -> Result<()> {
    envoy_keeps_all(Variant::Delta).await
}

/// With one cluster changed during the downtime, Envoy modifies exactly that one and does not wait.
async fn envoy_takes_one(variant: Variant) -> Result<()> {
    let mut world = World::start(&three()).await?;
    let envoy = world.envoy(variant).await?;
    settled(&envoy, &names(&three())).await?;
    let modified = envoy.stat("cluster_manager.cluster_modified").await?;
    let added = envoy.stat("cluster_manager.cluster_added").await?;
    let changed = three()[1].clone().protocol("GRPC");
    let files = &world.files;
    world.server = world.server.restart_after(|| put(files, std::slice::from_ref(&changed))).await?;
    envoy.stat_is("cluster_manager.cluster_modified", SOON, |count| count > modified).await?;
    // before Envoy stops to wait for endpoints, after 15 s
    envoy.stat_is("cluster_manager.warming_clusters", Duration::from_secs(5), |count| count == 0).await?;
    world.server.is_content("envoy-under-test", SOON).await?;
    assert_eq!(envoy.stat("cluster_manager.cluster_modified").await?, modified + 1);
    assert_eq!(envoy.stat("cluster_manager.cluster_added").await?, added);
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn scenario_06_envoy_takes_the_one_changed_cluster_sotw() -> Result<()> {
    envoy_takes_one(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_06_envoy_takes_the_one_changed_cluster_delta() -> Result<()> {
    envoy_takes_one(Variant::Delta).await
}

/// A sidecar keeps its listeners over a restart too, without a rebuild.
#[tokio::test]
async fn scenario_06_a_sidecar_keeps_its_listeners_over_a_restart() -> Result<()> {
    let port = ports::free_port()?;
    for variant in Variant::BOTH {
        let mut world = World::start(&[Entry::http("svc-1.test", port).at(nowhere(1))]).await?;
        let envoy = Envoy::start(&EnvoyConfig::new(world.xds(), variant).sidecar("keeps")).await?;
        envoy.live(SOON).await?;
        let counts = ["listener_added", "listener_modified", "listener_removed"];
        let before = listener_counts(&envoy, counts).await?;
        world.server = world.server.restart().await?;
        world.server.is_content(&sidecar_id("keeps"), SOON).await?;
        assert_eq!(listener_counts(&envoy, counts).await?, before, "{variant:?}: {counts:?}");
    }
    Ok(())
}

async fn listener_counts(envoy: &Envoy, names: [&str; 3]) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for name in names {
        counts.push(envoy.stat(&format!("listener_manager.{name}")).await?);
    }
    Ok(counts)
}
