//! A rule of a policy as Envoy's permissions, which are conditions on the operation, and principals, which are those on the client.
//!
//! `authorization` calls it for each rule of a filter.

use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::Policy;
use tributary_answer::grpc_checks;
use tributary_model::{AttributeMatch, AuthorizationRule};

use super::attributes::{Condition, has_one};

/// What runs a filter, which decides what it can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checker {
    /// Envoy, for each request.
    Requests,
    /// Envoy, for each connection of which no request is read.
    Connections,
    /// A gRPC server, for each request (gRFC A41).
    Grpc,
}

impl Checker {
    /// Whether it can compare an attribute with these values.
    fn checks(self, found: &AttributeMatch) -> bool {
        match self {
            Self::Requests => true,
            Self::Connections => !found.of.is_of_requests(),
            Self::Grpc => grpc_checks(found),
        }
    }
}

/// How rules become those of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// Trust domains of the mesh.
    pub(super) domains: &'a [Arc<str>],
    /// What runs the filter.
    pub(super) checker: Checker,
    /// Whether a rule is kept without a condition that the filter cannot check, so that it matches more. Rules of policies that
    /// accept requests are dropped instead.
    pub(super) widens: bool,
}

/// Condition of Envoy.
pub(super) trait Term: Sized {
    /// Returns a condition that always holds.
    fn any() -> Self;
    /// Returns a condition that holds if all of these do.
    fn and(all: Vec<Self>) -> Self;
    /// Returns a condition that holds if one of these does.
    fn or(all: Vec<Self>) -> Self;
    /// Returns a condition that holds if this one does not.
    fn not(self) -> Self;
    /// Returns a condition of an attribute if it is of this type.
    fn of(condition: Condition) -> Option<Self>;
}

/// Encodes a rule; `None` if the filter cannot check it.
pub(super) fn policy(rule: &AuthorizationRule, context: &Context<'_>) -> Option<Policy> {
    let is_of_operation = |found: &&AttributeMatch| found.of.is_of_operation();
    let (operation, client): (Vec<_>, Vec<_>) = rule.when.iter().partition(is_of_operation);
    Some(Policy {
        permissions: alternatives(&rule.to, &operation, context)?,
        principals: alternatives(&rule.from, &client, context)?,
        ..Policy::default()
    })
}

/// Encodes lists of conditions, each with the further ones; the further ones alone if there is no list.
fn alternatives<T: Term>(
    lists: &[Arc<[AttributeMatch]>],
    further: &[&AttributeMatch],
    context: &Context<'_>,
) -> Option<Vec<T>> {
    let all = |list: &[AttributeMatch]| all_of(list.iter().chain(further.iter().copied()), context);
    if lists.is_empty() {
        return Some(vec![all(&[])?]);
    }
    lists.iter().map(|list| all(list)).collect()
}

fn all_of<'a, T: Term>(
    conditions: impl Iterator<Item = &'a AttributeMatch>,
    context: &Context<'_>,
) -> Option<T> {
    let mut terms = Vec::new();
    for found in conditions {
        let is_known = context.checker.checks(found);
        for (values, inverts) in [(&found.values, false), (&found.not, true)] {
            if values.is_empty() {
                continue;
            }
            match has_one(&found.of, values, context.domains).and_then(T::of).filter(|_| is_known) {
                Some(term) => terms.push(if inverts { term.not() } else { term }),
                None if context.widens => {}
                None => return None,
            }
        }
    }
    if terms.is_empty() {
        terms.push(T::any());
    }
    Some(T::and(terms))
}
