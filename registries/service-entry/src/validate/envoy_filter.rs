//! The rules of an EnvoyFilter. Its values are checked when they are read.

use tributary_model::{ApplyTo, Code, VersionPattern};

use super::names;
use crate::document::envoy_filter::{ConfigPatch, EnvoyFilter, ObjectMatch};
use crate::read::decode::MOST_PATCHES;
use crate::read::fault::{Faults, clip};

pub(super) type Rule = fn(&EnvoyFilter, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("filter_size_is_within_limits", filter_size_is_within_limits),
    ("filter_selector_is_valid", filter_selector_is_valid),
    ("filter_priority_is_a_number", filter_priority_is_a_number),
    ("patches_are_complete", patches_are_complete),
    ("proxy_versions_are_patterns", proxy_versions_are_patterns),
    ("matches_fit_the_changed_part", matches_fit_the_changed_part),
    ("filter_matches_have_names", filter_matches_have_names),
];

/// Most entries of metadata that one patch compares.
const MOST_METADATA: usize = 64;
/// Filter that has filters of its own.
const CONNECTION_MANAGERS: [&str; 2] =
    ["envoy.filters.network.http_connection_manager", "envoy.http_connection_manager"];

fn patches(filter: &EnvoyFilter) -> impl Iterator<Item = (String, &ConfigPatch)> {
    filter.patches.iter().enumerate().map(|(i, patch)| (format!("spec.configPatches[{i}]"), patch))
}

fn filter_size_is_within_limits(filter: &EnvoyFilter, faults: &mut Faults) {
    if filter.patches.len() > MOST_PATCHES {
        let message = format!("spec.configPatches has more than {MOST_PATCHES} items; split the filter");
        faults.refuse(Code::DOCUMENT_TOO_LARGE, filter.at.at, message);
    }
    for (path, patch) in patches(filter).filter(|(_, patch)| patch.metadata.len() > MOST_METADATA) {
        let message =
            format!("{path}.match.proxy.metadata has more than {MOST_METADATA} entries; remove some");
        faults.refuse(Code::DOCUMENT_TOO_LARGE, patch.at.at, message);
    }
}

fn filter_selector_is_valid(filter: &EnvoyFilter, faults: &mut Faults) {
    if let Some(selector) = &filter.selector {
        names::labels(selector, "spec.workloadSelector.labels", faults);
    }
}

fn filter_priority_is_a_number(filter: &EnvoyFilter, faults: &mut Faults) {
    let Some(priority) = filter.priority else { return };
    if i32::try_from(priority.value).is_err() {
        let message = format!("spec.priority {} is not within the range of 32 bits", priority.value);
        faults.refuse(Code::VALUE_INVALID, priority.at, message);
    }
}

fn patches_are_complete(filter: &EnvoyFilter, faults: &mut Faults) {
    for (path, patch) in patches(filter) {
        let missing = if patch.apply_to.is_none() {
            Some((patch.at.at, "applyTo"))
        } else if let Some(at) = patch.patch {
            match (patch.operation, &patch.value) {
                (None, _) => Some((at.at, "patch.operation")),
                (Some(_), None) if !patch.removes() => Some((at.at, "patch.value")),
                _ => None,
            }
        } else {
            Some((patch.at.at, "patch"))
        };
        if let Some((at, field)) = missing {
            faults.refuse(Code::MISSING_FIELD, at, format!("{path}.{field} is missing; add it"));
        }
    }
}

fn proxy_versions_are_patterns(filter: &EnvoyFilter, faults: &mut Faults) {
    for (path, patch) in patches(filter) {
        let Some(text) = &patch.version else { continue };
        if let Err(why) = VersionPattern::new(&text.value) {
            let message = format!(
                "{path}.match.proxy.proxyVersion {:?} is not a regular expression: {why}",
                clip(&text.value)
            );
            faults.refuse(Code::PATCH_MATCH_INVALID, text.at, message);
        }
    }
}

fn matches_fit_the_changed_part(filter: &EnvoyFilter, faults: &mut Faults) {
    for (path, patch) in patches(filter).filter(|(_, patch)| !patch.is_for_waypoints()) {
        let Some(apply_to) = patch.apply_to else { continue };
        let fits = |object: &ObjectMatch| fits(apply_to.value, object);
        if let Some(object) = patch.objects.iter().find(|object| !fits(&object.value)) {
            let message = format!(
                "{path}.match.{} is no match for applyTo {}; remove it, or match an object of that kind",
                object.value.name(),
                apply_to.value.as_str()
            );
            faults.refuse(Code::PATCH_MATCH_INVALID, object.at, message);
        } else if let [_, second, ..] = patch.objects.as_slice() {
            let message = format!("{path}.match has objects of several kinds; keep one");
            faults.refuse(Code::PATCH_MATCH_INVALID, second.at, message);
        }
    }
}

/// Whether parts of this kind are found by a match of this kind.
const fn fits(apply_to: ApplyTo, object: &ObjectMatch) -> bool {
    match apply_to {
        ApplyTo::Listener
        | ApplyTo::FilterChain
        | ApplyTo::ListenerFilter
        | ApplyTo::NetworkFilter
        | ApplyTo::HttpFilter => matches!(object, ObjectMatch::Listener(_)),
        ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute => {
            matches!(object, ObjectMatch::Routes(_))
        }
        ApplyTo::Cluster => matches!(object, ObjectMatch::Cluster(_)),
        ApplyTo::ExtensionConfig | ApplyTo::Bootstrap => !matches!(object, ObjectMatch::Waypoint),
    }
}

fn filter_matches_have_names(filter: &EnvoyFilter, faults: &mut Faults) {
    for (path, patch) in patches(filter) {
        for object in &patch.objects {
            let ObjectMatch::Listener(listener) = &object.value else { continue };
            let Some(chain) = &listener.chain else { continue };
            let why = match (chain.filter.as_deref(), chain.sub_filter.as_deref()) {
                (Some(""), _) => "filter.name is missing; add it",
                (_, Some(_)) if patch.apply_to.is_some_and(|of| of.value != ApplyTo::HttpFilter) => {
                    "filter.subFilter is for applyTo HTTP_FILTER; remove it"
                }
                (Some(of), Some(_)) if !CONNECTION_MANAGERS.contains(&of) => {
                    "filter.subFilter is for the filter envoy.filters.network.http_connection_manager; remove it"
                }
                (_, Some("")) => "filter.subFilter.name is missing; add it",
                _ => continue,
            };
            let message = format!("{path}.match.listener.filterChain.{why}");
            faults.refuse(Code::PATCH_MATCH_INVALID, object.at, message);
        }
    }
}
