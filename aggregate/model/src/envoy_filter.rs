//! EnvoyFilter: changes of the resources that a client receives.
//!
//! Adapters build these values from `networking.istio.io` EnvoyFilters after validation: a value is the encoded message of
//! the part that its patch changes. The answers choose the filters of a client; the xDS server applies their patches.

mod served;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::labels::Labels;

/// Changes of the resources that clients receive.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct EnvoyFilter {
    /// Labels of the clients that it concerns; empty for all clients of its namespace, or of all namespaces if it is in the
    /// root namespace.
    pub selector: Labels,
    /// Position among filters; lower ones are applied first.
    pub priority: i32,
    /// Whether it names target resources, so that it concerns no sidecar.
    pub has_targets: bool,
    /// Patches, in declared order.
    pub patches: Arc<[ConfigPatch]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ConfigPatch {
    /// Kind of the changed part.
    pub apply_to: ApplyTo,
    /// Clients and directions that it concerns.
    pub context: PatchContext,
    /// Proxies that it concerns.
    pub proxy: ProxyMatch,
    /// Changed part, within resources of its kind.
    pub object: ObjectMatch,
    /// What is done.
    pub operation: Operation,
    /// Encoded message of the part; absent for a removal, and for parts that are not served.
    pub value: Option<Arc<[u8]>>,
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident $($(#[$variant_doc:meta])* $variant:ident $text:literal)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// Every variant, with its name in documents.
            pub const NAMES: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),*];

            /// Name in documents.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// Kind of a changed part.
    ApplyTo
    /// Listener.
    Listener "LISTENER"
    /// Filter chain of a listener.
    FilterChain "FILTER_CHAIN"
    /// Listener filter.
    ListenerFilter "LISTENER_FILTER"
    /// Network filter of a filter chain.
    NetworkFilter "NETWORK_FILTER"
    /// HTTP filter of an HTTP connection manager.
    HttpFilter "HTTP_FILTER"
    /// Route configuration.
    RouteConfiguration "ROUTE_CONFIGURATION"
    /// Virtual host of a route configuration.
    VirtualHost "VIRTUAL_HOST"
    /// Route of a virtual host.
    HttpRoute "HTTP_ROUTE"
    /// xDS cluster.
    Cluster "CLUSTER"
    /// Extension configuration, requested by its name.
    ExtensionConfig "EXTENSION_CONFIG"
    /// Bootstrap of a proxy, which no xDS resource has.
    Bootstrap "BOOTSTRAP"
}

named! {
    /// Clients and directions that a patch concerns.
    PatchContext
    /// Both directions of sidecars, and gateways.
    Any "ANY"
    /// Connections to a workload.
    Inbound "SIDECAR_INBOUND"
    /// Connections of a workload to others.
    Outbound "SIDECAR_OUTBOUND"
    /// Gateways.
    Gateway "GATEWAY"
    /// Waypoints.
    Waypoint "WAYPOINT"
}

named! {
    /// What a patch does.
    Operation
    /// Merges the value into each matching part.
    Merge "MERGE"
    /// Adds the value.
    Add "ADD"
    /// Removes each matching part.
    Remove "REMOVE"
    /// Adds the value before the first matching part.
    InsertBefore "INSERT_BEFORE"
    /// Adds the value behind the first matching part.
    InsertAfter "INSERT_AFTER"
    /// Adds the value before all parts.
    InsertFirst "INSERT_FIRST"
    /// Replaces the matching part.
    Replace "REPLACE"
}

named! {
    /// Kind of a route's action.
    RouteAction
    /// Any action.
    Any "ANY"
    /// Requests go to a cluster.
    Route "ROUTE"
    /// Requests are redirected.
    Redirect "REDIRECT"
    /// Requests are answered.
    DirectResponse "DIRECT_RESPONSE"
}

/// Proxies that a patch concerns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct ProxyMatch {
    /// Versions, as a pattern that is found anywhere in the proxy's version.
    pub version: Option<VersionPattern>,
    /// Metadata that the proxy's node has as text.
    pub metadata: BTreeMap<Arc<str>, Arc<str>>,
}

/// Pattern of proxy versions: a regular expression.
#[derive(Clone)]
pub struct VersionPattern {
    text: Arc<str>,
    compiled: regex::Regex,
}

impl VersionPattern {
    /// Most bytes of a pattern.
    pub const MAX: usize = 1024;

    /// Compiles a pattern; the error is what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > Self::MAX {
            return Err(format!("it has more than {} bytes", Self::MAX));
        }
        // memory of one compiled pattern
        let builder = regex::RegexBuilder::new(text).size_limit(256 << 10).dfa_size_limit(256 << 10).build();
        let compiled = builder.map_err(|error| {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim().to_owned()
        })?;
        Ok(Self { text: text.into(), compiled })
    }
    /// Whether it is found in a version.
    #[must_use]
    pub fn is_in(&self, version: &str) -> bool {
        self.compiled.is_match(version)
    }
    /// Text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for VersionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
