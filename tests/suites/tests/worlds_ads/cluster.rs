//! The Kubernetes cluster under a world: the API server that this test run shares, emptied for each case. After each
//! word marks are applied, one through every watch that matters, and waited for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tributary_suites::ads::{EDS, node};
use tributary_suites::kube::{Named, With, mk_namespace, mk_node, mk_pod, mk_service, mk_slice};
use tributary_suites::{ApiServer, Entry, Follower, Variant, eventually, kube, outbound};
use tributary_worlds::{ClusterSpec, Namespaces, ObjectName};

use crate::read;

const SOON: Duration = Duration::from_secs(20);
const CRDS: [&str; 6] = [
    include_str!("../../crds/serviceentries.yaml"),
    include_str!("../../crds/workloadentries.yaml"),
    include_str!("../../crds/workloadgroups.yaml"),
    include_str!("../../crds/serviceexports.yaml"),
    include_str!("../../crds/serviceimports.yaml"),
    include_str!("../../crds/gateways.yaml"),
];
/// The kinds that those define.
const KINDS: [(&str, &str); 6] = [
    ("networking.istio.io/v1", "ServiceEntry"),
    ("networking.istio.io/v1", "WorkloadEntry"),
    ("networking.istio.io/v1", "WorkloadGroup"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
];
const MARKS: &str = "marks";

/// The cluster of one case.
pub(crate) struct Cluster {
    server: Arc<ApiServer>,
    namespaces: Namespaces,
    watcher: Option<Follower>,
    marks: u16,
}

impl Cluster {
    /// The shared server, emptied, with the definitions of custom resources.
    pub(crate) async fn begin() -> Result<Self> {
        let server = ApiServer::shared().await?;
        let api = server.api();
        for crd in CRDS {
            api.apply_yaml(crd).await?;
        }
        for (version, kind) in KINDS {
            api.knows(version, kind).await?;
        }
        api.clear(&KINDS).await?;
        // A world's discovery selectors ask for this label.
        let labels = json!({"metadata": {"labels": {"discovery": "enabled"}}});
        api.apply(&mk_namespace(MARKS).with(labels)).await?;
        Ok(Self { server, namespaces: Namespaces::default(), watcher: None, marks: 0 })
    }
    /// The registry in the server's configuration, and what else the configuration says for it.
    pub(crate) fn config(&self, spec: &ClusterSpec) -> Result<(String, String)> {
        let kubeconfig: PathBuf = self.server.admin_kubeconfig()?;
        let namespaces = match spec.namespaces.as_slice() {
            [] => String::new(),
            some => format!(", namespaces: [{MARKS}, {}, {}]", spec.system_namespace, some.join(", ")),
        };
        let registry = format!(
            "- {{kind: kubernetes, name: kubernetes, kubeconfig: {}, probeInterval: 2s{namespaces}}}\n",
            kubeconfig.display()
        );
        let mut more = format!("clusterId: {}\nsystemNamespace: {}\n", spec.cluster, spec.system_namespace);
        if let Some(revision) = &spec.revision {
            more.push_str(&format!("revision: {revision}\n"));
        }
        if let Some(value) = &spec.cross_network {
            more.push_str(&format!("settings: {{crossNetwork: {value}}}\n"));
        }
        Ok((registry, more))
    }
    /// Watches for marks.
    pub(crate) async fn watch(&mut self, xds: std::net::SocketAddr) -> Result<()> {
        self.watcher = Some(Follower::like_envoy(xds, Variant::Delta, node("marks")).await?);
        self.mark().await
    }
    pub(crate) async fn apply(&mut self, documents: &[Value]) -> Result<()> {
        let wanted = self.namespaces.wanted(documents);
        self.server.api().apply_all(wanted.iter().chain(documents)).await
    }
    pub(crate) async fn remove(&mut self, objects: &[ObjectName]) -> Result<()> {
        for object in objects {
            self.namespaces.gone(object);
            self.server.api().remove(&named(object)).await?;
        }
        Ok(())
    }
    /// Applies marks and waits until all of them have come through: what was said before has too.
    pub(crate) async fn mark(&mut self) -> Result<()> {
        self.marks += 1;
        self.server.api().apply_all(&marks(self.marks)?).await?;
        let number = self.marks;
        let want = [format!("10.255.255.1:{number} {number}"), format!("10.255.255.2:{number} eu/{number}")];
        let (host, entry) = ("mark.marks.svc.cluster.local", mark_of_entries(number).cluster());
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            watcher.settle(Duration::from_millis(20)).await?;
            let rows: Vec<String> =
                read::rows(watcher, &outbound(number, host))?.iter().map(ToString::to_string).collect();
            let entries = read::rows(watcher, &entry)?;
            let seen = want.iter().all(|row| rows.contains(row)) && entries.len() == 1;
            if seen {
                return Ok(());
            }
            ensure!(
                tokio::time::Instant::now() < deadline,
                "mark {number} did not come through: {rows:?}, wanted {want:?}; entries {entries:?}"
            );
        }
    }
}

fn named(object: &ObjectName) -> Named {
    Named {
        api_version: object.api_version().to_owned(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

/// One object per watch, each of which shows its number in an endpoint: the Service its port, the slice the
/// endpoints' port, the node and the pod a locality each.
fn marks(number: u16) -> Result<Vec<Value>> {
    let text = number.to_string();
    let endpoints = json!([
        {"addresses": ["10.255.255.1"], "nodeName": "mark"},
        {"addresses": ["10.255.255.2"], "targetRef": {"kind": "Pod", "namespace": MARKS, "name": "mark"}},
    ]);
    let label = json!({"metadata": {"labels": {"topology.istio.io/locality": format!("eu.{text}")}}});
    let node = mk_node("mark", "eu", &text).with(json!({"metadata": {"labels": {
        "topology.kubernetes.io/region": text, "topology.kubernetes.io/zone": null}}}));
    let mut all = vec![
        node,
        mk_pod(MARKS, "mark", "10.255.255.2", "none", &[]).with(label),
        mk_service(MARKS, "mark", &[("tcp", number, number)]),
        mk_slice(MARKS, "mark", "mark", &[], &[("tcp", number)]).with(json!({"endpoints": endpoints})),
    ];
    let entry = mark_of_entries(number).yaml().replace("namespace: default", "namespace: marks");
    all.extend(kube::api::documents(&entry)?);
    Ok(all)
}

fn mark_of_entries(number: u16) -> Entry {
    Entry::http("entries.mark.invalid", number).at(std::net::SocketAddr::from(([127, 0, 0, 1], 9)))
}
