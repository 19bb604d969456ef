//! Dashboards and alerts against the program: every metric, label and ending exists, every alert has its runbook, and every command of
//! a runbook is one of the program's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use serde_json::Value;
use tributary_app::admin::metrics::{Info, Kind, PROCESS, TABLE};
use tributary_app::args::Cli;

/// Labels that Prometheus adds to each sample of a target.
const TARGET: [&str; 4] = ["job", "instance", "namespace", "pod"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn dashboards() -> Vec<(String, Value)> {
    let folder = std::fs::read_dir(deploy().join("dashboards")).unwrap();
    let mut out: Vec<_> = folder
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), serde_json::from_str(&text).unwrap())
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Returns the rules of the rule file.
fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(deploy().join("alerts/tributary.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Labels of each name that a query may use.
fn names() -> BTreeMap<String, Vec<&'static str>> {
    let mut out = BTreeMap::new();
    for info in TABLE.iter().chain(PROCESS) {
        for (ending, more) in endings(info) {
            let labels = info.labels.iter().copied().chain(TARGET).chain(more).collect();
            out.insert(format!("{}{ending}", info.in_text()), labels);
        }
    }
    out
}

fn endings(info: &Info) -> Vec<(&'static str, Option<&'static str>)> {
    match info.kind {
        Kind::Histogram => vec![("_bucket", Some("le")), ("_sum", None), ("_count", None)],
        _ => vec![("", None)],
    }
}

/// Splits a query into names and single characters; texts in quotes are left out.
fn tokens(query: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    for (at, part) in query.split('"').enumerate() {
        if at % 2 == 1 {
            out.push("\"".to_owned());
            continue;
        }
        let mut joins = false;
        for c in part.chars() {
            match out.last_mut() {
                Some(last) if is_name(c) && joins => last.push(c),
                _ if !c.is_whitespace() => out.push(c.to_string()),
                _ => {}
            }
            joins = is_name(c);
        }
    }
    out
}

/// Returns the labels in the list that starts after `at`.
fn list(tokens: &[String], at: usize, (open, close): (&str, &str)) -> Vec<String> {
    if tokens.get(at).map(String::as_str) != Some(open) {
        return Vec::new();
    }
    let inside = tokens[at + 1..].iter().take_while(|token| *token != close);
    inside.filter(|token| token.starts_with(|c: char| c.is_alphabetic())).cloned().collect()
}

/// Returns the faults of a query.
fn faults(query: &str) -> Vec<String> {
    let (names, tokens, mut out) = (names(), tokens(query), Vec::new());
    let mut known = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if !["tributary_", "process_", "pilot_"].iter().any(|prefix| token.starts_with(prefix)) {
            continue;
        }
        let Some(labels) = names.get(token) else {
            out.push(format!("no metric {token}"));
            continue;
        };
        known.extend(labels.iter().copied());
        let used = list(&tokens, at + 1, ("{", "}"));
        out.extend(
            used.iter()
                .filter(|label| !labels.contains(&label.as_str()))
                .map(|label| format!("{token} has no label {label}")),
        );
    }
    for (at, token) in tokens.iter().enumerate() {
        if !["by", "on", "without", "ignoring"].contains(&token.as_str()) {
            continue;
        }
        let used = list(&tokens, at + 1, ("(", ")"));
        out.extend(
            used.iter()
                .filter(|label| !known.contains(label.as_str()))
                .map(|label| format!("no metric has label {label}")),
        );
    }
    if known.is_empty() {
        out.push("no metric at all".to_owned());
    }
    out
}

/// Returns the labels that a text for people uses: `{{label}}` or `$labels.label`.
fn shown(text: &str) -> Vec<String> {
    let name =
        |rest: &str| rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let legends = text.split("{{").skip(1).map(name);
    let labels = text.split("$labels.").skip(1).map(name);
    legends.chain(labels).filter(|label: &String| !label.is_empty()).collect()
}

/// Whether a query keeps a label: a sum keeps those that it names.
fn keeps(query: &str, label: &str) -> bool {
    let tokens = tokens(query);
    let names = names();
    let sums = tokens.iter().enumerate().filter(|(_, token)| *token == "by");
    let mut lists = sums.map(|(at, _)| list(&tokens, at + 1, ("(", ")"))).peekable();
    if lists.peek().is_some() {
        return lists.any(|list| list.iter().any(|own| own == label));
    }
    let without = tokens.iter().position(|token| token == "without");
    let removed = without.map(|at| list(&tokens, at + 1, ("(", ")"))).unwrap_or_default();
    let is_of = |token: &String| names.get(token).is_some_and(|labels| labels.contains(&label));
    tokens.iter().any(is_of) && !removed.iter().any(|own| own == label)
}

