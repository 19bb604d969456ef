//! When to look at a directory: after a hint of the watch, when its owner plans it, and periodically.
//!
//! [`super::source`] and the directory of kubeconfigs of remote clusters own one each. It promises that a change after a look gives
//! another look: the watch begins before the look does, and a look without a working watch is repeated soon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::walk::DirId;
use super::watch::{Hint, Signal, Watch, watch};

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

/// Looks at one directory.
pub struct Looks {
    root: PathBuf,
    timing: Timing,
    signal: Arc<Signal>,
    watch: Option<(DirId, Watch)>,
    due: Instant,
    not_before: Instant,
}

impl Looks {
    /// Plans the first look for now. The directory need not exist.
    #[must_use]
    pub fn new(root: &Path, timing: Timing) -> Self {
        let now = Instant::now();
        let (root, signal) = (root.to_owned(), Arc::new(Signal::default()));
        Self { root, timing, signal, watch: None, due: now, not_before: now }
    }

    /// Waits until the next look is due. Cancel safe.
    pub async fn wait(&mut self) {
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

    /// Looks on a blocking thread: watches first, so that changes after the look produce a hint. `read` returns the directory that it
    /// read, `None` if it could not. The result is `None` if `read` panicked.
    pub async fn look<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&Path) -> (T, Option<DirId>) + Send + 'static,
    ) -> Option<T> {
        let (root, signal) = (self.root.clone(), Arc::clone(&self.signal));
        let mut watch = self.watch.take().filter(|_| !signal.take_stale());
        let began = Instant::now();
        let looking = tokio::task::spawn_blocking(move || {
            let found = watched(&root, &signal, &mut watch, read);
            (found, watch)
        });
        let (found, watch) = looking.await.ok()?;
        self.watch = watch;
        // Looking takes at most half of the time, however much changes.
        self.not_before = Instant::now() + began.elapsed();
        Some(found)
    }

    /// Plans the next look: `is_well` if the last one could read the directory; at the latest `within` this time.
    pub fn plan(&mut self, is_well: bool, within: Option<Duration>) {
        let after = if is_well && self.watch.is_some() { self.timing.rescan } else { self.timing.retry };
        self.due = Instant::now() + within.map_or(after, |within| after.min(within));
    }
}

fn watched<T>(
    root: &Path,
    signal: &Arc<Signal>,
    held: &mut Option<(DirId, Watch)>,
    read: impl FnOnce(&Path) -> (T, Option<DirId>),
) -> T {
    let fresh = if held.is_none() { watch(root, signal).ok() } else { None };
    let (found, dir) = read(root);
    match (dir, fresh) {
        (Some(dir), Some(fresh)) => *held = Some((dir, fresh)),
        // without a directory, or with one that has the name since, the watch is that of another one
        (dir, _) => *held = held.take().filter(|(of, _)| Some(*of) == dir),
    }
    found
}
