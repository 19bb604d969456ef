//! What becomes of a cluster's endpoints when its API server refuses, forgets or falls silent: nothing is lost, the
//! status says what is wrong, and it mends by itself. Each test has a cluster of its own on one etcd.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use serde_json::json;
use tributary_suites::ads::node;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{
    ApiServerOptions, Login, Named, READ, READABLE, Watched, mk_namespace, mk_service, mk_slice, without,
};
use tributary_suites::{ApiServer, Etcd, Follower, TestServer, Variant, eventually, outbound};

/// Probes go out every second here: whatever they find must show soon after.
const SHOWN: Duration = Duration::from_secs(15);
const SLICES: &str = "discovery.k8s.io/endpointslices";

async fn cluster(etcd: &Arc<Etcd>, prefix: &str) -> Result<ApiServer> {
    let cluster = ApiServer::start_with(ApiServerOptions::default().on(etcd, prefix)).await?;
    cluster.api().apply_all(&[mk_namespace("shop"), mk_service("shop", "pay", &[("http", 80, 80)])]).await?;
    put(&cluster, &["10.1.0.1", "10.1.0.2"]).await?;
    Ok(cluster)
}

async fn put(cluster: &ApiServer, addresses: &[&str]) -> Result<()> {
    cluster.api().apply(&mk_slice("shop", "pay", "pay-1", addresses, &[("http", 80)])).await.map(drop)
}

/// A client that follows everything.
async fn client(server: &TestServer) -> Result<Follower> {
    Follower::like_envoy(server.xds(), Variant::Delta, node("follower")).await
}

async fn told(client: &mut Follower, addresses: &[&str]) -> Result<()> {
    let want: Vec<_> =
        addresses.iter().map(|ip| Ok((ip.parse::<std::net::IpAddr>()?, 80).into())).collect::<Result<_>>()?;
    client.has_endpoints(&outbound(80, "pay.shop.svc.cluster.local"), &want, SHOWN).await
}

/// Nothing was taken from the client since it was told these.
async fn still(client: &mut Follower, addresses: &[&str]) -> Result<()> {
    client.settle(Duration::from_millis(100)).await?;
    let held = client.endpoints(&outbound(80, "pay.shop.svc.cluster.local"))?;
    let want = addresses.iter().map(|ip| format!("{ip}:80")).collect();
    ensure!(held == want, "it holds {held:?}");
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_taken_shows_and_takes_nothing_and_comes_back() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "rights").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let (server, _config) = Watched::by(&cluster, &Login::user("reader"))?.start().await?;
    let mut client = client(&server).await?;
    told(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.api().allow("reader", &READ, &without(SLICES)).await?;
    server.kubernetes_is("Forbidden", &["endpointslices", "403"], SHOWN).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.api().allow("reader", &READ, &READABLE).await?;
    server.kubernetes_is("Live", &[], SHOWN).await?;
    put(&cluster, &["10.1.0.3"]).await?;
    told(&mut client, &["10.1.0.3"]).await
}

async fn is_complete(server: &TestServer) -> Result<bool> {
    Ok(server.metric("tributary_catalog_complete").await? > 0.0)
}

/// A server that starts without a right knows that it does not know: it is not complete, and says why.
#[tokio::test]
async fn a_right_that_was_never_there_is_unknown_and_not_empty() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "never").await?;
    cluster.api().allow("reader", &READ, &without(SLICES)).await?;
    let (mut server, _config) = Watched::by(&cluster, &Login::user("reader"))?.launch()?;
    eventually("the admin port", SHOWN, || async { server.is_ready().await.map(drop) }).await?;
    server.kubernetes_is("Forbidden", &["endpointslices", "403"], SHOWN).await?;
    // What nobody may read ends the wait of a first start, but it is never taken for empty.
    server.ready(SHOWN).await?;
    ensure!(!is_complete(&server).await?, "it is called complete, and no endpoint was ever read");
    cluster.api().allow("reader", &READ, &READABLE).await?;
    eventually("a complete catalog", SHOWN, || async {
        is_complete(&server).await?.then_some(()).context("it is not complete")
    })
    .await?;
    told(&mut client(&server).await?, &["10.1.0.1", "10.1.0.2"]).await
}

/// The service account of a token, with all rights.
async fn account(cluster: &ApiServer) -> Result<String> {
    let text = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: trib, namespace: default}}";
    let account = cluster.api().apply(&documents(text)?[0]).await?;
    cluster.api().allow("default:trib", &READ, &READABLE).await?;
    Ok(account["metadata"]["uid"].as_str().context("no uid")?.to_owned())
}

fn renew(cluster: &ApiServer, file: &Path, uid: &str, lasts: SignedDuration) -> Result<()> {
    let fresh = file.with_extension("new");
    std::fs::write(&fresh, cluster.signer().token("default", "trib", uid, lasts)?)?;
    Ok(std::fs::rename(&fresh, file)?)
}

