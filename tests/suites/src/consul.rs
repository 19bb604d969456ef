//! Real Consul agents for tests: a dev agent, a server with its own data, three servers, two datacenters; with
//! ACLs, TLS and limits; killed, paused and restarted on the same ports. Tests register instances directly in
//! the catalog, by node, as a sync process would.

pub mod agent;
pub mod catalog;
pub mod group;
pub mod served;

pub use agent::{Consul, ConsulOptions, MANAGEMENT};
pub use catalog::{mk_check, mk_instance};
pub use group::{Servers, join_wan};
pub use served::{PORT, Served, mk_numbered};
