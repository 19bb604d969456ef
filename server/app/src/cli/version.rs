//! `tributary version`: the versions of this program and of running servers.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use reqwest::Method;
use serde::Serialize;

use super::get::{document, parse};
use super::http::of_server;
use super::{Console, Server};
use crate::args::{DocumentOutput, Output, VersionArgs};
use crate::document::VersionDocument;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Versions of both sides.
#[derive(Debug, Serialize)]
struct Versions {
    client: VersionDocument,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerVersion>,
    /// Servers that did not answer, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<SilentServer>,
}

/// Server without an answer.
#[derive(Debug, Serialize)]
struct SilentServer {
    /// Its address, as `--server` takes it.
    server: String,
    /// Why there is no answer.
    silent: String,
}

/// Version of one server.
#[derive(Debug, Serialize)]
struct ServerVersion {
    /// Its address, as `--server` takes it.
    server: String,
    #[serde(flatten)]
    version: VersionDocument,
}

/// Runs the command. A server that does not answer fails it after the versions of the others are printed.
pub async fn run(
    args: &VersionArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let servers = if args.client { Vec::new() } else { Server::replicas(&args.server, env).await? };
    let client = VersionDocument::own("", None);
    let mut versions = Versions { client, servers: Vec::new(), silent: Vec::new() };
    let mut failures = Vec::new();
    for (server, answer) in join_all(servers.iter().map(|server| of(server).boxed())).await {
        match answer {
            Ok(version) => versions.servers.push(ServerVersion { server, version }),
            Err(failure) => {
                versions
                    .silent
                    .push(SilentServer { server: server.clone(), silent: failure.message.clone() });
                failures.push((server, failure));
            }
        }
    }
    console.data(&match args.output {
        DocumentOutput::Json => document(Output::Json, &versions)?,
        DocumentOutput::Yaml => document(Output::Yaml, &versions)?,
        DocumentOutput::Table => text(&versions),
    })?;
    conclude(failures, &versions, console)
}

async fn of(server: &Server) -> (String, Result<VersionDocument, CommandError>) {
    let answer = server.exchange((Method::GET, Duration::ZERO), "/debug/version", &[]).await;
    (server.url(), answer.and_then(|body| parse(&body)))
}

/// Reports servers that did not answer. If some of several did, the answer is partial.
fn conclude(
    failures: Vec<(String, CommandError)>,
    versions: &Versions,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if versions.servers.is_empty() {
        let first = failures.into_iter().next();
        return first.map_or(Ok(Exit::Ok), |(server, failure)| Err(of_server(failure, &server)));
    }
    for (server, failure) in &failures {
        console.silent(server, failure);
    }
    Ok(if failures.is_empty() { Exit::Ok } else { Exit::Partial })
}

fn text(versions: &Versions) -> String {
    let line = |side: &str, of: &VersionDocument| {
        let each = of.tested.iter().map(|one| format!("{} {}", one.program, one.versions));
        let tested = each.collect::<Vec<_>>().join(", ");
        let name = if of.name.is_empty() { String::new() } else { format!("{}, ", of.name) };
        format!("{side}: {}, {name}journal format {}, tested with {tested}\n", of.version, of.journal_format)
    };
    let servers = versions.servers.iter().map(|one| line(&format!("server {}", one.server), &one.version));
    std::iter::once(line("client", &versions.client)).chain(servers).collect()
}
