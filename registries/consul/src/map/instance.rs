//! One instance as stored: the mapped entry without its checks, with values shared between instances.
//!
//! Mapped as soon as an answer is decoded. Mapping is total: an instance that cannot be served carries the reason.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Health, Labels, ObjectId, Origin, Topology, Version};

use super::address::{self, AddressSelection, InstanceAddress};
use super::config::{Area, MapConfig, Warning};
use super::health::{self, Outcome};
use super::interner::Interner;
use super::ports::Ports;
use super::{labels, mirror, topology};
use crate::wire::HealthEntry;

/// Identity of an instance within its area: node and id, as the object that explain names.
#[derive(Debug, Clone)]
pub struct InstanceId(Arc<Origin>);

impl InstanceId {
    /// Longest name that is stored unchanged.
    const MAX: usize = 512;

    /// Creates an identity. Ids are unique per node only, and a node's name may contain any character.
    pub(super) fn new(node: &str, id: &str, service: &Arc<str>, area: &Arc<str>) -> Self {
        let mut name = format!("{}/{id}", node.replace('%', "%25").replace('/', "%2F"));
        if name.len() > Self::MAX {
            let digest = Version::of(name.as_bytes());
            let cut = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= Self::MAX - 32).last();
            name.truncate(cut.unwrap_or_default());
            name = format!("{name}~{digest}");
        }
        let object = ObjectId { kind: "Instance", namespace: Arc::clone(area), name: name.into() };
        Self(Arc::new(Origin { object, workload: Arc::clone(service) }))
    }
    /// Returns the identity as the origin of an endpoint.
    #[must_use]
    pub const fn origin(&self) -> &Arc<Origin> {
        &self.0
    }
    /// Returns its object.
    #[must_use]
    pub fn object(&self) -> &ObjectId {
        &self.0.object
    }
}
impl PartialEq for InstanceId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for InstanceId {}
impl PartialOrd for InstanceId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InstanceId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.object.name.cmp(&other.0.object.name)
    }
}

/// Reason why an instance is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExclusionReason {
    /// It has no usable address.
    NoAddress,
    /// It has no port.
    NoPort,
    /// It listens on a unix socket of its machine.
    Socket,
    /// It is a copy of an instance that is watched directly.
    Mirror,
}

/// One mapped instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Address and ports, or the reason why it is not served.
    pub(super) reach: Result<(InstanceAddress, Arc<Ports>), ExclusionReason>,
    pub(super) topology: Arc<Topology>,
    pub(super) labels: Labels,
    /// Weight in its current state.
    pub(super) weight: u16,
    /// Weight while its checks pass.
    pub(super) passing_weight: u16,
    pub(super) health: Health,
    pub(super) flags: Flags,
}

/// Further flags of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags {
    /// It runs on a node without an agent.
    pub(super) external: bool,
    /// It accepts mesh TLS.
    pub(super) mtls: bool,
    /// It speaks the TLS of Consul's mesh itself.
    pub(super) native: bool,
    /// One of its checks has an unknown status.
    pub(super) odd_check: bool,
    /// Some of its labels were dropped.
    pub(super) labels_dropped: bool,
}

/// Maps the instances of an answer; only plain services count. If two entries have one identity, the greater by
/// content wins, whatever their order.
#[must_use]
pub fn read(
    entries: &[HealthEntry],
    area: &Area,
    config: &MapConfig,
    translated: bool,
    interner: &mut Interner,
) -> BTreeMap<InstanceId, Instance> {
    let mut taken: BTreeMap<(&str, &str), &HealthEntry> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_served(entry)) {
        let id = if entry.service.id.is_empty() { &entry.service.service } else { &entry.service.id };
        let known = taken.entry((&entry.node.node, id)).or_insert(entry);
        *known = entry.max(*known);
    }
    let (selection, label) = (selection(area, config, translated), area.label());
    let read = taken.into_iter().map(|((node, id), entry)| {
        let service = interner.text(&entry.service.service);
        (InstanceId::new(node, id, &service, label), instance(entry, area, config, selection, interner))
    });
    read.collect()
}

