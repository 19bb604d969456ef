//! A cluster that changes under a running server: kinds that are defined later, namespaces that are selected
//! and deselected, Services that are exported automatically, and the minimal command line.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::{CDS, node};
use tributary_suites::kube::api::documents;
use tributary_suites::kube::marks::is_not_the_tests;
use tributary_suites::kube::{KubeApi, Login, Marks, Watched, With, mk_namespace, mk_service, mk_slice};
use tributary_suites::{ApiServer, Follower, ServerOptions, TestServer, Variant, eventually, outbound};

const SOON: Duration = Duration::from_secs(30);

/// Returns the hosts of the xDS clusters that a client holds.
fn hosts(client: &Follower) -> BTreeSet<String> {
    let names = client.names(CDS);
    let hosts = names.iter().filter_map(|name| name.rsplit_once("||").map(|(_, host)| host.to_owned()));
    hosts.filter(|host| !is_not_the_tests(host)).collect()
}

fn set(hosts: &[&str]) -> BTreeSet<String> {
    hosts.iter().map(|host| format!("{host}.svc.cluster.local")).collect()
}

async fn client(server: &TestServer) -> Result<Follower> {
    Follower::like_envoy(server.xds(), Variant::Delta, node("follower")).await
}

/// `tributary serve --registry kubernetes` and a kubeconfig are sufficient.
#[tokio::test]
async fn one_flag_and_a_kubeconfig_serve_a_cluster() -> Result<()> {
    let cluster = ApiServer::start().await?;
    cluster
        .api()
        .apply_all(&[
            mk_namespace("shop"),
            mk_service("shop", "pay", &[("http", 80, 8080)]),
            mk_slice("shop", "pay", "pay-1", &["10.1.0.1"], &[("http", 8080)]),
        ])
        .await?;
    let kubeconfig = cluster.admin_kubeconfig()?.display().to_string();
    let flags = ServerOptions::default().arg("--registry").arg("kubernetes");
    let server = TestServer::start(flags.clone().arg("--kubeconfig").arg(&kubeconfig)).await?;
    let mut first = client(&server).await?;
    let name = outbound(80, "pay.shop.svc.cluster.local");
    first.has_endpoints(&name, &["10.1.0.1:8080".parse()?], SOON).await?;
    // The variable has the same effect as the flag.
    let other = TestServer::start(flags.env("KUBECONFIG", &kubeconfig)).await?;
    let mut second = client(&other).await?;
    second.has_endpoints(&name, &["10.1.0.1:8080".parse()?], SOON).await?;
    // Both servers converge; each sees the API server's own objects at its own time.
    for _ in 0..2 {
        let other = second.versions(CDS);
        first.until("what the other holds", SOON, |now| (now.versions(CDS) == other).then_some(())).await?;
        std::mem::swap(&mut first, &mut second);
    }
    let (status, out, _) = server.command(&["get", "services"]).await?;
    ensure!(status.success() && out.contains("pay.shop.svc.cluster.local"), "{out}");
    Ok(())
}

const ENTRY: &str = "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: far, namespace: shop}, \
    spec: {hosts: [far.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, \
    endpoints: [{address: 10.9.0.1}]}}";

/// A cluster without custom resources is complete; when they are defined, they are followed without a restart.
#[tokio::test]
async fn kinds_defined_at_runtime_are_followed() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.apply_all(&[mk_namespace("shop"), mk_service("shop", "pay", &[("http", 80, 80)])]).await?;
    let (server, _config) = Watched::by_admin(&cluster)?.start().await?;
    let mut follower = client(&server).await?;
    follower.until("the Service", SOON, |now| (hosts(now) == set(&["pay.shop"])).then_some(())).await?;
    server.kubernetes_is("Live", &[], SOON).await?;

    api.define().await?;
    api.apply(&documents(ENTRY)?[0]).await?;
    follower.has_endpoints(&outbound(80, "far.example.com"), &["10.9.0.1:80".parse()?], SOON).await?;
    let exported = documents(
        "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: pay, namespace: shop}}",
    )?;
    api.apply(&exported[0]).await?;
    server.kubernetes_is("Live", &[], SOON).await.map(drop)
}

