//! The whole program: parses the command line, runs one command, and returns its exit code.
//!
//! Called by `main` of the binary `tributary`, and by binaries that add registries of their own.

use std::process::ExitCode;

use clap::Parser as _;
use tokio::runtime::Builder;

use crate::args::{Cli, Command, ServeArgs};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::extensions::Extensions;
use crate::{cli, serve};

/// Runs the command of the process's arguments.
#[must_use]
pub fn run(extensions: Extensions) -> ExitCode {
    serve::install_crypto();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(parsed) => {
            let _ = parsed.print();
            return if parsed.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    let checked = extensions.check();
    match checked.and_then(|()| run_command(command, &Environment::of_process().with(extensions))) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("tributary: {}", cli::harmless(&failure.to_string(), false));
            }
            failure.exit.into()
        }
    }
}

fn run_command(command: Command, env: &Environment) -> Result<Exit, CommandError> {
    match command {
        Command::Serve(args) => on(&mut Builder::new_multi_thread(), serve(&args, env)),
        command => on(&mut Builder::new_current_thread(), cli::run_here(command, env)),
    }
}

async fn serve(args: &ServeArgs, env: &Environment) -> Result<Exit, CommandError> {
    let loaded = serve::load(args, env)?;
    let log = serve::log(&loaded)?;
    let app = serve::build(args, env, loaded, log)?;
    let server = app.bind().await?.start().await?;
    server.run(serve::signal()).await
}

fn on(
    runtime: &mut Builder,
    task: impl Future<Output = Result<Exit, CommandError>>,
) -> Result<Exit, CommandError> {
    let runtime = runtime.enable_all().build();
    runtime.map_err(|e| CommandError::plain(format!("cannot start the runtime: {e}")))?.block_on(task)
}
