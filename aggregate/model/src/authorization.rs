//! AuthorizationPolicy: which requests and connections workloads accept.
//!
//! Adapters build these values from `security.istio.io` AuthorizationPolicies after validation; the answers choose those of a
//! workload, and its inbound listeners decide by them. A rule is a list of conditions on attributes, whatever the field of the
//! document was called, so that there is one way to compare a value.

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use crate::labels::Labels;
use crate::port::PortNumber;

/// Which requests and connections workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AuthorizationPolicy {
    /// Labels of the workloads that it selects; empty for all workloads of its namespace, or of the mesh if that is the
    /// root namespace.
    pub selector: Labels,
    /// What happens to requests that a rule matches.
    pub action: AuthorizationAction,
    /// Whether it only reports what it would do.
    pub is_dry_run: bool,
    /// Rules, of which one must match; without any, nothing matches.
    pub rules: Arc<[AuthorizationRule]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// The ignored path of a policy that stands in: nothing but the selector of its document has an effect.
pub(crate) const UNREADABLE: &str = "spec";

/// Whether these are the ignored paths of a policy that stands in.
pub(crate) fn stands_in(ignored: &[Arc<str>]) -> bool {
    ignored.iter().any(|path| &**path == UNREADABLE)
}

impl AuthorizationPolicy {
    /// Returns the policy that refuses everything, in place of one of which no version is valid: its workloads must not accept
    /// what it may be meant to refuse.
    #[must_use]
    pub fn stand_in(selector: Labels) -> Self {
        Self {
            selector,
            action: AuthorizationAction::Deny,
            is_dry_run: false,
            rules: [AuthorizationRule::default()].into(),
            ignored: [UNREADABLE.into()].into(),
        }
    }
    /// Whether it stands in for a policy of which no version is valid. It never takes the place of a version that was.
    #[must_use]
    pub fn is_stand_in(&self) -> bool {
        stands_in(&self.ignored)
    }
}

/// What happens to requests that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum AuthorizationAction {
    /// They are accepted; other requests are refused.
    #[default]
    Allow,
    /// They are refused.
    Deny,
    /// They are accepted, and marked for audit.
    Audit,
    /// An extension decides, which the mesh configuration names so.
    Custom(Arc<str>),
}

impl AuthorizationAction {
    /// Name in documents.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
            Self::Audit => "AUDIT",
            Self::Custom(_) => "CUSTOM",
        }
    }
}
impl fmt::Display for AuthorizationAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Requests of certain clients for certain operations: one of `from`, one of `to` and all of `when` must hold. An empty list
/// always holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct AuthorizationRule {
    /// Clients: in each, all conditions must hold.
    pub from: Arc<[Arc<[AttributeMatch]>]>,
    /// Operations: in each, all conditions must hold.
    pub to: Arc<[Arc<[AttributeMatch]>]>,
    /// Further conditions.
    pub when: Arc<[AttributeMatch]>,
}

/// Condition on an attribute. It holds if the attribute has one of `values`, where there are any, and none of `not`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AttributeMatch {
    /// Attribute.
    pub of: Attribute,
    /// Values, one of which it must have.
    pub values: Arc<[ValueMatch]>,
    /// Values, none of which it may have.
    pub not: Arc<[ValueMatch]>,
}

/// Attribute of a request or connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum Attribute {
    /// Identity that the client's certificate proves, without `spiffe://`.
    Principal,
    /// Namespace of that identity.
    Namespace,
    /// Service account of that identity, as `NAMESPACE/NAME`.
    ServiceAccount,
    /// Address from which the connection comes.
    SourceIp,
    /// Address of the client, by `x-forwarded-for` or the PROXY protocol where they are trusted.
    RemoteIp,
    /// Address to which the connection goes.
    DestinationIp,
    /// Port to which the connection goes.
    DestinationPort,
    /// Server name of the TLS handshake.
    ServerName,
    /// Host of a request.
    Host,
    /// Method of a request.
    Method,
    /// Path of a request, without the query.
    Path,
    /// Header of a request, by its name.
    Header(Arc<str>),
    /// Issuer and subject of a request's token, as `ISSUER/SUBJECT`.
    RequestPrincipal,
    /// Audience of a request's token.
    RequestAudience,
    /// Authorized presenter of a request's token.
    RequestPresenter,
    /// Claim of a request's token, by its path.
    RequestClaim(Arc<[Arc<str>]>),
}