impl PartialEq for VersionPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for VersionPattern {}
impl PartialOrd for VersionPattern {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for VersionPattern {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}
impl std::hash::Hash for VersionPattern {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
impl serde::Serialize for VersionPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Changed part within resources of its kind. Each absent value matches every part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum ObjectMatch {
    /// Every part.
    #[default]
    All,
    /// Parts of listeners.
    Listener(Box<ListenerMatch>),
    /// Parts of route configurations.
    Routes(Box<RoutesMatch>),
    /// Clusters.
    Cluster(ClusterMatch),
}

/// Part of listeners.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct ListenerMatch {
    /// Port of the listener, or of a chain of those for all ports.
    pub port: Option<u32>,
    /// Name.
    pub name: Option<Arc<str>>,
    /// Name of a listener filter.
    pub listener_filter: Option<Arc<str>>,
    /// Filter chain.
    pub chain: Option<ChainMatch>,
}

/// Filter chain of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct ChainMatch {
    /// Name.
    pub name: Option<Arc<str>>,
    /// One of its server names.
    pub sni: Option<Arc<str>>,
    /// Transport protocol.
    pub transport: Option<Arc<str>>,
    /// Application protocols, all of which it has.
    pub applications: Arc<[Arc<str>]>,
    /// Destination port.
    pub port: Option<u32>,
    /// Name of a network filter.
    pub filter: Option<Arc<str>>,
    /// Name of an HTTP filter of that network filter.
    pub sub_filter: Option<Arc<str>>,
}

/// Part of route configurations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct RoutesMatch {
    /// Port that names the route configuration.
    pub port: Option<u32>,
    /// Name.
    pub name: Option<Arc<str>>,
    /// Virtual host.
    pub host: Option<VirtualHostMatch>,
}

/// Virtual host of a route configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct VirtualHostMatch {
    /// Name.
    pub name: Option<Arc<str>>,
    /// One of its domains.
    pub domain: Option<Arc<str>>,
    /// Route.
    pub route: Option<RouteMatch>,
}

/// Route of a virtual host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct RouteMatch {
    /// Name.
    pub name: Option<Arc<str>>,
    /// Action.
    pub action: RouteAction,
}

/// Cluster. If it has a name, nothing else decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct ClusterMatch {
    /// Name.
    pub name: Option<Arc<str>>,
    /// Host of the service.
    pub service: Option<Arc<str>>,
    /// Port of the service; of the workload for connections to it.
    pub port: Option<u32>,
    /// Subset.
    pub subset: Option<Arc<str>>,
}

impl ApplyTo {
    /// Type of the values, without its host.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Listener => "envoy.config.listener.v3.Listener",
            Self::FilterChain => "envoy.config.listener.v3.FilterChain",
            Self::ListenerFilter => "envoy.config.listener.v3.ListenerFilter",
            Self::NetworkFilter => "envoy.config.listener.v3.Filter",
            Self::HttpFilter => "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
            Self::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
            Self::VirtualHost => "envoy.config.route.v3.VirtualHost",
            Self::HttpRoute => "envoy.config.route.v3.Route",
            Self::Cluster => "envoy.config.cluster.v3.Cluster",
            Self::ExtensionConfig => "envoy.config.core.v3.TypedExtensionConfig",
            Self::Bootstrap => "envoy.config.bootstrap.v3.Bootstrap",
        }
    }
}

impl Operation {
    /// Whether it adds a part, wherever that stands.
    #[must_use]
    pub const fn adds(self) -> bool {
        matches!(self, Self::Add | Self::InsertBefore | Self::InsertAfter | Self::InsertFirst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_found_anywhere_and_bounded() {
        let pattern = VersionPattern::new(r"1\.3\d").unwrap();
        assert!(pattern.is_in("v1.30.3") && !pattern.is_in("1.40"));
        assert!(VersionPattern::new("(").is_err());
        assert!(VersionPattern::new("(?!1)").is_err());
        assert!(VersionPattern::new(r"(\w{100}){1000}").is_err());
        assert!(VersionPattern::new(&"a".repeat(2000)).is_err());
    }

    #[test]
    fn patterns_of_one_text_are_equal() {
        assert_eq!(VersionPattern::new("1.*").unwrap(), VersionPattern::new("1.*").unwrap());
        assert_ne!(VersionPattern::new("1.*").unwrap(), VersionPattern::new("2.*").unwrap());
    }
}
