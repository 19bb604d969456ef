//! Every field and form that a kubeconfig may not have: refused by its name, with the next step, and never with a value.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use support::{PLANTED, faults, mk_allowed, mk_cluster, mk_kubeconfig, mk_pair};
use tributary_model::Code;
use tributary_remote::{Allowed, Feature, OptIn, VettedKubeconfig};

#[path = "support/kubeconfigs.rs"]
mod support;

/// Checks that a kubeconfig is refused for one field, and returns the opt-in that would allow it.
fn refused(text: &str, code: Code, field: &str) -> Option<OptIn> {
    let all = faults(text, &Allowed::default());
    let [fault] = all.as_slice() else { panic!("{field}: not one fault: {all:?}") };
    assert_eq!((fault.code, fault.field.as_str()), (code, field), "{fault}");
    assert!(!fault.next.is_empty() && fault.to_string().starts_with(field), "{fault}");
    fault.opt_in
}

fn refused_user(user: &str, field: &str) -> Option<OptIn> {
    let text = mk_kubeconfig(&mk_cluster(), &format!("token: {PLANTED}\n{user}"));
    refused(&text, Code::KUBECONFIG_FIELD_REFUSED, &format!("users[0].user.{field}"))
}

fn refused_cluster(cluster: &str, field: &str) -> Option<OptIn> {
    let text = mk_kubeconfig(&format!("{}{cluster}", mk_cluster()), &format!("token: {PLANTED}"));
    refused(&text, Code::KUBECONFIG_FIELD_REFUSED, &format!("clusters[0].cluster.{field}"))
}

#[test]
fn programs_of_a_kubeconfig_are_refused() {
    assert_eq!(
        refused_user(&format!("exec: {{command: {PLANTED}, env: [{{name: A, value: {PLANTED}}}]}}"), "exec"),
        None
    );
    assert_eq!(
        refused_user(
            &format!("auth-provider: {{name: gcp, config: {{cmd-path: {PLANTED}}}}}"),
            "auth-provider"
        ),
        None
    );
}

#[test]
fn paths_of_files_are_refused() {
    for field in ["tokenFile", "client-certificate", "client-key"] {
        assert_eq!(refused_user(&format!("{field}: /{PLANTED}"), field), None);
    }
    assert_eq!(refused_cluster(&format!("certificate-authority: /{PLANTED}"), "certificate-authority"), None);
}

#[test]
fn passwords_and_impersonation_are_refused_unless_allowed() {
    for (field, feature) in [("as", Feature::Impersonation), ("as-uid", Feature::Impersonation)] {
        assert_eq!(refused_user(&format!("{field}: {PLANTED}"), field), Some(OptIn::Feature(feature)));
    }
    let groups = refused_user(&format!("as-groups: [{PLANTED}]"), "as-groups");
    let extra = refused_user(&format!("as-user-extra: {{a: [{PLANTED}]}}"), "as-user-extra");
    assert_eq!([groups, extra], [Some(OptIn::Feature(Feature::Impersonation)); 2]);
    for field in ["username", "password"] {
        assert_eq!(refused_user(&format!("{field}: {PLANTED}"), field), Some(OptIn::Feature(Feature::Basic)));
    }
}

#[test]
fn unchecked_servers_and_proxies_are_refused_unless_allowed() {
    let insecure = refused_cluster("insecure-skip-tls-verify: true", "insecure-skip-tls-verify");
    assert_eq!(insecure, Some(OptIn::Feature(Feature::InsecureSkipTlsVerify)));
    let proxy = refused_cluster(&format!("proxy-url: http://u:{PLANTED}@p:1"), "proxy-url");
    assert_eq!(proxy.map(|opt_in| opt_in.to_string()).as_deref(), Some("--allow-kubeconfig proxy-url"));
}

#[test]
fn allowed_features_are_read() {
    let cluster =
        "server: https://far.test\ninsecure-skip-tls-verify: true\nproxy-url: http://proxy.test:3128\n";
    let user =
        format!("username: ada\npassword: {PLANTED}\nas: bob\nas-groups: [g]\nas-user-extra: {{k: [v]}}\n");
    let all = mk_allowed(&Feature::ALL, &[]);
    let vetted = VettedKubeconfig::parse(mk_kubeconfig(cluster, &user).as_bytes(), &all).unwrap();
    assert_eq!((vetted.authorities(), vetted.proxy()), (None, Some("http://proxy.test:3128/")));
    assert_eq!(vetted.password().unwrap().password.expose(), PLANTED.as_bytes());
    let acts_as = vetted.impersonation().unwrap();
    assert_eq!((acts_as.user.as_deref(), acts_as.groups.concat().as_str()), (Some("bob"), "g"));
    assert_eq!(acts_as.extra["k"], ["v"]);
    support::assert_clean(&format!("{vetted:?} {:?} {acts_as:?}", vetted.password()));
    for one in Feature::ALL {
        let but_one: Vec<Feature> = Feature::ALL.into_iter().filter(|feature| *feature != one).collect();
        let found = faults(&mk_kubeconfig(cluster, &user), &mk_allowed(&but_one, &[]));
        assert!(found.iter().any(|fault| fault.opt_in == Some(OptIn::Feature(one))), "{one}: {found:?}");
    }
}

