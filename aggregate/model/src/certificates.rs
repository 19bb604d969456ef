//! Where a client has its certificates of the mesh.
//!
//! xds reads it from the client's node; the plans of xDS clusters read it to decide whether the client can use mesh TLS.

use std::sync::Arc;

/// Source of a client's certificate and of the authorities of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum CertificateSource {
    /// None that the server knows of.
    #[default]
    None,
    /// SDS at this xDS cluster of its bootstrap, such as the agent beside the proxy.
    Sds(Arc<str>),
    /// Files of the client. The server answers its SDS requests with their paths.
    Files,
}

impl CertificateSource {
    /// xDS cluster of the agent in the bootstrap of Istio's proxies.
    pub const AGENT: &'static str = "sds-grpc";

    /// Whether the client has certificates.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::None
    }
}

/// Paths of files of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertificateFiles {
    /// Certificate chain.
    pub chain: Arc<str>,
    /// Key.
    pub key: Arc<str>,
    /// Authorities of the mesh.
    pub authorities: Arc<str>,
}
