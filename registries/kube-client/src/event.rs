//! What a watch says, and how an object of its kind is read.

use serde_json::value::RawValue;
use tributary_model::{SourcePart, Withheld};

use crate::resource::ObjectName;

/// Reads the fields that are used of one object, and skips the rest.
pub trait Projection: Sized + Send + 'static {
    /// From the object as the server wrote it. What is said in an error is shown to people: name the field.
    fn decode(raw: &RawValue) -> Result<Self, String>;
}

/// What a watch says of its kind. A consumer that applies these in order holds what the server holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P> {
    /// A list begins: what is neither `Put`, `Seen` nor `Bad` from here to the next `Listed` is gone. A list
    /// that breaks off begins again with another `Restart`: what the first had not shown stays unseen.
    Init,
    /// This object is now so; it carries its own name.
    Apply(P),
    /// Part of a list: this object is still what it was when it was last `Put` or `Bad`.
    Unchanged(ObjectName),
    /// The server said that this object was deleted.
    Delete(ObjectName),
    /// This object is there but cannot be read, for this reason; what was last read of it is still the last word.
    Invalid(ObjectName, String),
    /// The list is complete.
    InitDone,
    /// The server said that nothing else has happened up to now.
    Confirmed,
    /// The server confirmed that it does not serve this kind: counts as a complete list of nothing. Where objects
    /// of it are held, two equal answers with [`Timing::uninstalled`](crate::Timing) between them confirm it.
    NotServed,
    /// The kind cannot be read now, with the server's reason; proves nothing about its objects. Ends with the next
    /// `Resumed`, `Listed` or `Absent`.
    Unavailable(Withheld),
    /// A withheld kind can be read again, and its watch continues from where it was.
    Resumed,
    /// How the kind is doing, whenever that changes.
    Status(SourcePart),
    /// An audit found so many events that the watch had not delivered; the list that follows delivers them.
    Recovered(u64),
}
