//! Scenario 6: the server is killed and comes back with the same content, or with one thing changed.

use std::collections::BTreeMap;

use tributary_suites::ads::{CDS, EDS, LDS, RDS};
use tributary_suites::{Answer, Follower, nowhere, ports};

use super::*;

/// A name that stands for nothing, whose empty answer shows that the server has come so far.
const LAST: &str = "outbound|80||last.test";

/// Everything that a client holds of the types that a sidecar asks for.
async fn all_of(world: &World, variant: Variant) -> Result<Follower> {
    let mut client = Follower::like_envoy(world.xds(), variant, sidecar("again")).await?;
    client.holds(EDS, &texts(&names(&three())), SOON).await?;
    client.subscribe(LDS, &[])?;
    client.subscribe(RDS, &["80"])?;
    client.until("routes", SOON, |now| now.names(RDS).contains("80").then_some(())).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

/// A delta client that comes back to a new server with what it holds; gives what it is then told.
async fn come_back(world: &World, held: &Follower) -> Result<Follower> {
    let mut client = Follower::connect(world.xds(), Variant::Delta, sidecar("again")).await?;
    for (kind, names) in [(CDS, &[][..]), (EDS, &texts(&names(&three()))), (LDS, &[]), (RDS, &["80"])] {
        let versions = held.versions(kind);
        let versions = versions.iter().map(|(name, version)| (name.as_str(), version.as_str()));
        client.client().resume(kind, names, versions)?;
    }
    // What is asked for last is answered last: what the rest comes to has been told by then.
    client.subscribe(EDS, &[LAST])?;
    client.until("the last answer", SOON, |now| now.names(EDS).contains(LAST).then_some(())).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

fn told(answers: &[Answer]) -> BTreeMap<&str, Vec<String>> {
    let mut told: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for answer in answers {
        let names = answer.names().into_iter().chain(answer.removed.iter().map(|name| format!("-{name}")));
        told.entry(&answer.type_url).or_default().extend(names.filter(|name| name != LAST));
    }
    told.retain(|_, names| !names.is_empty());
    told
}

#[tokio::test]
async fn scenario_06_delta_restart_with_the_same_content_sends_nothing() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    world.server = world.server.restart().await?;
    let back = come_back(&world, &held).await?;
    assert_eq!(told(back.answers()), BTreeMap::new());
    Ok(())
}

#[tokio::test]
async fn scenario_06_delta_restart_with_one_changed_cluster_sends_it_and_its_endpoints() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    let changed = three()[1].clone().protocol("HTTP2");
    let files = &world.files;
    world.server = world.server.restart_after(|| put(files, std::slice::from_ref(&changed))).await?;
    let back = come_back(&world, &held).await?;
    let one = vec![changed.cluster()];
    assert_eq!(told(back.answers()), BTreeMap::from([(CDS, one.clone()), (EDS, one)]));
    let order: Vec<&str> = back.answers().iter().map(|answer| answer.type_url.as_str()).collect();
    assert!(order.iter().position(|kind| *kind == CDS) < order.iter().position(|kind| *kind == EDS));
    Ok(())
}

/// What went while the server was away is told as gone, once the server has read everything.
#[tokio::test]
async fn scenario_06_delta_restart_without_a_service_removes_it() -> Result<()> {
    let mut world = World::start(&three()).await?;
    let held = all_of(&world, Variant::Delta).await?;
    let gone = three()[2].clone();
    let files = &world.files;
    world.server = world.server.restart_after(|| files.remove(&file_of(&gone))).await?;
    let back = come_back(&world, &held).await?;
    let told = told(back.answers());
    assert_eq!(told.get(CDS), Some(&vec![format!("-{}", gone.cluster())]), "{told:?}");
    Ok(())
}

/// grpc-java#12663: a version that counts from the start of the process means another content after a restart.
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

/// Real Envoy across a restart: connected again, nothing warmed or touched.
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

/// What a restart must leave alone: clusters added, modified, removed, warming; on SotW the version of them all,
/// for which delta has one each instead.
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

/// With one cluster changed while the server was away, Envoy modifies exactly that one and does not wait.
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
    envoy.stat_is("cluster_manager.warming_clusters", Duration::from_secs(1), |count| count == 0).await?;
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

/// A sidecar keeps its listeners over a restart too: not one is rebuilt.
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
