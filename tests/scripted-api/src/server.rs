//! What a test holds: a server whose objects it changes and whose answers it bends.

use std::sync::Arc;

use axum::Router;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::answer::respond;
use crate::fault::{Answer, Fault, Verb};
use crate::query::Asked;
use crate::store::{Kind, Store};

/// What all running watches are told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// Something has changed: look.
    Changed,
    /// A bookmark for this kind.
    Bookmark(&'static str),
    /// The watches of this kind end.
    End(&'static str),
    /// They end within an object.
    Tear(&'static str),
    /// All watches break off.
    Down,
    /// They are sent this line.
    Line(&'static str, String),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) faults: Vec<Fault>,
    pub(crate) asked: Vec<Asked>,
    /// Lists are streamed to those who ask.
    pub(crate) streams: bool,
    /// Watches send a bookmark every minute.
    pub(crate) bookmarks: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) told: broadcast::Sender<Told>,
}

/// The server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct ApiServer(pub(crate) Arc<Shared>);

impl ApiServer {
    /// A server of these kinds, without objects.
    #[must_use]
    pub fn new(kinds: &[Kind]) -> Self {
        let state = State {
            store: Store::new(kinds.to_vec()),
            faults: Vec::new(),
            asked: Vec::new(),
            streams: true,
            bookmarks: true,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), told: broadcast::channel(4096).0 }))
    }
    /// A client of it. Needs a tokio runtime to be entered.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(Router::new().fallback(respond).with_state(self.clone()), "default")
    }
    /// Creates or changes an object.
    pub fn put(&self, plural: &'static str, object: Value) {
        self.0.state.lock().store.put(plural, object, true);
        self.tell(Told::Changed);
    }
    /// Deletes an object.
    pub fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        self.0.state.lock().store.delete(plural, &(namespace.to_owned(), name.to_owned()), true);
        self.tell(Told::Changed);
    }
    /// Creates or changes an object and tells no watch, now or ever.
    pub fn put_untold(&self, plural: &'static str, object: Value) {
        self.0.state.lock().store.put(plural, object, false);
    }
    /// Deletes an object and tells no watch, now or ever.
    pub fn delete_untold(&self, plural: &'static str, namespace: &str, name: &str) {
        self.0.state.lock().store.delete(plural, &(namespace.to_owned(), name.to_owned()), false);
    }
    /// An object as it is stored.
    #[must_use]
    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.0.state.lock();
        state.store.objects.get(plural)?.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
    /// Begins to serve a kind.
    pub fn install(&self, kind: Kind) {
        self.0.state.lock().store.kinds.push(kind);
    }
    /// Ceases to serve a kind; its objects are gone and its watches end.
    pub fn uninstall(&self, plural: &'static str) {
        let mut state = self.0.state.lock();
        state.store.kinds.retain(|kind| kind.plural != plural);
        state.store.objects.remove(plural);
        drop(state);
        self.tell(Told::End(plural));
    }
    /// What another server holds and serves is answered from now on, and by that one what this one did; watches break
    /// off. Done twice, everything is as before.
    pub fn swap(&self, other: &Self) {
        std::mem::swap(&mut self.0.state.lock().store, &mut other.0.state.lock().store);
        self.tell(Told::Down);
        other.tell(Told::Down);
    }
    /// The next so many requests whose path holds `part`, or ends with it where it ends in `$`, are answered like this.
    pub fn answer(&self, part: &str, verb: Option<Verb>, times: usize, answer: Answer) {
        self.0.state.lock().faults.push(Fault { part: part.to_owned(), verb, times, answer });
    }
    /// All answers are true again.
    pub fn heal(&self) {
        self.0.state.lock().faults.clear();
    }
    /// Whether lists are streamed.
    pub fn streams(&self, streams: bool) {
        self.0.state.lock().streams = streams;
    }
    /// Whether watches send bookmarks by themselves.
    pub fn bookmarks(&self, bookmarks: bool) {
        self.0.state.lock().bookmarks = bookmarks;
    }
    /// Sends a bookmark to the watches of a kind.
    pub fn bookmark(&self, plural: &'static str) {
        self.tell(Told::Bookmark(plural));
    }
    /// Sends a line to the watches of a kind.
    pub fn line(&self, plural: &'static str, line: &Value) {
        self.tell(Told::Line(plural, line.to_string()));
    }
    /// Ends the watches of a kind.
    pub fn end(&self, plural: &'static str) {
        self.tell(Told::End(plural));
    }
    /// Ends the watches of a kind within an object.
    pub fn tear(&self, plural: &'static str) {
        self.tell(Told::Tear(plural));
    }
    /// Forgets what happened up to now: nobody can resume from there.
    pub fn compact(&self) {
        let mut state = self.0.state.lock();
        state.store.version += 1;
        state.store.compacted = state.store.version;
    }
    /// The requests that were made, in order, since the last call.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.state.lock().asked)
    }
    /// How many watches run.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.0.told.receiver_count()
    }

    fn tell(&self, told: Told) {
        // an error says that nobody watches
        let _ = self.0.told.send(told);
    }
}

/// The status that stands for a refusal.
pub(crate) fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
}
