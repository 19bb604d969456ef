//! Fields of a registry of kind `consul` in the configuration file.
//!
//! The application reads them, calls [`ConsulFields::check`] once all layers are applied, and
//! [`ConsulFields::config`] for the options of a run.

mod check;
mod convert;
mod parts;
mod secret;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_registry_api::Span;

pub use parts::{
    AddressFamilyConfig, ClientTlsConfig, DatacenterTopologyConfig, LoginConfig, MetaKeysConfig,
};
pub use secret::Secret;

/// Fields of a Consul registry. An omitted field has the default that its description names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConsulFields {
    /// Addresses to request, in order of preference; the rest are for failover: URLs, or unix sockets as
    /// `unix:///run/consul.sock`. Default: `CONSUL_HTTP_ADDR` or `http://127.0.0.1:8500`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    /// Datacenters to read, each a scope of its own; `[all]` for every datacenter that the agent
    /// lists; default: the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenters: Option<Vec<String>>,
    /// Datacenters that have addresses of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter_addresses: Option<BTreeMap<String, Vec<String>>>,
    /// Namespaces (Enterprise), each a scope of its own; `[all]` for every namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Partitions (Enterprise), each a scope of its own; `[all]` for every partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<String>>,
    /// Peers whose imported services are read beside the local services; `[all]` for every peer of
    /// the agent's own datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<Vec<String>>,
    /// File with the ACL token; read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// ACL token, in place of `tokenFile`; for a configuration file that only its owner may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Auth method that issues a token, in place of `tokenFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginConfig>,
    /// TLS settings of `https` addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTlsConfig>,
    /// Patterns of the services to read, where `*` matches any text; default: all. Services that a
    /// federated service names are read whether or not a pattern matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// Patterns of the services to exclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// Reads only instances with all of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Reads only instances with all of these Meta entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    /// Maximum requests a second of one scope, with a burst of the same size; default `500`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Maximum connections over plain HTTP, where each long poll needs one and an eighth is a reserve; default `150`.
    /// Services beyond them are read on notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Maximum requests that share one connection over TLS, up to `250`; default `250`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Wait of a long poll, from `1s` to `10m`; default `1m`. Behind a proxy that ends quiet requests, less than its
    /// timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// Service port number for services whose Meta names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_port: Option<u16>,
    /// Address family of an instance that has both; default `preferV4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_family: Option<AddressFamilyConfig>,
    /// Whether tagged `lan` addresses take precedence over an instance's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan_addresses: Option<bool>,
    /// Whether loopback addresses are accepted, for clients on the same machine as the instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback_addresses: Option<bool>,
    /// DNS domain of its service names; default `consul`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Mesh namespace of its services; default `consul`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_namespace: Option<String>,
    /// Whether services that were copied from any Kubernetes cluster are excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_kubernetes_copies: Option<bool>,
    /// Whether an instance with a warning check is unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning_is_unhealthy: Option<bool>,
    /// Keys in Meta for protocol and locality of instances and nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<MetaKeysConfig>,
    /// Topology of datacenters, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter_topology: Option<BTreeMap<String, DatacenterTopologyConfig>>,
    /// Cluster of each catalog sync process, by the node name under which it registers. Copies of
    /// services from a cluster that is read directly are excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_sync_nodes: Option<BTreeMap<String, String>>,
    /// Network of instances, where `datacenterTopology` names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}
