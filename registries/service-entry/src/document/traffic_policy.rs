//! Traffic policies of a DestinationRule: balancing, connections, ejection and TLS.
//!
//! Decoding checks the range of each number and duration; validation checks how fields go together.

use std::time::Duration;

use tributary_model::{OutlierDetection, TlsSettings};

use super::{Located, Text};

/// Settings of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrafficPolicy {
    /// Position.
    pub at: Located<()>,
    /// Choice of an endpoint.
    pub balancer: Option<LoadBalancer>,
    /// Limits of connections and requests.
    pub pool: Option<ConnectionPool>,
    /// Ejection of endpoints that fail.
    pub outliers: Option<Outliers>,
    /// TLS of connections.
    pub tls: Option<ClientTls>,
    /// Settings of single ports.
    pub ports: Vec<PortPolicy>,
    /// Whether it has a field that has no effect.
    pub has_ignored: bool,
}

/// Settings of one port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortPolicy {
    /// The number of the port.
    pub number: Option<Located<i64>>,
    /// The settings.
    pub policy: TrafficPolicy,
}

/// Choice of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancer {
    /// Position.
    pub at: Located<()>,
    /// Algorithm without a key.
    pub simple: Option<Located<Simple>>,
    /// Algorithm with a key.
    pub hash: Option<ConsistentHash>,
    /// Which localities are used.
    pub locality: Option<Locality>,
    /// Whether `zoneAwareLbSetting` is set.
    pub is_zone_aware: bool,
    /// Increasing share of new endpoints.
    pub warmup: Option<Warmup>,
}

/// Algorithm without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Simple {
    /// The usual one.
    #[default]
    Unspecified,
    /// The endpoint with fewer active requests of two.
    LeastRequest,
    /// A random endpoint.
    Random,
    /// One after the other.
    RoundRobin,
    /// The original destination.
    Passthrough,
}

/// The same endpoint for the same key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsistentHash {
    /// Position.
    pub at: Located<()>,
    /// Name of the header that is the key.
    pub header: Option<Text>,
    /// Cookie that is the key.
    pub cookie: Option<Cookie>,
    /// Whether the address of the client is the key.
    pub source_ip: Option<Located<bool>>,
    /// Name of the parameter of the query that is the key.
    pub query: Option<Text>,
    /// Hash by a ring.
    pub ring: Option<HashTable>,
    /// Hash by a table.
    pub maglev: Option<HashTable>,
    /// Deprecated size of a ring; 0 is unset.
    pub minimum_ring: Option<Located<u64>>,
}

impl ConsistentHash {
    /// Number of keys that are named.
    pub(crate) fn keys(&self) -> usize {
        let keys =
            [self.header.is_some(), self.cookie.is_some(), self.source_ip.is_some(), self.query.is_some()];
        keys.into_iter().filter(|is| *is).count()
    }
    /// Whether requests have a key.
    pub(crate) fn has_key(&self) -> bool {
        self.header.is_some()
            || self.cookie.is_some()
            || self.query.is_some()
            || self.source_ip.is_some_and(|is| is.value)
    }
}

/// Table of a consistent hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashTable {
    /// Position.
    pub at: Located<()>,
    /// Its size; 0 is unset.
    pub size: Option<Located<u64>>,
}

/// Cookie that is a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cookie {
    /// Position.
    pub at: Located<()>,
    /// Name.
    pub name: Option<Text>,
    /// Path.
    pub path: Option<Text>,
    /// Lifetime.
    pub ttl: Option<Duration>,
    /// Further attributes.
    pub attributes: Vec<(Text, Text)>,
}

/// Which localities are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locality {
    /// Position.
    pub at: Located<()>,
    /// Whether localities count; true if absent.
    pub enabled: Option<bool>,
    /// Shares of clients in one place.
    pub distribute: Vec<Share>,
    /// Regions that replace others.
    pub failover: Vec<Failover>,
    /// Labels whose equality decides the order, such as `topology.kubernetes.io/zone` or `version=v1`.
    pub labels: Vec<Text>,
}

/// Shares of clients in one place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Position.
    pub at: Located<()>,
    /// Place of the clients.
    pub from: Option<Text>,
    /// Places of endpoints, with their share in percent.
    pub to: Vec<(Text, Located<i64>)>,
}

/// Region that replaces another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failover {
    /// Position.
    pub at: Located<()>,
    /// Region of the clients.
    pub from: Option<Text>,
    /// Region that is used next.
    pub to: Option<Text>,
}

/// Increasing share of new endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Warmup {
    /// Position.
    pub at: Located<()>,
    /// Time until the whole share.
    pub duration: Option<Duration>,
    /// Smallest share in thousandths of a percent.
    pub minimum: Option<u32>,
    /// Exponent of the increase in thousandths.
    pub aggression: Option<u32>,
}

/// Limits of connections and requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionPool {
    /// Position.
    pub at: Located<()>,
    /// Limits of connections.
    pub tcp: Option<TcpPool>,
    /// Limits of requests.
    pub http: Option<HttpPool>,
}

/// Limits of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpPool {
    /// Most connections; 0 is unset.
    pub max_connections: Option<u32>,
    /// Longest attempt to connect.
    pub connect_timeout: Option<Duration>,
    /// TCP keepalive.
    pub keepalive: Option<tributary_model::Keepalive>,
    /// Longest duration of a connection.
    pub max_duration: Option<Duration>,
    /// Time without bytes until a connection is closed.
    pub idle_timeout: Option<Duration>,
}

/// Limits of requests. A limit of 0 is unset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpPool {
    /// Most requests that wait for a connection.
    pub max_pending: Option<u32>,
    /// Most requests at once.
    pub max_requests: Option<u32>,
    /// Most requests of one connection.
    pub max_requests_per_connection: Option<u32>,
    /// Most retries at once.
    pub max_retries: Option<u32>,
    /// Time without requests until a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Whether HTTP/1.1 becomes HTTP/2.
    pub upgrades: bool,
    /// Whether requests keep the version of the client.
    pub keeps_version: Option<Located<bool>>,
    /// Most streams of one HTTP/2 connection.
    pub max_streams: Option<u32>,
}

/// Ejection of endpoints that fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outliers {
    /// Settings without `local_failures`.
    pub settings: OutlierDetection,
    /// Failures of the connection in a row that eject; 0 is unset.
    pub local_failures: Option<Located<u32>>,
}

/// TLS of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// Position.
    pub at: Located<()>,
    /// Mode.
    pub mode: TlsMode,
    /// File of the client's certificates.
    pub certificate: Option<Text>,
    /// File of the client's key.
    pub key: Option<Text>,
    /// Verification of the server.
    pub settings: TlsSettings,
    /// Position of `insecureSkipVerify`.
    pub insecure_at: Located<()>,
}

/// Mode of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Plain text.
    #[default]
    Disable,
    /// TLS without a client certificate.
    Simple,
    /// TLS with a client certificate.
    Mutual,
    /// TLS with certificates of the mesh.
    IstioMutual,
}
