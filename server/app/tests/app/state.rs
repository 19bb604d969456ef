//! Restarts of a server over its state directory: with unreachable sources, a torn journal, or a changed
//! configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::world::{LONG, World, mk_args, mk_bound, mk_entry, put};
use tempfile::TempDir;
use tributary_app::admin::AdminBackend as _;
use tributary_app::environment::Environment;
use tributary_app::exit::Exit;
use tributary_app::serve;
use tributary_app::telemetry::LogLevel;
use tributary_model::Code;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{AdsClient, Variant};

const HOSTS: [(&str, &str); 2] = [("pay.shop", "10.0.0.1"), ("cart.shop", "10.0.0.2")];
const ASSIGNMENTS: [&str; 2] = ["outbound|80||pay.shop", "outbound|80||cart.shop"];

/// Folders of sources and a state directory, which outlive the servers over them.
struct Place(TempDir);

/// Everything that clients and operators see of the served state.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    services: String,
    endpoints: BTreeSet<String>,
    versions: BTreeMap<String, String>,
}

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.fill("files", &HOSTS);
        place
    }
    fn fill(&self, folder: &str, hosts: &[(&str, &str)]) {
        std::fs::create_dir(self.path(folder)).unwrap();
        for (host, address) in hosts {
            let name = host.split('.').next().unwrap();
            put(&self.path(folder), &format!("{name}.yaml"), &mk_entry(name, host, address));
        }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }
    fn config(&self, registries: &[(&str, &str, &str)]) {
        let one = |(name, folder, more): &(&str, &str, &str)| {
            format!("- {{kind: file, name: {name}, path: {}{more}}}\n", self.path(folder).display())
        };
        let registries: String = registries.iter().map(one).collect();
        let text = format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n{registries}");
        put(self.0.path(), "config.yaml", &text);
    }
    /// Starts on the configuration without waiting for sources.
    async fn start(&self) -> World {
        self.start_on("state").await
    }
    async fn start_on(&self, state: &str) -> World {
        let (config, state) = (self.path("config.yaml"), self.path(state));
        let args = [
            "--config",
            config.to_str().unwrap(),
            "--state-dir",
            state.to_str().unwrap(),
            "--first-sync-timeout",
            "0",
        ];
        World { server: mk_bound(&args).await.unwrap().start().await.unwrap() }
    }
    /// Starts, waits for all sources, and stops.
    async fn remember(&self) -> Seen {
        let world = self.start().await;
        until_ready(&world).await;
        let seen = see(&world).await;
        world.server.stop().await;
        seen
    }
}

async fn until_ready(world: &World) {
    let mut readiness = world.server.live().handle.readiness();
    let ready = tokio::time::timeout(LONG, readiness.wait_for(|start| start.is_ready())).await;
    assert!(ready.is_ok(), "not ready: {:?}", world.server.live().readiness());
}

/// Waits until every configured registry is added; restored facts then count as complete.
async fn until_complete(world: &World) {
    let live = world.server.live();
    let mut generations = live.generations();
    let complete = tokio::time::timeout(LONG, generations.wait_for(|_| live.catalog().complete)).await;
    assert!(complete.is_ok(), "{}", world.run("get registries -o wide").await.out);
}

async fn see(world: &World) -> Seen {
    let lines = |text: String| text.lines().map(ToOwned::to_owned).collect();
    let mut client =
        AdsClient::connect(world.server.addresses().xds, Variant::Delta, node("see")).await.unwrap();
    let mut versions = BTreeMap::new();
    client.subscribe(CDS, &["*"]).unwrap();
    versions.extend(client.next(LONG).await.unwrap().versions());
    client.subscribe(EDS, &ASSIGNMENTS).unwrap();
    let of_endpoints = client.next(LONG).await.unwrap().versions();
    versions.extend(of_endpoints.into_iter().map(|(name, version)| (format!("eds {name}"), version)));
    Seen {
        services: world.run("get services -o name").await.out,
        endpoints: lines(world.run("get endpoints -o name").await.out),
        versions,
    }
}

