//! Responses that carry a change, and the answers of clients, for traces.
//!
//! Sessions call it, only if the server has a [`PushRecorder`]: without one it costs a check of an option for each response and each
//! answer. The times are those of the recorder.

use std::sync::Arc;
use std::time::Duration;

use crate::answers::ResourceType;

/// Receives responses and answers. The binary implements it.
pub trait PushRecorder: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the time since the recorder's start.
    fn now(&self) -> Duration;
    /// Takes a response. Never waits: sessions call it.
    fn sent(&self, response: SentResponse);
    /// Takes the answer to a response, which may be one that carried no change. Never waits.
    fn answered(&self, answer: Answer);
}

/// A response that carries a change of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentResponse {
    /// Generation that it was built from.
    pub generation: u64,
    /// Generation that the client had before, if it is known.
    pub base: Option<u64>,
    /// Resource type.
    pub kind: ResourceType,
    /// Number of its nonce.
    pub nonce: u64,
    /// Identity of the client's class, while a client of the class is connected.
    pub class: usize,
    /// Id of the client, as it sent it.
    pub client: Arc<str>,
    /// Bytes of the response.
    pub bytes: usize,
    /// Resources and removed names in it; `None` for a whole set that is shared.
    pub resources: Option<usize>,
    /// When building it began.
    pub began: Duration,
    /// When it was built.
    pub ended: Duration,
}

/// Answer of a client to a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Generation of the response.
    pub generation: u64,
    /// Resource type.
    pub kind: ResourceType,
    /// Number of its nonce.
    pub nonce: u64,
    /// Error text of the client, bounded, if it rejected the response.
    pub rejected: Option<Arc<str>>,
    /// When the answer arrived.
    pub at: Duration,
}
