//! `tributary profile`: writes a CPU profile of a server.

use std::time::Duration;

use super::bug_report::write;
use super::{Console, Server};
use crate::args::ProfileArgs;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// How long a busy server may take to look the names of functions up.
const SYMBOLS: Duration = Duration::from_secs(30);

/// Runs the command.
pub async fn run(
    args: &ProfileArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    server.require_one().await?;
    let seconds = args.seconds.to_string();
    let held = Duration::from_secs(args.seconds) + SYMBOLS;
    let profile = server.get_held(held, "/debug/profile", &[("seconds", Some(&seconds))]).await?;
    write(&args.output, &profile)?;
    let (path, bytes) = (args.output.display(), profile.len());
    console.note(&format!("{path}: {bytes} bytes, in the format of pprof; `go tool pprof {path}` shows it"));
    Ok(Exit::Ok)
}
