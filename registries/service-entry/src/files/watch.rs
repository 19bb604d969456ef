//! Hears of changes in a directory from the system, and says how soon to look.
//!
//! What is heard is a hint and never a fact: an event that is lost costs a rescan's time and nothing
//! else. Renames and closed files are looked at now; a file that is being written is looked at when
//! its writer falls silent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How soon to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// A file is complete, or a name leads elsewhere.
    Now,
    /// A file is being written.
    Soon,
}

/// What the watching thread has heard.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    wake: Notify,
    now: AtomicBool,
    soon: AtomicBool,
    stale: AtomicBool,
}

impl Signal {
    fn heard(&self, hint: Hint, stale: bool) {
        let flag = if hint == Hint::Now { &self.now } else { &self.soon };
        flag.store(true, Ordering::Release);
        if stale {
            self.stale.store(true, Ordering::Release);
        }
        self.wake.notify_one();
    }
    /// The next hint; may be dropped while it waits without losing one.
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
    /// Whether directories have come or links have moved, so that the watch no longer covers all.
    pub(crate) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }
}

/// A running watch; ends when it is dropped.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

/// Watches a directory with all that it holds, and its own name.
pub(crate) fn watch(root: &Path, signal: &Arc<Signal>) -> Result<Watch, notify::Error> {
    let root = std::path::absolute(root)?;
    let name = root.clone();
    let signal = Arc::clone(signal);
    let mut watcher = notify::recommended_watcher(move |event| match event {
        Ok(event) => tell(&signal, &name, &event),
        // Events were lost: look, and watch anew.
        Err(_) => signal.heard(Hint::Now, true),
    })?;
    watcher.watch(&root, RecursiveMode::Recursive)?;
    if let Some(parent) = root.parent() {
        // Without it a replaced directory is seen by the next rescan.
        let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
    }
    Ok(Watch { _watcher: watcher })
}

fn tell(signal: &Signal, root: &PathBuf, event: &Event) {
    if event.need_rescan() {
        return signal.heard(Hint::Now, true);
    }
    if !event.paths.iter().any(|path| path.starts_with(root)) {
        return;
    }
    if let Some((hint, moves)) = meaning(event.kind) {
        let leads = |path: &PathBuf| path.extension().is_none_or(|ext| ext != "yaml" && ext != "yml");
        signal.heard(hint, moves && event.paths.iter().any(leads));
    }
}

/// How soon an event asks to look, and whether a name came to lead elsewhere. Reads, our own among
/// them, mean nothing.
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
    fn our_own_reads_ask_for_nothing() {
        assert_eq!(meaning(EventKind::Access(AccessKind::Close(AccessMode::Read))), None);
        assert_eq!(meaning(EventKind::Access(AccessKind::Open(AccessMode::Any))), None);
        assert_eq!(
            meaning(EventKind::Access(AccessKind::Close(AccessMode::Write))),
            Some((Hint::Now, false))
        );
    }

    #[tokio::test]
    async fn a_hint_that_was_heard_before_anybody_waited_is_not_lost() {
        let signal = Signal::default();
        signal.heard(Hint::Soon, false);
        signal.heard(Hint::Now, true);
        assert_eq!(signal.next().await, Hint::Now);
        assert!(signal.take_stale() && !signal.take_stale());
    }
}
