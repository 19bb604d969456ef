//! The rules of a DestinationRule: host, subsets, selection, connections, ejection and TLS. Those of load balancers are
//! in `load_balancer`.

use std::collections::BTreeMap;

use tributary_model::{Code, HostPattern, LocalitySetting, Namespace, Subset};

use super::limits::refuse_longer;
use super::load_balancer::{self, refuse};
use super::{names, service_entry};
use crate::document::traffic_policy::{ClientTls, TlsMode, TrafficPolicy};
use crate::document::{DestinationRule, Text};
use crate::read::fault::{Faults, clip};

pub(super) type Rule = fn(&DestinationRule, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("rule_names_a_host", rule_names_a_host),
    ("rule_size_is_within_limits", rule_size_is_within_limits),
    ("rule_selector_is_valid", rule_selector_is_valid),
    ("rule_is_exported_to_namespaces", rule_is_exported_to_namespaces),
    ("subsets_have_names", subsets_have_names),
    ("subset_labels_are_valid", subset_labels_are_valid),
    ("policies_have_a_setting", policies_have_a_setting),
    ("port_settings_name_a_port", port_settings_name_a_port),
    ("balancers_have_one_algorithm", load_balancer::balancers_have_one_algorithm),
    ("hashes_have_one_key", load_balancer::hashes_have_one_key),
    ("hash_keys_are_named", load_balancer::hash_keys_are_named),
    ("hash_tables_have_a_size", load_balancer::hash_tables_have_a_size),
    ("warmups_have_a_duration", load_balancer::warmups_have_a_duration),
    ("localities_are_distributed_or_fail_over", load_balancer::localities_are_distributed_or_fail_over),
    ("shares_add_up_to_100", load_balancer::shares_add_up_to_100),
    ("shares_have_separate_places", load_balancer::shares_have_separate_places),
    ("regions_fail_over_to_others", load_balancer::regions_fail_over_to_others),
    ("failover_labels_are_named", load_balancer::failover_labels_are_named),
    ("pools_have_a_part", pools_have_a_part),
    ("pools_choose_one_version", pools_choose_one_version),
    ("local_failures_are_split", local_failures_are_split),
    ("mutual_tls_names_certificate_and_key", mutual_tls_names_certificate_and_key),
    ("insecure_tls_verifies_nothing", insecure_tls_verifies_nothing),
    ("tls_names_files_and_a_host", tls_names_files_and_a_host),
];

/// Maximum number of items in each list of a DestinationRule.
pub(super) const MOST_SUBSETS: usize = 256;
pub(super) const MOST_PORTS: usize = 512;
pub(super) const MOST_ITEMS: usize = LocalitySetting::MOST_ITEMS;
/// Most bytes of a file's path, and of the name of a server that a client requests.
const MOST_PATH: usize = 4096;
const MOST_SNI: usize = 255;

fn rule_names_a_host(rule: &DestinationRule, faults: &mut Faults) {
    match &rule.host {
        None => faults.refuse(Code::MISSING_FIELD, rule.at.at, "spec.host is missing; add it"),
        Some(host) => {
            if let Err(error) = HostPattern::new(&host.value) {
                let message = format!(
                    "spec.host {:?} {}; write a DNS name, optionally with a wildcard in front, or `*`",
                    clip(&host.value),
                    error.why
                );
                faults.refuse(Code::INVALID_HOST, host.at, message);
            }
        }
    }
}

fn rule_size_is_within_limits(rule: &DestinationRule, faults: &mut Faults) {
    let own = [
        ("spec.subsets".to_owned(), rule.subsets.len(), MOST_SUBSETS),
        ("spec.exportTo".to_owned(), rule.export_to.len(), MOST_ITEMS),
    ];
    let inner = rule.policies().flat_map(|(path, policy)| {
        let lists = load_balancer::lists(policy);
        let ports = ("portLevelSettings", policy.ports.len(), MOST_PORTS);
        let names = policy.tls.as_ref().map_or(0, |tls| tls.settings.names.len());
        let all = lists.into_iter().chain([ports, ("tls.subjectAltNames", names, MOST_ITEMS)]);
        all.map(|(name, have, most)| (format!("{path}.{name}"), have, most)).collect::<Vec<_>>()
    });
    refuse_longer(own.into_iter().chain(inner), rule.at.at, "split the rule, or remove some", faults);
}

