//! Worlds: scenarios in YAML that read like the tables of the reference, run on any [`Backend`].
//!
//! A world is a file of cases. A case writes and deletes documents of file registries, and applies and removes
//! objects of Kubernetes clusters, step by step, and states what clients receive after each step. The same
//! worlds run on the core directly (here, on [`CoreBackend`]) and through ADS on a real server (tests/suites).
//! The expected lists of a step are compared completely: an extra endpoint is as wrong as a missing one.

pub mod backend;
pub mod cluster;
pub mod core_backend;
pub mod row;
pub mod run;
pub mod schema;

pub use backend::Backend;
pub use cluster::{ClusterSpec, Namespaces, ObjectName, documents};
pub use core_backend::CoreBackend;
pub use row::{Place, Row};
pub use run::{Order, run, run_in, run_on_core, worlds};
pub use schema::{Case, ClientSpec, Expect, Explained, ServiceExpect, ServiceFound, Stage, Step, World};
