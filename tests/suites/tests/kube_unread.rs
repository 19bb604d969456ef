//! Servers that start without state on a real API server that refuses one kind. What was never read is unknown: clients of
//! another server keep the endpoints that they hold, and a server that cannot know what clients may reach is not ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use serde_json::json;
use tributary_suites::ads::{AdsClient, Answer, CDS, EDS, node};
use tributary_suites::http_client::get;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{
    ApiServerOptions, Login, READ, READABLE, Watched, With, mk_namespace, mk_pod, mk_service, mk_slice,
    without,
};
use tributary_suites::{ApiServer, Etcd, Follower, TestServer, Variant, eventually, outbound};

const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);
const PAY: &str = "pay.shop.svc.cluster.local";
const FAR: &str = "far.example.com";

const CUSTOM: &str = r#"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec: {hosts: [far.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.9.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["./far.example.com"]}]}
"#;

async fn cluster(etcd: &Arc<Etcd>, prefix: &str) -> Result<ApiServer> {
    let cluster = ApiServer::start_with(ApiServerOptions::default().on(etcd, prefix)).await?;
    let api = cluster.api();
    api.define().await?;
    let mut slice = mk_slice("shop", "pay", "pay-1", &["10.1.0.1"], &[("http", 80)]).with(json!({}));
    slice["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "namespace": "shop", "name": "p1"});
    let pod = mk_pod("shop", "p1", "10.1.0.1", "n1", &[("app", "pay")]);
    let service = mk_service("shop", "pay", &[("http", 80, 80)]);
    api.apply_all(&[mk_namespace("shop"), mk_namespace("tributary-system"), pod, service, slice]).await?;
    api.apply_all(&documents(CUSTOM)?).await?;
    Ok(cluster)
}

fn watched(cluster: &ApiServer) -> Result<Watched> {
    Watched::by(cluster, &Login::user("reader"))
}

/// What a client received from its first server.
struct Carried {
    clusters: BTreeMap<String, String>,
    assignments: BTreeMap<String, String>,
}

impl Carried {
    async fn from(server: &TestServer) -> Result<Self> {
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("first")).await?;
        client.has_endpoints(&outbound(80, PAY), &["10.1.0.1:80".parse()?], SOON).await?;
        client.has_endpoints(&outbound(80, FAR), &["10.9.0.1:80".parse()?], SOON).await?;
        Ok(Self { clusters: client.versions(CDS), assignments: client.versions(EDS) })
    }
    /// Connects with all of it, as a delta client does.
    async fn resume(&self, server: &TestServer) -> Result<AdsClient> {
        let mut client = AdsClient::connect(server.xds(), Variant::Delta, node("second")).await?;
        let held = |of: &BTreeMap<String, String>| of.clone().into_iter().collect::<Vec<_>>();
        let (clusters, assignments) = (held(&self.clusters), held(&self.assignments));
        client.resume(CDS, &["*"], clusters.iter().map(|(name, version)| (&**name, &**version)))?;
        let names: Vec<&str> = assignments.iter().map(|(name, _)| &**name).collect();
        client.resume(EDS, &names, assignments.iter().map(|(name, version)| (&**name, &**version)))?;
        Ok(client)
    }
    /// Connects as a state-of-the-world client does: with its names and the version of its first server.
    async fn resume_sotw(&self, server: &TestServer) -> Result<AdsClient> {
        let mut client = AdsClient::connect(server.xds(), Variant::Sotw, node("third")).await?;
        for type_url in [CDS, EDS] {
            client.send_sotw(DiscoveryRequest {
                version_info: "0123456789abcdef".to_owned(),
                ..self.request(type_url)
            })?;
        }
        Ok(client)
    }
    fn request(&self, type_url: &str) -> DiscoveryRequest {
        let names = if type_url == EDS { self.assignments.keys().cloned().collect() } else { Vec::new() };
        DiscoveryRequest { type_url: type_url.to_owned(), resource_names: names, ..Default::default() }
    }
    /// Returns the responses until none arrives for a while.
    async fn settled(&self, client: &mut AdsClient, variant: Variant) -> Result<Vec<Answer>> {
        let mut out = Vec::new();
        while let Ok(answer) = client.next(QUIET).await {
            match variant {
                Variant::Delta => client.ack(&answer)?,
                Variant::Sotw => client.send_sotw(DiscoveryRequest {
                    version_info: answer.version.clone(),
                    response_nonce: answer.nonce.clone(),
                    ..self.request(&answer.type_url)
                })?,
            }
            out.push(answer);
        }
        Ok(out)
    }
}

fn sent(answers: &[Answer], type_url: &str) -> BTreeSet<String> {
    answers.iter().filter(|answer| answer.type_url == type_url).flat_map(Answer::names).collect()
}

fn removed(answers: &[Answer]) -> Vec<&String> {
    answers.iter().flat_map(|answer| &answer.removed).collect()
}

