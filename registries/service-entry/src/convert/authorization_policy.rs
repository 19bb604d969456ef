//! Converts an AuthorizationPolicy to a policy.

use std::sync::Arc;

use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationPolicy, AuthorizationRule, DeclaredPolicy,
    Fact, Policy, PolicyKey, PolicyKind, ValueMatch,
};

use crate::document::authorization_policy::values::{attribute_of, value_of};
use crate::document::authorization_policy::{self, Action, Clause, Rule};
use crate::document::{Meta, Object, Text};

/// The annotation of a policy that only reports what it would do.
pub(crate) const DRY_RUN: &str = "istio.io/dry-run";

/// The policy of a document; none if it concerns no sidecar.
pub(super) fn fact(
    object: &Object,
    meta: &Meta,
    document: &authorization_policy::AuthorizationPolicy,
) -> Option<Fact> {
    if !document.targets.is_empty() {
        return None;
    }
    let key = PolicyKey {
        kind: PolicyKind::AuthorizationPolicy,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let policy = Policy::AuthorizationPolicy(policy(meta, document));
    Some(Fact::Policy(
        key,
        Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }),
    ))
}

fn policy(meta: &Meta, document: &authorization_policy::AuthorizationPolicy) -> AuthorizationPolicy {
    let selector = document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default();
    if document.is_stand_in {
        return AuthorizationPolicy::stand_in(selector);
    }
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.sort();
    let provider = document.provider.as_ref().map(|name| Arc::clone(&name.value)).unwrap_or_default();
    AuthorizationPolicy {
        selector,
        action: match document.action() {
            Action::Allow => AuthorizationAction::Allow,
            Action::Deny => AuthorizationAction::Deny,
            Action::Audit => AuthorizationAction::Audit,
            Action::Custom => AuthorizationAction::Custom(provider),
        },
        is_dry_run: is_dry_run(meta),
        rules: document.rules.iter().filter_map(|one| rule(one, meta.namespace.as_str())).collect(),
        ignored: ignored.into(),
    }
}

/// Whether the annotation is true, in any form that Istio takes.
pub(crate) fn is_dry_run(meta: &Meta) -> bool {
    meta.annotation(DRY_RUN).is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// A rule; none if a part of it is not valid, without which it would match more.
fn rule(rule: &Rule, namespace: &str) -> Option<AuthorizationRule> {
    let all =
        |clauses: &[Clause]| clauses.iter().map(|one| clause(one, namespace)).collect::<Option<Arc<[_]>>>();
    let when = rule.when.iter().map(|condition| {
        let of = attribute_of(&condition.key.value).ok()?;
        compared(of, &condition.values, &condition.not, namespace)
    });
    Some(AuthorizationRule { from: all(&rule.from)?, to: all(&rule.to)?, when: when.collect::<Option<_>>()? })
}

fn clause(clause: &Clause, namespace: &str) -> Option<Arc<[AttributeMatch]>> {
    let fields = clause.fields.iter();
    fields.map(|one| compared(one.field.of.clone(), &one.values, &one.not, namespace)).collect()
}

fn compared(of: Attribute, values: &[Text], not: &[Text], namespace: &str) -> Option<AttributeMatch> {
    let read = |texts: &[Text]| {
        let values = texts.iter().map(|text| value_of(&of, &text.value, namespace).ok());
        values.collect::<Option<Arc<[ValueMatch]>>>()
    };
    let (values, not) = (read(values)?, read(not)?);
    Some(AttributeMatch { of, values, not })
}
