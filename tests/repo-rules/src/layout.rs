//! Layout of files: headers, names, sizes, lints, and no text that ties the tree to one machine.

use crate::tree::Text;

const LONGEST: usize = 500;

/// Files that may be longer, each with the reason.
pub const LONG_BY_NATURE: [(&str, &str); 0] = [];

/// Returns Rust files without a module header.
pub fn without_opening(texts: &[Text]) -> Vec<String> {
    let headless = texts.iter().filter(|text| text.is_rust() && !text.text.starts_with("//!"));
    headless
        .map(|text| format!("{}: start it with a //! header that names what it owns", text.path))
        .collect()
}

/// Returns files named mod.rs: a module's file has the name of the module.
pub fn named_mod(texts: &[Text]) -> Vec<String> {
    let named = texts.iter().filter(|text| text.file_name() == "mod.rs");
    named.map(|text| format!("{}: name the file after its module", text.path)).collect()
}

/// Returns Rust files over the limit of lines.
pub fn too_long(texts: &[Text]) -> Vec<String> {
    let fair = |text: &&Text| text.is_rust() && !LONG_BY_NATURE.iter().any(|(path, _)| *path == text.path);
    let sized = texts.iter().filter(fair).map(|text| (text, text.text.lines().count()));
    sized
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(text, lines)| format!("{}: {lines} lines, split it by subject", text.path))
        .collect()
}

/// Returns crates that do not opt in to the lints of the workspace, and a workspace that does not forbid unsafe
/// code.
pub fn without_lints(texts: &[Text]) -> Vec<String> {
    let manifests = texts.iter().filter(|text| text.file_name() == "Cargo.toml");
    manifests.filter_map(lint_fault).collect()
}

fn lint_fault(manifest: &Text) -> Option<String> {
    let has = |line: &str| manifest.text.lines().any(|own| own.trim() == line);
    if manifest.path == "Cargo.toml" {
        let lints = ["[workspace.lints.rust]", "unsafe_code = \"forbid\"", "missing_docs = \"deny\""];
        let holds = lints.iter().all(|line| has(line));
        return (!holds)
            .then(|| "Cargo.toml: forbid unsafe_code and deny missing_docs for the workspace".to_owned());
    }
    let opted = manifest.text.contains("[lints]\nworkspace = true");
    (!opted).then(|| format!("{}: add [lints] workspace = true", manifest.path))
}

/// Returns Rust files that switch off the lint on undocumented public items.
pub fn undocumented(texts: &[Text]) -> Vec<String> {
    let switch = format!("{}(missing_docs", "allow");
    let silenced = texts.iter().filter(|text| text.is_rust() && text.text.contains(&switch));
    silenced.map(|text| format!("{}: document its public items", text.path)).collect()
}

/// Returns lines with a path that exists on one machine only.
pub fn machine_paths(texts: &[Text]) -> Vec<String> {
    let folders = ["root", "home", "work", "Users"].map(|folder| format!("/{folder}/"));
    let mut faults = Vec::new();
    for text in texts {
        for (number, line) in text.text.lines().enumerate() {
            if folders.iter().any(|folder| names_folder(line, folder)) {
                faults.push(format!("{}:{}: a path of one machine: {}", text.path, number + 1, line.trim()));
            }
        }
    }
    faults
}

/// Returns true if `folder` is the start of an absolute path in `line`, and not part of a longer path or an
/// address.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| {
            !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '*' | '$' | '~'))
        })
    })
}

/// Returns lock files of npm that name the source of a package, which depends on the machine.
pub fn resolved_hosts(texts: &[Text]) -> Vec<String> {
    let locks = texts.iter().filter(|text| text.file_name() == "package-lock.json");
    let bound = locks.filter(|text| text.text.contains("\"resolved\""));
    bound.map(|text| format!("{}: write it with omit-lockfile-registry-resolved", text.path)).collect()
}

/// Returns calls of clocks, files, sockets and threads in crates that decide, outside their tests.
pub fn worldly_calls(texts: &[Text]) -> Vec<String> {
    const CALLS: [&str; 7] = [
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "std::fs",
        "std::env",
        "std::thread",
        "TcpStream",
    ];
    let mut faults = Vec::new();
    for text in texts.iter().filter(|text| text.is_rust() && decides(&text.path)) {
        let product = text.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (number, line) in product.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(call) = CALLS.iter().find(|call| line.contains(**call)) {
                faults.push(format!(
                    "{}:{}: {call} in a crate that decides: pass it in",
                    text.path,
                    number + 1
                ));
            }
        }
    }
    faults
}

fn decides(path: &str) -> bool {
    path.starts_with("aggregate/") && path.contains("/src/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_file_without_a_header_is_found() {
        let texts = [
            Text::new("a/src/x.rs", "use std::fmt;"),
            Text::new("a/src/y.rs", "//! Owns y."),
            Text::new("z.md", ""),
        ];
        assert_eq!(
            without_opening(&texts),
            ["a/src/x.rs: start it with a //! header that names what it owns"]
        );
    }

    #[test]
    fn mod_files_are_found() {
        assert_eq!(
            named_mod(&[Text::new("a/src/x/mod.rs", "//! X."), Text::new("a/src/x.rs", "//! X.")]).len(),
            1
        );
    }

    #[test]
    fn long_files_are_found() {
        let long = "//! X.\n".repeat(LONGEST + 1);
        assert_eq!(too_long(&[Text::new("x.rs", &long), Text::new("y.rs", &long[7..])]).len(), 1);
    }

    #[test]
    fn lints_must_be_opted_in_to() {
        let root = Text::new("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"\n");
        let plain = Text::new("a/Cargo.toml", "[package]\nname = \"a\"\n");
        let good = Text::new("b/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n");
        assert_eq!(without_lints(&[root, plain, good]).len(), 2);
    }

    #[test]
    fn undocumented_public_items_are_found() {
        let silenced = format!("//! X.\n#![{}(missing_docs)]\n", "allow");
        assert_eq!(undocumented(&[Text::new("x.rs", &silenced), Text::new("y.rs", "//! Y.")]).len(), 1);
    }

    #[test]
    fn machine_paths_are_found_and_addresses_are_not() {
        let bad = format!("cd /{}/me/tributary", "home");
        let quoted = format!("path = \"/{}/x\"", "root");
        let fine = format!("https://example.test/{0}/x and target/{0}/y", "work");
        assert_eq!(
            machine_paths(&[Text::new("a", &bad), Text::new("b", &quoted), Text::new("c", &fine)]).len(),
            2
        );
    }

    #[test]
    fn lock_file_with_hosts_is_found() {
        assert_eq!(resolved_hosts(&[Text::new("t/package-lock.json", "{\"resolved\": \"x\"}")]).len(), 1);
    }

    #[test]
    fn clock_in_the_core_is_found_but_not_in_its_tests() {
        let code = "//! X.\nlet now = Instant::now();\n#[cfg(test)]\nmod tests { Instant::now() }\n";
        let texts = [Text::new("aggregate/core/src/x.rs", code), Text::new("server/xds/src/x.rs", code)];
        assert_eq!(
            worldly_calls(&texts),
            ["aggregate/core/src/x.rs:2: Instant::now in a crate that decides: pass it in"]
        );
    }
}
