//! Which outputs a change touches: the reverse of what derive functions read.
//!
//! Told by the index of every object that comes, changes or goes; it marks the outputs that read it. A mark
//! too many costs a derivation that finds nothing new; a mark too few is a bug that the property tests look
//! for. Links from names and addresses to slices are kept as hashes: a million of them fit in a few MB, and a
//! collision is a mark too many.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{Evidence, Version};

use crate::derive::service::keeps_sessions;
use crate::index::Output;
use crate::input::{Name, Object};
use crate::inputs::{Inputs, within};
use crate::project::{Namespace, Node, Pod, Service, Slice};

/// One object's change. Both sides are of one kind and name; one of them may be missing.
#[derive(Debug, Clone)]
pub struct Change {
    /// What it was.
    pub old: Option<Object>,
    /// What it is.
    pub new: Option<Object>,
    /// What a fact that goes with it goes for.
    pub evidence: Evidence,
}

/// Outputs to derive again, each with the evidence for what it may lose.
pub type Marks = BTreeMap<Output, Evidence>;

/// The reverse indexes.
#[derive(Debug, Default)]
pub struct Touch {
    slices: SliceIds,
    /// (service, slice).
    of_service: BTreeSet<(Name, Name)>,
    /// (hash of pod, slice's number).
    of_pod: BTreeSet<(u32, u32)>,
    /// (hash of namespace and address, slice's number), for entries that name no pod.
    of_address: BTreeSet<(u32, u32)>,
    /// (hash of node, slice's number), for entries that may stand without a pod.
    of_node: BTreeSet<(u32, u32)>,
    /// (node, pod).
    pods_on: BTreeSet<(Arc<str>, Name)>,
}

impl Touch {
    /// Marks what a change touches. The inputs are those after it.
    pub fn change(&mut self, inputs: &Inputs, change: &Change, marks: &mut Marks) {
        let Change { old, new, evidence } = change;
        let mut mark = Marking { marks, evidence };
        match (old, new) {
            (Some(Object::Namespace(object)), None) | (None, Some(Object::Namespace(object))) => {
                mark.namespace(inputs, &object.meta.name.name);
            }
            (Some(Object::Namespace(old)), Some(Object::Namespace(new))) => {
                self.namespace(inputs, old, new, &mut mark);
            }
            (Some(Object::Service(object)), None) | (None, Some(Object::Service(object))) => {
                self.service(None, object, &mut mark);
            }
            (Some(Object::Service(old)), Some(Object::Service(new))) => {
                self.service(Some(old), new, &mut mark)
            }
            (_, Some(Object::Slice(_))) | (Some(Object::Slice(_)), _) => {
                self.slice(old.as_ref(), new.as_ref(), &mut mark);
            }
            (_, Some(Object::Pod(_))) | (Some(Object::Pod(_)), _) => {
                self.pod(old.as_ref(), new.as_ref(), &mut mark);
            }
            (_, Some(Object::Node(node))) | (Some(Object::Node(node)), _) => {
                self.node(inputs, node, &mut mark)
            }
            (None, None) => {}
            // the two sides are of one kind
            (Some(Object::Namespace(_)), Some(_)) | (Some(Object::Service(_)), Some(_)) => {}
        }
    }

