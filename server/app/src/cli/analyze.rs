//! `tributary analyze`: what is wrong with the policies of a directory or of a running server.

use std::fmt::Write as _;
use std::path::Path;

use super::console::one_line;
use super::get::document;
use super::table::{Tone, paint};
use super::{Console, Server};
use crate::analyze::{Finding, Severity, files, live, ordered};
use crate::args::{AnalyzeArgs, Output};
use crate::config::load;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Lists the findings. Ends with 3 if one is at least as bad as the threshold, 7 if a registry has not synced.
pub async fn run(
    args: &AnalyzeArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let answer = match &args.files {
        Some(root) => {
            live::Answer { findings: of_files(root, args, env, console).await?, ..live::Answer::default() }
        }
        None => {
            let server = Server::find(&args.server, env)?;
            live::findings(&server, args.namespace.as_deref()).await?
        }
    };
    let all = ordered(answer.findings, &args.suppress);
    console.data(&render(args.output, &all, console.color)?)?;
    if answer.remaining > 0 {
        console.note(&format!("{} objects are not examined; narrow them with -n", answer.remaining));
    }
    for registry in &answer.not_live {
        console.note(&format!("findings are of what was last read: registry {registry}"));
    }
    conclude(args, &all, answer.partial, console)
}

/// Returns the findings of a directory. One without objects is most likely not the one that was meant.
async fn of_files(
    root: &Path,
    args: &AnalyzeArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Vec<Finding>, CommandError> {
    let config = args.config.as_deref().map(|file| load(Some(file), env, &|_, _| Ok(()))).transpose()?;
    let declared = config.iter().flat_map(|loaded| files::declared_by(&loaded.config));
    let found = files::findings(root, args.elsewhere.iter().cloned().chain(declared).collect()).await?;
    if found.is_none() {
        console.note(&format!("{} has no file with an object that Tributary reads", root.display()));
    }
    Ok(found.unwrap_or_default())
}

fn conclude(
    args: &AnalyzeArgs,
    all: &[Finding],
    partial: bool,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let count = |severity| all.iter().filter(|one| one.severity == severity).count();
    let [errors, warnings, infos] = [Severity::Error, Severity::Warning, Severity::Info].map(count);
    if matches!(args.output, Output::Table | Output::Wide) {
        console.note(&format!("errors: {errors}, warnings: {warnings}, infos: {infos}"));
    }
    if all.iter().any(|one| one.severity >= args.threshold) {
        return Ok(Exit::No);
    }
    if partial {
        console.note("findings may be missing: a registry has not synced; see `tributary get registries`");
        return Ok(Exit::Partial);
    }
    Ok(Exit::Ok)
}

fn render(output: Output, all: &[Finding], color: bool) -> Result<String, CommandError> {
    match output {
        Output::Json | Output::Yaml => document(output, &all),
        Output::Name => Ok(all.iter().map(|one| format!("{} {}\n", one.code, one.object)).collect()),
        Output::Table | Output::Wide => {
            let wide = output == Output::Wide;
            Ok(all.iter().map(|one| line(one, wide, color)).collect())
        }
    }
}

/// Renders one finding as compilers do, so that editors and CI find the line.
fn line(one: &Finding, wide: bool, color: bool) -> String {
    let tone = match one.severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Info => Tone::Plain,
    };
    let position = if one.position.is_empty() { String::new() } else { format!("{}: ", one.position) };
    let severity = paint(one.severity.as_str(), tone, color);
    let rest = format!(" [{}] {} ({})", one.object, one.message, one.code);
    let mut out = format!("{}{severity}{}\n", one_line(&position), one_line(&rest));
    if wide && !one.next.is_empty() {
        let _ = writeln!(out, "    next: {}", one.next);
    }
    out
}
