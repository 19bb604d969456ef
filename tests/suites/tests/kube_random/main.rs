//! A thousand random operations on a real API server, watched by replicas that started at different times.
//! Afterwards every replica must serve exactly the result of a naive reading of all objects, in the same bytes;
//! and an Envoy that is moved between replicas must receive nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::kube::marks::is_not_the_tests;
use tributary_suites::kube::{KubeApi, Marks, Watched, With, mk_namespace};
use tributary_suites::{ApiServer, Envoy, EnvoyConfig, Follower, Switch, TestServer, Variant, eventually};

mod naive;
mod random;
#[allow(dead_code, reason = "the worlds read more of it")]
#[path = "../worlds_ads/read.rs"]
mod read;

use naive::{Answers, Cluster};
use random::{Move, NAMESPACES, RandomMoves};

const OPERATIONS: usize = 1_000;
/// Concurrent operations: those on one object may be applied in any order.
const AT_ONCE: usize = 6;
const SOON: Duration = Duration::from_secs(30);
const SEED: u64 = 0x7219_b07a_11ce;

async fn begin(api: &KubeApi) -> Result<()> {
    api.define().await?;
    let mesh = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "tributary-system", "name": "istio"},
        "data": {"mesh": "discoverySelectors:\n- matchLabels: {discovery: enabled}\n"},
    });
    api.apply_all(&[mk_namespace("tributary-system"), mesh]).await?;
    let labels = json!({"metadata": {"labels": {"discovery": "enabled"}}});
    let namespaces: Vec<Value> =
        NAMESPACES.iter().map(|name| mk_namespace(name).with(labels.clone())).collect();
    api.apply_all(&namespaces).await
}

async fn play(api: &KubeApi, random: &mut RandomMoves, count: usize) -> Result<()> {
    let moves: Vec<Move> = (0..count).map(|_| random.next()).collect();
    let done = futures::stream::iter(moves).map(|one| async move {
        match &one {
            Move::Apply(object) => apply(api, object).await,
            Move::Remove(named) => api.remove(named).await,
        }
        .with_context(|| format!("{one:?}"))
    });
    done.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
}

/// Another operation may have removed it between the object and its status, which is one of the valid orders.
async fn apply(api: &KubeApi, object: &Value) -> Result<()> {
    match api.apply(object).await {
        Err(error)
            if format!("{error:#}").contains("is not there") || format!("{error:#}").contains("404") =>
        {
            Ok(())
        }
        done => done.map(drop),
    }
}

async fn follow(server: &TestServer, variant: Variant, id: &str) -> Result<Follower> {
    let id = format!("sidecar~192.0.2.1~{id}.watch~watch.svc.cluster.local");
    Follower::like_envoy(server.xds(), variant, node(&id)).await
}

/// Returns the resources that a client holds, in the form of the naive reading.
fn held(client: &Follower) -> Result<Answers> {
    let mut answers = Answers::new();
    for name in client.names(CDS).into_iter().filter(|name| name.starts_with("outbound|")) {
        let host = name.rsplit_once("||").map(|(_, host)| host).unwrap_or_default();
        if is_not_the_tests(host) {
            continue;
        }
        let rows = read::rows(client, &name)?.into_iter().map(|row| {
            ensure!(row.priority == 0, "{name}: {row}");
            let parts = [row.target, format!("w{}", row.weight), row.locality, row.health];
            Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
        });
        answers.insert(name.clone(), rows.collect::<Result<_>>()?);
    }
    Ok(answers)
}

fn same(replica: &str, held: &Answers, cluster: &Cluster) -> Result<()> {
    let want = cluster.answers()?;
    let names: std::collections::BTreeSet<_> = held.keys().chain(want.keys()).collect();
    let differ = names.into_iter().filter(|name| held.get(*name) != want.get(*name));
    let lines: Vec<String> = differ
        .map(|name| {
            let (held, want) = (held.get(name), want.get(name));
            format!("{name}\n    held   {held:?}\n    wanted {want:?}\n    {}", cluster.about(name))
        })
        .collect();
    ensure!(lines.is_empty(), "seed {SEED:#x}, {replica}: {} differ:\n  {}", lines.len(), lines.join("\n  "));
    Ok(())
}

#[tokio::test]
async fn random_operations_converge_to_a_fresh_reading_on_replicas() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    begin(api).await?;
    let mut marks = Marks::new(api, true).await?;
    let watched = Watched::by_admin(&cluster)?;
    let (first, _one) = watched.start().await?;
    let mut sotw = follow(&first, Variant::Sotw, "sotw").await?;
    let mut delta = follow(&first, Variant::Delta, "delta").await?;
    let switch = Switch::start(first.xds()).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(switch.addr(), Variant::Delta)).await?;

    let mut random = RandomMoves::new(SEED);
    play(api, &mut random, OPERATIONS / 2).await?;
    marks.through(&mut [&mut sotw, &mut delta]).await?;
    same("half way", &held(&delta)?, &Cluster::read(api).await?)?;
    // A second replica starts in the middle.
    let (started, played) = tokio::join!(watched.start(), play(api, &mut random, OPERATIONS / 2));
    let ((second, _two), ()) = (started?, played?);
    let mut late = follow(&second, Variant::Delta, "late").await?;
    marks.through(&mut [&mut sotw, &mut delta, &mut late]).await?;
    let (third, _three) = watched.start().await?;
    let mut fresh = follow(&third, Variant::Delta, "fresh").await?;
    marks.seen_by(&mut fresh).await?;

    let now = Cluster::read(api).await?;
    let want = now.answers()?;
    ensure!(
        want.len() > 10 && want.values().any(|rows| rows.len() > 2),
        "the cluster is too bare to show anything"
    );
    for (replica, client) in [("sotw", &sotw), ("delta", &delta), ("late", &late), ("fresh", &fresh)] {
        same(replica, &held(client)?, &now)?;
    }
    for kind in [CDS, EDS] {
        let wanted: Vec<String> = fresh.names(CDS).into_iter().collect();
        let of = |client: &Follower| {
            let mut versions = client.versions(kind);
            versions.retain(|name, _| wanted.contains(name));
            versions
        };
        assert_eq!(of(&delta), of(&fresh), "{kind}: versions of the first and the last replica");
        assert_eq!(of(&late), of(&fresh), "{kind}: versions of the second and the last replica");
    }
    moved(&envoy, &switch, [&second, &third, &first]).await
}

/// Asserts that an Envoy with delta that returns to another replica receives no resource.
async fn moved(envoy: &Envoy, switch: &Switch, to: [&TestServer; 3]) -> Result<()> {
    let of = async || -> Result<Vec<u64>> {
        let stats = ["cluster_added", "cluster_modified", "cluster_removed"];
        let mut all = vec![envoy.refused().await?, envoy.warming_clusters().await?];
        for stat in stats {
            all.push(envoy.stat(&format!("cluster_manager.{stat}")).await?);
        }
        Ok(all)
    };
    for server in to {
        let before = of().await?;
        let sent = sent_by(server).await?;
        switch.to(server.xds());
        server.is_content("envoy-under-test", SOON).await?;
        assert_eq!(of().await?, before, "the move touched something");
        let now = sent_by(server).await?;
        ensure!(now == sent, "{} resources were sent", now - sent);
    }
    eventually("Envoy to hold on", SOON, || async {
        ensure!(!envoy.clusters().await?.is_empty());
        Ok(())
    })
    .await
}

async fn sent_by(server: &TestServer) -> Result<f64> {
    server.metric("tributary_xds_events_total{event=\"resources_sent\"}").await
}
