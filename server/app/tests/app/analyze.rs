//! `tributary analyze` over files as a user writes them.

use std::path::Path;

use clap::Parser as _;
use tributary_app::args::Cli;
use tributary_app::cli::{Console, run};
use tributary_app::environment::Environment;
use tributary_app::exit::{CommandError, Exit};

const RULES: &str = "\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pay, namespace: shop}
spec:
  hosts: [pay.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.0.0.1, labels: {version: v1}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: pay, namespace: shop}
spec:
  host: pay.test
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: pay, namespace: shop}
spec:
  hosts: [pay.test]
  http:
  - match: [{uri: {prefix: /}}]
    route: [{destination: {host: pay.test, subset: v1}}]
  - route: [{destination: {host: pay.test, subset: v3}}]
";

struct Ran {
    exit: Result<Exit, CommandError>,
    out: String,
    notes: String,
}

async fn analyze(root: &Path, flags: &[&str]) -> Ran {
    let root = root.to_string_lossy();
    let prefix = format!("{root}/");
    let args = ["tributary", "analyze", "-f", &root].into_iter().chain(flags.iter().copied());
    let command = Cli::try_parse_from(args).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let exit = run(command, &Environment::default(), &mut console).await;
    let out = String::from_utf8(out).unwrap().replace(&prefix, "");
    Ran { exit, out, notes: String::from_utf8(talk).unwrap() }
}

fn mk_directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

#[tokio::test]
async fn findings_have_position_severity_code_and_next_step() {
    let directory = mk_directory(&[("rules.yaml", RULES)]);
    let ran = analyze(directory.path(), &["-o", "wide"]).await;
    assert_eq!(ran.exit, Ok(Exit::No), "{}", ran.out);
    let lines: Vec<&str> = ran.out.lines().filter(|line| !line.starts_with("    next: ")).collect();
    let want = [
        "rules.yaml:10:1: error [DestinationRule shop/pay] no endpoint has the labels of these subsets: v2 of pay.test:80 (TRB0447)",
        "rules.yaml:19:1: error [VirtualService shop/pay] no DestinationRule declares these subsets, or no version of it is valid: http[1] (v3 of pay.test) (TRB0451)",
        "rules.yaml:19:1: warning [VirtualService shop/pay] routes before them take every request of: http[1] (by http[0]) (TRB0452)",
    ];
    assert_eq!(lines, want);
    assert_eq!(ran.out.lines().count(), 6, "each with its next step: {}", ran.out);
    assert_eq!(ran.notes, "errors: 2, warnings: 1, infos: 0\n");
}

#[tokio::test]
async fn threshold_and_suppression_decide_the_exit_code() {
    let directory = mk_directory(&[("rules.yaml", RULES)]);
    let errors = ["--suppress", "TRB0447", "--suppress", "TRB0451=shop/*"];
    assert_eq!(analyze(directory.path(), &errors).await.exit, Ok(Exit::Ok));
    let strict = [&errors[..], &["--failure-threshold", "warning"]].concat();
    assert_eq!(analyze(directory.path(), &strict).await.exit, Ok(Exit::No));
    let json = analyze(directory.path(), &["-o", "json"]).await.out;
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(all[0]["severity"], "error");
    assert_eq!(all[0]["position"], "rules.yaml:10:1");
}

#[tokio::test]
async fn directory_without_objects_is_noted() {
    let ran = analyze(mk_directory(&[("README.md", "no object")]).path(), &[]).await;
    assert_eq!(ran.exit, Ok(Exit::Ok));
    assert!(ran.notes.contains("has no file with an object that Tributary reads"), "{}", ran.notes);
    let some = analyze(mk_directory(&[("rules.yaml", RULES)]).path(), &[]).await.notes;
    assert!(!some.contains("has no file"), "{some}");
}

#[tokio::test]
async fn document_that_is_not_served_is_an_error_at_its_line() {
    let broken = RULES.replace("resolution: STATIC", "resolution: SOMEHOW");
    let directory = mk_directory(&[("rules.yaml", &broken)]);
    let out = analyze(directory.path(), &[]).await.out;
    let first = out.lines().find(|line| line.contains("[ServiceEntry shop/pay]")).unwrap();
    assert!(first.starts_with("rules.yaml:7:15: error "), "{first}");
}

