//! `tributary bug-report`: an archive with what a maintainer needs to know of a server, and no secret.
//!
//! Every document of the admin surface without parameters, metrics, versions, the result of the checks and the running configuration.
//! Each part is bounded in time and size and passes through [`redacted_document`]; a part that cannot be read is a note in the archive, not a
//! failure of the command.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tar::{Builder, Header};
use tributary_model::Code;

use super::check::read;
use super::get::document;
use super::redact::{redacted, redacted_document};
use super::{Console, Server};
use crate::admin::ROUTES;
use crate::args::{BugReportArgs, Output};
use crate::check::{Documents, merge};
use crate::document::{List, Metadata, VersionDocument, timestamp};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Most items of a list.
const MAX_ITEMS: &str = "2000";
/// Most bytes of a part; the rest is cut. Tests use smaller bounds.
const MAX_PART: usize = if cfg!(test) { 8 << 10 } else { 8 << 20 };
/// Most bytes of all parts; later ones are notes.
const MAX_ALL: usize = 8 * MAX_PART;
/// Routes that need parameters, or connect to clusters.
const WITHOUT: [&str; 10] = [
    // it does not end
    "/debug/events",
    // it is off, or takes a long time
    "/debug/profile",
    "/debug/plan",
    "/debug/clusters/check",
    "/debug/state/plan",
    "/debug/explain",
    "/debug/why-not",
    "/debug/resources",
    "/debug/routes",
    "/debug/diff",
];
/// Routes whose list takes a limit.
const LISTS: [&str; 9] = [
    "/debug/services",
    "/debug/endpoints",
    "/debug/merges",
    "/debug/gateways",
    "/debug/policies",
    "/debug/clients",
    "/debug/registries",
    "/debug/clusters",
    "/debug/guard",
];

/// File of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name below the folder of the archive.
    pub name: String,
    /// Content, without secrets.
    pub content: String,
}

/// Parts of an archive, within the bounds.
#[derive(Debug, Default)]
struct Parts {
    all: Vec<Part>,
    bytes: usize,
    notes: Vec<String>,
}

impl Parts {
    /// Adds a part. One that could not be read is a note.
    fn add(&mut self, name: &str, read: Result<String, CommandError>) {
        let text = match read {
            Ok(text) => text,
            Err(failure) => return self.note(format!("{name}: {failure}")),
        };
        if self.bytes + text.len().min(MAX_PART) > MAX_ALL {
            return self
                .note(format!("{name}: left out, the archive has reached its bound of {MAX_ALL} bytes"));
        }
        // A cut document cannot be read, so secrets are replaced first.
        let (content, is_cut) = cut(redacted_document(&text));
        if is_cut {
            self.note(format!("{name}: cut to {MAX_PART} bytes"));
        }
        self.bytes += content.len();
        self.all.push(Part { name: name.to_owned(), content });
    }
    fn note(&mut self, note: String) {
        self.notes.push(redacted(&note));
    }
    fn finish(mut self) -> Vec<Part> {
        let notes = if self.notes.is_empty() {
            "every part is complete\n".to_owned()
        } else {
            self.notes.join("\n") + "\n"
        };
        self.all.push(Part { name: "notes.txt".to_owned(), content: notes });
        self.all
    }
}

/// Cuts a text at the bound of a part; also returns whether something is missing.
fn cut(mut text: String) -> (String, bool) {
    if text.len() <= MAX_PART {
        return (text, false);
    }
    let end = (0..=MAX_PART).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    (text, true)
}

/// Runs the command.
pub async fn run(
    args: &BugReportArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let servers = Server::replicas(&args.server, env).await?;
    let mut parts = Parts::default();
    let own = document(Output::Json, &VersionDocument::own("", None));
    parts.add("client-version.json", own);
    checks(&mut parts, &servers).await;
    for (number, server) in servers.iter().enumerate() {
        let folder = if servers.len() > 1 { format!("server-{}/", number + 1) } else { String::new() };
        of_server(&mut parts, server, &folder).await;
    }
    let is_whole = parts.notes.is_empty();
    let parts = parts.finish();
    let archive = archive(&parts, Timestamp::now())
        .map_err(|e| CommandError::plain(format!("the archive cannot be built: {e}")))?;
    write(&args.output, &archive)?;
    let noun = if parts.len() == 1 { "part" } else { "parts" };
    console.note(&format!(
        "{}: {} {noun}, {} bytes; look through it before you send it: names of services and addresses are in it",
        args.output.display(),
        parts.len(),
        archive.len()
    ));
    if is_whole {
        return Ok(Exit::Ok);
    }
    console.note("some parts are missing or cut; notes.txt in it names them");
    Ok(Exit::Partial)
}

