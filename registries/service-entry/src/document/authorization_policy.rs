//! AuthorizationPolicy of `security.istio.io`: which requests and connections workloads accept.

pub(crate) mod values;

use tributary_model::{Attribute, Labels};

use super::{Located, Text};

/// Requests and connections that workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthorizationPolicy {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Selects workloads of its namespace; all of them if absent or empty.
    pub selector: Option<Located<Labels>>,
    /// Objects to which it is attached. A policy with any concerns gateways and waypoints, and no sidecar.
    pub targets: Vec<Target>,
    /// What happens to requests that a rule matches; `ALLOW` if absent.
    pub action: Option<Located<Action>>,
    /// Name of the extension that decides, with the position of `provider` if it has none.
    pub provider: Option<Text>,
    /// Rules, of which one must match.
    pub rules: Vec<Rule>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
    /// Whether it stands in for a document that is not valid: it has a selector and refuses everything.
    pub is_stand_in: bool,
}

/// What happens to requests that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// They are accepted; other requests are refused.
    #[default]
    Allow,
    /// They are refused.
    Deny,
    /// They are marked for audit.
    Audit,
    /// The provider decides.
    Custom,
}

/// Object to which a policy is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Position.
    pub at: Located<()>,
    /// Path of the field, for messages.
    pub path: String,
    /// API group; empty for the core group.
    pub group: Text,
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// Namespace; that of the policy if empty.
    pub namespace: Text,
}

/// Requests of certain clients for certain operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Position.
    pub at: Located<()>,
    /// Clients, one of which must match; any if empty.
    pub from: Vec<Clause>,
    /// Operations, one of which must match; any if empty.
    pub to: Vec<Clause>,
    /// Further conditions, all of which must hold.
    pub when: Vec<Condition>,
}

/// Fields of a `source` or an `operation`, all of which must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clause {
    /// Position.
    pub at: Located<()>,
    /// Fields with values.
    pub fields: Vec<FieldMatch>,
}

/// Values of a field and of its negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMatch {
    /// Names of both fields, and the attribute that they compare.
    pub field: &'static Field,
    /// Values, one of which the attribute must have, if there are any.
    pub values: Vec<Text>,
    /// Values, none of which it may have.
    pub not: Vec<Text>,
}

/// Names of a field and of its negation.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Name of its negation.
    pub not: &'static str,
    /// Attribute that both compare.
    pub of: Attribute,
}

/// Condition of `when`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Position.
    pub at: Located<()>,
    /// Name of the attribute.
    pub key: Text,
    /// Values, one of which the attribute must have, if there are any.
    pub values: Vec<Text>,
    /// Values, none of which it may have.
    pub not: Vec<Text>,
}

/// The fields of `source`.
pub(crate) static SOURCE: [Field; 6] = [
    field("principals", "notPrincipals", Attribute::Principal),
    field("requestPrincipals", "notRequestPrincipals", Attribute::RequestPrincipal),
    field("namespaces", "notNamespaces", Attribute::Namespace),
    field("serviceAccounts", "notServiceAccounts", Attribute::ServiceAccount),
    field("ipBlocks", "notIpBlocks", Attribute::SourceIp),
    field("remoteIpBlocks", "notRemoteIpBlocks", Attribute::RemoteIp),
];

/// The fields of `operation`.
pub(crate) static OPERATION: [Field; 4] = [
    field("hosts", "notHosts", Attribute::Host),
    field("ports", "notPorts", Attribute::DestinationPort),
    field("methods", "notMethods", Attribute::Method),
    field("paths", "notPaths", Attribute::Path),
];

const fn field(name: &'static str, not: &'static str, of: Attribute) -> Field {
    Field { name, not, of }
}

impl AuthorizationPolicy {
    /// What happens to requests that a rule matches.
    pub(crate) fn action(&self) -> Action {
        self.action.map(|action| action.value).unwrap_or_default()
    }
}
