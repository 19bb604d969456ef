//! The existing tests, read from the source, and the tests that ran, read from libtest's output. The ledger's
//! checks call it.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Text;

/// Test functions by name, each with the paths of the files that have one of that name.
pub type Tests = BTreeMap<String, BTreeSet<String>>;

/// Returns every function marked as a test, plain, async or inside `proptest!`, and every scenario of which
/// `conformance_tests!` makes a test.
pub fn tests(texts: &[Text]) -> Tests {
    let mut tests = Tests::new();
    for text in texts.iter().filter(|text| text.is_rust()) {
        for name in names(&text.text) {
            tests.entry(name).or_default().insert(text.path.clone());
        }
    }
    tests
}

fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        marked |= is_mark(line);
        if let Some(name) = function(line).filter(|_| marked) {
            names.push(name);
            marked = false;
        }
    }
    names.extend(scenarios(text));
    names
}

/// Returns the scenarios of the macro: `name Scenario` pairs between its recursive call and the closing
/// bracket.
fn scenarios(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("conformance_tests!(@one [$($test)*] $harness;") else {
        return Vec::new();
    };
    let list = rest.split_once(')').map_or(rest, |(list, _)| list);
    list.split(',').filter_map(|pair| pair.split_whitespace().next()).map(str::to_owned).collect()
}

fn is_mark(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

fn function(line: &str) -> Option<String> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Returns the names of tests that ran and passed, by the last part of their path.
pub fn ran(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    let names = lines.map(|path| path.trim_end_matches(" - should panic"));
    names.filter_map(|path| path.rsplit("::").next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_tests_and_only_tests() {
        let text = "fn helper() {}\n    #[test]\n    #[ignore]\n    fn one() {}\n#[tokio::test(flavor = \"x\")]\n\
                    async fn two() {\nfn inner() {}\n}\nproptest! {\n #[test]\n fn three(x in 0..9) {}\n}\n";
        let found: Vec<String> = super::tests(&[Text::new("a.rs", text)]).into_keys().collect();
        assert_eq!(found, ["one", "three", "two"]);
    }

    #[test]
    fn scenarios_of_the_conformance_macro_are_tests() {
        let text = "(@each [$($test:tt)*] $harness:expr) => {\n    $crate::conformance_tests!(@one [$($test)*] $harness;\n\
                    cold_start ColdStart, one_bad_object OneBadObject);\n};\n";
        let found: Vec<String> = super::tests(&[Text::new("a.rs", text)]).into_keys().collect();
        assert_eq!(found, ["cold_start", "one_bad_object"]);
    }

    #[test]
    fn ignored_or_failed_test_did_not_run() {
        let log =
            "test a::b::one ... ok\ntest two ... FAILED\ntest three ... ignored\ntest result: ok. 1 passed\n";
        assert_eq!(ran(log).into_iter().collect::<Vec<_>>(), ["one"]);
    }
}
