//! Each rule of an AuthorizationPolicy, with a document that breaks it and nothing else.

use super::*;

fn mk_authorization(spec: &str) -> String {
    let entry = mk_entry(spec).replace("kind: ServiceEntry", "kind: AuthorizationPolicy");
    entry.replace("networking.istio.io/v1", "security.istio.io/v1")
}

/// A policy with one rule, whose text begins in column 11 of line 7.
fn mk_rule(rule: &str) -> String {
    mk_authorization(&format!("  rules: [{rule}]\n"))
}

#[test]
fn every_rule_of_an_authorization_policy_has_its_test() {
    let tests = include_str!("authorization_policy.rs");
    for (name, _) in super::super::authorization_policy::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn authorization_policies_of_istio_are_taken() {
    let sources = "{principals: [a, \"*\"], notPrincipals: [b*], requestPrincipals: [\"*c\"], notRequestPrincipals: [d], namespaces: [e], notNamespaces: [f*], ipBlocks: [1.2.3.4], notIpBlocks: [5.6.0.0/16], remoteIpBlocks: [\"::1\"], notRemoteIpBlocks: [9.0.0.1]}";
    let operation = "{hosts: [a.com], notHosts: [\"*.b\"], ports: [\"80\"], notPorts: [\"90\"], methods: [GET], notMethods: [P*], paths: [/a, \"/b/{*}\"], notPaths: [\"/{**}/c\"]}";
    let keys = [
        ("source.ip", "1.2.3.4"),
        ("remote.ip", "1.2.0.0/16"),
        ("source.namespace", "a"),
        ("source.principal", "a"),
        ("source.serviceAccount", "a/b"),
        ("request.auth.principal", "a"),
        ("request.auth.audiences", "a"),
        ("request.auth.presenter", "a"),
        ("request.auth.claims[a][b]", "a"),
        ("request.headers[a]", "a"),
        ("destination.ip", "10.0.0.1"),
        ("destination.port", "80"),
        ("connection.sni", "a.com"),
    ];
    let when = keys.map(|(key, value)| format!("{{key: \"{key}\", values: [\"{value}\"]}}")).join(", ");
    let rule = format!("{{from: [{{source: {sources}}}], to: [{{operation: {operation}}}], when: [{when}]}}");
    let text = mk_rule(&rule);
    taken(&text);
    taken(&text.replace("security.istio.io/v1\n", "security.istio.io/v1beta1\n"));
    for action in ["ALLOW", "DENY", "AUDIT"] {
        taken(&mk_authorization(&format!("  action: {action}\n  rules: [{rule}]\n")));
    }
    for spec in ["  {}\n", "  rules: []\n", "  rules: [{}]\n", "  selector: {}\n", "  action: AUDIT\n"] {
        taken(&mk_authorization(spec));
    }
    let version = mk_rule("{}").replace("security.istio.io/v1\n", "security.istio.io/v1alpha1\n");
    refused(&version, &[(Code::UNKNOWN_KIND, 1, 13, "write security.istio.io/v1")]);
}

#[test]
fn items_have_conditions() {
    let cases = [
        ("~", 11, "spec.rules[0] is nothing; write {}"),
        ("{from: []}", 18, "add an item, or remove it"),
        ("{to: []}", 16, "add an item, or remove it"),
        ("{from: [{}]}", 19, "spec.rules[0].from[0].source is missing"),
        ("{from: [~]}", 19, "spec.rules[0].from[0].source is missing"),
        ("{from: [{source: ~}]}", 19, "spec.rules[0].from[0].source is missing"),
        ("{from: [{source: {}}]}", 28, "spec.rules[0].from[0].source has no values"),
        ("{from: [{source: {principals: []}}]}", 28, "add a field with values"),
        ("{to: [{}]}", 17, "spec.rules[0].to[0].operation is missing"),
        ("{to: [{operation: {paths: []}}]}", 29, "spec.rules[0].to[0].operation has no values"),
        ("{when: [~]}", 19, "spec.rules[0].when[0] is nothing"),
        ("{when: [{values: [a]}]}", 19, "spec.rules[0].when[0].key is missing"),
    ];
    for (rule, column, fix) in cases {
        refused(&mk_rule(rule), &[(Code::MISSING_FIELD, 7, column, fix)]);
    }
}

#[test]
fn fields_of_an_authorization_policy_are_known() {
    let cases = [
        ("{form: [{}]}", 12, "did you mean from?"),
        ("{from: [{source: {principal: [a], namespaces: [b]}}]}", 29, "did you mean principals?"),
        ("{to: [{operation: {path: [a], ports: [\"80\"]}}]}", 30, "did you mean paths?"),
        ("{to: [{operation: {trustDomains: [a], ports: [\"80\"]}}]}", 30, "is not a known field"),
        ("{when: [{key: source.ip, values: [10.0.0.1], value: [a]}]}", 56, "did you mean values?"),
    ];
    for (rule, column, fix) in cases {
        refused(&mk_rule(rule), &[(Code::UNKNOWN_FIELD, 7, column, fix)]);
    }
    let ports = mk_rule("{to: [{operation: {ports: [80]}}]}");
    let load = load_str(&ports, "f.yaml");
    assert_eq!(load.problems[0].faults[0].code, Code::WRONG_TYPE, "{:?}", load.problems);
    for field in ["trustDomains", "notTrustDomains"] {
        let text = mk_rule(&format!("{{from: [{{source: {{{field}: [a]}}}}]}}"));
        let column = 31 + u32::try_from(field.len()).unwrap();
        refused(&text, &[(Code::FIELD_NOT_SERVED, 7, column, "compare the principal with DOMAIN/*")]);
    }
    let action = mk_authorization("  action: deny\n");
    refused(&action, &[(Code::WRONG_TYPE, 7, 11, "ALLOW, DENY, AUDIT, CUSTOM")]);
}

#[test]
fn authorization_size_is_within_limits() {
    let rules = |count: usize| mk_authorization(&format!("  rules: [{}]\n", vec!["{}"; count].join(", ")));
    taken(&rules(512));
    refused(&rules(513), &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "split the policy")]);
    let paths = |count: usize| {
        mk_rule(&format!("{{to: [{{operation: {{paths: [{}]}}}}]}}", vec!["/a"; count].join(", ")))
    };
    taken(&paths(10_000));
    refused(&paths(10_001), &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "more than 10000 values")]);
    let long =
        |length: usize| mk_rule(&format!("{{to: [{{operation: {{paths: [{}]}}}}]}}", "a".repeat(length)));
    taken(&long(4_096));
    refused(&long(4_097), &[(Code::DOCUMENT_TOO_LARGE, 7, 38, "operation.paths[0] is longer than 4096")]);
    let sources = |count: usize| {
        mk_rule(&format!("{{from: [{}]}}", vec!["{source: {namespaces: [a]}}"; count].join(", ")))
    };
    taken(&sources(512));
    refused(&sources(513), &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "more than 512 items")]);
}