#[test]
fn allowed_proxy_and_server_follow_the_rules_of_addresses() {
    let text = mk_kubeconfig(&format!("{}proxy-url: http://169.254.169.254", mk_cluster()), "token: t");
    let found = faults(&text, &mk_allowed(&[Feature::ProxyUrl], &[]));
    assert_eq!(
        (found[0].code, found[0].field.as_str()),
        (Code::SERVER_ADDRESS_REFUSED, "clusters[0].cluster.proxy-url")
    );
}

#[test]
fn unknown_fields_are_refused_everywhere() {
    assert_eq!(refused_user(&format!("tokn: {PLANTED}"), "tokn"), None);
    assert_eq!(refused_cluster(&format!("unknown: {PLANTED}"), "unknown"), None);
    let good = mk_kubeconfig(&mk_cluster(), &format!("token: {PLANTED}"));
    let cases = [
        (format!("{good}secrets: {PLANTED}\n"), "secrets"),
        (good.replace("context: {", &format!("context: {{x: {PLANTED}, ")), "contexts[0].context.x"),
        (good.replace("- name: u\n", &format!("- name: u\n  x: {PLANTED}\n")), "users[0].x"),
    ];
    for (text, field) in cases {
        let found = faults(&text, &Allowed::default());
        assert_eq!(
            (found[0].code, found[0].field.as_str()),
            (Code::KUBECONFIG_FIELD_REFUSED, field),
            "{found:?}"
        );
    }
}

#[test]
fn name_of_an_unknown_field_is_shown_only_if_it_cannot_be_a_secret() {
    let text = mk_kubeconfig(&mk_cluster(), &format!("{{token:{PLANTED}, {PLANTED}: x}}"));
    let found = faults(&text, &Allowed::default());
    assert_eq!(found[0].field, "users[0].user.(unknown name)");
    assert_eq!(found[0].line, Some(12), "the line is shown: {found:?}");
}

#[test]
fn duplicate_fields_and_names_are_refused() {
    let twice = mk_kubeconfig(&mk_cluster(), &format!("token: {PLANTED}\ntoken: {PLANTED}"));
    let found = faults(&twice, &Allowed::default());
    assert_eq!(
        (found[0].code, found[0].field.as_str(), found[0].line),
        (Code::KUBECONFIG_UNREADABLE, "token", Some(13))
    );
    let good = mk_kubeconfig(&mk_cluster(), "token: t");
    let user = format!("users:\n- name: u\n  user: {{token: {PLANTED}}}\n");
    refused(&good.replace("users:\n", &user), Code::KUBECONFIG_FIELD_REFUSED, "users[1].user");
}

#[test]
fn anchors_aliases_and_merge_keys_are_refused() {
    let good = mk_kubeconfig(&mk_cluster(), "token: t");
    let bomb = "a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n";
    let cases = [
        (good.replace("token: t", &format!("token: &a {PLANTED}")), "anchor"),
        (format!("{bomb}{good}"), "anchor"),
        (good.replace("token: t", &format!("<<: {{token: {PLANTED}}}")), "merge key"),
        (format!("preferences: {}{}\n{good}", "[".repeat(100), "]".repeat(100)), "levels"),
    ];
    for (text, why) in cases {
        let found = faults(&text, &Allowed::default());
        assert!(found[0].code == Code::KUBECONFIG_UNREADABLE && found[0].why.contains(why), "{found:?}");
    }
}

