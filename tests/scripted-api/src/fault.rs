//! Answers that a test asks for in place of the true one.

use std::time::Duration;

use crate::query::Asked;

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// An object, a list or a page of one.
    Get,
    /// A list of one, as a look at whether the server answers.
    Probe,
    /// A watch, streaming its list or not.
    Watch,
    /// A change.
    Write,
}

/// An answer in place of the true one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status with its message.
    Status(u16, &'static str),
    /// 429 and how long to wait.
    Busy(Duration),
    /// A body, with status 200.
    Text(String),
    /// The true answer, cut off after so many bytes.
    Torn(usize),
    /// None, ever.
    Silence,
    /// A connection that breaks.
    Reset,
}

/// Which requests get which answer, and how many of them.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) part: String,
    pub(crate) verb: Option<Verb>,
    pub(crate) times: usize,
    pub(crate) answer: Answer,
}

impl Fault {
    pub(crate) fn fits(&self, asked: &Asked) -> bool {
        let fits = match self.part.strip_suffix('$') {
            Some(end) => asked.path.ends_with(end),
            None => asked.path.contains(&self.part),
        };
        self.times > 0 && fits && self.verb.is_none_or(|verb| verb == asked.verb)
    }
}