    fn namespace(&self, inputs: &Inputs, old: &Namespace, new: &Namespace, mark: &mut Marking<'_>) {
        let namespace = &new.meta.name.name;
        if old.meta.labels != new.meta.labels {
            mark.namespace(inputs, namespace);
        } else if old.traffic != new.traffic {
            mark.services(inputs, namespace);
        }
    }
    /// Slices read one thing of their Service: whether its endpoints drain.
    fn service(&self, old: Option<&Service>, new: &Service, mark: &mut Marking<'_>) {
        let name = &new.meta.name;
        mark.output(Output::Service(name.clone()));
        if old.is_some_and(keeps_sessions) != keeps_sessions(new) {
            let first = (name.clone(), Name::new("", ""));
            for (_, slice) in self.of_service.range(first..).take_while(|(service, _)| service == name) {
                mark.output(Output::Group(slice.clone()));
            }
        }
    }
    fn slice(&mut self, old: Option<&Object>, new: Option<&Object>, mark: &mut Marking<'_>) {
        let of = |object: Option<&Object>| match object {
            Some(Object::Slice(slice)) => Some(Arc::clone(slice)),
            _ => None,
        };
        let (old, new) = (of(old), of(new));
        let Some(name) = new.as_ref().or(old.as_ref()).map(|slice| slice.meta.name.clone()) else { return };
        mark.output(Output::Group(name.clone()));
        let id = self.slices.of(&name);
        if let Some(old) = &old {
            self.link(old, id, false);
        }
        match &new {
            Some(new) => self.link(new, id, true),
            None => self.slices.free(&name),
        }
    }
    fn link(&mut self, slice: &Slice, id: u32, on: bool) {
        let namespace = &slice.meta.name.namespace;
        if let Some(service) = slice.service_name() {
            turn(&mut self.of_service, (service, slice.meta.name.clone()), on);
        }
        for entry in &slice.entries {
            match &entry.pod {
                Some(pod) => turn(&mut self.of_pod, (hash_name(namespace, pod), id), on),
                None => {
                    turn(&mut self.of_address, (hash_address(namespace, entry.ip), id), on);
                    if let Some(node) = entry.spot.as_ref().and_then(|spot| spot.node.as_deref()) {
                        turn(&mut self.of_node, (hash_name("", node), id), on);
                    }
                }
            }
        }
    }
    fn pod(&mut self, old: Option<&Object>, new: Option<&Object>, mark: &mut Marking<'_>) {
        for (object, on) in [(old, false), (new, true)] {
            let Some(Object::Pod(pod)) = object else { continue };
            if let Some(node) = &pod.node {
                turn(&mut self.pods_on, (node.clone(), pod.meta.name.clone()), on);
            }
            self.of_one_pod(pod, mark);
        }
    }
    fn of_one_pod(&self, pod: &Pod, mark: &mut Marking<'_>) {
        let name = &pod.meta.name;
        mark.output(Output::Workload(name.clone()));
        self.groups(&self.of_pod, hash_name(&name.namespace, &name.name), mark);
        for ip in &pod.ips {
            self.groups(&self.of_address, hash_address(&name.namespace, *ip), mark);
        }
    }
    fn node(&self, inputs: &Inputs, node: &Node, mark: &mut Marking<'_>) {
        let name = &node.meta.name.name;
        let first = (name.clone(), Name::new("", ""));
        for (_, pod) in self.pods_on.range(first..).take_while(|(on, _)| on == name) {
            if let Some(pod) = inputs.pods.get(pod) {
                self.of_one_pod(pod, mark);
            }
        }
        self.groups(&self.of_node, hash_name("", name), mark);
    }
    fn groups(&self, index: &BTreeSet<(u32, u32)>, hash: u32, mark: &mut Marking<'_>) {
        for (_, id) in index.range((hash, 0)..=(hash, u32::MAX)) {
            if let Some(slice) = self.slices.name(*id) {
                mark.output(Output::Group(slice.clone()));
            }
        }
    }
}

/// Marks in the making, for one change.
struct Marking<'a> {
    marks: &'a mut Marks,
    evidence: &'a Evidence,
}

impl Marking<'_> {
    fn output(&mut self, output: Output) {
        self.marks.insert(output, self.evidence.clone());
    }
    fn services(&mut self, inputs: &Inputs, namespace: &str) {
        for (name, _) in within(&inputs.services, namespace) {
            self.output(Output::Service(name.clone()));
        }
    }
    /// Everything that a namespace holds.
    fn namespace(&mut self, inputs: &Inputs, namespace: &str) {
        self.services(inputs, namespace);
        for (name, _) in within(&inputs.slices, namespace) {
            self.output(Output::Group(name.clone()));
        }
        for (name, _) in within(&inputs.pods, namespace) {
            self.output(Output::Workload(name.clone()));
        }
    }
}

/// Every output of every object, after a change that all may read.
pub fn all(inputs: &Inputs, evidence: &Evidence, marks: &mut Marks) {
    let services = inputs.services.keys().cloned().map(Output::Service);
    let groups = inputs.slices.keys().cloned().map(Output::Group);
    let workloads = inputs.pods.keys().cloned().map(Output::Workload);
    marks.extend(services.chain(groups).chain(workloads).map(|output| (output, evidence.clone())));
}

/// Numbers of slices, given again once they are free.
#[derive(Debug, Default)]
struct SliceIds {
    by_name: BTreeMap<Name, u32>,
    names: Vec<Option<Name>>,
    free: Vec<u32>,
}

impl SliceIds {
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

/// The lower half of a hash.
const fn short(hash: Version) -> u32 {
    (hash.0 & 0xffff_ffff) as u32
}