async fn registry(world: &World, name: &str) -> serde_json::Value {
    let json = world.run(&format!("get registries {name} -o json")).await.out;
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    list["items"][0].clone()
}

#[tokio::test]
async fn restart_without_its_source_serves_the_same_facts() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    let before = place.remember().await;
    assert_eq!((before.endpoints.len(), before.versions.len()), (2, 4), "{before:?}");
    let stopped = Instant::now();
    place.rename("files", "away");
    let world = place.start().await;
    until_ready(&world).await;
    assert_eq!(see(&world).await, before);
    until_complete(&world).await;
    assert_eq!(world.run("get services").await.exit, Ok(Exit::Ok));
    let down = stopped.elapsed();
    let item = registry(&world, "files").await;
    let age = Duration::from_millis(item["confirmedMillisAgo"].as_u64().unwrap());
    assert!(age + Duration::from_millis(2) >= down, "{age:?} is less than {down:?}: {item}");
    world.until("get registries", "Unreachable").await;
    let explained = world.run("explain 10.0.0.1").await.out;
    assert!(explained.contains("TRB0206") && explained.contains("restored"), "{explained}");
    world.server.stop().await;
}

#[tokio::test]
async fn source_that_returns_after_a_restart_changes_nothing() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    place.remember().await;
    place.rename("files", "away");
    let world = place.start().await;
    until_ready(&world).await;
    let xds = world.server.addresses().xds;
    let mut client = AdsClient::connect(xds, Variant::Delta, node("flap")).await.unwrap();
    client.subscribe(EDS, &ASSIGNMENTS).unwrap();
    let first = client.next(LONG).await.unwrap();
    client.ack(&first).unwrap();
    place.rename("away", "files");
    world.until("get registries", "Live").await;
    put(&place.path("files"), "cart.yaml", &mk_entry("cart", "cart.shop", "10.0.0.3"));
    let next = client.next(LONG).await.unwrap();
    assert_eq!(next.names(), [ASSIGNMENTS[1].to_owned()].into(), "only what changed is sent");
    assert!(next.removed.is_empty());
    assert!(world.run("get endpoints").await.out.contains("10.0.0.3:80"));
    world.server.stop().await;
}

#[tokio::test]
async fn facts_removed_during_downtime_go_with_the_first_list() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    place.remember().await;
    std::fs::remove_file(place.path("files").join("cart.yaml")).unwrap();
    let world = place.start().await;
    world.until("get registries", "Live").await;
    let gone = async {
        while world.run("get endpoints").await.out.contains("10.0.0.2") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("what the source does not list any more is served on");
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1"));
    world.server.stop().await;
}

#[tokio::test]
async fn registry_without_facts_is_restored_as_empty() {
    let place = Place::new();
    place.fill("empty", &[]);
    place.config(&[("files", "files", ""), ("empty", "empty", "")]);
    let world = place.start().await;
    until_complete(&world).await;
    until_ready(&world).await;
    world.server.stop().await;
    place.rename("files", "away");
    place.rename("empty", "empty-away");
    let world = place.start().await;
    until_ready(&world).await;
    until_complete(&world).await;
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1:80"));
    world.server.stop().await;
}