#[test]
fn authorization_selector_is_valid() {
    for labels in ["{app: \"*\"}", "{\"a*\": b}", "{\"\": b}"] {
        let text = mk_authorization(&format!("  selector: {{matchLabels: {labels}}}\n"));
        refused(&text, &[(Code::INVALID_NAME, 7, 13, "spec.selector.matchLabels")]);
    }
}

const TARGET: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: in}";

#[test]
fn workloads_are_selected_in_one_way() {
    let cases = [
        format!("  selector: {{matchLabels: {{app: a}}}}\n  targetRef: {TARGET}\n"),
        format!("  selector: {{}}\n  targetRefs: [{TARGET}]\n"),
        format!("  targetRef: {TARGET}\n  targetRefs: [{TARGET}]\n"),
    ];
    for spec in cases {
        let load = load_str(&mk_authorization(&spec), "f.yaml");
        assert!(load.documents.is_empty(), "{spec}");
        assert!(load.problems[0].faults[0].message.contains("keep one of them"), "{:?}", load.problems);
    }
}

#[test]
fn targets_are_gateways_and_services() {
    let cases = [
        ("{kind: Service}", "name is missing"),
        ("{kind: Service, name: a, namespace: b}", "spec.targetRef.namespace is not allowed"),
        ("{kind: Pod, name: a}", "\"Pod\" of group \"\" is no target"),
        ("{group: apps, kind: Service, name: a}", "is no target"),
        ("{name: a}", "is no target"),
    ];
    for (target, fix) in cases {
        let load = load_str(&mk_authorization(&format!("  targetRef: {target}\n")), "f.yaml");
        assert!(load.documents.is_empty(), "{target}");
        let fault = &load.problems[0].faults[0];
        assert!(fault.message.contains(fix), "{target}: {fault}");
    }
}

