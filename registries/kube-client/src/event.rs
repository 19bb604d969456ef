//! Events of a watch, and the decoding of one object.

use serde_json::value::RawValue;
use tributary_model::{SourcePart, Withheld};

use crate::resource::ObjectName;

/// Decodes the fields of one object that are used and skips the rest.
pub trait Projection: Sized + Send + 'static {
    /// Decodes the object as the server wrote it. The error is shown to operators: name the field.
    fn decode(raw: &RawValue) -> Result<Self, String>;
}

/// Event of a watched kind. A consumer that applies the events in order holds what the server holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P> {
    /// A list begins: objects without `Apply`, `Unchanged` or `Invalid` before the next `InitDone` are deleted. A list
    /// that breaks off starts over with another `Init`; objects that the first one did not show stay unseen.
    Init,
    /// An object was created or changed; it carries its own name.
    Apply(P),
    /// Part of a list: the object equals its last `Apply` or `Invalid`.
    Unchanged(ObjectName),
    /// The server deleted this object.
    Delete(ObjectName),
    /// The object exists but cannot be decoded, for this reason; its last decoded value stays current.
    Invalid(ObjectName, String),
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
