//! The fields of one map: each is taken by name, and the remaining ones are unknown.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Code, Labels};

use crate::document::{Located, Text};
use crate::read::fault::{Faults, Pos, clip};
use crate::read::node::{Key, Node, Value};

/// A map during decoding.
pub(crate) struct Fields<'n> {
    path: String,
    at: Pos,
    entries: &'n [(Key, Node)],
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Opens a map; null counts as an empty map, any other value is a fault.
    pub(crate) fn open(node: &'n Node, path: String, faults: &mut Faults) -> Option<Self> {
        let entries: &[(Key, Node)] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            other => {
                wrong(faults, node.at, &path, other, "a map of fields");
                return None;
            }
        };
        Some(Self { path, at: node.at, entries, known: Vec::new() })
    }
    /// The position of the map.
    pub(crate) const fn at(&self) -> Pos {
        self.at
    }
    /// The full path of a field, for messages.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
    /// A field's path and node; null counts as absent.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<(String, &'n Node)> {
        self.know(name);
        let (_, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        (node.value != Value::Null).then(|| (self.path(name), node))
    }
    /// Marks fields as known and unused.
    pub(crate) fn ignore(&mut self, names: &[&'static str]) {
        names.iter().for_each(|name| self.know(name));
    }
    fn know(&mut self, name: &'static str) {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
    }
    /// A text field.
    pub(crate) fn text(&mut self, name: &'static str, faults: &mut Faults) -> Option<Text> {
        let (path, node) = self.get(name)?;
        text(node, &path, faults)
    }
    /// A text field; empty text counts as absent.
    pub(crate) fn filled(&mut self, name: &'static str, faults: &mut Faults) -> Option<Text> {
        self.text(name, faults).filter(|text| !text.value.is_empty())
    }
    /// A required text field.
    pub(crate) fn required_text(&mut self, name: &'static str, faults: &mut Faults) -> Option<Text> {
        self.required(name, faults)?;
        self.text(name, faults)
    }
    /// An integer field.
    pub(crate) fn int(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<i64>> {
        let (path, node) = self.get(name)?;
        int(node, &path, faults)
    }
    /// A required integer field.
    pub(crate) fn required_int(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<i64>> {
        self.required(name, faults)?;
        self.int(name, faults)
    }
    fn required(&mut self, name: &'static str, faults: &mut Faults) -> Option<()> {
        if self.get(name).is_some() {
            return Some(());
        }
        faults.refuse(Code::MISSING_FIELD, self.at, format!("{} is missing; add it", self.path(name)));
        None
    }
    /// The items of a list field.
    pub(crate) fn list(&mut self, name: &'static str, faults: &mut Faults) -> Vec<(String, &'n Node)> {
        let Some((path, node)) = self.get(name) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            wrong(faults, node.at, &path, &node.value, "a list; begin each item with `- `");
            return Vec::new();
        };
        items.iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item)).collect()
    }
    /// A list of texts.
    pub(crate) fn texts(&mut self, name: &'static str, faults: &mut Faults) -> Vec<Text> {
        let items = self.list(name, faults);
        items.into_iter().filter_map(|(path, item)| text(item, &path, faults)).collect()
    }
    /// A map from names to texts.
    pub(crate) fn text_map(
        &mut self,
        name: &'static str,
        faults: &mut Faults,
    ) -> BTreeMap<Arc<str>, Arc<str>> {
        let pairs = self.pairs(name, faults).into_iter();
        pairs.filter_map(|(key, path, node)| Some((key.value, text(node, &path, faults)?.value))).collect()
    }
    /// A map from names to texts, in document order, with positions.
    pub(crate) fn named_texts(&mut self, name: &'static str, faults: &mut Faults) -> Vec<(Text, Text)> {
        let pairs = self.pairs(name, faults).into_iter();
        pairs.filter_map(|(key, path, node)| Some((key, text(node, &path, faults)?))).collect()
    }
    /// A map of labels.
    pub(crate) fn labels(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<Labels>> {
        let (path, node) = self.get(name)?;
        let map = self.text_map(name, faults);
        if map.len() > Labels::MAX {
            let message = format!("{path} has more than {} labels; remove some", Labels::MAX);
            faults.refuse(Code::DOCUMENT_TOO_LARGE, node.at, message);
        }
        Some(Located::new(node.at, map.iter().map(|(k, v)| (&**k, &**v)).collect()))
    }
    /// A map from names to integers.
    pub(crate) fn int_map(&mut self, name: &'static str, faults: &mut Faults) -> Vec<(Text, Located<i64>)> {
        let pairs = self.pairs(name, faults).into_iter();
        pairs.filter_map(|(key, path, node)| Some((key, int(node, &path, faults)?))).collect()
    }
    /// The entries of a map field: key, path and value.
    pub(crate) fn pairs(&mut self, name: &'static str, faults: &mut Faults) -> Vec<(Text, String, &'n Node)> {
        let Some((path, node)) = self.get(name) else { return Vec::new() };
        let Value::Map(entries) = &node.value else {
            wrong(faults, node.at, &path, &node.value, "a map");
            return Vec::new();
        };
        let pair = |(key, node): &'n (Key, Node)| {
            (Located::new(key.at, Arc::from(&*key.name)), format!("{path}[{:?}]", clip(&key.name)), node)
        };
        entries.iter().map(pair).collect()
    }
    /// A field with one of a fixed set of names.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        names: &[(&'static str, T)],
        faults: &mut Faults,
    ) -> Option<Located<T>> {
        let text = self.text(name, faults)?;
        if let Some((_, value)) = names.iter().find(|(n, _)| *n == &*text.value) {
            return Some(Located::new(text.at, *value));
        }
        let known: Vec<&str> = names.iter().map(|(n, _)| *n).collect();
        let message = format!(
            "{} {:?} is not known; write one of {}",
            self.path(name),
            clip(&text.value),
            known.join(", ")
        );
        faults.refuse(Code::WRONG_TYPE, text.at, message);
        None
    }
    /// Keeps the path of a field that has no effect.
    pub(crate) fn ignored(&mut self, name: &'static str, ignored: &mut Vec<Text>) {
        if let Some((path, node)) = self.get(name).filter(|(_, node)| !is_unset(&node.value)) {
            ignored.push(Located::new(node.at, path.as_str().into()));
        }
    }
    /// Refuses a field that is not served.
    pub(crate) fn not_served(&mut self, name: &'static str, fix: &str, faults: &mut Faults) {
        if let Some((path, node)) = self.get(name).filter(|(_, node)| !is_unset(&node.value)) {
            faults.refuse(Code::FIELD_NOT_SERVED, node.at, format!("{path} is not served; {fix}"));
        }
    }
    /// Reports unknown fields.
    pub(crate) fn finish(self, faults: &mut Faults) {
        for (key, _) in self.entries {
            if !self.known.contains(&&*key.name) {
                let message = format!(
                    "{} is not a known field; {}",
                    self.path(&clip(&key.name)),
                    self.advice(&key.name)
                );
                faults.unknown_field(key.at, message);
            }
        }
    }
    fn advice(&self, name: &str) -> String {
        let close = self.known.iter().map(|k| (distance(k, name), *k)).min();
        match close {
            Some((d, k)) if d <= 2 => format!("did you mean {k}?"),
            _ => format!("remove it, or write one of {}", self.known.join(", ")),
        }
    }
}

