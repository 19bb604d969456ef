//! Condition of an AuthorizationPolicy with rules that no sidecar can decide, and that therefore refuse.

use std::collections::BTreeSet;

use tributary_model::{
    AuthorizationAction, AuthorizationPolicy, Catalog, Code, Condition, Namespace, PolicyKey, PolicyKind,
    PolicyView,
};

use super::condition;
use crate::policies::in_order;

/// Returns the condition of a policy that leaves the decision to an extension, which none is asked for, or compares tokens of
/// requests where no RequestAuthentication can apply: requests that depend on them are refused.
pub(super) fn undecided(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
    let policy = view.authorization_policy()?;
    if policy.is_stand_in() {
        return None;
    }
    let message = match &policy.action {
        AuthorizationAction::Custom(_) if policy.is_dry_run => {
            "extensions are not served, so its dry run reports nothing".to_owned()
        }
        AuthorizationAction::Custom(name) => {
            format!(
                "extensions such as {name} are not served, so the requests that its rules match are refused"
            )
        }
        AuthorizationAction::Allow | AuthorizationAction::Deny | AuthorizationAction::Audit => {
            let rules = with_tokens(policy);
            if rules.is_empty() || may_read_tokens(catalog, key) {
                return None;
            }
            format!(
                "no RequestAuthentication reads tokens for its workloads, so every request counts as one without a token in: {}",
                rules.join(", ")
            )
        }
    };
    Some(condition(Code::AUTHORIZATION_UNDECIDED, view, message))
}

/// Whether a RequestAuthentication may apply to workloads of a policy: one of the root namespace, or of a namespace of theirs.
fn may_read_tokens(catalog: &Catalog, key: &PolicyKey) -> bool {
    let kind = PolicyKind::RequestAuthentication;
    let root = catalog.settings.root_namespace();
    let is_of = |namespace: &Namespace| !in_order(catalog, kind, namespace).is_empty();
    let is_any = || catalog.policies.keys().any(|other| other.kind == kind);
    let is_wide = root.as_ref() == Some(&key.namespace);
    is_of(&key.namespace) || root.as_ref().is_some_and(is_of) || (is_wide && is_any())
}

/// Returns the paths of the rules that compare tokens.
fn with_tokens(policy: &AuthorizationPolicy) -> Vec<String> {
    let rules = policy.rules.iter().enumerate().filter(|(_, rule)| {
        let lists = rule.from.iter().chain(rule.to.iter()).chain([&rule.when]);
        lists.flat_map(|list| list.iter()).any(|found| found.of.is_of_token())
    });
    let places: BTreeSet<usize> = rules.map(|(at, _)| at).collect();
    places.into_iter().map(|at| format!("rules[{at}]")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Attribute, AttributeMatch, AuthorizationRule, Catalog, Labels, Policy, PolicyKey, PolicyKind,
        ValueMatch,
    };

    use crate::fixtures::*;
    use crate::policy_conditions::{Beside, policy_conditions};

    use super::*;

    /// Returns the conditions of a policy with one rule.
    fn shown(action: AuthorizationAction, is_dry_run: bool, of: Attribute) -> Vec<String> {
        let when = AttributeMatch { of, values: [ValueMatch::Present].into(), not: Arc::default() };
        let policy = AuthorizationPolicy {
            selector: Labels::default(),
            action,
            is_dry_run,
            rules: [
                AuthorizationRule::default(),
                AuthorizationRule { when: [when].into(), ..AuthorizationRule::default() },
            ]
            .into(),
            ignored: Arc::from([]),
        };
        let policies = [mk_policy("shop", "a", Policy::AuthorizationPolicy(policy))].into_iter().collect();
        let catalog = Catalog { complete: true, policies, ..mk_catalog(vec![]) };
        let all = policy_conditions(&catalog, Beside::default(), &|_| true);
        let key =
            PolicyKey { kind: PolicyKind::AuthorizationPolicy, namespace: mk_ns("shop"), name: "a".into() };
        all.get(&key).into_iter().flatten().map(|one| format!("{} {}", one.code, one.message)).collect()
    }

    #[test]
    fn rules_that_no_sidecar_decides_are_named() {
        let custom = || AuthorizationAction::Custom("opa".into());
        let allow = AuthorizationAction::Allow;
        let refused =
            "TRB0473 extensions such as opa are not served, so the requests that its rules match are refused";
        assert_eq!(shown(custom(), false, Attribute::Method), [refused]);
        let dry = "TRB0473 extensions are not served, so its dry run reports nothing";
        assert_eq!(shown(custom(), true, Attribute::Method), [dry]);
        let token = "TRB0473 no RequestAuthentication reads tokens for its workloads, so every request counts as one without a token in: rules[1]";
        assert_eq!(shown(allow.clone(), false, Attribute::RequestPrincipal), [token]);
        assert_eq!(shown(allow, false, Attribute::Principal), [""; 0]);
    }
}
