//! HTTP through real Envoy while its endpoints move: at least 200 requests per second on 8 connections, without
//! retries, 100 moves, and no failed request. As a sidecar whose listeners, routes, clusters and endpoints all
//! come from the server, and as an Envoy with its own listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tributary_suites::{
    Backend, Entry, Envoy, EnvoyConfig, Files, Load, LoadPlan, ServerOptions, Tally, TestServer, Variant,
    eventually, moves, nowhere, outbound, ports,
};

const SOON: Duration = Duration::from_secs(20);
const MOVES: usize = 100;
const HOST: &str = "echo.test";

/// A server over one ServiceEntry with one backend.
struct World {
    files: Files,
    server: TestServer,
    port: u16,
    first: Backend,
}

async fn world() -> Result<World> {
    let (files, port, first) = (Files::new()?, ports::free_port()?, Backend::start("first").await?);
    serve(&files, port, &[first.addr()])?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    Ok(World { files, server, port, first })
}

fn serve(files: &Files, port: u16, hosts: &[SocketAddr]) -> Result<()> {
    files.put("echo.yaml", &Entry::http(HOST, port).all(hosts).yaml())
}

/// Moves under load on a listener; asserts that all requests succeeded and every move was fast enough.
async fn clean_moves(world: World, envoy: &Envoy, plan: &LoadPlan) -> Result<()> {
    let World { files, server, port, first } = world;
    let cluster = outbound(port, HOST);
    let set = async |hosts: &[SocketAddr]| serve(&files, port, hosts);
    let moved =
        moves::through_listener(envoy, &plan.clone().at_least(200.0), &cluster, first, MOVES, set).await?;
    moved.tally.check_clean()?;
    ensure!(moved.slowest() < Duration::from_secs(5), "a move took {:?}", moved.slowest());
    check_taken(envoy, &moved.tally).await?;
    drop(server);
    Ok(())
}

/// Asserts that nothing was rejected or retried, and that Envoy's own counters show no failure.
async fn check_taken(envoy: &Envoy, tally: &Tally) -> Result<()> {
    assert_eq!(envoy.refused().await?, 0);
    assert_eq!(envoy.warming_clusters().await?, 0);
    ensure!(tally.answers.len() > MOVES / 2, "few backends were reached: {:?}", tally.answers);
    Ok(())
}

async fn sidecar_moves(variant: Variant) -> Result<()> {
    let world = world().await?;
    let envoy = Envoy::start(&EnvoyConfig::new(world.server.xds(), variant).sidecar("moves")).await?;
    envoy.live(SOON).await?;
    let plan = LoadPlan::to(SocketAddr::from((Ipv4Addr::LOCALHOST, world.port))).host(HOST);
    clean_moves(world, &envoy, &plan).await
}

async fn explicit_moves(variant: Variant) -> Result<()> {
    let world = world().await?;
    let cluster = outbound(world.port, HOST);
    let envoy = Envoy::start(&EnvoyConfig::new(world.server.xds(), variant).listen_for(&cluster)).await?;
    envoy.live(SOON).await?;
    let plan = LoadPlan::to(envoy.listener(0)?);
    clean_moves(world, &envoy, &plan).await
}

#[tokio::test]
async fn sidecar_follows_moves_under_load_sotw() -> Result<()> {
    sidecar_moves(Variant::Sotw).await
}

#[tokio::test]
async fn sidecar_follows_moves_under_load_delta() -> Result<()> {
    sidecar_moves(Variant::Delta).await
}

#[tokio::test]
async fn explicit_envoy_follows_moves_under_load_sotw() -> Result<()> {
    explicit_moves(Variant::Sotw).await
}

#[tokio::test]
async fn explicit_envoy_follows_moves_under_load_delta() -> Result<()> {
    explicit_moves(Variant::Delta).await
}

/// An Envoy that defines its clusters itself and requests only endpoints.
#[tokio::test]
async fn envoy_with_static_clusters_is_given_endpoints() -> Result<()> {
    let World { files, server, port, first } = world().await?;
    let cluster = outbound(port, HOST);
    for variant in Variant::BOTH {
        let config = EnvoyConfig::new(server.xds(), variant).static_cluster(&cluster).listen_for(&cluster);
        let envoy = Envoy::start(&config).await?;
        envoy.has_hosts(&cluster, &[first.addr()], SOON).await?;
        let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
        load.reaches("first", 10, SOON).await?;
        let second = Backend::start("second").await?;
        serve(&files, port, &[first.addr(), second.addr()])?;
        load.reaches("second", 10, SOON).await?;
        serve(&files, port, &[first.addr()])?;
        envoy.has_hosts(&cluster, &[first.addr()], SOON).await?;
        load.finish().await.check_clean()?;
    }
    Ok(())
}

/// Traffic continues while the server is killed and restarted: Envoy's state is sufficient, and the next stream
/// is followed.
#[tokio::test]
async fn traffic_outlives_the_server() -> Result<()> {
    let World { files, server, port, first } = world().await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("outlives")).await?;
    envoy.live(SOON).await?;
    let load = Load::start(&LoadPlan::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).host(HOST));
    load.reaches("first", 10, SOON).await?;
    let second = Backend::start("second").await?;
    let set = || serve(&files, port, &[first.addr(), second.addr()]);
    let _server = server.restart_after(set).await?;
    load.reaches("second", 50, SOON).await?;
    load.finish().await.check_clean()
}

