//! What the instances of one service in one area come to: a declaration for each of its hosts, and one group.
//!
//! Called whenever the instances are others. Pure and total; the order of instances does not matter. All hosts
//! share one group, since an address is held once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Attributes, Code, DeclKey, Declaration, DeclarationWarning, EndpointGroup,
    EndpointGroupKey, ExportTo, Fact, FactId, FactKey, Hostname, ObjectId, ObjectRef, PortSet, Problem,
    Resolution, ServiceKey, ServicePort, Source,
};

use super::address::Where;
use super::config::{Area, MapConfig};
use super::instance::{Instance, InstanceId, LeftOut};
use super::name::hosts;
use super::numbers::Tally;
use super::remarks;

/// What instances come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Declarations and groups, in a fixed order. Of no instances there are groups only, empty ones: whether
    /// the service is gone is not for this answer to say, and a declaration is put or dropped, never emptied.
    pub facts: Vec<Fact>,
    /// What is wrong with instances that are left out, by object; at most [`Mapped::MAX_PROBLEMS`]. Whoever
    /// reports them takes back those that are not here any more.
    pub problems: Vec<(ObjectRef, Problem)>,
}

impl Mapped {
    /// How many problems of one service are told one by one.
    pub const MAX_PROBLEMS: usize = 64;
}

/// The object of a service: its name as it is registered, in its area.
#[must_use]
pub fn object(area: &Area, service: &str) -> ObjectId {
    ObjectId { kind: "Service", namespace: Arc::clone(area.label()), name: service.into() }
}

/// Everything that [`facts`] may say of a service, whatever its instances: what is dropped when it is gone.
#[must_use]
pub fn keys(area: &Area, service: &str, config: &MapConfig) -> Vec<FactKey> {
    let object = object(area, service);
    let key = |item| FactKey { scope: area.scope.clone(), item };
    let of_host = |service: ServiceKey| {
        let group = group_key(&service, &object);
        [key(FactId::Service(DeclKey { service, object: object.clone() })), key(FactId::Group(group))]
    };
    services(area, service, config).flat_map(of_host).collect()
}

/// The facts of a service.
#[must_use]
pub fn facts(
    area: &Area,
    service: &str,
    instances: &BTreeMap<InstanceId, Instance>,
    config: &MapConfig,
) -> Mapped {
    let object = object(area, service);
    let source = Source::new(object.clone());
    let group = Arc::new(group(&source, instances));
    let declaration = declaration(&source, instances, config);
    let mut out = Mapped { facts: Vec::new(), problems: problems(instances) };
    for service in services(area, service, config) {
        if !instances.is_empty() {
            let key = DeclKey { service: service.clone(), object: object.clone() };
            out.facts.push(Fact::Service(key, Arc::clone(&declaration)));
        }
        out.facts.push(Fact::Group(group_key(&service, &object), Arc::clone(&group)));
    }
    if out.facts.is_empty() && !instances.is_empty() {
        let message =
            format!("service {service:?} has no name in DNS; register it with one of up to 63 characters");
        let problem = Problem { code: Code::INVALID_HOST, message: message.into() };
        out.problems.push((ObjectRef::new(object), problem));
    }
    out
}

fn services(area: &Area, service: &str, config: &MapConfig) -> impl Iterator<Item = ServiceKey> {
    let hosts: Vec<Hostname> = hosts(service, &area.part, &config.domain, &area.own_datacenter);
    let namespace = config.namespace.clone();
    hosts.into_iter().map(move |host| ServiceKey { host, namespace: namespace.clone() })
}

fn group_key(service: &ServiceKey, object: &ObjectId) -> EndpointGroupKey {
    EndpointGroupKey {
        service: service.clone(),
        declaration: object.clone(),
        object: object.clone(),
        bucket: 0,
    }
}

fn served(instances: &BTreeMap<InstanceId, Instance>) -> impl Iterator<Item = (&InstanceId, &Instance)> {
    instances.iter().filter(|(_, instance)| instance.reach.is_ok())
}

