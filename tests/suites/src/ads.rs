//! Raw ADS: a client that sends exactly what a test requests, and a scripted server that answers from a table.
//! Session scenarios and benches use the client; tests of the harness use both.

pub mod answer;
pub mod client;
pub mod frame;
pub mod scripted;

pub use answer::{Answer, Item};
pub use client::{AdsClient, Tuning, node};
pub use frame::GrpcStatus;
pub use scripted::{ReceivedRequest, ScriptedAds};

/// Type URL of clusters.
pub const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Type URL of endpoints.
pub const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Type URL of listeners.
pub const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// Type URL of routes.
pub const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/// Type of secrets.
pub const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// The two ADS protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

impl Variant {
    /// Both protocols, for tests that apply to either.
    pub const BOTH: [Self; 2] = [Self::Sotw, Self::Delta];

    /// Returns the gRPC path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Sotw => "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
            Self::Delta => "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        }
    }
}
