//! The reference pages, made from the tables that the program itself uses. A test compares them
//! with `docs/reference`; `UPDATE_DOCS=1 cargo test -p tributary --test reference` rewrites them.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use serde_json::Value;
use tributary_model::Code;

use crate::admin::metrics;
use crate::admin::routes::{Access, ROUTES};
use crate::args::Cli;
use crate::config::layers::OTHER_VARIABLES;
use crate::config::{Config, schema};
use crate::exit::{CommandError, Exit};

/// The pages.
pub const PAGES: &[&str] =
    &["cli.md", "codes.md", "config.md", "config.schema.json", "metrics.md", "admin.md"];

const MADE: &str =
    "<!-- Made by the program: `UPDATE_DOCS=1 cargo test -p tributary --test reference` -->\n\n";

/// The text of a page.
pub fn page(name: &str) -> Result<String, CommandError> {
    match name {
        "cli.md" => Ok(cli()),
        "codes.md" => Ok(codes()),
        "config.md" => config(),
        "config.schema.json" => crate::cli::get::document(crate::args::Output::Json, &schema::schema()),
        "metrics.md" => Ok(metrics_page()),
        "admin.md" => Ok(admin()),
        _ => Err(CommandError {
            exit: Exit::Usage,
            code: None,
            message: format!("there is no page `{name}`; pages are: {}", PAGES.join(", ")),
            next: String::new(),
        }),
    }
}

fn cli() -> String {
    let mut out = format!("# Command line\n\n{MADE}");
    let mut root = Cli::command();
    root.build();
    commands(&mut out, &mut root, "");
    out.push_str("## Exit codes\n\nData goes to stdout, talk to stderr. Colour is left out when `NO_COLOR` is set or stdout is no terminal.\n\n| code | means |\n|---|---|\n");
    for (exit, means) in Exit::TABLE {
        let _ = writeln!(out, "| {} | {means} |", *exit as u8);
    }
    out
}

fn commands(out: &mut String, command: &mut clap::Command, above: &str) {
    let path = format!("{above}{}", command.get_name());
    let help = command.clone().bin_name(path.clone()).term_width(100).render_long_help();
    let help: Vec<String> = help.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = write!(out, "## {path}\n\n```text\n{}\n```\n\n", help.join("\n").trim_end());
    let below: Vec<String> =
        command.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_owned()).collect();
    for name in below {
        if let Some(sub) = command.find_subcommand_mut(&name) {
            commands(out, sub, &format!("{path} "));
        }
    }
}

fn codes() -> String {
    let mut out = format!(
        "# Codes\n\n{MADE}Errors, conditions, decisions and refusals carry one of these. A code never gets another meaning.\n\n| code | means | what to do |\n|---|---|---|\n"
    );
    for row in Code::TABLE {
        let _ = writeln!(out, "| TRB{:04} | {} | {} |", row.number, row.title, row.next);
    }
    out
}

fn metrics_page() -> String {
    let mut out = format!(
        "# Metrics\n\n{MADE}OpenMetrics on `/metrics` of the admin and the health listener. Values are computed when they are asked for.\n\n| metric | type | labels | tells |\n|---|---|---|---|\n"
    );
    for info in metrics::TABLE {
        let (kind, end) = match info.kind {
            metrics::Kind::Gauge => ("gauge", ""),
            metrics::Kind::Counter => ("counter", "_total"),
            metrics::Kind::Histogram => ("histogram", ""),
        };
        let _ = writeln!(
            out,
            "| `tributary_{}{end}` | {kind} | {} | {} |",
            info.name,
            info.labels.join(", "),
            info.help
        );
    }
    out
}

fn admin() -> String {
    let mut out = format!(
        "# Admin surface\n\n{MADE}Every route is read-only but those marked POST, which take nothing else. `/debug` is answered only to processes on the server's machine, through the admin listener, and only when the `Host` header names `localhost` or a loopback address. What is not in this table is not found.\n\n| path | who may ask | answers |\n|---|---|---|\n"
    );
    for route in ROUTES {
        let who = match route.access {
            Access::Anyone => "anyone",
            Access::Loopback => "this machine",
        };
        let post = if route.changes { "POST " } else { "" };
        let _ = writeln!(out, "| {post}`{}` | {who} | {} |", route.path, route.about);
    }
    out
}

fn config() -> Result<String, CommandError> {
    let schema = schema::schema();
    let mut out = format!(
        "# Configuration\n\n{MADE}One YAML file, given by `--config` or `TRIBUTARY_CONFIG`. A flag goes over a variable, a variable over the file, the file over the default. A field that is not known is an error. The file is read again when it changes: `registries`, `settings`, `aliases`, `merge` and `log.level` are taken at once, other changes are reported as needing a restart, and a file that is not valid changes nothing.\n\n[config.schema.json](config.schema.json) is the JSON Schema.\n\n## Fields\n\n| field | default | tells |\n|---|---|---|\n"
    );
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    fields(&mut out, &schema, &schema, "", Some(&defaults));
    out.push_str("\n## Variables\n\n`TRIBUTARY_` and the field's path in upper case, `__` between its parts: `TRIBUTARY_XDS__LISTEN`, `TRIBUTARY_START__FIRST_SYNC_TIMEOUT`. Lists are written as YAML: `TRIBUTARY_REGISTRIES='[{kind: file, path: /etc/services}]'`.\n\n| variable | is |\n|---|---|\n");
    for (name, is) in OTHER_VARIABLES {
        let _ = writeln!(out, "| `{name}` | {is} |");
    }
    out.push_str("\n## Variables of an istiod\n\nThose that are set are told at start, as honoured or ignored; any `PILOT_` or `ISTIO_` variable that is not in this table is ignored.\n\n| variable | is |\n|---|---|\n");
    for (name, is) in crate::config::istio::rows() {
        let _ = writeln!(out, "| `{name}` | {is} |");
    }
    let text = crate::cli::get::document(crate::args::Output::Yaml, &Config::default())?;
    let _ = write!(out, "\n## Defaults\n\n```yaml\n{}\n```\n", text.trim_end());
    Ok(out)
}

fn fields(out: &mut String, root: &Value, at: &Value, path: &str, default: Option<&Value>) {
    let Some(properties) = schema::resolve(root, at).get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, field) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = default.and_then(|d| d.get(name));
        let target = schema::resolve(root, field);
        let about = field.get("description").or_else(|| target.get("description")).and_then(Value::as_str);
        let shown = match value {
            None | Some(Value::Null | Value::Object(_)) => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("`{other}`"),
        };
        let about = about.unwrap_or_default().replace('\n', " ");
        let _ = writeln!(out, "| `{path}` | {shown} | {about}{} |", words(target));
        fields(out, root, target, &path, value);
        if let Some(items) = target.get("items") {
            fields(out, root, items, &format!("{path}[]"), None);
        }
    }
}

/// The words that an enumeration takes.
fn words(target: &Value) -> String {
    let each = target.get("oneOf").and_then(Value::as_array);
    let words: Vec<&str> = each.into_iter().flatten().filter_map(|one| one.get("const")?.as_str()).collect();
    if words.is_empty() { String::new() } else { format!(" One of: `{}`.", words.join("`, `")) }
}