/// The Lease holder exports each Service and owns the export; another replica takes over when the holder is
/// killed.
#[tokio::test]
async fn lease_holder_exports_services() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    api.apply_all(&[mk_namespace("tributary-system"), mk_namespace("shop")]).await?;
    let config = Watched::by_admin(&cluster)?.config("writes: [serviceExports]");
    let (holder, _config) = config.start().await?;
    let exported = |name: &'static str| async move {
        let owner = api.apply(&mk_service("shop", name, &[("http", 80, 80)])).await?;
        eventually("its export", SOON, || async {
            let all = api.list("multicluster.x-k8s.io/v1alpha1", "ServiceExport").await?;
            let export = all.iter().find(|export| export["metadata"]["name"] == name).context("none yet")?;
            let uid = &export["metadata"]["ownerReferences"][0]["uid"];
            ensure!(*uid == owner["metadata"]["uid"], "{export}");
            Ok(())
        })
        .await
    };
    exported("pay").await?;
    let _other = config.start().await?;
    drop(holder);
    exported("cart").await
}

/// A namespace's objects follow its selection, and a file registry beside it is unaffected.
#[tokio::test]
async fn namespaces_are_selected_and_deselected_while_running() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    let mesh = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "tributary-system", "name": "istio"},
        "data": {"mesh": "discoverySelectors:\n- matchLabels: {discovery: enabled}\n"},
    });
    api.apply_all(&[mk_namespace("tributary-system"), mesh.clone()]).await?;
    let selected = json!({"metadata": {"labels": {"discovery": "enabled"}}});
    for (namespace, labels) in [("shop", selected.clone()), ("web", json!({}))] {
        api.apply(&mk_namespace(namespace).with(labels)).await?;
        api.apply(&mk_service(namespace, "pay", &[("http", 80, 80)])).await?;
        api.apply(&mk_slice(namespace, "pay", "pay-1", &["10.1.0.1"], &[("http", 80)])).await?;
    }
    let mut marks = Marks::new(api, false).await?;
    let (server, _config) = Watched::by_admin(&cluster)?.start().await?;
    let mut follower = client(&server).await?;
    marks.through(&mut [&mut follower]).await?;
    assert_eq!(hosts(&follower), set(&["pay.shop"]));

    api.apply(&mk_namespace("web").with(selected)).await?;
    follower.until("web", SOON, |now| (hosts(now) == set(&["pay.shop", "pay.web"])).then_some(())).await?;
    let name = outbound(80, "pay.web.svc.cluster.local");
    follower.has_endpoints(&name, &["10.1.0.1:80".parse()?], SOON).await?;
    // Changes made while it is deselected apply when it returns.
    api.apply(&mk_namespace("shop")).await?;
    follower.until("web alone", SOON, |now| (hosts(now) == set(&["pay.web"])).then_some(())).await?;
    api.apply(&mk_slice("shop", "pay", "pay-1", &["10.1.0.2"], &[("http", 80)])).await?;
    // Without the configuration every namespace counts.
    api.apply(&mesh.with(json!({"data": {"mesh": "{}"}}))).await?;
    let name = outbound(80, "pay.shop.svc.cluster.local");
    follower.has_endpoints(&name, &["10.1.0.2:80".parse()?], SOON).await?;
    follower.settle(Duration::from_millis(100)).await?;
    ensure!(set(&["pay.shop", "pay.web"]).is_subset(&hosts(&follower)), "{:?}", hosts(&follower));
    Ok(())
}

