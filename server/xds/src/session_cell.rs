//! The place of a stream's session, where its task works on it and readers copy its state.
//!
//! The stream's task owns the session. It locks the cell while it handles an event, which takes microseconds and waits for
//! nothing; the guard cannot be held over an await. For heavy work the task takes the session out and leaves a copy of its
//! state. So a reader waits for no heavy work and for no client, and a copy is made only for a reader.

use parking_lot::Mutex;

use std::sync::Arc;

use crate::client::ClientNode;
use crate::session::{Session, SessionStatus, SyncStatus};

/// Where the session is.
#[derive(Debug)]
enum Place {
    /// In the cell.
    Here(Box<Session>),
    /// At heavy work; it had this state before.
    Away(Box<SessionStatus>),
}

/// A session, or a copy of its state.
#[derive(Debug)]
pub(crate) struct SessionCell(Mutex<Place>);

impl SessionCell {
    pub(crate) fn new(session: Box<Session>) -> Self {
        Self(Mutex::new(Place::Here(session)))
    }
    /// Returns the session's state: as it is, or as it was before the heavy work in progress.
    pub(crate) fn status(&self) -> SessionStatus {
        match &*self.0.lock() {
            Place::Here(session) => session.status(),
            Place::Away(status) => (**status).clone(),
        }
    }
    /// Returns the client.
    pub(crate) fn client(&self) -> Arc<ClientNode> {
        match &*self.0.lock() {
            Place::Here(session) => Arc::clone(session.client()),
            Place::Away(status) => Arc::clone(&status.client),
        }
    }
    /// Returns the worst state of its types.
    pub(crate) fn worst(&self) -> SyncStatus {
        match &*self.0.lock() {
            Place::Here(session) => session.worst(),
            Place::Away(status) => status.worst(),
        }
    }
    /// Works on the session; `None` if it is at heavy work. Only its task calls this.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        match &mut *self.0.lock() {
            Place::Here(session) => Some(work(session)),
            Place::Away(_) => None,
        }
    }
    /// Takes the session for heavy work; `None` if it is at heavy work already.
    pub(crate) fn take(&self) -> Option<Box<Session>> {
        let mut place = self.0.lock();
        let Place::Here(session) = &*place else { return None };
        let status = Box::new(session.status());
        match std::mem::replace(&mut *place, Place::Away(status)) {
            Place::Here(session) => Some(session),
            Place::Away(_) => None,
        }
    }
    /// Returns the session after heavy work.
    pub(crate) fn put(&self, session: Box<Session>) {
        *self.0.lock() = Place::Here(session);
    }
}
