//! The schema of a world file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cluster::ClusterSpec;
#[cfg(doc)]
use crate::row::Place;

/// A file of cases about one group of rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// The rules that it covers, for readers.
    pub rules: String,
    /// Clients of every case.
    #[serde(default)]
    pub clients: BTreeMap<String, ClientSpec>,
    /// Kubernetes cluster of every case without its own.
    #[serde(default)]
    pub kubernetes: Option<ClusterSpec>,
    /// Remote Kubernetes cluster of every case without its own.
    #[serde(default)]
    pub remote: Option<ClusterSpec>,
    /// Consul of every case without its own.
    #[serde(default)]
    pub consul: Option<ConsulSpec>,
    /// The cases; each starts empty.
    pub cases: Vec<Case>,
}

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Statement that it shows, as a sentence.
    pub case: String,
    /// File registries, in order, with their clusters; one named `file` if none is given and there is no
    /// Kubernetes cluster.
    #[serde(default)]
    pub registries: BTreeMap<String, String>,
    /// Kubernetes cluster of this case.
    #[serde(default)]
    pub kubernetes: Option<ClusterSpec>,
    /// Remote Kubernetes cluster of this case, beside the other one. Only the core's backend has one; other backends
    /// skip its cases.
    #[serde(default)]
    pub remote: Option<ClusterSpec>,
    /// Consul of this case.
    #[serde(default)]
    pub consul: Option<ConsulSpec>,
    /// Federated services, in the syntax of the configuration file.
    #[serde(default, rename = "federatedServices")]
    pub federated_services: Vec<serde_json::Value>,
    /// Handling of services with the same name: `off`, `report` or `on`.
    #[serde(default, rename = "mergeByName")]
    pub merge_by_name: Option<String>,
    /// Clients of this case.
    #[serde(default)]
    pub clients: BTreeMap<String, ClientSpec>,
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// The sources and clients of a case.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// File registries by name, with their clusters.
    pub files: BTreeMap<String, String>,
    /// Kubernetes cluster, if any.
    pub kubernetes: Option<ClusterSpec>,
    /// Remote Kubernetes cluster, if any.
    pub remote: Option<ClusterSpec>,
    /// Consul, if any.
    pub consul: Option<ConsulSpec>,
    /// See [`Case::federated_services`].
    pub federated_services: Vec<serde_json::Value>,
    /// See [`Case::merge_by_name`].
    pub merge_by_name: Option<String>,
    /// Clients by name.
    pub clients: BTreeMap<String, ClientSpec>,
}

impl World {
    /// Returns the stage of one of its cases.
    #[must_use]
    pub fn stage(&self, case: &Case) -> Stage {
        let mut clients = self.clients.clone();
        clients.extend(case.clients.clone());
        let kubernetes = case.kubernetes.clone().or_else(|| self.kubernetes.clone());
        let remote = case.remote.clone().or_else(|| self.remote.clone());
        let mut files = case.registries.clone();
        let consul = case.consul.clone().or_else(|| self.consul.clone());
        if files.is_empty() && kubernetes.is_none() {
            files.insert("file".to_owned(), "cluster-1".to_owned());
        }
        let (federated_services, merge_by_name) =
            (case.federated_services.clone(), case.merge_by_name.clone());
        Stage { files, kubernetes, remote, consul, federated_services, merge_by_name, clients }
    }
    /// Returns true if any case has a Kubernetes cluster.
    #[must_use]
    pub fn has_cluster(&self) -> bool {
        self.kubernetes.is_some() || self.cases.iter().any(|case| case.kubernetes.is_some())
    }
}

/// One datacenter of a Consul, named `consul`. Only the core's backend has one; other backends skip its cases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ConsulSpec {
    /// Name of the datacenter.
    pub datacenter: String,
    /// Nodes that a synchronization from Kubernetes writes, each with the cluster that it copies.
    pub sync_nodes: BTreeMap<String, String>,
}

impl Default for ConsulSpec {
    fn default() -> Self {
        Self { datacenter: "dc1".to_owned(), sync_nodes: BTreeMap::new() }
    }
}

