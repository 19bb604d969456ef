//! `tributary console`: the address of the web console, and a port-forward to it for a server in a cluster.
//!
//! For a server that has an address the command prints the console's and ends. For `pods://` it listens on a loopback port until it is
//! stopped, and passes each connection on to one replica: the named one, else the first that is ready.

use std::process::{Command, Stdio};

use futures::{Stream, StreamExt as _, stream};
use tokio::net::{TcpListener, TcpStream};

use super::http::Request;
use super::replicas::PodServers;
use super::{Console, Server};
use crate::admin::listener::cannot_bind;
use crate::args::ConsoleArgs;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Path of the console.
const PATH: &str = "/console/";
/// Most connections at once: a browser opens a few.
const MAX_CONNECTIONS: usize = 64;

/// Prints the address of the console and opens it in a browser, if there is a terminal.
pub(super) async fn run(
    args: &ConsoleArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    if let Some(pods) = server.pods() {
        return forward(pods, args, console).await;
    }
    server.require_one().await?;
    server.get("/livez", &[]).await?;
    present(&format!("{}{PATH}", server.url()), args, console)?;
    Ok(Exit::Ok)
}

/// Forwards connections until the command is stopped.
async fn forward(
    pods: &PodServers,
    args: &ConsoleArgs,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let pod = pods.best().await?.to_owned();
    // a server that does not answer fails here, and not in the browser
    pods.one(&pod, &Request::get(args.server.timeout.get(), "/livez", &[])).await?;
    let fail = |e: std::io::Error| cannot_bind("--listen", args.listen, &e);
    let listener = TcpListener::bind(args.listen).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    console.note(&format!("forwarding to pod {pod}; stop with Ctrl-C"));
    present(&format!("http://{address}{PATH}"), args, console)?;
    let connections = accepted(&listener).map(|stream| pass_on(pods, &pod, stream));
    let mut ended = Box::pin(connections.buffer_unordered(MAX_CONNECTIONS));
    while let Some(outcome) = ended.next().await {
        if let Err(failure) = outcome {
            console.note(&failure.to_string());
        }
    }
    Ok(Exit::Ok)
}

fn accepted(listener: &TcpListener) -> impl Stream<Item = TcpStream> {
    stream::unfold(listener, |listener| async move {
        let (stream, _) = listener.accept().await.ok()?;
        Some((stream, listener))
    })
}

async fn pass_on(pods: &PodServers, pod: &str, mut stream: TcpStream) -> Result<(), CommandError> {
    let (mut upstream, reason) = pods.open(pod).await?.parts();
    let copied = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
    drop(upstream);
    // a connection that either side closes is no failure
    match (copied, reason.await) {
        (_, Some(why)) => Err(CommandError::plain(format!("pod {pod} refused a connection: {why}"))),
        _ => Ok(()),
    }
}

fn present(url: &str, args: &ConsoleArgs, console: &mut Console<'_>) -> Result<(), CommandError> {
    console.data(&format!("{url}\n"))?;
    if !args.no_open && console.terminal {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.spawn().is_err() {
            console.note("no browser was found; open the address yourself");
        }
    }
    Ok(())
}
