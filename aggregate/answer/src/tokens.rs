//! RequestAuthentications of a catalog that apply to a workload.
//!
//! xds keeps the result in the class of a client and encodes it into the filters of inbound listeners. It holds only what they
//! are encoded from, so that an edit of a selector changes no listener of workloads that stay selected. The keys that clients
//! fetch are no part of it: an xDS cluster is named by its host and port, whether the client has it or not.

use std::collections::HashSet;
use std::sync::Arc;

use tributary_model::{Catalog, Labels, Namespace, PolicyKey, PolicyKind, RequestAuthentication, TokenRule};

use crate::policies;

/// How a workload checks the tokens of requests. It has rules, or policies that refuse everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenChecks {
    /// Rules of all its policies by issuer, each once.
    pub rules: Arc<[TokenRule]>,
    /// Policies of which no version is valid: they refuse every request.
    pub refusing: Arc<[PolicyKey]>,
}

/// Returns how a workload of a namespace with these labels checks tokens; `None` if no policy does.
#[must_use]
pub fn token_checks(
    catalog: &Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Option<TokenChecks> {
    let all = request_authentications(catalog, namespace, labels);
    let (refusing, valid): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, policy)| policy.is_stand_in());
    let mut seen = HashSet::new();
    let rules = valid.iter().flat_map(|(_, policy)| policy.rules.iter());
    let mut rules: Vec<&TokenRule> = rules.filter(|rule| seen.insert(*rule)).collect();
    rules.sort_by(|a, b| a.issuer.cmp(&b.issuer));
    let checks = TokenChecks {
        rules: rules.into_iter().cloned().collect(),
        refusing: refusing.into_iter().map(|(key, _)| key.clone()).collect(),
    };
    (!checks.rules.is_empty() || !checks.refusing.is_empty()).then_some(checks)
}

/// Returns the policies that select a workload of a namespace with these labels, as
/// [`authorization_of`](crate::authorization_of) does.
pub(crate) fn request_authentications<'c>(
    catalog: &'c Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Vec<(&'c PolicyKey, &'c RequestAuthentication)> {
    let all = policies::selecting(catalog, PolicyKind::RequestAuthentication, namespace, labels);
    all.into_iter().filter_map(|(key, view)| Some((key, view.request_authentication()?))).collect()
}

#[cfg(test)]
mod tests {
    use tributary_model::{Policy, Settings, Shared, TokenKeys};

    use super::*;
    use crate::fixtures::*;

    fn mk_rule(issuer: &str, audience: &str) -> TokenRule {
        TokenRule { audiences: [audience.into()].into(), ..mk_token_rule(issuer, TokenKeys::Undeclared) }
    }
    fn mk_catalog_of(rows: &[(&str, &str, &[TokenRule])]) -> Catalog {
        let policies = rows.iter().map(|(at, app, rules)| {
            let (namespace, name) = at.split_once('/').unwrap();
            let selector = Some(("app", *app)).filter(|(_, app)| !app.is_empty()).into_iter().collect();
            let mut policy = RequestAuthentication::stand_in(selector);
            if !name.starts_with('!') {
                (policy.rules, policy.ignored) = ((*rules).into(), Arc::default());
            }
            mk_policy(namespace, name, Policy::RequestAuthentication(policy))
        });
        let settings = Settings { root_namespace: Some(mk_ns("config")), ..Settings::default() };
        Catalog { settings: Shared::new(settings), policies: policies.collect(), ..Catalog::default() }
    }
    fn of(catalog: &Catalog, namespace: Option<&str>) -> Option<(Vec<String>, Vec<String>)> {
        let labels = [("app", "pay"), ("version", "1")].into_iter().collect();
        let checks = token_checks(catalog, namespace.map(mk_ns).as_ref(), &labels)?;
        let rules = checks.rules.iter().map(|rule| format!("{} {}", rule.issuer, rule.audiences[0]));
        Some((rules.collect(), checks.refusing.iter().map(|key| key.name.to_string()).collect()))
    }

    #[test]
    fn rules_of_all_policies_apply_by_issuer_each_once() {
        let (a, b, c) = (mk_rule("a", "1"), mk_rule("b", "1"), mk_rule("a", "2"));
        let catalog = mk_catalog_of(&[
            ("config/x", "pay", &[b.clone(), a]),
            ("config/y", "till", &[mk_rule("no", "1")]),
            ("shop/v", "", &[c, b]),
            ("shop/w", "", &[]),
            ("shop/!bad", "till", &[]),
            ("web/z", "", &[mk_rule("no", "1")]),
        ]);
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(&catalog, Some("shop")), Some((all(&["a 1", "a 2", "b 1"]), vec![])));
        assert_eq!(of(&catalog, None), Some((all(&["a 1", "b 1"]), vec![])));
        assert_eq!(of(&catalog, Some("config")), of(&catalog, Some("other")));
    }

    #[test]
    fn policy_that_stands_in_refuses_and_one_without_rules_does_nothing() {
        let catalog = mk_catalog_of(&[("shop/!bad", "pay", &[]), ("web/w", "", &[])]);
        assert_eq!(of(&catalog, Some("shop")), Some((vec![], vec!["!bad".to_owned()])));
        assert_eq!(of(&catalog, Some("web")), None);
        assert_eq!(of(&catalog, None), None);
    }
}
