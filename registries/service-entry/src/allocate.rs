//! Allocates addresses to hosts without any (see docs/reference/service-entry.md).
//!
//! A client with DNS capture distinguishes the hosts of TCP services by address. So each host of an
//! entry without addresses receives one address of each family, from ranges that are not routed. The
//! allocation is stored in `status.addresses` of the object and nowhere else: [`plan`] is a pure
//! function of the objects, [`allocator`] adds the writes in flight, and [`writer`] writes under a
//! Lease. Each write is bound to the object version that it was planned from, and its effect comes
//! back through the watch.
//!
//! Precedence:
//! - An address in a `spec` belongs to that entry; a host that held it receives a different one.
//! - If two hosts have the same address, the host of the older entry keeps it.
//! - Every other allocation is stable. A host that has an address in one entry receives the same
//!   address in all entries, in any namespace.
//! - An address is free when no object names it, and free addresses are reused last.

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
