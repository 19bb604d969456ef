//! RequestAuthentication of `security.istio.io`: which tokens of requests workloads accept.

pub(crate) mod keys;
pub(crate) mod uri;

use std::time::Duration;

use tributary_model::Labels;

use super::authorization_policy::Target;
use super::{Located, Text};

/// Tokens of requests that workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestAuthentication {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Selects workloads of its namespace; all of them if absent or empty.
    pub selector: Option<Located<Labels>>,
    /// Objects to which it is attached. A policy with any concerns gateways and waypoints, and no sidecar.
    pub targets: Vec<Target>,
    /// Rules.
    pub rules: Vec<TokenRule>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
    /// Whether it stands in for a document that is not valid: it has a selector and refuses everything.
    pub is_stand_in: bool,
}

/// Tokens of an issuer. Empty texts count as absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenRule {
    /// Position.
    pub at: Located<()>,
    /// Issuer.
    pub issuer: Option<Text>,
    /// Audiences.
    pub audiences: Vec<Text>,
    /// Keys as text.
    pub jwks: Option<Text>,
    /// Address of keys.
    pub jwks_uri: Option<Text>,
    /// Headers in which tokens are: name, and text before the token.
    pub headers: Vec<(Text, Text)>,
    /// Parameters in which tokens are.
    pub params: Vec<Text>,
    /// Cookies in which tokens are.
    pub cookies: Vec<Text>,
    /// Whether the application gets the token.
    pub forwards: bool,
    /// Header by which it gets the claims.
    pub payload_header: Option<Text>,
    /// Headers by which it gets single claims: name, and claim.
    pub claim_headers: Vec<(Text, Text)>,
    /// Claims whose texts are lists that spaces separate.
    pub spaced_claims: Vec<Text>,
    /// How long a client waits for keys.
    pub timeout: Option<Duration>,
}
