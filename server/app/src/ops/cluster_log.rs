//! Logs each change of state of a cluster that a Secret or a file declares, the end of a credential's life before it comes, and two
//! clusters that are one.
//!
//! Started with the server. It compares the table of clusters when a registry or the roster changed, and at an interval, since a
//! confirmation that does not come is no change. The state of a configured cluster is in the lines of its registries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::backend::LiveBackend;
use super::clusters::conditions::UID_NOT_ACCEPTED;
use super::clusters::renewal::NOT_RENEWED;
use super::clusters::same::SAME_CLUSTER;
use crate::document::ClusterItem;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Time from a change to the comparison: a list under way usually ends within it.
const SETTLE: Duration = Duration::from_secs(1);
/// Interval of comparisons without a change.
const INTERVAL: Duration = Duration::from_secs(10);

/// Line to log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// State of a cluster that changed.
    State { cluster: String, state: String, code: String, reason: String },
    /// Another credential was declared.
    Rotation { cluster: String, rotations: u64 },
    /// Condition that is logged.
    Condition { cluster: String, code: String, message: String },
}

/// What was logged last, by cluster.
#[derive(Debug, Default)]
struct ClusterLog(BTreeMap<String, Known>);

/// State, number of rotations, and messages of the conditions of a cluster.
#[derive(Debug, Default)]
struct Known {
    state: String,
    rotations: u64,
    messages: BTreeSet<String>,
}

/// Logs changes until the server stops.
pub async fn run(live: Arc<LiveBackend>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow(&live) => {}
    }
}

