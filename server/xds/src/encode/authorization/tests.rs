//! Filters of chains, decoded: order, names, conditions, and what connections without requests keep of a rule.

mod evaluate;
mod model;
mod shown;

use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType as NetworkConfig;
use envoy_types::pb::envoy::config::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use tributary_fixtures::{mk_ns, mk_port};
use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationRule, PolicyKey, PolicyKind, ValueMatch,
};

use super::*;
use shown::{shown_permission, shown_principal};

fn mk_policy(name: &str, action: AuthorizationAction, rules: &[AuthorizationRule]) -> AppliedAuthorization {
    let key = PolicyKey { kind: PolicyKind::AuthorizationPolicy, namespace: mk_ns("foo"), name: name.into() };
    AppliedAuthorization { key, action, is_dry_run: false, rules: rules.into() }
}
fn mk_dry(name: &str, action: AuthorizationAction, rules: &[AuthorizationRule]) -> AppliedAuthorization {
    AppliedAuthorization { is_dry_run: true, ..mk_policy(name, action, rules) }
}
fn mk_chain(policies: &[AppliedAuthorization]) -> AuthorizationChain {
    AuthorizationChain { policies: policies.into() }
}
fn custom() -> AuthorizationAction {
    AuthorizationAction::Custom("opa".into())
}
/// Reads a value as the field of an attribute has it.
fn value(of: &Attribute, text: &str) -> ValueMatch {
    match of {
        Attribute::SourceIp | Attribute::RemoteIp | Attribute::DestinationIp => {
            ValueMatch::Range(text.parse().unwrap())
        }
        Attribute::DestinationPort => ValueMatch::Port(mk_port(text.parse().unwrap())),
        Attribute::Path if text.contains("{*") => ValueMatch::Template(text.into()),
        _ => ValueMatch::of_text(text),
    }
}
fn mk_match(of: Attribute, values: &[&str], not: &[&str]) -> AttributeMatch {
    let all = |texts: &[&str]| texts.iter().map(|text| value(&of, text)).collect();
    AttributeMatch { values: all(values), not: all(not), of }
}
fn mk_is(of: Attribute, text: &str) -> AttributeMatch {
    mk_match(of, &[text], &[])
}
fn mk_rule(
    from: &[&[AttributeMatch]],
    to: &[&[AttributeMatch]],
    when: &[AttributeMatch],
) -> AuthorizationRule {
    let lists = |all: &[&[AttributeMatch]]| all.iter().map(|list| Arc::from(*list)).collect();
    AuthorizationRule { from: lists(from), to: lists(to), when: when.into() }
}
fn mk_domains(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}
fn http(chain: &AuthorizationChain, domains: &[&str]) -> Vec<HttpRbac> {
    let config = |filter: HttpFilter| {
        let Some(ConfigType::TypedConfig(any)) = filter.config_type else { panic!("no configuration") };
        assert_eq!((&*filter.name, &any.type_url), (HTTP_FILTER, &HttpRbac::type_url()));
        HttpRbac::decode(&any.value[..]).unwrap()
    };
    http_filters(chain, &mk_domains(domains)).into_iter().map(config).collect()
}
fn network(chain: &AuthorizationChain, domains: &[&str]) -> Vec<NetworkRbac> {
    let config = |filter: Filter| {
        let Some(NetworkConfig::TypedConfig(any)) = filter.config_type else { panic!("no configuration") };
        assert_eq!((&*filter.name, &any.type_url), (NETWORK_FILTER, &NetworkRbac::type_url()));
        NetworkRbac::decode(&any.value[..]).unwrap()
    };
    network_filters(chain, &mk_domains(domains)).into_iter().map(config).collect()
}
/// `ACTION: NAME, NAME` of rules, which have a common namespace.
fn shown_rules(rules: Option<&Rbac>) -> Option<String> {
    let rules = rules?;
    let mut names: Vec<String> =
        rules.policies.keys().map(|name| name.replace("ns[foo]-policy", "")).collect();
    names.sort();
    Some(format!("{}: {}", rules.action().as_str_name(), names.join(", ")))
}

