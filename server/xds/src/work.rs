//! Threads for heavy work of streams: encoding, folding, comparing long lists.
//!
//! A stream's task runs such work through [`Workers`] on blocking threads, as many at once as there are cores. So the
//! runtime's workers always have time for requests, wake-ups and deadlines. [`is_on_runtime`] returns the kind of the
//! current thread, for counters.

use std::cell::Cell;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

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
}

/// Right to run one piece of work; `None` never occurs, because the semaphore is not closed.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Workers {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { permits: Arc::new(Semaphore::new(cores)) }
    }
}

impl Workers {
    /// Waits for a turn, in the order of the calls.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _permit: Arc::clone(&self.permits).acquire_owned().await.ok() }
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
        let workers = Workers { permits: Arc::new(Semaphore::new(1)) };
        let turn = workers.turn().await;
        let mut next = std::pin::pin!(workers.turn());
        assert!(futures::poll!(next.as_mut()).is_pending());
        turn.run(|| ()).await;
        next.await.run(|| ()).await;
    }
}
