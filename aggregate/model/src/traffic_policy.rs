//! How clients use the endpoints of a host: balancing, connections, ejection and TLS.
//!
//! Adapters build these values from DestinationRules after validation; xds encodes them into xDS clusters. An absent
//! field has the value that Envoy or the mesh gives it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::port::PortNumber;

/// Settings of an xDS cluster. Each part replaces that of the level above as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct TrafficPolicy {
    /// Choice of an endpoint.
    pub balancer: Option<Arc<LoadBalancer>>,
    /// Limits of connections and requests.
    pub pool: Option<Arc<ConnectionPool>>,
    /// Ejection of endpoints that fail.
    pub outliers: Option<Arc<OutlierDetection>>,
    /// TLS of connections.
    pub tls: Option<Arc<ClientTls>>,
}

/// Settings for all ports of a host and for some of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct PortPolicies {
    /// Settings of all ports.
    pub all: TrafficPolicy,
    /// Settings of single ports. They replace those of all ports, also where a part is absent.
    pub ports: Arc<BTreeMap<PortNumber, TrafficPolicy>>,
}

/// Settings of no port, shared: most rules and subsets have none.
static NO_PORTS: LazyLock<Arc<BTreeMap<PortNumber, TrafficPolicy>>> = LazyLock::new(Arc::default);

impl Default for PortPolicies {
    fn default() -> Self {
        Self::new(TrafficPolicy::default(), BTreeMap::new())
    }
}

impl PortPolicies {
    /// Returns settings of all ports and of single ones.
    #[must_use]
    pub fn new(all: TrafficPolicy, ports: BTreeMap<PortNumber, TrafficPolicy>) -> Self {
        let ports = if ports.is_empty() { Arc::clone(&NO_PORTS) } else { Arc::new(ports) };
        Self { all, ports }
    }
    /// Returns the settings of a port.
    #[must_use]
    pub fn of(&self, port: PortNumber) -> &TrafficPolicy {
        self.ports.get(&port).unwrap_or(&self.all)
    }
    /// Returns the settings of a port under those of a level above, such as a subset's under its rule's.
    #[must_use]
    pub fn of_under(&self, port: PortNumber, above: &TrafficPolicy) -> TrafficPolicy {
        self.ports.get(&port).cloned().unwrap_or_else(|| self.all.over(above))
    }
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all == TrafficPolicy::default() && self.ports.is_empty()
    }
}

impl TrafficPolicy {
    /// Returns the property of a request that decides its endpoint.
    #[must_use]
    pub fn hash(&self) -> Option<&HashKey> {
        match &self.balancer.as_ref()?.algorithm {
            Algorithm::RingHash(key, _) | Algorithm::Maglev(key, _) => Some(key),
            _ => None,
        }
    }
    /// Whether connections keep their destination.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.balancer.as_ref().is_some_and(|balancer| balancer.algorithm == Algorithm::Passthrough)
    }
    /// Whether connections have TLS with certificates of the mesh.
    #[must_use]
    pub fn is_mutual(&self) -> bool {
        matches!(self.tls.as_deref(), Some(ClientTls::IstioMutual(_)))
    }
    /// Returns these parts, the absent ones from `above`.
    #[must_use]
    pub fn over(&self, above: &Self) -> Self {
        Self {
            balancer: self.balancer.clone().or_else(|| above.balancer.clone()),
            pool: self.pool.clone().or_else(|| above.pool.clone()),
            outliers: self.outliers.clone().or_else(|| above.outliers.clone()),
            tls: self.tls.clone().or_else(|| above.tls.clone()),
        }
    }
}

/// Choice of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct LoadBalancer {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Which localities are used; that of the mesh if absent.
    pub locality: Option<LocalityBalancing>,
    /// Increasing share of new endpoints.
    pub warmup: Option<Warmup>,
}

