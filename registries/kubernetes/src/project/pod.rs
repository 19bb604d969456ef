//! Pod: the attributes of its endpoints and of its workload.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use tributary_model::labels::WORKLOAD_NAME;
use tributary_model::{PortName, PortNumber};

use super::meta::{Meta, RawMeta};
use super::text::Text;
use crate::interner::{Interner, NamedPorts};
use crate::kind::Kind;

const MOST_IPS: usize = 16;
const MOST_CONTAINERS: usize = 1024;

/// Pod with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Metadata.
    pub meta: Meta,
    /// Addresses, the canonical one first.
    pub ips: Box<[IpAddr]>,
    /// Node that it is bound to.
    pub node: Option<Arc<str>>,
    /// Service account.
    pub account: Arc<str>,
    /// Name of its workload for operators, such as the Deployment's.
    pub workload: Arc<str>,
    /// Named TCP ports, sorted by name.
    pub ports: NamedPorts,
    /// Phase of its lifecycle.
    pub phase: Phase,
    /// Whether it shares the address of its node.
    pub host_network: bool,
}

/// Phase of a pod's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Running and ready for traffic.
    Ready,
    /// Running or starting.
    NotReady,
    /// Being deleted.
    Leaving,
    /// Ended; its address may belong to another pod.
    Ended,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, default)]
    node_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    service_account_name: Option<Text<'a>>,
    #[serde(default)]
    host_network: Option<bool>,
    #[serde(borrow, default)]
    containers: Option<Vec<RawContainer<'a>>>,
    #[serde(borrow, default)]
    init_containers: Option<Vec<RawContainer<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer<'a> {
    #[serde(borrow, default)]
    ports: Option<Vec<RawPort<'a>>>,
    #[serde(borrow, default)]
    restart_policy: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    protocol: Option<Text<'a>>,
    #[serde(default)]
    container_port: u32,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawStatus<'a> {
    #[serde(borrow, default)]
    phase: Option<Text<'a>>,
    #[serde(borrow, default, rename = "podIP")]
    pod_ip: Option<Text<'a>>,
    #[serde(borrow, default, rename = "podIPs")]
    pod_ips: Option<Vec<RawIp<'a>>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<RawCondition<'a>>>,
}

#[derive(Deserialize)]
struct RawIp<'a> {
    #[serde(borrow, default)]
    ip: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct RawCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

impl Pod {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, spec, status) = super::read::read_object::<RawSpec<'_>, RawStatus<'_>>(json)?;
        let meta = metadata.meta(Kind::Pod)?;
        let text = |text: &Option<Text<'_>>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
        Ok(Self {
            ips: ips(&status)?,
            node: text(&spec.node_name),
            account: spec.service_account_name.as_deref().unwrap_or_default().into(),
            workload: workload(&meta, &metadata).into(),
            ports: ports(&spec)?,
            phase: phase(&metadata, &status),
            host_network: spec.host_network.unwrap_or_default(),
            meta,
        })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
        self.node = self.node.take().map(|node| shared.text(&node));
        self.account = shared.text(&self.account);
        self.workload = shared.text(&self.workload);
        self.ports = shared.named_ports(self.ports.clone());
    }
    /// Whether it currently has addresses.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.phase != Phase::Ended && !self.ips.is_empty()
    }
}

fn phase(metadata: &RawMeta<'_>, status: &RawStatus<'_>) -> Phase {
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Phase::Ended;
    }
    if metadata.deletion_timestamp.is_some() {
        return Phase::Leaving;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().any(|c| &*c.kind == "Ready" && &*c.status == "True");
    if ready { Phase::Ready } else { Phase::NotReady }
}

fn ips(status: &RawStatus<'_>) -> Result<Box<[IpAddr]>, String> {
    let all = status.pod_ips.as_deref().unwrap_or_default();
    super::read::bounded("status.podIPs", all, MOST_IPS)?;
    let first = status.pod_ip.as_deref().into_iter();
    let texts = first.chain(all.iter().filter_map(|ip| ip.ip.as_deref())).filter(|text| !text.is_empty());
    let mut ips: Vec<IpAddr> = Vec::new();
    for text in texts {
        let ip = text.parse().map_err(|_| format!("status.podIPs: {text:?} is not an IP address"))?;
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    Ok(ips.into())
}

/// Returns named TCP ports of containers and of restartable init containers; the first of a name wins.
fn ports(spec: &RawSpec<'_>) -> Result<NamedPorts, String> {
    let (main, init) = (spec.containers.as_deref(), spec.init_containers.as_deref());
    let (main, init) = (main.unwrap_or_default(), init.unwrap_or_default());
    super::read::bounded("spec.containers", main, MOST_CONTAINERS)?;
    super::read::bounded("spec.initContainers", init, MOST_CONTAINERS)?;
    let staying = init.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let mut named: BTreeMap<PortName, PortNumber> = BTreeMap::new();
    for port in main.iter().chain(staying).flat_map(|c| c.ports.as_deref().unwrap_or_default()) {
        let tcp = port.protocol.as_deref().is_none_or(|p| p.is_empty() || p == "TCP");
        let name = port.name.as_deref().filter(|name| tcp && !name.is_empty());
        let (Some(name), Ok(number)) =
            (name.and_then(|n| PortName::new(n).ok()), PortNumber::new(port.container_port))
        else {
            continue;
        };
        named.entry(name).or_insert(number);
    }
    Ok(named.into_iter().collect())
}

/// Returns the workload's name: the label's, else derived from the owner's name, else the owner's or the pod's own.
fn workload(meta: &Meta, raw: &RawMeta<'_>) -> String {
    if let Some(name) = meta.labels.get(WORKLOAD_NAME).filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let owners = raw.owner_references.as_deref().unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return meta.name.name.to_string();
    };
    made_by(meta, &owner.kind, &owner.name).unwrap_or(&owner.name).to_owned()
}

/// Returns the name of the object that created the pod's owner, if the owner's name contains it.
fn made_by<'a>(meta: &'a Meta, kind: &str, owner: &'a str) -> Option<&'a str> {
    let hashed = |label| owner.strip_suffix(meta.labels.get(label)?)?.strip_suffix('-');
    match kind {
        "ReplicaSet" => hashed("pod-template-hash").or_else(|| hashed("rollouts-pod-template-hash")),
        "ReplicationController" => meta.labels.get("deploymentconfig"),
        "Job" => cron(owner),
        _ => None,
    }
    .filter(|name| !name.is_empty())
}

/// Returns the name of the CronJob of a Job, which is the Job's name without the scheduled minute.
fn cron(job: &str) -> Option<&str> {
    let (name, minute) = job.rsplit_once('-')?;
    let fits = matches!(minute.len(), 8..=10) && minute.bytes().all(|b| b.is_ascii_digit());
    fits.then_some(name)
}

#[cfg(test)]
mod tests;
