//! Endpoints of a cluster when its API server rejects requests, loses its history or stops answering: nothing
//! is lost, the status names the fault, and it recovers on its own. Each test has its own cluster on one etcd.

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

/// Probes run every second here, and their results must show soon after.
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

/// Returns a client that follows everything.
async fn client(server: &TestServer) -> Result<Follower> {
    Follower::like_envoy(server.xds(), Variant::Delta, node("follower")).await
}

async fn receives(client: &mut Follower, addresses: &[&str]) -> Result<()> {
    let want: Vec<_> =
        addresses.iter().map(|ip| Ok((ip.parse::<std::net::IpAddr>()?, 80).into())).collect::<Result<_>>()?;
    client.has_endpoints(&outbound(80, "pay.shop.svc.cluster.local"), &want, SHOWN).await
}

/// Asserts that the client has lost nothing since it received these addresses.
async fn still(client: &mut Follower, addresses: &[&str]) -> Result<()> {
    client.settle(Duration::from_millis(100)).await?;
    let held = client.endpoints(&outbound(80, "pay.shop.svc.cluster.local"))?;
    let want = addresses.iter().map(|ip| format!("{ip}:80")).collect();
    ensure!(held == want, "it holds {held:?}");
    Ok(())
}

#[tokio::test]
async fn revoked_permission_shows_removes_nothing_and_returns() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "rights").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let (server, _config) = Watched::by(&cluster, &Login::user("reader"))?.start().await?;
    let mut client = client(&server).await?;
    receives(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.api().allow("reader", &READ, &without(SLICES)).await?;
    server.kubernetes_is("Forbidden", &["endpointslices", "403"], SHOWN).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.api().allow("reader", &READ, &READABLE).await?;
    server.kubernetes_is("Live", &[], SHOWN).await?;
    put(&cluster, &["10.1.0.3"]).await?;
    receives(&mut client, &["10.1.0.3"]).await
}

async fn is_complete(server: &TestServer) -> Result<bool> {
    Ok(server.metric("tributary_catalog_complete").await? > 0.0)
}

/// A server that starts without a permission reports unknown, not empty: the catalog is incomplete, and the
/// status shows why.
#[tokio::test]
async fn permission_that_never_existed_is_unknown_and_not_empty() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "never").await?;
    cluster.api().allow("reader", &READ, &without(SLICES)).await?;
    let (mut server, _config) = Watched::by(&cluster, &Login::user("reader"))?.launch()?;
    eventually("the admin port", SHOWN, || async { server.is_ready().await.map(drop) }).await?;
    server.kubernetes_is("Forbidden", &["endpointslices", "403"], SHOWN).await?;
    // An unreadable kind ends the wait of a first start, but never counts as empty.
    server.ready(SHOWN).await?;
    ensure!(!is_complete(&server).await?, "it is called complete, and no endpoint was ever read");
    cluster.api().allow("reader", &READ, &READABLE).await?;
    eventually("a complete catalog", SHOWN, || async {
        is_complete(&server).await?.then_some(()).context("it is not complete")
    })
    .await?;
    receives(&mut client(&server).await?, &["10.1.0.1", "10.1.0.2"]).await
}

/// Returns a token of a service account with all permissions.
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
async fn revoked_credential_shows_and_its_renewal_is_used() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "token").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("token");
    let uid = account(&cluster).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    let (server, _config) = Watched::by(&cluster, &Login::TokenFile(file.clone()))?.start().await?;
    let mut client = client(&server).await?;
    receives(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    // The API server caches the token's success for ten seconds.
    let account_name = Named::of(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "default", "name": "trib"}}))?;
    cluster.api().remove(&account_name).await?;
    server.kubernetes_is("AuthFailed", &["401"], SHOWN + Duration::from_secs(15)).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    let uid = account(&cluster).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    // A token file is reread within a minute, and at once after a rejection.
    server.kubernetes_is("Live", &[], Duration::from_secs(75)).await?;
    put(&cluster, &["10.1.0.3"]).await?;
    receives(&mut client, &["10.1.0.3"]).await
}

/// The API server accepts a token for 60 s beyond its expiry.
const ENDS_SOON: SignedDuration = SignedDuration::from_secs(-15);
const REGISTRIES: [&str; 2] = ["kubernetes", "kubernetes-entries"];

/// The token expires on its own, under both registries, and nothing is lost.
async fn ended(server: &mut TestServer, client: &mut Follower) -> Result<()> {
    receives(client, &["10.1.0.1", "10.1.0.2"]).await?;
    for registry in REGISTRIES {
        server.registry_is(registry, "AuthFailed", &["401"], Duration::from_secs(60)).await?;
    }
    still(client, &["10.1.0.1", "10.1.0.2"]).await?;
    let process = server.process();
    eventually("the log to show it", SHOWN, || async {
        let output = process.output();
        let line = output.lines().find(|line| line.contains("AuthFailed") && line.contains("401"));
        line.map(drop).with_context(|| format!("no such line: {output}"))
    })
    .await
}

/// Asserts that both registries use a new token.
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
    receives(client, &["10.1.0.3"]).await
}

#[tokio::test]
async fn expired_token_in_a_file_shows_and_its_renewal_is_used() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "ends").await?;
    let folder = tempfile::tempdir()?;
    let (file, uid) = (folder.path().join("token"), account(&cluster).await?);
    renew(&cluster, &file, &uid, ENDS_SOON)?;
    let (mut server, _config) = Watched::by(&cluster, &Login::TokenFile(file.clone()))?.start().await?;
    let mut client = client(&server).await?;
    ended(&mut server, &mut client).await?;
    renew(&cluster, &file, &uid, SignedDuration::from_hours(1))?;
    // A token file is reread within a minute.
    renewed(&server, &mut client, &cluster, Duration::from_secs(75)).await
}

#[tokio::test]
async fn expired_token_in_a_kubeconfig_shows_and_its_renewal_is_used() -> Result<()> {
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
async fn api_server_that_dies_stalls_or_compacts_loses_nothing() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "outage").await?;
    let (server, _config) = Watched::by_admin(&cluster)?.start().await?;
    let mut client = client(&server).await?;
    receives(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;

    cluster.daemon().kill();
    server.kubernetes_is("Unreachable", &[], SHOWN).await?;
    still(&mut client, &["10.1.0.1", "10.1.0.2"]).await?;
    // All history is lost while it is down: no watch can be resumed.
    let other = ApiServer::start_with(ApiServerOptions::default().on(&etcd, "outage")).await?;
    put(&other, &["10.1.0.2", "10.1.0.4"]).await?;
    drop(other);
    etcd.compact().await?;
    cluster.restart().await?;
    receives(&mut client, &["10.1.0.2", "10.1.0.4"]).await?;
    server.kubernetes_is("Live", &[], SHOWN).await?;

    cluster.daemon().pause().await?;
    server.kubernetes_is("Unreachable", &[], SHOWN).await?;
    still(&mut client, &["10.1.0.2", "10.1.0.4"]).await?;
    cluster.daemon().resume()?;
    server.kubernetes_is("Live", &[], SHOWN).await?;
    put(&cluster, &["10.1.0.5"]).await?;
    receives(&mut client, &["10.1.0.5"]).await?;
    // No assignment was empty in between, whatever was received.
    let name = outbound(80, "pay.shop.svc.cluster.local");
    ensure!(client.endpoints(&name)?.len() == 1);
    Ok(())
}