#[test]
fn targets_concern_no_sidecar() {
    let targets = [
        "{kind: Service, name: a}",
        "{group: networking.istio.io, kind: \"ServiceEntry\", name: a}",
        "{group: gateway.networking.k8s.io, kind: GatewayClass, name: a}",
        TARGET,
    ];
    for target in targets {
        let text = mk_authorization(&format!("  targetRefs: [{target}]\n"));
        warned(&text, &[(Code::KIND_NOT_SERVED, 7, 16, "spec.targetRefs[0]: the policy concerns gateways")]);
    }
    taken(&mk_authorization("  targetRefs: []\n  selector: {matchLabels: {app: a}}\n"));
}

#[test]
fn actions_that_need_rules_have_them() {
    for rules in ["", "  rules: []\n", "  rules: ~\n"] {
        let deny = mk_authorization(&format!("  action: DENY\n{rules}"));
        refused(&deny, &[(Code::MISSING_FIELD, 7, 3, "DENY without rules")]);
        let custom = mk_authorization(&format!("  action: CUSTOM\n  provider: {{name: a}}\n{rules}"));
        refused(&custom, &[(Code::MISSING_FIELD, 7, 3, "CUSTOM without rules")]);
    }
}

#[test]
fn custom_action_alone_has_a_provider() {
    let custom = |provider: &str| mk_authorization(&format!("  action: CUSTOM\n{provider}  rules: [{{}}]\n"));
    taken(&custom("  provider: {name: ext}\n"));
    let fix = "add the name of an extension provider";
    refused(&custom(""), &[(Code::MISSING_FIELD, 7, 3, fix)]);
    refused(&custom("  provider: {}\n"), &[(Code::MISSING_FIELD, 8, 13, fix)]);
    refused(&custom("  provider: {name: \"\"}\n"), &[(Code::MISSING_FIELD, 8, 20, fix)]);
    for action in ["", "  action: ALLOW\n", "  action: DENY\n", "  action: AUDIT\n"] {
        let text = mk_authorization(&format!("  provider: {{name: ext}}\n{action}  rules: [{{}}]\n"));
        refused(&text, &[(Code::VALUE_INVALID, 7, 20, "belongs to the action CUSTOM")]);
    }
}

#[test]
fn custom_rules_compare_no_identity() {
    let custom = |rule: &str| {
        mk_authorization(&format!("  action: CUSTOM\n  provider: {{name: ext}}\n  rules: [{rule}]\n"))
    };
    let fields = ["principals", "notPrincipals", "requestPrincipals", "namespaces", "serviceAccounts"];
    for field in fields {
        let text = custom(&format!("{{from: [{{source: {{{field}: [a]}}}}]}}"));
        refused(&text, &[(Code::VALUE_INVALID, 9, 28, "compares an identity")]);
    }
    let keys = ["source.namespace", "source.principal", "request.auth.audiences", "request.auth.claims[a]"];
    for key in keys {
        let text = custom(&format!("{{when: [{{key: \"{key}\", values: [a]}}]}}"));
        refused(&text, &[(Code::VALUE_INVALID, 9, 19, "compares an identity")]);
    }
    taken(&custom(
        "{from: [{source: {ipBlocks: [10.0.0.1]}}], when: [{key: \"request.headers[a]\", values: [a]}]}",
    ));
}

