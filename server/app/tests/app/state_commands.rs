//! `tributary state` over a running server, and over a directory that no server holds.

use std::path::Path;
use std::sync::Arc;

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder};
use clap::Parser as _;
use tempfile::TempDir;
use tributary_app::args::Cli;
use tributary_app::cli::{self, Console};
use tributary_app::environment::Environment;
use tributary_app::exit::{CommandError, Exit};
use tributary_model::{
    ClusterId, Fingerprint, ProviderId, RegistryId, RegistryName, RegistrySpec, RegistryUpdate,
};

/// Starts a server that keeps two services of one registry.
async fn mk_world() -> (TempDir, TempDir, World) {
    let dir = mk_folder(&[
        ("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1")),
        ("cart.yaml", mk_entry("cart", "cart.shop", "10.0.0.2")),
    ]);
    let state = tempfile::tempdir().unwrap();
    let args = ["--registry", &file_registry(&dir), "--state-dir", state.path().to_str().unwrap()];
    let world = World::start(&args).await;
    world.until("state show", "whole").await;
    (dir, state, world)
}

/// Runs a command without a server.
async fn alone(command: &str, state: &Path) -> (Result<Exit, CommandError>, String) {
    let args = ["tributary"].into_iter().chain(command.split(' '));
    let args = args.chain(["--state-dir", state.to_str().unwrap()]);
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let command = Cli::try_parse_from(args).unwrap().command;
    let exit = cli::run(command, &Environment::default(), &mut console).await;
    (exit, String::from_utf8(out).unwrap())
}

fn scope(dir: &TempDir) -> String {
    dir.path().display().to_string()
}

