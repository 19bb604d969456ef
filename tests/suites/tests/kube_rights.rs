//! Permissions that are revoked on a real API server, one kind at a time: while Tributary runs, at a restart of
//! its run, and by a narrower credential. A client that records every response sees no assignment shrink and no
//! xDS cluster removed, also when the permissions return.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::follower::address;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{
    ApiServerOptions, Login, READ, READABLE, Watched, With, mk_namespace, mk_node, mk_pod, mk_service,
    mk_slice, served, without,
};
use tributary_suites::{ApiServer, Etcd, Follower, TestServer, Variant, eventually, outbound};

/// Probes run every second here, and a rejected run retries within half a minute.
const SHOWN: Duration = Duration::from_secs(60);
const REGISTRIES: [&str; 2] = ["kubernetes", "kubernetes-entries"];

const CUSTOM: &str = r#"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec: {hosts: [far.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.9.0.1}, {address: 10.9.0.2}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms, namespace: shop}
spec: {hosts: [vms.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: vm}}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm-1, namespace: shop}
spec: {address: 10.2.0.1, labels: {app: vm}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm-2, namespace: shop}
spec: {address: 10.2.0.2, labels: {app: vm}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: pay, namespace: shop}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: vm, namespace: shop}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: pay, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.97.0.1], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: east, namespace: shop, labels: {topology.istio.io/network: n2}}
spec: {gatewayClassName: istio, addresses: [{value: 192.0.2.9}], listeners: [{name: tls, port: 15443, protocol: TLS, tls: {mode: Passthrough}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: tributary-system}
data: {mesh: "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"}
"#;

/// Assignments that a client holds. It belongs to no cluster, so it receives only exported services.
const SERVED: [(&str, &[&str]); 5] = [
    ("pay.shop.svc.cluster.local", &["10.1.0.1", "10.1.0.2"]),
    ("pay.shop.svc.clusterset.local", &["10.1.0.1", "10.1.0.2"]),
    ("vm.shop.svc.cluster.local", &["10.2.0.1", "10.2.0.2"]),
    ("far.example.com", &["10.9.0.1", "10.9.0.2"]),
    ("vms.example.com", &["10.2.0.1", "10.2.0.2"]),
];

async fn cluster(etcd: &Arc<Etcd>, prefix: &str) -> Result<ApiServer> {
    let cluster = ApiServer::start_with(ApiServerOptions::default().on(etcd, prefix)).await?;
    let api = cluster.api();
    api.define().await?;
    let slice = mk_slice("shop", "pay", "pay-1", &["10.1.0.1", "10.1.0.2"], &[("http", 80)]);
    let pod = json!({"kind": "Pod", "namespace": "shop", "name": "p1"});
    let mut slice = slice.with(json!({}));
    slice["endpoints"][0]["targetRef"] = pod;
    api.apply_all(&[
        mk_namespace("shop"),
        mk_namespace("tributary-system"),
        mk_node("n1", "eu", "a"),
        mk_pod("shop", "p1", "10.1.0.1", "n1", &[("app", "pay")]),
        mk_service("shop", "pay", &[("http", 80, 80)]),
        mk_service("shop", "vm", &[("http", 80, 80)]),
        slice,
    ])
    .await?;
    api.apply_all(&documents(CUSTOM)?).await?;
    Ok(cluster)
}

/// Returns the plural of a kind, without its group.
fn plural(kind: &str) -> &str {
    kind.rsplit('/').next().unwrap_or(kind)
}

fn watched(cluster: &ApiServer, login: &Login) -> Result<Watched> {
    Ok(Watched::by(cluster, login)?.registry("mcs: {host: true, discovery: true}"))
}

/// Returns both registries, as `/debug/registries` shows them.
async fn shown(server: &TestServer) -> Result<String> {
    let mut all = Vec::new();
    for registry in REGISTRIES {
        all.push(server.registry(registry).await?);
    }
    Ok(Value::Array(all).to_string())
}

async fn is_refused(server: &TestServer, kind: &str) -> Result<()> {
    let text = format!("of {}: the right is missing", plural(kind));
    eventually(&format!("{kind} to be refused"), SHOWN, || async {
        let shown = shown(server).await?;
        ensure!(shown.contains(&text), "{shown}");
        Ok(())
    })
    .await
}

/// Waits until every kind is read, and every collection followed.
async fn is_whole(server: &TestServer) -> Result<()> {
    eventually("every kind to be read", SHOWN, || async {
        for registry in REGISTRIES {
            let one = server.registry(registry).await?;
            let text = one.to_string();
            ensure!(one["state"] == "Live" && !text.contains("the right is missing"), "{text}");
            ensure!(!text.contains("\"Stale\""), "{text}");
        }
        Ok(())
    })
    .await
}

/// A client that records every response.
struct Recorder {
    client: Follower,
    served: BTreeMap<String, BTreeSet<String>>,
}

impl Recorder {
    /// Starts when everything is served.
    async fn start(server: &TestServer) -> Result<Self> {
        let client = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        let mut recorder = Self { client, served: BTreeMap::new() };
        for (host, ips) in SERVED {
            let name = outbound(80, host);
            let addresses: Vec<_> =
                ips.iter().map(|ip| Ok(format!("{ip}:80").parse()?)).collect::<Result<_>>()?;
            recorder.client.has_endpoints(&name, &addresses, SHOWN).await?;
            recorder.served.insert(name, addresses.iter().map(ToString::to_string).collect());
        }
        recorder.client.forget();
        Ok(recorder)
    }
    /// Asserts that no response since then removed anything that was served.
    async fn lost_nothing(&mut self, when: &str) -> Result<()> {
        self.lost_nothing_until_quiet_for(Duration::from_millis(200), when).await
    }
    /// As [`Recorder::lost_nothing`], for a run that may take this long to report.
    async fn lost_nothing_until_quiet_for(&mut self, span: Duration, when: &str) -> Result<()> {
        self.client.settle(span).await?;
        for answer in self.client.answers() {
            let gone: Vec<&String> =
                answer.removed.iter().filter(|name| self.served.contains_key(*name)).collect();
            ensure!(gone.is_empty() || ![CDS, EDS].contains(&&*answer.type_url), "{when}: {gone:?} went");
            for item in answer.resources.iter().filter(|_| answer.type_url == EDS) {
                let Some(served) = self.served.get(&item.name) else { continue };
                let assignment: ClusterLoadAssignment = answer.decode(&item.name)?;
                let all = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
                let now: BTreeSet<String> = all.filter_map(address).collect();
                ensure!(now.is_superset(served), "{when}: {} shrank to {now:?}", item.name);
            }
        }
        for (name, served) in &self.served {
            let now = self.client.endpoints(name)?;
            ensure!(now.is_superset(served), "{when}: {name} holds {now:?}");
        }
        Ok(())
    }
}

#[tokio::test]
async fn permissions_revoked_one_at_a_time_lose_nothing() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "running").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let (server, _config) = watched(&cluster, &Login::user("reader"))?.start().await?;
    let mut recorder = Recorder::start(&server).await?;
    for kind in served() {
        cluster.api().allow("reader", &READ, &without(kind)).await?;
        is_refused(&server, kind).await?;
        recorder.lost_nothing(&format!("without {kind}")).await?;
        cluster.api().allow("reader", &READ, &READABLE).await?;
        is_whole(&server).await?;
        recorder.lost_nothing(&format!("with {kind} again")).await?;
    }
    Ok(())
}