async fn checks(parts: &mut Parts, servers: &[Server]) {
    let documents: Vec<Documents> =
        read::all(servers, false).await.into_iter().map(|answer| answer.documents).collect();
    let metadata = Metadata { as_of: timestamp(Timestamp::now()), ..Metadata::default() };
    let list = List::new("CheckList", merge(&documents), metadata, usize::MAX);
    parts.add("check.json", document(Output::Json, &list));
}

async fn of_server(parts: &mut Parts, server: &Server, folder: &str) {
    let first = text(server, "/readyz", &[("verbose", Some(""))]).await;
    let is_silent = first.as_ref().is_err_and(|failure| {
        failure.exit == Exit::TimedOut || failure.code == Some(Code::SERVER_UNREACHABLE)
    });
    parts.add(&format!("{folder}readyz.txt"), first);
    if is_silent {
        return parts
            .note(format!("{}: it does not answer, so nothing else was requested from it", server.url()));
    }
    parts.add(&format!("{folder}metrics.txt"), text(server, "/metrics", &[]).await);
    let documents = ROUTES.iter().filter(|route| !route.changes && route.path.starts_with("/debug/"));
    for route in documents.filter(|route| !WITHOUT.contains(&route.path)) {
        let limit = [("limit", LISTS.contains(&route.path).then_some(MAX_ITEMS))];
        let name = route.path.trim_start_matches("/debug/").replace('/', "-");
        parts.add(&format!("{folder}{name}.json"), text(server, route.path, &limit).await);
    }
}

async fn text(server: &Server, path: &str, query: &[(&str, Option<&str>)]) -> Result<String, CommandError> {
    let body = server.get(path, query).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Returns the archive, with one folder.
fn archive(parts: &[Part], now: Timestamp) -> std::io::Result<Vec<u8>> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for part in parts {
        let mut header = Header::new_gnu();
        header.set_size(part.content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(now.as_second()).unwrap_or(0));
        tar.append_data(&mut header, format!("tributary-bug-report/{}", part.name), part.content.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

/// Writes the archive, readable by its owner only.
pub(super) fn write(path: &Path, archive: &[u8]) -> Result<(), CommandError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let written = if path == Path::new("-") {
        std::io::stdout().write_all(archive)
    } else {
        let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(archive))
    };
    written.map_err(|e| CommandError::plain(format!("{} cannot be written: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_that_cannot_be_read_is_a_note_without_secrets() {
        let mut parts = Parts::default();
        parts.add("a.json", Err(CommandError::plain("refused token: s3cr3t-hunter2")));
        parts.add("b.json", Ok("x".to_owned()));
        let all = parts.finish();
        let names: Vec<&str> = all.iter().map(|part| &*part.name).collect();
        assert_eq!(names, ["b.json", "notes.txt"]);
        assert_eq!(all[1].content, "a.json: refused token: [redacted]\n");
    }

    #[test]
    fn parts_and_archive_are_bounded() {
        let mut parts = Parts::default();
        let large = "ä".repeat(MAX_PART);
        for number in 0..10 {
            parts.add(&format!("{number}.txt"), Ok(large.clone()));
        }
        let all = parts.finish();
        let bytes: usize = all.iter().map(|part| part.content.len()).sum();
        assert!(bytes <= MAX_ALL + 4096, "{bytes}");
        let notes = &all.last().unwrap().content;
        assert!(notes.contains("0.txt: cut to") && notes.contains("9.txt: left out"), "{notes}");
    }

    #[test]
    fn routes_that_are_left_out_exist_and_all_others_need_no_parameter() {
        for path in WITHOUT.iter().chain(&LISTS) {
            assert!(ROUTES.iter().any(|route| route.path == *path), "{path}");
        }
    }
}
