//! Labels of an instance: from its Meta, then from its node's Meta under a prefix, then from its tags.
//!
//! Each `key=value` tag becomes a label; all other tags together become one label, [`TAGS`]. Characters that labels
//! do not allow are replaced. If two keys become equal, the first in the order above stays.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::Labels;
use tributary_model::labels::DATACENTER;

use super::config::MapConfig;
use crate::wire::HealthEntry;

/// Label of all tags that are not labels themselves: lower case, sorted, separated by commas.
pub const TAGS: &str = "tributary.io/tags";

/// Maximum lengths of keys, values and of the [`TAGS`] value.
const MAX_KEY: usize = 253;
const MAX_VALUE: usize = 63;
const MAX_TAGS: usize = 1024;

/// Returns the labels, and whether any was dropped.
pub(super) fn of(entry: &HealthEntry, datacenter: &str, config: &MapConfig) -> (Labels, bool) {
    let mut out = Taken::default();
    for (key, value) in &entry.service.meta {
        out.add(key, value);
    }
    if let Some(prefix) = &config.node_labels {
        // keys that Consul writes itself describe the agent and change with its version
        for (key, value) in entry.node.meta.iter().filter(|(key, _)| !key.starts_with("consul-")) {
            out.add(&format!("{prefix}{key}"), value);
        }
    }
    let mut bare: BTreeSet<String> = BTreeSet::new();
    let mut tags: Vec<&String> = entry.service.tags.iter().collect();
    tags.sort();
    for tag in tags {
        match tag.split_once('=').or_else(|| tag.split_once('|').filter(|_| config.pipe_tags)) {
            Some((key, value)) if !key.is_empty() => out.add(key, value),
            _ => {
                bare.insert(tag.to_lowercase().replace(',', "-"));
            }
        }
    }
    if !bare.is_empty() {
        let text = bare.into_iter().collect::<Vec<_>>().join(",");
        out.keep(TAGS.to_owned(), cut(&text, MAX_TAGS).to_owned());
    }
    if !datacenter.is_empty() {
        out.keep(DATACENTER.to_owned(), datacenter.to_owned());
    }
    let dropped = out.dropped || out.labels.len() > Labels::MAX;
    (out.labels.iter().map(|(k, v)| (&**k, &**v)).collect(), dropped)
}

/// Labels under construction.
#[derive(Default)]
struct Taken {
    labels: BTreeMap<String, String>,
    dropped: bool,
}

impl Taken {
    fn add(&mut self, key: &str, value: &str) {
        let key = sanitised(key, MAX_KEY, true);
        if key.is_empty() {
            self.dropped = true;
            return;
        }
        self.keep(key, sanitised(value, MAX_VALUE, false));
    }
    fn keep(&mut self, key: String, value: String) {
        match self.labels.entry(key) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(value);
            }
            std::collections::btree_map::Entry::Occupied(first) => self.dropped |= *first.get() != value,
        }
    }
}

/// Keeps letters, digits, `-`, `_` and `.` (and `/` in keys), replaces the rest by `-`, and trims to a letter or
/// digit at both ends.
fn sanitised(text: &str, most: usize, key: bool) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') || (key && c == '/');
    let text: String = text.chars().take(most).map(|c| if allowed(c) { c } else { '-' }).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Node, Service};

    fn mk_pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn mk_entry(meta: &[(&str, &str)], node: &[(&str, &str)], tags: &[&str]) -> HealthEntry {
        let node = Node { node: "n".into(), meta: mk_pairs(node), ..Node::default() };
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let service = Service { service: "web".into(), meta: mk_pairs(meta), tags, ..Service::default() };
        HealthEntry { node, service, checks: vec![] }
    }

    fn read(entry: &HealthEntry, config: &MapConfig) -> String {
        let (labels, dropped) = of(entry, "", config);
        let pairs: Vec<String> = labels.pairs().map(|(k, v)| format!("{k}={v}")).collect();
        format!("{}{}", pairs.join(" "), if dropped { " !" } else { "" })
    }

    #[test]
    fn labels_come_from_meta_node_and_tags_in_order() {
        let none = MapConfig::new().unwrap();
        let bars = MapConfig { pipe_tags: true, node_labels: None, ..none.clone() };
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        type Case<'a> = (Pairs<'a>, Pairs<'a>, &'a [&'a str], &'a MapConfig, &'a str);
        let cases: [Case<'_>; 9] = [
            (&[("version", "2")], &[], &[], &none, "version=2"),
            (&[("v", "2")], &[("rack", "7")], &["v=3"], &none, "node/rack=7 v=2 !"),
            (&[("v", "2")], &[], &["v=2"], &none, "v=2"),
            (&[], &[("consul-version", "1.20.5"), ("rack", "7")], &[], &none, "node/rack=7"),
            (&[], &[("rack", "7")], &["a|b"], &bars, "a=b"),
            (&[], &[], &["a|b", "Primary", "b", "primary"], &none, "tributary.io/tags=a|b,b,primary"),
            (&[("a b", "x y"), ("a-b", "z")], &[], &[], &none, "a-b=x-y !"),
            (&[("--", "x")], &[], &["=x"], &none, "tributary.io/tags==x !"),
            (&[("v", "(2)")], &[], &[], &none, "v=2"),
        ];
        for (meta, node, tags, config, want) in cases {
            assert_eq!(read(&mk_entry(meta, node, tags), config), want, "{meta:?} {node:?} {tags:?}");
            let turned: Vec<&str> = tags.iter().rev().copied().collect();
            assert_eq!(read(&mk_entry(meta, node, &turned), config), want, "turned {tags:?}");
        }
    }

    #[test]
    fn labels_are_bounded() {
        let long = "v".repeat(600);
        let (labels, _) = of(
            &mk_entry(&[("k", &long)], &[], &[&long, &"w".repeat(600)]),
            "dc1",
            &MapConfig::new().unwrap(),
        );
        assert_eq!(labels.get("k").map(str::len), Some(MAX_VALUE));
        assert_eq!(labels.get(TAGS).map(str::len), Some(MAX_TAGS));
        assert_eq!(labels.get(DATACENTER), Some("dc1"));
    }
}
