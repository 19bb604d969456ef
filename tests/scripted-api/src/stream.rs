//! Watches: a streamed list on request, then changes, bookmarks, and the end.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::answer::json_of;
use crate::query::ReceivedRequest;
use crate::server::{ApiServer, Message, status};
use crate::store::{Kind, name_of};

const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);

struct Watch {
    server: ApiServer,
    kind: Kind,
    namespace: Option<String>,
    received: ReceivedRequest,
    messages: Receiver<Message>,
    /// Version up to which events were sent.
    at: u64,
    ends: Instant,
    bookmark: Instant,
    /// Lines to send first.
    first: Vec<String>,
    over: bool,
}

/// Answers a watch request.
pub(crate) fn begin(
    server: &ApiServer,
    received: &ReceivedRequest,
    kind: Kind,
    namespace: Option<String>,
) -> Response<Body> {
    let messages = server.0.messages.subscribe();
    let state = server.0.state.lock();
    let streamed = received.is_streamed_list();
    if streamed && !state.streams {
        let message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return json_of(422, &status(422, message));
    }
    let from = received.number("resourceVersion");
    let (mut first, mut over) = (Vec::new(), false);
    if streamed {
        let objects = state.store.list(kind.plural, namespace.as_deref());
        let selected = objects
            .into_iter()
            .filter(|(name, object)| received.selects(&name.1) && received.selects_labels(object));
        first.extend(selected.map(|(_, object)| line("ADDED", &object)));
        first.push(bookmark(state.store.version, true));
    } else if from.is_some_and(|from| from < state.store.compacted) {
        first.push(line("ERROR", &status(410, "too old resource version")));
        over = true;
    }
    let at = if streamed { state.store.version } else { from.unwrap_or(state.store.version) };
    drop(state);
    let lasting = Duration::from_secs(received.number("timeoutSeconds").unwrap_or(1_800));
    let now = Instant::now();
    let (ends, bookmark) = (now + lasting, now + BOOKMARKS_EVERY);
    let watch = Watch {
        server: server.clone(),
        kind,
        namespace,
        received: received.clone(),
        messages,
        at,
        ends,
        bookmark,
        first,
        over,
    };
    Response::new(Body::from_stream(stream::unfold(watch, next)))
}

type Piece = Result<Bytes, std::io::Error>;

fn piece(text: String) -> Option<Piece> {
    Some(Ok(Bytes::from(text)))
}

async fn next(mut watch: Watch) -> Option<(Piece, Watch)> {
    loop {
        if !watch.first.is_empty() {
            let lines: String = watch.first.drain(..).map(|line| line + "\n").collect();
            return piece(lines).map(|piece| (piece, watch));
        }
        watch.first = watch.changes();
        if !watch.first.is_empty() {
            continue;
        }
        if watch.over {
            return None;
        }
        if let Some(piece) = watch.wait().await {
            return Some((piece, watch));
        }
    }
}

impl Watch {
    /// Returns the changes since the last call.
    fn changes(&mut self) -> Vec<String> {
        let state = self.server.0.state.lock();
        let changes = state.store.since(self.kind.plural, self.at);
        self.at = changes.last().map_or(self.at, |change| change.version);
        let ours = |object: &Value| {
            let (namespace, name) = name_of(object);
            self.namespace.as_ref().is_none_or(|of| namespace == *of)
                && self.received.selects(&name)
                && self.received.selects_labels(object)
        };
        changes.iter().filter(|c| ours(&c.object)).map(|c| line(c.event, &c.object)).collect()
    }
    /// Waits for the next message; returns what to send.
    async fn wait(&mut self) -> Option<Piece> {
        tokio::select! {
            biased;
            message = self.messages.recv() => self.receive(message),
            () = tokio::time::sleep_until(self.bookmark) => {
                self.bookmark = Instant::now() + BOOKMARKS_EVERY;
                let sends = self.server.0.state.lock().bookmarks;
                sends.then(|| self.mark())
            }
            () = tokio::time::sleep_until(self.ends) => {
                self.over = true;
                None
            }
        }
    }
    fn receive(&mut self, message: Result<Message, RecvError>) -> Option<Piece> {
        let plural = self.kind.plural;
        match message {
            Ok(Message::Bookmark(of)) if of == plural => Some(self.mark()),
            Ok(Message::Line(of, text)) if of == plural => piece(text + "\n"),
            Ok(Message::End(of)) if of == plural => {
                self.over = true;
                None
            }
            Ok(Message::Tear(of)) if of == plural => {
                self.over = true;
                piece(r#"{"type":"ADDED","object":{"metadata":{"na"#.to_owned())
            }
            Ok(Message::Down) => {
                self.over = true;
                Some(Err(std::io::Error::other("connection reset")))
            }
            Err(RecvError::Closed) => {
                self.over = true;
                None
            }
            Ok(_) | Err(RecvError::Lagged(_)) => None,
        }
    }
    fn mark(&self) -> Piece {
        let version = self.server.0.state.lock().store.version;
        Ok(Bytes::from(bookmark(version, false) + "\n"))
    }
}

fn line(event: &str, object: &Value) -> String {
    json!({"type": event, "object": object}).to_string()
}

fn bookmark(version: u64, complete: bool) -> String {
    let end = if complete { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": end});
    line("BOOKMARK", &json!({"metadata": metadata}))
}
