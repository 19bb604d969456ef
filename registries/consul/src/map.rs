//! From what Consul answers of a service to facts: instances are read once ([`read`]), kept by their watch, and come
//! to declarations and a group ([`facts`]). Everything is pure, total and without order.
//!
//! Called by the registry for each answer. Each module owns one rule: names, addresses, health, ports, labels,
//! places, copies; `instance` joins them for one instance, `facts` for a service. What mesh configuration Consul
//! has beside its catalog (intentions, L7 entries, prepared queries, sameness groups) is not read.

pub mod address;
mod config;
mod facts;
pub mod health;
mod instance;
mod labels;
mod mirror;
pub mod name;
mod numbers;
mod place;
mod pool;
mod ports;
mod remarks;

pub use config::{Area, Datacenter, Direct, MapConfig, Warning};
pub use facts::{Mapped, facts, keys, object};
pub use instance::{Instance, InstanceId, LeftOut, read};
pub use labels::TAGS;
pub use numbers::MAX_NUMBERS;
pub use pool::Pool;
pub use ports::PRIMARY;