#[test]
fn large_empty_and_several_documents_are_refused() {
    let good = mk_kubeconfig(&mk_cluster(), "token: t");
    let filled = format!("# {}\n{good}", "x".repeat(tributary_remote::MAX_BYTES));
    let cases = [
        (filled, "is larger than 256 KiB"),
        (format!("{good}---\n{good}"), "has more documents than are read"),
        (String::new(), "is empty"),
        ("---\n---\n".to_owned(), "is empty"),
        (format!("token {PLANTED}"), "is not a kubeconfig: it is not a map"),
        (format!("a: [{PLANTED}"), "is not valid YAML"),
        (format!("a: \"\\q{PLANTED}\""), "is not valid YAML"),
        (format!("a: !!binary {PLANTED}"), "is not valid YAML"),
    ];
    for (text, why) in cases {
        let found = faults(&text, &Allowed::default());
        assert_eq!((found[0].code, found[0].why), (Code::KUBECONFIG_UNREADABLE, why));
    }
    let bytes = VettedKubeconfig::parse(&[0xff, 0xfe], &Allowed::default()).unwrap_err();
    assert_eq!(bytes.0[0].why, "is not UTF-8 text");
}

#[test]
fn context_must_be_unambiguous_and_defined() {
    let good = mk_kubeconfig(&mk_cluster(), "token: t");
    let second = "contexts:\n- name: other\n  context: {cluster: c, user: u}\n";
    let several = good.replace("contexts:\n", second);
    assert!(
        VettedKubeconfig::parse(several.as_bytes(), &Allowed::default()).is_ok(),
        "current-context names one"
    );
    let unnamed = good.replace("current-context: c\n", "");
    assert!(VettedKubeconfig::parse(unnamed.as_bytes(), &Allowed::default()).is_ok(), "there is one");
    let cases = [
        (several.replace("current-context: c\n", ""), "current-context"),
        (good.replace("current-context: c", &format!("current-context: {PLANTED}")), "current-context"),
        (good.replace("cluster: c,", &format!("cluster: {PLANTED},")), "contexts[0].context.cluster"),
        (good.replace("user: u}", "user: ''}"), "contexts[0].context.user"),
        (good.split("contexts:").next().unwrap().to_owned(), "contexts"),
    ];
    for (text, field) in cases {
        refused(&text, Code::KUBECONFIG_FIELD_INVALID, field);
    }
}

#[test]
fn values_of_another_form_are_refused() {
    let pair = mk_pair();
    let (token, good) = (format!("token: {PLANTED}"), mk_cluster());
    let certificate = format!("client-certificate-data: {}", pair.certificate);
    let cases = [
        (
            format!("certificate-authority-data: {}", pair.certificate),
            token.clone(),
            "clusters[0].cluster.server",
        ),
        ("server: https://a.test".into(), token.clone(), "clusters[0].cluster.certificate-authority-data"),
        (
            format!("server: https://a.test\ncertificate-authority-data: {PLANTED}"),
            token.clone(),
            "clusters[0].cluster.certificate-authority-data",
        ),
        (
            format!("server: https://a.test\ncertificate-authority-data: {}", pair.key),
            token.clone(),
            "clusters[0].cluster.certificate-authority-data",
        ),
        (format!("{good}tls-server-name: '{PLANTED} x'"), token, "clusters[0].cluster.tls-server-name"),
        (good.clone(), "token: 12345".into(), "users[0].user.token"),
        (good.clone(), format!("token: '{PLANTED} x'"), "users[0].user.token"),
        (good.clone(), "token: ''".into(), "users[0].user.token"),
        (good.clone(), certificate.clone(), "users[0].user.client-key-data"),
        (good.clone(), format!("client-key-data: {}", pair.key), "users[0].user.client-certificate-data"),
        (good.clone(), format!("{certificate}\nclient-key-data: {PLANTED}"), "users[0].user.client-key-data"),
        (
            good,
            format!("{certificate}\nclient-key-data: {}", pair.certificate),
            "users[0].user.client-key-data",
        ),
    ];
    for (cluster, user, field) in cases {
        refused(&mk_kubeconfig(&cluster, &user), Code::KUBECONFIG_FIELD_INVALID, field);
    }
    let other = mk_kubeconfig(&mk_cluster(), "token: t").replace("kind: Config", &format!("kind: {PLANTED}"));
    refused(&other, Code::KUBECONFIG_FIELD_INVALID, "kind");
}

#[test]
fn all_faults_are_reported_at_once_up_to_a_limit() {
    let text = mk_kubeconfig("server: http://a.test\ncertificate-authority: /x", "exec: {command: x}");
    let fields: Vec<String> =
        faults(&text, &Allowed::default()).into_iter().map(|fault| fault.field).collect();
    let want =
        ["clusters[0].cluster.certificate-authority", "clusters[0].cluster.server", "users[0].user.exec"];
    assert_eq!(fields, want, "what a refused field lacks is no further fault");
    let many: String = ('a'..='z').map(|c| format!("x{c}: 1\n")).collect();
    assert_eq!(faults(&mk_kubeconfig(&mk_cluster(), &many), &Allowed::default()).len(), 16);
}
