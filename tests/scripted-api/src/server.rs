//! Handle of a test: the server whose objects and answers it controls.

use std::sync::Arc;

use axum::Router;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::answer::respond;
use crate::fault::{Answer, Fault, Verb};
use crate::query::ReceivedRequest;
use crate::store::{Kind, Store};

/// Message to all running watches.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// The objects changed: read the history.
    Changed,
    /// Send a bookmark to watches of this kind.
    Bookmark(&'static str),
    /// End the watches of this kind.
    End(&'static str),
    /// End them inside an object.
    Tear(&'static str),
    /// Break all watches.
    Down,
    /// Send this line to watches of this kind.
    Line(&'static str, String),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) faults: Vec<Fault>,
    pub(crate) requests: Vec<ReceivedRequest>,
    /// Whether lists are streamed on request.
    pub(crate) streams: bool,
    /// Whether watches send a bookmark every minute.
    pub(crate) bookmarks: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) messages: broadcast::Sender<Message>,
}

/// Server. Clones share its state.
#[derive(Debug, Clone)]
pub struct ApiServer(pub(crate) Arc<Shared>);

impl ApiServer {
    /// Creates a server of these kinds, without objects.
    #[must_use]
    pub fn new(kinds: &[Kind]) -> Self {
        let state = State {
            store: Store::new(kinds.to_vec()),
            faults: Vec::new(),
            requests: Vec::new(),
            streams: true,
            bookmarks: true,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), messages: broadcast::channel(4096).0 }))
    }
    /// Returns a client. Requires a tokio runtime context.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }
    /// Returns the routes, for a server on a socket.
    pub fn router(&self) -> Router {
        Router::new().fallback(respond).with_state(self.clone())
    }
    /// Creates or changes an object.
    pub fn put(&self, plural: &'static str, object: Value) {
        self.0.state.lock().store.put(plural, object, true);
        self.notify(Message::Changed);
    }
    /// Deletes an object.
    pub fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        self.0.state.lock().store.delete(plural, &(namespace.to_owned(), name.to_owned()), true);
        self.notify(Message::Changed);
    }
    /// Creates or changes an object without a watch event.
    pub fn put_silently(&self, plural: &'static str, object: Value) {
        self.0.state.lock().store.put(plural, object, false);
    }
    /// Deletes an object without a watch event.
    pub fn delete_silently(&self, plural: &'static str, namespace: &str, name: &str) {
        self.0.state.lock().store.delete(plural, &(namespace.to_owned(), name.to_owned()), false);
    }
    /// Returns an object as stored.
    #[must_use]
    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.0.state.lock();
        state.store.objects.get(plural)?.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
    /// Starts to serve a kind.
    pub fn install(&self, kind: Kind) {
        self.0.state.lock().store.kinds.push(kind);
    }
    /// Stops to serve a kind; removes its objects and ends its watches.
    pub fn uninstall(&self, plural: &'static str) {
        let mut state = self.0.state.lock();
        state.store.kinds.retain(|kind| kind.plural != plural);
        state.store.objects.remove(plural);
        drop(state);
        self.notify(Message::End(plural));
    }
    /// Exchanges the objects and kinds with another server; watches of both break. A second call restores both.
    pub fn swap(&self, other: &Self) {
        std::mem::swap(&mut self.0.state.lock().store, &mut other.0.state.lock().store);
        self.disconnect();
        other.disconnect();
    }
    /// Injects an answer for the next `times` requests whose path contains `part`, or ends with it if it ends in `$`.
    pub fn answer(&self, part: &str, verb: Option<Verb>, times: usize, answer: Answer) {
        self.0.state.lock().faults.push(Fault { part: part.to_owned(), verb, times, answer });
    }
    /// Removes all injected answers.
    pub fn heal(&self) {
        self.0.state.lock().faults.clear();
    }
    /// Sets whether lists are streamed.
    pub fn streams(&self, streams: bool) {
        self.0.state.lock().streams = streams;
    }
    /// Sets whether watches send bookmarks by themselves.
    pub fn bookmarks(&self, bookmarks: bool) {
        self.0.state.lock().bookmarks = bookmarks;
    }
    /// Sends a bookmark to the watches of a kind.
    pub fn bookmark(&self, plural: &'static str) {
        self.notify(Message::Bookmark(plural));
    }
    /// Sends a line to the watches of a kind.
    pub fn line(&self, plural: &'static str, line: &Value) {
        self.notify(Message::Line(plural, line.to_string()));
    }
    /// Ends the watches of a kind.
    pub fn end(&self, plural: &'static str) {
        self.notify(Message::End(plural));
    }
    /// Breaks all watches.
    pub fn disconnect(&self) {
        self.notify(Message::Down);
    }
    /// Ends the watches of a kind inside an object.
    pub fn tear(&self, plural: &'static str) {
        self.notify(Message::Tear(plural));
    }
    /// Expires all versions up to now: no watch can resume from there.
    pub fn compact(&self) {
        let mut state = self.0.state.lock();
        state.store.version += 1;
        state.store.compacted = state.store.version;
    }
    /// Returns the version of the last change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.state.lock().store.version
    }
    /// Returns the requests since the last call, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut self.0.state.lock().requests)
    }
    /// Forgets the requests, and the changes so far, which all running watches must have read.
    pub fn forget(&self) {
        let mut state = self.0.state.lock();
        state.requests = Vec::new();
        state.store.history = Vec::new();
    }
    /// Returns the number of running watches.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.0.messages.receiver_count()
    }

    fn notify(&self, message: Message) {
        // an error means that no watch runs
        let _ = self.0.messages.send(message);
    }
}

/// Builds the `Status` object of an error.
pub(crate) fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
}
