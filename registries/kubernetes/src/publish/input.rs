//! Inputs of the index.
//!
//! The run loop converts the events of each watch into inputs ([`Input::of`]) and applies them in order.

use std::sync::Arc;

use tributary_kube_client::Event;
use tributary_model::Withheld;

use crate::kind::{Kind, Name, WatchScope};
use crate::project::Object;

/// Input of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An object was created or changed.
    Put(Object),
    /// Part of a list: the object is unchanged.
    Seen(Kind, Name),
    /// The server deleted this object.
    Gone(Kind, Name),
    /// The object cannot be decoded, for this reason; its last valid version stays.
    Bad(Kind, Name, Arc<str>),
    /// A list begins.
    Restart(WatchScope),
    /// A list is complete: objects that it did not name since its `Restart` are removed.
    Listed(WatchScope),
    /// No other event happened so far.
    Confirmed(WatchScope),
    /// The server does not serve the kind: counts as an empty complete list.
    Absent(WatchScope),
    /// The kind cannot be read, with the reason: nothing waits for it, and none of its objects is known to be deleted.
    Withheld(WatchScope, Withheld),
    /// The kind can be read again, and no event was missed.
    Resumed(WatchScope),
    /// Objects of an unreadable kind from an earlier run; applied if this run knows none.
    Recall(WatchScope, Vec<Object>),
}

impl Input {
    /// Converts an event of a watch; `None` for events that affect only the status.
    #[must_use]
    pub fn of<P: Into<Object>>(feed: &WatchScope, event: Event<P>) -> Option<Self> {
        let kind = feed.kind;
        Some(match event {
            Event::Apply(object) => Self::Put(object.into()),
            Event::Unchanged(name) => Self::Seen(kind, Name::from(&name)),
            Event::Delete(name) => Self::Gone(kind, Name::from(&name)),
            Event::Invalid(name, why) => Self::Bad(kind, Name::from(&name), why.into()),
            Event::Init => Self::Restart(feed.clone()),
            Event::InitDone => Self::Listed(feed.clone()),
            Event::Confirmed => Self::Confirmed(feed.clone()),
            Event::NotServed => Self::Absent(feed.clone()),
            Event::Unavailable(why) => Self::Withheld(feed.clone(), why),
            Event::Resumed => Self::Resumed(feed.clone()),
            Event::Status(_) | Event::Recovered(_) => return None,
        })
    }
}