/// A client; an absent field is unknown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSpec {
    /// `envoy`, `sidecar` (the default) or `grpc`.
    pub kind: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Cluster.
    pub cluster: Option<String>,
    /// Network.
    pub network: Option<String>,
    /// Locality, such as `eu/1b/rack3`.
    pub locality: Option<String>,
    /// Node.
    pub node: Option<String>,
    /// Address.
    pub ip: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it has certificates of the mesh.
    pub certificates: bool,
}

/// Changes, applied in the order of these fields, and the expected results.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Description, unless the documents are clear enough.
    pub step: String,
    /// Files with their new text, by `file.yaml`, or `registry/file.yaml` if there are several registries.
    pub write: BTreeMap<String, String>,
    /// Files to delete.
    pub delete: Vec<String>,
    /// Objects of the Kubernetes cluster to remove, as `Kind namespace/name`, or `Kind name` for cluster-scoped
    /// kinds.
    pub remove: Vec<String>,
    /// Objects of the Kubernetes cluster, as YAML documents; each replaces the object of its name.
    pub apply: String,
    /// Objects of the remote cluster, likewise.
    pub remote: String,
    /// Instances of Consul's services by name, as `/v1/health/service/NAME` answers; an empty list removes the
    /// service.
    pub consul: BTreeMap<String, Vec<serde_json::Value>>,
    /// Registries whose source becomes readable (`up`) or unreadable (`down`).
    pub source: BTreeMap<String, String>,
    /// Expected results.
    pub expect: Expect,
}

/// Expected results after a step. An absent field is not compared; a present one is compared completely.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// By client, by `host:port`: the endpoints, received by EDS or inside the xDS cluster.
    pub endpoints: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// By client, by `host:port`: the localities with their weights, also those without endpoints ([`Place`]).
    pub localities: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// By client: all outbound xDS clusters by `host:port`, each with its type.
    pub clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// By host: the service that serves it first; null if there must be none.
    pub services: BTreeMap<String, Option<ServiceExpect>>,
    /// By host: the codes of its conditions, over all claimants.
    pub conditions: BTreeMap<String, Vec<String>>,
    /// Bad objects, as `Kind namespace/name`, with their codes.
    pub problems: Option<BTreeMap<String, String>>,
    /// Explanations.
    pub explain: Vec<Explained>,
    /// By client, by host: the codes that exclude something.
    pub why_not: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// Expected service. An absent field is not compared.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceExpect {
    /// `ClientSide`, `Passthrough`, `Alias(host)`, …
    pub resolution: Option<String>,
    /// Virtual addresses, in order.
    pub addresses: Option<Vec<String>>,
    /// Ports as `80 http HTTP`, ordered by number.
    pub ports: Option<Vec<String>>,
    /// Declarations, as `kubernetes Service shop/pay`, in order of precedence.
    pub declarations: Option<Vec<String>>,
    /// Hosts that lead to it.
    pub aliases: Option<Vec<String>>,
}

/// A service as the backend finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceFound {
    /// See [`ServiceExpect::resolution`].
    pub resolution: String,
    /// See [`ServiceExpect::addresses`].
    pub addresses: Vec<String>,
    /// See [`ServiceExpect::ports`].
    pub ports: Vec<String>,
    /// See [`ServiceExpect::declarations`].
    pub declarations: Vec<String>,
    /// See [`ServiceExpect::aliases`].
    pub aliases: Vec<String>,
}

/// Expected explanation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// Endpoint in question.
    pub endpoint: String,
    /// Client in question; none in particular if absent.
    pub client: Option<String>,
    /// `served` or `dropped`.
    pub verdict: String,
    /// `stage verdict code` of steps that must be present, in this order.
    pub steps: Vec<String>,
    /// `stage verdict code` of steps that must be absent.
    #[serde(default)]
    pub without: Vec<String>,
    /// Texts that the details of the steps must contain.
    #[serde(default)]
    pub mentions: Vec<String>,
}
