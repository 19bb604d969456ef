//! What is odd about a service, gathered while it is merged (codes 04xx).
//!
//! A contested name, a disagreement or a miss is a visible condition on the view, never a line in a
//! log (law 11). Messages hold no times, so that equal facts make equal conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Code, Condition, Declaration, EndpointGroup, Hostname, ObjectRef, PortName,
    PortNumber, Protocol, ServicePort, Source,
};

use crate::merge::port_behind;
use crate::state::names::End;

/// Conditions in the making.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    list: Vec<Condition>,
    waiting: Vec<ObjectRef>,
}

impl Conditions {
    /// How many objects one condition names.
    const MAX_OBJECTS: usize = 16;

    fn add(&mut self, code: Code, objects: Vec<ObjectRef>, message: String) -> &Condition {
        let mut objects = objects;
        objects.truncate(Self::MAX_OBJECTS);
        self.list.push(Condition { code, objects: objects.into(), message: message.into() });
        &self.list[self.list.len() - 1]
    }
    /// Anything else that is odd.
    pub(crate) fn push(&mut self, code: Code, objects: Vec<ObjectRef>, message: String) -> &Condition {
        self.add(code, objects, message)
    }
    /// A port's name or protocol differs from the one that is served.
    pub(crate) fn port_conflict(
        &mut self,
        port: &ServicePort,
        (name, protocol, by): (&PortName, Protocol, &ObjectRef),
        other: ObjectRef,
    ) -> &Condition {
        let message = format!(
            "port {} is {:?} ({}) in {by} and {:?} ({}) in {other}",
            port.number,
            name.as_str(),
            protocol.as_str(),
            port.name.as_str(),
            port.protocol.as_str()
        );
        self.add(Code::PORT_CONFLICT, vec![by.clone(), other], message)
    }
    /// Two declarations disagree on how endpoints are found.
    pub(crate) fn resolution(&mut self, first: &Declaration, other: &Declaration) {
        let (a, b) = (first.source.reference(), other.source.reference());
        let message = format!("{a} says {:?}, {b} says {:?}", first.resolution, other.resolution);
        self.add(Code::RESOLUTION_CONFLICT, vec![a, b], message);
    }
    /// A declaration stays although its source no longer names it.
    pub(crate) fn held_declaration(&mut self, declaration: &Declaration) {
        let object = declaration.source.reference();
        let message = format!("the removal of {object} waits for proof");
        self.add(Code::REMOVAL_HELD, vec![object], message);
    }
    /// What an adapter has to say of a declaration.
    pub(crate) fn remarks(&mut self, declaration: &Declaration) {
        for remark in declaration.attributes.remarks.iter() {
            self.add(remark.code, vec![declaration.source.reference()], remark.message.to_string());
        }
    }
    /// Addresses stay although their source no longer names them.
    pub(crate) fn held_addresses(&mut self, source: &Source, count: usize) {
        let object = source.reference();
        let message = format!("the removal of {count} addresses of {object} waits for proof");
        self.add(Code::REMOVAL_HELD, vec![object], message);
    }
    /// A group whose declaration is not there.
    pub(crate) fn waiting(&mut self, object: ObjectRef) {
        self.waiting.push(object);
    }
    /// Ports of groups that no declared port leads to, and declared ports that lead to none.
    pub(crate) fn unmatched<'a>(
        &mut self,
        declaration: &Declaration,
        groups: impl Iterator<Item = &'a EndpointGroup> + Clone,
    ) {
        let sets = || groups.clone().flat_map(|g| g.port_sets.iter().map(move |set| (g, set)));
        if sets().next().is_none() {
            return;
        }
        let leads_nowhere =
            |p: &&ServicePort| sets().all(|(_, set)| port_behind(declaration, p, set).is_none());
        for port in declaration.ports.iter().filter(leads_nowhere) {
            let (object, name) = (declaration.source.reference(), port.name.as_str());
            let message = format!("no endpoint of {object} has a port for {} ({name:?})", port.number);
            self.add(Code::UNMATCHED_PORT, vec![object], message);
        }
        let mut extra: BTreeMap<&PortName, Vec<ObjectRef>> = BTreeMap::new();
        for (group, set) in sets() {
            let one = declaration.ports.len() == 1 && set.len() == 1;
            for port in set.iter().filter(|p| !one && !declaration.ports.iter().any(|d| d.name == p.name)) {
                let objects = extra.entry(&port.name).or_default();
                let object = group.source.reference();
                if objects.len() < Self::MAX_OBJECTS && !objects.contains(&object) {
                    objects.push(object);
                }
            }
        }
        for (name, objects) in extra {
            let object = declaration.source.reference();
            let message = format!("endpoints have a port {:?} that {object} does not declare", name.as_str());
            self.add(Code::UNMATCHED_PORT, objects, message);
        }
    }
    /// Selected workloads that have no port for a declared one.
    pub(crate) fn no_target(&mut self, declaration: &Declaration, misses: Vec<(PortNumber, ObjectRef)>) {
        let mut by_port: BTreeMap<PortNumber, Vec<ObjectRef>> = BTreeMap::new();
        for (port, object) in misses {
            by_port.entry(port).or_default().push(object);
        }
        for (port, mut objects) in by_port {
            objects.sort();
            let (count, by) = (objects.len(), declaration.source.reference());
            let message = format!("{count} workloads that {by} selects have no port for {port}");
            self.add(Code::NO_TARGET_PORT, objects, message);
        }
    }
    /// Where an alias leads, if that is nowhere.
    pub(crate) fn alias(&mut self, end: Option<&End>, target: &Hostname, object: &ObjectRef) {
        match end {
            Some(End::Loop) => {
                let message = format!("{object} leads back to itself through {target}");
                self.add(Code::ALIAS_LOOP, vec![object.clone()], message);
            }
            Some(End::Missing(host)) => {
                let message = format!("{object} leads to {host}, which nothing declares");
                self.add(Code::ALIAS_DANGLING, vec![object.clone()], message);
            }
            Some(End::Host(_)) | None => {}
        }
    }
    /// All of them, sorted.
    pub(crate) fn finish(mut self) -> Vec<Condition> {
        if !self.waiting.is_empty() {
            let mut waiting = std::mem::take(&mut self.waiting);
            waiting.sort();
            let message = format!("the endpoints of {} objects wait for their declaration", waiting.len());
            self.add(Code::GROUP_WITHOUT_DECLARATION, waiting, message);
        }
        self.list.sort();
        self.list.dedup();
        self.list
    }
}