#[test]
fn queries_of_dashboards_use_metrics_and_labels_that_exist() {
    let all = dashboards();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["clients", "overview", "process", "push", "registries"]);
    for (name, dashboard) in &all {
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let has = |wanted: &str| variables.iter().any(|variable| variable["name"] == wanted);
        assert!(["datasource", "job", "namespace", "instance"].iter().all(|wanted| has(wanted)), "{name}");
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = format!("{name}: {}", text(panel, "title"));
            assert!(text(panel, "description").ends_with('.'), "{title} has no description");
            assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty(), "{title} has no unit");
            for target in panel["targets"].as_array().unwrap() {
                let query = text(target, "expr");
                assert_eq!(faults(query), Vec::<String>::new(), "{title}: {query}");
                assert!(!query.contains("$registry") || has("registry"), "{title}: no variable registry");
                for label in shown(text(target, "legendFormat")) {
                    assert!(keeps(query, &label), "{title}: {query} loses {label}");
                }
            }
        }
    }
}

#[test]
fn every_metric_is_on_a_dashboard() {
    let all: String = dashboards().iter().map(|(_, dashboard)| dashboard.to_string()).collect();
    let missing: Vec<String> =
        TABLE.iter().chain(PROCESS).map(|info| info.family()).filter(|name| !all.contains(name)).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn alerts_use_metrics_that_exist_and_name_their_object() {
    for rule in rules() {
        let (name, query) = (text(&rule, "alert"), text(&rule, "expr"));
        assert_eq!(faults(query), Vec::<String>::new(), "{name}");
        assert!(["critical", "warning", "info"].contains(&text(&rule["labels"], "severity")), "{name}");
        for part in ["summary", "description"] {
            let written = text(&rule["annotations"], part);
            for label in shown(written).iter().filter(|label| *label != "value") {
                assert!(keeps(query, label), "{name}: {part} uses {label}, which its query loses");
            }
            assert!(
                written.contains("$labels.") || name == "TributaryAbsent",
                "{name}: {part} names no object"
            );
        }
    }
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/alerts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let alerts: Vec<String> = rules().iter().map(|rule| text(rule, "alert").to_owned()).collect();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let headings: Vec<&str> = sections.iter().map(|section| section.lines().next().unwrap()).collect();
    assert_eq!(alerts, headings, "the alerts and the headings, in one order");
    for (section, name) in sections.iter().zip(&headings) {
        assert!(section.contains("\n- Look"), "{name}: how to look is missing");
        assert!(
            section.contains("\n- Do:") || section.contains("Look and do:"),
            "{name}: what to do is missing"
        );
    }
    for rule in rules() {
        let (page, anchor) = text(&rule["annotations"], "runbook_url").split_once('#').unwrap();
        let name = text(&rule, "alert").to_lowercase();
        assert_eq!((page, anchor), ("docs/reference/alerts.md", name.as_str()));
    }
    let quotes = page.split('`').skip(1).step_by(2);
    for command in quotes.filter_map(|quote| quote.strip_prefix("tributary ")) {
        assert!(is_command(command), "`tributary {command}` is no command");
    }
}

/// Whether a line begins with subcommands, as far as there are any, and its flags exist.
fn is_command(line: &str) -> bool {
    let mut root = Cli::command();
    root.build();
    let mut at = &root;
    for part in line.split(' ') {
        let is_flag = |name: &str| at.get_arguments().any(|arg| arg.get_long() == Some(name));
        if let Some(name) = part.strip_prefix("--") {
            if !is_flag(name) {
                return false;
            }
        } else if at.has_subcommands() {
            let Some(next) = at.find_subcommand(part) else { return false };
            at = next;
        }
    }
    !at.has_subcommands()
}

#[test]
fn faults_of_queries_are_found() {
    let is_faulty = |query: &str| !faults(query).is_empty();
    assert!(!is_faulty("sum by (registry) (tributary_services{job=~\"$job\"})"));
    for query in [
        "tributary_service",
        "tributary_services_total",
        "tributary_services{cluster=\"x\"}",
        "sum by (cluster) (tributary_services)",
        "rate(tributary_xds_nacks[5m])",
        "tributary_convergence_seconds",
        "tributary_convergence_seconds_bucket{lane=\"a\"}",
        "up",
    ] {
        assert!(is_faulty(query), "{query}");
    }
    assert!(!keeps("sum by (type) (tributary_xds_nacked)", "instance"));
}
