//! Reads one YAML document to a tree with the position of every key and value.
//!
//! Size, depth, number of values and alias expansion are limited, so that the tree is not much larger
//! than the text. Called by [`crate::read::load`].

use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Location, Options, Spanned};
use tributary_model::Code;

use crate::read::fault::{Fault, Pos};
use crate::read::node::visitor::{AnyValue, Format};
use crate::read::node::{Key, Node, Value, bounds};

/// Reads one document.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > bounds::BYTES {
        let message =
            format!("the document is {} bytes long, more than {}; split it", text.len(), bounds::BYTES);
        return Err(Fault::refused(Code::DOCUMENT_TOO_LARGE, Pos::new(1, 1), message));
    }
    let read = serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options());
    read.map(Node::from).map_err(|e| fault(&e))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: bounds::DEPTH,
            flow_nesting_limit: bounds::DEPTH,
            max_nodes: bounds::NODES,
            max_events: 4 * bounds::NODES,
            max_aliases: bounds::ALIASES,
            max_anchors: bounds::ALIASES,
            max_recorded_anchor_events: bounds::REPLAYED,
            max_total_scalar_bytes: 2 * bounds::BYTES,
            max_merge_keys: 100,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: bounds::REPLAYED,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
        emit_comments: false,
    }
}

fn fault(error: &Error) -> Fault {
    let at = error.location().map_or(Pos::new(1, 1), pos);
    let error = innermost(error);
    match error {
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            Fault::refused(Code::DOCUMENT_TOO_LARGE, at, too_large(error))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            Fault::refused(Code::YAML_SYNTAX, at, format!("{key} is written twice; keep one"))
        }
        _ if short(error).contains(SCANNED_TOO_DEEP) => {
            Fault::refused(Code::DOCUMENT_TOO_LARGE, at, too_deep())
        }
        _ if short(error).contains(EMPTY_KEY) => {
            let message = "the document is not YAML: a key is empty; write `key: value`".to_owned();
            Fault::refused(Code::YAML_SYNTAX, at, message)
        }
        _ => {
            let what = short(error);
            let message = format!("the document is not YAML: {what}; {}", advice(&what));
            Fault::refused(Code::YAML_SYNTAX, at, message)
        }
    }
}

/// Text of the parser for a key without a text.
const EMPTY_KEY: &str = "null into string";
/// Text of the scanner, which reads ahead, for brackets beyond the limit.
const SCANNED_TOO_DEEP: &str = "recursion limit";

fn too_deep() -> String {
    format!("the document has more than {} levels of values; remove the excess brackets", bounds::DEPTH)
}

/// Describes the bound that a document exceeds, and what to do.
fn too_large(error: &Error) -> String {
    match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => {
            format!("the document has more than {} values; split it", bounds::NODES)
        }
        _ => "the document has too many anchors and aliases, or too large ones; write the values in full"
            .to_owned(),
    }
}

/// The most likely correction of a parser error.
fn advice(what: &str) -> &'static str {
    const KNOWN: [(&str, &str); 10] = [
        ("tabs", "indent with spaces"),
        ("unclosed", "close it"),
        ("misplaced bracket", "remove it"),
        ("placement of ':'", "close the bracket before it, or put the text in quotes"),
        ("mapping values", "put the value in quotes, or begin a new line"),
        ("unknown anchor", "define the anchor in this document, or put the text in quotes"),
        ("unexpected character", "put the value in quotes"),
        ("indentation", "align the line with its neighbours, and close the quotes before it"),
        ("expected key", "align the line with its neighbours"),
        ("expected ':'", "write `key: value`, or `- ` before an item of a list"),
    ];
    KNOWN.iter().find(|(part, _)| what.contains(part)).map_or("correct this line", |(_, advice)| advice)
}

/// The error without the wrappers that name aliases.
fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        other => other,
    }
}

/// The parser's message, on one line and without its position, which is reported separately.
fn short(error: &Error) -> String {
    let text = error.render();
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line = match line.strip_prefix("line ") {
        Some(rest) => rest.split_once(": ").map_or(line, |(_, message)| message),
        None => line,
    };
    line.chars().take(200).collect()
}

fn pos(at: Location) -> Pos {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Pos::new(small(at.line()), small(at.column()))
}

/// Seed of a value with its position; the parser enforces the limits.
#[derive(Clone, Copy)]
struct Placed;

impl<'de> DeserializeSeed<'de> for Placed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Spanned::<Value>::deserialize(deserializer).map(Node::from)
    }
}

impl Format<'_> for Placed {
    type Key = Spanned<String>;
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(Placed))
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { at: pos(spanned.referenced), value: spanned.value }
    }
}