/// Removals of readable kinds apply while another kind is rejected.
#[tokio::test]
async fn removals_apply_while_another_kind_is_refused() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "removals").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let (server, _config) = watched(&cluster, &Login::user("reader"))?.start().await?;
    let mut recorder = Recorder::start(&server).await?;
    for kind in ["nodes", "networking.istio.io/workloadentries", "gateway.networking.k8s.io/gateways"] {
        cluster.api().allow("reader", &READ, &without(kind)).await?;
        is_refused(&server, kind).await?;
    }
    let slice = mk_slice("shop", "pay", "pay-1", &["10.1.0.2"], &[("http", 80)]);
    cluster.api().apply(&slice).await?;
    let name = outbound(80, "pay.shop.svc.cluster.local");
    recorder.client.has_endpoints(&name, &["10.1.0.2:80".parse()?], SHOWN).await
}

const ACCOUNT: &str = "default:trib";
/// The API server accepts a token for 60 s beyond its expiry.
const ENDS_SOON: SignedDuration = SignedDuration::from_secs(-15);

/// A token expires, and the account of its successor may read less: the run restarts with the successor.
#[tokio::test]
async fn permissions_revoked_at_a_restart_of_the_run_lose_nothing() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    for kind in ["networking.istio.io/workloadentries", "multicluster.x-k8s.io/serviceexports", "configmaps"]
    {
        let cluster = cluster(&etcd, plural(kind)).await?;
        let text = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: trib, namespace: default}}";
        let account = cluster.api().apply(&documents(text)?[0]).await?;
        let uid = account["metadata"]["uid"].as_str().context("no uid")?.to_owned();
        cluster.api().allow(ACCOUNT, &READ, &READABLE).await?;
        let token = |lasts| cluster.signer().token("default", "trib", &uid, lasts).map(Login::Token);
        let watched = watched(&cluster, &token(ENDS_SOON)?)?;
        let (server, _config) = watched.start().await?;
        let mut recorder = Recorder::start(&server).await?;
        for registry in REGISTRIES {
            server.registry_is(registry, "AuthFailed", &["401"], Duration::from_secs(90)).await?;
        }
        cluster.api().allow(ACCOUNT, &READ, &without(kind)).await?;
        let fresh = cluster.kubeconfig(&token(SignedDuration::from_hours(1))?)?;
        std::fs::rename(&fresh, watched.kubeconfig())?;
        is_refused(&server, kind).await?;
        let when = format!("begun again without {kind}");
        recorder.lost_nothing_until_quiet_for(Duration::from_secs(4), &when).await?;
        cluster.api().allow(ACCOUNT, &READ, &READABLE).await?;
        is_whole(&server).await?;
        recorder.lost_nothing(&format!("begun again, with {kind} again")).await?;
    }
    Ok(())
}