/// Whether a value is that of an absent field.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Text(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => false,
    }
}

/// Edit distance between two names, ignoring case and `_`; a lower bound for names of more than 40
/// characters.
fn distance(a: &str, b: &str) -> usize {
    let plain = |s: &str| {
        s.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).take(40).collect::<Vec<_>>()
    };
    let (a, b) = (plain(a), plain(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let Some(up) = row.get_mut(j + 1) else { break };
            let here = (diagonal + usize::from(x != y)).min(*up + 1).min(left + 1);
            (diagonal, *up, left) = (*up, here, here);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

pub(crate) fn text(node: &Node, path: &str, faults: &mut Faults) -> Option<Text> {
    match &node.value {
        Value::Text(text) => Some(Located::new(node.at, text.as_str().into())),
        Value::Null => Some(Located::new(node.at, "".into())),
        other @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
            wrong(faults, node.at, path, other, "text; put it in quotes");
            None
        }
        other => {
            wrong(faults, node.at, path, other, "text");
            None
        }
    }
}

pub(crate) fn int(node: &Node, path: &str, faults: &mut Faults) -> Option<Located<i64>> {
    match &node.value {
        Value::Int(n) => Some(Located::new(node.at, (*n).clamp(i64::MIN.into(), i64::MAX.into()) as i64)),
        other @ Value::Text(text) if text.parse::<i64>().is_ok() => {
            wrong(faults, node.at, path, other, "a whole number; write it without quotes");
            None
        }
        other => {
            wrong(faults, node.at, path, other, "a whole number");
            None
        }
    }
}

pub(super) fn wrong(faults: &mut Faults, at: Pos, path: &str, is: &Value, should: &str) {
    faults.refuse(Code::WRONG_TYPE, at, format!("{path} is {}; it must be {should}", is.what()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_have_a_small_distance() {
        assert_eq!(distance("targetPort", "target_port"), 0);
        assert_eq!(distance("number", "nmber"), 1);
        assert!(distance("hosts", "resolution") > 2);
        assert_eq!(distance("", ""), 0);
    }
}
