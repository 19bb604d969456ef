//! The journal: what the process served, kept on disk, so that a restart serves it again.

mod codec;
#[cfg(test)]
mod samples;

pub use codec::{Fault, Member, MemberOrigin, Now};
