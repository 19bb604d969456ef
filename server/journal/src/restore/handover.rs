//! A bounded queue of restored pieces, from the thread that decodes to the owner.
//!
//! Either side may go away at any time: a journal that is closed while no piece is taken must not wait
//! for somebody who does.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{RestoredRegistry, WAITING};

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<RestoredRegistry>,
    /// No piece will follow.
    ended: bool,
    /// No piece is wanted.
    unwanted: bool,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

impl Handover {
    /// An empty queue.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }
    /// Adds a piece, once there is room; drops it where none is wanted.
    pub(crate) fn send(&self, piece: RestoredRegistry) {
        let mut state = self.state.lock();
        while state.pieces.len() >= WAITING && !state.unwanted {
            self.changed.wait(&mut state);
        }
        if !state.unwanted {
            state.pieces.push_back(piece);
        }
        drop(state);
        self.changed.notify_all();
    }
    /// The next piece; `None` once no other follows.
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
    /// No piece will follow.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }
    /// No piece is wanted any more.
    pub(crate) fn refuse(&self) {
        self.state.lock().unwanted = true;
        self.changed.notify_all();
    }
}
