//! TLS for listeners: certificates that are reloaded between connections, and the identities that
//! peers prove.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tributary_model::{Code, Identity};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// TLS files of a listener, as PEM.
#[derive(Clone)]
pub struct TlsMaterial {
    /// The certificate chain.
    pub certificates: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
    /// CA that signs client certificates; `None` requests no client certificate.
    pub client_ca: Option<Vec<u8>>,
    /// Whether a client may connect without a certificate although there is a CA: it then presents a token.
    pub is_certificate_optional: bool,
    /// Protocols that the listener offers (ALPN), the preferred one first.
    pub protocols: &'static [&'static str],
}

impl TlsMaterial {
    /// Protocols of a gRPC listener.
    pub const GRPC: &'static [&'static str] = &["h2"];
    /// Protocols of a listener of HTTP/1.1.
    pub const HTTP1: &'static [&'static str] = &["http/1.1"];
}

impl std::fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsMaterial").field("client_ca", &self.client_ca.is_some()).finish_non_exhaustive()
    }
}

/// Reason why TLS files cannot be used. Never contains their content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be used: {why}")]
pub struct TlsError {
    /// `the certificate`, `the key`, `the client CA` or [`PAIR`](Self::PAIR).
    pub what: &'static str,
    /// What is wrong and what to do.
    pub why: String,
}

impl TlsError {
    /// Code of this error.
    pub const CODE: Code = Code::TLS_FILES;
    /// A key and a certificate that do not belong together.
    pub const PAIR: &'static str = "the pair of certificate and key";

    fn new(what: &'static str, why: impl ToString) -> Self {
        Self { what, why: why.to_string() }
    }
}

/// TLS configuration of a listener. New connections use the last one; open ones keep theirs.
#[derive(Debug)]
pub struct Tls {
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Loads the files.
    pub fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        Ok(Self { current: ArcSwap::new(server_config(material)?) })
    }
    /// Uses new files from the next connection on. Keeps the current ones on error.
    pub fn reload(&self, material: &TlsMaterial) -> Result<(), TlsError> {
        self.current.store(server_config(material)?);
        Ok(())
    }
    /// Returns the configuration for a new connection.
    #[must_use]
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }
}

fn server_config(material: &TlsMaterial) -> Result<Arc<ServerConfig>, TlsError> {
    const CERTIFICATE: &str = "the certificate";
    let chain = certificates(CERTIFICATE, &material.certificates)?;
    let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|e| TlsError::new("the key", e))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::new(CERTIFICATE, e))?;
    let builder = match &material.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => builder.with_client_cert_verifier(verifier(pem, material.is_certificate_optional)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| {
        let is_mismatch = matches!(e, rustls::Error::InconsistentKeys(_));
        TlsError::new(if is_mismatch { TlsError::PAIR } else { CERTIFICATE }, e)
    })?;
    config.alpn_protocols = material.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

fn verifier(
    pem: &[u8],
    is_optional: bool,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    const CA: &str = "the client CA";
    let mut roots = RootCertStore::empty();
    for root in certificates(CA, pem)? {
        roots.add(root).map_err(|e| TlsError::new(CA, e))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|e| TlsError::new(CA, e))
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|e| TlsError::new(what, e))?;
    if all.is_empty() {
        return Err(TlsError::new(what, "no certificate found; use PEM"));
    }
    Ok(all)
}

/// Returns the URIs and DNS names of a verified peer's certificate.
#[must_use]
pub fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let texts = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(name) | GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    texts.collect()
}

/// Returns the URIs of a verified peer's certificate. None if one cannot be an identity: the others must not hide it.
pub(crate) fn identities(certificate: &CertificateDer<'_>) -> Vec<Identity> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let uris = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(Identity::new(*uri).ok()),
        _ => None,
    });
    uris.collect::<Option<_>>().unwrap_or_default()
}
