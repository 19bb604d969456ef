//! Scenarios 2, 3 and 4: changes while Envoy runs.

use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{Follower, nowhere};

use super::*;

/// A changed cluster waits for its endpoints even if it had them; if the server does not send them again, it
/// waits for fifteen seconds or for ever.
async fn changed_cluster_warms(variant: Variant) -> Result<()> {
    let entry = three()[0].clone();
    let world = World::start(&three()).await?;
    let envoy = world.envoy(variant).await?;
    settled(&envoy, &names(&three())).await?;
    let before = envoy.active_cluster(&entry.cluster()).await?;
    world.put(&entry.clone().protocol("GRPC"))?;
    eventually("envoy to be given the changed cluster", SOON, || async {
        ensure!(envoy.stat("cluster_manager.cluster_modified").await? > 0, "no cluster was modified");
        Ok(())
    })
    .await?;
    // before Envoy stops to wait for endpoints, after 15 s
    eventually("the changed cluster to be in use", Duration::from_secs(5), || async {
        let now = envoy.active_cluster(&entry.cluster()).await?;
        ensure!(now["cluster"] != before["cluster"], "it is as before");
        ensure!(envoy.warming_clusters().await? == 0, "it warms");
        Ok(())
    })
    .await?;
    envoy.has_hosts(&entry.cluster(), &[nowhere(1)], SOON).await?;
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn scenario_02_changed_cluster_warms_with_old_endpoints_sotw() -> Result<()> {
    changed_cluster_warms(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_02_changed_cluster_warms_with_old_endpoints_delta() -> Result<()> {
    changed_cluster_warms(Variant::Delta).await
}

/// The same on the wire: the unchanged assignment follows its changed cluster.
#[tokio::test]
async fn scenario_02_endpoints_follow_their_changed_cluster() -> Result<()> {
    let entry = three()[0].clone();
    let world = World::start(&three()).await?;
    let mut clients = Vec::new();
    for variant in Variant::BOTH {
        let mut client = Follower::like_envoy(world.xds(), variant, node("raw")).await?;
        client.holds(EDS, &texts(&names(&three())), SOON).await?;
        client.settle(QUIET).await?;
        client.forget();
        clients.push((client.bytes(EDS), client));
    }
    world.put(&entry.clone().protocol("GRPC"))?;
    for (before, client) in &mut clients {
        client
            .until("clusters, then endpoints", SOON, |now| (now.answers().len() >= 2).then_some(()))
            .await?;
        let [clusters, endpoints] = client.answers() else { anyhow::bail!("{:?}", client.answers()) };
        assert_eq!((clusters.type_url.as_str(), endpoints.type_url.as_str()), (CDS, EDS));
        assert!(clusters.names().contains(&entry.cluster()) && endpoints.names().contains(&entry.cluster()));
        assert_eq!(&client.bytes(EDS), before, "an assignment changed with its cluster's protocol");
    }
    Ok(())
}

/// Two clusters of Envoy, one of them its own, that request one assignment: both follow it, also when the
/// service appears after the request.
async fn shared_service_name(variant: Variant) -> Result<()> {
    let [entry, other, late] = three();
    let world = World::start(&[entry.clone(), other]).await?;
    let config = EnvoyConfig::new(world.xds(), variant);
    let config = config.static_alias("mine", &entry.cluster()).static_alias("early", &late.cluster());
    let envoy = Envoy::start(&config).await?;
    for cluster in [&entry.cluster(), "mine"] {
        envoy.has_hosts(cluster, &[nowhere(1)], SOON).await?;
    }
    envoy.has_hosts("early", &[], SOON).await?;
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(7)))?;
    world.put(&late)?;
    for (cluster, last) in [(&*entry.cluster(), 7), ("mine", 7), (&*late.cluster(), 3), ("early", 3)] {
        envoy.has_hosts(cluster, &[nowhere(last)], SOON).await?;
    }
    world.put(&Entry::http("svc-1.test", 80).protocol("GRPC").at(nowhere(8)))?;
    for cluster in [&entry.cluster(), "mine"] {
        envoy.has_hosts(cluster, &[nowhere(8)], SOON).await?;
    }
    envoy.stat_is("cluster_manager.warming_clusters", SOON, |count| count == 0).await?;
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn scenario_03_two_clusters_share_a_service_name_sotw() -> Result<()> {
    shared_service_name(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_03_two_clusters_share_a_service_name_delta() -> Result<()> {
    shared_service_name(Variant::Delta).await
}

async fn to_zero_and_back(variant: Variant) -> Result<()> {
    let entry = three()[0].clone();
    let world = World::start(&three()).await?;
    let envoy = world.envoy(variant).await?;
    settled(&envoy, &names(&three())).await?;
    let updates = envoy.stat("cluster_manager.cds.update_success").await?;
    let none = Entry::http("svc-1.test", 80);
    for (entry, hosts) in [(&none, &[][..]), (&entry, &[nowhere(1)][..]), (&none, &[][..])] {
        world.put(entry)?;
        envoy.has_hosts(&entry.cluster(), hosts, SOON).await?;
    }
    assert_eq!(envoy.stat("cluster_manager.cds.update_success").await?, updates, "clusters were sent again");
    world.remove(&entry)?;
    eventually("the removed service's cluster to be gone", SOON, || async {
        ensure!(!envoy.clusters().await?.contains(&entry.cluster()), "envoy has it");
        Ok(())
    })
    .await?;
    world.put(&entry)?;
    envoy.has_hosts(&entry.cluster(), &[nowhere(1)], SOON).await?;
    settled(&envoy, &names(&three())).await?;
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn scenario_04_endpoints_to_zero_and_back_sotw() -> Result<()> {
    to_zero_and_back(Variant::Sotw).await
}

#[tokio::test]
async fn scenario_04_endpoints_to_zero_and_back_delta() -> Result<()> {
    to_zero_and_back(Variant::Delta).await
}

/// A service without endpoints has an empty assignment; the assignment is never omitted or removed.
#[tokio::test]
async fn scenario_04_zero_endpoints_is_an_empty_assignment() -> Result<()> {
    let entry = three()[0].clone();
    let world = World::start(&three()).await?;
    for variant in Variant::BOTH {
        let mut client = Follower::like_envoy(world.xds(), variant, node("raw")).await?;
        client.has_endpoints(&entry.cluster(), &[nowhere(1)], SOON).await?;
        client.settle(QUIET).await?;
        client.forget();
        world.put(&Entry::http("svc-1.test", 80))?;
        client.has_endpoints(&entry.cluster(), &[], SOON).await?;
        let pushed: Vec<_> =
            client.answers().iter().map(|answer| (&*answer.type_url, &answer.removed)).collect();
        assert_eq!(pushed, [(EDS, &Vec::new())], "{variant:?}");
        world.put(&entry)?;
        client.has_endpoints(&entry.cluster(), &[nowhere(1)], SOON).await?;
    }
    Ok(())
}