#[test]
fn each_action_has_its_filter_and_its_order() {
    use AuthorizationAction::{Allow, Audit, Deny};
    let (none, one) = (&[][..], &[AuthorizationRule::default()][..]);
    let two = &[AuthorizationRule::default(), AuthorizationRule::default()];
    type Row<'a> = (Option<&'a str>, Option<&'a str>, &'a str);
    let bad = "DENY: istio-ext-authz-opa-[c]-rule[0]-deny-due-to-bad-CUSTOM-action";
    let cases: &[(&[AppliedAuthorization], &[Row<'_>])] = &[
        (&[mk_policy("a", Allow, none)], &[(Some("ALLOW: "), None, "")]),
        (&[mk_policy("a", Allow, two)], &[(Some("ALLOW: [a]-rule[0], [a]-rule[1]"), None, "")]),
        (
            &[mk_policy("b", Allow, one), mk_policy("a", Allow, none), mk_policy("c", Allow, one)],
            &[(Some("ALLOW: [b]-rule[0], [c]-rule[0]"), None, "")],
        ),
        (&[mk_policy("d", Deny, none), mk_policy("u", Audit, none), mk_policy("c", custom(), none)], &[]),
        (
            &[
                mk_policy("a", Allow, one),
                mk_policy("d", Deny, one),
                mk_policy("u", Audit, one),
                mk_policy("c", custom(), one),
            ],
            &[
                (Some(bad), None, ""),
                (Some("LOG: [u]-rule[0]"), None, ""),
                (Some("DENY: [d]-rule[0]"), None, ""),
                (Some("ALLOW: [a]-rule[0]"), None, ""),
            ],
        ),
        (
            &[
                mk_dry("a", Allow, one),
                mk_policy("b", Allow, one),
                mk_dry("d", Deny, one),
                mk_dry("c", custom(), one),
            ],
            &[
                (None, Some("DENY: [d]-rule[0]"), "istio_dry_run_deny_"),
                (Some("ALLOW: [b]-rule[0]"), Some("ALLOW: [a]-rule[0]"), "istio_dry_run_allow_"),
            ],
        ),
        (&[mk_dry("a", Allow, none)], &[(None, Some("ALLOW: "), "istio_dry_run_allow_")]),
        (&[mk_dry("u", Audit, one)], &[(None, Some("LOG: [u]-rule[0]"), "")]),
    ];
    for (policies, want) in cases {
        let chain = mk_chain(policies);
        let want: Vec<_> = want
            .iter()
            .map(|(a, b, c)| (a.map(str::to_owned), b.map(str::to_owned), (*c).to_owned()))
            .collect();
        let http = http(&chain, &["mesh"]).into_iter();
        let http = http.map(|own| {
            (
                shown_rules(own.rules.as_ref()),
                shown_rules(own.shadow_rules.as_ref()),
                own.shadow_rules_stat_prefix,
            )
        });
        assert_eq!(http.collect::<Vec<_>>(), want);
        let network = network(&chain, &["mesh"]).into_iter();
        let network = network.map(|own| {
            assert_eq!(own.stat_prefix, "tcp.");
            (
                shown_rules(own.rules.as_ref()),
                shown_rules(own.shadow_rules.as_ref()),
                own.shadow_rules_stat_prefix,
            )
        });
        assert_eq!(network.collect::<Vec<_>>(), want);
    }
}

/// Returns `PERMISSIONS / PRINCIPALS` of the rule of a policy; `None` if its filter has no rule.
fn encoded(action: AuthorizationAction, rule: &AuthorizationRule, is_http: bool) -> Option<String> {
    let chain = mk_chain(&[mk_policy("p", action, std::slice::from_ref(rule))]);
    let rules = if is_http {
        http(&chain, &["mesh"]).pop().unwrap().rules
    } else {
        network(&chain, &["mesh"]).pop().unwrap().rules
    };
    let policies = rules.unwrap().policies;
    let policy = policies.values().next()?;
    let permissions: Vec<_> = policy.permissions.iter().map(shown_permission).collect();
    let principals: Vec<_> = policy.principals.iter().map(shown_principal).collect();
    Some(format!("{} / {}", permissions.join(" | "), principals.join(" | ")))
}

/// Conditions on the operation.
const OPERATIONS: &[(Attribute, &[&str], &str)] = &[
    (
        Attribute::Host,
        &["a.com", "a.*", "*.com", "*"],
        "one(:authority=a.com(i), :authority=a.*(i), :authority=*.com(i), :authority present)",
    ),
    (
        Attribute::Method,
        &["GET", "P*", "*T", "*"],
        "one(:method=GET, :method=P*, :method=*T, :method present)",
    ),
    (Attribute::Path, &["/a", "/a*", "*/a", "*"], "one(path=/a, path=/a*, path=*/a, path~.+)"),
    (Attribute::Path, &["/a/{*}/b/{**}", "/{*}"], "one(template /a/*/b/**, template /*)"),
    (Attribute::DestinationIp, &["10.0.0.0/8", "fd00::1/128"], "one(to 10.0.0.0/8, to fd00::1/128)"),
    (Attribute::DestinationPort, &["80", "443"], "one(port 80, port 443)"),
    (Attribute::ServerName, &["a.com", "a.*", "*.com", "*"], "one(sni=a.com, sni=a.*, sni=*.com, sni~.+)"),
];

#[test]
fn conditions_on_the_operation_are_permissions() {
    for (of, values, want) in OPERATIONS {
        let found = mk_match(of.clone(), values, values);
        let want = format!("all({want}, not({want})) / all(any)");
        for rule in [mk_rule(&[], &[std::slice::from_ref(&found)], &[]), mk_rule(&[], &[], &[found])] {
            assert_eq!(encoded(AuthorizationAction::Allow, &rule, true), Some(want.clone()));
        }
    }
}

#[test]
fn conditions_on_the_client_are_principals() {
    let header = || Attribute::Header("x-id".into());
    let claim = |path: &[&str]| Attribute::RequestClaim(path.iter().map(|key| Arc::from(*key)).collect());
    let cases: &[(Attribute, &[&str], &str)] = &[
        (
            Attribute::Principal,
            &["old/ns/a/sa/b", "td/ns*", "*/sa/b.c", "*"],
            r"one(uri=spiffe://old/ns/a/sa/b, uri=spiffe://td/ns*, all(uri=spiffe://*, uri=*/sa/b.c, not(uri=spiffe://sa/b.c)), uri~.+)",
        ),
        (
            Attribute::Namespace,
            &["a.b", "a*", "*b", "a*b", "*"],
            r"one(uri=*/ns/a.b/*, uri~.*/ns/a.*/.*, uri~.*/ns/.*b/.*, uri~.*/ns/a.*b/.*, uri~.*/ns/.*/.*)",
        ),
        (
            Attribute::ServiceAccount,
            &["n.s/a+", "sa/x"],
            "one(all(uri=spiffe://*, uri=*/ns/n.s/*, one(uri=*/sa/a+, uri=*/sa/a+/*)), \
             all(uri=spiffe://*, one(uri=*/ns/sa/sa/x, uri=*/ns/sa/sa/x/*)))",
        ),
        (Attribute::SourceIp, &["1.2.3.4/32", "fd00::/8"], "one(direct 1.2.3.4/32, direct fd00::/8)"),
        (Attribute::RemoteIp, &["1.2.0.0/16"], "one(remote 1.2.0.0/16)"),
        (header(), &["a", "a*", "*a", "*"], "one(x-id=a, x-id=a*, x-id=*a, x-id present)"),
        (Attribute::RequestPrincipal, &["http://i/s"], "all(payload.iss=http://i, payload.sub=s)"),
        (
            Attribute::RequestPrincipal,
            &["i", "*", "*/s", "*i/s", "*s", "i/*", "i/s*", "i*"],
            "one(all(payload.iss=i, payload.sub=), all(payload.iss~.+, payload.sub~.+), \
             all(payload.iss~.+, payload.sub=s), all(payload.iss=*i, payload.sub=s), \
             all(payload.iss~.+, payload.sub=*s), all(payload.iss=i, payload.sub~.+), \
             all(payload.iss=i, payload.sub=s*), all(payload.iss=i*, payload.sub~.+))",
        ),
        (Attribute::RequestAudience, &["a"], "payload.aud([=a] | =a)"),
        (Attribute::RequestPresenter, &["a*", "*"], "payload.azp([(=a* | ~.+)] | (=a* | ~.+))"),
        (claim(&["a", "b"]), &["*c"], "payload.a.b([=*c] | =*c)"),
    ];
    for (of, values, want) in cases {
        let found = mk_match(of.clone(), values, values);
        let want = format!("all(any) / all({want}, not({want}))");
        for rule in [mk_rule(&[std::slice::from_ref(&found)], &[], &[]), mk_rule(&[], &[], &[found])] {
            assert_eq!(encoded(AuthorizationAction::Allow, &rule, true), Some(want.clone()));
        }
    }
}

#[test]
fn further_conditions_hold_for_each_alternative() {
    let (port, path) = (mk_is(Attribute::DestinationPort, "80"), mk_is(Attribute::Path, "/a"));
    let (source, header) = (mk_is(Attribute::Namespace, "n"), mk_is(Attribute::Header("h".into()), "v"));
    let method = mk_is(Attribute::Method, "GET");
    let rule = mk_rule(&[&[source], &[]], &[&[path, method], &[]], &[header, port]);
    let operation = "all(one(path=/a), one(:method=GET), one(port 80)) | all(one(port 80))";
    let client = "all(one(uri=*/ns/n/*), one(h=v)) | all(one(h=v))";
    assert_eq!(encoded(AuthorizationAction::Allow, &rule, true), Some(format!("{operation} / {client}")));
    let empty = mk_rule(&[&[]], &[&[mk_match(Attribute::Host, &[], &[])]], &[]);
    assert_eq!(encoded(AuthorizationAction::Allow, &empty, true).as_deref(), Some("all(any) / all(any)"));
}

/// Rules for connections: a rule that accepts is dropped as a whole, one that refuses matches more.
#[test]
fn connections_have_no_attributes_of_requests() {
    use AuthorizationAction::{Allow, Audit, Deny};
    let port = || mk_is(Attribute::DestinationPort, "80");
    let source = || mk_is(Attribute::Namespace, "n");
    let path = || mk_is(Attribute::Path, "/a");
    let (to_port, from_n) = ("all(one(port 80))", "all(one(uri=*/ns/n/*))");
    let kept = format!("{to_port} / {from_n}");
    let requests = [
        Attribute::Host,
        Attribute::Method,
        Attribute::Header("h".into()),
        Attribute::RequestPrincipal,
        Attribute::RequestAudience,
        Attribute::RequestPresenter,
        Attribute::RequestClaim(["c".into()].into()),
    ];
    let mut cases = vec![
        (mk_rule(&[&[source()]], &[&[port()]], &[]), Some(kept.clone()), kept.clone()),
        (mk_rule(&[&[source()]], &[&[port(), path()]], &[]), None, kept.clone()),
        (
            mk_rule(&[&[source()]], &[&[port(), mk_match(Attribute::Path, &[], &["/a"])]], &[]),
            None,
            kept.clone(),
        ),
        (
            mk_rule(&[&[source()]], &[&[port()], &[path()]], &[]),
            None,
            format!("{to_port} | all(any) / {from_n}"),
        ),
        (mk_rule(&[], &[&[path()]], &[]), None, "all(any) / all(any)".to_owned()),
    ];
    for of in requests {
        cases.push((mk_rule(&[&[source()]], &[&[port()]], &[mk_is(of, "v")]), None, kept.clone()));
    }
    for (rule, allowed, denied) in cases {
        assert_eq!(encoded(Allow, &rule, false), allowed, "{rule:?}");
        for action in [Deny, Audit, custom()] {
            assert_eq!(encoded(action, &rule, false), Some(denied.clone()), "{rule:?}");
        }
        let (accepts, refuses) = (encoded(Allow, &rule, true), encoded(Deny, &rule, true));
        assert!(accepts.is_some() && accepts == refuses, "filters of requests check {rule:?}");
    }
}

/// Envoy refuses a listener with such a matcher.
#[test]
fn conditions_that_envoy_cannot_check_do_not_accept() {
    let exact =
        |of| AttributeMatch { values: [ValueMatch::Exact("v".into())].into(), not: Arc::from([]), of };
    let claim = |path: &[&str]| Attribute::RequestClaim(path.iter().map(|key| Arc::from(*key)).collect());
    let cases = [
        mk_rule(&[], &[], &[exact(Attribute::Header("".into()))]),
        mk_rule(&[], &[], &[exact(Attribute::Header("a\nb".into()))]),
        mk_rule(&[], &[], &[exact(claim(&[]))]),
        mk_rule(&[], &[], &[exact(claim(&["a", ""]))]),
        mk_rule(&[], &[], &[exact(Attribute::SourceIp)]),
        mk_rule(&[], &[], &[exact(Attribute::DestinationPort)]),
        mk_rule(&[&[exact(Attribute::Path)]], &[], &[]),
        mk_rule(&[], &[&[exact(Attribute::Principal)]], &[]),
    ];
    for rule in cases {
        assert_eq!(encoded(AuthorizationAction::Allow, &rule, true), None, "{rule:?}");
        let denied = encoded(AuthorizationAction::Deny, &rule, true);
        assert_eq!(denied.as_deref(), Some("all(any) / all(any)"), "{rule:?}");
    }
}

/// Envoy counts instructions of RE2 and takes up to 100. As RE2 counts them, `.*` has 8, `.+` has 9, a byte of text one, and the
/// frame of an expression 4.
#[test]
fn regular_expressions_are_within_the_bound_of_envoy() {
    let size = |regex: &str| {
        let wild = regex.matches(".*").count() + regex.matches(".+").count();
        4 + 9 * wild + regex.replace(".*", "").replace(".+", "").replace('\\', "").len()
    };
    let name = "n".repeat(63);
    let cases = [
        (
            Attribute::Namespace,
            [name.clone(), format!("{name}*"), format!("*{name}"), "*".to_owned()].to_vec(),
        ),
        (Attribute::ServiceAccount, vec![format!("{name}/{}", "a".repeat(253))]),
        (
            Attribute::Principal,
            ["x", "x*", "*x", "*"].map(|text| text.replace('x', &"x".repeat(4_000))).to_vec(),
        ),
        (Attribute::Path, ["x", "x*", "*x", "*"].map(|text| text.replace('x', &"x".repeat(4_000))).to_vec()),
    ];
    for (of, values) in cases {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let rule = mk_rule(&[], &[], &[mk_match(of, &values, &[])]);
        let shown = encoded(AuthorizationAction::Deny, &rule, true).unwrap();
        let all = shown.split('~').skip(1);
        let expressions = all.map(|after| after.split([',', ')']).next().unwrap());
        for regex in expressions {
            assert!(size(regex) <= 100, "{} in {}", size(regex), &regex[..regex.len().min(200)]);
        }
    }
}

#[test]
fn identity_of_one_trust_domain_is_that_of_all() {
    let cases: &[(&[&str], &str, &[&str])] = &[
        (&["cluster.local"], "cluster.local/ns/a/sa/b", &["cluster.local/ns/a/sa/b"]),
        (&["td2", "td1"], "td1/ns/a/sa/b", &["td2/ns/a/sa/b", "td1/ns/a/sa/b"]),
        (&["td2", "td1"], "cluster.local/ns/a/sa/*", &["td2/ns/a/sa/*", "td1/ns/a/sa/*"]),
        (&["td2", "td1"], "other/ns/a/sa/b", &["other/ns/a/sa/b"]),
        (&["td2", "td1"], "/ns/a/sa/b", &["/ns/a/sa/b"]),
        (&["td2", "td1"], "*/ns/a/sa/b", &["*/ns/a/sa/b"]),
        (&["td2", "td1"], "td1/ns/a", &["td1/ns/a"]),
        (&["td2", "td1"], "td1/ns/a/sa/b/c", &["td1/ns/a/sa/b/c"]),
        (&["td2", "td1"], "td1/*", &["td1/*"]),
        (&["td2", "td1"], "*", &["*"]),
        (&["td2", "my-td"], "*-td/ns/a/sa/b", &["td2/ns/a/sa/b", "*-td/ns/a/sa/b"]),
        (&["new-td", "old-td"], "*-td/ns/a/sa/b", &["*-td/ns/a/sa/b"]),
        (&["td2", "td2"], "td2/ns/a/sa/b", &["td2/ns/a/sa/b"]),
        (&[], "cluster.local/ns/a/sa/b", &["cluster.local/ns/a/sa/b"]),
    ];
    for (domains, principal, want) in cases {
        let want: Vec<_> = want.iter().map(|text| ValueMatch::of_text(text)).collect();
        let names = aliases::names(&ValueMatch::of_text(principal), &mk_domains(domains));
        assert_eq!(names, want, "{principal} in {domains:?}");
    }
    let found = mk_match(Attribute::Principal, &["td1/ns/a/sa/b"], &["td1/ns/a/sa/c"]);
    let deny = mk_policy("p", AuthorizationAction::Deny, &[mk_rule(&[], &[], &[found])]);
    let rules = http(&mk_chain(&[deny]), &["td2", "td1"]).pop().unwrap().rules.unwrap();
    let principal = &rules.policies.values().next().unwrap().principals[0];
    let of =
        |account: &str| ["td2", "td1"].map(|td| format!("uri=spiffe://{td}/ns/a/sa/{account}")).join(", ");
    assert_eq!(shown_principal(principal), format!("all(one({}), not(one({})))", of("b"), of("c")));
}

#[test]
fn equal_rules_give_equal_bytes() {
    let names: Vec<String> = (0..20).map(|n| format!("p{n:02}")).collect();
    let rule = [AuthorizationRule::default()];
    let policies: Vec<_> =
        names.iter().map(|name| mk_policy(name, AuthorizationAction::Deny, &rule)).collect();
    let reversed: Vec<_> = policies.iter().rev().cloned().collect();
    let bytes = |policies: &[AppliedAuthorization]| {
        let chain = mk_chain(policies);
        let http: Vec<u8> = http_filters(&chain, &[]).iter().flat_map(Message::encode_to_vec).collect();
        let network: Vec<u8> = network_filters(&chain, &[]).iter().flat_map(Message::encode_to_vec).collect();
        (http, network)
    };
    let (http, network) = bytes(&policies);
    assert_eq!((&http, &network), (&bytes(&reversed).0, &bytes(&reversed).1));
    let at = |name: &String| http.windows(name.len()).position(|part| part == name.as_bytes());
    assert!(names.iter().map(at).is_sorted() && names.iter().all(|name| at(name).is_some()));
}