async fn page(world: &World, path: &str) -> String {
    let server = cli::Server::parse(&world.server.addresses().admin.to_string(), LONG).unwrap();
    String::from_utf8(server.get(path, &[]).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn running_server_shows_its_kept_state() {
    let (dir, state, world) = mk_world().await;
    let shown = world.run("state show -o wide").await;
    assert_eq!(shown.exit, Ok(Exit::Ok));
    assert!(shown.out.starts_with(&state.path().display().to_string()), "{}", shown.out);
    let of_services = shown.out.lines().find(|line| line.contains(" Services ")).unwrap();
    let wanted = [scope(&dir), " 2 ".to_owned(), "whole".to_owned(), "Live".to_owned()];
    assert!(wanted.iter().all(|text| of_services.contains(text)), "{of_services}");
    let json: serde_json::Value = serde_json::from_str(&world.run("state show -o json").await.out).unwrap();
    assert_eq!((&json["kind"], &json["journal"]["open"]), (&"State".into(), &true.into()), "{json}");
    assert_eq!(world.run("state show -o name").await.out, "config\nfile\ngateway-names\n");
    let metrics = page(&world, "/metrics").await;
    for metric in
        ["state_open 1.0", "state_incomplete_registries 0.0", "state_commits_total ", "state_live_bytes "]
    {
        assert!(metrics.contains(&format!("\ntributary_{metric}")), "{metric}: {metrics}");
    }
    assert!(page(&world, "/readyz?verbose").await.matches("state").count() == 0);
    let (refused, _) = alone("state verify", state.path()).await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    assert!(alone("state clear", state.path()).await.0.is_err(), "a held directory is cleared");
    world.server.stop().await;
}

#[tokio::test]
async fn directory_without_a_server_is_shown_verified_and_cleared() {
    let (dir, state, world) = mk_world().await;
    world.server.stop().await;
    let unreachable = "state show --server 127.0.0.1:1";
    let (exit, shown) = alone(unreachable, state.path()).await;
    assert_eq!(exit, Ok(Exit::Ok));
    assert!(shown.contains(&scope(&dir)) && shown.contains("whole"), "{shown}");
    let (exit, verified) = alone("state verify", state.path()).await;
    assert!(exit == Ok(Exit::Ok) && verified.contains(&scope(&dir)), "{verified}");
    let (exit, cleared) = alone("state clear", state.path()).await;
    assert!(exit == Ok(Exit::Ok) && cleared.contains("journal"), "{cleared}");
    assert_eq!(alone("state verify", state.path()).await.0.unwrap_err().exit, Exit::NotFound);
    let absent = alone("state verify", &state.path().join("absent")).await;
    assert_eq!(absent.0.unwrap_err().exit, Exit::Failed);
}

#[tokio::test]
async fn end_shows_a_plan_and_removes_only_with_yes() {
    let (dir, state, world) = mk_world().await;
    let away = tempfile::tempdir().unwrap();
    std::fs::rename(dir.path(), away.path().join("files")).unwrap();
    world.until("get registries", "Unreachable").await;
    let part = format!("file/{}", scope(&dir));
    let planned = world.run(&format!("state end {part}/GROUPS")).await;
    assert_eq!(planned.exit, Ok(Exit::Ok), "{}", planned.talk);
    assert!(planned.out.contains("Groups   2") && !planned.out.contains("Services"), "{}", planned.out);
    assert!(planned.talk.contains("--yes"), "{}", planned.talk);
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1"), "nothing was ended yet");
    let ended = world.run(&format!("state end {part}/groups --yes")).await;
    assert!(ended.out.contains("Groups") && !ended.talk.contains("they return"), "{}", ended.talk);
    let gone = async {
        while world.run("get endpoints").await.out.contains("10.0.0") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("what was ended is served on");
    assert!(world.run("get services").await.out.contains("pay.shop"), "other kinds stay");
    assert_eq!(world.run(&format!("state end {part}/groups")).await.exit.unwrap_err().exit, Exit::NotFound);
    world.server.stop().await;
    let (_, kept) = alone("state verify", state.path()).await;
    let of = |kind: &str| kept.lines().find(|line| line.contains(kind)).unwrap_or_default().to_owned();
    assert!(
        of(" Services ").contains(" 2 ") && !of(" Groups ").contains(" 2 "),
        "a restart brings it back: {kept}"
    );
}

#[tokio::test]
async fn plan_to_end_live_facts_warns_that_they_return() {
    let (dir, _state, world) = mk_world().await;
    let planned = world.run("state end file -o json").await;
    assert!(planned.talk.contains("they return"), "{}", planned.talk);
    let list: serde_json::Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!((&list["items"][0]["facts"], &list["items"][0]["live"]), (&2.into(), &true.into()), "{list}");
    let pods = format!("state end file/{}/pods", scope(&dir));
    for (command, exit, text) in [
        ("state end absent", Exit::NotFound, "registry `absent` not found; known: file"),
        ("state end file/nowhere", Exit::NotFound, "has no scope `nowhere`; known: "),
        (pods.as_str(), Exit::NotFound, "no kind `pods`; use one of "),
        ("state end ", Exit::Usage, "`tributary state show`"),
        ("state end /x", Exit::Usage, "`tributary state show`"),
        ("state accept file", Exit::NotFound, "nothing to accept"),
        ("state accept absent", Exit::NotFound, "registry `absent` not found; known: file"),
    ] {
        let failure = world.run(command).await.exit.unwrap_err();
        assert!(failure.exit == exit && failure.to_string().contains(text), "{command}: {failure}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn live_facts_that_were_ended_return_with_a_new_run() {
    let (dir, _state, world) = mk_world().await;
    let run = |output: String| {
        let list: serde_json::Value = serde_json::from_str(&output).unwrap();
        list["items"][0]["generation"].as_u64().unwrap()
    };
    let before = run(world.run("get registries file -o json").await.out);
    world.run("state end file").await;
    let planned = run(world.run("get registries file -o json").await.out);
    assert_eq!(planned, before, "without --yes nothing changes");
    let ended = world.run(&format!("state end file/{} --yes", scope(&dir))).await;
    assert!(ended.talk.contains("they return"), "{}", ended.talk);
    world.until("get endpoints", "10.0.0.1:80").await;
    world.until("get endpoints", "10.0.0.2:80").await;
    assert!(run(world.run("get registries file -o json").await.out) > before);
    let own = world.run("state end config --yes").await.exit.unwrap_err();
    assert!(own.exit == Exit::Usage && own.message.contains("configuration"), "{own}");
    world.server.stop().await;
}

#[tokio::test]
async fn run_of_another_identity_is_shown_until_accepted() {
    let (_dir, _state, world) = mk_world().await;
    let handle = world.server.live().handle.clone();
    let name = RegistryName::new("file").unwrap();
    handle.remove_registry(name.clone()).await.unwrap();
    let id = RegistryId { name, provider: ProviderId::MEMORY, cluster: ClusterId::new("c1").unwrap() };
    let run = handle.source(RegistrySpec::new(Arc::new(id), 0)).await.unwrap();
    let identify = |uid: &str| run.updates.send(RegistryUpdate::Identity(Fingerprint::new(uid).unwrap()));
    identify("uid-1");
    world.until("get registries -o json", "uid-1").await;
    assert!(page(&world, "/metrics").await.contains("tributary_registry_run_waiting{registry=\"file\"} 0.0"));
    identify("uid-2");
    let waits = "a new run waits: the source's identity changed";
    let shown = world.until("get registries", waits).await;
    assert!(shown.contains("`tributary state accept file`"), "{shown}");
    assert!(world.run("state show").await.out.contains("does not serve: the source's identity changed"));
    let ready = page(&world, "/readyz?verbose").await;
    assert!(ready.contains(&format!("[-] run file: {waits}")) && ready.ends_with("\nok\n"), "{ready}");
    assert!(page(&world, "/metrics").await.contains("tributary_registry_run_waiting{registry=\"file\"} 1.0"));
    assert_eq!(world.run("state accept file").await.exit, Ok(Exit::Ok));
    assert!(!world.run("get registries").await.out.contains("waits"));
    assert!(!page(&world, "/readyz?verbose").await.contains("run file"));
    world.server.stop().await;
}

#[tokio::test]
async fn server_without_state_shows_why() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let shown = world.run("state show").await;
    assert!(shown.out.contains("state is not kept: disabled"), "{}", shown.out);
    world.server.stop().await;
    std::fs::write(dir.path().join("file"), "").unwrap();
    let state = dir.path().join("file/state");
    let args = ["--registry", &file_registry(&dir), "--state-dir", state.to_str().unwrap()];
    let world = World::start(&args).await;
    let mut readiness = world.server.live().handle.readiness();
    readiness.wait_for(|start| start.is_ready()).await.unwrap();
    let shown = world.run("state show").await;
    assert_eq!(shown.exit, Ok(Exit::No), "{}", shown.out);
    assert!(shown.out.contains("state is not kept: state directory"), "{}", shown.out);
    let ready = page(&world, "/readyz?verbose").await;
    assert!(ready.contains("[-] state: state directory") && ready.ends_with("\nok\n"), "{ready}");
    assert!(page(&world, "/metrics").await.contains("tributary_state_open 0.0\n"));
    world.server.stop().await;
}
