//! The one write in flight on a stream, between its task and its HTTP/2 body: a message, or small ones that leave together.
//!
//! The task puts a write when the transport has taken the last one; the body passes it on chunk by
//! chunk. There is no queue: this is the only flow control.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::future::AbortHandle;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Status;
use tributary_proto::Rope;

#[derive(Debug, Default)]
struct State {
    rope: Option<Rope>,
    end: Option<Status>,
    /// Whether the transport has polled for more data than there is.
    idle: bool,
    /// Whether the transport has ended.
    closed: bool,
    waker: Option<Waker>,
}

/// Shared by a stream's task and its body.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    moved: Notify,
    abort: Option<AbortHandle>,
}

/// The next step of the body.
pub(crate) enum Chunk {
    Data(Bytes),
    End(Status),
}

impl Outbox {
    /// Creates an empty outbox; the handle ends the HTTP/2 stream at once.
    pub(crate) fn new(abort: Option<AbortHandle>) -> Self {
        Self { state: Mutex::default(), moved: Notify::new(), abort }
    }
    /// Resets the HTTP/2 stream and drops what is left of the message in flight: a client that does not read would
    /// never receive a status.
    pub(crate) fn reset(&self) {
        self.state.lock().rope = None;
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }
    /// Whether the transport can take a message now.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.idle && state.rope.is_none() && state.end.is_none()
    }
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
    /// Waits until the transport can take a message or has ended. Cancel-safe.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }
    pub(crate) fn put(&self, rope: Rope) {
        self.change(|state| {
            state.rope = Some(rope);
            state.idle = false;
        });
    }
    /// Ends the stream after the message in flight.
    pub(crate) fn finish(&self, status: Status) {
        self.change(|state| state.end = Some(status));
    }
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.moved.notify_one();
    }
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Chunk> {
        let mut state = self.state.lock();
        if let Some(chunk) = state.rope.as_mut().and_then(Rope::pop) {
            return Poll::Ready(Chunk::Data(chunk));
        }
        state.rope = None;
        if let Some(status) = state.end.clone() {
            return Poll::Ready(Chunk::End(status));
        }
        state.waker = Some(cx.waker().clone());
        if !std::mem::replace(&mut state.idle, true) {
            self.moved.notify_one();
        }
        Poll::Pending
    }
    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.state.lock();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Notifies the task when the transport drops the body.
#[derive(Debug)]
pub(crate) struct BodyEnd(pub(crate) Arc<Outbox>);

impl Drop for BodyEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}
