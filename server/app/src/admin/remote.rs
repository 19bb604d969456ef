//! Who may use the remote admin listener: operators that prove themselves by a client certificate or a token.
//!
//! `access` calls [`RemoteAccess::admit`] for every request to a route that is not open. A certificate counts if one of its names is
//! listed; a token counts if the config cluster grants it, and its user has the right to `get` or `post` on `/debug/*`. Without
//! either, or without an answer of the cluster, a request is refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use tributary_model::ClusterId;
use tributary_xds::token::{BearerToken, TokenRefused};

use crate::config::model::RemoteAdminConfig;
use crate::tokens::Tokens;

/// Names in the certificate that a client presented, set on every request by the listener.
#[derive(Debug, Clone, Default)]
pub struct PeerNames(pub Arc<[String]>);

/// An operator with rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminUser {
    /// Name of the user of the token, or the name in the certificate.
    pub name: Arc<str>,
    /// Whether the user may read.
    pub may_view: bool,
    /// Whether the user may change something.
    pub may_change: bool,
}

/// Rules of the remote admin listener.
pub struct RemoteAccess {
    viewers: BTreeSet<String>,
    operators: BTreeSet<String>,
    tokens: Option<(Tokens<AdminUser>, ClusterId)>,
}

/// Refusal: the status, and the text for the client.
pub type Refusal = (StatusCode, String);

impl RemoteAccess {
    /// Creates the rules of a configuration. Tokens are reviewed by one cluster.
    #[must_use]
    pub fn new(config: &RemoteAdminConfig, tokens: Option<(Tokens<AdminUser>, ClusterId)>) -> Self {
        let set = |names: &[String]| names.iter().cloned().collect();
        Self { viewers: set(&config.viewers), operators: set(&config.operators), tokens }
    }
    /// Returns the operator of a request who may do it, or the refusal.
    pub async fn admit(
        &self,
        peer: &PeerNames,
        headers: &HeaderMap,
        changes: bool,
    ) -> Result<AdminUser, Refusal> {
        let user = match self.of_certificate(peer) {
            Some(user) => user,
            None => self.of_token(peer, headers).await?,
        };
        if if changes { user.may_change } else { user.may_view } {
            return Ok(user);
        }
        let (verb, what) = if changes { ("post", "change") } else { ("get", "read") };
        let AdminUser { name, .. } = user;
        let why = format!(
            "{name} may not {what}: it needs the right to {verb} /debug/*, or to be listed in admin.remote\n"
        );
        Err((StatusCode::FORBIDDEN, why))
    }
    fn of_certificate(&self, peer: &PeerNames) -> Option<AdminUser> {
        let operator = peer.0.iter().find(|name| self.operators.contains(*name));
        let name = operator.or_else(|| peer.0.iter().find(|name| self.viewers.contains(*name)))?;
        Some(AdminUser { name: name.as_str().into(), may_view: true, may_change: operator.is_some() })
    }
    async fn of_token(&self, peer: &PeerNames, headers: &HeaderMap) -> Result<AdminUser, Refusal> {
        let refuse = |why: &str| (StatusCode::UNAUTHORIZED, format!("{why}\n"));
        let Some((tokens, cluster)) = &self.tokens else {
            return Err(refuse(if peer.0.is_empty() {
                "present a client certificate"
            } else {
                "no name of the client certificate is listed in admin.remote"
            }));
        };
        let token = BearerToken::of(headers).map_err(refuse)?;
        let token = token.ok_or_else(|| {
            refuse(if peer.0.is_empty() {
                "present a token of the cluster"
            } else {
                "no name of the client certificate is listed in admin.remote: list it, or present a token of the cluster"
            })
        })?;
        tokens.decide(cluster.clone(), token).await.map_err(|refused| match refused {
            TokenRefused::Invalid(why) => refuse(&format!("the token is refused: {why}")),
            TokenRefused::NoCluster => unavailable("the cluster that reviews tokens is not served"),
            TokenRefused::Unavailable(why) => unavailable(&why),
        })
    }
}

/// A cluster that does not answer grants nothing.
fn unavailable(why: &str) -> Refusal {
    (StatusCode::SERVICE_UNAVAILABLE, format!("the token cannot be reviewed: {why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk() -> RemoteAccess {
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let config = RemoteAdminConfig {
            viewers: names(&["spiffe://x/viewer", "both.example"]),
            operators: names(&["ops.example", "both.example"]),
            ..RemoteAdminConfig::default()
        };
        RemoteAccess::new(&config, None)
    }

    async fn status(names: &[&str], changes: bool) -> Result<String, u16> {
        let peer = PeerNames(names.iter().map(ToString::to_string).collect());
        let admitted = mk().admit(&peer, &HeaderMap::new(), changes).await;
        admitted.map(|user| user.name.to_string()).map_err(|(status, _)| status.as_u16())
    }

    #[tokio::test]
    async fn only_listed_names_of_certificates_count() {
        assert_eq!(status(&["x", "spiffe://x/viewer"], false).await, Ok("spiffe://x/viewer".to_owned()));
        assert_eq!(status(&["spiffe://x/viewer"], true).await, Err(403));
        assert_eq!(status(&["ops.example"], true).await, Ok("ops.example".to_owned()));
        assert_eq!(status(&["both.example"], true).await, Ok("both.example".to_owned()));
        for names in [&[][..], &["ops.example.evil"], &["OPS.example"], &["*"]] {
            assert_eq!(status(names, false).await, Err(401), "{names:?}");
        }
    }
}