#[tokio::test]
async fn endpoints_that_were_never_readable_stay_with_clients() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    for kind in ["discovery.k8s.io/endpointslices", "pods"] {
        let cluster = cluster(&etcd, kind.rsplit('/').next().unwrap_or(kind)).await?;
        cluster.api().allow("reader", &READ, &READABLE).await?;
        let (first, _config) = watched(&cluster)?.start().await?;
        let carried = Carried::from(&first).await?;
        drop(first);
        cluster.api().allow("reader", &READ, &without(kind)).await?;
        let (server, _config) = watched(&cluster)?.start().await?;
        let name = outbound(80, PAY);
        let mut delta = carried.resume(&server).await?;
        let answers = carried.settled(&mut delta, Variant::Delta).await?;
        ensure!(!sent(&answers, EDS).contains(&name) && removed(&answers).is_empty(), "{kind}: {answers:?}");
        let mut sotw = carried.resume_sotw(&server).await?;
        let answers = carried.settled(&mut sotw, Variant::Sotw).await?;
        ensure!(sent(&answers, CDS).contains(&name), "{kind}: the xDS cluster stays: {answers:?}");
        ensure!(!sent(&answers, EDS).contains(&name), "{kind}: {answers:?}");
        ensure!(sent(&answers, EDS).contains(&outbound(80, FAR)), "{kind}: others are served: {answers:?}");
        explains(&server, kind).await?;
        // an xDS cluster warms until its first assignment, so a client without one gets it
        let mut fresh = Follower::like_envoy(server.xds(), Variant::Delta, node("fresh")).await?;
        fresh
            .until("an empty assignment", SOON, |now| now.endpoints(&name).ok()?.is_empty().then_some(()))
            .await?;
        cluster.api().allow("reader", &READ, &READABLE).await?;
        fresh.has_endpoints(&name, &["10.1.0.1:80".parse()?], SOON).await?;
        eventually("nothing to be held", SOON, || async {
            let held =
                server.items("clients").await?.iter().any(|client| client.to_string().contains("\"held\":1"));
            ensure!(!held, "a name is held");
            Ok(())
        })
        .await?;
        let answers = carried.settled(&mut sotw, Variant::Sotw).await?;
        let last = answers.iter().rfind(|answer| answer.names().contains(&name));
        let assignment: Option<ClusterLoadAssignment> =
            last.map(|answer| answer.decode(&name)).transpose()?;
        ensure!(assignment.is_some_and(|one| one.endpoints.len() == 1), "{kind}: {answers:?}");
    }
    Ok(())
}

/// The reason can be looked up: on the registry, the service, and for the client.
async fn explains(server: &TestServer, kind: &str) -> Result<()> {
    let registry = server.registry("kubernetes").await?.to_string();
    ensure!(registry.contains("TRB0211"), "{kind}: {registry}");
    let services = server.debug(&format!("services?name={PAY}")).await?.to_string();
    ensure!(services.contains("TRB0211") && services.contains("the right is missing"), "{kind}: {services}");
    let why = server.debug(&format!("why-not?host={PAY}&client=second")).await?.to_string();
    ensure!(why.contains("TRB0211"), "{kind}: {why}");
    Ok(())
}

/// Waits until `/readyz` names a registry with this text.
async fn waits_for(server: &TestServer, registry: &str, text: &str) -> Result<()> {
    eventually(&format!("the server to wait for {registry}"), SOON, || async {
        let (status, body) = get(server.admin(), "/readyz?verbose").await?;
        let line =
            body.lines().find(|line| line.contains(&format!("registry {registry}:"))).unwrap_or_default();
        ensure!(!status.is_success() && line.contains(text), "{status}: {body}");
        Ok(())
    })
    .await
}

/// Without the Sidecars it is unknown what clients may reach, and without Services and ServiceEntries what exists.
#[tokio::test]
async fn server_waits_for_policies_and_services() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cases = [
        ("services", "kubernetes"),
        ("networking.istio.io/sidecars", "kubernetes-entries"),
        ("networking.istio.io/serviceentries", "kubernetes-entries"),
        ("networking.istio.io/destinationrules", "kubernetes-entries"),
        ("networking.istio.io/virtualservices", "kubernetes-entries"),
        ("networking.istio.io/envoyfilters", "kubernetes-entries"),
        ("security.istio.io/peerauthentications", "kubernetes-entries"),
        ("security.istio.io/authorizationpolicies", "kubernetes-entries"),
        ("security.istio.io/requestauthentications", "kubernetes-entries"),
    ];
    for (kind, registry) in cases {
        let plural = kind.rsplit('/').next().unwrap_or(kind);
        let cluster = cluster(&etcd, plural).await?;
        cluster.api().allow("reader", &READ, &without(kind)).await?;
        let (mut server, _config) = watched(&cluster)?.arg("--first-sync-timeout").arg("0").launch()?;
        waits_for(&server, registry, plural).await?;
        tokio::time::sleep(QUIET).await;
        waits_for(&server, registry, plural).await?;
        cluster.api().allow("reader", &READ, &READABLE).await?;
        server.ready(SOON).await?;
    }
    Ok(())
}