/// Sets another kubeconfig in the configuration file, which the server rereads.
fn exchange(config: &Path, old: &Watched, new: &Watched) -> Result<()> {
    let path = |watched: &Watched| watched.kubeconfig().display().to_string();
    let text = std::fs::read_to_string(config)?;
    ensure!(text.contains(&path(old)), "the configuration names {}", path(old));
    let fresh = config.with_extension("new");
    std::fs::write(&fresh, text.replace(&path(old), &path(new)))?;
    Ok(std::fs::rename(&fresh, config)?)
}

#[tokio::test]
async fn narrower_credential_loses_nothing() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "exchange").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let wide = watched(&cluster, &Login::user("reader"))?;
    let narrow = watched(&cluster, &Login::user("other"))?;
    let (server, folder) = wide.start().await?;
    let config = folder.path().join("config.yaml");
    let mut recorder = Recorder::start(&server).await?;
    for kind in served() {
        cluster.api().allow("other", &READ, &without(kind)).await?;
        exchange(&config, &wide, &narrow)?;
        eventually("the exchange to be taken up", SHOWN, || async {
            let shown = server.debug("config").await?.to_string();
            ensure!(shown.contains(&narrow.kubeconfig().display().to_string()), "{shown}");
            Ok(())
        })
        .await?;
        let when = format!("exchanged for one without {kind}");
        recorder.lost_nothing_until_quiet_for(Duration::from_secs(4), &when).await?;
        cluster.api().allow("other", &READ, &READABLE).await?;
        is_whole(&server).await?;
        recorder.lost_nothing(&format!("exchanged, with {kind} again")).await?;
        exchange(&config, &narrow, &wide)?;
        is_whole(&server).await?;
        recorder.lost_nothing("exchanged back").await?;
    }
    Ok(())
}

/// A missing permission can be repaired by another credential under the same path, without a restart of the
/// server.
#[tokio::test]
async fn kubeconfig_replaced_after_a_revocation_is_read_again() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "replaced").await?;
    for user in ["reader", "other"] {
        cluster.api().allow(user, &READ, &READABLE).await?;
    }
    let kind = "networking.istio.io/workloadentries";
    let reader = watched(&cluster, &Login::user("reader"))?;
    let (server, _config) = reader.start().await?;
    let mut recorder = Recorder::start(&server).await?;
    cluster.api().allow("reader", &READ, &without(kind)).await?;
    is_refused(&server, kind).await?;
    std::fs::rename(cluster.kubeconfig(&Login::user("other"))?, reader.kubeconfig())?;
    is_whole(&server).await?;
    recorder.lost_nothing("by another credential").await
}

/// A credential without rights proves nothing about the cluster, so no client receives an empty answer.
#[tokio::test]
async fn server_that_may_read_nothing_is_not_ready() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "nothing").await?;
    let (mut server, _config) = watched(&cluster, &Login::user("reader"))?.launch()?;
    eventually("all kinds to be refused", SHOWN, || async {
        let refused = shown(&server).await?.matches("Forbidden").count();
        ensure!(refused >= REGISTRIES.len(), "{refused}");
        Ok(())
    })
    .await?;
    let (status, body) = tributary_suites::http_client::get(server.admin(), "/readyz?verbose").await?;
    ensure!(!status.is_success() && body.contains("kubernetes"), "{status}: {body}");
    cluster.api().allow("reader", &READ, &READABLE).await?;
    server.ready(SHOWN).await?;
    is_whole(&server).await
}
