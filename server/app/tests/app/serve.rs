//! Wired server in this process, on free ports, used through the command line.

use std::time::Duration;

use crate::world::{LONG, World, file_registry, mk_bound, mk_entry, mk_folder, put};
use clap::Parser as _;
use tempfile::TempDir;
use tributary_app::args::Cli;
use tributary_app::cli::{self, Console};
use tributary_app::environment::Environment;
use tributary_app::exit::Exit;
use tributary_model::Code;

#[tokio::test]
async fn edited_file_changes_the_listed_endpoints() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let table = world.until("get endpoints", "10.0.0.1:80").await;
    assert!(table.starts_with("ENDPOINT"), "{table}");
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.2"));
    let table = world.until("get endpoints", "10.0.0.2:80").await;
    assert!(!table.contains("10.0.0.1"), "{table}");
    let json = world.run("get endpoints -o json").await.out;
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let item = &list["items"][0];
    assert_eq!((&item["source"]["name"], &item["registry"]), (&"pay".into(), &"file".into()), "{json}");
    assert!(item["source"]["position"].as_str().unwrap().ends_with("pay.yaml:1:1"), "{json}");
    world.server.stop().await;
}

#[tokio::test]
async fn invalid_document_is_shown_and_its_last_version_stays() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    put(
        dir.path(),
        "pay.yaml",
        &mk_entry("pay", "pay.shop", "10.0.0.2").replace("number: 80", "number: 800000"),
    );
    let wide = world.until("get registries -o wide", "TRB03").await;
    assert!(wide.contains("pay.yaml"), "{wide}");
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1:80"));
    world.server.stop().await;
}

#[tokio::test]
async fn answers_end_in_the_documented_exit_codes() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    for (command, exit) in [
        ("get services", Exit::Ok),
        ("get services PAY.shop.", Exit::Ok),
        ("get endpoints 10.0.0.1", Exit::Ok),
        ("explain 10.0.0.1", Exit::Ok),
        ("explain 10.0.0.1:80 --host pay.shop", Exit::Ok),
        ("get services pay", Exit::Ok),
        ("get services shop/pay", Exit::Ok),
        ("get services ServiceEntry/shop/pay", Exit::NotFound),
        ("get services pay -n shop", Exit::Ok),
        ("get services pay -n web", Exit::NotFound),
        ("get services web/pay", Exit::NotFound),
        ("get services --host nope.shop", Exit::Ok),
        ("why-not  --for-client absent", Exit::Usage),
        ("get services nope.shop", Exit::NotFound),
        ("explain 10.0.0.9", Exit::NotFound),
        ("explain 10.0.0.1 --host other.shop", Exit::NotFound),
        ("explain 10.0.0.1 --for-client absent", Exit::NotFound),
        ("why-not pay.shop --for-client absent", Exit::NotFound),
    ] {
        let result = world.run(command).await;
        let got = result.exit.as_ref().map_or_else(|failure| failure.exit, |exit| *exit);
        assert_eq!(got, exit, "{command}: {:?} {} {}", result.exit, result.out, result.talk);
        if let (Err(failure), true) = (&result.exit, command.ends_with(" absent") && exit == Exit::NotFound) {
            assert!(failure.next.contains("`tributary get clients`"), "{command}: {failure}");
        }
    }
    let result = world.run("explain 10.0.0.1").await.out;
    for stage in ["source", "merge", "health", "weight"] {
        assert!(result.contains(&format!("  {stage}")), "{stage} is missing:\n{result}");
    }
    assert!(
        result.contains(", confirmed ") && result.contains(" ago") && !result.contains("confirmed at"),
        "{result}"
    );
    let result = world.run("explain 10.0.0.1 -o json").await.out;
    let list: serde_json::Value = serde_json::from_str(&result).unwrap();
    let confirmed = list["items"][0]["steps"][0]["confirmedAt"].as_str().unwrap_or_default();
    assert!(confirmed.ends_with('Z') && confirmed <= list["metadata"]["asOf"].as_str().unwrap(), "{result}");
    world.server.stop().await;
}

#[tokio::test]
async fn unreachable_source_is_retried_and_reported() {
    let dir = mk_folder(&[]);
    let missing = format!("file={}/missing", dir.path().display());
    let args = ["--registry", &missing, "--first-sync-timeout", "0"];
    let world = World { server: mk_bound(&args).await.unwrap().start().await.unwrap() };
    let result = world.until("get registries", "Unreachable").await;
    assert!(result.contains("missing"), "{result}");
    let result = world.run("get services").await;
    assert_eq!(result.exit, Ok(Exit::Partial), "{}", result.talk);
    let folder = dir.path().join("missing");
    std::fs::create_dir(&folder).unwrap();
    put(&folder, "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.1"));
    world.until("get registries", "Live").await;
    let result = world.run("get services").await;
    assert_eq!((result.exit, result.out.contains("pay.shop")), (Ok(Exit::Ok), true), "{}", result.out);
    world.server.stop().await;
}

