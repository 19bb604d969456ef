//! Facts of one service in one area: a declaration for each of its hosts, and one group.
//!
//! Called when the instances change. Pure and total; the order of instances does not matter. All hosts share one
//! group, so each address is stored once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Attributes, Code, DeclKey, Declaration, DeclarationWarning, EndpointGroup,
    EndpointGroupKey, ExportTo, Fact, FactId, FactKey, Hostname, MergeName, ObjectId, ObjectRef, PortSet,
    Problem, Resolution, ServiceKey, ServicePort, Source, WeightUnit, common_divisor,
};

use super::address::InstanceAddress;
use super::config::{Area, MapConfig};
use super::instance::{ExclusionReason, Instance, InstanceId};
use super::name::{hosts, label};
use super::numbers::CombinedPorts;
use super::warnings;

/// Result of mapping the instances of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Declarations and groups, in a fixed order. Without instances only empty groups: this answer does not decide
    /// whether the service is gone, and a declaration is put or removed, never emptied.
    pub facts: Vec<Fact>,
    /// Problems of excluded instances by object; at most [`Mapped::MAX_PROBLEMS`]. The caller clears those that are
    /// absent here.
    pub problems: Vec<(ObjectRef, Problem)>,
}

impl Mapped {
    /// Maximum number of problems that are reported for one service.
    pub const MAX_PROBLEMS: usize = 64;
}

/// Returns the object of a service: its registered name in its area.
#[must_use]
pub fn object(area: &Area, service: &str) -> ObjectId {
    ObjectId { kind: "Service", namespace: Arc::clone(area.label()), name: service.into() }
}

/// Returns every key that [`facts`] can produce for a service, whatever its instances: the keys to remove when it is
/// gone.
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

/// Maps the instances of a service to its facts.
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
    let merge_name = merge_name(area, service, config);
    let declaration = Arc::new(Declaration { merge_name, ..declaration(&source, instances, config) });
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

/// Returns the name of a service for merges by name, under its short host; `None` outside the own datacenter, where it
/// has no short host, and for a peer, which is a different Consul.
fn merge_name(area: &Area, service: &str, config: &MapConfig) -> Option<MergeName> {
    let is_own = area.part.datacenter.eq_ignore_ascii_case(&area.own_datacenter);
    let name = label(service).filter(|_| is_own && area.part.peer.is_empty())?;
    let short = services(area, service, config).next()?.host;
    Some(MergeName::joining(name.into(), short))
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
) -> Declaration {
    let mut warnings: Vec<DeclarationWarning> = Vec::new();
    let ports = ports(instances, config, &mut warnings);
    warnings::gather(instances, &mut warnings);
    warnings.sort();
    let mut all = served(instances).map(|(_, instance)| instance.flags.external).peekable();
    let mesh_external = all.peek().is_some() && all.all(|external| external);
    let named = served(instances).any(|(_, i)| matches!(i.reach, Ok((InstanceAddress::Name(_), _))));
    Declaration {
        source: source.clone(),
        created: None,
        ports,
        addresses: Arc::default(),
        // a DNS name needs a resolution by the client, which also accepts IPs
        resolution: if named { Resolution::DnsStrict } else { Resolution::ClientSide },
        selector: None,
        export: ExportTo::Default,
        attributes: Attributes { mesh_external, warnings: warnings.into(), ..Attributes::default() },
        merge_name: None,
    }
}

fn ports(
    instances: &BTreeMap<InstanceId, Instance>,
    config: &MapConfig,
    warnings: &mut Vec<DeclarationWarning>,
) -> Arc<[ServicePort]> {
    let mut combined = CombinedPorts::default();
    for (_, instance) in served(instances) {
        if let Ok((_, ports)) = &instance.reach {
            combined.add(ports, config);
        }
    }
    combined.finish(warnings)
}

/// Tables of a group under construction.
#[derive(Default)]
struct Tables<'a> {
    sets: Vec<PortSet>,
    at: HashMap<&'a PortSet, u16>,
    names: Vec<Arc<str>>,
}

impl<'a> Tables<'a> {
    /// Returns the index of a port set; `None` if there are more sets than an index can hold.
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
    fn addresses(&mut self, at: &InstanceAddress) -> Vec<AddressRef> {
        match at {
            InstanceAddress::Ip(ip) => vec![AddressRef::Ip(*ip)],
            InstanceAddress::Both(v4, v6) => vec![AddressRef::Ip((*v4).into()), AddressRef::Ip((*v6).into())],
            InstanceAddress::Name(host) => self.name(host).into_iter().collect(),
        }
    }
}

fn group(source: &Source, instances: &BTreeMap<InstanceId, Instance>) -> EndpointGroup {
    let (unit, divisor) = unit(instances);
    let mut tables = Tables::default();
    let mut addresses = Vec::new();
    for (id, instance) in served(instances) {
        let Ok((at, ports)) = &instance.reach else { continue };
        let Some(port_set) = tables.set(&ports.set) else { continue };
        addresses.extend(tables.addresses(at).into_iter().map(|address| Address {
            port_set,
            health: instance.health,
            mtls: instance.flags.mtls,
            weight: u32::from(instance.weight) / divisor,
            labels: instance.labels.clone(),
            origin: Some(Arc::clone(id.origin())),
            ..Address::new(address, Arc::clone(&instance.topology))
        }));
    }
    EndpointGroup::new(source.clone(), tables.sets, tables.names, addresses).in_unit(unit)
}

/// Returns the unit of the weights, and the number by which unit and weights are divided. Weights are relative to one
/// service: if all instances weigh ten, the service must not outweigh another registry's tenfold. The unit follows from
/// the weights of passing instances, so a warning changes the weight of its own instance only.
fn unit(instances: &BTreeMap<InstanceId, Instance>) -> (WeightUnit, u32) {
    let weights = |of: fn(&Instance) -> u16| served(instances).map(move |(_, i)| u32::from(of(i)));
    let passing = common_divisor(weights(|instance| instance.passing_weight));
    let divisor = common_divisor(weights(|instance| instance.weight).chain([passing]));
    (WeightUnit::new(passing / divisor), divisor)
}

fn problems(instances: &BTreeMap<InstanceId, Instance>) -> Vec<(ObjectRef, Problem)> {
    let wrong = |(id, instance): (&InstanceId, &Instance)| {
        let (code, message) = match instance.reach.as_ref().err()? {
            ExclusionReason::NoAddress => (
                Code::INVALID_ADDRESS,
                "has no address that leads to it: register it, or its node, with an IP or a DNS name",
            ),
            ExclusionReason::NoPort => {
                (Code::INVALID_PORT, "has no port: register it with a port from 1 to 65535")
            }
            ExclusionReason::Socket => (
                Code::INVALID_ADDRESS,
                "listens on a unix socket, which only its own machine reaches: register it with an address and port",
            ),
            ExclusionReason::Mirror => return None,
        };
        let problem = Problem { code, message: format!("instance {} {message}", id.object().name).into() };
        Some((ObjectRef::new(id.object().clone()), problem))
    };
    instances.iter().filter_map(wrong).take(Mapped::MAX_PROBLEMS).collect()
}

#[cfg(test)]
mod tests;
