//! Converts objects in memory to updates: one declaration and one endpoint group each.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Basis, Code, Collection, CollectionKind, DeclKey, Declaration, EndpointGroup,
    EndpointGroupKey, Evidence, Fact, FactId, FactKey, GroupPort, Hostname, Namespace, ObjectId, ObjectRef,
    PortName, PortNumber, Problem, Protocol, RegistryUpdate, Scope, ServiceKey, ServicePort, Source, Target,
    Topology,
};

use super::source::Object;

pub(super) fn host(service: &str) -> Hostname {
    Hostname::new(format!("{service}.memory.test")).expect("a service's name is a label")
}

pub(super) fn scope(part: usize) -> Scope {
    Scope::new(format!("part-{part}")).expect("a scope")
}

pub(super) fn collections(part: usize) -> [Collection; 2] {
    [CollectionKind::Services, CollectionKind::Groups].map(|kind| Collection { scope: scope(part), kind })
}

fn object(name: &str) -> ObjectId {
    ObjectId::new("MemoryService", "default", name)
}

fn service_key(name: &str) -> ServiceKey {
    ServiceKey { host: host(name), namespace: Namespace::new("default").expect("a namespace") }
}

fn decl_key(name: &str) -> DeclKey {
    DeclKey { service: service_key(name), object: object(name) }
}

fn group_key(name: &str) -> EndpointGroupKey {
    EndpointGroupKey {
        service: service_key(name),
        declaration: object(name),
        object: object(name),
        bucket: 0,
    }
}

/// Returns the part and name of the object that a fact belongs to.
pub(super) fn name_of(key: &FactKey) -> Option<(usize, String)> {
    let part = key.scope.as_str().strip_prefix("part-")?.parse().ok()?;
    let object = match &key.item {
        FactId::Service(key) => &key.object,
        FactId::Group(key) => &key.object,
        _ => return None,
    };
    Some((part, object.name.to_string()))
}

/// Returns the updates for an object that exists.
pub(super) fn put(part: usize, name: &str, now: &Object) -> Vec<RegistryUpdate> {
    let reference = ObjectRef::new(object(name));
    if now.bad {
        let problem = Problem { code: Code::MISSING_FIELD, message: "it has no ports; write one".into() };
        return vec![RegistryUpdate::Problem(scope(part), reference, Some(problem))];
    }
    let group = Fact::Group(group_key(name), Arc::new(mk_group(name, now.endpoints.iter().copied())));
    let service = Fact::Service(decl_key(name), Arc::new(mk_declaration(name)));
    vec![
        RegistryUpdate::Problem(scope(part), reference, None),
        RegistryUpdate::Put(scope(part), group, Basis::Authoritative),
        RegistryUpdate::Put(scope(part), service, Basis::Authoritative),
    ]
}

/// Returns the updates for an object that is absent, with this evidence.
pub(super) fn removed(part: usize, name: &str, evidence: &Evidence) -> Vec<RegistryUpdate> {
    let drop = |item| RegistryUpdate::Remove(FactKey { scope: scope(part), item }, evidence.clone());
    vec![
        RegistryUpdate::Problem(scope(part), ObjectRef::new(object(name)), None),
        drop(FactId::Service(decl_key(name))),
        drop(FactId::Group(group_key(name))),
    ]
}

/// Returns the updates for an object that was deleted.
pub(super) fn deleted(part: usize, name: &str) -> Vec<RegistryUpdate> {
    removed(part, name, &Evidence::Deleted(ObjectRef::new(object(name))))
}

fn port_name() -> PortName {
    PortName::new("http").expect("a port name")
}

fn port_number(number: u32) -> PortNumber {
    PortNumber::new(number).expect("a port number")
}

fn mk_group(name: &str, endpoints: impl Iterator<Item = IpAddr>) -> EndpointGroup {
    let place = Arc::new(Topology::default());
    let ports = Arc::from([GroupPort { name: port_name(), number: Some(port_number(8080)) }]);
    let addresses = endpoints.map(|ip| Address::new(AddressRef::Ip(ip), Arc::clone(&place))).collect();
    EndpointGroup::new(Source::new(object(name)), vec![ports], Vec::new(), addresses)
}

fn mk_declaration(name: &str) -> Declaration {
    let port = ServicePort {
        number: port_number(80),
        name: port_name(),
        protocol: Protocol::Http,
        target: Target::Same,
    };
    Declaration { ports: [port].into(), ..Declaration::new(Source::new(object(name))) }
}
