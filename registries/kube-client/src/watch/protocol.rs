//! What the machine is told, and what it asks for: the words between the pure part and the loop around it.

use std::time::Duration;

use tributary_model::{SourcePart, Withheld};

use super::api_failure::ApiFailure;
use super::head::Head;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WatchInput<'a> {
    /// Time has passed.
    Tick,
    /// The watch, streaming its list or not, was answered and its stream follows.
    Opened,
    /// An object stands in a page of a list.
    Item(Head<'a>),
    /// A page of a list ended; where there is more, how to ask for it.
    Page { next: Option<String>, version: String },
    /// The watch said that an object is now so.
    Object(Head<'a>),
    /// The watch said that an object was deleted.
    Deleted(Head<'a>),
    /// The watch said that it is at this version, and whether that ends a streamed list.
    Bookmark { version: String, complete: bool },
    /// The stream of the watch ended, as it does in time.
    Ended,
    /// The main request failed, or its stream did.
    Failed(ApiFailure),
    /// The server serves the kind in this of its versions, or in none that is known here.
    Served(Option<usize>),
    /// The small list beside the watch was answered.
    Probed(Result<(), ApiFailure>),
    /// An object stands in a page of an audit.
    Audited(Head<'a>),
    /// A page of an audit ended.
    AuditPage { next: Option<String>, version: String },
    /// An audit failed.
    AuditFailed(ApiFailure),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchRequest {
    /// A watch: from a version, or with a streamed list before it.
    Watch { version: &'static str, from: Option<String>, lasting: Duration },
    /// A page of a list.
    Page { version: &'static str, limit: u32, next: Option<String> },
    /// In which versions the kind is served.
    Served,
    /// A list of one.
    Probe { version: &'static str },
    /// A page of a list of names and versions.
    Audit { version: &'static str, limit: u32, next: Option<String> },
}

/// What to say of the object at hand, or of the kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Say {
    Init,
    Apply,
    Unchanged,
    Delete,
    InitDone,
    Confirmed,
    NotServed,
    Unavailable(Withheld),
    Resumed,
    Status(SourcePart),
    Recovered(u64),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask this as the main request, in place of any other.
    Main(WatchRequest),
    /// Drop the main request.
    StopMain,
    /// Ask this beside the main request.
    Probe(WatchRequest),
    /// Drop it.
    StopProbe,
    /// Ask this beside both.
    Audit(WatchRequest),
    /// Drop it.
    StopAudit,
    /// Say this.
    Say(Say),
}
