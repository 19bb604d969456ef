//! Digests of vetted kubeconfigs: what changes one, and what does not.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use support::{PLANTED, assert_clean, mk_allowed, mk_cluster, mk_kubeconfig, mk_pair};
use tributary_remote::roster::{Digest, DigestKey, Verdict};
use tributary_remote::{Allowed, Feature, VettedKubeconfig};

#[path = "support/kubeconfigs.rs"]
mod support;

fn key() -> DigestKey {
    DigestKey::new(&[7; 32])
}

fn digest(text: &str) -> Digest {
    let allowed = mk_allowed(&Feature::ALL, &[]);
    key().of(&VettedKubeconfig::parse(text.as_bytes(), &allowed).unwrap())
}

#[test]
fn comments_formatting_and_metadata_do_not_change_a_digest() {
    let (cluster, pair) = (mk_cluster(), mk_pair());
    let user = format!("client-certificate-data: {}\nclient-key-data: {}\n", pair.certificate, pair.key);
    let plain = mk_kubeconfig(&cluster, &user);
    let noted =
        |pem: &str| STANDARD.encode([b"# a note\n", STANDARD.decode(pem).unwrap().as_slice()].concat());
    let noted_user = format!(
        "client-certificate-data: {}\nclient-key-data: {}\n",
        noted(&pair.certificate),
        noted(&pair.key)
    );
    let others = [
        format!("# a note\n{plain}"),
        plain.replace("user: u}", "user: u, namespace: n}"),
        format!("preferences: {{colors: true}}\n{plain}"),
        plain.replace("https://10.0.0.1:6443", "HTTPS://10.0.0.1:6443/"),
        mk_kubeconfig(&cluster, &noted_user),
    ];
    for other in others {
        assert_eq!(digest(&other), digest(&plain), "{other}");
    }
}

#[test]
fn every_part_of_a_credential_changes_its_digest() {
    let (cluster, pair, other) = (mk_cluster(), mk_pair(), mk_pair());
    let certificate =
        |chain: &str, key: &str| format!("client-certificate-data: {chain}\nclient-key-data: {key}\n");
    let moved = cluster.replace("10.0.0.1", "10.0.0.2");
    let kubeconfigs = [
        (cluster.as_str(), "token: t".to_owned()),
        (&mk_cluster(), "token: t".to_owned()),
        (&moved, "token: t".to_owned()),
        (&format!("{cluster}tls-server-name: a.test\n"), "token: t".to_owned()),
        (&format!("{cluster}proxy-url: http://a.test:1\n"), "token: t".to_owned()),
        (&cluster, "token: u".to_owned()),
        (&cluster, certificate(&pair.certificate, &pair.key)),
        (&cluster, certificate(&other.certificate, &pair.key)),
        (&cluster, certificate(&pair.certificate, &other.key)),
        (&cluster, format!("token: t\n{}", certificate(&pair.certificate, &pair.key))),
        (&cluster, "username: a\npassword: bc\n".to_owned()),
        (&cluster, "username: ab\npassword: c\n".to_owned()),
        (&cluster, "token: t\nas: a\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-uid: b\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-groups: [b, c]\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-groups: [bc]\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-groups: [bas-groupc]\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-user-extra: {b: [c]}\n".to_owned()),
        (&cluster, "token: t\nas: a\nas-user-extra: {c: [b]}\n".to_owned()),
    ];
    let digests: std::collections::BTreeSet<Digest> =
        kubeconfigs.iter().map(|(cluster, user)| digest(&mk_kubeconfig(cluster, user))).collect();
    assert_eq!(digests.len(), kubeconfigs.len());
}

#[test]
fn digests_depend_on_the_key_and_show_neither_it_nor_the_credential() {
    let text = mk_kubeconfig(&mk_cluster(), &format!("token: {PLANTED}"));
    let vetted = VettedKubeconfig::parse(text.as_bytes(), &Allowed::default());
    let other = DigestKey::new(&[8; 32]);
    assert_ne!(key().of(vetted.as_ref().unwrap()), other.of(vetted.as_ref().unwrap()));
    assert_ne!(key().of_bytes(b"a"), key().of_bytes(b"b"));
    let shown = format!("{:?} {:?}", key(), Verdict::of(&vetted, &key()));
    assert_clean(&shown);
    assert!(shown.starts_with("DigestKey(not shown) Vetted(Digest("), "{shown}");
}

#[test]
fn refused_kubeconfig_is_a_verdict_with_codes_and_no_value() {
    let text = mk_kubeconfig(&mk_cluster(), &format!("exec: {{command: {PLANTED}}}"));
    let verdict = Verdict::of(&VettedKubeconfig::parse(text.as_bytes(), &Allowed::default()), &key());
    assert_clean(&format!("{verdict:?}"));
    assert!(matches!(verdict, Verdict::Refused(faults) if faults.iter().all(|one| one.code.is_some())));
}
