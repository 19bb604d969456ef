//! `tributary migrate check` on files: exit codes, the sample of the guide, and formats.

use std::path::Path;

use serde_json::Value;
use tributary_app::args::{Cli, Command};
use tributary_app::cli::{self, Console};
use tributary_app::environment::Environment;
use tributary_app::exit::Exit;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/migrate/istiod.yaml");

/// Runs the command. Returns exit code, data and messages.
async fn check(args: &[&str]) -> (Exit, String, String) {
    let all = [&["tributary", "migrate", "check"], args].concat();
    let command: Command = <Cli as clap::Parser>::try_parse_from(all).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let exit = match cli::run(command, &Environment::default(), &mut console).await {
        Ok(exit) => exit,
        Err(error) => {
            talk.extend(format!("{error} {}", error.next).bytes());
            error.exit
        }
    };
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(talk).unwrap())
}

#[tokio::test]
async fn migrate_check_ends_by_what_would_be_lost() {
    let (exit, out, talk) = check(&["-f", SAMPLE, "-o", "json"]).await;
    assert_eq!(exit, Exit::No, "{talk}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let items = report["items"].as_array().unwrap();
    let lost: Vec<&str> =
        items.iter().filter(|item| item["lost"] == true).filter_map(|item| item["name"].as_str()).collect();
    let want = ["PILOT_HTTP10", "defaultProviders", "injection", "validation", "ca", "gateways", "telemetry"];
    assert_eq!((lost.as_slice(), report["lost"].as_u64()), (&want[..], Some(7)));
    assert_eq!(report["deployment"], "istio-system/istiod");

    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("alone.yaml");
    let text = "apiVersion: v1\nkind: List\nitems:\n- kind: Service\n- kind: Deployment\n  metadata: {name: istiod, namespace: a}\n  \
                spec: {template: {spec: {containers: [{args: [discovery], env: [\
                {name: INJECT_ENABLED, value: 'false'}, {name: ENABLE_CA_SERVER, value: 'false'}, \
                {name: VALIDATION_WEBHOOK_CONFIG_NAME, value: ''}, {name: PILOT_ENABLE_GATEWAY_API, value: 'false'}]}]}}}\n";
    std::fs::write(&alone, text).unwrap();
    let mesh = folder.path().join("mesh.yaml");
    std::fs::write(&mesh, "ingressControllerMode: OFF\n").unwrap();
    let args = ["-f", alone.to_str().unwrap(), "--mesh-config", mesh.to_str().unwrap()];
    let (exit, out, talk) = check(&args).await;
    assert_eq!(exit, Exit::Ok, "{out}{talk}");
    assert!(talk.contains("a/istiod: nothing would be lost"), "{talk}");
    assert!(out.starts_with("WHAT ") && out.contains("ENABLE_CA_SERVER"), "{out}");
    let (_, out, _) = check(&[&args[..], &["--lost", "-o", "name"]].concat()).await;
    assert_eq!(out, "");

    std::fs::write(
        &alone,
        text.replace("INJECT_ENABLED", "INJECT_ENABLED, value: 'false'}, {name: NEW_PASSWORD"),
    )
    .unwrap();
    let (exit, out, talk) = check(&[&args[..], &["--lost"]].concat()).await;
    assert_eq!(exit, Exit::No, "an unknown name needs a look: {talk}");
    assert!(
        talk.contains("0 lines are in use and would be lost without an istiod, and 1 are unknown"),
        "{talk}"
    );
    assert!(out.contains("NEW_PASSWORD") && !out.contains("false"), "{out}");
}

#[tokio::test]
async fn revision_chooses_an_istiod_and_its_mesh_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let one = |name: &str, revision: &str| {
        format!(
            "kind: Deployment\nmetadata: {{name: {name}, namespace: a, labels: {{istio.io/rev: {revision}}}}}\n\
             spec: {{template: {{spec: {{containers: [{{args: [discovery], env: [{{name: REVISION, value: {revision}}}]}}]}}}}}}\n---\n\
             kind: ConfigMap\nmetadata: {{name: istio-{revision}}}\ndata: {{mesh: 'trustDomain: {revision}.test'}}\n---\n"
        )
    };
    let both = folder.path().join("both.yaml");
    std::fs::write(&both, one("istiod-a", "blue") + &one("istiod-b", "green")).unwrap();
    let file = both.to_str().unwrap();
    let (_, out, talk) = check(&["-f", file, "--revision", "green", "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {talk}"));
    assert_eq!(report["deployment"], "a/istiod-b");
    assert!(out.contains("green.test") && !out.contains("blue.test"), "{out}");
    let (exit, _, talk) = check(&["-f", file]).await;
    assert_eq!(exit, Exit::Usage);
    assert!(talk.contains("their revisions are blue, green") && talk.contains("--revision"), "{talk}");
    let (exit, _, talk) = check(&["-f", file, "--revision", "red"]).await;
    assert_eq!(exit, Exit::NotFound);
    assert!(
        talk.contains("no Deployment of an istiod with revision red; its revisions are blue, green"),
        "{talk}"
    );
    let unnamed =
        one("istiod-c", "x").replace(", labels: {istio.io/rev: x}", "").replace("value: x", "value: ''");
    std::fs::write(&both, one("istiod-a", "blue") + &unnamed).unwrap();
    let (_, out, talk) = check(&["-f", file, "--revision", "default", "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {talk}"));
    assert_eq!(report["deployment"], "a/istiod-c");
}

#[tokio::test]
async fn migrate_check_refuses_files_without_one_istiod() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let sample = std::fs::read_to_string(Path::new(SAMPLE)).unwrap();
    let twice = file("twice.yaml", &format!("{sample}\n---\n{sample}"));
    for (path, exit, text) in [
        (file("none.yaml", "kind: Deployment\n"), Exit::NotFound, "has no Deployment of an istiod"),
        (twice, Exit::Usage, "has more than one Deployment of an istiod"),
        (file("bad.yaml", "a: [\n"), Exit::Failed, "bad.yaml: "),
        (folder.path().join("absent.yaml").display().to_string(), Exit::Failed, "absent.yaml: "),
    ] {
        let (ended, out, talk) = check(&["-f", &path]).await;
        assert_eq!((ended, out.as_str()), (exit, ""), "{talk}");
        assert!(talk.contains(text), "{talk}");
    }
}
