//! Nearly valid documents and random bytes: ten thousand cases.
//!
//! Each case derives from its number and a fixed seed, so that a failure can be repeated by its
//! number. Every case is between two valid documents, which must be served in all cases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

mod documents;

use std::fmt::Write as _;

use tributary_model::{ClusterId, Code, Fact};
use tributary_registry_api::{RandomSource, SplitMix};
use tributary_service_entry::{Context, Load, Severity, convert, load_str};

use documents::{Tree, map, mk_documents, plain};

const SEED: u64 = 0x7472_6962;
const CASES: u64 = 9_000;
const NOISE: u64 = 1_000;

struct Dice(SplitMix);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        ((self.0.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }
    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

/// The number of values in a tree, including itself.
fn count(tree: &Tree) -> usize {
    1 + match tree {
        Tree::Plain(_) => 0,
        Tree::List(items) => items.iter().map(count).sum(),
        Tree::Map(fields) => fields.iter().map(|(_, value)| count(value)).sum(),
    }
}

fn nth(tree: &mut Tree, n: usize) -> &mut Tree {
    if n == 0 {
        return tree;
    }
    let mut left = n - 1;
    let children: Vec<&mut Tree> = match tree {
        Tree::Plain(_) => Vec::new(),
        Tree::List(items) => items.iter_mut().collect(),
        Tree::Map(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
    };
    for child in children {
        let size = count(child);
        if left < size {
            return nth(child, left);
        }
        left -= size;
    }
    unreachable!("the number is below the count")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Drop,
    Double,
    Unknown,
    Retype,
    Reorder,
    Nest,
    Enlarge,
}

const HARMS: [Harm; 7] =
    [Harm::Drop, Harm::Double, Harm::Unknown, Harm::Retype, Harm::Reorder, Harm::Nest, Harm::Enlarge];

const WRONG: [&str; 24] = [
    "~",
    "true",
    "0",
    "-1",
    "65536",
    "1e400",
    "99999999999999999999999999",
    "0x10",
    ".nan",
    "\"\"",
    "\"*\"",
    "\"a b\"",
    "[]",
    "{}",
    "[[]]",
    "{a: {b: c}}",
    "10.0.0.300",
    "10.0.0.0/99",
    "unix://",
    "unix:///run/x",
    "\"\\u0000\"",
    "*none",
    "!!binary aGk=",
    "&x [*x]",
];

fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last + 1));
    }
}

/// Damages one position of a tree; returns false if there is nothing to damage.
fn harm(tree: &mut Tree, harm: Harm, dice: &mut Dice) -> bool {
    let n = dice.below(count(tree));
    let part = nth(tree, n);
    match (harm, part) {
        (Harm::Drop, Tree::Map(fields)) if !fields.is_empty() => {
            drop(fields.remove(dice.below(fields.len())))
        }
        (Harm::Drop, Tree::List(items)) if !items.is_empty() => drop(items.remove(dice.below(items.len()))),
        (Harm::Double, Tree::Map(fields)) if !fields.is_empty() => fields.push(dice.pick(fields).clone()),
        (Harm::Double, Tree::List(items)) if !items.is_empty() => items.push(dice.pick(items).clone()),
        (Harm::Unknown, Tree::Map(fields)) => fields.push(("unknownField".into(), plain("1"))),
        (Harm::Reorder, Tree::Map(fields)) if fields.len() > 1 => shuffle(fields, dice),
        (Harm::Retype, part) => *part = plain(dice.pick::<&str>(&WRONG)),
        (Harm::Nest, part) => {
            let depth = 1 + dice.below(60);
            for _ in 0..depth {
                let inner = std::mem::replace(part, plain("~"));
                *part = if dice.below(2) == 0 { Tree::List(vec![inner]) } else { map([("a", inner)]) };
            }
        }
        (Harm::Enlarge, Tree::Plain(text)) => *text = "x".repeat(1 + dice.below(2_000)),
        (Harm::Enlarge, Tree::List(items)) if !items.is_empty() => {
            *items = (0..dice.below(50)).map(|_| items[0].clone()).collect();
        }
        (Harm::Enlarge, Tree::Map(fields)) => {
            fields.extend((0..dice.below(80)).map(|i| (format!("k{i}"), plain("v"))));
        }
        _ => return false,
    }
    true
}

