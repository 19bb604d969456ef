//! The binary `tributary` as a library, so that tests run the same code as `main`.
//!
//! `run` parses the command line; `serve` builds, binds, runs and drains; the other commands send requests
//! to a running server's admin surface. Only `wiring` depends on every part. A binary with registries of its
//! own passes [`Extensions`] to [`run`](fn@run).

pub mod admin;
pub mod analyze;
pub mod args;
pub mod check;
pub mod cli;
pub mod config;
pub mod console;
pub mod document;
pub mod environment;
pub mod exit;
pub mod extensions;
pub mod migrate;
pub mod ops;
pub mod overlay;
pub mod profiler;
pub mod reference;
pub mod reload;
pub mod run;
pub mod serve;
pub mod telemetry;
pub mod tokens;
pub mod traces;
pub mod wiring;

pub use extensions::Extensions;
pub use run::run;
