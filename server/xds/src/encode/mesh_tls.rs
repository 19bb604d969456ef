//! TLS with certificates of the mesh (docs/reference/xds.md#mesh-tls): the two transport sockets that the metadata of an
//! endpoint chooses between, or the one of a rule.
//!
//! `cluster` calls it. What names identities and certificates is encoded once for a set of identities and copied into each
//! xDS cluster; of a socket only the server name is an xDS cluster's own.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, ConfigSource, GrpcService, TransportSocket, api_config_source::ApiType,
    transport_socket::ConfigType,
};
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as pb;
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use envoy_types::pb::google::protobuf::BoolValue;
use pb::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
use prost::{Message, Name};
use tributary_answer::{ClusterPlan, InboundTls, MeshTls, PeerNames, Transport, UpstreamHttp};
use tributary_model::{CertificateSource, SocketKey};
use tributary_proto::wire::Writer;

use super::cluster::ads;
use super::tls::{exactly, versions};
use super::{any, duration};

/// Name of the secret with the client's certificate.
pub const CERTIFICATE: &str = "default";
/// Name of the secret with the authorities of the mesh.
pub const AUTHORITIES: &str = "ROOTCA";
/// Provider of certificates in the bootstrap of a gRPC client (gRFC A29).
const PROVIDER: &str = "default";
/// Protocol of connections within a mesh: inbound listeners find their filter chain by it. Istio's sidecars offer
/// `istio-peer-exchange` too, which promises data about the proxy before that of TCP connections. Envoy without Istio's
/// filters sends none, and would pass that of the server on to the application.
const IN_MESH: &str = "istio";

const TRANSPORT_SOCKET: u32 = 24;
const TRANSPORT_SOCKET_MATCHES: u32 = 43;

/// Writes the socket of a rule, before the metadata of an xDS cluster.
pub(super) fn write_socket(wire: &mut Writer, plan: &ClusterPlan<'_>) {
    if let Transport::Mesh(tls) = &plan.transport {
        wire.message(TRANSPORT_SOCKET, |w| socket(w, tls, plan));
    }
}

/// Writes the sockets that the metadata of an endpoint chooses between, as the last field of an xDS cluster. The first that
/// matches is used; the second matches all endpoints.
pub(super) fn write_matches(wire: &mut Writer, plan: &ClusterPlan<'_>) {
    let Transport::Automatic(tls) = &plan.transport else { return };
    wire.message(TRANSPORT_SOCKET_MATCHES, |w| {
        w.string(1, "tlsMode-istio");
        w.message(2, |w| w.struct_string("tlsMode", "istio"));
        w.message(3, |w| socket(w, tls, plan));
    });
    wire.message(TRANSPORT_SOCKET_MATCHES, |w| {
        w.string(1, "tlsMode-disabled");
        w.message(2, |_| ());
        w.message(3, |w| {
            w.string(1, "envoy.transport_sockets.raw_buffer");
            w.message(3, |w| w.string(1, &RawBuffer::type_url()));
        });
    });
}

/// Writes a `TransportSocket` with an `UpstreamTlsContext`.
fn socket(wire: &mut Writer, tls: &MeshTls<'_>, plan: &ClusterPlan<'_>) {
    wire.string(1, "envoy.transport_sockets.tls");
    wire.message(3, |w| {
        w.string(1, &pb::UpstreamTlsContext::type_url());
        w.message(2, |w| {
            w.bytes(1, &common(tls, plan));
            // gRPC sends the name of its target
            w.string(2, tls.sni.as_deref().filter(|_| !plan.grpc).unwrap_or_default());
        });
    });
}

/// Returns the `CommonTlsContext`, which all xDS clusters with the same identities share.
fn common(tls: &MeshTls<'_>, plan: &ClusterPlan<'_>) -> Bytes {
    if plan.grpc {
        return by_provider(tls.names.iter().map(exactly).collect()).encode_to_vec().into();
    }
    let http2 = plan.http == UpstreamHttp::Http2;
    let make = |names: &PeerNames<'_>| by_secrets(&tls.certificates, names, http2).encode_to_vec().into();
    match &tls.names {
        PeerNames::Rule(_) => make(&tls.names),
        PeerNames::Identities(set) => {
            let key = SocketKey { certificates: tls.certificates.clone(), http2 };
            set.encoded(&key, |_| make(&tls.names))
        }
    }
}

