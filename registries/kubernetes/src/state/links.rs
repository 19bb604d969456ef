//! Reverse references: which objects name which names and addresses.
//!
//! Owned by [`ClusterObjects`](crate::ClusterObjects), which reports every created, changed or deleted object; read by
//! derivations and invalidation. References from names and addresses to slices are hashes, so that a million of them
//! fit in a few MB; a caller checks the slice itself where a collision would matter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::Version;

use crate::kind::Name;
use crate::project::{Object, Pod, Slice};

/// Reverse indexes.
#[derive(Debug, Clone, Default)]
pub struct Links {
    numbers: Numbers,
    /// (service, slice).
    of_service: BTreeSet<(Name, Name)>,
    /// (hash of pod, number of slice).
    of_pod: BTreeSet<(u32, u32)>,
    /// (hash of namespace and address, number of slice), for entries without a pod.
    of_address: BTreeSet<(u32, u32)>,
    /// (hash of node, number of slice), for entries without a pod.
    of_node: BTreeSet<(u32, u32)>,
    /// (node, pod).
    pods_on: BTreeSet<(Arc<str>, Name)>,
    /// (address, pod), for pods that currently have an address of their own.
    pods_at: BTreeSet<(IpAddr, Name)>,
    /// Services that are reached through nodes.
    on_nodes: BTreeSet<Name>,
}

impl Links {
    /// Records a created, changed or deleted object.
    pub(super) fn change(&mut self, old: Option<&Object>, new: Option<&Object>) {
        for (object, on) in [(old, false), (new, true)] {
            match object {
                Some(Object::Slice(slice)) => self.slice(slice, on),
                Some(Object::Pod(pod)) => self.pod(pod, on),
                Some(Object::Service(service)) if service.node_selector.is_some() => {
                    turn(&mut self.on_nodes, service.meta.name.clone(), on);
                }
                _ => {}
            }
        }
        if let (Some(Object::Slice(slice)), None) = (old, new) {
            self.numbers.free(&slice.meta.name);
        }
    }
    fn slice(&mut self, slice: &Slice, on: bool) {
        let id = self.numbers.of(&slice.meta.name);
        let namespace = &slice.meta.name.namespace;
        if let Some(service) = slice.service_name() {
            turn(&mut self.of_service, (service, slice.meta.name.clone()), on);
        }
        for entry in &slice.entries {
            if let Some((namespace, pod)) = entry.pod_parts(namespace) {
                turn(&mut self.of_pod, (hash_name(namespace, pod), id), on);
                continue;
            }
            turn(&mut self.of_address, (hash_address(namespace, entry.ip), id), on);
            if let Some(node) = entry.topology.as_ref().and_then(|own| own.node.as_deref()) {
                turn(&mut self.of_node, (hash_name("", node), id), on);
            }
        }
    }
    fn pod(&mut self, pod: &Pod, on: bool) {
        let name = &pod.meta.name;
        if let Some(node) = &pod.node {
            turn(&mut self.pods_on, (node.clone(), name.clone()), on);
        }
        if pod.is_alive() && !pod.host_network {
            for ip in &pod.ips {
                turn(&mut self.pods_at, (*ip, name.clone()), on);
            }
        }
    }

    /// Returns the slices of a Service.
    pub fn slices_of(&self, service: &Name) -> impl Iterator<Item = &Name> {
        let all = self.of_service.range((Bound::Included((service.clone(), first())), Bound::Unbounded));
        all.take_while(move |(of, _)| of == service).map(|(_, slice)| slice)
    }
    /// Returns the slices that may name a pod.
    pub fn slices_naming(&self, pod: &Name) -> impl Iterator<Item = &Name> {
        self.hashed(&self.of_pod, hash_name(&pod.namespace, &pod.name))
    }
    /// Returns the slices of a namespace that may list an address without a pod.
    pub fn slices_at(&self, namespace: &str, ip: IpAddr) -> impl Iterator<Item = &Name> {
        self.hashed(&self.of_address, hash_address(namespace, ip))
    }
    /// Returns the slices that may list an address on a node without a pod.
    pub fn slices_on(&self, node: &str) -> impl Iterator<Item = &Name> {
        self.hashed(&self.of_node, hash_name("", node))
    }
    fn hashed<'l>(&'l self, index: &'l BTreeSet<(u32, u32)>, hash: u32) -> impl Iterator<Item = &'l Name> {
        index.range((hash, 0)..=(hash, u32::MAX)).filter_map(|(_, id)| self.numbers.name(*id))
    }
    /// Returns the Services that are reached through nodes.
    pub fn services_on_nodes(&self) -> impl Iterator<Item = &Name> {
        self.on_nodes.iter()
    }
    /// Returns the pods that are bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Name> {
        let node: Arc<str> = node.into();
        let all = self.pods_on.range((Bound::Included((node.clone(), first())), Bound::Unbounded));
        all.take_while(move |(on, _)| *on == node).map(|(_, pod)| pod)
    }
    /// Returns the pods of a namespace that currently have this address of their own.
    pub fn pods_at(&self, namespace: &str, ip: IpAddr) -> impl Iterator<Item = &Name> {
        let all = self.pods_at.range((Bound::Included((ip, Name::new(namespace, ""))), Bound::Unbounded));
        all.take_while(move |(at, pod)| *at == ip && *pod.namespace == *namespace).map(|(_, pod)| pod)
    }
}

fn first() -> Name {
    Name::new("", "")
}

/// Numbers of slices; a freed number is reused.
#[derive(Debug, Clone, Default)]
struct Numbers {
    by_name: BTreeMap<Name, u32>,
    names: Vec<Option<Name>>,
    free: Vec<u32>,
}

impl Numbers {
    fn of(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.names.get_mut(id as usize) {
            *slot = Some(name.clone());
        }
        self.by_name.insert(name.clone(), id);
        id
    }
    fn name(&self, id: u32) -> Option<&Name> {
        self.names.get(id as usize)?.as_ref()
    }
    fn free(&mut self, name: &Name) {
        let Some(id) = self.by_name.remove(name) else { return };
        if let Some(slot) = self.names.get_mut(id as usize) {
            *slot = None;
        }
        self.free.push(id);
    }
}

fn turn<T: Ord>(set: &mut BTreeSet<T>, item: T, on: bool) {
    if on {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}

fn hash_name(namespace: &str, name: &str) -> u32 {
    short(Version::of_all([Version::of(namespace.as_bytes()), Version::of(name.as_bytes())]))
}

fn hash_address(namespace: &str, ip: IpAddr) -> u32 {
    let ip = match ip {
        IpAddr::V4(ip) => Version::of(&ip.octets()),
        IpAddr::V6(ip) => Version::of(&ip.octets()),
    };
    short(Version::of_all([Version::of(namespace.as_bytes()), ip]))
}

/// Returns the lower half of a hash.
const fn short(hash: Version) -> u32 {
    (hash.0 & 0xffff_ffff) as u32
}