/// Returns whether an entry is an instance. The servers' own service is excluded too.
fn is_served(entry: &HealthEntry) -> bool {
    entry.service.is_plain() && entry.service.service != "consul"
}

const fn selection_of(remote: bool, translated: bool, config: &MapConfig) -> AddressSelection {
    AddressSelection { remote, lan: config.lan, translated, family: config.family, loopback: config.loopback }
}

fn selection(area: &Area, config: &MapConfig, translated: bool) -> AddressSelection {
    selection_of(area.is_remote() && area.part.peer.is_empty(), translated, config)
}

fn instance(
    entry: &HealthEntry,
    area: &Area,
    config: &MapConfig,
    selection: AddressSelection,
    interner: &mut Interner,
) -> Instance {
    let outcome = health::outcome(&entry.checks);
    let (health, weight) = health::health_and_weight(outcome, entry.service.weights.as_ref());
    let withheld = outcome == Outcome::Warning && config.warning == Warning::Withheld;
    let (labels, labels_dropped) = labels::of(entry, &area.part.datacenter, config);
    let flag = |key: &str| entry.node.meta.get(key).is_some_and(|value| value == "true");
    Instance {
        reach: reach(entry, config, selection, interner),
        topology: interner.topology(topology::of(entry, area, config)),
        labels: interner.labels(labels),
        weight: u16::try_from(weight).unwrap_or(u16::MAX),
        passing_weight: health::passing_weight(entry.service.weights.as_ref()),
        health: if withheld { health.max(Health::Unhealthy) } else { health },
        flags: Flags {
            external: flag("external-node"),
            mtls: entry.service.meta.get("tributary-tls").is_some_and(|mode| mode == "mesh"),
            native: entry.service.connect.native,
            odd_check: entry.checks.iter().any(health::is_unknown),
            labels_dropped,
        },
    }
}

