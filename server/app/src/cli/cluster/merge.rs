//! An account that exists is completed and never reduced: what `cluster add` changes of a role or a binding of the same name.
//!
//! Several servers and several clusters' declarations can use one account, so that a rule or a subject that this command does not need may
//! be needed by another one. Every verdict is a function of the object that is there and of the one that is wanted.

use serde_json::Value;

/// What becomes of an object that exists.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Merged {
    /// It grants what is wanted.
    Same,
    /// It with what it lacks, at the version that was read.
    Changed(Value),
    /// It cannot be completed; the reason.
    Refused(String),
}

/// Returns what becomes of an object so that it grants what the wanted one grants, and all that it grants now.
pub(super) fn merged(found: &Value, wanted: &Value) -> Merged {
    let role = |object: &Value| object.pointer("/roleRef/name").and_then(Value::as_str).map(str::to_owned);
    let kind = |object: &Value| object.pointer("/roleRef/kind").and_then(Value::as_str).map(str::to_owned);
    if (role(found), kind(found)) != (role(wanted), kind(wanted)) {
        let other = |part: Option<String>| part.unwrap_or_default();
        return Merged::Refused(format!("grants {} {}", other(kind(found)), other(role(found))));
    }
    let mut next = found.clone();
    let rules = complete(&mut next, wanted, "rules", grants);
    let subjects = complete(&mut next, wanted, "subjects", is_subject);
    if rules || subjects { Merged::Changed(next) } else { Merged::Same }
}

/// Adds the entries of a list that no present entry covers. Returns true if there were some.
fn complete(object: &mut Value, wanted: &Value, list: &str, covers: fn(&Value, &Value) -> bool) -> bool {
    let all = |object: &Value| object.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut present = all(object);
    let before = present.len();
    for entry in all(wanted) {
        if !present.iter().any(|one| covers(one, &entry)) {
            present.push(entry);
        }
    }
    let is_changed = present.len() > before;
    if is_changed {
        object[list] = Value::Array(present);
    }
    is_changed
}

/// Returns true if a rule grants everything that another one grants.
fn grants(rule: &Value, wanted: &Value) -> bool {
    let has = |list: &str| {
        let present = texts(rule, list);
        present.contains(&"*") || texts(wanted, list).iter().all(|one| present.contains(one))
    };
    let (names, needed) = (texts(rule, "resourceNames"), texts(wanted, "resourceNames"));
    let has_names = names.is_empty() || !needed.is_empty() && needed.iter().all(|one| names.contains(one));
    ["apiGroups", "resources", "verbs"].into_iter().all(has) && has_names
}

fn texts<'v>(rule: &'v Value, list: &str) -> Vec<&'v str> {
    let all = rule.get(list).and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns true if two subjects are one account. The API server adds fields to a subject.
fn is_subject(one: &Value, other: &Value) -> bool {
    ["kind", "namespace", "name"].iter().all(|field| one.get(field) == other.get(field))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(resource: &str, name: Option<&str>, verbs: &[&str]) -> Value {
        let mut rule = json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    fn role(rules: &[Value]) -> Value {
        json!({"kind": "Role", "metadata": {"name": "reader", "resourceVersion": "7"}, "rules": rules})
    }

    fn binding(role: &str, subjects: &[(&str, &str)]) -> Value {
        let subjects: Vec<Value> = subjects
            .iter()
            .map(|(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}))
            .collect();
        json!({"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects})
    }

    #[test]
    fn rules_that_are_there_stay() {
        let token = rule("serviceaccounts/token", Some("reader"), &["create"]);
        let (config, pods) =
            (rule("configmaps", Some("istio"), &["list"]), rule("pods", None, &["list", "watch"]));
        let smaller = role(std::slice::from_ref(&config));
        assert_eq!(
            merged(&role(&[token.clone(), config.clone()]), &smaller),
            Merged::Same,
            "a right of another add"
        );
        let Merged::Changed(next) =
            merged(&role(std::slice::from_ref(&token)), &role(&[config.clone(), pods.clone()]))
        else {
            panic!("it lacks rules")
        };
        assert_eq!(next["rules"], json!([token, config, pods]));
        assert_eq!(next["metadata"]["resourceVersion"], "7", "another writer's change is not overwritten");
    }

    #[test]
    fn rule_is_granted_by_a_wider_one_only() {
        let wanted = rule("pods", None, &["list", "watch"]);
        for (present, is_granted) in [
            (rule("pods", None, &["list", "watch", "get"]), true),
            (json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), true),
            (rule("pods", None, &["list"]), false),
            (rule("pods", Some("one"), &["list", "watch"]), false),
            (rule("services", None, &["list", "watch"]), false),
            (json!({"apiGroups": ["apps"], "resources": ["pods"], "verbs": ["list", "watch"]}), false),
        ] {
            assert_eq!(grants(&present, &wanted), is_granted, "{present}");
        }
        assert!(grants(&rule("configmaps", None, &["list"]), &rule("configmaps", Some("istio"), &["list"])));
    }

    #[test]
    fn account_of_another_namespace_is_added_to_the_binding() {
        let wanted = binding("reader", &[("second", "reader")]);
        let Merged::Changed(next) = merged(&binding("reader", &[("first", "reader")]), &wanted) else {
            panic!("the account is not bound")
        };
        assert_eq!(next, binding("reader", &[("first", "reader"), ("second", "reader")]));
        assert_eq!(merged(&next, &wanted), Merged::Same);
        let other = merged(&binding("admin", &[("second", "reader")]), &wanted);
        assert_eq!(
            other,
            Merged::Refused("grants ClusterRole admin".to_owned()),
            "a binding's role cannot be changed"
        );
    }
}