impl From<Spanned<String>> for Key {
    fn from(spanned: Spanned<String>) -> Self {
        Self { at: pos(spanned.referenced), name: spanned.value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Fault {
        parse(text).expect_err("this was taken")
    }

    #[test]
    fn keys_and_values_have_positions() {
        let tree = parse("---\n# note\na:\n  - b: 80\n    c: \"80\"\n").unwrap();
        let Value::List(list) = &tree.get("a").unwrap().value else { panic!("no list") };
        let Value::Map(entries) = &list[0].value else { panic!("no map") };
        assert_eq!(entries[0].0.at, Pos::new(4, 5));
        assert_eq!(entries[0].1, Node { at: Pos::new(4, 8), value: Value::Int(80) });
        assert_eq!(entries[1].1, Node { at: Pos::new(5, 8), value: Value::Text("80".into()) });
    }

    #[test]
    fn text_that_looks_like_a_boolean_is_text() {
        let tree = parse("a: no\nb: on\nc: true\nd: ~\ne:\n").unwrap();
        assert_eq!(tree.get("a").unwrap().text(), Some("no"));
        assert_eq!(tree.get("b").unwrap().text(), Some("on"));
        assert_eq!(tree.get("c").unwrap().value, Value::Bool(true));
        assert_eq!(tree.get("d").unwrap().value, Value::Null);
        assert_eq!(tree.get("e").unwrap().value, Value::Null);
    }

    #[test]
    fn a_syntax_error_names_its_place() {
        let fault = refused("a: 1\nb: [1, 2\nc: 3\n");
        assert_eq!(fault.code, Code::YAML_SYNTAX);
        assert!(fault.at.line >= 2, "{fault}");
        assert!(fault.message.starts_with("the document is not YAML: "), "{fault}");
        assert!(
            fault.message.ends_with("; close the bracket before it, or put the text in quotes"),
            "{fault}"
        );
        assert!(!fault.message.contains('\n'), "{fault}");
    }

    #[test]
    fn every_syntax_error_has_advice() {
        for (text, advice) in [
            ("a:\n\tb: c\n", "indent with spaces"),
            ("a: [1\n", "close it"),
            ("a: b: c\n", "put the value in quotes, or begin a new line"),
            ("a: @b\n", "put the value in quotes"),
            ("a: *b\n", "define the anchor in this document"),
            ("a:\n  b: c\n d: e\n", "align the line with its neighbours"),
            ("a:\n- b\n-c\nd: e\n", "`- ` before an item"),
            ("? [a]\n: b\n", "correct this line"),
            ("  : : [", "a key is empty"),
            ("a:\n  : b\n", "a key is empty"),
        ] {
            assert!(refused(text).message.contains(advice), "{text:?}: {}", refused(text));
        }
    }

    #[test]
    fn a_key_written_twice_is_named() {
        let fault = refused("a: 1\nb: 2\na: 3\n");
        assert_eq!((fault.code, fault.at.line), (Code::YAML_SYNTAX, 3), "{fault}");
        assert!(fault.message.contains("a is written twice"), "{fault}");
    }

    #[test]
    fn deep_nesting_is_refused_in_both_styles() {
        let flow = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        let block = (0..1_000).fold(String::new(), |s, i| s + &format!("{}- \n", " ".repeat(i)));
        let maps = (0..1_000).fold(String::new(), |s, i| s + &format!("{}a:\n", " ".repeat(i)));
        for text in [flow, block, maps, format!("{}1", "- ".repeat(100_000))] {
            let fault = refused(&text);
            assert_eq!(fault.code, Code::DOCUMENT_TOO_LARGE, "{fault}");
            assert!(fault.message.contains("more than 48 levels of values"), "{fault}");
        }
        for levels in bounds::DEPTH..bounds::DEPTH + 9 {
            let fault = refused(&format!("a: {}{}", "[".repeat(levels), "]".repeat(levels)));
            assert_eq!(fault.code, Code::DOCUMENT_TOO_LARGE, "{levels} levels: {fault}");
        }
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let uses = vec![format!("*a{}", i - 1); 10].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{uses}]\n"));
        }
        let fault = refused(&text);
        assert_eq!(fault.code, Code::DOCUMENT_TOO_LARGE, "{fault}");
    }

    #[test]
    fn a_huge_document_is_refused_by_its_length() {
        let fault = refused(&format!("a: {}", "x".repeat(bounds::BYTES)));
        assert_eq!(fault.code, Code::DOCUMENT_TOO_LARGE);
        assert!(fault.message.contains("split it"), "{fault}");
    }

    #[test]
    fn plain_anchors_work() {
        let tree = parse("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  d: 2\n").unwrap();
        assert_eq!(tree.get("b").unwrap().get("k").unwrap().value, Value::Int(1));
        assert_eq!(tree.get("c").unwrap().get("k").unwrap().value, Value::Int(1));
    }
}
