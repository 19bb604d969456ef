//! Memory that unfinished and decoded requests may hold, over all streams of a server.
//!
//! [`Metered`] is the body that a stream's decoder reads. Before it passes a message's prefix on, it takes the message's
//! length from the budget; without budget it stops reading, so HTTP/2 flow control stops the client. Each frame that it
//! passes ends at the end of a message at the latest, so the decoder holds one message at most. The decoded
//! request gets the permit ([`Metered::take_permit`]), which returns the bytes when it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tributary_proto::ProtoError;
use tributary_proto::grpc::{PREFIX, parse_prefix};

use super::patience::Patience;
use super::reader::status;

/// Messages below this size have a part of the budget of their own, so that large ones cannot stop acknowledgements.
const SMALL: usize = 64 << 10;

/// Bytes of requests that a server may hold.
#[derive(Debug)]
pub(crate) struct InboundBudget {
    bytes: usize,
    all: Arc<Semaphore>,
    small: Arc<Semaphore>,
}

/// Bytes taken from a budget until dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

type Taking = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

impl InboundBudget {
    /// Creates a budget of this many bytes, an eighth of them for small messages only.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        let small = bytes / 8;
        Self { bytes, all: Arc::new(Semaphore::new(bytes - small)), small: Arc::new(Semaphore::new(small)) }
    }
    /// Returns the number of taken bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes - self.all.available_permits() - self.small.available_permits()
    }
    /// Takes bytes, at once or when they are free. `None` if the budget is closed, which it never is.
    fn take(&self, len: usize) -> Result<Permit, Taking> {
        let count = u32::try_from(len).unwrap_or(u32::MAX);
        if let Ok(permit) = Arc::clone(&self.all).try_acquire_many_owned(count) {
            return Ok(permit);
        }
        let part = if len < SMALL { &self.small } else { &self.all };
        let waiting = Arc::clone(part).acquire_many_owned(count);
        Err(Box::pin(async move { waiting.await.ok() }))
    }
}

/// Where the body stands within its messages.
#[derive(Debug)]
enum Phase {
    /// Within the prefix.
    Prefix(BytesMut),
    /// Before a message of this length, which is taken from the budget.
    Start(Bytes, usize),
    /// Within a message, with the bytes that are left.
    Message(usize),
}

/// Body of requests, within the limits of their messages and the budget.
pub(crate) struct Metered<B> {
    body: B,
    budget: Arc<InboundBudget>,
    limit: usize,
    /// Time limit of a message after its prefix.
    patience: Duration,
    phase: Phase,
    /// Received bytes that are not passed on.
    rest: Bytes,
    taking: Option<Taking>,
    permit: Option<Permit>,
    late: Option<Patience>,
}

impl<B> Metered<B> {
    pub(crate) fn new(body: B, budget: Arc<InboundBudget>, limit: usize, patience: Duration) -> Self {
        Self {
            body,
            budget,
            limit,
            patience,
            phase: Phase::Prefix(BytesMut::new()),
            rest: Bytes::new(),
            taking: None,
            permit: None,
            late: None,
        }
    }
    /// Returns the permit of the message that was passed on last.
    pub(crate) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }
    /// Passes on what was received; `None` if more must be received.
    fn pass(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match &mut self.phase {
                Phase::Prefix(prefix) => {
                    let more = self.rest.split_to(self.rest.len().min(PREFIX - prefix.len()));
                    prefix.extend_from_slice(&more);
                    if prefix.len() < PREFIX {
                        return Poll::Ready(None);
                    }
                    let prefix = std::mem::take(prefix).freeze();
                    match self.len_of(&prefix) {
                        Ok(len) => self.start(prefix, len),
                        Err(error) => return Poll::Ready(Some(Err(status(error)))),
                    }
                }
                Phase::Start(prefix, len) => {
                    if let Some(taking) = &mut self.taking {
                        self.permit = ready!(taking.as_mut().poll(cx));
                        self.taking = None;
                    }
                    let (prefix, len) = (std::mem::take(prefix), *len);
                    self.phase = if len == 0 { Phase::Prefix(BytesMut::new()) } else { Phase::Message(len) };
                    // the time limit counts from here, because others may have held the budget
                    self.late = None;
                    return Poll::Ready(Some(Ok(Frame::data(prefix))));
                }
                Phase::Message(_) if self.rest.is_empty() => return Poll::Ready(None),
                Phase::Message(left) => {
                    let part = self.rest.split_to(self.rest.len().min(*left));
                    *left -= part.len();
                    if *left == 0 {
                        self.phase = Phase::Prefix(BytesMut::new());
                        self.late = None;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
            }
        }
    }
    fn len_of(&self, prefix: &[u8]) -> Result<usize, ProtoError> {
        prefix.first_chunk().ok_or(ProtoError::Truncated).and_then(|prefix| parse_prefix(*prefix, self.limit))
    }
    fn start(&mut self, prefix: Bytes, len: usize) {
        match self.budget.take(len) {
            Ok(permit) => self.permit = Some(permit),
            Err(taking) => self.taking = Some(taking),
        }
        self.phase = Phase::Start(prefix, len);
    }
    fn is_within_message(&self) -> bool {
        match &self.phase {
            Phase::Prefix(prefix) => !prefix.is_empty(),
            Phase::Start(..) | Phase::Message(_) => true,
        }
    }
    /// Completes when a message is not whole in time.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_within_message() {
            return Poll::Pending;
        }
        let patience = self.patience;
        Pin::new(self.late.get_or_insert_with(|| Patience::new(patience))).poll(cx)
    }
}

impl<B: Body<Data = Bytes, Error = Status> + Unpin> Body for Metered<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(passed) = ready!(self.pass(cx)) {
                return Poll::Ready(Some(passed));
            }
            let Poll::Ready(received) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.poll_late(cx));
                return Poll::Ready(Some(Err(Status::deadline_exceeded(
                    "a message is incomplete for too long; send it at once",
                ))));
            };
            match received {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None if self.is_within_message() => {
                    return Poll::Ready(Some(Err(Status::invalid_argument("the last message is truncated"))));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// A body that its reader and a decoder share.
pub(crate) struct SharedBody<B>(pub(crate) Arc<Mutex<Metered<B>>>);

impl<B: Body<Data = Bytes, Error = Status> + Unpin> Body for SharedBody<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(cx)
    }
}

#[cfg(test)]
mod tests;
