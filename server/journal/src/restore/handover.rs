//! A bounded queue of restored pieces, from the decoding thread to the receiver.
//!
//! Either side may end at any time: closing a journal must not wait for a receiver that takes no
//! piece.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{RestoredRegistry, WAITING};

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<RestoredRegistry>,
    /// No piece will follow.
    ended: bool,
    /// The receiver wants no further piece.
    unwanted: bool,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Handover {
    state: Mutex<State>,
    changed: Condvar,
    /// Most pieces that wait.
    most: usize,
}

impl Handover {
    /// Creates an empty queue.
    pub(crate) fn new() -> Arc<Self> {
        Self::of(WAITING)
    }
    /// Creates an empty queue whose sender never waits, for a sender and a receiver in one thread.
    pub(crate) fn unbounded() -> Arc<Self> {
        Self::of(usize::MAX)
    }
    fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), most })
    }
    /// Adds a piece, once there is room; drops it if the receiver has ended.
    pub(crate) fn send(&self, piece: RestoredRegistry) {
        let mut state = self.state.lock();
        while state.pieces.len() >= self.most && !state.unwanted {
            self.changed.wait(&mut state);
        }
        if !state.unwanted {
            state.pieces.push_back(piece);
        }
        drop(state);
        self.changed.notify_all();
    }
    /// Waits for the next piece; `None` at the end.
    pub(crate) fn receive(&self) -> Option<RestoredRegistry> {
        let mut state = self.state.lock();
        while state.pieces.is_empty() && !state.ended {
            self.changed.wait(&mut state);
        }
        let piece = state.pieces.pop_front();
        drop(state);
        self.changed.notify_all();
        piece
    }
    /// Returns whether [`Handover::receive`] would return at once.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.state.lock();
        !state.pieces.is_empty() || state.ended
    }
    /// Ends the queue: no piece will follow.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }
    /// Ends the receiver: further pieces are dropped.
    pub(crate) fn refuse(&self) {
        self.state.lock().unwanted = true;
        self.changed.notify_all();
    }
}
