//! Events of a watch, and the decoding of one object.

use std::sync::Arc;

use serde_json::value::RawValue;
use tributary_model::{SourcePart, Withheld};

use crate::resource::ObjectName;

/// Decodes the fields of one object that are used and skips the rest.
pub trait Projection: Sized + Send + 'static {
    /// Decodes the object as the server wrote it. The error is shown to operators: name the field.
    fn decode(raw: &RawValue) -> Result<Self, String>;
}

/// Event of a watched kind. A consumer that applies the events in order holds what the server holds.
///
/// `P` is the object and `N` its name. The machine of a watch reports neither (`Event<(), ()>`): both belong to the
/// input of the same step, and the loop fills them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P, N = ObjectName> {
    /// A list begins: objects without `Apply`, `Unchanged` or `Invalid` before the next `InitDone` are deleted. A list
    /// that breaks off starts over with another `Init`; objects that the first one did not show stay unseen.
    Init,
    /// An object was created or changed; it carries its own name.
    Apply(P),
    /// Part of a list: the object equals its last `Apply` or `Invalid`.
    Unchanged(N),
    /// The server deleted this object.
    Delete(N),
    /// The object exists but cannot be decoded, for this reason; its last decoded value stays current.
    Invalid(N, Arc<str>),
    /// The list is complete.
    InitDone,
    /// The server reported that no other event happened so far.
    Confirmed,
    /// The server confirmed that it does not serve this kind: counts as a complete empty list. Where objects are held,
    /// two equal answers at least [`Timing::uninstalled`](crate::Timing) apart are required.
    NotServed,
    /// The kind cannot be read, with the server's reason; proves nothing about its objects. Ends with the next
    /// `Resumed`, `InitDone` or `NotServed`.
    Unavailable(Withheld),
    /// An unavailable kind can be read again; its watch continues where it stopped.
    Resumed,
    /// The state of the kind changed.
    Status(SourcePart),
    /// An audit found this number of events that the watch missed; the list that follows delivers them.
    Recovered(u64),
}

impl<P, N> Event<P, N> {
    /// Replaces the object and the names; `object` returns a different event for an object that it cannot replace.
    pub fn map<Q, M>(self, object: impl FnOnce(P) -> Event<Q, M>, name: impl FnOnce(N) -> M) -> Event<Q, M> {
        match self {
            Self::Apply(was) => object(was),
            Self::Unchanged(was) => Event::Unchanged(name(was)),
            Self::Delete(was) => Event::Delete(name(was)),
            Self::Invalid(was, why) => Event::Invalid(name(was), why),
            Self::Init => Event::Init,
            Self::InitDone => Event::InitDone,
            Self::Confirmed => Event::Confirmed,
            Self::NotServed => Event::NotServed,
            Self::Unavailable(why) => Event::Unavailable(why),
            Self::Resumed => Event::Resumed,
            Self::Status(part) => Event::Status(part),
            Self::Recovered(lost) => Event::Recovered(lost),
        }
    }
}
