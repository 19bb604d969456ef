//! Configuration of one registry: the fields of every kind, then the fields of one kind.
//!
//! Fields are flat beside `kind` in YAML; `check` rejects a field of another kind and names that kind.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::consul::{ClientTlsConfig, FamilyConfig, KeysConfig, LoginConfig, ModeConfig, TopologyConfig};
use super::kind::RegistryKind;
use super::span::Span;
use super::staleness::Staleness;

/// Name of the configuration's own registry; reserved.
pub const CONFIG_REGISTRY: &str = "config";

/// Multi-cluster services of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McsConfig {
    /// Whether a Service without a ServiceExport is visible in its own cluster only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<bool>,
    /// Whether a Service's own host is visible in its own cluster only, exported or not; needs `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_local: Option<bool>,
    /// Whether ServiceImports create hosts under `clusterset.local`; needs `discovery`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<bool>,
    /// API group of ServiceExport and ServiceImport; default `multicluster.x-k8s.io`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Source of a cluster's mesh configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MeshSource {
    /// The ConfigMap `istio` of the system namespace.
    Cluster,
    /// No mesh configuration; the defaults apply.
    None,
}

/// One registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryConfig {
    /// Kind of the source.
    pub kind: RegistryKind,
    /// Name, unique in one server; default: the kind, with a number if that name is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cluster of the registry; default: the server's `clusterId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Policy for facts whose source is unreachable or unsynced: `hold` keeps serving them, `degrade(10m)`
    /// lowers them by one priority after that time, `withdraw(1h)` stops serving them; default `hold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
    /// `file`: directory of YAML documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// `kubernetes`: kubeconfig file; default: `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// `kubernetes`: context of the kubeconfig; default: its current context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// `kubernetes`: namespaces to read, for an account that may not read all of them; default: all.
    /// `consul`: namespaces (Enterprise), each a scope of its own; `[all]` for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// `kubernetes`: multi-cluster services; off by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<McsConfig>,
    /// `kubernetes`: source of the mesh configuration; default `cluster`. With `none` the defaults apply.
    /// With `cluster` and no right to read it, the registry reports nothing of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_config: Option<MeshSource>,
    /// `kubernetes`: interval of a small list of every watched kind, which proves that the credential and its
    /// rights are valid; default `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_interval: Option<Span>,
    /// `kubernetes`: time after a watch's last event at which the watched kind counts as stale; default
    /// `150s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Span>,
    /// `kubernetes`: interval of a full list that is compared with the watched state and recovers lost
    /// events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_interval: Option<Span>,
    /// `consul`: addresses to request, in order of preference; the rest are for failover. Default:
    /// `CONSUL_HTTP_ADDR` or `http://127.0.0.1:8500`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    /// `consul`: datacenters to read, each a scope of its own; `[all]` for every datacenter that the agent
    /// lists; default: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenters: Option<Vec<String>>,
    /// `consul`: datacenters that have addresses of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenter_addresses: Option<BTreeMap<String, Vec<String>>>,
    /// `consul`: partitions (Enterprise), each a scope of its own; `[all]` for every partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<String>>,
    /// `consul`: peers whose imported services are read beside the local services; `[all]` for every peer of
    /// the agent's own datacenter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Vec<String>>,
    /// `consul`: file with the ACL token; read again when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// `consul`: auth method that issues a token, in place of `tokenFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginConfig>,
    /// `consul`: TLS settings of `https` addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTlsConfig>,
    /// `consul`: patterns of the services to read, where `*` matches any text; default: all. Services that a
    /// federated service names are read whether or not a pattern matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// `consul`: patterns of the services to exclude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// `consul`: reads only instances with all of these tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// `consul`: reads only instances with all of these Meta entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    /// `consul`: how services are watched; default `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeConfig>,
    /// `consul`: maximum requests a second of one scope, with a burst of the same size; default `500`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// `consul`: maximum connections over plain HTTP, where each long poll needs one; default `150`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// `consul`: service port number for services whose Meta names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_port: Option<u16>,
    /// `consul`: address family of an instance that has both; default `preferV4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_family: Option<FamilyConfig>,
    /// `consul`: whether tagged `lan` addresses take precedence over an instance's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lan_addresses: Option<bool>,
    /// `consul`: whether loopback addresses are accepted, for clients on the same machine as the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_addresses: Option<bool>,
    /// `consul`: DNS domain of its service names; default `consul`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `consul`: mesh namespace of its services; default `consul`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_namespace: Option<String>,
    /// `consul`: whether services that were copied from any Kubernetes cluster are excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_kubernetes_copies: Option<bool>,
    /// `consul`: whether an instance with a warning check is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_is_unhealthy: Option<bool>,
    /// `consul`: Meta keys for protocol and locality of instances and nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysConfig>,
    /// `consul`: topology of datacenters, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenter_topology: Option<BTreeMap<String, TopologyConfig>>,
    /// `consul`: cluster of each catalog sync process, by the node name under which it registers. Copies of
    /// services from a cluster that is read directly are excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_sync_nodes: Option<BTreeMap<String, String>>,
    /// `consul`: network of instances, where `datacenterTopology` names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

impl RegistryConfig {
    /// Suffix of the registry that serves the ServiceEntries, WorkloadEntries and WorkloadGroups of a
    /// Kubernetes cluster.
    pub const ENTRIES: &'static str = "-entries";

    /// Returns a registry of a kind with all other fields unset.
    #[must_use]
    pub fn of_kind(kind: RegistryKind) -> Self {
        Self { kind, ..Self::default() }
    }
    /// Returns its multi-cluster settings for modification.
    pub fn mcs_mut(&mut self) -> &mut McsConfig {
        self.mcs.get_or_insert_with(McsConfig::default)
    }
    /// Names of the runtime registries: a Kubernetes cluster has two, added and removed together.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_else(|| self.kind.as_str().to_owned());
        match self.kind {
            RegistryKind::Kubernetes => vec![name.clone(), name + Self::ENTRIES],
            RegistryKind::File | RegistryKind::Consul => vec![name],
        }
    }
    /// Returns the set fields that belong to another kind, each with that kind.
    #[must_use]
    pub fn foreign_fields(&self) -> Vec<(&'static str, RegistryKind)> {
        use RegistryKind::{Consul, File, Kubernetes};
        let of_one_kind = [
            ("path", File, self.path.is_some()),
            ("kubeconfig", Kubernetes, self.kubeconfig.is_some()),
            ("context", Kubernetes, self.context.is_some()),
            ("mcs", Kubernetes, self.mcs.is_some()),
            ("meshConfig", Kubernetes, self.mesh_config.is_some()),
            ("probeInterval", Kubernetes, self.probe_interval.is_some()),
            ("staleAfter", Kubernetes, self.stale_after.is_some()),
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
            ("excludeKubernetesCopies", Consul, self.exclude_kubernetes_copies.is_some()),
            ("warningIsUnhealthy", Consul, self.warning_is_unhealthy.is_some()),
            ("keys", Consul, self.keys.is_some()),
            ("datacenterTopology", Consul, self.datacenter_topology.is_some()),
            ("catalogSyncNodes", Consul, self.catalog_sync_nodes.is_some()),
            ("network", Consul, self.network.is_some()),
        ];
        let mut out: Vec<_> = of_one_kind
            .into_iter()
            .filter(|(_, kind, set)| *set && *kind != self.kind)
            .map(|(field, kind, _)| (field, kind))
            .collect();
        // Two kinds have `namespaces`, with different meanings.
        if self.namespaces.is_some() && self.kind == File {
            out.push(("namespaces", Kubernetes));
        }
        out
    }
}
