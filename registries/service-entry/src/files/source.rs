//! A directory as a [`DocumentSource`]: looks after a hint of the watch, when a second look is due, and
//! periodically. A run of the registry polls it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};
use tributary_model::{InvalidName, Mono, Scope, Version};
use tributary_registry_api::RegistryError;

use super::tree::Tree;
use super::walk::{Bounds, DirId, Listing, Stamps, walk};
use super::watch::{Hint, Signal, Watch, watch};
use crate::source::{DocumentSource, SourceEvent};

/// Timing of looks at a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time after which a second listing proves that an object was removed.
    pub confirm: Duration,
    /// Time without writes after which a file is complete.
    pub quiet: Duration,
    /// Interval of looks without a hint of the watch.
    pub rescan: Duration,
    /// Interval of looks while the directory cannot be read or watched.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            confirm: Duration::from_millis(250),
            quiet: Duration::from_millis(100),
            rescan: Duration::from_secs(10),
            retry: Duration::from_secs(1),
        }
    }
}

/// A directory of YAML files with all subdirectories; one scope.
pub struct Directory {
    root: PathBuf,
    scope: Scope,
    timing: Timing,
    tree: Tree,
    signal: Arc<Signal>,
    watch: Option<(DirId, Watch)>,
    began: Instant,
    due: Instant,
    not_before: Instant,
}

impl Directory {
    /// Creates a source; it looks at the first call of [`DocumentSource::next`]. The directory need not exist.
    pub fn new(root: &Path, timing: Timing) -> Result<Self, InvalidName> {
        let name: Arc<str> = root.to_string_lossy().into();
        let scope = Self::scope(root)?;
        let now = Instant::now();
        Ok(Self {
            root: root.to_owned(),
            scope: scope.clone(),
            timing,
            tree: Tree::new(name, scope, timing.confirm),
            signal: Arc::new(Signal::default()),
            watch: None,
            began: now,
            due: now,
            not_before: now,
        })
    }

    /// The scope of a directory.
    pub fn scope(root: &Path) -> Result<Scope, InvalidName> {
        scope_of(&root.to_string_lossy())
    }

    /// Waits until the next look is due.
    async fn wait(&mut self) {
        let mut due = self.due;
        let mut latest = None;
        loop {
            tokio::select! {
                () = sleep_until(due.max(self.not_before)) => return,
                hint = self.signal.next() => match hint {
                    Hint::Now => due = Instant::now(),
                    Hint::Soon => {
                        // A writer that never pauses does not delay the look for ever.
                        let now = Instant::now();
                        let latest = *latest.get_or_insert(now + 10 * self.timing.quiet);
                        due = self.due.min(latest).min(now + self.timing.quiet);
                    }
                },
            }
        }
    }

    /// Looks: watches first, so that changes after the look produce a hint.
    async fn look(&mut self) -> Result<Listing, RegistryError> {
        let (root, stamps, signal) = (self.root.clone(), self.tree.stamps(), self.signal.clone());
        let mut watch = self.watch.take().filter(|_| !signal.take_stale());
        let began = Instant::now();
        let looking = tokio::task::spawn_blocking(move || {
            let listing = watched_walk(&root, &stamps, &signal, &mut watch);
            (listing, watch)
        });
        let (listing, watch) =
            looking.await.map_err(|_| RegistryError::retryable("reading the directory failed"))?;
        self.watch = watch;
        // Looking takes at most half of the time, however much changes.
        self.not_before = Instant::now() + began.elapsed();
        Ok(listing)
    }

    fn plan(&mut self, again: bool, well: bool) {
        let mut after = if well && self.watch.is_some() { self.timing.rescan } else { self.timing.retry };
        if again {
            // The model counts whole milliseconds.
            after = after.min(self.timing.confirm + Duration::from_millis(2));
        }
        self.due = Instant::now() + after;
    }
}

fn watched_walk(
    root: &Path,
    stamps: &Stamps,
    signal: &Arc<Signal>,
    held: &mut Option<(DirId, Watch)>,
) -> Listing {
    let fresh = if held.is_none() { watch(root, signal).ok() } else { None };
    let listing = walk(root, stamps, Bounds::default());
    match &listing {
        Listing::Walked(walk) => {
            if let Some(fresh) = fresh {
                *held = Some((walk.dir, fresh));
            } else if held.as_ref().is_some_and(|(dir, _)| *dir != walk.dir) {
                *held = None; // it watches a directory that had the name before
            }
        }
        Listing::Unreadable(..) => *held = None,
    }
    listing
}

#[async_trait]
impl DocumentSource for Directory {
    fn scopes(&self) -> Vec<Scope> {
        vec![self.scope.clone()]
    }

    async fn next(&mut self) -> Result<Vec<SourceEvent>, RegistryError> {
        loop {
            self.wait().await;
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