/// A request to an endpoint that refuses it is tried at another one.
#[tokio::test]
async fn refused_requests_are_tried_at_other_endpoints() -> Result<()> {
    let World { files, server, port, first } = world().await?;
    serve(&files, port, &[first.addr(), nowhere(77)])?;
    for variant in Variant::BOTH {
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("retries")).await?;
        envoy.has_hosts(&outbound(port, HOST), &[first.addr(), nowhere(77)], SOON).await?;
        envoy.live(SOON).await?;
        let load = Load::start(&LoadPlan::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).host(HOST));
        // Envoy selects at random: now and then all of its attempts find the endpoint that refuses.
        let retried = format!("cluster.{}.upstream_rq_retry_success", outbound(port, HOST));
        envoy.stat_is(&retried, SOON, |requests| requests >= 20).await?;
        load.finish().await;
        let dump = envoy.config_dump().await?.to_string();
        ensure!(dump.contains("\"stream_idle_timeout\":\"0s\""), "streams may not be idle: {dump}");
    }
    Ok(())
}

/// A sidecar with addresses of both families accepts connections over both.
#[tokio::test]
async fn a_sidecar_of_both_families_listens_on_both() -> Result<()> {
    let world = world().await?;
    let binding = json!({"INTERCEPTION_MODE": "NONE", "INSTANCE_IPS": "10.0.0.1,fd00::1"});
    for variant in Variant::BOTH {
        let config = EnvoyConfig::new(world.server.xds(), variant).sidecar("both").metadata(binding.clone());
        let envoy = Envoy::start(&config).await?;
        envoy.live(SOON).await?;
        for local in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let load = Load::start(&LoadPlan::to(SocketAddr::new(local, world.port)).host(HOST));
            load.reaches("first", 10, SOON).await?;
            load.finish().await.check_clean()?;
        }
        assert_eq!(envoy.refused().await?, 0);
        let config = EnvoyConfig::new(world.server.xds(), variant).captured_sidecar("both");
        let envoy = Envoy::start(&config.metadata(json!({"INSTANCE_IPS": "10.0.0.1,fd00::1"}))).await?;
        envoy.live(SOON).await?;
        for to in ["192.0.2.9", "fd00::9"] {
            let to = SocketAddr::new(to.parse()?, world.port);
            assert_eq!(envoy.redirected(to, HOST).await?, "first", "redirected from {to}");
        }
    }
    Ok(())
}

/// A redirected connection reaches a TCP service at its endpoint, and any other destination itself.
#[tokio::test]
async fn redirected_tcp_reaches_the_service_of_its_destination() -> Result<()> {
    let (files, port) = (Files::new()?, ports::free_port()?);
    let at = |last: u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port));
    let mut backends = Vec::new();
    for (name, last) in [("a", 11), ("b", 12), ("stranger", 13)] {
        backends.push(Backend::start_at(name, at(last)).await?);
    }
    let entry = |host: &str, last| Entry::http(host, port).protocol("TCP").at(at(last));
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    for variant in Variant::BOTH {
        files.put("a.yaml", &entry("a.test", 11).yaml())?;
        files.put("b.yaml", &entry("b.test", 12).yaml())?;
        let envoy =
            Envoy::start(&EnvoyConfig::new(server.xds(), variant).captured_sidecar("captured")).await?;
        let has = async |name: &str, wanted: bool| {
            eventually("the listener of an endpoint", SOON, || async {
                ensure!(envoy.listeners().await?.contains(name) == wanted, "{name} is not as wanted");
                Ok(())
            })
            .await
        };
        let [of_a, of_b] = [11, 12].map(|last| format!("127.0.0.{last}_{port}"));
        has(&of_a, true).await?;
        has(&of_b, true).await?;
        for backend in &backends {
            assert_eq!(envoy.redirected(backend.addr(), HOST).await?, backend.name());
        }
        for (listener, connections) in [(&*of_a, 1), (&*of_b, 1), ("elsewhere", 1)] {
            let name = format!("tcp.{listener}.downstream_cx_total");
            assert_eq!(envoy.stat(&name).await?, connections, "{name}");
        }
        files.put("b.yaml", &Entry::http("b.test", port).protocol("TCP").yaml())?;
        has(&of_b, false).await?;
        assert_eq!(envoy.redirected(at(12), HOST).await?, "b", "without endpoints it takes no connection");
        assert_eq!(envoy.stat("tcp.elsewhere.downstream_cx_total").await?, 2);
    }
    Ok(())
}

/// The route separates services of one port by host, and listeners follow their services.
#[tokio::test]
async fn a_sidecar_routes_by_host_and_follows_services() -> Result<()> {
    let World { files, server, port, first } = world().await?;
    for variant in Variant::BOTH {
        let other = Backend::start("other").await?;
        let entry = Entry::http("other.test", port).at(other.addr());
        files.put("other.yaml", &entry.yaml())?;
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("routes")).await?;
        envoy.live(SOON).await?;
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        for (host, name) in [(HOST, first.name()), ("other.test", "other")] {
            let load = Load::start(&LoadPlan::to(target).host(host));
            load.reaches(name, 10, SOON).await?;
            let tally = load.finish().await;
            tally.check_clean()?;
            assert_eq!(tally.of(name), tally.answered(), "{host} was answered by {:?}", tally.answers);
        }
        let apart = ports::free_port()?;
        files.put("other.yaml", &Entry::http("other.test", apart).at(other.addr()).yaml())?;
        let load =
            Load::start(&LoadPlan::to(SocketAddr::from((Ipv4Addr::LOCALHOST, apart))).host("other.test"));
        load.reaches("other", 10, SOON).await?;
        files.remove("other.yaml")?;
        eventually("its listener to be gone", SOON, || async {
            ensure!(!envoy.listeners().await?.contains(&format!("127.0.0.1_{apart}")), "it is there");
            Ok(())
        })
        .await?;
        ensure!(envoy.listeners().await?.contains(&format!("127.0.0.1_{port}")), "the other one went too");
    }
    Ok(())
}