/// An account with permissions in two namespaces is sufficient for these two: their objects, custom ones
/// included, are followed, and a third namespace is never read.
#[tokio::test]
async fn namespaces_are_served_with_permissions_in_them_alone() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    api.apply(&mk_namespace("tributary-system")).await?;
    for namespace in ["shop", "web", "other"] {
        api.apply(&mk_namespace(namespace)).await?;
        api.apply(&mk_service(namespace, "pay", &[("http", 80, 80)])).await?;
        api.apply(&mk_slice(namespace, "pay", "pay-1", &["10.1.0.1"], &[("http", 80)])).await?;
        api.apply(
            &documents(&ENTRY.replace("shop", namespace).replace("far", &format!("far-{namespace}")))?[0],
        )
        .await?;
    }
    let watched = Watched::by(&cluster, &Login::user("reader"))?.registry("namespaces: [shop, web]");
    let (mut server, config) = watched.launch()?;
    grant(&server, &config, api).await?;
    server.ready(SOON).await?;
    let mut follower = client(&server).await?;
    let all: BTreeSet<String> = [
        "pay.shop.svc.cluster.local",
        "pay.web.svc.cluster.local",
        "far-shop.example.com",
        "far-web.example.com",
    ]
    .map(str::to_owned)
    .into();
    follower.until("both namespaces", SOON, |now| (hosts(now) == all).then_some(())).await?;
    for registry in ["kubernetes", "kubernetes-entries"] {
        server.registry_is(registry, "Live", &[], SOON).await?;
    }
    // The watch of the second namespace works as well as that of the first.
    for (namespace, ip) in [("web", "10.1.0.2"), ("shop", "10.1.0.3")] {
        api.apply(&mk_slice(namespace, "pay", "pay-1", &[ip], &[("http", 80)])).await?;
        let name = outbound(80, &format!("pay.{namespace}.svc.cluster.local"));
        follower.has_endpoints(&name, &[format!("{ip}:80").parse()?], SOON).await?;
    }
    follower.settle(Duration::from_millis(100)).await?;
    assert_eq!(hosts(&follower), all);
    Ok(())
}

/// Gives the user `reader` exactly the roles that the server prints.
async fn grant(server: &TestServer, config: &TempDir, api: &KubeApi) -> Result<()> {
    let file = config.path().join("config.yaml").display().to_string();
    let (status, roles, _) = server.run(&["rbac", "print", "--config", &file]).await?;
    ensure!(status.success(), "{roles}");
    for role in documents(&roles)? {
        api.apply(&for_user(role, "reader")).await?;
    }
    Ok(())
}

/// An account with the printed roles can make every write.
#[tokio::test]
async fn printed_roles_are_sufficient_for_addresses_and_exports() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    api.apply_all(&[mk_namespace("tributary-system"), mk_namespace("shop")]).await?;
    api.apply(&mk_service("shop", "pay", &[("http", 80, 80)])).await?;
    api.apply(&documents(&ENTRY.replace("STATIC", "DNS").replace("10.9.0.1", "far.example.com"))?[0]).await?;
    let watched =
        Watched::by(&cluster, &Login::user("reader"))?.config("writes: [addresses, serviceExports]");
    let (mut server, config) = watched.launch()?;
    grant(&server, &config, api).await?;
    server.ready(SOON).await?;
    eventually("the export", SOON, || async {
        let all = api.list("multicluster.x-k8s.io/v1alpha1", "ServiceExport").await?;
        ensure!(all.iter().any(|export| export["metadata"]["name"] == "pay"), "{all:?}");
        Ok(())
    })
    .await?;
    eventually("the addresses", SOON, || async {
        let all = api.list("networking.istio.io/v1", "ServiceEntry").await?;
        let given = all[0]["status"]["addresses"].as_array().map(Vec::len);
        ensure!(given.is_some_and(|count| count > 0), "{all:?}");
        Ok(())
    })
    .await
}

/// Binds these roles to this user in place of an account.
fn for_user(mut object: Value, user: &str) -> Value {
    if object.get("subjects").is_some() {
        object["subjects"] = json!([{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]);
    }
    object
}
