//! The chart on a real API server: it is applied and changed there, and a Tributary runs by its pod template, in the image, with
//! the account and the rights that the chart made.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tributary_suites::ads::{EDS, client::Tuning, node};
use tributary_suites::consul::PORT;
use tributary_suites::deploy::{Helm, NAMESPACE, Release, fail, succeed};
use tributary_suites::kube::{Named, mk_namespace, mk_slice};
use tributary_suites::{
    AdsClient, ApiServer, Authority, Follower, Process, Variant, http_client, outbound, ports, tools,
};

const SOON: Duration = Duration::from_secs(60);
const KINDS: &str = include_str!("../../crds/deployment.yaml");
const VIEWER: &str = include_str!("../../../../docs/examples/remote-access/viewer.yaml");
const PAY: &str = "pay.shop.svc.cluster.local";

/// Ports of a replica on this machine.
struct Ports {
    xds: u16,
    health: u16,
    admin: u16,
    remote: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        let port = ports::free_port;
        Ok(Self { xds: port()?, health: port()?, admin: port()?, remote: port()? })
    }

    fn values(&self) -> Value {
        json!({"xds": {"port": self.xds}, "health": {"port": self.health},
            "admin": {"port": self.admin, "remote": {"enabled": true, "port": self.remote}}})
    }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Merges values, the later ones first.
fn with(mut values: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        let old = values[name].take();
        values[name] = if old.is_object() && value.is_object() { with(old, value) } else { value.clone() };
    }
    values
}

/// A replica that runs on this machine by its pod template.
struct Replica {
    process: Process,
    ports: Ports,
}

impl Replica {
    async fn start(cluster: &ApiServer, ports: Ports, claims: &Path) -> Result<Self> {
        let mut command = Command::new(tools::script("bin/run-pod")?);
        command.args([NAMESPACE, "tributary", "0", "--root"]).arg(Release::shared().await?.root());
        command.arg("--claims").arg(claims).env("KUBECONFIG", cluster.admin_kubeconfig()?);
        let mut process = Process::spawn("the pod", command)?;
        let health = at(ports.health);
        let ready = async || {
            let (status, body) = http_client::get(health, "/readyz").await?;
            ensure!(status == StatusCode::OK, "readyz answered {status}: {body}");
            Ok(())
        };
        process.until("the pod to be ready", SOON, ready).await?;
        Ok(Self { process, ports })
    }

    async fn registries(&self) -> Result<Vec<Value>> {
        let (_, body) = http_client::get(at(self.ports.admin), "/debug/registries").await?;
        let list: Value = serde_json::from_str(&body)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn stop(mut self) -> Result<Ports> {
        let status = self.process.terminate(SOON).await?;
        ensure!(status.success(), "it ended with {status}: {}", self.process.tail());
        Ok(self.ports)
    }
}

/// Makes the Secrets of the server's certificates.
async fn secrets(cluster: &ApiServer, authority: &Authority) -> Result<()> {
    for name in ["tributary-xds-tls", "tributary-admin-tls"] {
        let identity = authority.server(name)?;
        cluster
            .api()
            .apply(&json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "metadata": {"namespace": NAMESPACE, "name": name},
                "stringData": {"tls.crt": identity.certificate, "tls.key": identity.key}}))
            .await?;
    }
    Ok(())
}

/// Reads the registries from elsewhere, by the token of an account that may.
async fn is_read_from_elsewhere(cluster: &ApiServer, authority: &Authority, port: u16) -> Result<()> {
    cluster.api().apply_yaml(VIEWER).await?;
    let file = authority.path().join("viewer.token");
    std::fs::write(&file, cluster.api().token_of("default", "viewer", &["tributary-admin"]).await?)?;
    let (url, ca, token) = (
        format!("https://localhost:{port}"),
        authority.file().display().to_string(),
        file.display().to_string(),
    );
    let args = ["get", "registries", "--server", &url, "--server-ca", &ca, "--server-token", &token];
    let shown = succeed(tools::tributary()?, args).await?;
    ensure!(shown.contains("kubernetes-entries") && shown.contains("Live"), "{shown}");
    let refused = fail(tools::tributary()?, &args[..6]).await?;
    ensure!(!refused.contains("kubernetes-entries"), "{refused}");
    Ok(())
}

/// Connects as account `web` with its token, and waits for the endpoints of `pay`.
async fn served(cluster: &ApiServer, authority: &Authority, xds: u16, want: &[&str]) -> Result<()> {
    let token = cluster.api().token_of("shop", "web", &["tributary"]).await?;
    let stream = authority.connect(at(xds), None).await?;
    let tuning = Tuning { scheme: "https", token: Some(token), ..Tuning::default() };
    let client = AdsClient::over(stream, Variant::Delta, Some(node("web")), tuning).await?;
    let mut client = Follower::over(client, Variant::Delta);
    let name = outbound(PORT, PAY);
    client.subscribe(EDS, &[&name])?;
    let want = want.iter().map(|ip| Ok(SocketAddr::new(ip.parse()?, PORT))).collect::<Result<Vec<_>>>()?;
    client.has_endpoints(&name, &want, SOON).await
}

