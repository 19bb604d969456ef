//! Names of registries whose status changed, for readers that must not poll.
//!
//! The core task adds the names that the core reports, the supervisors those whose runs changed. Each reader has its
//! own [`StatusChanges`]. Changes are conflated: a registry that changed several times since the last read is returned
//! once. A woken reader that inspects the core sees at least the status that woke it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tributary_model::RegistryName;

/// Most names that are kept. A reader that is further behind misses the names that changed first.
const MOST_NAMES: usize = 4096;

/// Registries by the number of their last change.
#[derive(Debug, Default)]
struct Changes {
    last: u64,
    by_name: BTreeMap<RegistryName, u64>,
}

impl Changes {
    fn add(&mut self, name: RegistryName) {
        self.last += 1;
        self.by_name.insert(name, self.last);
        if self.by_name.len() > MOST_NAMES {
            let oldest = self.by_name.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
            oldest.map(|name| self.by_name.remove(&name));
        }
    }
    fn since(&self, read: u64) -> BTreeSet<RegistryName> {
        self.by_name.iter().filter(|(_, at)| **at > read).map(|(name, _)| name.clone()).collect()
    }
}

/// Writing half, shared by the core task and the supervisors.
#[derive(Debug, Clone)]
pub(crate) struct StatusFeed(Arc<watch::Sender<Changes>>);

impl Default for StatusFeed {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }
}

impl StatusFeed {
    /// Adds changed registries and wakes the readers.
    pub(crate) fn add(&self, names: impl IntoIterator<Item = RegistryName>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.0.send_modify(|changes| names.for_each(|name| changes.add(name)));
        }
    }
    /// Returns a reader, which first receives all earlier changes.
    pub(crate) fn subscribe(&self) -> StatusChanges {
        let mut receiver = self.0.subscribe();
        receiver.mark_changed();
        StatusChanges { receiver, read: 0 }
    }
}

/// Reader of the registries whose status changed.
#[derive(Debug)]
pub struct StatusChanges {
    receiver: watch::Receiver<Changes>,
    read: u64,
}

impl StatusChanges {
    /// Waits until a status changed. Returns the registries that changed since the last call, including removed ones;
    /// `None` once the runtime and every handle to it are dropped. Safe to cancel.
    pub async fn next(&mut self) -> Option<BTreeSet<RegistryName>> {
        loop {
            self.receiver.changed().await.ok()?;
            let changes = self.receiver.borrow_and_update();
            let names = changes.since(self.read);
            self.read = changes.last;
            if !names.is_empty() {
                return Some(names);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RegistryName {
        RegistryName::new(text).unwrap()
    }
    fn texts(names: Option<BTreeSet<RegistryName>>) -> Vec<String> {
        names.into_iter().flatten().map(|name| name.to_string()).collect()
    }

    #[tokio::test]
    async fn changes_are_conflated_for_each_reader() {
        let feed = StatusFeed::default();
        let mut early = feed.subscribe();
        feed.add([name("b")]);
        feed.add([name("a"), name("b")]);
        assert_eq!(texts(early.next().await), ["a", "b"]);
        feed.add([name("b")]);
        let mut late = feed.subscribe();
        assert_eq!(texts(early.next().await), ["b"]);
        assert_eq!(texts(late.next().await), ["a", "b"], "a late reader receives earlier changes");
        drop(feed);
        assert!(early.next().await.is_none());
    }

    #[tokio::test]
    async fn number_of_names_is_bounded() {
        let feed = StatusFeed::default();
        let mut reader = feed.subscribe();
        feed.add((0..MOST_NAMES + 10).map(|at| name(&format!("r{at}"))));
        let names = reader.next().await.unwrap();
        assert_eq!((names.len(), names.contains(&name("r0"))), (MOST_NAMES, false));
    }
}