#[tokio::test]
async fn torn_journal_restores_all_or_nothing() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    let before = place.remember().await;
    place.rename("files", "away");
    let journal = |state: &str| journal_of(&place.path(state));
    let whole = std::fs::read(journal("state")).unwrap();
    let mut restored = 0;
    for part in 0..12 {
        let at = whole.len() * part / 12;
        let mut flipped = whole.clone();
        flipped[at] ^= 0x5a;
        for (how, bytes) in [("cut", &whole[..at]), ("flipped", &flipped[..])] {
            let state = format!("state-{how}-{part}");
            std::fs::DirBuilder::new().mode(0o700).create(place.path(&state)).unwrap();
            std::fs::write(place.path(&state).join(journal("state").file_name().unwrap()), bytes).unwrap();
            let world = place.start_on(&state).await;
            let lines = world.run("get endpoints -o name").await.out;
            let endpoints: BTreeSet<String> = lines.lines().map(ToOwned::to_owned).collect();
            let all = endpoints == before.endpoints;
            assert!(all || endpoints.is_empty(), "{how} at {at}: {endpoints:?}");
            if all {
                until_complete(&world).await;
            } else {
                let unknown = world.run("get services").await.exit;
                assert_eq!(unknown, Ok(Exit::Partial), "{how} at {at}: unknown is not empty");
            }
            restored += usize::from(all);
            world.server.stop().await;
        }
    }
    assert!(
        restored > 0 && restored < 24,
        "{restored} of 24 were restored: nothing was torn, or nothing kept"
    );
    place.rename("away", "files");
    let world = place.start_on("state-cut-6").await;
    until_ready(&world).await;
    assert_eq!(see(&world).await, before, "the source is read again");
    world.server.stop().await;
}

/// Returns the file of a journal: the largest of its directory.
fn journal_of(state: &Path) -> PathBuf {
    let files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap());
    files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap().path()
}

#[tokio::test]
async fn removed_registry_is_removed_from_the_journal() {
    let place = Place::new();
    place.fill("other", &[("mail.shop", "10.0.1.1")]);
    let both = [("files", "files", ""), ("other", "other", "")];
    place.config(&both);
    assert_eq!(place.remember().await.endpoints.len(), 3);
    place.rename("files", "away");
    place.rename("other", "other-away");
    place.config(&both[..1]);
    let world = place.start().await;
    until_ready(&world).await;
    assert_eq!(
        see(&world).await.endpoints.len(),
        2,
        "the facts of the registry that is gone are not restored"
    );
    world.server.stop().await;
    place.config(&both);
    let world = place.start().await;
    world.until("get endpoints", "10.0.0.1:80").await;
    assert!(!world.run("get endpoints").await.out.contains("10.0.1.1"), "its facts are still in the journal");
    assert_eq!(world.run("get endpoints").await.exit, Ok(Exit::Partial), "a new registry is not known yet");
    world.server.stop().await;
}

#[tokio::test]
async fn moved_source_keeps_facts_until_the_new_one_is_listed() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    let before = place.remember().await;
    place.config(&[("files", "elsewhere", "")]);
    let world = place.start().await;
    until_ready(&world).await;
    world.until("get registries", "elsewhere cannot be read").await;
    assert_eq!(see(&world).await.endpoints, before.endpoints);
    place.fill("filling", &[("pay.shop", "10.0.9.1")]);
    place.rename("filling", "elsewhere");
    let table = world.until("get endpoints", "10.0.9.1:80").await;
    assert!(!table.contains("10.0.0.1"), "{table}");
    world.until("get registries", "Live").await;
    let gone = async {
        while world.run("get endpoints").await.out.contains("10.0.0.2") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the old source's facts are served on");
    world.server.stop().await;
}

#[tokio::test]
async fn named_directory_of_another_process_refuses_the_start() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    let first = place.start().await;
    let (config, state) = (place.path("config.yaml"), place.path("state"));
    let args = ["--config", config.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let failure = mk_bound(&args).await.unwrap().start().await.err().expect("two servers have one directory");
    let holder = format!("process {}", std::process::id());
    assert_eq!((failure.exit, failure.code), (Exit::Failed, Some(Code::STATE_UNUSABLE)), "{failure}");
    assert!(failure.to_string().contains(&holder), "{failure}");
    first.server.stop().await;
}

