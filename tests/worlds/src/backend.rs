//! What a world needs of a system: a way to say documents, and ways to see what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use anyhow::Result;

use crate::cluster::ObjectName;
use crate::row::Row;
use crate::schema::{ServiceFound, Stage};

/// A system under a world. One case, one backend.
pub trait Backend {
    /// Starts over empty sources.
    fn begin(&mut self, stage: &Stage) -> impl Future<Output = Result<()>>;

    /// Objects of the Kubernetes cluster are now so.
    fn apply(&mut self, documents: &[serde_json::Value]) -> impl Future<Output = Result<()>>;

    /// Objects of the Kubernetes cluster are gone.
    fn remove(&mut self, objects: &[ObjectName]) -> impl Future<Output = Result<()>>;

    /// What is said of the service that serves a host first.
    fn service(&mut self, host: &str) -> impl Future<Output = Result<Option<ServiceFound>>>;

    /// A file of a registry now holds this.
    fn write(&mut self, registry: &str, file: &str, text: &str) -> impl Future<Output = Result<()>>;

    /// A file of a registry is gone.
    fn delete(&mut self, registry: &str, file: &str) -> impl Future<Output = Result<()>>;

    /// A service of Consul now has these instances, as its health endpoint answers; with none it has gone.
    fn consul(&mut self, service: &str, instances: &[serde_json::Value]) -> impl Future<Output = Result<()>>;

    /// A registry's source can, or cannot, be read any more.
    fn source(&mut self, registry: &str, readable: bool) -> impl Future<Output = Result<()>>;

    /// What a client is told of `host:port`, by EDS or inside its xDS cluster; sorted. Nothing where
    /// there is no such port.
    fn endpoints(&mut self, client: &str, port: &str) -> impl Future<Output = Result<Vec<Row>>>;

    /// A client's outbound xDS clusters by `host:port`, with their types (`EDS`, `STRICT_DNS`,
    /// `LOGICAL_DNS`, `ORIGINAL_DST`, `DYNAMIC`).
    fn clusters(&mut self, client: &str) -> impl Future<Output = Result<BTreeMap<String, String>>>;

    /// The codes of a host's conditions, over all claimants.
    fn conditions(&mut self, host: &str) -> impl Future<Output = Result<BTreeSet<String>>>;

    /// Bad objects, as `Kind namespace/name`, with their codes.
    fn problems(&mut self) -> impl Future<Output = Result<BTreeMap<String, String>>>;

    /// The documents of `explain`.
    fn explain(
        &mut self,
        endpoint: &str,
        client: Option<&str>,
    ) -> impl Future<Output = Result<Vec<serde_json::Value>>>;

    /// The document of `why-not`.
    fn why_not(&mut self, host: &str, client: &str) -> impl Future<Output = Result<serde_json::Value>>;

    /// Whether what is seen may still change by itself; waits a little for it. A system that works in
    /// step with its caller says no at once.
    fn again(&mut self) -> impl Future<Output = bool>;

    /// Whether explanations have a last stage, which only a system with sessions can have.
    fn delivers(&self) -> bool;
}
