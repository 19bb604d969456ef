//! Digests of credentials, by which the roster finds that a credential changed.
//!
//! The caller vets a kubeconfig and takes its digest; the roster compares digests and holds no credential. A digest covers what a
//! connection uses: comments, order, white space and the text around PEM blocks do not change it. The key is random per process
//! and passed in, so that a digest that is shown or stored reveals nothing about a token.

use std::fmt;

use ring::hmac;
use ring::rand::SystemRandom;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::kubeconfig::{Impersonation, VettedKubeconfig};

/// HMAC-SHA256 of a credential under the key of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Debug for Digest {
    /// Shows the first four bytes, enough to distinguish two digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", hex(&self.0[..4]))
    }
}

/// Key of the process. Its `Debug` shows nothing of it.
#[derive(Clone)]
pub struct DigestKey(hmac::Key);

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(not shown)")
    }
}

impl DigestKey {
    /// Takes 32 random bytes of the caller.
    #[must_use]
    pub fn new(random: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, random))
    }
    /// Creates a random key; `None` if the system has no random bytes.
    #[must_use]
    pub fn random() -> Option<Self> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok().map(Self)
    }
    /// Returns the digest of a vetted kubeconfig.
    #[must_use]
    pub fn of(&self, vetted: &VettedKubeconfig) -> Digest {
        let mut form = Form(hmac::Context::with_key(&self.0));
        form.part("server", vetted.server().as_bytes());
        form.optional("proxy", vetted.proxy().map(str::as_bytes));
        form.optional("name", vetted.tls_server_name().map(str::as_bytes));
        vetted.authorities().into_iter().for_each(|pem| form.certificates("authority", pem));
        form.optional("token", vetted.token().map(|token| token.expose()));
        if let Some(certificate) = vetted.certificate() {
            form.certificates("chain", certificate.chain.expose());
            form.key(certificate.key.expose());
        }
        if let Some(password) = vetted.password() {
            form.part("user", password.user.expose());
            form.part("password", password.password.expose());
        }
        vetted.impersonation().into_iter().for_each(|acts_as| form.impersonation(acts_as));
        form.digest()
    }
    /// Returns the digest of a credential that is not vetted, such as the kubeconfig of the operator's own configuration.
    #[must_use]
    pub fn of_bytes(&self, bytes: &[u8]) -> Digest {
        let mut form = Form(hmac::Context::with_key(&self.0));
        form.part("bytes", bytes);
        form.digest()
    }
}

/// Canonical form under construction: parts with their names and lengths, so that no two forms have one text.
struct Form(hmac::Context);

impl Form {
    fn part(&mut self, name: &str, bytes: &[u8]) {
        for bytes in [name.as_bytes(), bytes] {
            self.0.update(&(bytes.len() as u64).to_be_bytes());
            self.0.update(bytes);
        }
    }
    fn optional(&mut self, name: &str, bytes: Option<&[u8]>) {
        bytes.into_iter().for_each(|bytes| self.part(name, bytes));
    }
    /// Adds the certificates of a PEM text without the text around them.
    fn certificates(&mut self, name: &str, pem: &[u8]) {
        match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
            Ok(all) => all.iter().for_each(|one| self.part(name, one)),
            Err(_) => self.part(name, pem),
        }
    }
    fn key(&mut self, pem: &[u8]) {
        match PrivateKeyDer::from_pem_slice(pem) {
            Ok(key) => self.part("key", &Zeroizing::new(key.secret_der().to_vec())),
            Err(_) => self.part("key", pem),
        }
    }
    fn impersonation(&mut self, acts_as: &Impersonation) {
        self.optional("as", acts_as.user.as_deref().map(str::as_bytes));
        self.optional("as-uid", acts_as.uid.as_deref().map(str::as_bytes));
        acts_as.groups.iter().for_each(|group| self.part("as-group", group.as_bytes()));
        for (name, values) in &acts_as.extra {
            self.part("as-extra", name.as_bytes());
            values.iter().for_each(|value| self.part("as-value", value.as_bytes()));
        }
    }
    fn digest(self) -> Digest {
        let tag = self.0.sign();
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        Digest(bytes)
    }
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
