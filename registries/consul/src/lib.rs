//! What Tributary knows of Consul: the shapes of its answers, what an answer is worth, how one blocking query
//! is followed without losing anything, and how names, health and addresses are understood.
//!
//! Everything here is pure: no request is made, no clock is read, and chance is passed in. Whoever makes the
//! requests carries out [`watch::Action`]s and reports [`watch::Event`]s.

pub mod answer;
pub mod client;
pub mod config;
pub mod content;
pub mod factory;
pub mod map;
pub mod modes;
pub mod registry;
mod run_loop;
pub mod token;
pub mod token_bucket;
pub mod watch;
pub mod wire;

pub use config::ConsulConfig;
pub use factory::ConsulFactory;
