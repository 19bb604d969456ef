//! Conditions of a service, collected while it is merged (codes 04xx).
//!
//! Called by merge. A contested name, a conflict or a missing port is a visible condition of the view,
//! not a log line (law 11). Messages contain no times: equal facts make equal conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Code, Condition, Declaration, EndpointGroup, Hostname, ObjectRef, PortName,
    PortNumber, Protocol, ServicePort, Source,
};

use crate::merge::matching_port;
use crate::state::names::End;

/// Conditions under construction.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    list: Vec<Condition>,
    waiting: Vec<ObjectRef>,
}

impl Conditions {
    /// Most objects that one condition names.
    const MAX_OBJECTS: usize = 16;

    fn add(&mut self, code: Code, objects: Vec<ObjectRef>, message: String) -> &Condition {
        let mut objects = objects;
        objects.truncate(Self::MAX_OBJECTS);
        self.list.push(Condition { code, objects: objects.into(), message: message.into() });
        &self.list[self.list.len() - 1]
    }
    /// Adds a condition with any code. Its message names objects without their positions, which its objects have: an object that
    /// moves builds no message again.
    pub(crate) fn push(&mut self, code: Code, objects: Vec<ObjectRef>, message: String) -> &Condition {
        self.add(code, objects, message)
    }
    /// Adds the conflict of a port whose name or protocol differs from the served one.
    pub(crate) fn port_conflict(
        &mut self,
        port: &ServicePort,
        (name, protocol, by): (&PortName, Protocol, &ObjectRef),
        other: ObjectRef,
    ) -> &Condition {
        let message = format!(
            "port {} is {:?} ({}) in {} and {:?} ({}) in {}",
            port.number,
            name.as_str(),
            protocol.as_str(),
            by.id,
            port.name.as_str(),
            port.protocol.as_str(),
            other.id
        );
        self.add(Code::PORT_CONFLICT, vec![by.clone(), other], message)
    }
    /// Adds the conflict of two declarations with different resolutions.
    pub(crate) fn resolution(&mut self, first: &Declaration, other: &Declaration) {
        let (a, b) = (&first.source.object, &other.source.object);
        let message = format!("{a} has resolution {:?}, {b} has {:?}", first.resolution, other.resolution);
        let objects = vec![first.source.reference(), other.source.reference()];
        self.add(Code::RESOLUTION_CONFLICT, objects, message);
    }
    /// Adds the held removal of a declaration.
    pub(crate) fn held_declaration(&mut self, declaration: &Declaration) {
        let object = declaration.source.reference();
        let message = format!("the removal of {} waits for proof", object.id);
        self.add(Code::REMOVAL_HELD, vec![object], message);
    }
    /// Adds an adapter's warnings about a declaration.
    pub(crate) fn warnings(&mut self, declaration: &Declaration) {
        for warning in declaration.attributes.warnings.iter() {
            self.add(warning.code, vec![declaration.source.reference()], warning.message.to_string());
        }
    }
    /// Adds the held removals of addresses.
    pub(crate) fn held_addresses(&mut self, source: &Source, count: usize) {
        let object = source.reference();
        let message = format!("the removal of {count} addresses of {} waits for proof", object.id);
        self.add(Code::REMOVAL_HELD, vec![object], message);
    }
    /// Adds a group without a declaration.
    pub(crate) fn waiting(&mut self, object: ObjectRef) {
        self.waiting.push(object);
    }
    /// Adds the ports of groups without a declared port, and the declared ports without an endpoint port.
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
            |p: &&ServicePort| sets().all(|(_, set)| matching_port(declaration, p, set).is_none());
        for port in declaration.ports.iter().filter(leads_nowhere) {
            let (object, name) = (declaration.source.reference(), port.name.as_str());
            let message = format!("no endpoint of {} has a port for {} ({name:?})", object.id, port.number);
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
            let object = &declaration.source.object;
            let message = format!("endpoints have a port {:?} that {object} does not declare", name.as_str());
            self.add(Code::UNMATCHED_PORT, objects, message);
        }
    }
    /// Adds the selected workloads that lack a declared port.
    pub(crate) fn no_target(&mut self, declaration: &Declaration, misses: Vec<(PortNumber, ObjectRef)>) {
        let mut by_port: BTreeMap<PortNumber, Vec<ObjectRef>> = BTreeMap::new();
        for (port, object) in misses {
            by_port.entry(port).or_default().push(object);
        }
        for (port, mut objects) in by_port {
            objects.sort();
            let (count, by) = (objects.len(), &declaration.source.object);
            let message = format!("{count} workloads that {by} selects have no port for {port}");
            self.add(Code::NO_TARGET_PORT, objects, message);
        }
    }
    /// Adds the loop or the missing target of an alias.
    pub(crate) fn alias(&mut self, end: Option<&End>, target: &Hostname, object: &ObjectRef) {
        match end {
            Some(End::Loop) => {
                let message = format!("{} leads back to itself through {target}", object.id);
                self.add(Code::ALIAS_LOOP, vec![object.clone()], message);
            }
            Some(End::Missing(host)) => {
                let message = format!("{} leads to {host}, which nothing declares", object.id);
                self.add(Code::ALIAS_DANGLING, vec![object.clone()], message);
            }
            Some(End::Host(_)) | None => {}
        }
    }
    /// Returns all conditions, sorted.
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

/// Returns the conflict of several services for one host, or of several providers for one service.
pub(crate) fn host_conflict(host: &Hostname, objects: Vec<ObjectRef>) -> Condition {
    let mut names = objects.iter().map(|object| object.id.to_string());
    let served = names.next().unwrap_or_default();
    let others: Vec<String> = names.take(Conditions::MAX_OBJECTS).collect();
    let message = format!("{host} is claimed by {served} first, then by {}", others.join(", "));
    let objects: Vec<ObjectRef> = objects.into_iter().take(Conditions::MAX_OBJECTS).collect();
    Condition { code: Code::HOST_CONFLICT, objects: objects.into(), message: Arc::from(message) }
}

/// Returns the text of an endpoint in explain.
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
