//! Connections with vetted kubeconfigs.
//!
//! The application opens them. Every address is checked again when it is dialled, because a name can resolve to another one at any
//! time. Only the authorities of the kubeconfig are trusted, no file and no variable is read, and no redirect is followed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::AuthInfo;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tributary_kube_client::{AddressCheck, ConnectError, Connection};
use tributary_registry_api::{Credential, Reason};

use crate::allowed::Allowed;
use crate::kubeconfig::VettedKubeconfig;
use crate::refusal::OptIn;

impl VettedKubeconfig {
    /// Opens a connection that dials only what `allowed` lets pass. It dials at the first request. Requires a tokio runtime
    /// context.
    pub fn connect(&self, allowed: &Allowed) -> Result<Connection, ConnectError> {
        let described = format!("{} of the kubeconfig", self.authentication().join(" and "));
        if self.proxy().is_some() {
            let why = Reason::new("proxy-url is not supported: reach the server without one");
            return Err(ConnectError::Unusable(described, why));
        }
        let config = self.config().map_err(|why| ConnectError::Unusable(described.clone(), why))?;
        Connection::guarded(config, check(allowed.clone()), described)
    }
    fn config(&self) -> Result<kube::Config, Reason> {
        let mut config = kube::Config::new(self.server().parse().map_err(Reason::new)?);
        config.accept_invalid_certs = self.authorities().is_none();
        config.root_cert = self.authorities().map(der).transpose()?;
        config.tls_server_name = self.tls_server_name().map(str::to_owned);
        config.auth_info = self.auth_info()?;
        Ok(config)
    }
    fn auth_info(&self) -> Result<AuthInfo, Reason> {
        let mut auth = AuthInfo::default();
        if let Some(certificate) = self.certificate() {
            auth.client_certificate_data = Some(STANDARD.encode(certificate.chain.expose()));
            auth.client_key_data = Some(STANDARD.encode(certificate.key.expose()).into());
        }
        if let Some(password) = self.password() {
            auth.username = Some(text(&password.user)?.to_owned());
            auth.password = Some(text(&password.password)?.into());
        }
        // as kubectl does, a token precedes a password
        if let Some(token) = self.token() {
            auth.username = None;
            auth.password = None;
            auth.token = Some(text(token)?.into());
        }
        if let Some(other) = self.impersonation() {
            auth.impersonate.clone_from(&other.user);
            auth.impersonate_uid.clone_from(&other.uid);
            auth.impersonate_groups = Some(other.groups.clone()).filter(|groups| !groups.is_empty());
            auth.impersonate_user_extra = Some(other.extra.clone().into_iter().collect());
        }
        Ok(auth)
    }
}

fn text(secret: &Credential) -> Result<&str, Reason> {
    std::str::from_utf8(secret.expose()).map_err(|_| Reason::new("a credential is not UTF-8"))
}

/// Returns the certificates of a PEM text, which vetting has read before.
fn der(pem: &[u8]) -> Result<Vec<Vec<u8>>, Reason> {
    let all = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.as_ref().to_vec()));
    all.collect::<Result<_, _>>().map_err(|_| Reason::new("certificate-authority-data is not PEM"))
}

/// Checks addresses, and names the flag that would allow one.
fn check(allowed: Allowed) -> AddressCheck {
    std::sync::Arc::new(move |address| {
        allowed.check(address).map_err(|blocked| {
            let allow = OptIn::ServerCidr(blocked.range);
            format!("{}; use another address, or allow it with `{allow}`", blocked.class.describe())
        })
    })
}