impl Attribute {
    /// Whether it is that of a request's token.
    #[must_use]
    pub const fn is_of_token(&self) -> bool {
        matches!(
            self,
            Self::RequestPrincipal | Self::RequestAudience | Self::RequestPresenter | Self::RequestClaim(_)
        )
    }
    /// Whether it is that of the operation: where a connection goes, or what a request asks for. Others are those of the client.
    #[must_use]
    pub const fn is_of_operation(&self) -> bool {
        matches!(
            self,
            Self::DestinationIp
                | Self::DestinationPort
                | Self::ServerName
                | Self::Host
                | Self::Method
                | Self::Path
        )
    }
    /// Whether it is known only once the client or its token is authenticated.
    #[must_use]
    pub const fn is_of_identity(&self) -> bool {
        self.is_of_token() || matches!(self, Self::Principal | Self::Namespace | Self::ServiceAccount)
    }
    /// Whether only requests have it: connections of which the requests are not read lack it.
    #[must_use]
    pub const fn is_of_requests(&self) -> bool {
        match self {
            Self::Host
            | Self::Method
            | Self::Path
            | Self::Header(_)
            | Self::RequestPrincipal
            | Self::RequestAudience
            | Self::RequestPresenter
            | Self::RequestClaim(_) => true,
            Self::Principal
            | Self::Namespace
            | Self::ServiceAccount
            | Self::SourceIp
            | Self::RemoteIp
            | Self::DestinationIp
            | Self::DestinationPort
            | Self::ServerName => false,
        }
    }
}

/// Value that an attribute may have. Texts are not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum ValueMatch {
    /// This text.
    Exact(Arc<str>),
    /// A text that begins with this one: `abc*`.
    Prefix(Arc<str>),
    /// A text that ends with this one: `*abc`.
    Suffix(Arc<str>),
    /// Any text but the empty one: `*`.
    Present,
    /// A path of this form, in which `{*}` stands for one segment and `{**}` for any number of them.
    Template(Arc<str>),
    /// An address in this range.
    Range(IpNet),
    /// This port.
    Port(PortNumber),
}

impl ValueMatch {
    /// Reads a text as Istio does: `*`, `abc*` and `*abc` have a meaning, any other star is taken as it stands.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(""), _) => Self::Present,
            (Some(suffix), _) => Self::Suffix(suffix.into()),
            (None, Some(prefix)) => Self::Prefix(prefix.into()),
            (None, None) => Self::Exact(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_that_stands_in_refuses_everything_and_is_recognized() {
        let policy = AuthorizationPolicy::stand_in(Labels::default());
        assert_eq!((&policy.action, policy.rules.len()), (&AuthorizationAction::Deny, 1));
        assert_eq!(policy.rules.first(), Some(&AuthorizationRule::default()));
        assert!(policy.is_stand_in() && !policy.is_dry_run);
        let ignored = Arc::from([Arc::from("spec.selector")]);
        assert!(!AuthorizationPolicy { ignored, ..policy }.is_stand_in(), "a declared one that looks alike");
    }

    #[test]
    fn stars_at_an_end_have_a_meaning() {
        let cases = [
            ("*", ValueMatch::Present),
            ("abc*", ValueMatch::Prefix("abc".into())),
            ("*abc", ValueMatch::Suffix("abc".into())),
            ("*abc*", ValueMatch::Suffix("abc*".into())),
            ("a*c", ValueMatch::Exact("a*c".into())),
        ];
        for (text, want) in cases {
            assert_eq!(ValueMatch::of_text(text), want, "{text}");
        }
    }
}
