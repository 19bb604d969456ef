//! The files of this repository as values: paths relative to its root, with their text. The tests that apply a
//! check to the whole tree call it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A text file.
#[derive(Debug, Clone)]
pub struct Text {
    /// Relative to the root, with `/` between parts.
    pub path: String,
    /// Content.
    pub text: String,
}

impl Text {
    /// Creates a file for the test of a check.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns true if it is a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the last part of its path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every text file of the repository, ordered by path.
pub fn texts() -> Result<Vec<Text>> {
    let root = root();
    let mut texts = Vec::new();
    walk(&root, "", &mut texts)?;
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
}

/// Asserts that a check finds nothing in this tree. For tests.
///
/// # Panics
///
/// Panics with the faults, or if the tree was not read.
#[allow(clippy::panic, reason = "a helper of tests: a fault of the tree is a failed test")]
pub fn assert_holds(check: fn(&[Text]) -> Vec<String>) {
    let texts = texts().unwrap_or_default();
    assert!(texts.iter().filter(|text| text.is_rust()).count() > 20, "the tree was not read");
    let faults = check(&texts);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn walk(folder: &Path, prefix: &str, texts: &mut Vec<Text>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if is_foreign(&name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{path}/"), texts)?;
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            texts.push(Text { path, text });
        }
    }
    Ok(())
}

/// Returns true for output of tools and hidden files, except CI's folder.
fn is_foreign(name: &str) -> bool {
    name == "target"
        || name == "node_modules"
        || name == "__pycache__"
        || (name.starts_with('.') && name != ".ci")
}