fn write(tree: &Tree, out: &mut String, indent: usize, flow: bool) {
    let pad = " ".repeat(indent);
    match tree {
        Tree::Plain(text) => writeln!(out, " {text}").unwrap(),
        _ if flow => writeln!(out, " {}", in_flow(tree)).unwrap(),
        Tree::List(items) if items.is_empty() => out.push_str(" []\n"),
        Tree::Map(fields) if fields.is_empty() => out.push_str(" {}\n"),
        Tree::List(items) => {
            out.push('\n');
            for item in items {
                write!(out, "{pad}-").unwrap();
                write(item, out, indent + 2, flow);
            }
        }
        Tree::Map(fields) => {
            out.push('\n');
            for (key, value) in fields {
                write!(out, "{pad}{key}:").unwrap();
                write(value, out, indent + 2, flow || indent >= 8);
            }
        }
    }
}

fn in_flow(tree: &Tree) -> String {
    match tree {
        Tree::Plain(text) => text.clone(),
        Tree::List(items) => format!("[{}]", items.iter().map(in_flow).collect::<Vec<_>>().join(", ")),
        Tree::Map(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key}: {}", in_flow(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

fn text_of(tree: &Tree) -> String {
    let mut out = String::new();
    write(tree, &mut out, 0, false);
    out.trim_start().to_owned()
}

fn neighbour(name: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {{name: {name}}}\nspec: {{address: 10.0.0.1}}\n"
    )
}

fn between(middle: &str) -> (String, Load) {
    let text = format!("{}---\n{middle}\n{}", neighbour("left"), neighbour("right"));
    let load = load_str(&text, "f.yaml");
    (text, load)
}

fn facts(load: &Load) -> Vec<Fact> {
    let context = Context::new(ClusterId::new("c").unwrap());
    load.documents.iter().flat_map(|object| convert(object, &context)).collect()
}

/// Checks the guarantees for every text.
fn holds(case: &str, text: &str, load: &Load) {
    for name in ["left", "right"] {
        let served = load.documents.iter().any(|object| &*object.document.meta.name == name);
        assert!(served, "{case}: {name} was lost\n{text}");
    }
    let lines = u32::try_from(text.split(['\n', '\r']).count()).unwrap();
    for problem in &load.problems {
        assert!(!problem.problem.message.contains(['\n', '\r']), "{case}: more than one line");
        assert!(problem.problem.message.len() < 8_192, "{case}: {} bytes", problem.problem.message.len());
        for fault in &problem.faults {
            assert!((1..=lines).contains(&fault.at.line), "{case}: {fault} is outside of {lines} lines");
            assert!(!fault.message.is_empty(), "{case}");
        }
    }
    assert!(facts(load) == facts(load), "{case}: conversion is not a function");
}

fn is_refused(load: &Load, code: Code) -> bool {
    let refused =
        |fault: &tributary_service_entry::Fault| fault.severity == Severity::Refused && fault.code == code;
    load.problems.iter().any(|problem| problem.faults.iter().any(refused))
}

#[test]
fn unharmed_documents_are_served_in_both_styles() {
    for tree in mk_documents() {
        let flow = in_flow(&tree);
        for text in [text_of(&tree), flow] {
            let (text, load) = between(&text);
            assert!(load.problems.is_empty(), "{:?}\n{text}", load.problems);
            assert_eq!(load.documents.len(), 3, "{text}");
        }
    }
}

#[test]
fn nine_thousand_nearly_valid_documents() {
    let documents = mk_documents();
    let mut harmed = 0_u64;
    let mut served = 0_u64;
    for case in 0..CASES {
        let mut dice = Dice(SplitMix::seeded(SEED ^ case));
        let original = dice.pick(&documents).clone();
        let mut tree = original.clone();
        let kind = *dice.pick(&HARMS);
        let times = if kind == Harm::Reorder || dice.below(3) > 0 { 1 } else { 2 };
        let hits = (0..times).filter(|_| harm(&mut tree, kind, &mut dice)).count();
        let (text, load) = between(&text_of(&tree));
        let name = format!("case {case} ({kind:?})");
        holds(&name, &text, &load);
        harmed += u64::from(hits > 0 && tree != original);
        served += u64::from(load.documents.len() == 3);
        match kind {
            Harm::Unknown
                if hits > 0
                    && text.contains("  unknownField: 1")
                    && !in_labels(&tree)
                    && !has_twin(&tree) =>
            {
                assert!(is_refused(&load, Code::UNKNOWN_FIELD), "{name}\n{text}");
            }
            Harm::Reorder => {
                let (_, whole) = between(&text_of(&original));
                assert_eq!(facts(&load), facts(&whole), "{name}: the order changed the facts\n{text}");
            }
            Harm::Double if hits > 0 && load.problems.is_empty() => {
                assert!(!has_twin(&tree), "{name}: a duplicate key was accepted\n{text}");
            }
            _ => {}
        }
    }
    assert!(harmed > CASES / 2, "only {harmed} cases differ from a good document");
    assert!(
        served > CASES / 10 && served < CASES * 9 / 10,
        "{served} were served: the harm is too much or too little"
    );
}

/// Whether the unknown field is in a map that allows any name.
fn in_labels(tree: &Tree) -> bool {
    let Tree::Map(fields) = tree else {
        return if let Tree::List(items) = tree { items.iter().any(in_labels) } else { false };
    };
    fields.iter().any(|(key, value)| {
        let free = matches!(
            key.as_str(),
            "labels"
                | "annotations"
                | "ports"
                | "matchLabels"
                | "portLevelMtls"
                | "to"
                | "sourceLabels"
                | "set"
                | "add"
                | "headers"
        );
        let holds = matches!(value, Tree::Map(inner) if inner.iter().any(|(key, _)| key == "unknownField"));
        (free && holds) || in_labels(value)
    })
}

fn has_twin(tree: &Tree) -> bool {
    match tree {
        Tree::Plain(_) => false,
        Tree::List(items) => items.iter().any(has_twin),
        Tree::Map(fields) => {
            let names: std::collections::BTreeSet<_> = fields.iter().map(|(key, _)| key).collect();
            names.len() < fields.len() || fields.iter().any(|(_, value)| has_twin(value))
        }
    }
}

#[test]
fn a_thousand_texts_of_random_bytes() {
    let documents = mk_documents();
    for case in 0..NOISE {
        let mut dice = Dice(SplitMix::seeded(SEED ^ (case << 32)));
        let mut bytes = if case % 2 == 0 { Vec::new() } else { text_of(dice.pick(&documents)).into_bytes() };
        for _ in 0..1 + dice.below(40) {
            let at = dice.below(bytes.len() + 1);
            let byte = if dice.below(2) == 0 {
                *dice.pick(b"-:[]{}&*!|>'\"%@`#,? \n\r\t.~")
            } else {
                dice.below(256) as u8
            };
            if dice.below(3) == 0 && at < bytes.len() {
                bytes.remove(at);
            } else {
                bytes.insert(at, byte);
            }
        }
        let (text, load) = between(&String::from_utf8_lossy(&bytes));
        holds(&format!("noise {case}"), &text, &load);
    }
}

#[test]
fn huge_deep_and_repeating_documents_are_refused() {
    let anchors = (1..40).fold(String::from("a0: &a0 [x, x, x, x, x, x, x, x]\n"), |text, i| {
        text + &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 8].join(", "))
    });
    let merges = (1..40).fold(String::from("m0: &m0 {x: 1}\n"), |text, i| {
        text + &format!("m{i}: &m{i} {{<<: [*m{0}, *m{0}], k{i}: 1}}\n", i - 1)
    });
    let bombs = [
        ("huge", format!("a: {}\n", "x".repeat(5 << 20))),
        ("anchors", anchors),
        ("merges", merges),
        ("flow", format!("a: {}\n", "[".repeat(100_000))),
        ("flow maps", format!("a: {}\n", "{a: ".repeat(100_000))),
        ("block", "- ".repeat(100_000)),
        ("keys", "? ".repeat(100_000)),
        ("quotes", format!("a: {}\n", "\"a\" ".repeat(100_000))),
        ("wide", format!("a: [{}]\n", "a, ".repeat(500_001))),
    ];
    for (name, bomb) in bombs {
        let (text, load) = between(&bomb);
        holds(name, &text, &load);
        assert_eq!(load.documents.len(), 2, "{name} was served");
        let refused = load.problems.iter().any(tributary_service_entry::Rejected::is_refused);
        assert!(refused, "{name}: no refusal was reported");
    }
}
