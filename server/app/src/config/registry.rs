//! One source in the configuration: what all kinds share, then what belongs to one kind alone.
//!
//! Fields stand flat beside `kind`, as a person writes them; `check` refuses a field that belongs
//! to another kind and says whose it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::consul::{ClientTlsConfig, FamilyConfig, KeysConfig, LoginConfig, ModeConfig, PlaceConfig};
use super::kind::RegistryKind;
use super::span::Span;
use super::staleness::Staleness;

/// Multi-cluster services of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McsConfig {
    /// Whether a Service without a ServiceExport is found in its own cluster only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<bool>,
    /// Whether a Service's own host is found in its own cluster only, exported or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_local: Option<bool>,
    /// Whether ServiceImports make hosts of `clusterset.local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<bool>,
    /// The API group of ServiceExport and ServiceImport; `multicluster.x-k8s.io` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Where a cluster's mesh configuration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MeshSource {
    /// The ConfigMap of the system namespace.
    Cluster,
    /// None is read: defaults hold.
    None,
}

/// One source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryConfig {
    /// What kind of source.
    pub kind: RegistryKind,
    /// Its name, unique in one server; the kind when left out, with a number when that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The cluster that it speaks for; `clusterId` of the server when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// What becomes of what it reported when its source is not followed any more: `hold`, `degrade(10m)` serves it one
    /// priority lower after that time, `withdraw(1h)` not at all; `hold` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
    /// `file`: the directory of YAML documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// `kubernetes`: the kubeconfig file; `KUBECONFIG`, `~/.kube/config` or the pod's own account
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// `kubernetes`: the context of the kubeconfig; its current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// `kubernetes`: the only namespaces that are read, for an account that may not read all; all
    /// when left out. `consul`: namespaces (Enterprise), each as a scope of its own;
    /// `[all]` for all that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// `kubernetes`: multi-cluster services; all of it is off when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<McsConfig>,
    /// `kubernetes`: where the mesh configuration comes from; `cluster` when left out. With `none` it is not read, and
    /// defaults hold. Without the right to read it, and without `none`, nothing of the cluster is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_config: Option<MeshSource>,
    /// `kubernetes`: how often a small list of every watched kind proves that the credential and
    /// its rights still hold; `30s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_interval: Option<Span>,
    /// `kubernetes`: how long a watched kind counts as live after the last word of its watch;
    /// `150s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_for: Option<Span>,
    /// `kubernetes`: how often a whole list is compared with what the watches said, to heal what
    /// they lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_interval: Option<Span>,
    /// `consul`: whom to ask, the first first; the others are for when it fails. `CONSUL_HTTP_ADDR` or
    /// `http://127.0.0.1:8500` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    /// `consul`: the datacenters that are followed, each as a scope of its own; `[all]` for all that
    /// the agent knows; the agent's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenters: Option<Vec<String>>,
    /// `consul`: datacenters that are asked at addresses of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenter_addresses: Option<BTreeMap<String, Vec<String>>>,
    /// `consul`: partitions (Enterprise), each as a scope of its own; `[all]` for all that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<String>>,
    /// `consul`: peers whose imported services are followed beside the local ones; `[all]` for all of the agent's
    /// own datacenter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Vec<String>>,
    /// `consul`: the file that holds the ACL token; read again when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// `consul`: an auth method that gives a token, in place of `tokenFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginConfig>,
    /// `consul`: how connections to `https` addresses are secured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTlsConfig>,
    /// `consul`: patterns of the services that are followed, with `*` for any text; all when left out.
    /// Services that an alias names are followed whatever the patterns say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// `consul`: patterns of the services that are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// `consul`: only instances with all of these tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// `consul`: only instances with all of these in their meta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    /// `consul`: how services are followed; `auto` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeConfig>,
    /// `consul`: the most requests a second of one scope, beyond a burst of as many; `500` when left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// `consul`: the most connections over plain HTTP, where each long poll needs one; `150` when left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// `consul`: the number under which a service is offered, where its meta does not say one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_port: Option<u16>,
    /// `consul`: which address is taken of an instance that has both; `preferV4` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_family: Option<FamilyConfig>,
    /// `consul`: whether tagged `lan` addresses go before an instance's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lan_addresses: Option<bool>,
    /// `consul`: whether loopback addresses are taken, because clients run on the instances' own
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_addresses: Option<bool>,
    /// `consul`: the domain of its names; `consul` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `consul`: the mesh namespace that its services are declared in; `consul` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_namespace: Option<String>,
    /// `consul`: whether everything that was copied into it from Kubernetes is left out, from
    /// whichever cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_out_kubernetes: Option<bool>,
    /// `consul`: whether an instance whose check warns is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_is_unhealthy: Option<bool>,
    /// `consul`: under which keys instances and nodes say what they speak and where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysConfig>,
    /// `consul`: where datacenters stand, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<BTreeMap<String, PlaceConfig>>,
    /// `consul`: the cluster that a synchronising process speaks for, by the node name under which it
    /// registers. What it copies from a cluster that is read directly is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_clusters: Option<BTreeMap<String, String>>,
    /// `consul`: the network of instances, where `places` names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