fn declaration(
    source: &Source,
    instances: &BTreeMap<InstanceId, Instance>,
    config: &MapConfig,
) -> Arc<Declaration> {
    let mut remarks: Vec<DeclarationWarning> = Vec::new();
    let ports = ports(instances, config, &mut remarks);
    remarks::gather(instances, &mut remarks);
    remarks.sort();
    let mut all = served(instances).map(|(_, instance)| instance.marks.external).peekable();
    let mesh_external = all.peek().is_some() && all.all(|external| external);
    let named = served(instances).any(|(_, i)| matches!(i.reach, Ok((Where::Name(_), _))));
    Arc::new(Declaration {
        source: source.clone(),
        created: None,
        ports,
        addresses: Arc::default(),
        // Names stand only where the client resolves them; IP addresses stand there too
        resolution: if named { Resolution::DnsStrict } else { Resolution::ClientSide },
        selector: None,
        export: ExportTo::Default,
        attributes: Attributes { mesh_external, remarks: remarks.into(), ..Attributes::default() },
    })
}

fn ports(
    instances: &BTreeMap<InstanceId, Instance>,
    config: &MapConfig,
    remarks: &mut Vec<DeclarationWarning>,
) -> Arc<[ServicePort]> {
    let mut tally = Tally::default();
    for (_, instance) in served(instances) {
        if let Ok((_, ports)) = &instance.reach {
            tally.add(ports, config);
        }
    }
    tally.finish(remarks)
}

/// The tables of a group in the making.
#[derive(Default)]
struct Tables<'a> {
    sets: Vec<PortSet>,
    at: HashMap<&'a PortSet, u16>,
    names: Vec<Arc<str>>,
}

impl<'a> Tables<'a> {
    /// Where a set of ports stands; `None` when there are more than an address can name.
    fn set(&mut self, set: &'a PortSet) -> Option<u16> {
        if let Some(at) = self.at.get(set) {
            return Some(*at);
        }
        let at = u16::try_from(self.sets.len()).ok()?;
        self.sets.push(Arc::clone(set));
        self.at.insert(set, at);
        Some(at)
    }
    fn name(&mut self, host: &Hostname) -> Option<AddressRef> {
        let at = u16::try_from(self.names.len()).ok()?;
        self.names.push(host.as_str().into());
        Some(AddressRef::Name(at))
    }
    fn places(&mut self, place: &Where) -> Vec<AddressRef> {
        match place {
            Where::Ip(ip) => vec![AddressRef::Ip(*ip)],
            Where::Both(v4, v6) => vec![AddressRef::Ip((*v4).into()), AddressRef::Ip((*v6).into())],
            Where::Name(host) => self.name(host).into_iter().collect(),
        }
    }
}

fn group(source: &Source, instances: &BTreeMap<InstanceId, Instance>) -> EndpointGroup {
    let unit = served(instances).fold(0, |unit, (_, i)| divisor(unit, u32::from(i.weight))).max(1);
    let mut tables = Tables::default();
    let mut addresses = Vec::new();
    for (id, instance) in served(instances) {
        let Ok((place, ports)) = &instance.reach else { continue };
        let Some(port_set) = tables.set(&ports.set) else { continue };
        addresses.extend(tables.places(place).into_iter().map(|at| Address {
            port_set,
            health: instance.health,
            mtls: instance.marks.mtls,
            weight: u32::from(instance.weight) / unit,
            labels: instance.labels.clone(),
            origin: Some(Arc::clone(id.origin())),
            ..Address::new(at, Arc::clone(&instance.place))
        }));
    }
    EndpointGroup::new(source.clone(), tables.sets, tables.names, addresses)
}

/// The greatest number that divides both. Weights mean something only beside each other: a service whose instances
/// all weigh ten has no ten times the share of another registry's.
const fn divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn problems(instances: &BTreeMap<InstanceId, Instance>) -> Vec<(ObjectRef, Problem)> {
    let wrong = |(id, instance): (&InstanceId, &Instance)| {
        let (code, message) = match instance.reach.as_ref().err()? {
            LeftOut::NoAddress => (
                Code::INVALID_ADDRESS,
                "has no address that leads to it: register it, or its node, with an IP or a DNS name",
            ),
            LeftOut::NoPort => (Code::INVALID_PORT, "has no port: register it with a port from 1 to 65535"),
            LeftOut::Socket => (
                Code::INVALID_ADDRESS,
                "listens on a unix socket, which only its own machine reaches: register it with an address and port",
            ),
            LeftOut::Mirror => return None,
        };
        let problem = Problem { code, message: format!("instance {} {message}", id.object().name).into() };
        Some((ObjectRef::new(id.object().clone()), problem))
    };
    instances.iter().filter_map(wrong).take(Mapped::MAX_PROBLEMS).collect()
}

#[cfg(test)]
mod tests;
