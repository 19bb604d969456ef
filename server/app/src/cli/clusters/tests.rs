//! What operators read: the table, the notes about sources, and the description of one cluster.

use super::*;
use crate::document::ClusterSourceItem;
use crate::document::clusters::{FaultItem, ObjectFaultItem};
use crate::document::registries::PartItem;

fn mk_item() -> ClusterItem {
    let part = PartItem {
        name: "pods".into(),
        state: "AuthFailed".into(),
        reason: "401".into(),
        since_millis_ago: 61_000,
        retry_in_millis: Some(9_000),
    };
    ClusterItem {
        name: "east".into(),
        state: "AuthFailed".into(),
        code: "TRB0708".into(),
        reason: "401".into(),
        since_millis_ago: Some(61_000),
        confirmed_millis_ago: Some(62_000),
        retry_in_millis: Some(9_000),
        source: "Secret s/east".into(),
        registries: vec![ClusterRegistryItem {
            name: "east".into(),
            generation: 3,
            next_generation: Some(4),
            parts: vec![part],
        }],
        services: 7,
        endpoints: 8,
        conditions: vec![ClusterConditionItem {
            kind: "Refused".into(),
            code: "TRB0702".into(),
            message: "Secret s/east2: exec is a program".into(),
        }],
        claims: vec![
            ClaimItem { object: "Secret s/east".into(), outcome: "Used".into(), faults: Vec::new() },
            ClaimItem {
                object: "Secret s/east2".into(),
                outcome: "Refused".into(),
                faults: vec![FaultItem {
                    code: "TRB0702".into(),
                    field: "users[0].user.username".into(),
                    message: "is a password".into(),
                    opt_in: "remotes.allowKubeconfig: [basic]".into(),
                }],
            },
        ],
        ..ClusterItem::default()
    }
}

#[test]
fn line_has_state_times_and_every_reason() {
    let text = table(&[mk_item()], false).render(true, false);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "NAME STATE SINCE CONFIRMED NEXT TRY SERVICES ENDPOINTS EXPIRES SOURCE REASON");
    let reason = "401 (TRB0708); Secret s/east2: exec is a program (TRB0702)";
    assert_eq!(lines[1], format!("east AuthFailed 61s 62s 9s 7 8 - Secret s/east {reason}"));
    let wide = table(&[mk_item()], true).render(true, false);
    assert!(wide.contains("NEXT RUN") && wide.trim_end().ends_with("Refused"), "{wide}");
}

#[test]
fn conditions_of_a_live_cluster_come_before_its_remark() {
    let item =
        ClusterItem { state: "Live".into(), code: String::new(), reason: "no nodes".into(), ..mk_item() };
    assert_eq!(reason(&item), "Secret s/east2: exec is a program (TRB0702); no nodes");
}

#[test]
fn refusal_that_is_the_state_is_not_repeated() {
    let mut item = mk_item();
    item.reason = item.conditions[0].message.clone();
    item.code = "TRB0702".into();
    assert_eq!(reason(&item), "Secret s/east2: exec is a program (TRB0702)");
}

#[test]
fn description_has_fields_conditions_declarations_and_kinds() {
    let text = described(&mk_item(), Timestamp::UNIX_EPOCH, false);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for want in [
        "Name: east",
        "State: AuthFailed",
        "Reason: 401 (TRB0708)",
        "Confirmed: 62s ago",
        "Registries: east (generation 3, 4 is being read)",
        "CONDITION CODE MESSAGE",
        "Secret s/east Used - - -",
        "Secret s/east2 Refused users[0].user.username is a password (TRB0702) remotes.allowKubeconfig: [basic]",
        "east pods AuthFailed 61s 9s 401",
    ] {
        assert!(lines.iter().any(|line| line == want), "no {want:?} in {text}");
    }
    let quiet =
        ClusterItem { claims: Vec::new(), conditions: Vec::new(), registries: Vec::new(), ..mk_item() };
    assert_eq!(described(&quiet, Timestamp::UNIX_EPOCH, false).lines().count(), 17, "no empty table");
}

#[test]
fn identity_that_cannot_be_read_is_shown_as_such() {
    let item = ClusterItem { unverified: true, ..ClusterItem::default() };
    let text = described(&item, Timestamp::UNIX_EPOCH, false);
    assert!(text.lines().any(|line| line.starts_with("Identity:") && line.ends_with("unverified")), "{text}");
    assert!(table(&[item], true).render(true, false).contains("unverified"));
}

#[test]
fn notes_name_sources_and_faults_once() {
    let fault =
        ObjectFaultItem { object: "Secret s/a".into(), code: "TRB0706".into(), message: "no ID".into() };
    let source = |name: &str, state: &str, reason: &str| ClusterSourceItem {
        name: name.into(),
        state: state.into(),
        reason: reason.into(),
        faults: vec![fault.clone()],
        ..ClusterSourceItem::default()
    };
    let sources = vec![source("Secrets a", "Synced", ""), source("Secrets b", "Failed", "tried again")];
    let metadata = Metadata { sources, ..Metadata::default() };
    assert_eq!(notes(&metadata), ["Secrets b: Failed: tried again", "Secret s/a: no ID (TRB0706)"]);
    let text = super::sources(&metadata, true, false);
    assert!(text.starts_with("\nSOURCE") && text.contains("Secrets a   Synced"), "{text}");
}
