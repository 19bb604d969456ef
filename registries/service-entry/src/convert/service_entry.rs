//! Converts a ServiceEntry to declarations, one for each host, with their endpoint groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Attributes, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, ExportTo, Fact, Hostname, Identity,
    Labels, PortName, Protocol, Resolution as How, Selector, ServiceAddress, ServiceKey, ServicePort, Source,
    Target, TrafficDistribution, WorkloadKind,
};

use super::context::Context;
use super::endpoints;
use crate::address::parse_range;
use crate::document::{Location, Meta, Object, Resolution, ServiceEntry};

/// Annotation that prefers endpoints by proximity.
pub(super) const TRAFFIC: &str = "networking.istio.io/traffic-distribution";
/// Annotation that selects how the addresses of a DNS answer are tried.
pub(super) const CONNECT: &str = "istio.io/connect-strategy";

pub(super) fn facts(object: &Object, meta: &Meta, entry: &ServiceEntry, context: &Context) -> Vec<Fact> {
    let source = object.source();
    let common = Common::new(meta, entry, context);
    let inline = endpoints::inline(&source, meta, entry, context);
    let mut facts = Vec::new();
    for host in hosts(entry) {
        let service = ServiceKey { host: host.clone(), namespace: meta.namespace.clone() };
        let key = DeclKey { service: service.clone(), object: source.object.clone() };
        facts.push(Fact::Service(key, Arc::new(common.declaration(&source, meta, entry, &host))));
        if let Some(group) = inline.clone().or_else(|| endpoints::host(&source, entry, &host, context)) {
            facts.push(group_fact(service, &source, group));
        }
    }
    facts
}

/// The valid hosts, without duplicates.
fn hosts(entry: &ServiceEntry) -> BTreeSet<Hostname> {
    entry.hosts.iter().filter_map(|host| Hostname::new(&host.value).ok()).collect()
}

fn group_fact(service: ServiceKey, source: &Source, group: Arc<EndpointGroup>) -> Fact {
    let object = source.object.clone();
    Fact::Group(EndpointGroupKey { service, declaration: object.clone(), object, bucket: 0 }, group)
}

/// The parts that the declarations of all hosts share.
struct Common {
    ports: Arc<[ServicePort]>,
    addresses: Vec<ServiceAddress>,
    resolution: How,
    selector: Option<Selector>,
    export: ExportTo,
    attributes: Attributes,
}

impl Common {
    fn new(meta: &Meta, entry: &ServiceEntry, context: &Context) -> Self {
        Self {
            ports: ports(entry),
            addresses: entry
                .addresses
                .iter()
                .filter_map(|text| service_address(&text.value, false))
                .collect(),
            resolution: resolution(entry.resolution.value),
            selector: entry.selector.as_ref().map(|labels| selector(labels.value.clone(), entry)),
            export: ExportTo::parse(entry.export_to.iter().map(|item| &*item.value), &meta.namespace),
            attributes: attributes(meta, entry, context),
        }
    }
    fn declaration(
        &self,
        source: &Source,
        meta: &Meta,
        entry: &ServiceEntry,
        host: &Hostname,
    ) -> Declaration {
        let mut addresses = self.addresses.clone();
        if addresses.is_empty() {
            addresses = allocated(entry, host);
        }
        addresses.sort();
        addresses.dedup();
        Declaration {
            source: source.clone(),
            created: meta.created,
            ports: self.ports.clone(),
            addresses: addresses.into(),
            resolution: self.resolution.clone(),
            selector: self.selector.clone(),
            export: self.export.clone(),
            attributes: self.attributes.clone(),
            merge_name: None,
        }
    }
}

fn resolution(resolution: Resolution) -> How {
    match resolution {
        Resolution::None => How::Passthrough,
        Resolution::Static => How::ClientSide,
        Resolution::Dns => How::DnsStrict,
        Resolution::DnsRoundRobin => How::DnsLogical,
        Resolution::DynamicDns => How::Dynamic,
    }
}

/// The ports in the entry's order; if two have the same number, the first counts.
fn ports(entry: &ServiceEntry) -> Arc<[ServicePort]> {
    let mut seen = BTreeSet::new();
    let port = |port: &crate::document::SePort| {
        let number = endpoints::number_of(port.number.value)?;
        let name = PortName::new(&port.name.value).ok()?;
        seen.insert(number).then(|| ServicePort {
            number,
            name,
            protocol: Protocol::from_service_entry(&port.protocol.value),
            target: Target::NamedOr(port.target.and_then(|target| endpoints::number_of(target.value))),
        })
    };
    entry.ports.iter().filter_map(port).collect()
}

fn service_address(text: &str, allocated: bool) -> Option<ServiceAddress> {
    let range = parse_range(text)?;
    Some(ServiceAddress { cluster: None, ip: range.ip, prefix: range.prefix, allocated })
}

/// The allocated addresses of this host.
fn allocated(entry: &ServiceEntry, host: &Hostname) -> Vec<ServiceAddress> {
    let ours = |(name, _): &&(Arc<str>, Arc<str>)| Hostname::new(name).is_ok_and(|name| name == *host);
    entry.allocated.iter().filter(ours).filter_map(|(_, value)| service_address(value, true)).collect()
}

/// Workloads with names and unix paths are selected for DNS only.
fn selector(labels: Labels, entry: &ServiceEntry) -> Selector {
    Selector {
        labels,
        kinds: [WorkloadKind::Pod, WorkloadKind::Entry].into(),
        cluster: None,
        names: entry.resolution.value.is_dns(),
        augmented: true,
    }
}

fn attributes(meta: &Meta, entry: &ServiceEntry, context: &Context) -> Attributes {
    let labels = meta.labels.value.clone();
    let own = meta.annotation(TRAFFIC).map(TrafficDistribution::parse);
    let inherited = context.cluster_context.traffic.get(&meta.namespace).copied();
    let identities = entry.subject_alt_names.iter().filter_map(|name| Identity::new(&name.value).ok());
    Attributes {
        mesh_external: entry.location == Location::External,
        traffic: own.or(inherited).unwrap_or_default(),
        persistent_sessions: labels.keep_sessions(),
        identities: identities.collect(),
        race_connect: meta
            .annotation(CONNECT)
            .is_some_and(|strategy| strategy.eq_ignore_ascii_case("RACE_FIRST_TCP_CONNECT")),
        labels,
        ..Attributes::default()
    }
}
