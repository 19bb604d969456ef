//! Addresses for hosts that have none of their own (`registries.md` 4.5).
//!
//! A client with DNS capture tells the hosts of TCP services apart by address, so each host of an
//! entry without addresses is given one of each family, out of ranges that nobody routes. What is
//! given stands in `status.addresses` of the object and nowhere else: [`plan`] is a pure function of
//! the objects as they are, [`allocator`] adds to them what is being written, and the [`writer`]
//! writes, under a Lease, each write bound to the version of the object that it was planned from. Its
//! effect comes back through the watch like anybody's.
//!
//! In what order which word wins:
//! - An address that somebody wrote into a `spec` is that entry's; a host that had been given it gets
//!   another.
//! - Of two hosts with one address the one of the older entry keeps it.
//! - Nothing else that was given is ever changed. An entry for a host that has an address already, in
//!   any namespace, is given the same.
//! - An address is free again when no object names it, and is given out again last.

mod address_claim;
mod allocator;
mod patch;
mod plan;
mod range;
mod writer;

pub(crate) use address_claim::AddressClaim;
pub(crate) use patch::steps;
pub(crate) use plan::Write;
pub use range::{Range, RangeError, Ranges};
pub(crate) use writer::Writer;
