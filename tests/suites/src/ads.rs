//! Raw ADS: a client that says exactly what a test tells it to, and a scripted server that answers from a
//! table. Session scenarios and benches use the client; tests of the harness use both.

pub mod answer;
pub mod client;
pub mod frame;
pub mod scripted;

pub use answer::{Answer, Item};
pub use client::{AdsClient, Tuning, node};
pub use frame::GrpcStatus;
pub use scripted::{Heard, ScriptedAds};

/// Type URL of clusters.
pub const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Type URL of endpoints.
pub const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Type URL of listeners.
pub const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// Type URL of routes.
pub const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// Which of the two ADS protocols a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

impl Variant {
    /// Both, for tests that hold for either.
    pub const BOTH: [Self; 2] = [Self::Sotw, Self::Delta];

    /// The gRPC path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Sotw => "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
            Self::Delta => "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        }
    }
}
