//! Conversion of AuthorizationPolicies to policies.

use super::*;

fn all(meta: &str, spec: &str) -> Vec<Fact> {
    let text = mk("AuthorizationPolicy", meta, spec).replace("networking.istio.io", "security.istio.io");
    facts(&text)
}

fn policy(meta: &str, spec: &str) -> AuthorizationPolicy {
    let facts = all(meta, spec);
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(key.to_string(), "AuthorizationPolicy shop/pay");
    assert_eq!(declared.source.object, ObjectId::new("AuthorizationPolicy", "shop", "pay"));
    let Policy::AuthorizationPolicy(policy) = &declared.policy else { panic!("another kind") };
    policy.clone()
}

fn matched(of: Attribute, values: &[ValueMatch], not: &[ValueMatch]) -> AttributeMatch {
    AttributeMatch { of, values: values.into(), not: not.into() }
}

fn exact(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.into())
}

#[test]
fn absent_rules_match_nothing_and_an_empty_rule_everything() {
    for spec in ["  {}\n", "  rules:\n", "  rules: []\n"] {
        let policy = policy("", spec);
        assert_eq!((policy.action, policy.rules.len()), (AuthorizationAction::Allow, 0), "{spec}");
    }
    let policy = policy("", "  rules: [{}]\n");
    assert_eq!(*policy.rules, [AuthorizationRule::default()]);
}

#[test]
fn actions_and_dry_run_are_kept() {
    let action = |spec: &str| policy("", &format!("{spec}  rules: [{{}}]\n")).action;
    assert_eq!(action("  action: ALLOW\n"), AuthorizationAction::Allow);
    assert_eq!(action("  action: DENY\n"), AuthorizationAction::Deny);
    assert_eq!(action("  action: AUDIT\n"), AuthorizationAction::Audit);
    let custom = AuthorizationAction::Custom("ext".into());
    assert_eq!(action("  action: CUSTOM\n  provider: {name: ext}\n"), custom);
    for (text, want) in [("true", true), ("True", true), ("1", true), ("false", false), ("yes", false)] {
        let meta = format!("  annotations: {{istio.io/dry-run: \"{text}\"}}\n");
        assert_eq!(policy(&meta, "  {}\n").is_dry_run, want, "{text}");
    }
    assert!(!policy("", "  {}\n").is_dry_run);
}

#[test]
fn fields_of_sources_and_operations_become_conditions() {
    let spec = "  rules:\n  - from:\n    - source: {principals: [a/*], notPrincipals: [a/b], namespaces: [web], ipBlocks: [10.0.0.1]}\n    - source: {serviceAccounts: [pay, web/front], notRemoteIpBlocks: [10.0.0.0/8], requestPrincipals: [\"*\"]}\n    to:\n    - operation: {hosts: [\"*.com\"], ports: [\"80\"], methods: [GET], notPaths: [/a, \"/b/{**}\"]}\n";
    let policy = policy("", spec);
    let [rule] = &*policy.rules else { panic!("{policy:?}") };
    let range = |text: &str| ValueMatch::Range(text.parse().unwrap());
    let first = [
        matched(Attribute::Principal, &[ValueMatch::Prefix("a/".into())], &[exact("a/b")]),
        matched(Attribute::Namespace, &[exact("web")], &[]),
        matched(Attribute::SourceIp, &[range("10.0.0.1/32")], &[]),
    ];
    let second = [
        matched(Attribute::RequestPrincipal, &[ValueMatch::Present], &[]),
        matched(Attribute::ServiceAccount, &[exact("shop/pay"), exact("web/front")], &[]),
        matched(Attribute::RemoteIp, &[], &[range("10.0.0.0/8")]),
    ];
    let from: Vec<&[AttributeMatch]> = rule.from.iter().map(|clause| &**clause).collect();
    assert_eq!(from, [&first[..], &second[..]]);
    let to = [
        matched(Attribute::Host, &[ValueMatch::Suffix(".com".into())], &[]),
        matched(Attribute::DestinationPort, &[ValueMatch::Port(number(80))], &[]),
        matched(Attribute::Method, &[exact("GET")], &[]),
        matched(Attribute::Path, &[], &[exact("/a"), ValueMatch::Template("/b/{**}".into())]),
    ];
    assert_eq!((rule.to.len(), &*rule.to[0]), (1, &to[..]));
    assert!(rule.when.is_empty());
}

#[test]
fn keys_of_when_become_conditions() {
    let spec = "  rules:\n  - when:\n    - {key: \"request.headers[x]\", values: [a], notValues: [b*]}\n    - {key: source.serviceAccount, values: [pay]}\n    - {key: \"request.auth.claims[a][b]\", notValues: [c]}\n";
    let policy = policy("", spec);
    let claim = Attribute::RequestClaim([Arc::from("a"), Arc::from("b")].into());
    let when = [
        matched(Attribute::Header("x".into()), &[exact("a")], &[ValueMatch::Prefix("b".into())]),
        matched(Attribute::ServiceAccount, &[exact("shop/pay")], &[]),
        matched(claim, &[], &[exact("c")]),
    ];
    assert_eq!(*policy.rules[0].when, when);
}

#[test]
fn selector_without_labels_has_no_effect() {
    let selected = policy("", "  selector: {matchLabels: {app: pay}}\n");
    assert_eq!((selected.selector.get("app"), selected.ignored.len()), (Some("pay"), 0));
    for selector in ["{}", "{matchLabels: {}}"] {
        let one = policy("", &format!("  selector: {selector}\n"));
        assert!(one.selector.is_empty() && !one.is_stand_in());
        assert_eq!(one.ignored.iter().map(|path| &**path).collect::<Vec<_>>(), ["spec.selector"]);
    }
}

#[test]
fn policy_with_a_target_has_no_facts() {
    let text = mk("AuthorizationPolicy", "", "  targetRef: {kind: Service, name: pay}\n");
    let load = load_str(&text.replace("networking.istio.io", "security.istio.io"), "f.yaml");
    let [object] = &load.documents[..] else { panic!("{:?}", load.problems) };
    assert_eq!(convert(object, &mk_context()), []);
}