#[tokio::test]
async fn a_credential_that_is_revoked_shows_and_its_renewal_is_taken_up() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "token").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("token");
    let uid = account(&cluster).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    let (server, _config) = Watched::by(&cluster, &Login::TokenFile(file.clone()))?.start().await?;
    let mut client = client(&server).await?;
    told(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    // Its success is remembered by the API server for ten seconds.
    let account_name = Named::of(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "default", "name": "trib"}}))?;
    cluster.api().remove(&account_name).await?;
    server.kubernetes_is("AuthFailed", &["401"], SHOWN + Duration::from_secs(15)).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    let uid = account(&cluster).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    // A token file is read again within a minute by itself, and at once after a refusal.
    server.kubernetes_is("Live", &[], Duration::from_secs(75)).await?;
    put(&cluster, &["10.1.0.3"]).await?;
    told(&mut client, &["10.1.0.3"]).await
}

/// The API server takes a token for 60 s more than it says.
const ENDS_SOON: SignedDuration = SignedDuration::from_secs(-15);
const REGISTRIES: [&str; 2] = ["kubernetes", "kubernetes-entries"];

/// Nobody takes it back: it ends by itself, under both registries, and takes nothing along.
async fn ended(server: &mut TestServer, client: &mut Follower) -> Result<()> {
    told(client, &["10.1.0.1", "10.1.0.2"]).await?;
    for registry in REGISTRIES {
        server.registry_is(registry, "AuthFailed", &["401"], Duration::from_secs(60)).await?;
    }
    still(client, &["10.1.0.1", "10.1.0.2"]).await?;
    let process = server.process();
    eventually("the log to say so", SHOWN, || async {
        let said = process.output();
        let line = said.lines().find(|line| line.contains("AuthFailed") && line.contains("401"));
        line.map(drop).with_context(|| format!("no line does: {said}"))
    })
    .await
}

/// What is said with a new token is taken up, by both.
async fn renewed(
    server: &TestServer,
    client: &mut Follower,
    cluster: &ApiServer,
    within: Duration,
) -> Result<()> {
    for registry in REGISTRIES {
        server.registry_is(registry, "Live", &[], within).await?;
    }
    put(cluster, &["10.1.0.3"]).await?;
    told(client, &["10.1.0.3"]).await
}

#[tokio::test]
async fn a_token_in_a_file_that_ends_by_itself_shows_and_its_renewal_is_taken_up() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "ends").await?;
    let folder = tempfile::tempdir()?;
    let (file, uid) = (folder.path().join("token"), account(&cluster).await?);
    renew(&cluster, &file, &uid, ENDS_SOON)?;
    let (mut server, _config) = Watched::by(&cluster, &Login::TokenFile(file.clone()))?.start().await?;
    let mut client = client(&server).await?;
    ended(&mut server, &mut client).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    // A token file is read again within a minute.
    renewed(&server, &mut client, &cluster, Duration::from_secs(75)).await
}

#[tokio::test]
async fn a_token_in_the_kubeconfig_that_ends_by_itself_shows_and_its_renewal_is_taken_up() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "inline").await?;
    let uid = account(&cluster).await?;
    let token = |lasts| cluster.signer().token("default", "trib", &uid, lasts).map(Login::Token);
    let watched = Watched::by(&cluster, &token(ENDS_SOON)?)?;
    let (mut server, _config) = watched.start().await?;
    let mut client = client(&server).await?;
    ended(&mut server, &mut client).await?;
    let fresh = cluster.kubeconfig(&token(SignedDuration::from_hours(1))?)?;
    std::fs::rename(&fresh, watched.kubeconfig())?;
    renewed(&server, &mut client, &cluster, Duration::from_secs(45)).await
}

#[tokio::test]
async fn an_api_server_that_dies_stalls_or_forgets_loses_nothing() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "outage").await?;
    let (server, _config) = Watched::by_admin(&cluster)?.start().await?;
    let mut client = client(&server).await?;
    told(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.daemon().kill();
    server.kubernetes_is("Unreachable", &[], SHOWN).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;
    // While it is away all history goes: no watch can be resumed from where it was.
    let other = ApiServer::start_with(ApiServerOptions::default().on(&etcd, "outage")).await?;
    put(&other, &["10.1.0.2", "10.1.0.4"]).await?;
    drop(other);
    etcd.compact().await?;
    cluster.restart().await?;
    told(&mut client, &["10.1.0.2", "10.1.0.4"]).await?;
    server.kubernetes_is("Live", &[], SHOWN).await?;

    cluster.daemon().pause().await?;
    server.kubernetes_is("Unreachable", &[], SHOWN).await?;
    still(&mut client, &["10.1.0.2", "10.1.0.4"]).await?;
    cluster.daemon().resume()?;
    server.kubernetes_is("Live", &[], SHOWN).await?;
    put(&cluster, &["10.1.0.5"]).await?;
    told(&mut client, &["10.1.0.5"]).await?;
    // No assignment was ever empty in between, whatever was heard.
    let name = outbound(80, "pay.shop.svc.cluster.local");
    ensure!(client.endpoints(&name)?.len() == 1);
    Ok(())
}
