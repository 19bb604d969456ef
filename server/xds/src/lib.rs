//! xDS server: sessions, resources, and the HTTP/2 transport.
//!
//! `encode` turns plans into bytes; `answers` caches them as resources; `session` and `transport` send
//! them to clients.

pub mod answers;
pub mod client;
pub mod client_events;
pub mod client_gauges;
pub mod counters;
pub mod encode;
pub mod histogram;
pub mod interest;
pub mod patch;
pub mod push_recorder;
pub mod pushes;
pub mod session;
pub mod source;
pub mod table;
pub mod token;
pub mod transport;

mod session_cell;
mod work;

pub use interest::InterestIndex;
pub use source::{CatalogSource, ClientFacts};
pub use table::{ClientRow, ClientTable, Connected};
pub use transport::tls::{Tls, TlsError, TlsMaterial};
pub use transport::{Limits, XdsServer};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fixtures;
