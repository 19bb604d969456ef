//! YAML as a tree of values with their lines; the reader of kubeconfigs and of Secret manifests.
//!
//! Reading is bounded: no anchors, aliases, merge keys, duplicate keys or deep nesting. Texts are wiped when the tree is dropped,
//! no type has `Debug`, and an error has a constant text and a line: the library's own texts can quote the document.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, Options, Spanned};
use tributary_model::Code;
use zeroize::Zeroizing;

use crate::refusal::{Refusal, shown_name, unreadable};

/// Value with its position.
pub(crate) type Node = Spanned<Value>;

/// Value of a document. Numbers are never read, so their value is not kept.
pub(crate) enum Value {
    Map(Vec<(Spanned<String>, Node)>),
    List(Vec<Node>),
    Text(Zeroizing<String>),
    Bool(bool),
    Number,
    Null,
}

impl Value {
    /// Whether the value counts as absent, as with kubectl.
    pub(crate) fn is_unset(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) => true,
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            Self::Bool(true) | Self::Number => false,
        }
    }
    /// Returns a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
    /// Returns the entries of a map, in order.
    pub(crate) fn entries(&self) -> Option<&[(Spanned<String>, Node)]> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }
    /// Returns the items of a list.
    pub(crate) fn items(&self) -> Option<&[Node]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }
    /// Returns a value of a map.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }
}

/// Returns the line of a value or a key; 0 if it is unknown.
pub(crate) fn line<T>(of: &Spanned<T>) -> u64 {
    of.referenced.line()
}

/// Reads the only document of a text.
pub(crate) fn one(bytes: &[u8]) -> Result<Node, Refusal> {
    let mut all = all(bytes, 1)?;
    all.pop().ok_or_else(|| unreadable("is empty"))
}

/// Reads up to `most` documents; empty ones are left out.
pub(crate) fn all(bytes: &[u8], most: usize) -> Result<Vec<Node>, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8 text"))?;
    let all: Vec<Node> = serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| fault(&e))?;
    if all.len() > most {
        return Err(unreadable("has more documents than are read").at(all.get(most).map_or(0, line)));
    }
    Ok(all)
}

fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 100_000,
            max_anchors: 0,
            max_aliases: 0,
            max_documents: 1_000,
        },
    }
}

fn fault(error: &Error) -> Refusal {
    let at = error.location().map_or(0, |location| location.line());
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => duplicate(key.as_deref()),
        Error::MergeKeyNotAllowed { .. } => unreadable("has a merge key (`<<`)"),
        Error::UnknownAnchor { .. } => unreadable(ANCHORS),
        Error::Budget { breach, .. } => unreadable(match breach {
            BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => ANCHORS,
            BudgetBreach::Depth { .. } => "has more than 32 levels of values",
            _ => "has more values than are read",
        }),
        _ => unreadable("is not valid YAML"),
    }
    .at(at)
}

fn duplicate(key: Option<&str>) -> Refusal {
    let name = shown_name(key.unwrap_or_default());
    Refusal::new(Code::KUBECONFIG_UNREADABLE, name, "is set twice", "keep one")
}

const ANCHORS: &str = "has an anchor or an alias (`&name`, `*name`)";

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

macro_rules! numbers {
    ($($visit:ident $type:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, _: $type) -> Result<Value, E> {
            Ok(Value::Number)
        })*
    };
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    numbers!(visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128, visit_f64 f64);
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text.to_owned())))
    }
    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text)))
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }
}
