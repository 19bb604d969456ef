//! Kubeconfigs of the tests, with real certificates and a planted secret in every value.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part; helpers of tests fail the test"
)]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tributary_remote::{Allowed, Feature, Refusal, VettedKubeconfig, parse_cidr};

/// Secret that no output may hold.
pub(crate) const PLANTED: &str = "s3cr3t-hunter2";

/// Certificate and key in PEM, then base64.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) fn mk_pair() -> Pair {
    let made = rcgen::generate_simple_self_signed(["east.test".to_owned()]).unwrap();
    Pair {
        certificate: STANDARD.encode(made.cert.pem()),
        key: STANDARD.encode(made.signing_key.serialize_pem()),
    }
}

/// JWT with these claims.
pub(crate) fn mk_jwt(claims: &str) -> String {
    format!("{}.{}.{PLANTED}", URL_SAFE_NO_PAD.encode("{}"), URL_SAFE_NO_PAD.encode(claims))
}

/// Kubeconfig with these lines of its cluster and its user.
pub(crate) fn mk_kubeconfig(cluster: &str, user: &str) -> String {
    let below = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n{}users:\n- name: u\n  user:\n{}\
         contexts:\n- name: c\n  context: {{cluster: c, user: u}}\n",
        below(cluster),
        below(user)
    )
}

/// Lines of a cluster that is accepted.
pub(crate) fn mk_cluster() -> String {
    mk_cluster_at("https://10.0.0.1:6443")
}

pub(crate) fn mk_cluster_at(server: &str) -> String {
    format!("server: {server}\ncertificate-authority-data: {}\n", mk_pair().certificate)
}

pub(crate) fn mk_allowed(features: &[Feature], servers: &[&str]) -> Allowed {
    let servers = servers.iter().map(|text| parse_cidr(text).unwrap()).collect();
    Allowed { features: features.iter().copied().collect(), servers }
}

/// Returns the faults of a kubeconfig, after a check that none of their texts holds a planted secret.
pub(crate) fn faults(text: &str, allowed: &Allowed) -> Vec<Refusal> {
    let refused = VettedKubeconfig::parse(text.as_bytes(), allowed).unwrap_err();
    assert_clean(&format!("{refused} {refused:?}"));
    refused.0
}

pub(crate) fn assert_clean(shown: &str) {
    for part in [PLANTED, "hunter2", "s3cr3t"] {
        assert!(!shown.contains(part), "a secret is shown: {shown}");
    }
}
