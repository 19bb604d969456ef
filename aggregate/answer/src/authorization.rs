//! AuthorizationPolicies of a catalog that apply to a workload.
//!
//! xds keeps the result in the class of a client and encodes it into the filters of inbound listeners. It holds only what they
//! are encoded from, so that an edit of a selector changes no listener of workloads that stay selected.

use std::sync::Arc;

use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationRule, Catalog, Labels, Namespace, PolicyKey,
    PolicyKind, ValueMatch,
};

use crate::policies;

/// AuthorizationPolicies that apply to a workload: those of the root namespace, then those of its own, the first in precedence
/// first. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AuthorizationChain {
    /// The policies.
    pub policies: Arc<[AppliedAuthorization]>,
}

/// AuthorizationPolicy as a workload has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AppliedAuthorization {
    /// Its key.
    pub key: PolicyKey,
    /// What happens to requests that a rule matches.
    pub action: AuthorizationAction,
    /// Whether it only reports what it would do.
    pub is_dry_run: bool,
    /// Rules, of which one must match.
    pub rules: Arc<[AuthorizationRule]>,
}

/// Returns the policies that apply to a workload of a namespace with these labels; `None` if no policy does. A selector of a
/// policy in the root namespace is compared with the workloads of all namespaces.
#[must_use]
pub fn authorization_of(
    catalog: &Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Option<AuthorizationChain> {
    let all = policies::selecting(catalog, PolicyKind::AuthorizationPolicy, namespace, labels).into_iter();
    let policies: Arc<[_]> = all
        .filter_map(|(key, view)| {
            let policy = view.authorization_policy()?;
            Some(AppliedAuthorization {
                key: key.clone(),
                action: policy.action.clone(),
                is_dry_run: policy.is_dry_run,
                rules: Arc::clone(&policy.rules),
            })
        })
        .collect();
    (!policies.is_empty()).then_some(AuthorizationChain { policies })
}

/// Whether a gRPC server can check a condition (gRFC A41): to it the server name is always empty and claims of tokens are absent, it
/// knows no templates of paths and no client behind `x-forwarded-for`, never shows the header `te` to a filter, and rejects a
/// listener with a condition on some others.
#[must_use]
pub fn grpc_checks(condition: &AttributeMatch) -> bool {
    let all = || condition.values.iter().chain(condition.not.iter());
    match &condition.of {
        Attribute::ServerName | Attribute::RemoteIp => false,
        Attribute::Path => !all().any(|value| matches!(value, ValueMatch::Template(_))),
        Attribute::Header(name) => {
            let name = name.to_ascii_lowercase();
            !matches!(&*name, ":scheme" | "te") && !name.starts_with("grpc-")
        }
        of => !of.is_of_token(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        AuthorizationPolicy, DeclaredPolicy, Policy, PolicyView, Settings, Shared, Timestamp,
    };

    use super::*;
    use crate::fixtures::*;

    /// A policy as `namespace/name`, its creation time and the value of the label `app` that it selects.
    type Row<'a> = (&'a str, i64, &'a str);

    fn mk_authorizations(root: &str, rows: &[Row<'_>]) -> Catalog {
        let policy = |(at, created, app): &Row<'_>| {
            let (namespace, name) = at.split_once('/').unwrap();
            let policy = AuthorizationPolicy {
                selector: Some(("app", *app)).filter(|(_, app)| !app.is_empty()).into_iter().collect(),
                action: AuthorizationAction::Deny,
                is_dry_run: true,
                rules: [AuthorizationRule::default()].into(),
                ignored: Arc::from([]),
            };
            let (key, view) = mk_policy(namespace, name, Policy::AuthorizationPolicy(policy));
            let created = Timestamp::from_second(*created).ok();
            let declared = DeclaredPolicy { created, ..(*view.declared).clone() };
            (key, Shared::new(PolicyView { declared: declared.into(), ..(*view).clone() }))
        };
        let settings = Settings { root_namespace: Some(mk_ns(root)), ..Settings::default() };
        let policies = rows.iter().map(policy).collect();
        Catalog { settings: Shared::new(settings), policies, ..Catalog::default() }
    }
    fn of(catalog: &Catalog, namespace: Option<&str>) -> Option<AuthorizationChain> {
        let labels = [("app", "pay"), ("version", "1")].into_iter().collect();
        authorization_of(catalog, namespace.map(mk_ns).as_ref(), &labels)
    }
    fn names(catalog: &Catalog, namespace: Option<&str>) -> Vec<String> {
        let chain = of(catalog, namespace);
        let policies = chain.iter().flat_map(|chain| chain.policies.iter());
        policies.map(|policy| format!("{}/{}", policy.key.namespace, policy.key.name)).collect()
    }

    const ROWS: &[Row<'_>] = &[
        ("config/a", 9, "pay"),
        ("config/b", 8, ""),
        ("config/c", 1, "till"),
        ("shop/d", 7, ""),
        ("shop/e", 5, "pay"),
        ("shop/f", 5, "pay"),
        ("shop/g", 1, "till"),
        ("shoppers/h", 1, ""),
    ];

    #[test]
    fn policies_of_the_root_namespace_and_of_the_own_one_apply_oldest_first() {
        let cases: [(&str, Option<&str>, &[&str]); 6] = [
            ("config", Some("shop"), &["config/b", "config/a", "shop/e", "shop/f", "shop/d"]),
            ("config", Some("config"), &["config/b", "config/a"]),
            ("config", Some("other"), &["config/b", "config/a"]),
            ("config", None, &["config/b", "config/a"]),
            ("none", Some("shop"), &["shop/e", "shop/f", "shop/d"]),
            ("none", None, &[]),
        ];
        for (root, namespace, want) in cases {
            assert_eq!(names(&mk_authorizations(root, ROWS), namespace), want, "{root} {namespace:?}");
        }
        assert_eq!(of(&mk_authorizations("none", ROWS), Some("other")), None);
    }

    #[test]
    fn workloads_with_the_same_policies_have_equal_chains() {
        let catalog = mk_authorizations("config", ROWS);
        assert_eq!(of(&catalog, Some("other")), of(&catalog, None));
        assert_ne!(of(&catalog, Some("shop")), of(&catalog, None));
        let selecting = ROWS.iter().filter(|(_, _, app)| *app != "till");
        let unselective: Vec<Row<'_>> = selecting.map(|(at, created, _)| (*at, *created, "")).collect();
        assert_eq!(
            of(&mk_authorizations("config", &unselective), Some("shop")),
            of(&catalog, Some("shop")),
            "selectors do not change what a selected workload has"
        );
    }

    #[test]
    fn chain_has_what_filters_are_encoded_from() {
        let chain = of(&mk_authorizations("config", &[("shop/d", 1, "")]), Some("shop")).unwrap();
        let [policy] = &*chain.policies else { panic!("{chain:?}") };
        assert_eq!((&policy.action, policy.is_dry_run), (&AuthorizationAction::Deny, true));
        assert_eq!(*policy.rules, [AuthorizationRule::default()]);
    }
}
