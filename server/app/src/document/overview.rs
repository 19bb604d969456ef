//! The state of a server in one document: numbers, registries, and what is wrong, the worst first.
//!
//! The numbers come from sums that are kept where they change; nothing here walks services or endpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::registries::SourceItem;
use super::{API_VERSION, Metadata, RegistryItem, timestamp};
use crate::check::{CheckItem, Finding, ObjectName, Severity, worst_first};

/// Maximum number of findings in the document.
pub const MAX_FINDINGS: usize = 100;
/// Maximum number of registries in the document.
pub const MAX_REGISTRIES: usize = 1_000;

/// State of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `Overview`.
    pub kind: String,
    /// Metadata, as of a list; `remaining` counts registries beyond the limit.
    pub metadata: Metadata,
    /// The server.
    pub server: ServerItem,
    /// Whether clients are answered.
    pub ready: bool,
    /// Numbers.
    pub counts: OverviewCounts,
    /// Registries, ordered by name.
    pub registries: Vec<RegistryRow>,
    /// What is wrong, the worst first.
    pub findings: Vec<FindingItem>,
    /// Number of findings beyond the limit.
    #[serde(default)]
    pub more_findings: usize,
}

/// The server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerItem {
    /// Name among its replicas.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Time since its start, in milliseconds.
    pub uptime_millis: u64,
}

/// Numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverviewCounts {
    /// Services; one that several registries declare counts once.
    pub services: u64,
    /// Endpoints by health.
    pub endpoints: BTreeMap<String, u64>,
    /// Clients by state.
    pub clients: BTreeMap<String, u64>,
    /// Registries.
    pub registries: usize,
    /// Kubernetes clusters.
    pub clusters: usize,
    /// Held removals.
    pub held_removals: u64,
    /// Quarantined objects, and objects of kinds that are not served.
    pub problems: u64,
    /// Policies that are served.
    pub policies: usize,
}

/// Registry in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryRow {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// State, as in the list of registries.
    pub state: String,
    /// Reason of the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time since which a scope has this state; absent if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Time since its source last confirmed the served facts, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
    /// Number of services that it declares.
    pub services: u64,
    /// Number of its endpoints.
    pub endpoints: u64,
    /// Number of held removals.
    pub held: u64,
    /// Number of problems.
    pub problems: u64,
}

/// What is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingItem {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// Code from the table of codes; empty without one.
    pub code: String,
    /// Short text, equal for all findings of a sort.
    pub title: String,
    /// Object concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// What was found.
    pub message: String,
    /// Time since which it is so; absent if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// View of the console that shows the object, as KIND or KIND/NAME.
    pub view: String,
    /// What to do next.
    pub next: String,
}

/// Findings of a server at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worst {
    /// The first, the worst first.
    pub items: Vec<FindingItem>,
    /// Number of the others.
    pub more: usize,
}

impl Worst {
    /// Returns the worst findings of some checks.
    #[must_use]
    pub fn of(checks: &[CheckItem], now: Timestamp) -> Self {
        let all = worst_first(checks);
        let beyond: usize = checks.iter().map(|check| check.more).sum();
        let more = beyond + all.len().saturating_sub(MAX_FINDINGS);
        let items = all.into_iter().take(MAX_FINDINGS).map(|(_, finding)| item(finding, now));
        Self { items: items.collect(), more }
    }
}

fn item(finding: &Finding, now: Timestamp) -> FindingItem {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    FindingItem {
        severity: severity.to_owned(),
        code: finding.code.clone().unwrap_or_default(),
        title: finding.title.clone(),
        object: finding.object.clone(),
        message: finding.message.clone(),
        since: finding.since_millis_ago.and_then(|millis| ago(now, millis)),
        view: finding.view.clone(),
        next: finding.next.clone(),
    }
}

/// Returns the time of so many milliseconds ago.
fn ago(now: Timestamp, millis: u64) -> Option<String> {
    now.checked_sub(Duration::from_millis(millis)).ok().map(timestamp)
}

impl Overview {
    /// Returns the document without findings.
    #[must_use]
    pub fn new(mut metadata: Metadata, registries: &[RegistryItem], now: Timestamp) -> Self {
        metadata.remaining = registries.len().saturating_sub(MAX_REGISTRIES);
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Overview".to_owned(),
            metadata,
            registries: registries.iter().take(MAX_REGISTRIES).map(|one| row(one, now)).collect(),
            ..Self::default()
        }
    }
}

fn row(of: &RegistryItem, now: Timestamp) -> RegistryRow {
    let is_same = |source: &&SourceItem| source.state == of.state;
    let since = of.sources.iter().filter(is_same).filter_map(|source| source.since_millis_ago).max();
    RegistryRow {
        name: of.name.clone(),
        kind: of.kind.clone(),
        state: of.state.clone(),
        reason: of.reason.clone(),
        since: since.and_then(|millis| ago(now, millis)),
        confirmed_millis_ago: of.confirmed_millis_ago,
        services: of.services,
        endpoints: of.endpoints,
        held: of.held_total,
        problems: of.problems_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Found, table};

    #[test]
    fn worst_findings_come_first_and_the_others_are_counted() {
        let info = table::find("registries-live").unwrap();
        let many = |made: fn(&str, String) -> Finding, count: usize| {
            (0..count).map(move |at| made("not Live", format!("{at:03}")).since(Some(1_000))).collect()
        };
        let checks = [
            CheckItem::new(info, Found::new("", many(Finding::warning, 60))),
            CheckItem::new(info, Found::new("", many(Finding::error, 45))),
            CheckItem::new(info, Found::new("", many(Finding::info, 45))),
        ];
        let now = Timestamp::from_second(61).unwrap();
        let worst = Worst::of(&checks, now);
        let severities: Vec<&str> = worst.items.iter().map(|item| &*item.severity).collect();
        assert_eq!((severities.len(), worst.more), (MAX_FINDINGS, 60 - 50 + 50 + 45 + 45 - MAX_FINDINGS));
        assert_eq!((severities[44], severities[45], severities[95]), ("error", "warning", "info"));
        assert_eq!(worst.items[0].since.as_deref(), Some("1970-01-01T00:01:00.000Z"));
    }

    #[test]
    fn row_has_the_time_of_the_state_that_it_shows() {
        let source = |state: &str, millis| SourceItem {
            state: state.into(),
            since_millis_ago: Some(millis),
            ..SourceItem::default()
        };
        let sources =
            vec![source("Live", 50_000), source("Unreachable", 1_000), source("Unreachable", 2_000)];
        let of =
            RegistryItem { state: "Unreachable".into(), sources, held_total: 3, ..RegistryItem::default() };
        let now = Timestamp::from_second(62).unwrap();
        let overview = Overview::new(Metadata::default(), &vec![of; MAX_REGISTRIES + 1], now);
        assert_eq!((overview.registries.len(), overview.metadata.remaining), (MAX_REGISTRIES, 1));
        let row = &overview.registries[0];
        assert_eq!((row.since.as_deref(), row.held), (Some("1970-01-01T00:01:00.000Z"), 3));
    }
}
