//! Condition of policies that connected gRPC servers apply in part: they check no tokens, and not every condition of a rule.

use tributary_model::{
    AuthorizationAction, AuthorizationPolicy, AuthorizationRule, Catalog, Code, Condition, Policy, PolicyKey,
    PolicyView,
};

use super::{Beside, Selectable, condition};
use crate::authorization::grpc_checks;

/// Returns the condition of a policy of which connected gRPC servers cannot apply a part.
pub(super) fn applied_in_part(
    catalog: &Catalog,
    beside: Beside<'_>,
    key: &PolicyKey,
    view: &PolicyView,
) -> Option<Condition> {
    let mut servers = beside.clients.iter().filter(|client| client.is_grpc_server);
    if !servers.any(|client| selects(catalog, key, view, client)) {
        return None;
    }
    let message = match view.policy() {
        // it refuses every request, as for sidecars
        Policy::RequestAuthentication(policy) if policy.is_stand_in() => return None,
        Policy::RequestAuthentication(_) => {
            "gRPC servers check no tokens: requests with any token reach them, and none counts as one with a token".to_owned()
        }
        Policy::AuthorizationPolicy(policy) => unchecked(policy)?,
        _ => return None,
    };
    Some(condition(Code::POLICY_NOT_FOR_GRPC, view, message))
}

/// Whether a policy applies to a client.
fn selects(catalog: &Catalog, key: &PolicyKey, view: &PolicyView, client: &Selectable) -> bool {
    let is_near = key.namespace == client.namespace
        || catalog.settings.root_namespace().as_ref() == Some(&key.namespace);
    is_near && view.policy().selector().is_some_and(|own| own.is_subset_of(&client.labels))
}

/// Returns what gRPC servers make of a policy that they cannot check as a whole.
fn unchecked(policy: &AuthorizationPolicy) -> Option<String> {
    if policy.is_stand_in() {
        return None;
    }
    if policy.is_dry_run || policy.action == AuthorizationAction::Audit {
        return Some("gRPC servers report nothing of what it would do".to_owned());
    }
    let rules = policy.rules.iter().enumerate().filter(|(_, rule)| has_unchecked(rule));
    let named: Vec<String> = rules.map(|(at, _)| format!("rules[{at}]")).collect();
    if named.is_empty() {
        return None;
    }
    let named = named.join(", ");
    let effect = match policy.action {
        AuthorizationAction::Allow => "they match nothing there",
        _ => "they match without these there",
    };
    Some(format!("gRPC servers cannot check conditions of {named}: {effect}"))
}

fn has_unchecked(rule: &AuthorizationRule) -> bool {
    let lists = rule.from.iter().chain(rule.to.iter()).chain([&rule.when]);
    lists.flat_map(|list| list.iter()).any(|found| !grpc_checks(found))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{Attribute, AttributeMatch, ClientKind, Labels, RequestAuthentication, ValueMatch};

    use super::*;
    use crate::fixtures::*;
    use crate::policy_conditions::policy_conditions;

    /// Returns the conditions of a policy of `shop` beside a gRPC client of a namespace.
    fn shown(policy: Policy, namespace: &str, is_grpc_server: bool) -> Vec<String> {
        let (key, view) = mk_policy("shop", "a", policy);
        let catalog = Catalog {
            complete: true,
            policies: [(key.clone(), view)].into_iter().collect(),
            ..mk_catalog(vec![])
        };
        let client = Selectable {
            kind: ClientKind::Grpc,
            is_grpc_server,
            namespace: mk_ns(namespace),
            labels: Labels::default(),
            is_known: true,
        };
        let beside = Beside { clients: &[client], ..Beside::default() };
        let all = policy_conditions(&catalog, beside, &|_| true);
        let of = all.get(&key).into_iter().flatten().filter(|one| one.code == Code::POLICY_NOT_FOR_GRPC);
        of.map(|one| one.message.to_string()).collect()
    }

    fn mk_rules(action: AuthorizationAction, of: &[Attribute]) -> Policy {
        let rule = |of: &Attribute| {
            let when =
                AttributeMatch { of: of.clone(), values: [ValueMatch::Present].into(), not: Arc::default() };
            AuthorizationRule { when: [when].into(), ..AuthorizationRule::default() }
        };
        Policy::AuthorizationPolicy(AuthorizationPolicy {
            selector: Labels::default(),
            action,
            is_dry_run: false,
            rules: of.iter().map(rule).collect(),
            ignored: Arc::from([]),
        })
    }

    #[test]
    fn parts_that_grpc_servers_do_not_apply_are_named() {
        use Attribute::{Header, Principal, RemoteIp, RequestPrincipal, ServerName};
        use AuthorizationAction::{Allow, Audit, Deny};
        let header = |name: &str| Header(name.into());
        let all = [
            Principal,
            RequestPrincipal,
            ServerName,
            header("grpc-timeout"),
            header("x-a"),
            header("TE"),
            RemoteIp,
        ];
        let allow = shown(mk_rules(Allow, &all), "shop", true);
        assert_eq!(
            allow,
            [
                "gRPC servers cannot check conditions of rules[1], rules[2], rules[3], rules[5], rules[6]: they match nothing there"
            ]
        );
        let deny = shown(mk_rules(Deny, &[RequestPrincipal]), "shop", true);
        assert_eq!(
            deny,
            ["gRPC servers cannot check conditions of rules[0]: they match without these there"]
        );
        let audit = shown(mk_rules(Audit, &[Principal]), "shop", true);
        assert_eq!(audit, ["gRPC servers report nothing of what it would do"]);
        assert_eq!(shown(mk_rules(Allow, &[Principal]), "shop", true), [""; 0]);
    }

    #[test]
    fn only_policies_of_grpc_servers_have_the_condition() {
        let policy = || Policy::RequestAuthentication(RequestAuthentication::default());
        assert_eq!(shown(policy(), "shop", true).len(), 1);
        assert_eq!(shown(policy(), "shop", false), [""; 0], "a client alone");
        assert_eq!(shown(policy(), "web", true), [""; 0], "of another namespace");
    }
}
