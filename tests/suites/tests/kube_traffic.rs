//! Traffic to a cluster's endpoints: through real Envoy and real gRPC, while EndpointSlices are written to a
//! real API server as their controller would write them, and while the API server is down. No request may fail.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tributary_suites::kube::{Watched, With, mk_namespace, mk_service, mk_slices};
use tributary_suites::{
    ApiServer, Backend, Envoy, EnvoyConfig, GrpcClient, GrpcConfig, Language, Load, LoadPlan, TestServer,
    Variant, moves, outbound, ports,
};

const SOON: Duration = Duration::from_secs(20);
const MOVES: usize = 30;
const HOST: &str = "pay.shop.svc.cluster.local";

/// A cluster with one Service and one backend, watched.
struct World {
    cluster: ApiServer,
    server: TestServer,
    first: Backend,
    port: u16,
    _config: TempDir,
}

/// Starts a world whose Service port has this name; its prefix selects the protocol.
async fn world(port_name: &str) -> Result<World> {
    let (cluster, port) = (ApiServer::start().await?, ports::free_port()?);
    let first = Backend::start_on("first", ports::own_ip()?).await?;
    cluster.api().apply(&mk_namespace("shop")).await?;
    let service = mk_service("shop", "pay", &[("main", port, port)]);
    let named = json!({"spec": {"ports": [{"name": port_name, "port": port, "protocol": "TCP"}]}});
    cluster.api().apply(&service.with(named)).await?;
    set(&cluster, port_name, &[first.addr()]).await?;
    let (server, config) = Watched::by_admin(&cluster)?.start().await?;
    Ok(World { cluster, server, first, port, _config: config })
}

async fn set(cluster: &ApiServer, port_name: &str, hosts: &[SocketAddr]) -> Result<()> {
    cluster.api().set_slices("shop", "pay", &mk_slices("shop", "pay", port_name, hosts)).await
}

#[tokio::test]
async fn envoy_follows_slices_under_load() -> Result<()> {
    let World { cluster, server, first, port, _config } = world("http").await?;
    let name = outbound(port, HOST);
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).listen_for(&name)).await?;
    envoy.live(SOON).await?;
    let plan = LoadPlan::to(envoy.listener(0)?);
    let put = async |hosts: &[SocketAddr]| set(&cluster, "http", hosts).await;
    let moved = moves::through_listener(&envoy, &plan, &name, first, MOVES, put).await?;
    moved.tally.check_clean()?;
    ensure!(moved.slowest() < Duration::from_secs(5), "a move took {:?}", moved.slowest());
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

#[tokio::test]
async fn grpc_follows_slices_under_load() -> Result<()> {
    let World { cluster, server, first, port, _config } = world("grpc").await?;
    let config = GrpcConfig::new(server.xds());
    let mut client = GrpcClient::start(Language::Python, &config).await?;
    let put = async |hosts: &[SocketAddr]| set(&cluster, "grpc", hosts).await;
    let target = format!("{HOST}:{port}");
    let moved = moves::through_grpc(&mut client, &target, first, 10, put).await?;
    moved.tally.check_clean()
}

/// Law 2: an error is never a deletion. The API server is killed, then paused, without an effect on traffic;
/// writes meanwhile are followed when it returns.
#[tokio::test]
async fn calls_continue_without_the_api_server() -> Result<()> {
    let World { cluster, server, first, port, _config } = world("http").await?;
    let name = outbound(port, HOST);
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Sotw).listen_for(&name)).await?;
    envoy.has_hosts(&name, &[first.addr()], SOON).await?;
    let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
    load.reaches("first", 10, SOON).await?;
    cluster.daemon().kill();
    server.kubernetes_is("Unreachable", &[], SOON).await?;
    load.reaches("first", 300, SOON).await?;
    cluster.restart().await?;
    server.kubernetes_is("Live", &[], SOON).await?;
    let second = Backend::start_on("second", ports::own_ip()?).await?;
    set(&cluster, "http", &[first.addr(), second.addr()]).await?;
    load.reaches("second", 10, SOON).await?;
    cluster.daemon().pause().await?;
    server.kubernetes_is("Unreachable", &[], SOON).await?;
    load.reaches("second", 300, SOON).await?;
    cluster.daemon().resume()?;
    server.kubernetes_is("Live", &[], SOON).await?;
    set(&cluster, "http", &[second.addr()]).await?;
    envoy.has_hosts(&name, &[second.addr()], SOON).await?;
    load.reaches("second", 50, SOON).await?;
    load.finish().await.check_clean()
}