#[test]
fn service_accounts_are_compared_alone() {
    for beside in ["principals", "notPrincipals", "namespaces", "notNamespaces"] {
        let text = mk_rule(&format!("{{from: [{{source: {{notServiceAccounts: [a], {beside}: [b]}}}}]}}"));
        refused(&text, &[(Code::VALUE_INVALID, 7, 28, "keep one of them")]);
    }
    taken(&mk_rule("{from: [{source: {serviceAccounts: [a]}}, {source: {namespaces: [b]}}]}"));
    let many = |count: usize| {
        mk_rule(&format!("{{from: [{{source: {{serviceAccounts: [{}]}}}}]}}", vec!["a"; count].join(", ")))
    };
    taken(&many(16));
    refused(&many(17), &[(Code::DOCUMENT_TOO_LARGE, 7, 28, "serviceAccounts has more than 16 values")]);
}

#[test]
fn conditions_have_known_keys_and_values() {
    let none = mk_rule("{when: [{key: source.ip}]}");
    refused(&none, &[(Code::MISSING_FIELD, 7, 19, "neither values nor notValues")]);
    let cases = [
        ("source.user", Code::VALUE_INVALID, "see the reference page"),
        ("destination.labels[v]", Code::VALUE_INVALID, "spec.selector.matchLabels"),
        ("request.headers", Code::VALUE_INVALID, "write request.headers[NAME]"),
        ("source.trustDomain", Code::FIELD_NOT_SERVED, "DOMAIN/*"),
        ("experimental.envoy.filters.a.b[c]", Code::FIELD_NOT_SERVED, "metadata of filters"),
        ("", Code::VALUE_INVALID, "is not an attribute"),
    ];
    for (key, code, fix) in cases {
        let text = mk_rule(&format!("{{when: [{{key: \"{key}\", values: [a]}}]}}"));
        refused(&text, &[(code, 7, 25, fix)]);
    }
}

#[test]
fn values_fit_their_attributes() {
    let cases = [
        ("ipBlocks", "10.0.0.300", Code::INVALID_ADDRESS),
        ("notRemoteIpBlocks", "10.0.0.0/33", Code::INVALID_ADDRESS),
        ("principals", "", Code::VALUE_INVALID),
        ("namespaces", "a*b", Code::VALUE_INVALID),
        ("serviceAccounts", "a/*", Code::VALUE_INVALID),
    ];
    for (field, value, code) in cases {
        let text = mk_rule(&format!("{{from: [{{source: {{{field}: [\"{value}\"]}}}}]}}"));
        let column = 32 + u32::try_from(field.len()).unwrap();
        refused(&text, &[(code, 7, column, &format!("spec.rules[0].from[0].source.{field}[0]"))]);
    }
    for (field, value, code) in [("ports", "0", Code::INVALID_PORT), ("paths", "/{a}", Code::VALUE_INVALID)] {
        let text = mk_rule(&format!("{{to: [{{operation: {{{field}: [\"{value}\"]}}}}]}}"));
        refused(&text, &[(code, 7, 38, &format!("spec.rules[0].to[0].operation.{field}[0]"))]);
    }
    let when = mk_rule("{when: [{key: destination.port, notValues: [http]}]}");
    refused(&when, &[(Code::INVALID_PORT, 7, 55, "spec.rules[0].when[0].notValues[0] \"http\"")]);
}
