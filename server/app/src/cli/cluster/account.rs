//! The service account of a new cluster with the smallest rights: what `cluster add` creates in the remote cluster.
//!
//! Objects are a function of the rights that a server needs there, which `ops::rights` derives from its configuration. A namespaced right
//! becomes a Role, every other one a rule of one ClusterRole.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use tributary_kube_client::token::SERVICE_ACCOUNTS;
use tributary_kube_client::{Resource, Right};

use super::store::right;
use crate::ops::rights::{Rules, roles};

/// API group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Kind of namespaces.
pub(super) const NAMESPACES: Resource = kind("", "namespaces", "Namespace", false);
static KINDS: [Resource; 6] = [
    NAMESPACES,
    SERVICE_ACCOUNTS,
    kind(RBAC, "clusterroles", "ClusterRole", false),
    kind(RBAC, "clusterrolebindings", "ClusterRoleBinding", false),
    kind(RBAC, "roles", "Role", true),
    kind(RBAC, "rolebindings", "RoleBinding", true),
];

const fn kind(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    Resource { group: Cow::Borrowed(group), versions: &["v1"], plural, kind, namespaced, optional: false }
}

/// Label of the objects that `cluster add` creates: only these are deleted with a cluster.
pub(super) const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "tributary");

/// Returns the kind of an object of [`objects`].
pub(super) fn kind_of(object: &Value) -> Option<&'static Resource> {
    kind_named(object.get("kind")?.as_str()?)
}

/// Returns the kind of this name.
pub(super) fn kind_named(name: &str) -> Option<&'static Resource> {
    KINDS.iter().find(|kind| kind.kind == name)
}

/// Returns the objects of an account in the order in which they are created.
pub(super) fn objects(namespace: &str, account: &str, rights: &BTreeSet<Right>) -> Vec<Value> {
    let roles = roles(rights);
    let named = roles.keys().flatten().map(String::as_str);
    let namespaces: BTreeSet<&str> = named.chain([namespace]).collect();
    let mut out: Vec<Value> = namespaces.into_iter().map(of_namespace).collect();
    out.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(account, Some(namespace)),
    }));
    for (place, rules) in &roles {
        out.extend(role((namespace, account), place.as_deref(), rules));
    }
    out
}

fn of_namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let (label, value) = MANAGED;
    let mut metadata = json!({"name": name, "labels": {label: value}});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

/// Returns a role and its binding; both have the name of the account.
fn role((namespace, account): (&str, &str), place: Option<&str>, rules: &Rules) -> [Value; 2] {
    let prefix = if place.is_some() { "" } else { "Cluster" };
    let version = format!("{RBAC}/v1");
    let metadata = metadata(account, place);
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let (role, binding) = (format!("{prefix}Role"), format!("{prefix}RoleBinding"));
    [
        json!({"apiVersion": version, "kind": role, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": version, "kind": binding, "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ]
}

fn rule(((group, resource, name), verbs): (&(String, String, Option<String>), &BTreeSet<String>)) -> Value {
    let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    if let Some(name) = name {
        rule["resourceNames"] = json!([name]);
    }
    rule
}

/// Returns the right to request a token of an account.
pub(super) fn needed_for_token(namespace: &str) -> Right {
    let right = right("create", &SERVICE_ACCOUNTS, Some(namespace));
    Right { resource: "serviceaccounts/token".to_owned(), ..right }
}

/// Returns the right of an account to request its own tokens, and those of no other account.
pub(super) fn needed_to_renew(namespace: &str, account: &str) -> Right {
    Right { name: Some(account.to_owned()), ..needed_for_token(namespace) }
}

#[cfg(test)]
mod tests {
    use tributary_model::ClusterId;

    use super::*;
    use crate::config::Config;
    use crate::ops::rights::needed;
    use crate::wiring::factories::remote_cluster;

    fn mk() -> Vec<Value> {
        let config: Config = serde_saphyr::from_str("{registries: [{kind: kubernetes}]}").unwrap();
        let cluster = remote_cluster(ClusterId::new("east").unwrap(), &config).unwrap();
        objects("tributary-system", "reader", &needed(&cluster, &BTreeSet::new()))
    }

    #[test]
    fn account_may_only_read_and_no_secrets() {
        let all = mk();
        let kinds: Vec<&str> = all.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
        );
        let rules = all.iter().filter_map(|one| one["rules"].as_array()).flatten();
        for rule in rules {
            assert_eq!(rule["verbs"], json!(["list", "watch"]), "{rule}");
            assert_ne!(rule["resources"], json!(["secrets"]), "{rule}");
        }
        let role = all.iter().find(|one| one["kind"] == "Role").unwrap();
        assert_eq!(role["rules"][0]["resourceNames"], json!(["istio"]), "one ConfigMap: {role}");
        for one in &all {
            let is_own = one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tributary";
            assert_eq!(is_own, one["kind"] != "Namespace", "a namespace has other objects: {one}");
        }
        let binding = all.iter().find(|one| one["kind"] == "ClusterRoleBinding").unwrap();
        assert_eq!(binding["subjects"][0]["namespace"], "tributary-system");
    }

    #[test]
    fn account_that_is_renewed_may_request_its_own_tokens_only() {
        let all = objects("system", "reader", &[needed_to_renew("system", "reader")].into());
        let role = all.iter().find(|one| one["kind"] == "Role").unwrap();
        let rule = json!({
            "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["reader"], "verbs": ["create"],
        });
        assert_eq!((&role["metadata"]["namespace"], &role["rules"]), (&json!("system"), &json!([rule])));
        assert!(all.iter().all(|one| one["kind"] != "ClusterRole"), "in its namespace only");
    }
}
