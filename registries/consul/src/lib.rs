//! Consul registry: the HTTP client, the formats and trust of answers, blocking queries, and the mapping to facts.
//!
//! [`ConsulFactory`] is the entry point. [`watch`], [`machine`] and [`map`] are pure: they send no request, read no
//! clock, and take randomness as input. The run loop carries out their outputs.

mod absence;
pub mod answer;
pub mod client;
pub mod config;
pub mod content;
pub mod factory;
pub mod machine;
pub mod map;
pub mod preflight;
pub mod registry;
mod run_loop;
pub mod token;
pub mod token_bucket;
pub mod watch;
pub mod wire;

pub use config::ConsulConfig;
pub use factory::ConsulFactory;
