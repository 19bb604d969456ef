//! Certificates and keys inside a kubeconfig: base64 of PEM, checked before anything uses it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tributary_registry_api::Credential;
use zeroize::Zeroizing;

use super::Validity;

/// Certificates with the validity of the first one.
pub(super) struct Chain {
    pub(super) pem: Credential,
    pub(super) validity: Option<Validity>,
}

/// Reads at least one certificate.
pub(super) fn certificates(text: &str) -> Result<Chain, &'static str> {
    let pem = decoded(text)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|_| "is not PEM")?;
    let mut validity = None;
    for (at, one) in all.iter().enumerate() {
        let (_, read) = x509_parser::parse_x509_certificate(one)
            .map_err(|_| "holds a certificate that cannot be read")?;
        if at == 0 {
            validity = of_certificate(&read);
        }
    }
    if all.is_empty() { Err("holds no certificate") } else { Ok(Chain { pem: wiped(pem), validity }) }
}

/// Returns the validity of the first certificate of a PEM text.
pub(super) fn validity(pem: &[u8]) -> Option<Validity> {
    let first = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let (_, read) = x509_parser::parse_x509_certificate(&first).ok()?;
    of_certificate(&read)
}

fn of_certificate(read: &x509_parser::certificate::X509Certificate<'_>) -> Option<Validity> {
    let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let from = at(read.validity().not_before);
    at(read.validity().not_after).map(|until| Validity { from, until })
}

/// Reads a private key.
pub(super) fn key(text: &str) -> Result<Credential, &'static str> {
    let pem = decoded(text)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| "holds no private key in PEM")?;
    Ok(wiped(pem))
}

fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let dense: Zeroizing<Vec<u8>> =
        Zeroizing::new(text.bytes().filter(|b| !b.is_ascii_whitespace()).collect());
    STANDARD.decode(&*dense).map(Zeroizing::new).map_err(|_| "is not base64")
}

/// Moves bytes into a credential, which wipes them in turn.
fn wiped(mut bytes: Zeroizing<Vec<u8>>) -> Credential {
    Credential::new(std::mem::take(&mut *bytes))
}