#[tokio::test]
async fn pod_of_the_chart_serves_and_remembers() -> Result<()> {
    let (cluster, authority, claims) = (ApiServer::start().await?, Authority::new()?, TempDir::new()?);
    let api = cluster.api();
    api.fill_pay(PORT, &["10.77.0.10"]).await?;
    api.create_account("shop", "web").await?;
    let helm = Helm::new(Some(cluster.admin_kubeconfig()?))?;
    let ports = Ports::free()?;
    let notes = helm.upgrade(&ports.values()).await?;
    ensure!(notes.contains("kubectl create secret tls tributary-xds-tls"), "{notes}");
    secrets(&cluster, &authority).await?;

    let replica = Replica::start(&cluster, ports, claims.path()).await?;
    served(&cluster, &authority, replica.ports.xds, &["10.77.0.10"]).await?;
    for registry in replica.registries().await? {
        ensure!(registry["state"] == "Live", "a right is missing: {registry}");
    }
    is_read_from_elsewhere(&cluster, &authority, replica.ports.remote).await?;
    let anonymous = authority.connect(at(replica.ports.xds), None).await?;
    let tuning = Tuning { scheme: "https", ..Tuning::default() };
    let mut anonymous = AdsClient::over(anonymous, Variant::Delta, Some(node("web")), tuning).await?;
    anonymous.subscribe(EDS, &[])?;
    ensure!(
        anonymous.expect_end(SOON).await?.message.contains("TRB0603"),
        "a client without a token is served"
    );

    // The next pod may read nothing, so what it serves is what its claim remembers.
    let ports = replica.stop().await?;
    api.remove(&Named::of(&binding())?).await?;
    let more = mk_slice("shop", "pay", "pay-1", &["10.77.0.10", "10.77.0.11"], &[("http", PORT)]);
    api.apply(&more).await?;
    let replica = Replica::start(&cluster, ports, claims.path()).await?;
    let remembered = http_client::get_text(at(replica.ports.admin), "/debug/endpoints").await?;
    ensure!(remembered.contains("10.77.0.10:") && !remembered.contains("10.77.0.11:"), "{remembered}");
    helm.upgrade(&replica.ports.values()).await?;
    served(&cluster, &authority, replica.ports.xds, &["10.77.0.10", "10.77.0.11"]).await?;
    replica.stop().await?;
    Ok(())
}

/// The binding of the cluster's rights.
fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{NAMESPACE}:tributary")}})
}

#[tokio::test]
async fn chart_with_every_part_is_applied_and_changed() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.apply_yaml(KINDS).await?;
    for (version, kind) in [
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        ("cert-manager.io/v1", "Certificate"),
    ] {
        api.knows(version, kind).await?;
    }
    let helm = Helm::new(Some(cluster.admin_kubeconfig()?))?;
    let full = full();
    helm.upgrade(&full).await?;
    for (version, kind, wanted) in [
        ("apps/v1", "StatefulSet", 1),
        ("policy/v1", "PodDisruptionBudget", 1),
        ("networking.k8s.io/v1", "NetworkPolicy", 1),
        ("monitoring.coreos.com/v1", "ServiceMonitor", 1),
        ("monitoring.coreos.com/v1", "PrometheusRule", 1),
        ("cert-manager.io/v1", "Certificate", 2),
    ] {
        assert_eq!(api.list(version, kind).await?.len(), wanted, "{kind}");
    }
    // Each value that may change does; what a StatefulSet cannot change stays as it is.
    let changed = json!({"replicas": 3, "revision": "green", "clusterId": "west", "drainSeconds": 30,
        "image": {"tag": "next"}, "resources": {"limits": {"memory": "3Gi"}}, "podLabels": {"b": "2"},
        "xds": {"port": 15112, "tokens": {"enabled": false}}, "config": {"writes": ["addresses"]},
        "kubernetes": {"options": {"namespaces": ["shop"]}}, "tolerations": [], "extraEnv": [],
        "podDisruptionBudget": {"maxUnavailable": "50%"}, "state": {"storageClass": "fast"}});
    api.apply(&mk_namespace("shop")).await?;
    helm.upgrade(&with(full.clone(), &changed)).await?;
    helm.upgrade(&full).await?;
    let size = with(full, &json!({"state": {"size": "2Gi"}}));
    let refused = helm.upgrade(&size).await;
    ensure!(refused.is_err_and(|e| e.to_string().contains("Forbidden: updates to statefulset spec")), "size");
    Ok(())
}

/// Values with every part enabled.
fn full() -> Value {
    json!({
        "image": {"digest": format!("sha256:{}", "a".repeat(64))},
        "imagePullSecrets": [{"name": "pull"}],
        "revision": "blue",
        "registries": [
            {"kind": "consul", "addresses": ["https://consul.example:8501"], "tokenSecret": {"name": "consul-token"},
             "caSecret": {"name": "consul-ca"}, "certSecret": {"name": "consul-client"}},
            {"kind": "consul", "name": "plain"},
        ],
        "config": {"settings": {"domain": "x.local"}, "writes": ["addresses", "credentials"]},
        "xds": {"tls": {"clientCa": {"enabled": true}}},
        "certManager": {"enabled": true, "issuerRef": {"name": "mesh"}, "dnsNames": ["xds.example"]},
        "state": {"storageClass": "fast"},
        "service": {"trafficDistribution": "PreferClose", "annotations": {"a": "b"}},
        "networkPolicy": {"xdsFrom": [{"namespaceSelector": {}}], "metricsFrom": [{"podSelector": {}}],
            "adminFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
        "serviceMonitor": {"enabled": true, "labels": {"release": "p"}},
        "prometheusRule": {"enabled": true},
        "dashboards": {"enabled": true},
        "podAnnotations": {"a": "b"}, "podLabels": {"a": "b"}, "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "a", "operator": "Exists"}], "priorityClassName": "high",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "tributary"}}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "admin": {"remote": {"enabled": true, "service": true}},
        "extraEnv": [{"name": "TRIBUTARY_LOG", "value": "debug"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    })
}
