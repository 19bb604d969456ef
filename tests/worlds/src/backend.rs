//! The interface that a world needs of a system: ways to apply documents, and ways to read the results.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use anyhow::Result;

use crate::cluster::ObjectName;
use crate::row::{Place, Row};
use crate::schema::{ServiceFound, Stage};

/// A system that runs a world. Each case has its own backend.
pub trait Backend {
    /// Starts with empty sources.
    fn begin(&mut self, stage: &Stage) -> impl Future<Output = Result<()>>;

    /// Creates or replaces objects of the Kubernetes cluster.
    fn apply(&mut self, documents: &[serde_json::Value]) -> impl Future<Output = Result<()>>;

    /// Creates or replaces objects of the remote Kubernetes cluster.
    fn apply_remote(&mut self, documents: &[serde_json::Value]) -> impl Future<Output = Result<()>>;

    /// Removes objects of the Kubernetes cluster.
    fn remove(&mut self, objects: &[ObjectName]) -> impl Future<Output = Result<()>>;

    /// Returns the service that serves a host first.
    fn service(&mut self, host: &str) -> impl Future<Output = Result<Option<ServiceFound>>>;

    /// Writes a file of a registry.
    fn write(&mut self, registry: &str, file: &str, text: &str) -> impl Future<Output = Result<()>>;

    /// Deletes a file of a registry.
    fn delete(&mut self, registry: &str, file: &str) -> impl Future<Output = Result<()>>;

    /// Sets the instances of a service of Consul, as its health endpoint answers; an empty list removes the
    /// service.
    fn consul(&mut self, service: &str, instances: &[serde_json::Value]) -> impl Future<Output = Result<()>>;

    /// Makes a registry's source readable or unreadable.
    fn source(&mut self, registry: &str, readable: bool) -> impl Future<Output = Result<()>>;

    /// Returns the endpoints of `host:port` that a client receives, by EDS or inside its xDS cluster; sorted.
    /// Empty if there is no such port.
    fn endpoints(&mut self, client: &str, port: &str) -> impl Future<Output = Result<Vec<Row>>>;

    /// Returns the localities of `host:port` that a client receives; sorted.
    fn localities(&mut self, client: &str, port: &str) -> impl Future<Output = Result<Vec<Place>>>;

    /// Returns a client's outbound xDS clusters by `host:port`, with their types (`EDS`, `STRICT_DNS`,
    /// `LOGICAL_DNS`, `ORIGINAL_DST`, `DYNAMIC`).
    fn clusters(&mut self, client: &str) -> impl Future<Output = Result<BTreeMap<String, String>>>;

    /// Returns the codes of a host's conditions, over all claimants.
    fn conditions(&mut self, host: &str) -> impl Future<Output = Result<BTreeSet<String>>>;

    /// Returns bad objects, as `Kind namespace/name`, with their codes.
    fn problems(&mut self) -> impl Future<Output = Result<BTreeMap<String, String>>>;

    /// Returns the documents of `explain`.
    fn explain(
        &mut self,
        endpoint: &str,
        client: Option<&str>,
    ) -> impl Future<Output = Result<Vec<serde_json::Value>>>;

    /// Returns the document of `why-not`.
    fn why_not(&mut self, host: &str, client: &str) -> impl Future<Output = Result<serde_json::Value>>;

    /// Returns true if the results may still change, after a short wait. A synchronous system returns false at
    /// once.
    fn again(&mut self) -> impl Future<Output = bool>;

    /// Returns true if explanations include the delivery stage, which only a system with sessions has.
    fn delivers(&self) -> bool;
}
