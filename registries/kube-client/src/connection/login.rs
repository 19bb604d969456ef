//! Digest of what a connection logs in with; a corrected credential has another digest.
//!
//! Computed when a connection opens, and again after the server refuses it; holds no secret. Excludes a token file,
//! because the client reads it again by itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::ExposeSecret as _;
use tributary_registry_api::Credential;

use super::find;

/// Digest of a context's server and user, and of the files that they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    digest: u64,
    plugin: bool,
}

impl Login {
    pub(super) fn of(kubeconfig: &Kubeconfig, chosen: &find::Chosen) -> Self {
        let (cluster, user) = chosen.parts(kubeconfig);
        let mut digest = DefaultHasher::new();
        serde_json::to_string(&(cluster, user)).unwrap_or_default().hash(&mut digest);
        for path in files(cluster, user) {
            std::fs::read(path).ok().hash(&mut digest);
        }
        let plugin = user.is_some_and(|user| user.exec.is_some() || user.auth_provider.is_some());
        Self { digest: digest.finish(), plugin }
    }
    /// Whether a program supplies the credential; it can return another one at any time.
    #[must_use]
    pub const fn asks_a_plugin(&self) -> bool {
        self.plugin
    }
}

/// What a context presents to its server, as far as the kubeconfig and the files that it names state it. Its `Debug` shows no value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presented {
    /// Token.
    pub token: Option<Credential>,
    /// Client certificate in PEM.
    pub certificate: Option<Credential>,
    /// Whether the token is in a file, which another program replaces before it ends.
    pub is_refreshed: bool,
}

impl Presented {
    pub(super) fn of(kubeconfig: &Kubeconfig, chosen: &find::Chosen) -> Self {
        let Some(user) = chosen.parts(kubeconfig).1 else { return Self::default() };
        let inline = user.token.as_ref().map(|token| token.expose_secret().as_bytes().to_vec());
        let file = user.token_file.as_ref().and_then(|path| std::fs::read(path).ok());
        let is_refreshed = file.is_some();
        let data = user.client_certificate_data.as_ref().and_then(|data| STANDARD.decode(data.trim()).ok());
        let path = user.client_certificate.as_ref();
        let certificate = data.or_else(|| path.and_then(|path| std::fs::read(path).ok()));
        let trimmed = |bytes: Vec<u8>| Credential::new(bytes.trim_ascii().to_vec());
        // as the client does, a file precedes a token
        Self {
            token: file.or(inline).map(trimmed),
            certificate: certificate.map(Credential::new),
            is_refreshed,
        }
    }
}

/// Returns the files that are read once, when a connection opens.
fn files<'a>(cluster: Option<&'a Cluster>, user: Option<&'a AuthInfo>) -> impl Iterator<Item = &'a String> {
    let authority = cluster.and_then(|cluster| cluster.certificate_authority.as_ref());
    let pair = user.map(|user| [user.client_certificate.as_ref(), user.client_key.as_ref()]);
    authority.into_iter().chain(pair.into_iter().flatten().flatten())
}