#[tokio::test]
async fn valid_configuration_applies_and_invalid_one_does_not() {
    let east = mk_folder(&[("a.yaml", mk_entry("a", "a.shop", "10.0.0.1"))]);
    let west = mk_folder(&[("b.yaml", mk_entry("b", "b.shop", "10.0.0.2"))]);
    let config = mk_folder(&[]);
    let text = |registries: &str| {
        format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n{registries}")
    };
    let registry = |name: &str, dir: &TempDir| {
        format!("- {{kind: file, name: {name}, path: {}}}\n", dir.path().display())
    };
    put(config.path(), "c.yaml", &text(&registry("east", &east)));
    let path = config.path().join("c.yaml");
    let world = World::start(&["--config", path.to_str().unwrap()]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    put(config.path(), "c.yaml", &text(&(registry("east", &east) + &registry("west", &west))));
    world.until("get endpoints", "10.0.0.2:80").await;
    put(config.path(), "c.yaml", &text("- {kind: fiel}\n"));
    until_reload(&world, "rejected").await;
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1:80"));
    put(config.path(), "c.yaml", &text(&registry("west", &west)));
    let asked = async {
        while world.run("get endpoints").await.out.contains("10.0.0.1:80") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, asked).await.expect("east never left");
    assert!(!world.run("get registries").await.out.contains("east"));
    world.server.stop().await;
}

async fn until_reload(world: &World, result: &str) {
    use tributary_app::admin::AdminBackend as _;
    let waiting = async {
        while world.server.live().config()["lastReload"]["result"] != result {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("the change was not seen");
    let result = world.server.live().config().to_string();
    assert!(result.contains("TRB0106") && result.contains("c.yaml:4:"), "{result}");
}

#[tokio::test]
async fn signal_drains_and_exits_successfully() {
    let dir = mk_folder(&[]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let admin = world.server.addresses().admin;
    assert_eq!(tokio::time::timeout(LONG, world.server.run(async {})).await.unwrap(), Ok(Exit::Ok));
    assert!(tokio::net::TcpStream::connect(admin).await.is_err(), "the port is still open");
}

#[tokio::test]
async fn mistakes_end_the_start_before_serving() {
    let dir = mk_folder(&[]);
    let files = file_registry(&dir);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let listener = std::net::TcpListener::bind(&taken);
    let cases: [(&[&str], Exit, Code); 5] = [
        (&[], Exit::Usage, Code::NO_REGISTRY),
        (&["--registry", &files, "--xds-listen", "0.0.0.0:0"], Exit::Usage, Code::PLAINTEXT_NOT_LOOPBACK),
        (&["--registry", &files, "--xds-cert", "/nope", "--xds-key", "/nope"], Exit::Usage, Code::TLS_FILES),
        (&["--registry", &files, "--xds-listen", &taken], Exit::Failed, Code::ADDRESS_IN_USE),
        (&["--registry", &files, "--health-listen", &taken], Exit::Failed, Code::ADDRESS_IN_USE),
    ];
    for (args, exit, code) in cases {
        let failure = mk_bound(args).await.err().unwrap_or_else(|| panic!("{args:?} was taken"));
        assert_eq!((failure.exit, failure.code), (exit, Some(code)), "{args:?}: {failure}");
    }
    drop(listener);
}

#[tokio::test]
async fn validate_refuses_what_serve_refuses() {
    let (dir, config) = (mk_folder(&[]), mk_folder(&[("bad.pem", "no certificate".into())]));
    let file = format!("{{kind: file, path: {}}}", dir.path().display());
    let bad = config.path().join("bad.pem").display().to_string();
    for (body, code) in [
        ("registries: []".to_owned(), Code::NO_REGISTRY),
        (format!("registries: [{file}]\nxds: {{tls: {{certFile: /nope, keyFile: /nope}}}}"), Code::TLS_FILES),
        (format!("registries: [{file}]\nxds: {{tls: {{certFile: {bad}, keyFile: {bad}}}}}"), Code::TLS_FILES),
        (format!("registries: [{file}]\nclusterId: a b"), Code::CONFIG_INVALID),
    ] {
        let head = "apiVersion: tributary.dev/v1alpha1\nkind: Config\n";
        put(config.path(), "c.yaml", &format!("{head}{body}\n"));
        let path = config.path().join("c.yaml").display().to_string();
        let command = Cli::try_parse_from(["tributary", "config", "validate", &path]).unwrap().command;
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
        let validated = cli::run(command, &Environment::default(), &mut console).await.unwrap_err();
        let served = mk_bound(&["--config", &path]).await.err().unwrap();
        assert_eq!((validated.code, &validated), (Some(code), &served), "{body}");
    }
}

#[tokio::test]
async fn files_of_another_machine_do_not_stop_a_validation_without_them() {
    let config = mk_folder(&[]);
    let of_pod = "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n- kind: kubernetes\n- kind: consul\n  \
        addresses: [https://consul.example:8501]\n  tokenFile: /nope/token\n  tls: {caFile: /nope/ca.crt, certFile: /nope/tls.crt, keyFile: /nope/tls.key}\n\
        xds: {listen: '0.0.0.0:15012', tls: {certFile: /nope/tls.crt, keyFile: /nope/tls.key, clientCaFile: /nope/ca.crt}}\n";
    put(config.path(), "good.yaml", of_pod);
    put(config.path(), "bad.yaml", &of_pod.replace("0.0.0.0:15012", "0.0.0.0:15012000"));
    let validate = async |file: &str, more: &[&str]| {
        let path = config.path().join(file).display().to_string();
        let command = [&["tributary", "config", "validate", &path], more].concat();
        let command = Cli::try_parse_from(command).unwrap().command;
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
        let result = cli::run(command, &Environment::default(), &mut console).await.map_err(|e| e.code);
        (result, String::from_utf8(talk).unwrap())
    };
    assert_eq!(validate("good.yaml", &[]).await.0, Err(Some(Code::TLS_FILES)));
    let (result, talk) = validate("good.yaml", &["--without-files"]).await;
    assert_eq!(result, Ok(Exit::Ok), "{talk}");
    assert!(talk.ends_with("valid, 2 registries; the files that it names were not read\n"), "{talk}");
    assert!(!talk.contains("warning"), "{talk}");
    assert_eq!(validate("bad.yaml", &["--without-files"]).await.0, Err(Some(Code::CONFIG_INVALID)));
}

#[tokio::test]
async fn health_listener_has_health_and_metrics_only() {
    let dir = mk_folder(&[]);
    let world = World::start(&["--registry", &file_registry(&dir), "--health-listen", "127.0.0.1:0"]).await;
    let health = world.server.addresses().health.unwrap();
    let ask = |path: &'static str| async move {
        let server = cli::Server::parse(&health.to_string(), LONG).unwrap();
        server.get(path, &[]).await.map(|body| String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(ask("/readyz").await.unwrap(), "ok\n");
    assert!(ask("/metrics").await.unwrap().contains("tributary_registry_state{registry=\"file\""));
    assert_eq!(ask("/debug/services").await.unwrap_err().exit, Exit::NotFound);
    world.server.stop().await;
}

#[tokio::test]
async fn watch_writes_changes_and_survives_the_servers_end() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    let admin = world.server.addresses().admin.to_string();
    let lines = Lines::default();
    let mut to = lines.clone();
    let watching = tokio::spawn(async move {
        let args = ["tributary", "get", "endpoints", "-w", "-o", "json", "--server", &admin];
        let command = Cli::try_parse_from(args).unwrap().command;
        let mut talk = std::io::sink();
        let mut console = Console { out: &mut to, talk: &mut talk, terminal: false, color: false };
        cli::run(command, &Environment::default(), &mut console).await
    });
    lines.until(r#""type":"ADDED""#).await;
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.2"));
    lines.until(r#""type":"DELETED""#).await;
    world.server.stop().await;
    assert!(!watching.is_finished(), "a server that is gone may come back");
    watching.abort();
}

#[derive(Clone, Default)]
struct Lines(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    async fn until(&self, text: &str) {
        let waiting = async {
            while !String::from_utf8_lossy(&self.0.lock()).contains(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, waiting).await.expect("the watch wrote no change");
    }
}

#[tokio::test]
async fn federated_service_without_members_is_reported() {
    let dir = mk_folder(&[]);
    let text = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{{kind: file, path: {}}}]\n\
         federatedServices: [{{host: pay.global, members: [{{host: typo.shop}}]}}]\n",
        dir.path().display()
    );
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "tributary.yaml", &text);
    let path = home.path().join("tributary.yaml");
    let world = World::start(&["--config", path.to_str().unwrap()]).await;
    let result = world.until("get registries -o wide", "pay.global").await;
    assert!(result.contains("no member can be joined"), "{result}");
    put(dir.path(), "typo.yaml", &mk_entry("typo", "typo.shop", "10.0.0.1"));
    world.until("get services", "pay.global").await;
    let result = world.run("get registries").await.out;
    assert!(!result.contains("pay.global"), "{result}");
    world.server.stop().await;
}
