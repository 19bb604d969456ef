//! TLS to endpoints by files of the client, as DestinationRules set it, and the secrets that name the client's files
//! (docs/reference/destination-rule.md#files).
//!
//! `cluster` calls it for xDS clusters of Envoy; `answers::secrets` for the secrets that these clusters name. A secret has
//! all of its content in its name, so it needs no catalog.

use std::fmt;
use std::str::FromStr;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::{
    DataSource, TransportSocket, UpstreamHttpProtocolOptions, WatchedDirectory, transport_socket,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as pb;
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use pb::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
use pb::tls_parameters::TlsProtocol;
use prost::Message;
use tributary_answer::{ClusterPlan, Discovery, Transport, UpstreamHttp};
use tributary_model::{ClientTls, Identity, TlsSettings};

use super::any;
use super::cluster::ads;

/// Authorities of the operating system, where Debian, Ubuntu, Alpine and distroless images have them. Envoy itself knows
/// no such file.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Most bytes of a file's path.
const PATH_MAX: usize = 4096;

/// Name of a secret: the files of the client that it reads. The spelling is Istio's, so that its agent knows it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretName {
    /// Authorities of the operating system.
    SystemRoots,
    /// A file of authorities.
    Roots(String),
    /// A file of a certificate chain, and one of its key.
    Certificate(String, String),
}

impl SecretName {
    /// Returns the files that the client reads.
    #[must_use]
    pub fn files(&self) -> Vec<&str> {
        match self {
            Self::SystemRoots => vec![SYSTEM_ROOTS],
            Self::Roots(file) => vec![file],
            Self::Certificate(chain, key) => vec![chain, key],
        }
    }
    /// Returns the secrets of files that TLS to endpoints needs; none with certificates of the mesh.
    #[must_use]
    pub fn of(tls: &ClientTls) -> Vec<Self> {
        let roots = |settings: &TlsSettings| (!settings.insecure).then(|| Self::roots_of(settings));
        match tls {
            ClientTls::Disable | ClientTls::IstioMutual(_) => Vec::new(),
            ClientTls::Simple(settings) => roots(settings).into_iter().collect(),
            ClientTls::Mutual(settings, chain, key) => {
                let own = Self::Certificate(chain.as_ref().into(), key.as_ref().into());
                std::iter::once(own).chain(roots(settings)).collect()
            }
        }
    }
    fn roots_of(settings: &TlsSettings) -> Self {
        match settings.authorities.as_deref() {
            None | Some("system") => Self::SystemRoots,
            Some(file) => Self::Roots(file.into()),
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SystemRoots => f.write_str("file-root:system"),
            Self::Roots(file) => write!(f, "file-root:{file}"),
            Self::Certificate(chain, key) => write!(f, "file-cert:{chain}~{key}"),
        }
    }
}

/// Error: a text is not the name of a secret of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotASecretName;

impl FromStr for SecretName {
    type Err = NotASecretName;

    fn from_str(name: &str) -> Result<Self, NotASecretName> {
        let path = |text: &str| {
            let is_path = !text.is_empty() && text.len() <= PATH_MAX && !text.contains(char::is_control);
            is_path.then(|| text.to_owned()).ok_or(NotASecretName)
        };
        if let Some(file) = name.strip_prefix("file-root:") {
            return if file == "system" { Ok(Self::SystemRoots) } else { path(file).map(Self::Roots) };
        }
        let files = name.strip_prefix("file-cert:").and_then(|files| files.split_once('~'));
        let (chain, key) = files.filter(|(_, key)| !key.contains('~')).ok_or(NotASecretName)?;
        Ok(Self::Certificate(path(chain)?, path(key)?))
    }
}

/// Encodes a secret: the paths of files that the client reads, and reads again when they are replaced.
#[must_use]
pub fn secret(name: &str, content: &SecretName) -> Vec<u8> {
    let roots = |file: &str| {
        pb::secret::Type::ValidationContext(pb::CertificateValidationContext {
            trusted_ca: Some(from_file(file)),
            watched_directory: folder_of(file),
            ..<_>::default()
        })
    };
    let content = match content {
        SecretName::SystemRoots => roots(SYSTEM_ROOTS),
        SecretName::Roots(file) => roots(file),
        SecretName::Certificate(chain, key) => pb::secret::Type::TlsCertificate(pb::TlsCertificate {
            certificate_chain: Some(from_file(chain)),
            private_key: Some(from_file(key)),
            // one folder is watched as a whole; files of two are watched one by one
            watched_directory: folder_of(chain).filter(|folder| folder_of(key).as_ref() == Some(folder)),
            ..<_>::default()
        }),
    };
    pb::Secret { name: name.into(), r#type: Some(content) }.encode_to_vec()
}

/// Returns the transport of connections; `None` for plain text.
pub(super) fn socket(plan: &ClusterPlan<'_>) -> Option<TransportSocket> {
    let (settings, certificate) = tls_of(plan)?;
    let http2 = plan.http == UpstreamHttp::Http2;
    let common = pb::CommonTlsContext {
        tls_params: Some(versions()),
        tls_certificate_sds_secret_configs: certificate.iter().map(by_name).collect(),
        alpn_protocols: http2.then(|| "h2".to_owned()).into_iter().collect(),
        validation_context_type: Some(verification(settings, plan)),
        ..<_>::default()
    };
    let context = pb::UpstreamTlsContext {
        common_tls_context: Some(common),
        sni: settings.sni.as_deref().unwrap_or_default().to_owned(),
        ..<_>::default()
    };
    Some(TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(&context))),
    })
}

