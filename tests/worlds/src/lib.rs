//! Worlds: scenarios in YAML that read like the tables of the reference, run on any [`Backend`].
//!
//! A world is a file of cases; a case writes and deletes documents of file registries, and applies and
//! removes objects of a Kubernetes cluster, step by step, and says what clients are told after each. The same worlds run on the core directly (here, on
//! [`CoreBackend`]) and through ADS on a real server (tests/suites). What a step expects is compared
//! whole: an endpoint too many is as wrong as one too few.

pub mod backend;
pub mod cluster;
pub mod core_backend;
pub mod row;
pub mod run;
pub mod schema;

pub use backend::Backend;
pub use cluster::{ClusterSpec, Namespaces, ObjectName, documents};
pub use core_backend::CoreBackend;
pub use row::Row;
pub use run::{Order, run, run_in, worlds};
pub use schema::{Case, ClientSpec, Expect, Explained, ServiceExpect, ServiceFound, Stage, Step, World};
