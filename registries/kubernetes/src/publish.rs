//! Publication: the index of a run, which applies events, derives what they touch, and publishes the differences.
//!
//! Owned by the run loop. Without I/O.

mod index;
mod published_facts;
mod sync;
mod unread;

pub use index::{Counts, Index};
