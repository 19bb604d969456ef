//! The binary `tributary`, as a library so that tests drive the very code that `main` does.
//!
//! `main` parses and hands over; `serve` builds, binds, runs and drains; the other commands speak
//! to a running server over its admin surface. Only `wiring` knows every part of Tributary.

pub mod admin;
pub mod args;
pub mod cli;
pub mod config;
pub mod document;
pub mod environment;
pub mod exit;
pub mod overlay;
pub mod reference;
pub mod reload;
pub mod serve;
pub mod telemetry;
pub mod wiring;
