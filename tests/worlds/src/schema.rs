//! The words of a world file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cluster::ClusterSpec;

/// A file of cases about one group of rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// Which rules, for people: `registries.md 4.2`.
    pub rules: String,
    /// Clients that every case has.
    #[serde(default)]
    pub clients: BTreeMap<String, ClientSpec>,
    /// The Kubernetes cluster that every case has, unless it has one of its own.
    #[serde(default)]
    pub kubernetes: Option<ClusterSpec>,
    /// The Consul that every case has, unless it has one of its own.
    #[serde(default)]
    pub consul: Option<ConsulSpec>,
    /// The cases; each starts from nothing.
    pub cases: Vec<Case>,
}

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, as a sentence.
    pub case: String,
    /// The file registries, in order, with their clusters; one named `file` where none is said and there is no
    /// Kubernetes cluster.
    #[serde(default)]
    pub registries: BTreeMap<String, String>,
    /// The Kubernetes cluster of this case.
    #[serde(default)]
    pub kubernetes: Option<ClusterSpec>,
    /// The Consul of this case.
    #[serde(default)]
    pub consul: Option<ConsulSpec>,
    /// Names that join services, in the words of the configuration file.
    #[serde(default, rename = "federatedServices")]
    pub federated_services: Vec<serde_json::Value>,
    /// What is done with services of one name: `off`, `report` or `on`.
    #[serde(default, rename = "mergeByName")]
    pub merge_by_name: Option<String>,
    /// Clients of this case.
    #[serde(default)]
    pub clients: BTreeMap<String, ClientSpec>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// Over what a case is played.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// The file registries by name, with their clusters.
    pub files: BTreeMap<String, String>,
    /// The Kubernetes cluster, if there is one.
    pub kubernetes: Option<ClusterSpec>,
    /// The Consul, if there is one.
    pub consul: Option<ConsulSpec>,
    /// See [`Case::federated_services`].
    pub federated_services: Vec<serde_json::Value>,
    /// See [`Case::merge_by_name`].
    pub merge_by_name: Option<String>,
    /// The clients.
    pub clients: BTreeMap<String, ClientSpec>,
}

impl World {
    /// Over what one of its cases is played.
    #[must_use]
    pub fn stage(&self, case: &Case) -> Stage {
        let mut clients = self.clients.clone();
        clients.extend(case.clients.clone());
        let kubernetes = case.kubernetes.clone().or_else(|| self.kubernetes.clone());
        let mut files = case.registries.clone();
        let consul = case.consul.clone().or_else(|| self.consul.clone());
        if files.is_empty() && kubernetes.is_none() {
            files.insert("file".to_owned(), "cluster-1".to_owned());
        }
        let (federated_services, merge_by_name) =
            (case.federated_services.clone(), case.merge_by_name.clone());
        Stage { files, kubernetes, consul, federated_services, merge_by_name, clients }
    }
    /// Whether any of its cases has a Kubernetes cluster.
    #[must_use]
    pub fn has_cluster(&self) -> bool {
        self.kubernetes.is_some() || self.cases.iter().any(|case| case.kubernetes.is_some())
    }
}

/// One datacenter of a Consul, called `consul`. Only the core's worlds have one; others leave its cases out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ConsulSpec {
    /// The datacenter.
    pub datacenter: String,
    /// Nodes that a synchronisation from Kubernetes writes, each with the cluster that it copies.
    pub sync_nodes: BTreeMap<String, String>,
}

impl Default for ConsulSpec {
    fn default() -> Self {
        Self { datacenter: "dc1".to_owned(), sync_nodes: BTreeMap::new() }
    }
}

/// A client; what is not said is not known of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSpec {
    /// `envoy`, `sidecar` (where nothing is said) or `grpc`.
    pub kind: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its cluster.
    pub cluster: Option<String>,
    /// Its network.
    pub network: Option<String>,
    /// `eu/1b/rack3`.
    pub locality: Option<String>,
    /// Its node.
    pub node: Option<String>,
    /// Its own address.
    pub ip: Option<String>,
}

/// What happens, in the order of these fields, and what holds after it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// What it is about, where the documents do not say it.
    pub step: String,
    /// Files with their new text, by `file.yaml`, or `registry/file.yaml` where there are several.
    pub write: BTreeMap<String, String>,
    /// Files that go.
    pub delete: Vec<String>,
    /// Objects of the Kubernetes cluster that go, as `Kind namespace/name`, or `Kind name` where the kind has no
    /// namespaces.
    pub remove: Vec<String>,
    /// Objects of the Kubernetes cluster, as documents of YAML; each is put in place of the one of its name.
    pub apply: String,
    /// Instances of Consul's services by name, as `/v1/health/service/NAME` answers; none is a service that has gone.
    pub consul: BTreeMap<String, Vec<serde_json::Value>>,
    /// Registries whose source can (`up`) or cannot (`down`) be read any more.
    pub source: BTreeMap<String, String>,
    /// What holds.
    pub expect: Expect,
}

/// What holds after a step. What is not named is not looked at; what is named is compared whole.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// By client, by `host:port`: the endpoints, told by EDS or inside the xDS cluster.
    pub endpoints: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// By client: all outbound xDS clusters by `host:port`, each with its type.
    pub clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// By host: what is said of the service that serves it first; null where there must be none.
    pub services: BTreeMap<String, Option<ServiceExpect>>,
    /// By host: the codes of its conditions, over all claimants.
    pub conditions: BTreeMap<String, Vec<String>>,
    /// Objects that are bad, as `Kind namespace/name`, with their codes.
    pub problems: Option<BTreeMap<String, String>>,
    /// Explanations.
    pub explain: Vec<Explained>,
    /// By client, by host: the codes that left something out.
    pub why_not: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// What is said of a service. What is left out is not looked at.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceExpect {
    /// `ClientSide`, `Passthrough`, `Alias(host)`, …
    pub resolution: Option<String>,
    /// Its virtual addresses, in order.
    pub addresses: Option<Vec<String>>,
    /// Its ports as `80 http HTTP`, in order of their numbers.
    pub ports: Option<Vec<String>>,
    /// Who declares it, as `kubernetes Service shop/pay`, in order of precedence.
    pub declarations: Option<Vec<String>>,
    /// Hosts that lead to it.
    pub aliases: Option<Vec<String>>,
}

/// A service as it is found.
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

/// One explanation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The endpoint asked for.
    pub endpoint: String,
    /// For which client; for none in particular where nothing is said.
    pub client: Option<String>,
    /// `served` or `dropped`.
    pub verdict: String,
    /// `stage verdict code`, each of which must be among its steps, in this order.
    pub steps: Vec<String>,
    /// `stage verdict code`, none of which may be.
    #[serde(default)]
    pub without: Vec<String>,
    /// Words that the details of the steps must hold.
    #[serde(default)]
    pub says: Vec<String>,
}
