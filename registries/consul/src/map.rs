//! Mapping from Consul's instances to facts: [`read`] maps each instance once, [`facts`] turns them into declarations
//! and a group. Pure and total; the order of instances does not matter.
//!
//! The run loop calls it for each answer. Each module owns one rule: names, addresses, health, ports, labels,
//! topology, the mesh, copies. `instance` combines them for one instance, `facts` for a service. Consul's mesh configuration
//! (intentions, L7 entries, prepared queries, sameness groups) is not read.

pub mod address;
mod config;
mod facts;
pub mod health;
mod instance;
mod interner;
mod labels;
mod mesh;
mod mirror;
pub mod name;
mod numbers;
mod ports;
mod topology;
mod warnings;

pub use config::{Area, Datacenter, Direct, MapConfig, Warning};
pub use facts::{Mapped, facts, keys, object};
pub use instance::{ExclusionReason, Instance, InstanceId, read};
pub use interner::Interner;
pub use labels::TAGS;
pub use mesh::{service_of, with_sidecar};
pub use numbers::MAX_NUMBERS;
pub use ports::PRIMARY;
