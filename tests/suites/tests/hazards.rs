//! A world with every hazard that has made a data plane reject an assignment: one address in two registries and
//! in two localities, an endpoint whose address is a host name, weight 0, a priority left empty by a health
//! check, endpoints without a locality. Envoy on both protocols, gRPC's C core and grpc-js accept all of it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use tributary_suites::ads::EDS;
use tributary_suites::envoy::sidecar_id;
use tributary_suites::{
    Backend, Entry, Envoy, EnvoyConfig, Files, Follower, GrpcClient, GrpcConfig, Language, ServerOptions,
    TestServer, Variant, nowhere, ports,
};

const SOON: Duration = Duration::from_secs(20);

/// Two folders of the same world, and the backend nearest to a client in eu/a.
struct World {
    server: TestServer,
    backend: Backend,
    port: u16,
    _files: [Files; 2],
}

/// Returns an entry with one address in several places, weight 0, and no locality.
fn doubled(backend: &Backend, port: u16) -> Entry {
    Entry::http("doubled.test", port)
        .protocol("GRPC")
        .distribution("PreferClose")
        .with(backend.addr(), "locality: eu/a, weight: 0")
        .with(nowhere(2), "locality: eu/b")
        .with(nowhere(2), "locality: us/c, weight: 5")
        .with(nowhere(2), "locality: eu/b")
        .at(nowhere(3))
        .with(nowhere(4), "weight: 0")
}

/// Returns the same service as another registry reports it.
fn doubled_again(port: u16) -> Entry {
    Entry::http("doubled.test", port)
        .protocol("GRPC")
        .with(nowhere(2), "locality: ap/d")
        .with(nowhere(5), "locality: eu/b, weight: 0")
        .at(nowhere(3))
}

/// Returns it again, by name: endpoints that another declaration resolves by DNS are not among addresses.
fn doubled_by_name(port: u16) -> String {
    let yaml = Entry::http("doubled.test", port).protocol("GRPC").near(nowhere(6), "eu/a").yaml();
    let yaml = yaml.replace("name: doubled-test", "name: doubled-by-name");
    yaml.replace("resolution: STATIC", "resolution: DNS").replace("127.0.0.6", "db.example.com")
}

fn workload(name: &str, at: SocketAddr, locality: &str, more: &str) -> String {
    let (ip, port) = (at.ip(), at.port());
    format!(
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: {name}\n  namespace: default\n\
         {more}spec:\n  address: {ip}\n  ports: {{main: {port}}}\n  labels: {{app: gapped}}\n  locality: {locality}\n"
    )
}

const CHECKED: &str = "  annotations: {proxy.istio.io/health-checks-enabled: \"true\"}\n";

/// Returns workloads in three zones; those of the middle one fail their health checks.
fn gapped(backend: &Backend, port: u16) -> Vec<String> {
    let entry = Entry::http("gapped.test", port).protocol("GRPC").distribution("PreferClose");
    vec![
        entry.selects("app", "gapped").yaml(),
        workload("near", backend.addr(), "eu/a", ""),
        workload("ill", nowhere(7), "eu/b", CHECKED),
        workload("far", nowhere(8), "us/c", ""),
    ]
}

async fn world() -> Result<World> {
    let (backend, port) = (Backend::start("near").await?, ports::free_port()?);
    let files = [Files::new()?, Files::new()?];
    files[0].put("doubled.yaml", &doubled(&backend, port).yaml())?;
    files[0].put("gapped.yaml", &gapped(&backend, port).join("---\n"))?;
    files[1].put("doubled.yaml", &doubled_again(port).yaml())?;
    files[1].put("named.yaml", &doubled_by_name(port))?;
    let options = ServerOptions::files(files[0].path()).and_files(files[1].path());
    let server = TestServer::start(options).await?;
    Ok(World { server, backend, port, _files: files })
}

impl World {
    fn doubled(&self) -> String {
        doubled(&self.backend, self.port).cluster()
    }

    fn gapped(&self) -> String {
        tributary_suites::outbound(self.port, "gapped.test")
    }
}

/// Asserts that the world has all hazards: the response is the strict form of each.
#[tokio::test]
async fn world_contains_every_hazard() -> Result<()> {
    let world = world().await?;
    let locality = Locality { region: "eu".to_owned(), zone: "a".to_owned(), sub_zone: String::new() };
    let node = Node { id: "raw".to_owned(), locality: Some(locality), ..Node::default() };
    let mut client = Follower::connect(world.server.xds(), Variant::Delta, node).await?;
    client.subscribe(EDS, &[&world.doubled(), &world.gapped()])?;
    let near = world.backend.addr();
    let hosts = [near, nowhere(2), nowhere(3), nowhere(4), nowhere(5)];
    client.has_endpoints(&world.doubled(), &hosts, SOON).await?;
    client.has_endpoints(&world.gapped(), &[near, nowhere(8)], SOON).await?;
    let listed = world.server.items("endpoints?host=doubled.test").await?;
    let registries: std::collections::BTreeSet<_> = listed
        .iter()
        .filter(|item| item["endpoint"] == "127.0.0.2:9")
        .map(|item| item["registry"].to_string())
        .collect();
    assert_eq!(registries.len(), 2, "one address of two registries: {listed:#?}");
    ensure!(listed.iter().any(|item| item["endpoint"] == "db.example.com:9"), "{listed:#?}");
    let priorities = client.decode::<ClusterLoadAssignment>(EDS, &world.gapped())?.endpoints;
    let priorities: Vec<u32> = priorities.iter().map(|locality| locality.priority).collect();
    assert_eq!(priorities, [0, 1], "the gap was not closed");
    Ok(())
}

async fn envoy_takes_all(variant: Variant) -> Result<()> {
    let world = world().await?;
    let config = EnvoyConfig::new(world.server.xds(), variant).sidecar("hazards").locality("eu", "a", "");
    let envoy = Envoy::start(&config).await?;
    envoy.live(SOON).await?;
    let near = world.backend.addr();
    let hosts = [near, nowhere(2), nowhere(3), nowhere(4), nowhere(5)];
    envoy.has_hosts(&world.doubled(), &hosts, SOON).await?;
    envoy.stat_is("cluster_manager.warming_clusters", SOON, |count| count == 0).await?;
    assert_eq!(envoy.refused().await?, 0);
    world.server.is_content(&sidecar_id("hazards"), SOON).await.map(drop)
}

#[tokio::test]
async fn hazards_are_taken_by_envoy_sotw() -> Result<()> {
    envoy_takes_all(Variant::Sotw).await
}

#[tokio::test]
async fn hazards_are_taken_by_envoy_delta() -> Result<()> {
    envoy_takes_all(Variant::Delta).await
}

/// A gRPC client in eu/a accepts everything, and calls reach the nearest backend.
async fn grpc_takes_all(language: Language) -> Result<()> {
    let world = world().await?;
    let config = GrpcConfig::new(world.server.xds()).locality("eu", "a", "");
    let mut client = GrpcClient::start(language, &config).await?;
    for host in ["doubled.test", "gapped.test"] {
        let target = format!("{host}:{}", world.port);
        let called = client.call(&target, SOON, true).await?;
        ensure!(called.ok && called.backend == "near", "{target}: {called:?}");
    }
    world.server.is_content("grpc-under-test", SOON).await.map(drop)
}

#[tokio::test]
async fn hazards_are_taken_by_grpc_core() -> Result<()> {
    grpc_takes_all(Language::Python).await
}

#[tokio::test]
async fn hazards_are_taken_by_grpc_javascript() -> Result<()> {
    grpc_takes_all(Language::JavaScript).await
}
