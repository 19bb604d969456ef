//! DestinationRules and VirtualServices of a real API server, while clients hold their subsets and routes: what the server
//! cannot read, and a start without the API server, change no xDS cluster, no assignment and no route.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use tributary_suites::ads::{CDS, EDS, RDS, node};
use tributary_suites::kube::api::{Named, documents};
use tributary_suites::kube::{Login, READ, READABLE, Watched, mk_namespace, without};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually};

const SOON: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(2);
const KIND: &str = "networking.istio.io/destinationrules";
const ROUTES: &str = "networking.istio.io/virtualservices";

const SERVICE: &str = r#"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec:
  hosts: [far.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.9.0.1, labels: {version: v1}}, {address: 10.9.0.2, labels: {version: v2}}]
"#;

/// A rule with a limit and subsets, each with the label `version` of its name.
fn rule(limit: u32, subsets: &[&str]) -> String {
    let subsets: Vec<String> =
        subsets.iter().map(|name| format!("{{name: {name}, labels: {{version: {name}}}}}")).collect();
    format!(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: far, namespace: shop}}\nspec:\n  \
         host: far.example.com\n  trafficPolicy: {{connectionPool: {{tcp: {{maxConnections: {limit}}}}}}}\n  \
         subsets: [{}]\n",
        subsets.join(", ")
    )
}

/// A VirtualService with one route of this name, which a delegate has.
fn routed(name: &str) -> String {
    let object = "apiVersion: networking.istio.io/v1\nkind: VirtualService\n";
    format!(
        "{object}metadata: {{name: far, namespace: shop}}\n\
         spec: {{hosts: [far.example.com], http: [{{name: all, delegate: {{name: part}}}}]}}\n---\n\
         {object}metadata: {{name: part, namespace: shop}}\n\
         spec: {{http: [{{name: {name}, route: [{{destination: {{host: far.example.com}}}}]}}]}}\n"
    )
}

fn part(subset: &str) -> String {
    format!("outbound|80|{subset}|far.example.com")
}

async fn cluster() -> Result<ApiServer> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    api.apply_all(&[mk_namespace("shop"), mk_namespace("tributary-system")]).await?;
    api.apply_all(&documents(SERVICE)?).await?;
    api.apply_all(&documents(&rule(3, &["v1"]))?).await?;
    api.allow("reader", &READ, &READABLE).await?;
    Ok(cluster)
}

type Versions = [BTreeMap<String, String>; 2];

fn versions(client: &Follower) -> Versions {
    [client.versions(CDS), client.versions(EDS)]
}

/// Connects a client and waits for the endpoint of a subset.
async fn follow(server: &TestServer, subset: &str) -> Result<Follower> {
    let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("first")).await?;
    client.has_endpoints(&part(subset), &["10.9.0.1:80".parse()?], SOON).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

/// Returns the name of the first route of the service.
fn first_route(client: &Follower) -> Option<String> {
    let table: RouteConfiguration = client.decode(RDS, "80").ok()?;
    let host = table.virtual_hosts.into_iter().find(|host| host.name == "far.example.com:80")?;
    Some(host.routes.first()?.name.clone())
}

async fn has_route(client: &mut Follower, name: &str) -> Result<()> {
    let found = |now: &Follower| (first_route(now)? == name).then_some(());
    client.until(&format!("the route {name}"), SOON, found).await?;
    client.settle(QUIET).await.map(drop)
}

/// Connects a sidecar and waits for a route of the service.
async fn follow_routes(server: &TestServer, name: &str) -> Result<Follower> {
    let id = node("sidecar~10.0.0.1~web.shop~shop.svc.cluster.local");
    let mut client = Follower::connect(server.xds(), Variant::Delta, id).await?;
    client.subscribe(RDS, &["80"])?;
    has_route(&mut client, name).await?;
    Ok(client)
}

