//! Kubeconfigs and Secrets that are accepted, and what is read from them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use support::{PLANTED, assert_clean, mk_cluster, mk_jwt, mk_kubeconfig, mk_pair};
use tributary_model::Code;
use tributary_remote::{Allowed, Declared, VettedKubeconfig, read_file};

#[path = "support/kubeconfigs.rs"]
mod support;

/// What `istioctl create-remote-secret --name=east` prints.
const ISTIO: &str = include_str!("../../../docs/examples/clusters/east.yaml");

fn vet(text: &str) -> VettedKubeconfig {
    VettedKubeconfig::parse(text.as_bytes(), &Allowed::default()).unwrap()
}

fn read(text: &str) -> Vec<Declared> {
    read_file(text.as_bytes(), "file", &Allowed::default())
}

#[test]
fn secret_of_istioctl_is_accepted_as_printed() {
    let all = read(ISTIO);
    let [east] = all.as_slice() else { panic!("not one cluster: {all:?}") };
    assert_eq!(
        (east.cluster.as_str(), east.secret.as_str()),
        ("east", "istio-system/istio-remote-secret-east")
    );
    let vetted = east.verdict.as_ref().unwrap();
    assert_eq!((vetted.server(), vetted.authentication()), ("https://10.4.0.1:6443", vec!["token"]));
    assert!(vetted.token().unwrap().expose().starts_with(b"eyJ") && vetted.expires().is_none());
    assert!(vetted.authorities().unwrap().starts_with(b"-----BEGIN CERTIFICATE-----"));
}

#[test]
fn secret_of_the_api_server_is_read_from_its_data() {
    let start = ISTIO.find("stringData:").unwrap();
    let value: String = ISTIO[start..]
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("    "))
        .map(|line| format!("{line}\n"))
        .collect();
    let data = format!(
        "{}data:\n  east: {}\n  west: {}\n",
        &ISTIO[..start],
        STANDARD.encode(&value),
        STANDARD.encode(PLANTED)
    );
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}",
        data.lines()
            .filter(|line| !line.starts_with('#'))
            .enumerate()
            .map(|(at, line)| format!("{}{line}\n", if at == 0 { "- " } else { "  " }))
            .collect::<String>()
    );
    for text in [data, list] {
        let all = read(&text);
        assert_clean(&format!("{all:?}"));
        let accepted: Vec<(&str, bool)> =
            all.iter().map(|one| (one.cluster.as_str(), one.verdict.is_ok())).collect();
        assert_eq!(accepted, [("east", true), ("west", false)], "each key is vetted by itself");
    }
}

#[test]
fn secret_needs_a_label_and_keys() {
    let own = ISTIO.replace("istio/multiCluster: \"true\"", "tributary.dev/cluster: \"true\"");
    assert!(read(&own)[0].verdict.is_ok());
    let start = ISTIO.find("stringData:").unwrap();
    let cases = [
        (ISTIO.replace("istio/multiCluster: \"true\"", "istio/multiCluster: \"false\""), "metadata.labels"),
        (ISTIO.replace("istio/multiCluster: \"true\"", "app: x"), "metadata.labels"),
        (ISTIO[..start].to_owned(), "data"),
        (format!("{ISTIO}kind: ConfigMap\nmetadata: {{name: x}}\n"), "kind"),
        (ISTIO.replace("  east: |", "  'east/x': |"), "stringData.(name not valid)"),
        (format!("{}data: {{east: '{PLANTED}'}}\n", &ISTIO[..start]), "data.east"),
        (format!("{}stringData: {{east: 7}}\n", &ISTIO[..start]), "stringData.east"),
    ];
    for (text, field) in cases {
        let all = read(&text);
        let refused = all.into_iter().find_map(|one| one.verdict.err()).unwrap();
        assert_clean(&refused.to_string());
        assert_eq!((refused.0[0].code, refused.0[0].field.as_str()), (Code::SECRET_REFUSED, field));
    }
}

#[test]
fn key_in_both_parts_of_a_secret_is_that_of_string_data() {
    let all = read(&ISTIO.replace("---", &format!("data: {{east: {}}}", STANDARD.encode(PLANTED))));
    assert!(all.len() == 1 && all[0].verdict.is_ok(), "{all:?}");
}