/// Algorithm of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum Algorithm {
    /// The usual one, which is least request.
    #[default]
    Usual,
    /// The endpoint with fewer active requests of two.
    LeastRequest,
    /// A random endpoint.
    Random,
    /// One after the other.
    RoundRobin,
    /// The original destination of the connection.
    Passthrough,
    /// The same endpoint for the same key, by a ring of at least this many entries; Envoy's default without one.
    RingHash(HashKey, Option<u64>),
    /// The same endpoint for the same key, by a table of this size; Envoy's default without one.
    Maglev(HashKey, Option<u64>),
}

/// Property of a request that decides its endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum HashKey {
    /// A header.
    Header(Arc<str>),
    /// A cookie.
    Cookie(HashCookie),
    /// Address of the client.
    SourceIp,
    /// A parameter of the query.
    Query(Arc<str>),
}

/// Cookie that decides the endpoint of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct HashCookie {
    /// Name.
    pub name: Arc<str>,
    /// Path of a cookie that the client's proxy creates.
    pub path: Arc<str>,
    /// Lifetime of a created cookie; a session for 0. Without it the proxy creates none.
    pub ttl: Option<Duration>,
    /// Further attributes of a created cookie, in declared order.
    pub attributes: Arc<[(Arc<str>, Arc<str>)]>,
}

/// Increasing share of new endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Warmup {
    /// Time until the whole share.
    pub duration: Duration,
    /// Smallest share in thousandths of a percent.
    pub minimum: Option<u32>,
    /// Exponent of the increase in thousandths.
    pub aggression: Option<u32>,
}

/// Which localities clients use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum LocalityBalancing {
    /// All alike.
    #[default]
    Off,
    /// The nearest that has healthy endpoints. Needs ejection of endpoints that fail.
    Failover {
        /// Region that replaces another one.
        regions: Arc<[(Arc<str>, Arc<str>)]>,
        /// Labels whose equality decides the order, the most significant first, some with a fixed value.
        labels: Arc<[FailoverLabel]>,
    },
    /// Shares in percent.
    Distribute(Arc<[Distribution]>),
}

/// Label that decides the order of localities.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct FailoverLabel {
    /// Key.
    pub key: Arc<str>,
    /// Value that is compared; that of the client if absent.
    pub value: Option<Arc<str>>,
}

impl LocalityBalancing {
    /// Returns the keys of the client labels by which it orders endpoints.
    pub fn compared_labels(&self) -> impl Iterator<Item = &Arc<str>> {
        let labels = match self {
            Self::Failover { labels, .. } => &**labels,
            Self::Off | Self::Distribute(_) => &[],
        };
        labels.iter().filter(|label| label.value.is_none()).map(|label| &label.key)
    }
}

impl FailoverLabel {
    /// Reads `key` or `key=value`.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text.split_once('=') {
            Some((key, value)) => Self { key: key.into(), value: Some(value.into()) },
            None => Self { key: text.into(), value: None },
        }
    }
    /// Whether it compares networks. As the first label it does not end the comparison: the others count among endpoints
    /// of other networks too.
    #[must_use]
    pub fn is_network(&self) -> bool {
        *self.key == *crate::labels::NETWORK && self.value.is_none()
    }
}

/// Shares of clients in one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Distribution {
    /// Place of the clients, such as `region/zone/*`.
    pub from: Arc<str>,
    /// Share in percent of each place.
    pub to: Arc<[(Arc<str>, u32)]>,
}

/// Limits of connections and requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct ConnectionPool {
    /// Most connections.
    pub max_connections: Option<u32>,
    /// Longest attempt to connect.
    pub connect_timeout: Option<Duration>,
    /// TCP keepalive.
    pub keepalive: Option<Keepalive>,
    /// Longest duration of a connection.
    pub max_duration: Option<Duration>,
    /// Time without requests until a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Time without bytes until a connection of TCP is closed; without a limit for 0.
    pub tcp_idle_timeout: Option<Duration>,
    /// Most requests that wait for a connection.
    pub max_pending: Option<u32>,
    /// Most requests at once.
    pub max_requests: Option<u32>,
    /// Most requests of one connection.
    pub max_requests_per_connection: Option<u32>,
    /// Most retries at once.
    pub max_retries: Option<u32>,
    /// Most streams of one HTTP/2 connection.
    pub max_streams: Option<u32>,
    /// Version of HTTP.
    pub http: PoolHttp,
}

