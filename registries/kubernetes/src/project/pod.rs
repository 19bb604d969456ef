//! A Pod: what makes it an endpoint's background and a workload of its own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use tributary_model::labels::WORKLOAD_NAME;
use tributary_model::{PortName, PortNumber};

use super::meta::{Meta, RawMeta};
use super::text::Text;
use crate::input::Kind;
use crate::interner::{Interner, NamedPorts};

const MOST_IPS: usize = 16;
const MOST_CONTAINERS: usize = 1024;

/// A Pod, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its metadata.
    pub meta: Meta,
    /// Its addresses, the canonical one first.
    pub ips: Box<[IpAddr]>,
    /// The node that it is bound to.
    pub node: Option<Arc<str>>,
    /// Its service account.
    pub account: Arc<str>,
    /// The workload's name as people know it.
    pub workload: Arc<str>,
    /// Its named TCP ports, sorted by name.
    pub ports: NamedPorts,
    /// Its life.
    pub phase: Phase,
    /// Whether its address is its node's.
    pub host_network: bool,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Runs, and says that it takes traffic.
    Ready,
    /// Runs or is about to.
    NotReady,
    /// Is being deleted.
    Leaving,
    /// Has ended; its address may be another's by now.
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
    /// From the object's JSON.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, spec, status) = super::read_object::<RawSpec<'_>, RawStatus<'_>>(json)?;
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
    /// Exchanges what others have too for the shared copy.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
        self.node = self.node.take().map(|node| shared.text(&node));
        self.account = shared.text(&self.account);
        self.workload = shared.text(&self.workload);
        self.ports = shared.named_ports(self.ports.clone());
    }
    /// Whether its addresses are its own now.
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
    super::bounded("status.podIPs", all, MOST_IPS)?;
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

/// Named TCP ports of containers, and of the init containers that stay; the first of a name wins.
fn ports(spec: &RawSpec<'_>) -> Result<NamedPorts, String> {
    let (main, init) = (spec.containers.as_deref(), spec.init_containers.as_deref());
    let (main, init) = (main.unwrap_or_default(), init.unwrap_or_default());
    super::bounded("spec.containers", main, MOST_CONTAINERS)?;
    super::bounded("spec.initContainers", init, MOST_CONTAINERS)?;
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

/// The label's word, else what its owner's name comes from, else the owner's or its own name.
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

/// The name of what made a pod's owner, where the owner's name tells.
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

/// A CronJob names its Jobs after itself and the minute of their time.
fn cron(job: &str) -> Option<&str> {
    let (name, minute) = job.rsplit_once('-')?;
    let fits = matches!(minute.len(), 8..=10) && minute.bytes().all(|b| b.is_ascii_digit());
    fits.then_some(name)
}

#[cfg(test)]
mod tests;
