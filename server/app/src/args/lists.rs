//! Lists of `tributary get`; each is a path of the admin listener.

use clap::ValueEnum;

/// Reads the number of items, as the query of a list has it.
pub(super) fn limit(text: &str) -> Result<String, String> {
    let number: usize = text.parse().map_err(|_| "write a number".to_owned())?;
    Ok(number.to_string())
}

/// Lists of a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Resource {
    /// Services, merged from all their declarations
    #[value(alias = "service", alias = "svc")]
    Services,
    /// Endpoints, each with its source
    #[value(alias = "endpoint", alias = "ep")]
    Endpoints,
    /// Connected clients, with sent and acknowledged versions
    #[value(alias = "client")]
    Clients,
    /// Registries, with their status
    #[value(alias = "registry", alias = "reg")]
    Registries,
    /// Kubernetes clusters, of the configuration and of Secrets, with their status; those with trouble first
    #[value(alias = "cluster")]
    Clusters,
    /// Services with the same name in a cluster and in Consul, with the result of the merge rule
    #[value(alias = "merge")]
    Merges,
    /// Gateways through which clients of other networks enter a network, with what they lack to be used
    #[value(alias = "gateway", alias = "gw")]
    Gateways,
    /// What a client was sent, and whether it acknowledged it
    #[value(alias = "resource")]
    Resources,
    /// Policies, such as Sidecars, DestinationRules and AuthorizationPolicies, with their sources and conditions
    #[value(alias = "policy", alias = "config")]
    Policies,
    /// The server in short: numbers, registries, and what is wrong, the worst first
    Overview,
    /// The last changes: states of registries and clusters, hosts and endpoints, held removals, clients
    #[value(alias = "changes")]
    Timeline,
    /// Registries, clusters, networks and gateways, and how they are connected
    Map,
    /// Routes of a client to a host, in the order in which they are tried, each with the VirtualService that it is from
    #[value(alias = "route")]
    Routes,
}

impl Resource {
    /// Every list.
    pub const ALL: [Self; 13] = [
        Self::Services,
        Self::Endpoints,
        Self::Clients,
        Self::Registries,
        Self::Clusters,
        Self::Merges,
        Self::Gateways,
        Self::Resources,
        Self::Policies,
        Self::Overview,
        Self::Timeline,
        Self::Map,
        Self::Routes,
    ];
    /// Name in paths and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Clients => "clients",
            Self::Registries => "registries",
            Self::Clusters => "clusters",
            Self::Merges => "merges",
            Self::Gateways => "gateways",
            Self::Resources => "resources",
            Self::Policies => "policies",
            Self::Routes => "routes",
            Self::Overview => "overview",
            Self::Timeline => "timeline",
            Self::Map => "map",
        }
    }
}
