//! Receives change events of a directory from the system, and reports how soon to look.
//!
//! An event is a hint and never a fact: a lost event only delays the change until the next rescan.
//! Renames and closed files are looked at immediately; a file that is being written is looked at when
//! its writer pauses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Urgency of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// A file is complete, or a name leads to a different file.
    Now,
    /// A file is being written.
    Soon,
}

/// Hints that the watching thread has received.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    wake: Notify,
    now: AtomicBool,
    soon: AtomicBool,
    stale: AtomicBool,
}

impl Signal {
    fn raise(&self, hint: Hint, stale: bool) {
        let flag = if hint == Hint::Now { &self.now } else { &self.soon };
        flag.store(true, Ordering::Release);
        if stale {
            self.stale.store(true, Ordering::Release);
        }
        self.wake.notify_one();
    }
    /// Waits for the next hint. Cancel safe.
    pub(crate) async fn next(&self) -> Hint {
        loop {
            let now = self.now.swap(false, Ordering::AcqRel);
            let soon = self.soon.swap(false, Ordering::AcqRel);
            if now {
                return Hint::Now;
            }
            if soon {
                return Hint::Soon;
            }
            self.wake.notified().await;
        }
    }
    /// Whether directories appeared or links moved, so that the watch may be incomplete.
    pub(crate) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }
}

/// A running watch; dropping it ends it.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

/// Watches a directory recursively, and its name.
pub(crate) fn watch(root: &Path, signal: &Arc<Signal>) -> Result<Watch, notify::Error> {
    let root = std::path::absolute(root)?;
    let name = root.clone();
    let signal = Arc::clone(signal);
    let mut watcher = notify::recommended_watcher(move |event| match event {
        Ok(event) => handle(&signal, &name, &event),
        // Events were lost: look, and watch again.
        Err(_) => signal.raise(Hint::Now, true),
    })?;
    watcher.watch(&root, RecursiveMode::Recursive)?;
    if let Some(parent) = root.parent() {
        // Without this watch the next rescan detects a replaced directory.
        let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
    }
    Ok(Watch { _watcher: watcher })
}

fn handle(signal: &Signal, root: &PathBuf, event: &Event) {
    if event.need_rescan() {
        return signal.raise(Hint::Now, true);
    }
    if !event.paths.iter().any(|path| path.starts_with(root)) {
        return;
    }
    if let Some((hint, moves)) = meaning(event.kind) {
        let leads = |path: &PathBuf| path.extension().is_none_or(|ext| ext != "yaml" && ext != "yml");
        signal.raise(hint, moves && event.paths.iter().any(leads));
    }
}

/// The urgency of an event, and whether a name may lead elsewhere now. Reads, including those of this
/// process, have none.
fn meaning(kind: EventKind) -> Option<(Hint, bool)> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some((Hint::Now, false)),
        EventKind::Access(_) => None,
        EventKind::Create(CreateKind::File) => Some((Hint::Soon, true)),
        EventKind::Create(_) => Some((Hint::Now, true)),
        EventKind::Modify(ModifyKind::Name(_)) => Some((Hint::Now, true)),
        EventKind::Remove(_) => Some((Hint::Now, false)),
        EventKind::Modify(_) | EventKind::Any | EventKind::Other => Some((Hint::Soon, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_reads_give_no_hint() {
        assert_eq!(meaning(EventKind::Access(AccessKind::Close(AccessMode::Read))), None);
        assert_eq!(meaning(EventKind::Access(AccessKind::Open(AccessMode::Any))), None);
        assert_eq!(
            meaning(EventKind::Access(AccessKind::Close(AccessMode::Write))),
            Some((Hint::Now, false))
        );
    }

    #[tokio::test]
    async fn hint_before_the_wait_is_not_lost() {
        let signal = Signal::default();
        signal.raise(Hint::Soon, false);
        signal.raise(Hint::Now, true);
        assert_eq!(signal.next().await, Hint::Now);
        assert!(signal.take_stale() && !signal.take_stale());
    }
}
