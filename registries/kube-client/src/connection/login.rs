//! Digest of what a connection logs in with; a corrected credential has another digest.
//!
//! Computed when a connection opens, and again after the server refuses it; holds no secret. Excludes a token file,
//! because the client reads it again by itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kube::config::{AuthInfo, Cluster, Kubeconfig};

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

/// Returns the files that are read once, when a connection opens.
fn files<'a>(cluster: Option<&'a Cluster>, user: Option<&'a AuthInfo>) -> impl Iterator<Item = &'a String> {
    let authority = cluster.and_then(|cluster| cluster.certificate_authority.as_ref());
    let pair = user.map(|user| [user.client_certificate.as_ref(), user.client_key.as_ref()]);
    authority.into_iter().chain(pair.into_iter().flatten().flatten())
}
