//! Objects of kinds that are not served, on a real API server: they are named with what that means for clients, and neither an
//! absent kind nor a missing right nor their end changes what clients receive.

use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::kube::api::{Named, documents};
use tributary_suites::kube::{Login, READ, READABLE, UNSERVED_CRDS, Watched, mk_namespace, without};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually, outbound};

const SOON: Duration = Duration::from_secs(90);
const KIND: &str = "telemetry.istio.io/telemetries";
const EFFECT: &str =
    "WasmPlugin is not served: clients behave as without it, and requests do not pass through its filter";

const SERVICE: &str = r#"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec: {hosts: [far.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.9.0.1}]}
"#;

const OBJECTS: &str = r#"
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: logs, namespace: shop}
spec: {accessLogging: [{disabled: true}]}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: auth, namespace: shop, annotations: {note: "any"}}
spec: {url: any}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: two, namespace: shop}
spec: {concurrency: 2}
"#;

async fn cluster() -> Result<ApiServer> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    api.apply_all(&[mk_namespace("shop"), mk_namespace("tributary-system")]).await?;
    api.apply_all(&documents(SERVICE)?).await?;
    api.allow("reader", &READ, &READABLE).await?;
    Ok(cluster)
}

async fn define(cluster: &ApiServer) -> Result<()> {
    cluster.api().apply_yaml(UNSERVED_CRDS).await?;
    for object in documents(OBJECTS)? {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        cluster.api().knows(&text("apiVersion"), &text("kind")).await?;
    }
    cluster.api().apply_all(&documents(OBJECTS)?).await
}

/// Waits for the names of the policies that a command lists.
async fn lists(server: &TestServer, args: &[&str], names: &[&str]) -> Result<()> {
    eventually(&format!("{args:?} to list {names:?}"), SOON, || async {
        let (_, shown, _) = server.command(&[&["get", "policies"], args, &["-o", "name"]].concat()).await?;
        let found: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("policies/")).collect();
        ensure!(found == names, "{shown}");
        Ok(())
    })
    .await
}

/// Waits until the only problems of the registry are those of the objects with these names.
async fn has_problems(server: &TestServer, names: &[&str]) -> Result<()> {
    eventually(&format!("the problems of {names:?}"), SOON, || async {
        let shown = server.registry("kubernetes-entries").await?;
        let problems = shown["problems"].as_array().cloned().unwrap_or_default();
        let found: Vec<&str> =
            problems.iter().filter_map(|problem| problem["object"]["name"].as_str()).collect();
        ensure!(found == names && shown["state"] == "Live", "{shown}");
        Ok(())
    })
    .await
}

async fn follow(server: &TestServer) -> Result<Follower> {
    let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("first")).await?;
    client.has_endpoints(&outbound(80, "far.example.com"), &["10.9.0.1:80".parse()?], SOON).await?;
    client.settle(Duration::from_secs(1)).await?;
    Ok(client)
}

#[tokio::test]
async fn unserved_objects_are_named_and_change_nothing() -> Result<()> {
    let cluster = cluster().await?;
    let watched = Watched::by(&cluster, &Login::user("reader"))?;
    let (server, _config) = watched.arg("--first-sync-timeout").arg("0").start().await?;
    let client = follow(&server).await?;
    let before = [client.versions(CDS), client.versions(EDS)];
    has_problems(&server, &[]).await?;
    define(&cluster).await?;
    has_problems(&server, &["two", "logs", "auth"]).await?;
    let telemetry = ["Telemetry/shop/logs"];
    lists(&server, &["Telemetry"], &telemetry).await?;
    lists(&server, &["shop/auth"], &["WasmPlugin/shop/auth"]).await?;
    let (_, shown, _) = server.command(&["get", "policies", "-o", "wide"]).await?;
    let row = shown.lines().find(|row| row.contains("auth")).unwrap_or_default();
    ensure!(row.contains("NotServed") && row.contains("TRB0327") && row.contains(EFFECT), "{shown}");
    let (_, shown, _) = server.command(&["get", "registries", "-o", "wide"]).await?;
    ensure!(shown.contains(EFFECT), "{shown}");
    let (status, shown, _) = server.command(&["analyze", "--live"]).await?;
    ensure!(status.success() && shown.contains("warning [WasmPlugin shop/auth]"), "{shown}");
    // an object that is deleted, and a definition that is, take their lines along
    let auth = documents(OBJECTS)?.into_iter().find(|object| object["kind"] == "WasmPlugin");
    cluster.api().remove(&Named::of(&auth.unwrap_or_default())?).await?;
    has_problems(&server, &["two", "logs"]).await?;
    cluster.api().remove(&Named::of(&documents(UNSERVED_CRDS)?[0])?).await?;
    has_problems(&server, &["two"]).await?;
    ensure!([client.versions(CDS), client.versions(EDS)] == before, "something was sent");
    Ok(())
}

#[tokio::test]
async fn right_to_unserved_kinds_is_not_missed() -> Result<()> {
    let cluster = cluster().await?;
    define(&cluster).await?;
    cluster.api().allow("reader", &READ, &without(KIND)).await?;
    let watched = Watched::by(&cluster, &Login::user("reader"))?;
    let (server, _config) = watched.arg("--first-sync-timeout").arg("0").start().await?;
    follow(&server).await?;
    has_problems(&server, &["two", "auth"]).await?;
    eventually("the missing right to be shown", SOON, || async {
        let (_, shown, _) = server.command(&["get", "registries", "-o", "wide"]).await?;
        let row = shown.lines().find(|row| row.contains(" telemetries ")).unwrap_or_default();
        ensure!(row.contains("Forbidden") && row.contains("nothing that clients receive"), "{shown}");
        Ok(())
    })
    .await?;
    // a busy API server can miss the time limit of a probe
    eventually("the registry to be live without a condition", SOON, || async {
        let shown = server.registry("kubernetes-entries").await?;
        ensure!(shown["state"] == "Live" && shown["reason"].as_str().is_none_or(str::is_empty), "{shown}");
        ensure!(shown["conditions"].as_array().is_none_or(Vec::is_empty), "{shown}");
        Ok(())
    })
    .await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    has_problems(&server, &["two", "logs", "auth"]).await
}
