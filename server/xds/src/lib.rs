//! xDS: sessions, the answers that they send, and the transport that carries them.
//!
//! `encode` turns plans into bytes; `answers` fills the catalog's slots with them; `session` and
//! `transport` bring them to clients.

pub mod answers;
pub mod client;
pub mod counters;
pub mod encode;
pub mod session;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod mk;
