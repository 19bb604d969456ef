//! xDS: sessions, the answers that they send, and the transport that carries them.
//!
//! `answers` fills the catalog's slots with encoded resources; `session` and `transport` bring
//! them to clients.

pub mod answers;
