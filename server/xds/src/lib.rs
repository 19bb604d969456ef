//! xDS: sessions, the answers that they send, and the transport that carries them.
//!
//! `encode` turns plans into bytes; `answers` fills the catalog's slots with them; `session` and
//! `transport` bring them to clients.

pub mod answers;
pub mod encode;

#[cfg(test)]
mod mk;
