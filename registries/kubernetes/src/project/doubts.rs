//! What of a Service's annotations cannot be understood. Such a value counts for nothing, as with Istio, but not in
//! silence: derivation makes a condition of each of these lines.
//!
//! Called by the projection of a Service, which keeps the lines: nearly always none.

use std::sync::Arc;

use tributary_model::{Identity, Namespace};

use super::meta::RawMeta;
use super::namespace::TRAFFIC_DISTRIBUTION;
use super::service::{CANONICAL_ACCOUNTS, EXPORT_TO, NODE_SELECTOR};
use super::text::Pairs;

/// So many lines are kept of one Service, and so many characters of a value.
const MOST: usize = 8;
const SHOWN: usize = 64;

/// One line each, with the annotation, the value and what it should be.
pub(super) fn of(metadata: &RawMeta<'_>) -> Box<[Arc<str>]> {
    let words = |key| metadata.annotation(key).into_iter().flat_map(super::service::words);
    let exports = words(EXPORT_TO)
        .filter(|word| !is_export(word))
        .map(|word| doubt(EXPORT_TO, &word, "a namespace, `.`, `*` or `~`"));
    let accounts = words(CANONICAL_ACCOUNTS)
        .filter(|word| Identity::new(&**word).is_err())
        .map(|word| doubt(CANONICAL_ACCOUNTS, &word, "an identity"));
    let nodes = metadata
        .annotation(NODE_SELECTOR)
        .filter(|json| serde_json::from_str::<Pairs<'_>>(json).is_err())
        .map(|json| doubt(NODE_SELECTOR, json, "a JSON object of node labels"));
    let traffic = metadata
        .annotation(TRAFFIC_DISTRIBUTION)
        .filter(|text| !is_traffic(text))
        .map(|text| doubt(TRAFFIC_DISTRIBUTION, text, "PreferSameZone, PreferSameNode or PreferClose"));
    exports.chain(accounts).chain(nodes).chain(traffic).take(MOST).collect()
}

fn is_export(word: &str) -> bool {
    [".", "*", "~"].contains(&word) || Namespace::new(word).is_ok()
}

fn is_traffic(text: &str) -> bool {
    let known = ["", "Any", "PreferClose", "PreferSameZone", "PreferSameNode"];
    known.iter().any(|one| one.eq_ignore_ascii_case(text))
}

fn doubt(key: &str, value: &str, wanted: &str) -> Arc<str> {
    let shown: String = value.chars().take(SHOWN).collect();
    format!("annotation {key}: {shown:?} is not {wanted}, and counts for nothing").into()
}
