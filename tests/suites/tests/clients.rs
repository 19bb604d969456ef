//! Real Envoy and both gRPC implementations with the scripted server: proves that the harness starts them, that
//! they accept its resources without a NACK, and that traffic follows endpoints that move under load.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::ads::{CDS, EDS, LDS, RDS};
use tributary_suites::{
    Authority, Backend, Envoy, EnvoyConfig, GrpcClient, GrpcConfig, Language, Load, LoadPlan, ScriptedAds,
    Variant, moves, ports, resources,
};

const SOON: Duration = Duration::from_secs(20);
const TARGET: &str = "echo.test:80";

async fn world(backend: &Backend) -> Result<ScriptedAds> {
    let server = ScriptedAds::start().await?;
    server.put(EDS, &[("echo", resources::endpoints("echo", &[backend.addr()]))]);
    server.put(CDS, &[("echo", resources::cluster("echo"))]);
    server.put(RDS, &[("to-echo", resources::route("to-echo", &["echo.test", TARGET], "echo"))]);
    server.put(LDS, &[(TARGET, resources::api_listener(TARGET, "to-echo"))]);
    Ok(server)
}

fn serve(server: &ScriptedAds, hosts: &[SocketAddr]) -> Result<()> {
    server.put(EDS, &[("echo", resources::endpoints("echo", hosts))]);
    Ok(())
}

async fn envoy_follows_moves(variant: Variant) -> Result<()> {
    let first = Backend::start("first").await?;
    let server = world(&first).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.addr(), variant).listen_for("echo")).await?;
    envoy.live(SOON).await?;
    assert_eq!(envoy.warming_clusters().await?, 0);
    let moved = moves::through_envoy(&envoy, "echo", first, 100, async |hosts| serve(&server, hosts)).await?;
    moved.tally.check_clean()?;
    ensure!(server.nacks().is_empty(), "envoy refused: {:?}", server.nacks());
    Ok(())
}

#[tokio::test]
async fn envoy_follows_moves_on_sotw() -> Result<()> {
    envoy_follows_moves(Variant::Sotw).await
}

#[tokio::test]
async fn envoy_follows_moves_on_delta() -> Result<()> {
    envoy_follows_moves(Variant::Delta).await
}

#[tokio::test]
async fn envoy_with_a_static_cluster_asks_for_its_endpoints() -> Result<()> {
    let backend = Backend::start("only").await?;
    let server = world(&backend).await?;
    let config = EnvoyConfig::new(server.addr(), Variant::Delta).static_cluster("echo").listen_for("echo");
    let envoy = Envoy::start(&config).await?;
    envoy.has_hosts("echo", &[backend.addr()], SOON).await?;
    let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
    load.reaches("only", 10, SOON).await?;
    Ok(())
}

#[tokio::test]
async fn envoy_takes_a_bootstrap_with_tls() -> Result<()> {
    let authority = Authority::new()?;
    let identity = authority.client("web", "spiffe://cluster.local/ns/default/sa/web")?;
    let config = EnvoyConfig::new(ports::free_addr()?, Variant::Delta).tls(&authority, Some(&identity));
    let envoy = Envoy::start(&config).await?;
    let failures = "cluster.control-plane.upstream_cx_connect_fail";
    envoy.stat_is(failures, SOON, |count| count > 0).await?;
    Ok(())
}

#[tokio::test]
async fn envoy_refusal_is_recorded() -> Result<()> {
    let backend = Backend::start("only").await?;
    let server = world(&backend).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.addr(), Variant::Sotw)).await?;
    envoy.has_hosts("echo", &[backend.addr()], SOON).await?;
    let mut bad = resources::endpoints("echo", &[backend.addr()]);
    let weight = bad.endpoints.first_mut().and_then(|locality| locality.load_balancing_weight.as_mut());
    ensure!(weight.map(|weight| weight.value = 0).is_some(), "the assignment has a locality weight");
    server.put(EDS, &[("echo", bad)]);
    tributary_suites::eventually("a NACK", SOON, || async {
        ensure!(!server.nacks().is_empty(), "none so far");
        Ok(())
    })
    .await
}

async fn grpc_follows_moves(language: Language) -> Result<()> {
    let first = Backend::start("first").await?;
    let server = world(&first).await?;
    let mut client = GrpcClient::start(language, &GrpcConfig::new(server.addr())).await?;
    let moved =
        moves::through_grpc(&mut client, TARGET, first, 20, async |hosts| serve(&server, hosts)).await?;
    moved.tally.check_clean()?;
    ensure!(server.nacks().is_empty(), "the client refused: {:?}", server.nacks());
    Ok(())
}

#[tokio::test]
async fn grpc_python_follows_moves() -> Result<()> {
    grpc_follows_moves(Language::Python).await
}

#[tokio::test]
async fn grpc_javascript_follows_moves() -> Result<()> {
    grpc_follows_moves(Language::JavaScript).await
}

#[tokio::test]
async fn grpc_reports_a_target_that_does_not_exist() -> Result<()> {
    let backend = Backend::start("only").await?;
    let server = world(&backend).await?;
    let mut client = GrpcClient::start(Language::Python, &GrpcConfig::new(server.addr())).await?;
    ensure!(client.call(TARGET, SOON, true).await?.ok, "the target that exists");
    let called = client.call("other.test:80", Duration::from_secs(3), false).await?;
    ensure!(!called.ok, "a call to nowhere: {called:?}");
    Ok(())
}
