//! Publication: the index of a run, which applies inputs, derives what they touch, and publishes the differences.
//!
//! Owned by the run loop. Without I/O.

mod index;
mod input;
mod published_facts;
mod sync;
mod unread;

pub use index::{Counts, Index};
pub use input::Input;