/// Each kind is shown with what its absence means, and with nothing else.
#[tokio::test]
async fn unread_kinds_are_shown_once_the_timeout_has_passed() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    for (plural, code) in [("sidecars", "TRB0212"), ("serviceentries", "TRB0213")] {
        let cluster = cluster(&etcd, &format!("timeout-{plural}")).await?;
        cluster.api().allow("reader", &READ, &without(&format!("networking.istio.io/{plural}"))).await?;
        let (server, _config) = watched(&cluster)?.arg("--first-sync-timeout").arg("2s").start().await?;
        let shown = server.registry("kubernetes-entries").await?;
        let codes: Vec<&str> =
            shown["conditions"].as_array().into_iter().flatten().filter_map(|c| c["code"].as_str()).collect();
        ensure!(codes == [code] && shown.to_string().contains(plural), "{shown}");
        let (_, body) = get(server.admin(), "/readyz?verbose").await?;
        ensure!(body.contains("registry kubernetes-entries: has not synced"), "{body}");
        cluster.api().allow("reader", &READ, &READABLE).await?;
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("late")).await?;
        client.has_endpoints(&outbound(80, FAR), &["10.9.0.1:80".parse()?], SOON).await?;
    }
    Ok(())
}

/// A state that a server kept without the Sidecars does not make the next start ready, until they are read or the timeout
/// has passed.
#[tokio::test]
async fn sidecars_that_a_kept_state_lacks_are_awaited_again() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "kept").await?;
    let state = tempfile::tempdir()?;
    let path = state.path().to_string_lossy();
    let with = |timeout: &str| -> Result<Watched> {
        let all = watched(&cluster)?.arg("--state-dir").arg(&path);
        Ok(all.arg("--first-sync-timeout").arg(timeout))
    };
    cluster.api().allow("reader", &READ, &without("networking.istio.io/sidecars")).await?;
    let (server, _config) = with("2s")?.start().await?;
    eventually("all but the Sidecars to be written", SOON, || async {
        let (_, shown, _) = server.command(&["state", "show"]).await?;
        let row = |text: &str| shown.lines().find(|row| row.contains(text)).unwrap_or_default();
        ensure!(row("sidecars").contains("never read"), "{shown}");
        ensure!(
            row("serviceentries").contains("whole") && !row("serviceentries").contains("not whole"),
            "{shown}"
        );
        Ok(())
    })
    .await?;
    server.stop(SOON).await?;
    let (mut server, _config) = with("0")?.launch()?;
    waits_for(&server, "kubernetes-entries", "sidecars").await?;
    tokio::time::sleep(QUIET).await;
    waits_for(&server, "kubernetes-entries", "sidecars").await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    server.ready(SOON).await?;
    server.stop(SOON).await?;
    cluster.api().allow("reader", &READ, &without("networking.istio.io/sidecars")).await?;
    let (server, _config) = with("0")?.start().await?;
    let shown = server.registry("kubernetes-entries").await?;
    ensure!(shown["conditions"].as_array().is_none_or(Vec::is_empty), "they are known: {shown}");
    Ok(())
}

/// Entries of workloads declare no host, so nothing waits for them.
#[tokio::test]
async fn server_is_ready_without_workload_entries() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = cluster(&etcd, "entries").await?;
    for (kind, codes) in [("workloadentries", &["TRB0211"][..]), ("workloadgroups", &[])] {
        cluster.api().allow("reader", &READ, &without(&format!("networking.istio.io/{kind}"))).await?;
        let (server, _config) = watched(&cluster)?.arg("--first-sync-timeout").arg("0").start().await?;
        let shown = server.registry("kubernetes-entries").await?;
        let found: Vec<&str> =
            shown["conditions"].as_array().into_iter().flatten().filter_map(|c| c["code"].as_str()).collect();
        ensure!(found == codes, "{kind}: {shown}");
    }
    Ok(())
}

/// A kind that is not installed has no objects.
#[tokio::test]
async fn cluster_without_the_kinds_is_ready() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let cluster = ApiServer::start_with(ApiServerOptions::default().on(&etcd, "bare")).await?;
    cluster.api().apply_all(&[mk_namespace("shop"), mk_namespace("tributary-system")]).await?;
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let watched = watched(&cluster)?.arg("--first-sync-timeout").arg("0");
    let (server, _config) = watched.start().await?;
    let shown = server.registry("kubernetes-entries").await?.to_string();
    ensure!(!shown.contains("TRB0212"), "{shown}");
    Ok(())
}