fn reach(
    entry: &HealthEntry,
    config: &MapConfig,
    selection: AddressSelection,
    interner: &mut Interner,
) -> Result<(InstanceAddress, Arc<Ports>), ExclusionReason> {
    if mirror::is_mirror(entry, &config.direct) {
        return Err(ExclusionReason::Mirror);
    }
    if !entry.service.socket_path.is_empty() {
        return Err(ExclusionReason::Socket);
    }
    let (at, port) = address::of(entry, selection).ok_or(ExclusionReason::NoAddress)?;
    let ports = Ports::of(&entry.service, port, config).ok_or(ExclusionReason::NoPort)?;
    Ok((at, interner.ports(ports)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Check, Node, Service, Tagged};

    fn mk_area(datacenter: &str) -> Area {
        let part = super::super::name::Tenancy { datacenter: datacenter.into(), ..Default::default() };
        Area::new(part, "dc1", tributary_model::Scope::new("x").unwrap())
    }
    fn mk_entry(node: &str, id: &str) -> HealthEntry {
        let node = Node { node: node.into(), address: "10.0.0.1".into(), ..Node::default() };
        let service = Service { id: id.into(), service: "web".into(), port: 80, ..Service::default() };
        HealthEntry { node, service, checks: vec![] }
    }
    fn names(entries: &[HealthEntry]) -> Vec<String> {
        let config = MapConfig::new().unwrap();
        let read = read(entries, &mk_area("dc1"), &config, false, &mut Interner::default());
        read.keys().map(|id| id.object().to_string()).collect()
    }
    fn one(entry: &HealthEntry, config: &MapConfig) -> Instance {
        let read =
            read(std::slice::from_ref(entry), &mk_area("dc1"), config, false, &mut Interner::default());
        read.into_values().next().unwrap()
    }

    #[test]
    fn instance_identity_is_node_and_id() {
        let same_id = [mk_entry("a", "web-1"), mk_entry("b", "web-1")];
        assert_eq!(names(&same_id), ["Instance dc1/a/web-1", "Instance dc1/b/web-1"]);
        assert_eq!(names(&[mk_entry("a/b", "c"), mk_entry("a", "b/c"), mk_entry("a%2Fb", "c")]).len(), 3);
        assert_eq!(names(&[mk_entry("a", "")]), ["Instance dc1/a/web"]);
        let long = [mk_entry(&"n".repeat(700), "1"), mk_entry(&"n".repeat(700), "2")];
        assert!(names(&long).iter().all(|name| name.len() < 540) && names(&long).len() == 2);
    }

    #[test]
    fn equal_identities_are_one_instance_in_any_order() {
        let (mut first, second) = (mk_entry("a", "1"), mk_entry("a", "1"));
        first.service.port = 81;
        let config = MapConfig::new().unwrap();
        let read = |entries: &[HealthEntry]| {
            read(entries, &mk_area("dc1"), &config, false, &mut Interner::default())
        };
        let both = read(&[first.clone(), second.clone()]);
        assert_eq!(both.len(), 1);
        assert_eq!(both, read(&[second, first]));
    }

    #[test]
    fn only_plain_services_are_instances() {
        let mut entries = Vec::new();
        for kind in ["", "connect-proxy", "mesh-gateway", "destination", "tomorrow"] {
            let mut entry = mk_entry("a", kind);
            entry.service.kind = kind.into();
            entries.push(entry);
        }
        let mut own = mk_entry("a", "consul");
        own.service.service = "consul".into();
        entries.push(own);
        assert_eq!(names(&entries), ["Instance dc1/a/web"]);
    }

    #[test]
    fn unreachable_instance_has_a_reason() {
        let config = MapConfig::new().unwrap();
        let reach = |change: &dyn Fn(&mut HealthEntry)| {
            let mut entry = mk_entry("a", "1");
            change(&mut entry);
            one(&entry, &config).reach.err()
        };
        assert_eq!(reach(&|_| {}), None);
        assert_eq!(reach(&|e| e.service.port = 0), Some(ExclusionReason::NoPort));
        assert_eq!(reach(&|e| e.service.socket_path = "/run/web".into()), Some(ExclusionReason::Socket));
        assert_eq!(reach(&|e| e.node.address = "0.0.0.0".into()), Some(ExclusionReason::NoAddress));
    }

    #[test]
    fn warning_instance_is_served_unless_withheld() {
        let mut entry = mk_entry("a", "1");
        entry.checks = vec![Check { check_id: "c".into(), status: "warning".into() }];
        let served = MapConfig::new().unwrap();
        let withheld = MapConfig { warning: Warning::Withheld, ..served.clone() };
        assert_eq!(one(&entry, &served).health, Health::Healthy);
        assert_eq!(one(&entry, &withheld).health, Health::Unhealthy);
    }

    #[test]
    fn external_node_is_flagged_and_needs_no_agent() {
        let mut entry = mk_entry("a", "1");
        entry.node.meta.insert("external-node".into(), "true".into());
        entry.service.meta.insert("tributary-tls".into(), "mesh".into());
        let instance = one(&entry, &MapConfig::new().unwrap());
        assert!(instance.flags.external && instance.flags.mtls);
        assert_eq!(instance.health, Health::Healthy, "no check is no complaint");
    }

    #[test]
    fn remote_instances_use_wan_addresses_unless_translated() {
        let mut entry = mk_entry("a", "1");
        entry.service.tagged_addresses.insert("wan".into(), Tagged { address: "1.1.1.1".into(), port: 444 });
        let config = MapConfig::new().unwrap();
        let at = |area: &Area, translated| {
            let read =
                read(std::slice::from_ref(&entry), area, &config, translated, &mut Interner::default());
            read.into_values().next().unwrap().reach.unwrap().0
        };
        let ip = |text: &str| InstanceAddress::Ip(text.parse().unwrap());
        assert_eq!(at(&mk_area("dc1"), false), ip("10.0.0.1"));
        assert_eq!(at(&mk_area("dc2"), false), ip("1.1.1.1"));
        assert_eq!(at(&mk_area("dc2"), true), ip("10.0.0.1"));
    }

    #[test]
    fn stored_instance_is_small() {
        assert!(size_of::<Instance>() <= 64, "{} bytes", size_of::<Instance>());
        assert_eq!(size_of::<InstanceId>(), 8);
    }
}