/// Returns the options by which the host of a request becomes the name that is requested and verified.
pub(super) fn http_options(plan: &ClusterPlan<'_>) -> Option<UpstreamHttpProtocolOptions> {
    if let (Transport::Mesh(tls), Discovery::ForwardProxy) = (&plan.transport, &plan.discovery) {
        let auto_sni = tls.sni.is_none();
        return auto_sni.then(|| UpstreamHttpProtocolOptions { auto_sni, ..<_>::default() });
    }
    let (settings, _) = tls_of(plan)?;
    settings.sni.is_none().then(|| UpstreamHttpProtocolOptions {
        auto_sni: true,
        auto_san_validation: !settings.insecure && settings.names.is_empty(),
        ..<_>::default()
    })
}

fn tls_of<'a>(plan: &ClusterPlan<'a>) -> Option<(&'a TlsSettings, Option<SecretName>)> {
    match plan.transport {
        Transport::Files(ClientTls::Simple(settings)) => Some((settings, None)),
        Transport::Files(ClientTls::Mutual(settings, chain, key)) => {
            Some((settings, Some(SecretName::Certificate(chain.as_ref().into(), key.as_ref().into()))))
        }
        _ => None,
    }
}

/// Without an authority, an insecure connection is verified by nothing.
#[allow(deprecated, reason = "its replacement needs the type of each name, which a rule does not have")]
fn verification(settings: &TlsSettings, plan: &ClusterPlan<'_>) -> ValidationContextType {
    if settings.insecure {
        return ValidationContextType::ValidationContext(<_>::default());
    }
    let roots = SecretName::roots_of(settings);
    let of_service = plan.declared_names.iter().map(Identity::as_str);
    let names: Vec<&str> = settings.names.iter().map(|name| &**name).collect();
    let names = if names.is_empty() { of_service.collect() } else { names };
    let own = pb::CertificateValidationContext {
        match_subject_alt_names: names.into_iter().map(exactly).collect(),
        crl: settings.revoked.as_deref().map(from_file),
        ..<_>::default()
    };
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(own),
        validation_context_sds_secret_config: Some(by_name(&roots)),
        ..<_>::default()
    })
}

/// Returns the versions of TLS that clients use.
pub(super) fn versions() -> pb::TlsParameters {
    pb::TlsParameters {
        tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
        tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
        ..<_>::default()
    }
}

pub(super) fn exactly(name: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(name.into())), ..<_>::default() }
}

fn by_name(name: &SecretName) -> pb::SdsSecretConfig {
    pb::SdsSecretConfig { name: name.to_string(), sds_config: Some(ads()) }
}

fn from_file(path: &str) -> DataSource {
    DataSource { specifier: Some(Specifier::Filename(path.into())), ..<_>::default() }
}

/// Returns the folder of a file. Kubernetes replaces the files of a volume by a link in their folder.
fn folder_of(file: &str) -> Option<WatchedDirectory> {
    let (folder, _) = file.rsplit_once('/')?;
    let path = if folder.is_empty() { "/" } else { folder };
    Some(WatchedDirectory { path: path.into(), ..<_>::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_lead_back_to_their_files() {
        let names = [
            SecretName::SystemRoots,
            SecretName::Roots("/etc/ca~1.pem".into()),
            SecretName::Certificate("/etc/cert.pem".into(), "/etc/key.pem".into()),
        ];
        for name in names {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for none in
            ["", "default", "ROOTCA", "file-root:", "file-cert:/a", "file-cert:~/b", "file-cert:/a~/b~/c"]
        {
            assert_eq!(none.parse::<SecretName>(), Err(NotASecretName), "{none}");
        }
        assert!(format!("file-root:{}", "a".repeat(PATH_MAX + 1)).parse::<SecretName>().is_err());
    }

    fn decoded(name: &str) -> pb::secret::Type {
        let secret = pb::Secret::decode(&secret(name, &name.parse().unwrap())[..]).unwrap();
        assert_eq!(secret.name, name);
        secret.r#type.unwrap()
    }
    fn file(source: Option<&DataSource>) -> &str {
        match source.unwrap().specifier.as_ref().unwrap() {
            Specifier::Filename(path) => path,
            other => panic!("{other:?} is no file"),
        }
    }

    #[test]
    fn secret_has_paths_and_the_folder_that_is_watched() {
        let folder = |folder: Option<WatchedDirectory>| folder.map(|folder| folder.path);
        let pb::secret::Type::ValidationContext(roots) = decoded("file-root:/etc/ca.pem") else { panic!() };
        assert_eq!(
            (file(roots.trusted_ca.as_ref()), folder(roots.watched_directory)),
            ("/etc/ca.pem", Some("/etc".into()))
        );
        let pb::secret::Type::ValidationContext(roots) = decoded("file-root:system") else { panic!() };
        assert_eq!(file(roots.trusted_ca.as_ref()), SYSTEM_ROOTS);
        for (name, watched) in [("file-cert:/a/c~/a/k", Some("/a".to_owned())), ("file-cert:/a/c~/b/k", None)]
        {
            let pb::secret::Type::TlsCertificate(own) = decoded(name) else { panic!() };
            assert_eq!(
                (file(own.certificate_chain.as_ref()), folder(own.watched_directory)),
                ("/a/c", watched)
            );
        }
    }
}
