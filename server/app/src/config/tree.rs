//! YAML document as a tree of values with their positions.
//!
//! `file` and `layers` read a text into a tree before its types, so that a syntax error is reported as one, and
//! `shape` can report every other error with its position.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{
    DuplicateKeyPolicy, Error, MergeKeyPolicy, MessageFormatter, Options, Spanned, UserMessageFormatter,
};

/// Line and column, counted from 1.
pub type Position = (u64, u64);

/// Value with its position.
pub type Located = Spanned<Node>;

/// Value of a document.
#[derive(Debug, Clone)]
pub enum Node {
    /// Mapping, in the order of the document.
    Map(Vec<(Spanned<String>, Located)>),
    /// List.
    List(Vec<Located>),
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Number, in its usual form.
    Number(String),
    /// Text.
    Text(String),
}

/// Returns the position of a value or key.
#[must_use]
pub fn position<T>(value: &Spanned<T>) -> Position {
    (value.referenced.line(), value.referenced.column())
}

/// Reads a document. Anchors, aliases and merge keys are errors.
pub fn read(text: &str) -> Result<Located, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Reads a text that is one value whatever its syntax.
pub fn text(text: &str) -> Result<Located, Error> {
    serde_saphyr::from_str(&serde_json::Value::from(text).to_string())
}

/// Options of every document.
#[must_use]
pub fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 100_000,
            max_anchors: 0,
            max_aliases: 0,
        },
    }
}

/// Returns the position of an error.
#[must_use]
pub fn position_of(error: &Error) -> Option<Position> {
    error.location().map(|l| (l.line(), l.column())).filter(|(line, _)| *line > 0)
}

/// Describes why a document cannot be read, in one line, without its position.
#[must_use]
pub fn describe(error: &Error) -> String {
    match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is set twice; keep one"),
        Error::MultipleDocuments { .. } => {
            "a second document starts here; keep one, without a `---` line between them".to_owned()
        }
        Error::MergeKeyNotAllowed { .. } => {
            "merge keys (`<<`) are not supported; write the fields in full".to_owned()
        }
        Error::UnknownAnchor { .. } => ANCHORS.to_owned(),
        Error::Budget { breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. }, .. } => {
            ANCHORS.to_owned()
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            "more than 32 levels of values; remove the excess brackets".to_owned()
        }
        Error::Budget { .. } => "too large; at most 100000 values are read".to_owned(),
        other => syntax(&UserMessageFormatter.format_message(other)),
    }
}

const ANCHORS: &str = "anchors and aliases (`&name`, `*name`) are not supported; write the value in full, or quote a text that starts so";

/// Describes a syntax error; adds the usual mistake behind it.
fn syntax(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let hints = [
        ("tabs disallowed", "indent with spaces, not tabs"),
        ("simple key expected", "write `name: value` with a space after the colon"),
        (
            "mapping values are not allowed",
            "put a value that contains `: ` in quotes, or correct the indentation",
        ),
        ("did not find expected key", "align the field with those above, and close every quote and bracket"),
        ("quoted scalar", "close the quote"),
        ("unexpected character", "put the value in quotes"),
        ("flow", "close every bracket"),
        ("expected ','", "close every bracket"),
    ];
    let hint = hints.iter().find(|(part, _)| line.contains(part));
    match hint {
        Some((_, hint)) => format!("not valid YAML: {line}; {hint}"),
        None => format!("not valid YAML: {line}"),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

macro_rules! numbers {
    ($($visit:ident $type:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, number: $type) -> Result<Node, E> {
            Ok(Node::Number(number.to_string()))
        })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    numbers!(visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128, visit_f64 f64);
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Node, D::Error> {
        d.deserialize_any(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }
}
