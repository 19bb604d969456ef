//! The one write in flight on a stream, between its task and its HTTP/2 body: a message, or small ones that leave together.
//!
//! The task puts a write when the transport has taken the last one; the body passes it on chunk by
//! chunk. There is no queue: this is the only flow control. The task is woken only if it has more to send by the time
//! that the transport has taken a write, or if the transport has ended.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::future::AbortHandle;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::time::Instant;
use tonic::Status;
use tributary_proto::Rope;

use crate::answers::ResourceType;
use crate::counters::Counters;

/// Types of the messages of a write, and when building each began.
pub(crate) type Pushing = SmallVec<[(ResourceType, Instant); 4]>;

#[derive(Debug, Default)]
struct State {
    rope: Option<Rope>,
    pushing: Pushing,
    end: Option<Status>,
    /// Whether the transport has polled for more data than there is.
    idle: bool,
    /// Whether the transport has ended.
    closed: bool,
    /// The body, while it waits for data.
    waker: Option<Waker>,
    /// Whether the task must know when the transport has taken the write.
    is_awaited: bool,
    /// Whether that has happened, or the transport has ended, since the task looked.
    has_moved: bool,
    /// The task, while it waits.
    task: Option<Waker>,
}

impl State {
    /// Returns the task to wake.
    fn moved(&mut self) -> Option<Waker> {
        self.has_moved = true;
        self.is_awaited = false;
        self.task.take()
    }
}

/// Shared by a stream's task and its body.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    counters: Arc<Counters>,
    abort: Option<AbortHandle>,
}

/// The next step of the body.
pub(crate) enum Chunk {
    Data(Bytes),
    End(Status),
}

impl Outbox {
    /// Creates an empty outbox; the handle ends the HTTP/2 stream at once.
    pub(crate) fn new(abort: Option<AbortHandle>, counters: Arc<Counters>) -> Self {
        Self { state: Mutex::default(), counters, abort }
    }
    /// Resets the HTTP/2 stream and drops what is left of the message in flight: a client that does not read would
    /// never receive a status.
    pub(crate) fn reset(&self) {
        self.state.lock().rope = None;
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }
    /// Whether the transport can take a message now. If not and the task has more to send, [`Outbox::poll_moved`] completes
    /// when it can.
    pub(crate) fn is_idle(&self, has_more: bool) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.idle && state.rope.is_none() && state.end.is_none();
        state.is_awaited = has_more && !is_idle;
        is_idle
    }
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
    /// Completes when the transport can take a message that the task has, or has ended.
    pub(crate) fn poll_moved(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_moved) {
            return Poll::Ready(());
        }
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }
    pub(crate) fn put(&self, rope: Rope, pushing: Pushing) {
        self.change(|state| {
            state.rope = Some(rope);
            state.pushing = pushing;
            state.idle = false;
        });
    }
    /// Ends the stream after the message in flight.
    pub(crate) fn finish(&self, status: Status) {
        self.change(|state| state.end = Some(status));
    }
    pub(crate) fn close(&self) {
        let task = {
            let mut state = self.state.lock();
            state.closed = true;
            state.moved()
        };
        task.into_iter().for_each(Waker::wake);
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
        let mut task = None;
        if !std::mem::replace(&mut state.idle, true) {
            self.delivered(&mut state.pushing);
            task = if state.is_awaited { state.moved() } else { None };
        }
        drop(state);
        task.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
    fn delivered(&self, pushing: &mut Pushing) {
        let now = Instant::now();
        for (kind, since) in pushing.drain(..) {
            self.counters.pushes.delivered(kind, now.duration_since(since));
        }
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
