//! Operations on a running server: status, metrics, explanations, held removals and kept state.
//!
//! `wiring` starts these modules and passes them the running parts; the admin surface calls them through
//! [`backend::LiveBackend`]. They read the core and the catalog, and log what an operator should know; the core makes
//! every decision.

pub mod backend;
pub mod catalog_log;
pub mod change_feed;
pub mod check_documents;
pub mod client_log;
pub mod cluster_log;
pub mod clusters;
pub mod counts;
mod deliver_steps;
pub mod diff;
pub mod explain;
mod held_log;
pub mod invalid;
mod istio_metrics;
mod left_out;
mod lost_clusters;
pub mod metrics;
pub mod notices;
pub mod problem_log;
pub mod process;
pub mod receipts;
mod rejected;
mod rejected_patches;
pub mod removals;
pub mod removed;
pub mod report;
pub mod resources;
pub mod rights;
mod routed;
pub mod routes;
mod routing_rules;
mod sent_listener;
mod sent_route;
mod sent_tables;
pub mod sessions;
pub mod start_log;
pub mod state;
pub mod status_log;
mod taken_addresses;
pub mod timeline;
mod ways;