#[tokio::test]
async fn routes_stay_while_virtual_services_are_forbidden_and_follow_their_definition() -> Result<()> {
    let cluster = cluster().await?;
    cluster.api().apply_all(&documents(&routed("first"))?).await?;
    let (server, _config) = Watched::by(&cluster, &Login::user("reader"))?.start().await?;
    let mut client = follow_routes(&server, "all-first").await?;
    let before = client.versions(RDS);
    cluster.api().allow("reader", &READ, &without(ROUTES)).await?;
    cluster.restart().await?;
    eventually("the missing right", SOON, || async {
        let shown = server.registry("kubernetes-entries").await?.to_string();
        ensure!(shown.contains("watch of virtualservices: the right is missing"), "{shown}");
        Ok(())
    })
    .await?;
    cluster.api().apply_all(&documents(&routed("second"))?).await?;
    client.settle(QUIET).await?;
    ensure!(client.versions(RDS) == before, "the routes changed: {:?}", first_route(&client));
    cluster.api().allow("reader", &READ, &READABLE).await?;
    has_route(&mut client, "all-second").await?;
    let after = client.versions(RDS);
    // without their definition each service has its usual route; with it again, everything is as before
    let definition = Named::of(&documents(include_str!("../crds/virtualservices.yaml"))?[0])?;
    cluster.api().remove(&definition).await?;
    has_route(&mut client, "default").await?;
    cluster.api().define().await?;
    cluster.api().apply_all(&documents(&routed("second"))?).await?;
    has_route(&mut client, "all-second").await?;
    ensure!(client.versions(RDS) == after, "{after:?}, then {:?}", client.versions(RDS));
    Ok(())
}

#[tokio::test]
async fn subsets_stay_while_rules_are_forbidden_and_follow_their_definition() -> Result<()> {
    let cluster = cluster().await?;
    let (server, _config) = Watched::by(&cluster, &Login::user("reader"))?.start().await?;
    let mut client = follow(&server, "v1").await?;
    let before = versions(&client);
    // a 403 is no evidence, and an edit that cannot be read changes nothing
    cluster.api().allow("reader", &READ, &without(KIND)).await?;
    cluster.restart().await?;
    eventually("the missing right", SOON, || async {
        let shown = server.registry("kubernetes-entries").await?.to_string();
        ensure!(shown.contains("watch of destinationrules: the right is missing"), "{shown}");
        Ok(())
    })
    .await?;
    cluster.api().apply_all(&documents(&rule(4, &["v1", "v2"]))?).await?;
    client.settle(QUIET).await?;
    ensure!(versions(&client) == before, "{before:?}, then {:?}", versions(&client));
    // with the right, the edit arrives: the limit in both xDS clusters, the endpoints of v1 unchanged
    cluster.api().allow("reader", &READ, &READABLE).await?;
    client.has_endpoints(&part("v2"), &["10.9.0.2:80".parse()?], SOON).await?;
    client.settle(QUIET).await?;
    let after = versions(&client);
    ensure!(
        after[0][&part("v1")] != before[0][&part("v1")] && after[1][&part("v1")] == before[1][&part("v1")]
    );
    // without their definition there are no rules; with it again, everything is as before
    let definition = Named::of(&documents(include_str!("../crds/destinationrules.yaml"))?[0])?;
    cluster.api().remove(&definition).await?;
    let parts: BTreeSet<String> = ["v1", "v2"].map(part).into();
    client.until("the subsets to go", SOON, |now| now.names(CDS).is_disjoint(&parts).then_some(())).await?;
    cluster.api().define().await?;
    cluster.api().apply_all(&documents(&rule(4, &["v1", "v2"]))?).await?;
    client.has_endpoints(&part("v2"), &["10.9.0.2:80".parse()?], SOON).await?;
    client.settle(QUIET).await?;
    ensure!(versions(&client) == after, "{after:?}, then {:?}", versions(&client));
    Ok(())
}

#[tokio::test]
async fn subsets_and_routes_outlive_a_restart_without_the_api_server() -> Result<()> {
    let cluster = cluster().await?;
    cluster.api().apply_all(&documents(&routed("first"))?).await?;
    let state = tempfile::tempdir()?;
    let path = state.path().to_string_lossy();
    let watched = Watched::by(&cluster, &Login::user("reader"))?.arg("--state-dir").arg(&path);
    let watched = watched.arg("--first-sync-timeout").arg("1s");
    let held = async |server: &TestServer| -> Result<_> {
        let routes = follow_routes(server, "all-first").await?.versions(RDS);
        Ok((versions(&follow(server, "v1").await?), routes))
    };
    let (server, _config) = watched.start().await?;
    let before = held(&server).await?;
    server.stop(SOON).await?;
    cluster.daemon().kill();
    let (server, _config) = watched.start().await?;
    let after = held(&server).await?;
    ensure!(after == before, "{before:?}, then {after:?}");
    Ok(())
}
