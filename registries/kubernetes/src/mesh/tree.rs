//! Documents of the mesh configuration as trees of values, and the forms that several fields share.
//!
//! The readers of fields call it. A document is bounded, and each value is read alone.

use std::time::Duration;

use serde_json::{Map, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, Options};

/// Size limit of a ConfigMap.
const MOST_BYTES: usize = 1 << 20;
/// Most levels of values.
const DEPTH: usize = 32;
/// Most values.
const NODES: usize = 100_000;
/// Seconds of a duration.
const SECONDS: std::ops::RangeInclusive<f64> = 0.001..=3600.0;

/// Fields by name.
pub(super) type Tree = Map<String, Value>;

/// Parses a document whose root is a map; an empty document is an empty map.
pub(super) fn parse(text: &str) -> Result<Tree, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("is larger than {MOST_BYTES} bytes"));
    }
    match serde_saphyr::from_str_with_options::<Option<Value>>(text, options()) {
        Ok(None | Some(Value::Null)) => Ok(Tree::new()),
        Ok(Some(Value::Object(tree))) => Ok(tree),
        Ok(Some(_)) => Err("is not a map".into()),
        Err(error) => Err(describe(error.without_snippet())),
    }
}

fn describe(error: &Error) -> String {
    let too_deep = || format!("has more than {DEPTH} levels of values; remove the excess brackets");
    match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => {
            format!("has more than {NODES} values")
        }
        Error::Budget { .. } => {
            "has too many anchors, aliases or documents; write one with all values in full".into()
        }
        other => {
            let text = other.to_string();
            // the scanner reads ahead and has a text of its own for the limit
            if text.contains("recursion limit") {
                return too_deep();
            }
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
            max_nodes: NODES,
            max_anchors: 100,
            max_aliases: 100,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
    }
}

/// Returns a field by its name; `clusterLocal` may be written `cluster_local`.
pub(super) fn get<'v>(tree: &'v Tree, name: &str) -> Option<&'v Value> {
    let known = tree.get(name).or_else(|| tree.iter().find(|(key, _)| is(key, name)).map(|(_, value)| value));
    known.filter(|value| !value.is_null())
}

/// Whether a key is a field's name, in either spelling.
pub(super) fn is(key: &str, name: &str) -> bool {
    let mut upper = false;
    let camel = key.chars().filter_map(|c| match (c, std::mem::take(&mut upper)) {
        ('_', _) => {
            upper = true;
            None
        }
        (c, true) => Some(c.to_ascii_uppercase()),
        (c, false) => Some(c),
    });
    camel.eq(name.chars())
}

pub(super) fn list<'v>(tree: &'v Tree, name: &str) -> Result<&'v [Value], String> {
    match get(tree, name) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{name} is not a list")),
    }
}

pub(super) fn map(value: &Value) -> Result<&Tree, String> {
    value.as_object().ok_or_else(|| "is not a map".to_owned())
}

/// Parses `true` or `false`.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "is neither true nor false".to_owned())
}

/// Parses seconds in protobuf's JSON format: `10s`, `0.5s`.
pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    let text = value.as_str().ok_or("is not a duration such as 10s")?;
    let plain = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds = text.strip_suffix('s').filter(plain).and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.ok_or_else(|| format!("{text:?} is not a duration such as 10s"))?;
    if !SECONDS.contains(&seconds) {
        return Err(format!("{text:?} is not between 0.001s and 3600s"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_document_is_refused_with_its_limit() {
        for levels in [DEPTH, DEPTH + 1, DEPTH + 2, 1_000] {
            let error = parse(&format!("a: {}{}", "[".repeat(levels), "]".repeat(levels))).unwrap_err();
            assert_eq!(error, "has more than 32 levels of values; remove the excess brackets", "{levels}");
        }
        let within = format!("a: {}{}", "[".repeat(DEPTH - 1), "]".repeat(DEPTH - 1));
        assert!(parse(&within).is_ok());
    }
}
