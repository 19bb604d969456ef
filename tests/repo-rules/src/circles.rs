//! Circles of files inside a crate: files that name each other, directly or through others.
//!
//! A file names another by a path from `crate::`, `super::` or `self::` outside its tests. A parent that names its
//! own child modules composes them and forms no circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Text;

/// Maximum number of files in one circle.
pub const LARGEST: usize = 5;

/// Modules of a crate by path (empty for the root), each with the modules that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the circles that are larger than [`LARGEST`], with their files.
pub fn faults(texts: &[Text]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<String, &Text>> = BTreeMap::new();
    for text in texts.iter().filter(|text| text.is_rust()) {
        if let Some((folder, name)) = text.path.split_once("/src/") {
            crates.entry(folder).or_default().insert(module(name), text);
        }
    }
    let large = |(folder, files): (&&str, &BTreeMap<String, &Text>)| {
        let circles = circles(&graph(files)).into_iter().filter(|circle| circle.len() > LARGEST);
        circles.map(|circle| fault(folder, &circle)).collect::<Vec<_>>()
    };
    crates.iter().flat_map(large).collect()
}

fn fault(folder: &str, circle: &BTreeSet<String>) -> String {
    let names: Vec<&str> = circle.iter().map(|name| if name.is_empty() { "lib" } else { name }).collect();
    format!("{folder}: {} files name each other: {}", names.len(), names.join(", "))
}

/// Returns the module of a file below `src/`.
fn module(name: &str) -> String {
    let name = name.trim_end_matches(".rs");
    if matches!(name, "lib" | "main") { String::new() } else { name.replace('/', "::") }
}

fn graph(files: &BTreeMap<String, &Text>) -> Graph {
    let is_product = |module: &&String| !module.split("::").any(|part| matches!(part, "tests" | "fixtures"));
    let named = |module: &String| {
        let paths = files.get(module).map(|text| paths(module, &product(&text.text))).unwrap_or_default();
        let modules = paths.into_iter().map(|path| nearest(path, files));
        modules.filter(|other| other != module).collect()
    };
    files.keys().filter(is_product).map(|module| (module.clone(), named(module))).collect()
}

/// Returns the module that has the item of a path: the longest prefix that is a module.
fn nearest(mut path: Vec<String>, files: &BTreeMap<String, &Text>) -> String {
    while !path.is_empty() && !files.contains_key(&path.join("::")) {
        path.pop();
    }
    path.join("::")
}

/// Returns the code of a file before its tests, without comments.
fn product(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let code = lines.map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.collect::<Vec<_>>().join("\n")
}

/// Returns every path in the code that starts with `crate::`, `super::` or `self::`, from the root of the crate.
fn paths(module: &str, code: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            let mut base = if start == "crate::" { Vec::new() } else { own.clone() };
            let mut rest = &code[at..];
            while let Some(next) = rest.strip_prefix("super::") {
                base.pop();
                rest = next;
            }
            rest = rest.strip_prefix("crate::").or_else(|| rest.strip_prefix("self::")).unwrap_or(rest);
            use_tree(rest, &base, &mut found);
        }
    }
    found
}

/// Reads a path with groups, such as `a::{b, c::D}`, and adds each member. Returns the text behind it.
fn use_tree<'t>(text: &'t str, base: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = base.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            return members(group, &path, found);
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        path.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if end > 0 => rest = next,
            _ => break,
        }
    }
    found.push(path);
    rest
}

fn members<'t>(group: &'t str, base: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
    let mut rest = group.trim_start();
    while !rest.is_empty() && !rest.starts_with('}') {
        rest = use_tree(rest, base, found);
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        rest = rest[end..].trim_start_matches(',').trim_start();
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// Returns the sets of modules that reach each other.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let circle = |(from, to): (&&String, &BTreeSet<&String>)| {
        let back = to.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(*from)));
        back.map(|other| (*other).clone()).collect::<BTreeSet<String>>()
    };
    reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

fn reachable<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(graph.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns files of a crate where each names the next, and the last names the first.
    fn ring(size: usize) -> Vec<Text> {
        let text = |n: usize| {
            Text::new(&format!("x/src/m{n}.rs"), &format!("use crate::m{}::Type;\n", (n + 1) % size))
        };
        (0..size).map(text).collect()
    }

    #[test]
    fn circle_over_the_limit_is_found_once() {
        assert_eq!(faults(&ring(LARGEST)), [""; 0]);
        let faults = faults(&ring(LARGEST + 1));
        assert_eq!(faults, ["x: 6 files name each other: m0, m1, m2, m3, m4, m5"]);
    }

    #[test]
    fn paths_are_read_with_groups_and_parents() {
        let code = "use crate::{a, b::{c::D, e as f}};\nfn x() -> super::super::g::H { self::i::J }";
        let found: BTreeSet<String> = paths("k::l", code).into_iter().map(|path| path.join("::")).collect();
        let expected = ["a", "b::c::D", "b::e", "g::H", "k::l::i::J"].map(str::to_owned);
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn tests_and_comments_name_nothing() {
        let code = "// crate::b\nuse crate::c;\n#[cfg(test)]\nmod tests { use crate::d; }";
        assert_eq!(paths("a", &product(code)), [["c".to_owned()]]);
    }
}