/// Several services claim one host, or several providers one service.
pub(crate) fn host_conflict(host: &Hostname, objects: Vec<ObjectRef>) -> Condition {
    let served = objects.first().map(ToString::to_string).unwrap_or_default();
    let others: Vec<String> =
        objects.iter().skip(1).take(Conditions::MAX_OBJECTS).map(ToString::to_string).collect();
    let message = format!("{host} is claimed by {served} first, then by {}", others.join(", "));
    let objects: Vec<ObjectRef> = objects.into_iter().take(Conditions::MAX_OBJECTS).collect();
    Condition { code: Code::HOST_CONFLICT, objects: objects.into(), message: Arc::from(message) }
}

/// An endpoint as explain names it.
pub(crate) fn endpoint_text(group: &EndpointGroup, address: &Address, port: Option<PortNumber>) -> String {
    let name = group.name(address).unwrap_or_default();
    match (address.at, port) {
        (AddressRef::Ip(ip), Some(port)) => std::net::SocketAddr::new(ip, port.get()).to_string(),
        (AddressRef::Ip(ip), None) => ip.to_string(),
        (AddressRef::Name(_), Some(port)) => format!("{name}:{port}"),
        (AddressRef::Name(_), None) => name.to_owned(),
        (AddressRef::Unix(_), _) => format!("unix:{name}"),
    }
}
