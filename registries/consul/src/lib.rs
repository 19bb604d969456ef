//! What Tributary knows of Consul: the shapes of its answers, and what an answer is worth.
//!
//! Everything here is pure: no request is made, no clock is read, and chance is passed in.

pub mod answer;
pub mod bucket;
pub mod wire;