#[tokio::test]
async fn default_directory_of_another_process_is_not_touched() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    let first = place.start_on("tributary").await;
    let home = place.0.path().to_str().unwrap().to_owned();
    let env = Environment::from([("XDG_STATE_HOME", home.as_str())]);
    let config = place.path("config.yaml");
    let mut args = mk_args(&["--config", config.to_str().unwrap()]);
    args.state_dir = None;
    let loaded = serve::load(&args, &env).unwrap();
    let app = serve::build(&args, &env, loaded, LogLevel::default()).unwrap();
    let second = World { server: app.bind().await.unwrap().start().await.unwrap() };
    until_ready(&second).await;
    assert!(second.server.live().state.fault.as_ref().unwrap().contains("is held by"));
    second.server.stop().await;
    first.server.stop().await;
}

#[tokio::test]
async fn unusable_directory_disables_state_and_is_reported() {
    let place = Place::new();
    place.config(&[("files", "files", "")]);
    std::fs::write(place.path("file"), "").unwrap();
    let world = place.start_on("file/state").await;
    until_ready(&world).await;
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1:80"));
    let fault = world.server.live().state.fault.clone().unwrap();
    assert!(fault.contains("file/state"), "{fault}");
    world.server.stop().await;
}

#[tokio::test]
async fn source_stale_for_too_long_is_withdrawn_until_it_returns() {
    let place = Place::new();
    place.config(&[("files", "files", ", staleness: withdraw(200ms)")]);
    let world = place.start().await;
    world.until("get registries", "Live").await;
    place.rename("files", "away");
    let gone = async {
        while world.run("get endpoints").await.out.contains("10.0.0.1") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the policy is not carried out");
    place.rename("away", "files");
    world.until("get endpoints", "10.0.0.1:80").await;
    world.server.stop().await;
}

#[tokio::test]
async fn source_stale_for_too_long_is_demoted_until_it_returns() {
    let place = Place::new();
    place.fill("other", &[("pay.shop", "10.0.1.1")]);
    place.config(&[("files", "files", ", staleness: degrade(200ms)"), ("other", "other", "")]);
    let before = place.remember().await;
    place.rename("files", "away");
    let world = place.start().await;
    until_ready(&world).await;
    until_versions(&world, |seen| seen.versions != before.versions).await;
    assert_eq!(see(&world).await.endpoints, before.endpoints, "all are served");
    let steps = world.run("explain 10.0.0.1 -o wide").await.out;
    assert!(steps.contains("priority 1"), "{steps}");
    place.rename("away", "files");
    until_versions(&world, |seen| seen.versions == before.versions).await;
    world.server.stop().await;
}

async fn until_versions(world: &World, done: impl Fn(&Seen) -> bool) {
    let waiting = async {
        while !done(&see(world).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "{:?}", see(world).await);
}

/// One document does not identify its object: only what it may be stays as it was, and nothing is withdrawn.
#[tokio::test]
async fn invalid_document_makes_no_other_object_stale_after_a_restart() {
    let place = Place::new();
    place.config(&[("files", "files", ", staleness: withdraw(1s)")]);
    let before = place.remember().await;
    put(&place.path("files"), "cart.yaml", "{]");
    let world = place.start().await;
    until_ready(&world).await;
    until_complete(&world).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let shown = registry(&world, "files").await;
    assert_eq!(shown["state"], "Live", "{shown}");
    assert_eq!(see(&world).await, before, "{shown}");
    let kept = shown.to_string();
    assert!(kept.contains("TRB0318") && kept.contains("TRB0301"), "{kept}");
    put(&place.path("files"), "cart.yaml", &mk_entry("cart", "cart.shop", "10.0.0.2"));
    until(&world, |shown| !shown.contains("TRB03")).await;
    assert_eq!(see(&world).await, before);
    world.server.stop().await;
}

/// Waits until the registry `files` is shown as wanted.
async fn until(world: &World, wanted: impl Fn(&str) -> bool) {
    let waiting = async {
        while !wanted(&registry(world, "files").await.to_string()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("not shown in time");
}