/// Encodes a context for Envoy, whose certificates come by SDS.
#[allow(deprecated, reason = "its replacement needs the type of each name, which a rule does not have")]
fn by_secrets(source: &CertificateSource, names: &PeerNames<'_>, http2: bool) -> pb::CommonTlsContext {
    let secret = |name: &str| pb::SdsSecretConfig { name: name.into(), sds_config: Some(secrets(source)) };
    let verified = pb::CertificateValidationContext {
        match_subject_alt_names: names.iter().map(exactly).collect(),
        ..<_>::default()
    };
    let combined = CombinedCertificateValidationContext {
        default_validation_context: Some(verified),
        validation_context_sds_secret_config: Some(secret(AUTHORITIES)),
        ..<_>::default()
    };
    let protocols = [Some(IN_MESH), http2.then_some("h2")];
    pb::CommonTlsContext {
        tls_params: Some(versions()),
        tls_certificate_sds_secret_configs: vec![secret(CERTIFICATE)],
        alpn_protocols: protocols.into_iter().flatten().map(str::to_owned).collect(),
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(combined)),
        ..<_>::default()
    }
}

/// Encodes a context for gRPC, whose bootstrap has the certificates. It rejects any other field, and a server rejects names.
#[allow(deprecated, reason = "gRPC reads names from this field alone")]
fn by_provider(match_subject_alt_names: Vec<StringMatcher>) -> pb::CommonTlsContext {
    let instance = |certificate: &str| pb::CertificateProviderPluginInstance {
        instance_name: PROVIDER.into(),
        certificate_name: certificate.into(),
    };
    let verified = pb::CertificateValidationContext {
        ca_certificate_provider_instance: Some(instance(AUTHORITIES)),
        match_subject_alt_names,
        ..<_>::default()
    };
    pb::CommonTlsContext {
        tls_certificate_provider_instance: Some(instance(CERTIFICATE)),
        validation_context_type: Some(ValidationContextType::ValidationContext(verified)),
        ..<_>::default()
    }
}

/// Encodes the socket of inbound connections with mesh TLS: the client proves an identity of one of the trust domains. HTTP is
/// agreed on in the greeting; for other protocols nothing is, because a sidecar that agrees on a protocol of Istio sends data of
/// its own first.
pub(super) fn server(tls: &InboundTls, http: bool) -> TransportSocket {
    let secret =
        |name: &str| pb::SdsSecretConfig { name: name.into(), sds_config: Some(secrets(&tls.certificates)) };
    let verified = pb::CertificateValidationContext {
        match_typed_subject_alt_names: tls.domains.iter().map(|domain| of_domain(domain)).collect(),
        ..<_>::default()
    };
    let combined = CombinedCertificateValidationContext {
        default_validation_context: Some(verified),
        validation_context_sds_secret_config: Some(secret(AUTHORITIES)),
        ..<_>::default()
    };
    let protocols: &[&str] = if http { &["h2", "http/1.1"] } else { &[] };
    let context = pb::DownstreamTlsContext {
        common_tls_context: Some(pb::CommonTlsContext {
            tls_params: Some(versions()),
            tls_certificate_sds_secret_configs: vec![secret(CERTIFICATE)],
            alpn_protocols: protocols.iter().map(|name| (*name).to_owned()).collect(),
            validation_context_type: Some(ValidationContextType::CombinedValidationContext(combined)),
            ..<_>::default()
        }),
        require_client_certificate: Some(BoolValue { value: true }),
        ..<_>::default()
    };
    receiving(&context)
}

/// Encodes the socket of a gRPC server with mesh TLS: the client proves an identity of any trust domain, which a filter compares.
pub(super) fn grpc_server() -> TransportSocket {
    receiving(&pb::DownstreamTlsContext {
        common_tls_context: Some(by_provider(Vec::new())),
        require_client_certificate: Some(BoolValue { value: true }),
        ..<_>::default()
    })
}

fn receiving(context: &pb::DownstreamTlsContext) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(ConfigType::TypedConfig(any(context))),
    }
}

/// Matches identities of a trust domain.
fn of_domain(domain: &str) -> pb::SubjectAltNameMatcher {
    let prefix = format!("spiffe://{domain}/");
    let matcher = StringMatcher { match_pattern: Some(MatchPattern::Prefix(prefix)), ..<_>::default() };
    pb::SubjectAltNameMatcher {
        san_type: pb::subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(matcher),
        ..<_>::default()
    }
}

/// Returns where a client asks for its secrets: at an xDS cluster of its bootstrap, or at this server, which answers with the
/// paths of its files.
fn secrets(source: &CertificateSource) -> ConfigSource {
    let CertificateSource::Sds(cluster) = source else { return ads() };
    let service = GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: cluster.as_ref().into(),
            ..<_>::default()
        })),
        ..<_>::default()
    };
    let api = ApiConfigSource {
        api_type: ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![service],
        set_node_on_first_message_only: true,
        ..<_>::default()
    };
    ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(api)),
        resource_api_version: ApiVersion::V3.into(),
        initial_fetch_timeout: Some(duration(std::time::Duration::ZERO)),
        ..<_>::default()
    }
}

#[cfg(test)]
mod tests;