async fn follow(live: &LiveBackend) {
    let mut log = ClusterLog::default();
    let (mut registries, mut roster) = (live.handle.status_changes(), live.remotes.changes());
    loop {
        tokio::select! {
            changed = registries.next() => if changed.is_none() { return },
            changed = roster.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let at = Timestamp::now();
        let view = live.remotes.view();
        if view.roster.clusters.is_empty() && view.configured.is_empty() && log.0.is_empty() {
            continue;
        }
        tokio::time::sleep(SETTLE).await;
        let Ok(statuses) = live.handle.inspect(tributary_core::Core::status).await else { return };
        for line in log.changes(&live.clusters_of(&statuses).0) {
            write(&line);
            live.timeline.add(at, entry(&line));
        }
    }
}

impl ClusterLog {
    /// Returns the lines about what changed since the last call.
    fn changes(&mut self, all: &[ClusterItem]) -> Vec<Line> {
        let known = std::mem::take(&mut self.0);
        let mut lines = Vec::new();
        for one in all {
            let before = known.get(&one.name);
            let was = before.map_or("", |known| &*known.state);
            let logged: Vec<_> =
                one.conditions.iter().filter(|condition| is_logged(&condition.kind)).collect();
            // one that is read for the first time was logged when it was added
            let is_new = one.state == "Syncing" && was.is_empty() && one.reason.is_empty();
            if one.state != was && !is_new && is_declared(one) {
                lines.push(Line::State {
                    cluster: one.name.clone(),
                    state: one.state.clone(),
                    code: one.code.clone(),
                    reason: one.reason.clone(),
                });
            }
            if before.is_some_and(|known| known.rotations < one.rotations) {
                lines.push(Line::Rotation { cluster: one.name.clone(), rotations: one.rotations });
            }
            let is_known = |message| before.is_some_and(|known| known.messages.contains(message));
            for condition in logged.iter().filter(|condition| !is_known(&condition.message)) {
                let (cluster, code) = (one.name.clone(), condition.code.clone());
                lines.push(Line::Condition { cluster, code, message: condition.message.clone() });
            }
            let state = if is_new { String::new() } else { one.state.clone() };
            let messages = logged.into_iter().map(|condition| condition.message.clone()).collect();
            self.0.insert(one.name.clone(), Known { state, rotations: one.rotations, messages });
        }
        lines
    }
}

/// Returns true for conditions that the log of the remote clusters does not have as lines of its own.
fn is_logged(kind: &str) -> bool {
    kind.starts_with("Credential") || [SAME_CLUSTER, UID_NOT_ACCEPTED, NOT_RENEWED].contains(&kind)
}

fn is_declared(one: &ClusterItem) -> bool {
    one.source != "configuration"
}

fn write(line: &Line) {
    match line {
        Line::State { cluster, state, reason, .. } if state == "Live" => {
            tracing::info!(cluster, state, reason, "cluster changed its state");
        }
        Line::State { cluster, state, code, reason } => {
            tracing::warn!(cluster, state, code, reason, "cluster changed its state");
        }
        Line::Condition { cluster, code, message } => {
            tracing::warn!(cluster, code, "{message}");
        }
        // the task of the remote clusters logs it
        Line::Rotation { .. } => {}
    }
}

/// Returns the entry of the timeline.
fn entry(line: &Line) -> TimelineItem {
    let made = |kind, severity, cluster: &str, message: String| TimelineItem {
        kind,
        severity,
        object: TimelineObject::new("cluster", cluster),
        message,
        ..TimelineItem::default()
    };
    match line {
        Line::State { cluster, state, code, reason } => {
            let severity = if state == "Live" { TimelineSeverity::Info } else { TimelineSeverity::Warning };
            let message = if reason.is_empty() { state.clone() } else { format!("{state}: {reason}") };
            TimelineItem { code: code.clone(), ..made(TimelineKind::Cluster, severity, cluster, message) }
        }
        Line::Rotation { cluster, rotations } => {
            let message = format!("another credential was declared, number {} after the first", rotations);
            made(TimelineKind::Rotation, TimelineSeverity::Info, cluster, message)
        }
        Line::Condition { cluster, code, message } => {
            let made = made(TimelineKind::Cluster, TimelineSeverity::Warning, cluster, message.clone());
            TimelineItem { code: code.clone(), ..made }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::clusters::ClusterConditionItem;

    fn mk_item(state: &str, expiry: &str) -> ClusterItem {
        let condition = ClusterConditionItem {
            kind: "CredentialExpires".into(),
            code: "TRB0711".into(),
            message: expiry.into(),
        };
        ClusterItem {
            name: "east".into(),
            state: state.into(),
            source: "Secret s/east".into(),
            conditions: Some(condition).filter(|_| !expiry.is_empty()).into_iter().collect(),
            ..ClusterItem::default()
        }
    }

    #[test]
    fn each_change_of_a_state_is_one_line() {
        let mut log = ClusterLog::default();
        let states = ["Syncing", "Live", "Live", "Unreachable", "Unreachable", "Syncing", "Live"];
        let lines = states.map(|state| log.changes(&[mk_item(state, "")]).len());
        assert_eq!(lines, [0, 1, 0, 1, 0, 1, 1]);
        assert!(log.changes(&[]).is_empty());
        assert_eq!(log.changes(&[mk_item("Live", "")]).len(), 1, "a removed cluster is forgotten");
    }

    #[test]
    fn end_of_a_credential_is_logged_once_for_each_share() {
        let mut log = ClusterLog::default();
        log.changes(&[mk_item("Live", "")]);
        let lines =
            ["25 %", "25 %", "10 %", "", "25 %"].map(|text| log.changes(&[mk_item("Live", text)]).len());
        assert_eq!(lines, [1, 0, 1, 0, 1]);
    }

    #[test]
    fn each_rotation_is_an_entry_of_the_timeline() {
        let mut log = ClusterLog::default();
        let mut entries = |rotations| {
            let one = ClusterItem { rotations, ..mk_item("Live", "") };
            log.changes(&[one]).iter().map(entry).collect::<Vec<_>>()
        };
        let first = entries(1);
        assert_eq!((first.len(), first[0].kind, &*first[0].message), (1, TimelineKind::Cluster, "Live"));
        assert!(entries(1).is_empty());
        let rotated = entries(2);
        assert_eq!((rotated.len(), rotated[0].kind), (1, TimelineKind::Rotation));
        assert_eq!(rotated[0].object, TimelineObject::new("cluster", "east"));
    }

    #[test]
    fn configured_cluster_has_the_lines_of_its_registries() {
        let one = ClusterItem { source: "configuration".into(), ..mk_item("Unreachable", "") };
        assert!(ClusterLog::default().changes(&[one]).is_empty());
    }
}
