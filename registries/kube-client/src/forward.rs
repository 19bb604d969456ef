//! Connections to ports of pods, through the API server (`pods/portforward`).
//!
//! The command line calls it to reach servers whose admin listener is on the loopback address of their pod. [`Pods::find`] lists the
//! pods of a label selector, [`Pods::forward`] opens one connection to a port of one. Each connection is a WebSocket of its own
//! (`v4.channel.k8s.io` or newer), so one that ends affects no other. A connection that the pod refuses ends at once; its
//! [`Forwarded::reason`] has the text of the node.

use std::pin::Pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, future};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Api;
use kube::api::ListParams;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

use crate::connection::Connection;
use crate::watch::ApiFailure;

/// Most pods that are listed: replicas of one server are few.
const MAX_PODS: u32 = 100;
/// Time limit of a list and of the start of a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that the text of a refused connection may take after its end.
const REASON: Duration = Duration::from_millis(500);

/// Pods of one namespace.
#[derive(Clone)]
pub struct Pods {
    api: Api<Pod>,
}

/// A pod that a selector matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFound {
    /// Name.
    pub name: String,
    /// Whether its containers run. A pod that is not ready can still answer.
    pub running: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Number of its container port with the requested name.
    pub port: Option<u16>,
}

/// An open connection to a port of a pod.
pub struct Forwarded {
    stream: DuplexStream,
    reason: BoxFuture<'static, Option<String>>,
}

impl Pods {
    /// Creates it for a namespace. The connection must be [open for upgrades](Connection::open_for_upgrades).
    #[must_use]
    pub fn of(connection: &Connection, namespace: &str) -> Self {
        Self { api: Api::namespaced(connection.client(), namespace) }
    }
    /// Lists the pods of a label selector, by name, without those that have ended or are being deleted. `port` is the name of the
    /// container port to look for.
    pub async fn find(&self, selector: &str, port: &str) -> Result<Vec<PodFound>, ApiFailure> {
        let params = ListParams::default().labels(selector).limit(MAX_PODS);
        let listed = within(self.api.list(&params)).await?;
        let mut found: Vec<PodFound> = listed.items.iter().filter_map(|pod| found(pod, port)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
    /// Opens a connection to a port of a pod.
    pub async fn forward(&self, pod: &str, port: u16) -> Result<Forwarded, ApiFailure> {
        let ports = [port];
        let mut forwarder = within(self.api.portforward(pod, &ports)).await?;
        let refused = || ApiFailure::Garbled("a port-forward without its port".to_owned());
        let stream = forwarder.take_stream(port).ok_or_else(refused)?;
        let reason = match forwarder.take_error(port) {
            Some(reason) => reason.boxed(),
            None => future::ready(None).boxed(),
        };
        Ok(Forwarded { stream, reason })
    }
}

impl Forwarded {
    /// Splits it into the stream, and the text of the node once the connection was refused.
    #[must_use]
    pub fn parts(self) -> (Pin<Box<dyn Duplex>>, BoxFuture<'static, Option<String>>) {
        let Self { stream, reason } = self;
        let reason = async move { tokio::time::timeout(REASON, reason).await.ok().flatten() };
        (Box::pin(stream), reason.boxed())
    }
}

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, ApiFailure> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ApiFailure::of_client(&error)),
        Err(_) => Err(ApiFailure::Unreachable(format!("no answer within {PATIENCE:?}"))),
    }
}

fn found(pod: &Pod, port: &str) -> Option<PodFound> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    if matches!(phase, "Succeeded" | "Failed") || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let running = phase == "Running";
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let port = containers.flat_map(ports).find(|(name, _)| *name == port).map(|(_, number)| number);
    Some(PodFound { name: pod.metadata.name.clone().unwrap_or_default(), running, ready, port })
}

fn ports(container: &Container) -> impl Iterator<Item = (&str, u16)> {
    let ports = container.ports.iter().flatten();
    ports.filter_map(|port| Some((port.name.as_deref()?, u16::try_from(port.container_port).ok()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk(phase: &str, ready: &str, deleted: bool) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "tributary-0"},
            "spec": {"containers": [
                {"name": "sidecar"},
                {"name": "tributary", "ports": [{"name": "xds", "containerPort": 15012}, {"name": "admin", "containerPort": 15114}]},
            ]},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn pod_that_ended_or_is_deleted_is_no_replica() {
        let of = |pod: Pod| found(&pod, "admin").map(|pod| (pod.running, pod.ready));
        assert_eq!(of(mk("Running", "True", false)), Some((true, true)));
        assert_eq!(
            of(mk("Running", "False", false)),
            Some((true, false)),
            "a server that is not ready answers too"
        );
        assert_eq!(
            of(mk("Pending", "False", false)),
            Some((false, false)),
            "it is a replica that does not answer"
        );
        for ended in
            [mk("Running", "True", true), mk("Failed", "False", false), mk("Succeeded", "False", false)]
        {
            assert_eq!(of(ended), None);
        }
    }

    #[test]
    fn port_is_found_by_its_name_in_any_container() {
        let of = |name: &str| found(&mk("Running", "True", false), name).unwrap().port;
        assert_eq!((of("admin"), of("console")), (Some(15114), None));
    }
}