#[tokio::test]
async fn services_of_kubernetes_are_not_missing_from_files() {
    let route = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a, namespace: shop}\n\
                 spec: {hosts: [pay], http: [{route: [{destination: {host: pay}}]}]}\n";
    let directory = mk_directory(&[("a.yaml", route)]);
    let ran = analyze(directory.path(), &["--failure-threshold", "info"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Ok(Exit::Ok), ""));
}

#[tokio::test]
async fn hosts_that_are_declared_elsewhere_are_not_missing_from_files() {
    let to = |host: &str| format!("  - route: [{{destination: {{host: {host}}}}}]\n");
    let service = RULES.split("---\n").next().unwrap();
    let head = "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: pay, namespace: shop}\nspec:\n";
    let rules = |host: &str| format!("{service}{head}  hosts: [pay.test]\n  http:\n{}", to(host));
    let config = "apiVersion: tributary.dev/v1alpha1\nkind: Config\nsettings: {domain: corp.local}\n\
                  registries: [{kind: file, path: .}]\n\
                  federatedServices: [{host: pay.shop.global, members: [{host: pay.test}]}]\n";
    let beside = mk_directory(&[("tributary.yaml", config)]);
    let file = beside.path().join("tributary.yaml").to_string_lossy().into_owned();
    let elsewhere = ["--declared-elsewhere", "*.partner.example", "--declared-elsewhere", "one.test"];
    let cases: [(&str, &[&str], Exit); 8] = [
        ("pay.service.consul", &[], Exit::Ok),
        ("pay.service.dc2.dc.consul", &[], Exit::Ok),
        ("pay.shop.global", &[], Exit::No),
        ("pay.shop.global", &["--config", &file], Exit::Ok),
        ("pay.shop.svc.corp.local", &["--config", &file], Exit::Ok),
        ("pya.shop.global", &["--config", &file], Exit::No),
        ("api.partner.example", &elsewhere, Exit::Ok),
        ("two.test", &elsewhere, Exit::No),
    ];
    for (host, flags, want) in cases {
        let directory = mk_directory(&[("rules.yaml", &rules(host))]);
        let ran = analyze(directory.path(), flags).await;
        assert_eq!(
            (ran.exit, ran.out.contains("TRB0450")),
            (Ok(want), want == Exit::No),
            "{host}: {}",
            ran.out
        );
    }
}

#[tokio::test]
async fn service_for_clients_of_named_namespaces_is_not_hidden() {
    let rules = RULES.split("  - route:").next().unwrap().replace("namespace: shop", "namespace: platform");
    let rules = rules.replace("  - {name: v2, labels: {version: v2}}\n", "");
    let exported = |to: &str| rules.replacen("spec:\n", &format!("spec:\n  exportTo: {to}\n"), 1);
    for (to, want) in [("[shop]", Exit::Ok), ("[.]", Exit::Ok), ("[\"~\"]", Exit::No)] {
        let directory = mk_directory(&[("rules.yaml", &exported(to))]);
        let ran = analyze(directory.path(), &["--failure-threshold", "info"]).await;
        assert_eq!(
            (ran.exit, ran.out.contains("TRB0465")),
            (Ok(want), want == Exit::No),
            "{to}: {}",
            ran.out
        );
    }
}

#[tokio::test]
async fn clients_without_the_subset_of_a_route_are_a_warning() {
    let rules =
        RULES.rsplit_once("  - route:").unwrap().0.replace("  - {name: v2, labels: {version: v2}}\n", "");
    let own = "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: pay-limits, namespace: other}\n\
               spec: {host: pay.test, trafficPolicy: {connectionPool: {tcp: {maxConnections: 5}}}}\n";
    let private = rules.replace("  host: pay.test\n", "  host: pay.test\n  exportTo: [.]\n");
    let lacks = |clients: &str, rule: &str| {
        format!(
            "rules.yaml:18:1: warning [VirtualService shop/pay] some clients lack these destinations: http[0] (clients of {clients} \
             have no subset v1 of pay.test: {rule} applies to them) (TRB0474)\n"
        )
    };
    let of_other = lacks("namespace other", "DestinationRule other/pay-limits");
    let of_most = lacks("most namespaces", "no DestinationRule").replace(":18:", ":19:");
    for (text, want) in [(rules.clone(), String::new()), (rules + own, of_other), (private, of_most)] {
        let directory = mk_directory(&[("rules.yaml", &text)]);
        let ran = analyze(directory.path(), &["--failure-threshold", "error"]).await;
        assert_eq!((ran.exit, ran.out), (Ok(Exit::Ok), want));
    }
}

