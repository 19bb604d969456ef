//! The binary `tributary`: parses its command line, runs one command, and exits with its code.

use std::process::ExitCode;

use clap::Parser as _;
use tokio::runtime::Builder;
use tributary_app::args::{Cli, Command, ServeArgs};
use tributary_app::environment::Environment;
use tributary_app::exit::{CommandError, Exit};
use tributary_app::{cli, serve};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tributary_app::serve::install_crypto();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(parsed) => {
            let _ = parsed.print();
            return if parsed.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match run(command, &Environment::of_process()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("tributary: {failure}");
            }
            failure.exit.into()
        }
    }
}

fn run(command: Command, env: &Environment) -> Result<Exit, CommandError> {
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
