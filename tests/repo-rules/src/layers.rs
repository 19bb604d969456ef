//! Layers inside the core: a module names only modules of its own layer or of a lower one. Crates cannot
//! enforce this, because the core's phases share one state.

use crate::tree::Text;

const CORE: &str = "aggregate/core/src/";

/// Modules of the core from the lowest layer to the highest. A module belongs to the longest name that is a
/// prefix of its path.
const LAYERS: [&[&str]; 11] = [
    &["config", "counters"],
    &["ledger"],
    &["state::shards"],
    &["removal::guard", "removal::difference", "merge::target"],
    &["state"],
    &["merge"],
    &["removal"],
    &["apply", "policy"],
    &["ingest", "build"],
    &["core"],
    &["report"],
];

/// Returns references of the core's modules to higher layers, and modules without a layer.
pub fn upward_references(texts: &[Text]) -> Vec<String> {
    let mut faults = Vec::new();
    for text in texts {
        let Some(module) = module(&text.path) else { continue };
        let Some(own) = layer(&module) else {
            faults.push(format!("{}: in no layer; add it to tests/repo-rules/src/layers.rs", text.path));
            continue;
        };
        for (number, line) in product(&text.text) {
            let above = named(line).filter(|other| layer(other).is_none_or(|layer| layer > own));
            let fault = |other| format!("{}:{number}: {module} names {other}, a higher layer", text.path);
            faults.extend(above.map(fault));
        }
    }
    faults
}

/// Returns the module of a product file of the core; `None` for its root, for tests and for other files.
fn module(path: &str) -> Option<String> {
    let name = path.strip_prefix(CORE)?.strip_suffix(".rs")?;
    let is_test = name.split('/').any(|part| part == "tests");
    (name != "lib" && !is_test).then(|| name.replace('/', "::"))
}

fn layer(module: &str) -> Option<usize> {
    let all =
        LAYERS.iter().enumerate().flat_map(|(layer, names)| names.iter().map(move |name| (layer, *name)));
    let own = all.filter(|(_, name)| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    });
    own.max_by_key(|(_, name)| name.len()).map(|(layer, _)| layer)
}

/// Returns the lines before a file's tests that are not comments, numbered from 1.
fn product(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let product = lines.take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    product.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the modules that a line names by their path from the crate's root.
fn named(line: &str) -> impl Iterator<Item = String> {
    line.split("crate::").skip(1).map(|rest| {
        let path: String =
            rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
        path.split("::").filter(|part| part.starts_with(char::is_lowercase)).collect::<Vec<_>>().join("::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, code: &str) -> usize {
        upward_references(&[Text::new(&format!("{CORE}{path}"), code)]).len()
    }

    #[test]
    fn a_reference_to_a_higher_layer_is_found() {
        assert_eq!(faults("ledger/list.rs", "use crate::state::State;"), 1);
        assert_eq!(faults("state/bucket.rs", "let x = crate::merge::merge(a);"), 1);
        assert_eq!(faults("merge/join.rs", "use crate::removal::holds::held;"), 1);
    }

    #[test]
    fn references_to_lower_layers_and_in_tests_are_fine() {
        assert_eq!(faults("merge.rs", "use crate::state::{State, World};"), 0);
        assert_eq!(faults("state/bucket.rs", "use crate::merge::target::lead;"), 0);
        assert_eq!(faults("ledger.rs", "// crate::ingest\n#[cfg(test)]\nuse crate::core::Core;"), 0);
        assert_eq!(faults("tests/fixtures.rs", "use crate::core::Core;"), 0);
    }

    #[test]
    fn a_module_without_a_layer_is_found() {
        assert_eq!(faults("extra.rs", ""), 1);
        assert_eq!(faults("removals.rs", ""), 1, "a longer name is a separate module");
    }
}
