//! RequestAuthentication: which tokens (JWT) of requests workloads accept.
//!
//! Adapters build these values from `security.istio.io` RequestAuthentications after validation; the answers choose those of a
//! workload, and its inbound listeners check tokens by their rules. A request without a token passes: an AuthorizationPolicy
//! requires one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::authorization;
use crate::hostname::Hostname;
use crate::labels::Labels;
use crate::port::PortNumber;

/// Which tokens of requests workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct RequestAuthentication {
    /// Labels of the workloads that it selects; empty for all workloads of its namespace, or of the mesh if that is the
    /// root namespace.
    pub selector: Labels,
    /// Rules, one of which must accept a token where it looks for one.
    pub rules: Arc<[TokenRule]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

impl RequestAuthentication {
    /// Returns the policy that refuses every request, in place of one of which no version is valid: its workloads must not accept
    /// tokens that it may be meant to refuse.
    #[must_use]
    pub fn stand_in(selector: Labels) -> Self {
        Self { selector, rules: Arc::default(), ignored: [authorization::UNREADABLE.into()].into() }
    }
    /// Whether it stands in for a policy of which no version is valid. It never takes the place of a version that was.
    #[must_use]
    pub fn is_stand_in(&self) -> bool {
        authorization::stands_in(&self.ignored)
    }
}

/// Tokens of an issuer, where they are in requests, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TokenRule {
    /// Issuer that tokens must name; empty for any.
    pub issuer: Arc<str>,
    /// Audiences, of which tokens must name one; empty for any.
    pub audiences: Arc<[Arc<str>]>,
    /// Keys that verify the tokens.
    pub keys: TokenKeys,
    /// Headers in which tokens are. Without any place tokens are in `Authorization: Bearer` or the parameter `access_token`.
    pub headers: Arc<[TokenHeader]>,
    /// Parameters of the query in which tokens are.
    pub params: Arc<[Arc<str>]>,
    /// Cookies in which tokens are.
    pub cookies: Arc<[Arc<str>]>,
    /// Whether the application gets the token.
    pub forwards: bool,
    /// Header by which the application gets the claims of a valid token, encoded.
    pub payload_header: Option<Arc<str>>,
    /// Headers by which the application gets single claims of a valid token.
    pub claim_headers: Arc<[ClaimHeader]>,
    /// Claims whose texts are lists that spaces separate, beside `scope` and `permission`.
    pub spaced_claims: Arc<[Arc<str>]>,
    /// How long a client waits for keys that it fetches; [`TokenRule::TIMEOUT`] if absent.
    pub timeout: Option<Duration>,
}

impl TokenRule {
    /// Usual time to wait for keys.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
}

/// Header in which tokens are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct TokenHeader {
    /// Name.
    pub name: Arc<str>,
    /// Text before the token, such as `Bearer `.
    pub prefix: Arc<str>,
}

/// Header that has a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ClaimHeader {
    /// Name of the header.
    pub header: Arc<str>,
    /// Name of the claim; dots lead into it.
    pub claim: Arc<str>,
}

/// Keys that verify tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum TokenKeys {
    /// This JSON Web Key Set, which has nothing but what verification needs.
    Inline(Arc<str>),
    /// Those that clients fetch.
    Fetched(KeysUri),
    /// None is declared: no token is accepted. Nothing looks them up by the issuer.
    Undeclared,
}

/// Address of a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct KeysUri {
    /// The whole address.
    pub uri: Arc<str>,
    /// Whether its scheme is `https`.
    pub is_tls: bool,
    /// Host: the name of a service.
    pub host: Hostname,
    /// Port: that of the service.
    pub port: PortNumber,
}

impl fmt::Display for KeysUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_that_stands_in_is_recognized() {
        let policy = RequestAuthentication::stand_in(Labels::default());
        assert!(policy.is_stand_in() && policy.rules.is_empty());
        let ignored = Arc::from([Arc::from("spec.selector")]);
        assert!(!RequestAuthentication { ignored, ..policy }.is_stand_in(), "a declared one without rules");
    }
}