/// Version of HTTP on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum PoolHttp {
    /// That of the port.
    #[default]
    OfPort,
    /// HTTP/2.
    Upgrade,
    /// That of the request.
    OfClient,
}

/// TCP keepalive; absent fields have the values of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Keepalive {
    /// Probes without an answer until the connection is dead.
    pub probes: Option<u32>,
    /// Idle time until the first probe.
    pub time: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
}

/// Ejection of endpoints that fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct OutlierDetection {
    /// Answers of 500 and above in a row that eject; 0 turns it off.
    pub server_errors: Option<u32>,
    /// Answers of 502 to 504 in a row that eject; 0 turns it off.
    pub gateway_errors: Option<u32>,
    /// Failures of the connection in a row that eject, if they are counted apart.
    pub local_failures: Option<u32>,
    /// Whether failures of the connection are counted apart.
    pub splits_local: bool,
    /// Time between two examinations.
    pub interval: Option<Duration>,
    /// Shortest ejection.
    pub ejection_time: Option<Duration>,
    /// Most endpoints that may be ejected, in percent.
    pub max_ejected: Option<u32>,
    /// Share of healthy endpoints below which all are used, in percent.
    pub min_healthy: u32,
}

/// TLS of connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum ClientTls {
    /// Plain text.
    Disable,
    /// TLS without a client certificate.
    Simple(TlsSettings),
    /// TLS with a client certificate: a file of the chain and one of the key.
    Mutual(TlsSettings, Arc<str>, Arc<str>),
    /// TLS with certificates of the mesh, which its authorities verify: of the settings only names and SNI.
    IstioMutual(TlsSettings),
}

/// Verification of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct TlsSettings {
    /// File of the authorities; those of the operating system if absent.
    pub authorities: Option<Arc<str>>,
    /// File of revoked certificates.
    pub revoked: Option<Arc<str>>,
    /// Names of which the certificate must have one.
    pub names: Arc<[Arc<str>]>,
    /// Name that the client requests; the host of each request if absent.
    pub sni: Option<Arc<str>>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_port(number: u32) -> PortNumber {
        PortNumber::new(number).unwrap()
    }
    fn mk_balanced(algorithm: Algorithm) -> TrafficPolicy {
        let balancer = LoadBalancer { algorithm, ..LoadBalancer::default() };
        TrafficPolicy { balancer: Some(Arc::new(balancer)), ..TrafficPolicy::default() }
    }

    #[test]
    fn part_replaces_that_of_the_level_above() {
        let pool = Some(Arc::new(ConnectionPool { max_connections: Some(3), ..ConnectionPool::default() }));
        let above = TrafficPolicy { pool: pool.clone(), ..mk_balanced(Algorithm::Random) };
        let own = mk_balanced(Algorithm::RoundRobin).over(&above);
        assert_eq!(own, TrafficPolicy { pool, ..mk_balanced(Algorithm::RoundRobin) });
    }

    #[test]
    fn port_settings_inherit_nothing() {
        let above = mk_balanced(Algorithm::Random);
        let ports = Arc::new(BTreeMap::from([(mk_port(80), TrafficPolicy::default())]));
        let subset = PortPolicies { all: TrafficPolicy::default(), ports };
        assert_eq!(subset.of_under(mk_port(80), &above), TrafficPolicy::default());
        assert_eq!(subset.of_under(mk_port(81), &above), above);
        assert_eq!(subset.of(mk_port(81)), &TrafficPolicy::default());
    }
}
