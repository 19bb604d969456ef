//! `tributary version`: the versions of this program and of running servers.

use serde::Serialize;

use super::get::{document, parse};
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
    servers: Vec<VersionDocument>,
}

/// Runs the command. A server that does not answer fails it after the version of this program is printed.
pub async fn run(
    args: &VersionArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let servers = if args.client { Vec::new() } else { Server::replicas(&args.server, env).await? };
    let mut versions = Versions { client: VersionDocument::own("", None), servers: Vec::new() };
    let mut failure = None;
    for server in &servers {
        match server.get("/debug/version", &[]).await.and_then(|body| parse(&body)) {
            Ok(version) => versions.servers.push(version),
            Err(error) => failure = Some(error),
        }
    }
    console.data(&match args.output {
        DocumentOutput::Json => document(Output::Json, &versions)?,
        DocumentOutput::Yaml => document(Output::Yaml, &versions)?,
        DocumentOutput::Table => text(&versions),
    })?;
    match failure {
        // of several replicas, some answered
        Some(error) if !versions.servers.is_empty() => Err(CommandError { exit: Exit::Partial, ..error }),
        Some(error) => Err(error),
        None => Ok(Exit::Ok),
    }
}

fn text(versions: &Versions) -> String {
    let tested = |version: &VersionDocument| {
        let each = version.tested.iter().map(|one| format!("{} {}", one.program, one.versions));
        each.collect::<Vec<_>>().join(", ")
    };
    let own = &versions.client;
    let mut out = format!(
        "client: {}, journal format {}, tested with {}\n",
        own.version,
        own.journal_format,
        tested(own)
    );
    for one in &versions.servers {
        let (name, version, format) = (&one.name, &one.version, one.journal_format);
        out.push_str(&format!(
            "server: {version}, {name}, journal format {format}, tested with {}\n",
            tested(one)
        ));
    }
    out
}
