//! Commands other than `serve`: requests to a running server, and commands that need none.
//!
//! Data goes to stdout, messages to stderr. Every command returns an [`Exit`] or a [`CommandError`] and
//! leaves the process alone. `main` passes the process's streams, tests pass buffers.

pub mod analyze;
pub mod bug_report;
pub mod check;
pub mod cluster;
pub(crate) mod clusters;
pub mod config;
pub mod console;
pub mod diff;
pub mod explain;
pub mod get;
pub mod guard;
pub mod http;
mod merge_replicas;
pub mod migrate;
mod open_console;
mod overview;
mod pages;
pub mod profile;
pub mod rbac;
pub mod redact;
pub mod registries;
pub mod replicas;
pub mod resources;
mod routes;
pub mod server;
pub mod state;
pub mod table;
pub mod version;
pub mod wait;
mod waiting;
pub mod watch;

use std::io::IsTerminal as _;

pub use console::{Console, harmless};
pub use server::Server;

use crate::args::Command;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::reference;

/// Runs any command but `serve` on the process's streams.
pub async fn run_here(command: Command, env: &Environment) -> Result<Exit, CommandError> {
    let terminal = std::io::stdout().is_terminal();
    let (mut out, mut talk) = (std::io::stdout(), std::io::stderr());
    let color = terminal && env.get("NO_COLOR").is_none();
    run(command, env, &mut Console { out: &mut out, talk: &mut talk, terminal, color }).await
}

/// Runs any command but `serve`.
pub async fn run(
    command: Command,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        Command::Serve(_) => Err(CommandError::plain("this command runs in `main` only")),
        Command::Get(args) => get::run(&args, env, console).await,
        Command::Diff(args) => diff::run(&args, env, console).await,
        Command::Explain(args) => explain::explain(&args, env, console).await,
        Command::WhyNot(args) => explain::why_not(&args, env, console).await,
        Command::Analyze(args) => analyze::run(&args, env, console).await,
        Command::Check(args) => check::run(&args, env, console).await,
        Command::Wait(args) => wait::run(&args, env, console).await,
        Command::Version(args) => version::run(&args, env, console).await,
        Command::BugReport(args) => bug_report::run(&args, env, console).await,
        Command::Profile(args) => profile::run(&args, env, console).await,
        Command::Cluster(command) => cluster::run(&command, env, console).await,
        Command::Console(args) => open_console::run(&args, env, console).await,
        Command::Rbac(command) => rbac::run(&command, env, console).await,
        Command::Migrate(command) => migrate::run(&command, env, console).await,
        Command::Guard(command) => guard::run(&command, env, console).await,
        Command::State(command) => state::run(&command, env, console).await,
        Command::Config(command) => config::run(&command, env, console),
        Command::Completion { shell } => pages::completion(shell, console).map(|()| Exit::Ok),
        Command::Man { directory } => pages::man(&directory).map(|()| Exit::Ok),
        Command::Reference(args) => {
            let page = reference::page(&args.page)?;
            console.data(&page)?;
            Ok(Exit::Ok)
        }
    }
}
