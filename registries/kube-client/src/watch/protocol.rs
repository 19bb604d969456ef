//! Inputs and actions of the watch machine: the protocol between it and the loop around it.

use std::time::Duration;

use super::api_failure::ApiFailure;
use super::head::Head;
use crate::event::Event;

/// Input of the machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WatchInput<'a> {
    /// Time has passed.
    Tick,
    /// The consumer needs a list that begins now.
    ListAgain,
    /// The server answered a watch; its stream follows.
    Opened,
    /// Object in a page of a list.
    Item(Head<'a>),
    /// End of a page; `next` continues the list.
    Page { next: Option<String>, version: String },
    /// Watch event: an object was created or changed.
    Object(Head<'a>),
    /// Watch event: an object was deleted.
    Deleted(Head<'a>),
    /// Watch event: the watch reached this version; `complete` ends a streamed list.
    Bookmark { version: String, complete: bool },
    /// The stream of the watch ended in the regular way.
    Ended,
    /// The main request or its stream failed.
    Failed(ApiFailure),
    /// Index of the version that the server serves; `None` if it serves no known version.
    Served(Option<usize>),
    /// Result of the probe.
    Probed(Result<(), ApiFailure>),
    /// Object in a page of an audit.
    Audited(Head<'a>),
    /// End of a page of an audit.
    AuditPage { next: Option<String>, version: String },
    /// The audit failed.
    AuditFailed(ApiFailure),
}

/// Request of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchRequest {
    /// A watch: from a version, or after a streamed list.
    Watch { version: &'static str, from: Option<String>, lasting: Duration },
    /// A page of a list.
    Page { version: &'static str, limit: u32, next: Option<String> },
    /// Discovery of the served versions.
    Served,
    /// A list of at most one object.
    Probe { version: &'static str },
    /// A page of a list of names and versions.
    Audit { version: &'static str, limit: u32, next: Option<String> },
}

/// Action of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start this as the main request, in place of the current one.
    Main(WatchRequest),
    /// Drop the main request.
    StopMain,
    /// Start the probe.
    Probe(WatchRequest),
    /// Drop the probe.
    StopProbe,
    /// Start a page of the audit.
    Audit(WatchRequest),
    /// Drop the audit request.
    StopAudit,
    /// Emit this event, about the object of the current input.
    Emit(Event<(), ()>),
}
