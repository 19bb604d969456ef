//! Ends single HTTP/2 streams from outside.
//!
//! hyper polls no response body while a chunk waits for the client's window, so a body cannot end a stream whose client
//! does not read. A connection runs its streams on a [`StreamExecutor`], and a request handler passes
//! [`current`] on: aborting drops the stream's future, and with the request body gone HTTP/2 discards queued data and
//! sends a reset.

use std::future::Future;

use futures::future::{AbortHandle, Abortable};
use hyper::rt::Executor;

tokio::task_local! {
    static CURRENT: AbortHandle;
}

/// Spawns the futures of a connection's streams, each with a handle that drops it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, future: F) {
        let (handle, registration) = AbortHandle::new_pair();
        tokio::spawn(CURRENT.scope(handle, Abortable::new(future, registration)));
    }
}

/// Returns the handle of the stream whose future runs; `None` outside of one.
pub(crate) fn current() -> Option<AbortHandle> {
    CURRENT.try_with(AbortHandle::clone).ok()
}
