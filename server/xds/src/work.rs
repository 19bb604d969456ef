//! Threads for heavy work of streams: encoding, folding, comparing long lists.
//!
//! A stream's task runs such work through [`Workers`] on blocking threads, as many at once as there are cores. So the
//! runtime's workers always have time for requests, wake-ups and deadlines. Streams that need the same work wait for
//! the first of them ([`Workers::lead`], [`Workers::follow`]). [`is_on_runtime`] returns the kind of the current
//! thread, for counters.

use std::cell::Cell;
use std::sync::Arc;

use dashmap::{DashMap, Entry};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

thread_local! {
    static IS_WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is one of the runtime's workers, or another thread of the runtime that is not meant for
/// heavy work.
pub(crate) fn is_on_runtime() -> bool {
    !IS_WORKING.get() && Handle::try_current().is_ok()
}

/// Runs heavy work. One per server.
#[derive(Debug)]
pub(crate) struct Workers {
    permits: Arc<Semaphore>,
    /// Shared work in progress. A token is cancelled when its work ends.
    shared: DashMap<WorkKey, CancellationToken>,
}

/// What sessions of one class build together: the way from one generation to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WorkKey {
    /// Address of the class.
    pub(crate) class: usize,
    /// Generation that the client has in full.
    pub(crate) from: Option<u64>,
    pub(crate) to: u64,
}

/// Work that others wait for. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Lead<'w> {
    workers: &'w Workers,
    key: WorkKey,
}

/// Right to run one piece of work; `None` never occurs, because the semaphore is not closed.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Workers {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(cores)
    }
}

impl Workers {
    fn with(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads)), shared: DashMap::new() }
    }
    /// Begins work that others need too. Returns `None` if a different stream performs it already.
    pub(crate) fn lead(&self, key: WorkKey) -> Option<Lead<'_>> {
        let Entry::Vacant(entry) = self.shared.entry(key) else { return None };
        entry.insert(CancellationToken::new());
        Some(Lead { workers: self, key })
    }
    /// Waits until this work ends, if it is in progress.
    pub(crate) async fn follow(&self, key: WorkKey) {
        let ends = self.shared.get(&key).map(|work| work.clone());
        if let Some(ends) = ends {
            ends.cancelled().await;
        }
    }
    /// Waits for a turn, in the order of the calls.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _permit: Arc::clone(&self.permits).acquire_owned().await.ok() }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some((_, work)) = self.workers.shared.remove(&self.key) {
            work.cancel();
        }
    }
}

impl Turn {
    /// Runs work on a blocking thread. Returns `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let task = spawn_blocking(move || {
            let _turn = self;
            let _mark = Mark::set();
            work()
        });
        task.await.ok()
    }
}

/// Marks the current thread while it works.
struct Mark;

impl Mark {
    fn set() -> Self {
        IS_WORKING.set(true);
        Self
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        IS_WORKING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_outside_the_runtime() {
        let workers = Workers::default();
        assert!(is_on_runtime());
        assert_eq!(workers.turn().await.run(is_on_runtime).await, Some(false));
        let panics = workers.turn().await.run(|| assert!(is_on_runtime(), "work panics"));
        assert!(panics.await.is_none());
        assert!(is_on_runtime(), "the mark ends with the work");
    }

    #[tokio::test]
    async fn as_many_pieces_run_at_once_as_there_are_cores() {
        let workers = Workers::with(1);
        let turn = workers.turn().await;
        let mut next = std::pin::pin!(workers.turn());
        assert!(futures::poll!(next.as_mut()).is_pending());
        turn.run(|| ()).await;
        next.await.run(|| ()).await;
    }
    #[tokio::test]
    async fn streams_wait_for_the_same_work_only() {
        let workers = Workers::default();
        let key = |to| WorkKey { class: 1, from: Some(1), to };
        workers.follow(key(2)).await;
        let lead = workers.lead(key(2));
        assert!(lead.is_some() && workers.lead(key(2)).is_none());
        workers.follow(key(3)).await;
        let mut follower = std::pin::pin!(workers.follow(key(2)));
        assert!(futures::poll!(follower.as_mut()).is_pending());
        drop(lead);
        follower.await;
        assert!(workers.shared.is_empty() && workers.lead(key(2)).is_some());
    }
}