fn rule_selector_is_valid(rule: &DestinationRule, faults: &mut Faults) {
    if let Some(selector) = &rule.selector {
        names::labels(selector, "spec.workloadSelector.matchLabels", faults);
    }
}

/// Unlike a service, a rule cannot be hidden from all clients.
fn rule_is_exported_to_namespaces(rule: &DestinationRule, faults: &mut Faults) {
    for (i, item) in rule.export_to.iter().enumerate() {
        if !matches!(&*item.value, "*" | ".") && !is_namespace(&item.value) {
            let message = format!(
                "spec.exportTo[{i}] {:?} is not valid; write `*`, `.` or a namespace",
                clip(&item.value)
            );
            faults.refuse(Code::INVALID_NAME, item.at, message);
        }
    }
}

fn is_namespace(text: &str) -> bool {
    text != "~" && Namespace::new(text).is_ok()
}

/// A rule with a selector concerns clients of its own namespace only.
pub(super) fn selecting_rule_stays_in_its_namespace(
    rule: &DestinationRule,
    own: &Namespace,
    faults: &mut Faults,
) {
    if rule.selector.is_none() {
        return;
    }
    let others = rule.export_to.iter().enumerate();
    let others = others.filter(|(_, item)| &*item.value != "." && &*item.value != own.as_str());
    for (i, item) in others {
        let message = format!(
            "spec.exportTo[{i}] {:?} is not the rule's namespace, to which a workloadSelector limits it; write `.`",
            clip(&item.value)
        );
        faults.refuse(Code::VALUE_INVALID, item.at, message);
    }
}

fn subsets_have_names(rule: &DestinationRule, faults: &mut Faults) {
    let mut seen = BTreeMap::new();
    for (i, subset) in rule.subsets.iter().enumerate() {
        let Some(name) = &subset.name else {
            let message = format!("spec.subsets[{i}].name is missing; add it");
            faults.refuse(Code::MISSING_FIELD, subset.at.at, message);
            continue;
        };
        if Subset::new(&name.value).is_none() {
            let message = format!(
                "spec.subsets[{i}].name {:?} is not valid; use up to 63 letters, digits and `-`",
                clip(&name.value)
            );
            faults.refuse(Code::INVALID_NAME, name.at, message);
        } else if let Some(first) = seen.insert(&*name.value, i) {
            let message = format!(
                "spec.subsets[{i}].name {:?} is that of spec.subsets[{first}]; give it its own",
                clip(&name.value)
            );
            faults.refuse(Code::INVALID_NAME, name.at, message);
        }
    }
}

fn subset_labels_are_valid(rule: &DestinationRule, faults: &mut Faults) {
    for (i, subset) in rule.subsets.iter().enumerate() {
        names::labels(&subset.labels, &format!("spec.subsets[{i}].labels"), faults);
    }
}

fn policies_have_a_setting(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies().filter(|(_, policy)| is_empty(policy)) {
        let fix = "add loadBalancer, connectionPool, outlierDetection or tls";
        faults.refuse(Code::MISSING_FIELD, policy.at.at, format!("{path} has no settings; {fix}"));
    }
}

fn is_empty(policy: &TrafficPolicy) -> bool {
    policy.balancer.is_none()
        && policy.pool.is_none()
        && policy.outliers.is_none()
        && policy.tls.is_none()
        && policy.ports.is_empty()
        && !policy.has_ignored
}

fn port_settings_name_a_port(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        for (i, port) in policy.ports.iter().enumerate() {
            let path = format!("{path}.portLevelSettings[{i}].port.number");
            match &port.number {
                Some(number) => service_entry::number(number, &path, faults),
                None => {
                    let at = port.policy.at.at;
                    faults.refuse(Code::MISSING_FIELD, at, format!("{path} is missing; add it"));
                }
            }
        }
    }
}

