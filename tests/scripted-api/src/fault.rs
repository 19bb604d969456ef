//! Injected answers that replace regular ones.

use std::time::Duration;

use crate::query::ReceivedRequest;

/// Type of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read of an object, a list or a page.
    Get,
    /// List of at most one object.
    Probe,
    /// Watch, with or without a streamed list.
    Watch,
    /// Change of an object.
    Write,
}

/// Injected answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Status with its message.
    Status(u16, &'static str),
    /// 429 with the requested pause.
    Busy(Duration),
    /// Body with status 200.
    Text(String),
    /// The regular answer, cut off after this number of bytes.
    Torn(usize),
    /// No answer, ever.
    Silence,
    /// A broken connection.
    Reset,
}

/// Injected answer with the requests that it applies to, and their number.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) part: String,
    pub(crate) verb: Option<Verb>,
    pub(crate) times: usize,
    pub(crate) answer: Answer,
}

impl Fault {
    pub(crate) fn fits(&self, received: &ReceivedRequest) -> bool {
        let fits = match self.part.strip_suffix('$') {
            Some(end) => received.path.ends_with(end),
            None => received.path.contains(&self.part),
        };
        self.times > 0 && fits && self.verb.is_none_or(|verb| verb == received.verb)
    }
}
