//! The listener of a workload of a mesh, as the sidecar beside it has one: one port that takes mesh TLS and plain text,
//! which differ in the first bytes. Each way leads to its own backend, so an answer shows how the request arrived.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::bootstrap::{cluster_at, http2, manager, socket};
use crate::tls::{Authority, Identity};

/// Description of the listener.
#[derive(Debug, Clone)]
pub struct Workload {
    at: SocketAddr,
    authority: Value,
    certificate: Value,
    server_name: Option<String>,
    client: Option<String>,
    is_grpc: bool,
    by_tls: SocketAddr,
    plain: Option<SocketAddr>,
}

impl Workload {
    /// Returns a listener that takes only mesh TLS, proves `identity` and passes requests on to `backend`.
    pub fn new(at: SocketAddr, authority: &Authority, identity: &Identity, backend: SocketAddr) -> Self {
        let file = |path: &std::path::Path| json!({"filename": path});
        Self {
            at,
            authority: file(&authority.file()),
            certificate: json!({
                "certificate_chain": file(&identity.certificate_file),
                "private_key": file(&identity.key_file),
            }),
            server_name: None,
            client: None,
            is_grpc: false,
            by_tls: backend,
            plain: None,
        }
    }

    /// Passes plain requests on to this backend.
    pub fn plain(mut self, backend: SocketAddr) -> Self {
        self.plain = Some(backend);
        self
    }

    /// Takes only connections that request this server name.
    pub fn server_name(mut self, name: &str) -> Self {
        self.server_name = Some(name.to_owned());
        self
    }

    /// Takes only clients with this identity.
    pub fn client(mut self, uri: &str) -> Self {
        self.client = Some(uri.to_owned());
        self
    }

    /// Takes TLS of gRPC clients, which offer no protocol of the mesh and request no name of it.
    pub fn grpc(mut self) -> Self {
        self.is_grpc = true;
        self.server_name = None;
        self
    }

    pub(super) fn listener(&self) -> Value {
        let mut found = json!({"transport_protocol": "tls"});
        if !self.is_grpc {
            found["application_protocols"] = json!(["istio"]);
        }
        if let Some(name) = &self.server_name {
            found["server_names"] = json!([name]);
        }
        let tls = json!({
            "filter_chain_match": found,
            "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": self.context()},
            "filters": [manager("tls", &self.name("tls"))],
        });
        let plain = self.plain.map(|_| {
            json!({
                "filter_chain_match": {"transport_protocol": "raw_buffer"},
                "filters": [manager("plain", &self.name("plain"))],
            })
        });
        let chains: Vec<Value> = [Some(tls), plain].into_iter().flatten().collect();
        json!({
            "name": self.name("listener"),
            "address": socket(self.at),
            "listener_filters": [{"name": "envoy.filters.listener.tls_inspector", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
            }}],
            "filter_chains": chains,
        })
    }

    pub(super) fn clusters(&self) -> Vec<Value> {
        let plain = self.plain.map(|at| cluster_at(&self.name("plain"), at));
        let by_tls = cluster_at(&self.name("tls"), self.by_tls);
        let by_tls = if self.is_grpc { http2(by_tls) } else { by_tls };
        [Some(by_tls), plain].into_iter().flatten().collect()
    }

    fn context(&self) -> Value {
        let mut verified = json!({"trusted_ca": self.authority});
        if let Some(uri) = &self.client {
            verified["match_typed_subject_alt_names"] =
                json!([{"san_type": "URI", "matcher": {"exact": uri}}]);
        }
        json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": true,
            "common_tls_context": {
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": [self.certificate],
                "validation_context": verified,
            },
        })
    }

    fn name(&self, part: &str) -> String {
        format!("{part}-{}", self.at)
    }
}
