//! The binary `tributary`: reads its command line, runs one command, and ends with its exit code.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use tributary_app::args::{Cli, Command};
use tributary_app::cli::{self, Console};
use tributary_app::environment::Environment;
use tributary_app::exit::{Exit, Failure};
use tributary_app::serve;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(told) => {
            let _ = told.print();
            return if told.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    run(command, &Environment::of_process()).map_or_else(
        |failure| {
            eprintln!("tributary: {failure}");
            failure.exit.into()
        },
        ExitCode::from,
    )
}

fn run(command: Command, env: &Environment) -> Result<Exit, Failure> {
    match command {
        Command::Serve(args) => {
            let loaded = serve::load(&args, env)?;
            let log = serve::log(&loaded)?;
            runtime(true)?.block_on(async {
                let app = serve::build(&args, env, loaded, log)?;
                let server = app.bind().await?.start().await?;
                server.run(serve::signal()).await
            })
        }
        command => {
            let terminal = std::io::stdout().is_terminal();
            let (mut out, mut talk) = (std::io::stdout(), std::io::stderr());
            let color = terminal && env.get("NO_COLOR").is_none();
            let mut console = Console { out: &mut out, talk: &mut talk, terminal, color };
            runtime(false)?.block_on(cli::run(command, env, &mut console))
        }
    }
}

fn runtime(threads: bool) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if threads {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build().map_err(|e| Failure::plain(format!("no runtime: {e}")))
}