fn pools_have_a_part(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let empty = policy.pool.as_ref().filter(|pool| pool.tcp.is_none() && pool.http.is_none());
        if let Some(pool) = empty {
            let message = format!("{path}.connectionPool has neither tcp nor http; add one");
            faults.refuse(Code::MISSING_FIELD, pool.at.at, message);
        }
    }
}

fn pools_choose_one_version(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let http = policy.pool.as_ref().and_then(|pool| pool.http.as_ref()).filter(|http| http.upgrades);
        let keeps = http.and_then(|http| http.keeps_version).filter(|keeps| keeps.value);
        if let Some(keeps) = keeps {
            let fix = "contradicts h2UpgradePolicy UPGRADE; remove one of them";
            refuse(faults, keeps.at, &format!("{path}.connectionPool.http.useClientProtocol {fix}"));
        }
    }
}

fn local_failures_are_split(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let outliers = policy.outliers.as_ref().filter(|outliers| !outliers.settings.splits_local);
        let failures = outliers.and_then(|outliers| outliers.local_failures);
        if let Some(failures) = failures.filter(|failures| failures.value > 0) {
            let path = format!("{path}.outlierDetection.consecutiveLocalOriginFailures");
            let fix = "needs splitExternalLocalOriginErrors; set it to true, or remove this field";
            refuse(faults, failures.at, &format!("{path} {fix}"));
        }
    }
}

fn mutual_tls_names_certificate_and_key(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let Some(tls) = policy.tls.as_ref().filter(|tls| tls.mode == TlsMode::Mutual) else { continue };
        let parts = [("clientCertificate", &tls.certificate), ("privateKey", &tls.key)];
        for (name, _) in parts.into_iter().filter(|(_, file)| file.is_none()) {
            let message = format!("{path}.tls.{name} is missing; add the path of a file of the client");
            faults.refuse(Code::MISSING_FIELD, tls.at.at, message);
        }
    }
}

/// A secret's name joins the paths of certificate and key by `~`, and Envoy takes no longer name of a server.
fn tls_names_files_and_a_host(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let Some(tls) = policy.tls.as_ref().filter(|tls| tls.mode != TlsMode::Disable) else { continue };
        let text = |text: Option<&Text>| text.map(|text| text.value.clone());
        let files = [
            ("clientCertificate", text(tls.certificate.as_ref()), true),
            ("privateKey", text(tls.key.as_ref()), true),
            ("caCertificates", tls.settings.authorities.clone(), false),
            ("caCrl", tls.settings.revoked.clone(), false),
        ];
        for (name, file, is_joined) in files {
            let is_path = |file: &str| file.len() <= MOST_PATH && !file.contains(char::is_control);
            if file.is_some_and(|file| !is_path(&file) || is_joined && file.contains('~')) {
                let fix = "is no path of up to 4,096 bytes without control characters and `~`; correct it";
                refuse(faults, tls.at.at, &format!("{path}.tls.{name} {fix}"));
            }
        }
        if tls.settings.sni.as_ref().is_some_and(|sni| sni.len() > MOST_SNI) {
            refuse(faults, tls.at.at, &format!("{path}.tls.sni has more than 255 bytes; name a host"));
        }
    }
}

fn insecure_tls_verifies_nothing(rule: &DestinationRule, faults: &mut Faults) {
    for (path, policy) in rule.policies() {
        let may_verify = |tls: &&ClientTls| matches!(tls.mode, TlsMode::Simple | TlsMode::Mutual);
        let Some(tls) = policy.tls.as_ref().filter(may_verify) else { continue };
        let verifies = tls.settings.authorities.is_some() || !tls.settings.names.is_empty();
        if tls.settings.insecure && verifies {
            let fix = "contradicts caCertificates and subjectAltNames; remove it, or both of them";
            refuse(faults, tls.insecure_at.at, &format!("{path}.tls.insecureSkipVerify {fix}"));
        }
    }
}