#[test]
fn secret_with_many_keys_is_read_whole() {
    let data: String = (0..40_000).map(|at| format!(" c{at}: x\n")).collect();
    let all = read(&format!("{}data:\n{data}", &ISTIO[..ISTIO.find("stringData:").unwrap()]));
    assert_eq!(all.len(), 40_000);
}

#[test]
fn kubeconfig_file_takes_the_given_name() {
    let all = read(&mk_kubeconfig(&mk_cluster(), "token: t"));
    assert!(all.len() == 1 && all[0].cluster == "file" && all[0].secret.is_empty() && all[0].verdict.is_ok());
    for text in ["", "a: [", "just text"] {
        assert!(read(text)[0].verdict.is_err(), "{text:?}");
    }
    let large = "#".repeat(tributary_remote::MAX_FILE_BYTES + 1);
    assert!(read(&large)[0].verdict.is_err());
}

#[test]
fn client_certificate_and_its_expiry_are_read() {
    let pair = mk_pair();
    let user = format!("client-certificate-data: {}\nclient-key-data: {}\n", pair.certificate, pair.key);
    let vetted = vet(&mk_kubeconfig(&mk_cluster(), &user));
    assert_eq!(vetted.authentication(), ["client certificate"]);
    assert_eq!(
        vetted.expires().unwrap().to_string(),
        "4096-01-01T00:00:00Z",
        "the notAfter of rcgen's certificates"
    );
    let both =
        vet(&mk_kubeconfig(&mk_cluster(), &format!("{user}token: {}\n", mk_jwt("{\"exp\":1800000000}"))));
    assert_eq!(both.authentication(), ["token", "client certificate"]);
    assert_eq!(both.expires().unwrap().as_second(), 1_800_000_000, "the first that expires");
    let key = STANDARD.decode(&pair.key).unwrap();
    assert_eq!(both.certificate().unwrap().key.expose(), key);
    let shown = format!("{both:?} {:?} {:?}", both.certificate(), both.token());
    assert!(
        !shown.contains("PRIVATE") && shown.contains("https://10.0.0.1:6443 by token and client certificate"),
        "{shown}"
    );
    assert_clean(&shown);
}

#[test]
fn expiry_of_a_token_is_that_of_its_claims() {
    let expires = |token: &str| {
        vet(&mk_kubeconfig(&mk_cluster(), &format!("token: {token}"))).expires().map(|at| at.as_second())
    };
    let cases = [
        (mk_jwt("{\"exp\":1800000000}"), Some(1_800_000_000)),
        (mk_jwt("{\"exp\":1800000000.9}"), Some(1_800_000_000)),
        (mk_jwt("{\"exp\":\"soon\"}"), None),
        (mk_jwt("{\"exp\":1e300}"), None),
        (mk_jwt("{}"), None),
        (mk_jwt("not json"), None),
        ("opaque".to_owned(), None),
        ("a.b.c".to_owned(), None),
        ("a.b.c.d".to_owned(), None),
    ];
    for (token, want) in cases {
        assert_eq!(expires(&token), want, "{token}");
    }
}

#[test]
fn fields_without_effect_are_ignored() {
    let good = mk_kubeconfig(
        &format!(
            "{}tls-server-name: api.test\ndisable-compression: true\nextensions: [{{name: x, extension: {{a: 1}}}}]\ninsecure-skip-tls-verify: false\n",
            mk_cluster()
        ),
        "token: t\nexec: null\nas: ''\nextensions: []\n",
    );
    let text = format!(
        "preferences: {{colors: true}}\nextensions: []\n{}",
        good.replace("user: u}", "user: u, namespace: n}")
    );
    assert_eq!(vet(&text).tls_server_name(), Some("api.test"));
}

#[test]
fn clusters_and_users_of_other_contexts_are_not_used() {
    let good = mk_kubeconfig(&mk_cluster(), "token: t");
    let other = good
        .replace("users:\n", &format!("users:\n- name: admin\n  user: {{exec: {{command: {PLANTED}}}}}\n"));
    assert_eq!(vet(&other), vet(&good));
}