#[tokio::test]
async fn directory_that_does_not_exist_is_a_usage_error() {
    let directory = mk_directory(&[]);
    let ran = analyze(&directory.path().join("missing"), &[]).await;
    assert_eq!(ran.exit.unwrap_err().exit, Exit::Usage);
    assert_eq!(analyze(directory.path(), &[]).await.exit, Ok(Exit::Ok));
}

#[tokio::test]
async fn settings_that_lead_nowhere_are_found() {
    let rule = |fields: &str| {
        let head = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: pay, namespace: shop}\n";
        let service = RULES.split("---\n").next().unwrap().replace("labels: {version: v1}", "locality: eu/a");
        format!("{service}---\n{head}spec: {{host: pay.test, trafficPolicy: {{{fields}}}}}\n")
    };
    let locality = |fields: &str| format!("loadBalancer: {{localityLbSetting: {{{fields}}}}}");
    let cases = [
        (
            locality("distribute: [{from: eu/*, to: {uk/*: 100}}, {from: us/*, to: {uk/*: 50, eu/*: 50}}]"),
            "error [DestinationRule shop/pay] no endpoint is in the localities to which the rule distributes \
             the requests of clients in eu/* to pay.test:80 (TRB0458)\n\
             warning [DestinationRule shop/pay] the other localities receive these shares of clients, because no endpoint \
             is there: in us/* for uk/* of pay.test:80 (TRB0470)",
        ),
        (
            "connectionPool: {http: {maxConcurrentStreams: 5}}".to_owned(),
            "warning [DestinationRule shop/pay] connectionPool.http.maxConcurrentStreams has no effect: trafficPolicy (no service \
             of the host has HTTP/2 on 80, and h2UpgradePolicy is not UPGRADE) (TRB0471)",
        ),
        (
            "portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}}, {port: {number: 81}, \
             loadBalancer: {simple: RANDOM}}]"
                .to_owned(),
            "warning [DestinationRule shop/pay] no service of the host has these ports: 81; they have 80 (TRB0459)",
        ),
        (
            locality("failover: [{from: eu, to: us}]"),
            "info [DestinationRule shop/pay] these fields have no effect: \
             spec.trafficPolicy.loadBalancer.localityLbSetting.failover (TRB0442)",
        ),
        (locality("distribute: [{from: us/*, to: {eu/*: 100}}]"), ""),
        (format!("{}, outlierDetection: {{}}", locality("failover: [{from: eu, to: us}]")), ""),
    ];
    for (fields, want) in cases {
        let directory = mk_directory(&[("rules.yaml", &rule(&fields))]);
        let ran = analyze(directory.path(), &["--failure-threshold", "info"]).await;
        let found = ran.out.replace("rules.yaml:10:1: ", "");
        assert_eq!(found.trim_end(), want, "{fields}");
    }
}

#[tokio::test]
async fn link_to_nothing_is_an_error() {
    let directory = mk_directory(&[]);
    for name in ["az.yaml", "team"] {
        std::os::unix::fs::symlink("/nonexistent", directory.path().join(name)).unwrap();
    }
    let ran = analyze(directory.path(), &[]).await;
    assert_eq!(ran.exit, Ok(Exit::No), "{}", ran.out);
    let found: Vec<&str> = ran.out.lines().filter(|line| line.contains("is a link to nothing")).collect();
    assert!(found.len() == 2 && found.iter().all(|line| line.ends_with("(TRB0317)")), "{}", ran.out);
}

#[test]
fn namespace_is_for_a_running_server() {
    let refused = Cli::try_parse_from(["tributary", "analyze", "-f", ".", "-n", "shop"]).unwrap_err();
    assert_eq!(refused.kind(), clap::error::ErrorKind::ArgumentConflict);
    assert!(Cli::try_parse_from(["tributary", "analyze", "--live", "-n", "shop"]).is_ok());
}
