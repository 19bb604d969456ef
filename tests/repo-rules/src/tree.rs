//! The files of this repository as values: paths relative to its root, with their text. Called by the tests
//! that apply a check to the whole tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A text file.
#[derive(Debug, Clone)]
pub struct Text {
    /// Relative to the root, with `/` between parts.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl Text {
    /// For checks tried on made-up files.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The last part of its path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file that belongs to the repository, in the order of their paths.
pub fn texts() -> Result<Vec<Text>> {
    let root = root();
    let mut texts = Vec::new();
    walk(&root, "", &mut texts)?;
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
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

/// What tools make, and what is hidden; CI's own folder is ours although it is hidden.
fn is_foreign(name: &str) -> bool {
    name == "target"
        || name == "node_modules"
        || name == "__pycache__"
        || (name.starts_with('.') && name != ".ci")
}
