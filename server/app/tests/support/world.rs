//! Wired server in this process, on free ports, and its command line.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use tempfile::TempDir;
use tributary_app::args::{Cli, Command, ServeArgs};
use tributary_app::cli::{self, Console};
use tributary_app::environment::Environment;
use tributary_app::exit::{CommandError, Exit};
use tributary_app::serve;
use tributary_app::telemetry::LogLevel;
use tributary_app::wiring::{Bound, Server};

pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn mk_entry(name: &str, host: &str, address: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  hosts: [{host}]\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  resolution: STATIC\n  endpoints: [{{address: {address}}}]\n"
    )
}

pub(crate) fn mk_folder(files: &[(&str, String)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        put(dir.path(), name, text);
    }
    dir
}

/// Writes a file as an editor does: beside it, then renamed.
pub(crate) fn put(dir: &Path, name: &str, text: &str) {
    let beside = dir.join(format!(".{name}.tmp"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, dir.join(name)).unwrap();
}

pub(crate) fn mk_args(args: &[&str]) -> ServeArgs {
    let free = [
        ("--xds-listen", "127.0.0.1:0"),
        ("--admin-listen", "127.0.0.1:0"),
        ("--drain-timeout", "2s"),
        ("--state-dir", "none"),
    ];
    let free =
        free.into_iter().filter(|(flag, _)| !args.contains(flag)).flat_map(|(flag, value)| [flag, value]);
    let all = ["tributary", "serve"].into_iter().chain(free).chain(args.iter().copied());
    match Cli::try_parse_from(all).unwrap().command {
        Command::Serve(args) => *args,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn mk_bound(args: &[&str]) -> Result<Bound, CommandError> {
    let (args, env) = (mk_args(args), Environment::default());
    let loaded = serve::load(&args, &env)?;
    serve::build(&args, &env, loaded, LogLevel::default())?.bind().await
}

pub(crate) struct World {
    pub(crate) server: Server,
}

/// Result of a command.
pub(crate) struct CommandResult {
    pub(crate) exit: Result<Exit, CommandError>,
    pub(crate) out: String,
    pub(crate) talk: String,
}

impl World {
    pub(crate) async fn start(args: &[&str]) -> Self {
        let server = mk_bound(args).await.unwrap().start().await.unwrap();
        let world = Self { server };
        world.until("get registries", "Live").await;
        world
    }
    /// Returns the readiness page with its reasons.
    pub(crate) async fn readyz(&self) -> String {
        let server =
            tributary_app::cli::Server::parse(&self.server.addresses().admin.to_string(), LONG).unwrap();
        String::from_utf8(server.get("/readyz?verbose", &[]).await.unwrap().to_vec()).unwrap()
    }
    pub(crate) async fn run(&self, command: &str) -> CommandResult {
        run_on(&self.server.addresses().admin.to_string(), command).await
    }
    /// Returns its address and another one that a closed port has, as replicas of one server.
    pub(crate) fn with_a_silent_one(&self) -> String {
        format!("{},127.0.0.1:1", self.server.addresses().admin)
    }
    /// Repeats the command until its output contains this text.
    pub(crate) async fn until(&self, command: &str, text: &str) -> String {
        let asking = async {
            loop {
                let result = self.run(command).await.out;
                if result.contains(text) {
                    return result;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(LONG, asking).await;
        assert!(found.is_ok(), "{command:?} never printed {text:?}, but {}", self.run(command).await.out);
        found.unwrap()
    }
}

/// Runs a command against these servers.
pub(crate) async fn run_on(servers: &str, command: &str) -> CommandResult {
    let args = ["tributary"].into_iter().chain(command.split(' ')).chain(["--server", servers]);
    let command = Cli::try_parse_from(args).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let exit = cli::run(command, &Environment::default(), &mut console).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandResult { exit, out: text(out), talk: text(talk) }
}

pub(crate) fn file_registry(dir: &TempDir) -> String {
    format!("file={}", dir.path().display())
}
