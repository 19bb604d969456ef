//! Rule of the start that a configuration gives.

use std::time::Duration;

use tributary_model::Mono;
use tributary_runtime::{Readiness, ReadyBecause, StartFacts};

use super::*;

fn mk_rule(registries: &str) -> StartRule {
    let text = format!("{{clusterId: home, registries: [{registries}]}}");
    let process = ProcessName { host: "home".to_owned(), id: 1 };
    runtime_config(&serde_saphyr::from_str(&text).unwrap(), &process).start
}

/// Returns the readiness a minute after the last of these registries synced, at 100 s.
fn judged(rule: &StartRule, synced: &[&str]) -> Option<ReadyBecause> {
    let synced: BTreeSet<RegistryName> = synced.iter().map(|name| RegistryName::new(name).unwrap()).collect();
    let at = |seconds| Mono::START.plus(Duration::from_secs(seconds));
    let config = rule.config_cluster.as_ref().filter(|name| synced.contains(*name));
    let facts = StartFacts { config_synced: config.map(|_| at(100)), synced, ..StartFacts::default() };
    rule.judge(&facts, at(160), &Readiness::default()).ready
}

const REMOTE: &str = "{kind: kubernetes, name: away, clusterId: away}";

#[test]
fn config_cluster_is_found_by_its_id_in_any_order() {
    for config in ["{kind: kubernetes, name: own, clusterId: home}", "{kind: kubernetes, name: own}"] {
        for registries in [format!("{REMOTE}, {config}"), format!("{config}, {REMOTE}")] {
            let rule = mk_rule(&registries);
            assert_eq!(rule.config_cluster.as_ref().map(RegistryName::as_str), Some("own"), "{registries}");
        }
    }
}

#[test]
fn remote_that_is_listed_first_and_down_delays_until_the_timeout() {
    let rule = mk_rule(&format!("{REMOTE}, {{kind: kubernetes, name: own}}"));
    assert_eq!(judged(&rule, &["own", "own-entries"]), Some(ReadyBecause::TimedOut));
}

#[test]
fn config_cluster_that_is_down_keeps_the_server_unready() {
    let rule = mk_rule(&format!("{REMOTE}, {{kind: kubernetes, name: own}}"));
    assert_eq!(judged(&rule, &["away", "away-entries"]), None);
}

#[test]
fn without_a_config_cluster_every_cluster_has_the_timeout() {
    let rule = mk_rule(&format!("{REMOTE}, {{kind: file, name: own, path: f}}"));
    assert_eq!(rule.config_cluster, None, "a registry of files is no cluster");
    assert_eq!(judged(&rule, &["own"]), Some(ReadyBecause::TimedOut));
}