impl RegistryConfig {
    /// What is written after a Kubernetes registry's name to name the registry of its
    /// ServiceEntries, WorkloadEntries and WorkloadGroups.
    pub const ENTRIES: &'static str = "-entries";

    /// A source of a kind that says nothing more.
    #[must_use]
    pub fn of_kind(kind: RegistryKind) -> Self {
        Self { kind, ..Self::default() }
    }
    /// Its multi-cluster services, to set a part of them.
    pub fn mcs_mut(&mut self) -> &mut McsConfig {
        self.mcs.get_or_insert_with(McsConfig::default)
    }
    /// The names under which it speaks: a Kubernetes cluster is two registries that come and go
    /// together.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_else(|| self.kind.as_str().to_owned());
        match self.kind {
            RegistryKind::Kubernetes => vec![name.clone(), name + Self::ENTRIES],
            RegistryKind::File | RegistryKind::Consul => vec![name],
        }
    }
    /// The fields that are set although they belong to another kind, each with that kind.
    #[must_use]
    pub fn strangers(&self) -> Vec<(&'static str, RegistryKind)> {
        use RegistryKind::{Consul, File, Kubernetes};
        let of_one_kind = [
            ("path", File, self.path.is_some()),
            ("kubeconfig", Kubernetes, self.kubeconfig.is_some()),
            ("context", Kubernetes, self.context.is_some()),
            ("mcs", Kubernetes, self.mcs.is_some()),
            ("meshConfig", Kubernetes, self.mesh_config.is_some()),
            ("probeInterval", Kubernetes, self.probe_interval.is_some()),
            ("liveFor", Kubernetes, self.live_for.is_some()),
            ("auditInterval", Kubernetes, self.audit_interval.is_some()),
            ("addresses", Consul, self.addresses.is_some()),
            ("datacenters", Consul, self.datacenters.is_some()),
            ("datacenterAddresses", Consul, self.datacenter_addresses.is_some()),
            ("partitions", Consul, self.partitions.is_some()),
            ("peers", Consul, self.peers.is_some()),
            ("tokenFile", Consul, self.token_file.is_some()),
            ("login", Consul, self.login.is_some()),
            ("tls", Consul, self.tls.is_some()),
            ("include", Consul, self.include.is_some()),
            ("exclude", Consul, self.exclude.is_some()),
            ("tags", Consul, self.tags.is_some()),
            ("meta", Consul, self.meta.is_some()),
            ("mode", Consul, self.mode.is_some()),
            ("rate", Consul, self.rate.is_some()),
            ("connections", Consul, self.connections.is_some()),
            ("servicePort", Consul, self.service_port.is_some()),
            ("addressFamily", Consul, self.address_family.is_some()),
            ("lanAddresses", Consul, self.lan_addresses.is_some()),
            ("loopbackAddresses", Consul, self.loopback_addresses.is_some()),
            ("domain", Consul, self.domain.is_some()),
            ("meshNamespace", Consul, self.mesh_namespace.is_some()),
            ("leaveOutKubernetes", Consul, self.leave_out_kubernetes.is_some()),
            ("warningIsUnhealthy", Consul, self.warning_is_unhealthy.is_some()),
            ("keys", Consul, self.keys.is_some()),
            ("places", Consul, self.places.is_some()),
            ("syncedClusters", Consul, self.synced_clusters.is_some()),
            ("network", Consul, self.network.is_some()),
        ];
        let mut out: Vec<_> = of_one_kind
            .into_iter()
            .filter(|(_, kind, set)| *set && *kind != self.kind)
            .map(|(field, kind, _)| (field, kind))
            .collect();
        // Two kinds have namespaces, and mean different things by it.
        if self.namespaces.is_some() && self.kind == File {
            out.push(("namespaces", Kubernetes));
        }
        out
    }
}
