//! Bytes of any origin: vetting never panics, and nothing that it prints holds a value of the kubeconfig.

use proptest::prelude::*;
use support::{PLANTED, assert_clean, mk_allowed};
use tributary_remote::{Allowed, Feature, VettedKubeconfig, read_file};

#[path = "support/kubeconfigs.rs"]
mod support;

/// Names of fields, known and not.
const NAMES: [&str; 24] = [
    "apiVersion",
    "kind",
    "current-context",
    "clusters",
    "contexts",
    "users",
    "name",
    "cluster",
    "user",
    "context",
    "server",
    "certificate-authority-data",
    "proxy-url",
    "token",
    "tokenFile",
    "exec",
    "username",
    "password",
    "as",
    "as-groups",
    "data",
    "stringData",
    "metadata",
    "items",
];

/// Values that hold the secret in every form that a kubeconfig has.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(PLANTED.to_owned()),
        Just(format!("https://u:{PLANTED}@a.test?{PLANTED}")),
        Just(format!("https://{PLANTED}.test")),
        Just(format!("\"{PLANTED}\\n\"")),
        Just(format!("&{PLANTED} x")),
        Just(format!("*{PLANTED}")),
        Just(format!("!{PLANTED} x")),
        Just("Secret".to_owned()),
        Just("Config".to_owned()),
        Just("true".to_owned()),
        Just("7".to_owned()),
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let name = prop_oneof![6 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => Just(PLANTED.to_owned())];
        let map = prop::collection::vec((name, inner.clone()), 0..6).prop_map(|entries| {
            let entries: Vec<String> = entries.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
            format!("{{{}}}", entries.join(", "))
        });
        prop_oneof![map, prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", ")))]
    })
}

fn shown(bytes: &[u8], allowed: &Allowed) -> String {
    let vetted = VettedKubeconfig::parse(bytes, allowed);
    let text = vetted.as_ref().err().map(ToString::to_string);
    let declared = read_file(bytes, "file", allowed);
    let texts: Vec<String> =
        declared.iter().filter_map(|one| one.verdict.as_ref().err()).map(ToString::to_string).collect();
    format!("{vetted:?} {text:?} {declared:?} {texts:?}")
}

proptest! {
    #[test]
    fn any_bytes_are_vetted_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        shown(&bytes, &Allowed::default());
    }

    #[test]
    fn any_text_is_vetted_without_a_panic(text in "[ -~\n]{0,300}") {
        shown(text.as_bytes(), &mk_allowed(&Feature::ALL, &["::/0", "0.0.0.0/0"]));
    }

    #[test]
    fn planted_secrets_are_never_shown(root in value(), cut in 0..4000usize) {
        for allowed in [Allowed::default(), mk_allowed(&Feature::ALL, &[])] {
            assert_clean(&shown(root.as_bytes(), &allowed));
            let broken = root.get(..cut.min(root.len())).unwrap_or_default();
            assert_clean(&shown(broken.as_bytes(), &allowed));
        }
    }

    #[test]
    fn planted_secrets_of_a_whole_kubeconfig_are_never_shown(user in value(), cluster in value()) {
        let text = format!(
            "current-context: c\nclusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        for allowed in [Allowed::default(), mk_allowed(&Feature::ALL, &[])] {
            assert_clean(&shown(text.as_bytes(), &allowed));
        }
    }
}
