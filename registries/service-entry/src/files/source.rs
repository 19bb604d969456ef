//! A directory as a [`DocumentSource`]: looks after a hint of the watch, when a second look is due, and
//! periodically. A run of the registry polls it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tributary_model::{InvalidName, Mono, Scope, Version};
use tributary_registry_api::RegistryError;

use super::looks::{Looks, Timing};
use super::tree::Tree;
use super::walk::{Bounds, Listing, walk};
use crate::source::{DocumentSource, SourceEvent};

/// A directory of YAML files with all subdirectories; one scope.
pub struct Directory {
    scope: Scope,
    timing: Timing,
    tree: Tree,
    looks: Looks,
    began: Instant,
}

impl Directory {
    /// Creates a source; it looks at the first call of [`DocumentSource::next`]. The directory need not exist.
    pub fn new(root: &Path, timing: Timing) -> Result<Self, InvalidName> {
        let name: Arc<str> = root.to_string_lossy().into();
        let scope = Self::scope(root)?;
        let tree = Tree::new(name, scope.clone(), timing.confirm);
        Ok(Self { scope, timing, tree, looks: Looks::new(root, timing), began: Instant::now() })
    }

    /// The scope of a directory.
    pub fn scope(root: &Path) -> Result<Scope, InvalidName> {
        scope_of(&root.to_string_lossy())
    }

    async fn look(&mut self) -> Result<Listing, RegistryError> {
        let stamps = self.tree.stamps();
        let read = move |root: &Path| {
            let listing = walk(root, &stamps, Bounds::default());
            let dir = match &listing {
                Listing::Walked(walk) => Some(walk.dir),
                Listing::Unreadable(..) => None,
            };
            (listing, dir)
        };
        let found = self.looks.look(read).await;
        found.ok_or_else(|| RegistryError::retryable("reading the directory failed"))
    }

    fn plan(&mut self, again: bool, well: bool) {
        // The model counts whole milliseconds.
        let confirm = self.timing.confirm + Duration::from_millis(2);
        self.looks.plan(well, again.then_some(confirm));
    }
}

#[async_trait]
impl DocumentSource for Directory {
    fn scopes(&self) -> Vec<Scope> {
        vec![self.scope.clone()]
    }

    async fn next(&mut self) -> Result<Vec<SourceEvent>, RegistryError> {
        loop {
            self.looks.wait().await;
            let listing = self.look().await?;
            let well = matches!(listing, Listing::Walked(_));
            let step = self.tree.observe(listing, Mono::from_elapsed(self.began.elapsed()));
            self.plan(step.again, well);
            if !step.events.is_empty() {
                return Ok(step.events);
            }
        }
    }
}

/// A scope's name from a path: bytes other than visible ASCII are written in hex, and a long name is
/// cut and ends with the path's hash.
fn scope_of(path: &str) -> Result<Scope, InvalidName> {
    const LONGEST: usize = 400;
    let mut name = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    if name.len() > LONGEST {
        name.truncate(LONGEST);
        name.push_str(&format!("%{}", Version::of(path.as_bytes())));
    }
    Scope::new(if name.is_empty() { "%" } else { &name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_scope_of_its_own() {
        let long = "x".repeat(1_000);
        let paths = ["", "a b", "a%20b", "a\u{e9}b", "conf.d", &long, &format!("{long}y")];
        let scopes: std::collections::BTreeSet<_> =
            paths.iter().map(|path| scope_of(path).unwrap()).collect();
        assert_eq!(scopes.len(), paths.len(), "{scopes:?}");
        assert_eq!(scope_of("conf.d").unwrap().as_str(), "conf.d");
    }
}
