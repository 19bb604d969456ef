//! What it means to Envoy that an attribute has one of some values. Each attribute is listed here alone.
//!
//! `rule` calls it for each condition of a rule.

use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Principal};
use tributary_model::{Attribute, ValueMatch};

use super::aliases;
use super::matchers::{claim, header, range, string};
use super::permission::{self, path, port};
use super::principal::{self, identity, metadata, namespace, request_principals, service_account};
use super::rule::Term;

/// Condition of Envoy.
pub(super) enum Condition {
    /// On the operation.
    Operation(Permission),
    /// On the client.
    Client(Principal),
}

/// Returns the condition that an attribute has one of these values; `None` if it cannot have one of them. `domains` are the
/// trust domains of the mesh.
pub(super) fn has_one(
    attribute: &Attribute,
    values: &[ValueMatch],
    domains: &[Arc<str>],
) -> Option<Condition> {
    let client = |one: fn(&ValueMatch) -> Option<Principal>| one_of(values, one).map(Condition::Client);
    match attribute {
        Attribute::DestinationIp => operation(values, |value| range(value).map(Rule::DestinationIp)),
        Attribute::DestinationPort => operation(values, port),
        Attribute::ServerName => operation(values, |value| string(value).map(Rule::RequestedServerName)),
        Attribute::Host => operation(values, |value| header(":authority", value, true).map(Rule::Header)),
        Attribute::Method => operation(values, |value| header(":method", value, false).map(Rule::Header)),
        Attribute::Path => operation(values, path),
        Attribute::Principal => {
            let all: Vec<_> = values.iter().flat_map(|value| aliases::names(value, domains)).collect();
            one_of(&all, identity).map(Condition::Client)
        }
        Attribute::Namespace => client(namespace),
        Attribute::ServiceAccount => client(service_account),
        Attribute::SourceIp => {
            client(|value| range(value).map(Identifier::DirectRemoteIp).map(principal::of))
        }
        Attribute::RemoteIp => client(|value| range(value).map(Identifier::RemoteIp).map(principal::of)),
        Attribute::Header(name) => {
            let one = |value: &_| header(name, value, false).map(Identifier::Header).map(principal::of);
            one_of(values, one).map(Condition::Client)
        }
        Attribute::RequestPrincipal => request_principals(values).map(Condition::Client),
        Attribute::RequestAudience => has_claim(&["aud".into()], values),
        Attribute::RequestPresenter => has_claim(&["azp".into()], values),
        Attribute::RequestClaim(path) => has_claim(path, values),
    }
}

fn operation(values: &[ValueMatch], one: impl Fn(&ValueMatch) -> Option<Rule>) -> Option<Condition> {
    one_of(values, |value| one(value).map(permission::of)).map(Condition::Operation)
}

fn has_claim(path: &[Arc<str>], values: &[ValueMatch]) -> Option<Condition> {
    claim(path, values).map(metadata).map(Condition::Client)
}

fn one_of<T: Term>(values: &[ValueMatch], one: impl Fn(&ValueMatch) -> Option<T>) -> Option<T> {
    values.iter().map(one).collect::<Option<_>>().map(T::or)
}
