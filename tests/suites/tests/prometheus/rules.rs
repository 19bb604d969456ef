//! The rule file and the dashboards as the tests use them: spans are shortened, variables are replaced.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Span of every rate and difference.
const WINDOW: &str = "8s";
/// Thresholds that are times: alert, part of its query, replacement.
const TIMES: [(&str, &str, &str); 2] =
    [("TributaryRegistryStale", "> 900", "> 20"), (NOT_WRITTEN, "< 300", "< 8")];
/// A busy disk delays a commit of a healthy server for seconds, so this alert waits longer than the others.
const NOT_WRITTEN: &str = "TributaryJournalNotWritten";

pub(crate) fn file() -> PathBuf {
    deploy().join("alerts/tributary.yaml")
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/deploy")
}

/// Returns the rule file with each rule changed.
fn changed(mut change: impl FnMut(&mut Value) -> Result<()>) -> Result<Value> {
    let mut file: Value = serde_saphyr::from_str(&std::fs::read_to_string(file())?)?;
    let groups = file["groups"].as_array_mut().context("no groups")?;
    let rules = groups.iter_mut().filter_map(|group| group["rules"].as_array_mut()).flatten();
    rules.into_iter().try_for_each(&mut change)?;
    Ok(file)
}

/// Returns the rule file without texts, which tests of promtool would have to repeat.
pub(crate) fn without_texts() -> Result<Value> {
    changed(|rule| {
        rule.as_object_mut().context("a rule is a map")?.remove("annotations");
        Ok(())
    })
}

/// Returns the rule file with short spans.
pub(crate) fn shortened() -> Result<Value> {
    changed(|rule| {
        let name = rule["alert"].as_str().context("a rule without a name")?.to_owned();
        let mut query = with_window(rule["expr"].as_str().context("a rule without a query")?);
        for (_, long, short) in TIMES.iter().filter(|(alert, ..)| *alert == name) {
            ensure!(query.matches(long).count() == 1, "{name}: {query} does not have {long}");
            query = query.replace(long, short);
        }
        let holds = if name == NOT_WRITTEN { "8s" } else { "1s" };
        (rule["expr"], rule["for"]) = (json!(query), json!(holds));
        Ok(())
    })
}

/// Replaces each span in brackets.
fn with_window(query: &str) -> String {
    let mut parts = query.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let rest = part.split_once(']').map_or("", |(_, rest)| rest);
        format!("{out}[{WINDOW}]{rest}")
    })
}

/// Returns the names of all alerts.
pub(crate) fn alerts() -> Result<Vec<String>> {
    let file = shortened()?;
    let groups = file["groups"].as_array().into_iter().flatten();
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    rules.map(|rule| Ok(rule["alert"].as_str().context("no name")?.to_owned())).collect()
}

/// Returns title and query of every target of the dashboards.
pub(crate) fn queries() -> Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(deploy().join("dashboards"))? {
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(entry?.path())?)?;
        for panel in dashboard["panels"].as_array().context("no panels")? {
            let title = format!("{}: {}", dashboard["title"], panel["title"]);
            for target in panel["targets"].as_array().context("no targets")? {
                let query = target["expr"].as_str().context("no query")?.replace("$__rate_interval", WINDOW);
                let variables = ["$job", "$namespace", "$instance", "$registry"];
                let query = variables.iter().fold(query, |query, variable| query.replace(variable, ".*"));
                ensure!(!query.contains('$'), "{title}: a variable is left in {query}");
                out.push((title.clone(), query));
            }
        }
    }
    Ok(out)
}

/// Returns a test of the rules that no fault can fire on purpose, for promtool: a defect, a bound of millions of objects, and
/// an adapter that ends with an error. Their series are made up.
pub(crate) fn unreachable_test() -> Value {
    let series = |name: &str, values: &str| json!({"series": format!("{name}"), "values": values});
    let alert = |name: &str, labels: Value| json!({"alertname": name, "eval_time": "20m", "exp_alerts": [{"exp_labels": labels}]});
    json!({
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [
                series("tributary_unexplained_empty_total{instance=\"a\", job=\"t\"}", "0x10 1x20"),
                series("tributary_core_events_total{event=\"refused\", instance=\"a\", job=\"t\"}", "0x10 7x20"),
                series("tributary_core_events_total{event=\"views\", instance=\"a\", job=\"t\"}", "0+9x30"),
                series("tributary_registry_failures{registry=\"r\", instance=\"a\", job=\"t\"}", "0 1 2 3x30"),
                series("tributary_unexplained_empty_total{instance=\"b\", job=\"t\"}", "0x30"),
                series("tributary_registry_failures{registry=\"r\", instance=\"b\", job=\"t\"}", "2x30"),
            ],
            "alert_rule_test": [
                alert("TributaryUnexplainedEmpty", json!({"severity": "critical", "instance": "a", "job": "t"})),
                alert(
                    "TributaryUpdatesRefused",
                    json!({"severity": "critical", "instance": "a", "job": "t", "event": "refused"}),
                ),
                alert(
                    "TributaryRegistryFailing",
                    json!({"severity": "warning", "instance": "a", "job": "t", "registry": "r"}),
                ),
            ],
        }],
    })
}

/// Alerts that [`unreachable_test`] fires.
pub(crate) const UNREACHABLE: [&str; 3] =
    ["TributaryUnexplainedEmpty", "TributaryUpdatesRefused", "TributaryRegistryFailing"];
