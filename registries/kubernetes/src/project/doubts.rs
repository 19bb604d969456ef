//! Invalid values in the annotations of a Service. As with Istio such a value is ignored, but it is reported: derivation
//! makes a condition of each line.
//!
//! The projection of a Service calls it and keeps the lines, usually none.

use std::sync::Arc;

use tributary_model::{Identity, Namespace};

use super::meta::RawMeta;
use super::namespace::TRAFFIC_DISTRIBUTION;
use super::service::{CANONICAL_ACCOUNTS, EXPORT_TO, NODE_SELECTOR};
use super::text::Pairs;

/// Largest number of lines of a Service, and of shown characters of a value.
const MOST: usize = 8;
const SHOWN: usize = 64;

/// Returns one line per invalid value, with the annotation, the value and the expected format.
pub(super) fn of(metadata: &RawMeta<'_>) -> Box<[Arc<str>]> {
    let items = |key| metadata.annotation(key).into_iter().flat_map(super::service::items);
    let exports = items(EXPORT_TO)
        .filter(|item| !is_export(item))
        .map(|item| doubt(EXPORT_TO, &item, "a namespace, `.`, `*` or `~`"));
    let accounts = items(CANONICAL_ACCOUNTS)
        .filter(|item| Identity::new(&**item).is_err())
        .map(|item| doubt(CANONICAL_ACCOUNTS, &item, "an identity"));
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

fn is_export(item: &str) -> bool {
    [".", "*", "~"].contains(&item) || Namespace::new(item).is_ok()
}

fn is_traffic(text: &str) -> bool {
    let known = ["", "Any", "PreferClose", "PreferSameZone", "PreferSameNode"];
    known.iter().any(|one| one.eq_ignore_ascii_case(text))
}

fn doubt(key: &str, value: &str, wanted: &str) -> Arc<str> {
    let shown: String = value.chars().take(SHOWN).collect();
    format!("annotation {key}: {shown:?} is not {wanted}; it is ignored").into()
}
