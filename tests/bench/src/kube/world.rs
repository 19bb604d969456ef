//! Content of a bench's cluster, and its changes.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use tributary_suites::kube::{KubeApi, Named, mk_namespace, mk_pod, mk_service, mk_slice};

/// Concurrent writes.
const WRITERS: usize = 16;
/// Namespace of all objects.
const NAMESPACE: &str = "bench";
/// Service whose change shows that everything before it has arrived.
pub(super) const MARK: &str = "mark";
/// Approximate size of a pod as JSON.
const POD_BYTES: usize = 6_000;

/// Size of the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Name in the report.
    pub(crate) name: &'static str,
    /// Number of services, each with one slice.
    pub(crate) services: usize,
    /// Addresses per slice.
    pub(crate) addresses: usize,
    /// Whether each address is a pod of about 6 KB.
    pub(crate) pods: bool,
}

impl Shape {
    /// Ports per service.
    const PORTS: usize = 2;

    /// Returns the number of endpoints: addresses by ports.
    pub(super) fn endpoints(&self) -> f64 {
        (self.services * self.addresses * Self::PORTS) as f64
    }

    /// Returns the number of objects: services, slices and pods.
    pub(super) fn objects(&self) -> f64 {
        let pods = if self.pods { self.addresses } else { 0 };
        (self.services * (2 + pods)) as f64
    }

    /// Creates all objects.
    pub(super) async fn fill(&self, api: &KubeApi) -> Result<()> {
        api.apply(&mk_namespace(NAMESPACE)).await?;
        self.mark(api, 0).await?;
        api.apply(&service(MARK)).await?;
        let all = (0..self.services).map(|service| self.fill_one(api, service));
        stream::iter(all).buffer_unordered(WRITERS).try_collect::<()>().await
    }

    async fn fill_one(&self, api: &KubeApi, service_: usize) -> Result<()> {
        api.apply(&service(&name(service_))).await?;
        if self.pods {
            for address in 0..self.addresses {
                api.apply(&pod(service_, address)).await?;
            }
        }
        api.apply(&self.slice(service_, 0)).await?;
        Ok(())
    }

    fn slice(&self, service: usize, round: usize) -> Value {
        let ip = |n: usize| ip(service, if n == 0 { round % 100 + 150 } else { n });
        let ips: Vec<String> = (0..self.addresses).map(|n| ip(if round == 0 { n + 1 } else { n })).collect();
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        let name = name(service);
        let ports = [("http", 8080), ("grpc", 9090)];
        let mut slice = mk_slice(NAMESPACE, &name, &format!("{name}-x"), &ips, &ports);
        if self.pods {
            let endpoints = slice["endpoints"].as_array_mut().into_iter().flatten();
            for (n, endpoint) in endpoints.enumerate() {
                let pod = json!({"kind": "Pod", "namespace": NAMESPACE, "name": pod_name(service, n)});
                endpoint["targetRef"] = pod;
                endpoint["nodeName"] = json!(format!("node-{}", n % 50));
            }
        }
        slice
    }

    /// Sets the address of the mark.
    pub(super) async fn mark(&self, api: &KubeApi, round: usize) -> Result<String> {
        let ip = Ipv4Addr::new(10, 255, (round / 250) as u8, (round % 250) as u8 + 1).to_string();
        api.apply(&mk_slice(NAMESPACE, MARK, "mark-x", &[&ip], &[("http", 8080)])).await?;
        Ok(ip)
    }

    /// Changes one address of one slice after another, at most at this rate per second. Returns the elapsed
    /// time.
    pub(super) async fn churn(&self, api: &KubeApi, updates: usize, rate: f64) -> Result<Duration> {
        let begun = Instant::now();
        let all = (0..updates).map(|update| async move {
            let due = begun + Duration::from_secs_f64(update as f64 / rate);
            tokio::time::sleep_until(due.into()).await;
            let service = update % self.services;
            let slice = self.slice(service, update / self.services + 1);
            let named = Named::of(&slice)?;
            api.patch(&named, &json!({"endpoints": slice["endpoints"]})).await.map(drop)
        });
        stream::iter(all).buffer_unordered(WRITERS).try_collect::<()>().await?;
        Ok(begun.elapsed())
    }
}

/// Returns the host of the mark.
pub(super) fn mark_host() -> String {
    format!("{MARK}.{NAMESPACE}.svc.cluster.local")
}

fn name(service: usize) -> String {
    format!("svc-{service:04}")
}

fn pod_name(service: usize, n: usize) -> String {
    format!("{}-{n:03}", name(service))
}

fn service(name: &str) -> Value {
    mk_service(NAMESPACE, name, &[("http", 80, 8080), ("grpc", 90, 9090)])
}

fn ip(service: usize, n: usize) -> String {
    Ipv4Addr::new(10, (service / 250) as u8, (service % 250) as u8, n as u8).to_string()
}

/// Returns a pod with fields that the registry ignores: environment, volumes, annotations.
fn pod(service: usize, n: usize) -> Value {
    let name = name(service);
    let labels = [("app", name.as_str()), ("version", "v1")];
    let mut pod =
        mk_pod(NAMESPACE, &pod_name(service, n), &ip(service, n + 1), &format!("node-{}", n % 50), &labels);
    let line = |i: usize| json!({"name": format!("SETTING_{i:03}"), "value": format!("{name}/{n}/{}", "x".repeat(64))});
    let lines: Vec<Value> = (0..(POD_BYTES - 800) / 110).map(line).collect();
    pod["spec"]["containers"][0]["env"] = json!(lines);
    pod
}
