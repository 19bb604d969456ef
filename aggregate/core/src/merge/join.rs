//! Merges a federated service: several services under one host, by configuration or by name.
//!
//! Called by merge. Ports are those that every joined member has, by its port map; names, protocols, virtual addresses
//! and everything else come from the first declaration in precedence. Members are
//! read as declared, not as served: the service may have the host of one of its members, and it cannot join a different
//! federated service. The reason that excludes a member or a port is a condition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Code, Condition, DeclarationView, EndpointSource, ExportTo, FederatedMember,
    FederatedService, FederationInfo, Health, Hostname, Labels, ObjectId, ObjectRef, PortNumber, ProviderId,
    Recorder, Resolution, ServiceKey, ServicePort, ShardPriority, Stage, TraceStep, Verdict, Visibility,
    labels,
};

use super::{
    Backing, Merged, MergedPort, With, add_sources, backing_groups, declared, effective, note_group, sort,
    workloads_confirmed,
};
use crate::merge::precedence::{Ranked, key_of, ranked};
use crate::state::MergeContext;
use crate::state::services::{Decl, Hosts, Service};

/// Declared member with the shards that declare it.
struct Found<'a> {
    at: u16,
    member: &'a FederatedMember,
    service: &'a Service,
    shards: Vec<Ranked<'a>>,
}

/// One declaration of a member, with its ports by the federated service's numbers.
struct Part<'a> {
    found: &'a Found<'a>,
    shard: &'a Ranked<'a>,
    decl: &'a Decl,
    own: Arc<tributary_model::Declaration>,
    ports: BTreeMap<PortNumber, ServicePort>,
}

impl Part<'_> {
    fn provider(&self) -> &ProviderId {
        &self.shard.info.shard.registry.provider
    }
}

/// Merges a federated service; `None` if no member can be joined.
pub(crate) fn join<R: Recorder>(
    context: &MergeContext,
    hosts: &Hosts,
    service: &Service,
    federated: &FederatedService,
    rec: &mut R,
) -> Option<Merged> {
    let mut out = Merged { is_join: true, ..Merged::default() };
    let object = object(&service.key);
    let found = find(context, hosts, federated, &object, &mut out);
    let parts = parts(context, &found, &object, &mut out, rec);
    let ports = common_ports(&parts, &object, &mut out);
    out.declarations.reserve_exact(parts.len());
    let visibility = visibility(context, &service.key, &federated.export);
    let weighted = federated.members.iter().any(|member| member.weight.is_some());
    let in_use = !parts.iter().any(|part| !part.found.member.standby && !is_out(context, federated, part));
    for part in &parts {
        let mut joined = joined(federated, part, weighted);
        joined.stale = !joined.standby && is_out(context, federated, part);
        // without a minimum clients choose by priority, which does not show them an outage: standby members are in use
        joined.standby &=
            !(in_use && joined.min_healthy.is_none() && federated.standby_after_stale.is_some());
        let joined = Arc::new(joined);
        rec.step(|| declared(part.shard, part.decl));
        rec.step(|| join_step(part, &joined, federated.by_name));
        add(context, part, &ports, &visibility, &joined, &mut out, rec);
    }
    addresses(&parts, &mut out);
    standby(federated, &object, &mut out);
    outages(context, federated, &parts, &object, &mut out);
    shadowed(context, hosts, service, &found, &mut out);
    out.aliases = context.names.aliases_of(&service.key.host);
    sort(&mut out.identities);
    sort(&mut out.networks);
    sort(&mut out.addresses);
    (!out.declarations.is_empty()).then_some(out)
}

fn object(key: &ServiceKey) -> ObjectRef {
    ObjectRef::new(ObjectId::new("FederatedService", key.namespace.as_str(), key.host.as_str()))
}

fn find<'a>(
    context: &'a MergeContext,
    hosts: &'a Hosts,
    federated: &'a FederatedService,
    object: &ObjectRef,
    out: &mut Merged,
) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for (at, member) in (0_u16..).zip(federated.members.iter().take(FederatedService::MAX_MEMBERS)) {
        match find_one(context, hosts, member) {
            Some((service, shards)) => found.push(Found { at, member, service, shards }),
            None => {
                let by = member.registry.as_ref().map(|r| format!(" by registry {r}")).unwrap_or_default();
                let message = format!("{} is not declared{by}", member.host);
                out.conditions.push(Code::FEDERATED_MEMBER_MISSING, vec![object.clone()], message);
            }
        }
    }
    found
}

/// Returns the first claimant of the member's host that the member matches, and the matching shards that declare it.
fn find_one<'a>(
    context: &'a MergeContext,
    hosts: &'a Hosts,
    member: &FederatedMember,
) -> Option<(&'a Service, Vec<Ranked<'a>>)> {
    let named = |service: &&Service| member.namespace.as_ref().is_none_or(|n| *n == service.key.namespace);
    let matches = |shard: &Ranked<'_>| {
        member.registry.as_ref().is_none_or(|name| shard.info.shard.registry.name == *name)
    };
    let mut all: Vec<(&Service, Vec<Ranked<'_>>)> = Vec::new();
    for service in hosts.of(&member.host).iter().filter(named) {
        let mut shards = ranked(&context.shards, service);
        shards.retain(matches);
        if !shards.is_empty() {
            all.push((service, shards));
        }
    }
    all.into_iter().min_by(|(a, of_a), (b, of_b)| {
        let (first, other) = (of_a.first(), of_b.first());
        crate::merge::precedence::compare(first.and_then(Ranked::first), other.and_then(Ranked::first))
            .then_with(|| a.key.cmp(&b.key))
    })
}

/// Returns the declarations that can be joined, the first in precedence first.
fn parts<'a, R: Recorder>(
    context: &MergeContext,
    found: &'a [Found<'a>],
    object: &ObjectRef,
    out: &mut Merged,
    rec: &mut R,
) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for found in found {
        for shard in &found.shards {
            for decl in &shard.declarations {
                let own = effective(context, found.service, &decl.declaration);
                if let Some(why) = refusal(context, shard, decl) {
                    let by = own.source.reference();
                    let message = format!("{} ({}) {why}", found.member.host, by.id);
                    let condition = out.conditions.push(
                        Code::FEDERATED_MEMBER_REFUSED,
                        vec![object.clone(), by],
                        message,
                    );
                    rec.step(|| refused(shard, condition));
                    continue;
                }
                let ports = offered(found.member, &own.ports);
                parts.push(Part { found, shard, decl, own, ports });
            }
        }
    }
    parts.sort_by(|a, b| {
        key_of(a.shard.info, a.decl).order(&key_of(b.shard.info, b.decl)).then(a.found.at.cmp(&b.found.at))
    });
    parts
}

/// Returns whether a member of a federated service can be joined, which makes it served.
pub(crate) fn can_join(context: &MergeContext, hosts: &Hosts, federated: &FederatedService) -> bool {
    let members = federated.members.iter().take(FederatedService::MAX_MEMBERS);
    let mut shards =
        members.filter_map(|member| find_one(context, hosts, member)).flat_map(|(_, shards)| shards);
    shards.any(|shard| shard.declarations.iter().any(|decl| refusal(context, &shard, decl).is_none()))
}

/// Returns why a declaration cannot be joined. A source may mix host names and addresses: such a declaration is joined
/// with its addresses.
pub(crate) fn refusal(context: &MergeContext, shard: &Ranked<'_>, decl: &Decl) -> Option<&'static str> {
    let joinable = match decl.declaration.resolution {
        Resolution::ClientSide => true,
        Resolution::DnsStrict => backing_groups(context, shard, decl).iter().any(has_addresses),
        Resolution::Alias(_) => return Some("leads to another name; join that one"),
        _ => false,
    };
    match joinable {
        true if decl.declaration.ports.is_empty() => Some("has no port"),
        true => None,
        false => Some("has no endpoint addresses to join"),
    }
}

fn has_addresses(backing: &Backing<'_>) -> bool {
    backing.group.addresses.iter().any(|address| !is_host_name(address))
}

fn is_host_name(address: &Address) -> bool {
    matches!(address.at, AddressRef::Name(_))
}

/// Adds a condition for endpoints with host names, which are not joined: clients resolve them only in DNS clusters.
fn host_names(part: &Part<'_>, groups: &[Backing<'_>], out: &mut Merged) {
    let addresses = groups.iter().flat_map(|backing| backing.group.addresses.iter());
    let count = addresses.filter(|address| is_host_name(address)).count();
    if count > 0 {
        let by = part.own.source.reference();
        let host = &part.found.member.host;
        let message = format!("{count} endpoints of {host} ({}) are host names, which are not joined", by.id);
        out.conditions.push(Code::FEDERATED_MEMBER_REFUSED, vec![by], message);
    }
}

/// Returns a declaration's ports by the federated service's numbers.
fn offered(member: &FederatedMember, ports: &[ServicePort]) -> BTreeMap<PortNumber, ServicePort> {
    let mapped = member.ports.iter().filter_map(|(number, own)| {
        let port = ports.iter().find(|port| port.number == *own)?;
        Some((*number, port.clone()))
    });
    let named = |port: &&ServicePort| {
        !member.ports.iter().any(|(number, own)| *own == port.number || *number == port.number)
    };
    let as_they_are = ports.iter().filter(named).map(|port| (port.number, port.clone()));
    as_they_are.chain(mapped).collect()
}

/// Returns the numbers that every joined member has; each other number adds a condition.
fn common_ports(parts: &[Part<'_>], object: &ObjectRef, out: &mut Merged) -> BTreeSet<PortNumber> {
    let mut by_member: BTreeMap<u16, (&Hostname, BTreeSet<PortNumber>)> = BTreeMap::new();
    for part in parts {
        let of = by_member.entry(part.found.at).or_insert_with(|| (&part.found.member.host, BTreeSet::new()));
        of.1.extend(part.ports.keys().copied());
    }
    let all: BTreeSet<PortNumber> = by_member.values().flat_map(|(_, ports)| ports.iter().copied()).collect();
    let mut common = BTreeSet::new();
    for number in all {
        let without: Vec<String> = by_member
            .values()
            .filter(|(_, ports)| !ports.contains(&number))
            .map(|(host, _)| host.to_string())
            .collect();
        if without.is_empty() {
            common.insert(number);
        } else {
            let message = format!("port {number} is not served: {} has none for it", without.join(", "));
            out.conditions.push(Code::FEDERATED_PORT, vec![object.clone()], message);
        }
    }
    common
}

fn visibility(context: &MergeContext, key: &ServiceKey, export: &ExportTo) -> Visibility {
    match export.resolve(&context.settings.effective.default_export()) {
        Visibility::Own => Visibility::Namespaces(Arc::from([key.namespace.clone()])),
        other => other,
    }
}

fn joined(federated: &FederatedService, part: &Part<'_>, weighted: bool) -> FederationInfo {
    let member = part.found.member;
    let registry = part.shard.info.shard.registry.name.as_str();
    FederationInfo {
        member: part.found.at,
        host: member.host.clone(),
        share: weighted.then(|| member.weight.unwrap_or(1)),
        standby: member.standby,
        min_healthy: federated.min_healthy_active,
        stale: false,
        labels: Labels::from_iter([(labels::REGISTRY, registry)]),
    }
}

/// Adds a member's declaration and endpoints.
fn add<R: Recorder>(
    context: &MergeContext,
    part: &Part<'_>,
    ports: &BTreeSet<PortNumber>,
    visibility: &Visibility,
    joined: &Arc<FederationInfo>,
    out: &mut Merged,
    rec: &mut R,
) {
    out.conditions.warnings(&part.own);
    if part.decl.held {
        out.conditions.held_declaration(&part.own);
    }
    let groups = backing_groups(context, part.shard, part.decl);
    groups.iter().for_each(|backing| note_group(backing, out));
    host_names(part, &groups, out);
    out.identities.extend(part.own.attributes.identities.iter().cloned());
    let workloads = if rec.is_on() { workloads_confirmed(context, part.decl) } else { BTreeMap::new() };
    let with = With { context, shard: part.shard, declaration: &part.own, visibility, workloads };
    for (number, port) in part.ports.iter().filter(|(number, _)| ports.contains(number)) {
        add_port(&with, *number, port, &groups, joined, out, rec);
    }
    out.declarations.push(DeclarationView {
        shard: Arc::clone(&part.shard.info.shard),
        declaration: Arc::clone(&part.own),
        precedence: part.shard.info.precedence,
        visibility: visibility.clone(),
        federated: true,
    });
}

fn add_port<R: Recorder>(
    with: &With<'_>,
    number: PortNumber,
    port: &ServicePort,
    groups: &[Backing<'_>],
    joined: &Arc<FederationInfo>,
    out: &mut Merged,
    rec: &mut R,
) {
    let by = || with.declaration.source.reference();
    let merged = out.ports.entry(number).or_insert_with(|| MergedPort::new(port, by()));
    if merged.protocol != port.protocol {
        let message = format!(
            "port {number} speaks {} by {} and {} by {}",
            merged.protocol.as_str(),
            merged.by.id,
            port.protocol.as_str(),
            by().id
        );
        out.conditions.push(Code::FEDERATED_PROTOCOL, vec![merged.by.clone(), by()], message);
    }
    add_sources(with, port, groups, Some(joined), merged, rec);
}

/// Adds the virtual addresses of the first provider that has any: each provider's addresses reach only its own endpoints.
fn addresses(parts: &[Part<'_>], out: &mut Merged) {
    let having = |part: &&Part<'_>| !part.own.addresses.is_empty();
    let Some(first) = parts.iter().find(having) else { return };
    let of_first = parts.iter().filter(|part| part.provider() == first.provider());
    out.addresses.extend(of_first.flat_map(|part| part.own.addresses.iter().cloned()));
}

/// Adds a condition while standby members are in use.
fn standby(federated: &FederatedService, object: &ObjectRef, out: &mut Merged) {
    let Some(enough) = federated.min_healthy_active else { return };
    for (number, port) in &out.ports {
        let waiting = |s: &EndpointSource| s.federation.as_ref().is_some_and(|joined| joined.standby);
        if !port.sources.iter().any(waiting) {
            continue;
        }
        let stale = |s: &EndpointSource| s.federation.as_ref().is_some_and(|joined| joined.stale);
        let active = port.sources.iter().filter(|s| !waiting(s) && !stale(s));
        let active = active.filter(|s| s.priority == ShardPriority::Normal);
        let healthy: BTreeSet<_> = active.flat_map(healthy).collect();
        if healthy.len() < usize::try_from(enough).unwrap_or(usize::MAX) {
            let message =
                format!("the number of healthy active endpoints of port {number} is below {enough}");
            out.conditions.push(Code::FEDERATED_STANDBY, vec![object.clone()], message);
        }
    }
}

/// Returns whether the source of a part has been unreachable for longer than the federated service allows.
fn is_out(context: &MergeContext, federated: &FederatedService, part: &Part<'_>) -> bool {
    let shard = part.shard.facts.id;
    federated.standby_after_stale.is_some_and(|allowed| context.outages.is_over(allowed, shard))
}

/// Adds a condition for each registry whose outage puts standby members in use.
fn outages(
    context: &MergeContext,
    federated: &FederatedService,
    parts: &[Part<'_>],
    object: &ObjectRef,
    out: &mut Merged,
) {
    let Some(allowed) = federated.standby_after_stale else { return };
    let waits = parts.iter().any(|part| part.found.member.standby);
    let active = parts.iter().filter(|part| waits && !part.found.member.standby);
    let stale = active.filter(|part| is_out(context, federated, part));
    let stale: BTreeSet<&str> = stale.map(|part| part.shard.info.shard.registry.name.as_str()).collect();
    for registry in stale {
        let message = format!("registry {registry} has been unreachable for more than {allowed:?}");
        out.conditions.push(Code::FEDERATED_STANDBY, vec![object.clone()], message);
    }
}

fn healthy(source: &EndpointSource) -> impl Iterator<Item = (Option<std::net::IpAddr>, Option<PortNumber>)> {
    let endpoint = |address: &Address| {
        let port = (*source.ports.get(usize::from(address.port_set))?)?;
        let number = source.group.ports(address).get(usize::from(port))?.number;
        (address.health == Health::Healthy).then(|| (address.ip(), number))
    };
    source.group.addresses.iter().filter_map(endpoint)
}

/// Adds a condition for the declarations of the own host that are not served because of the federated service.
fn shadowed(context: &MergeContext, hosts: &Hosts, service: &Service, found: &[Found<'_>], out: &mut Merged) {
    let host = &service.key.host;
    let mut objects = Vec::new();
    for other in hosts.of(host) {
        for shard in ranked(&context.shards, other) {
            let joins = |f: &Found<'_>| {
                f.service.key == other.key
                    && f.shards.iter().any(|s| Arc::ptr_eq(&s.info.shard, &shard.info.shard))
            };
            if !found.iter().any(joins) {
                objects.extend(shard.declarations.first().map(|d| d.declaration.source.reference()));
            }
        }
    }
    if !objects.is_empty() {
        let message = format!(
            "{host} is the host of a federated service; what {} declares is not served",
            objects[0].id
        );
        out.conditions.push(Code::FEDERATED_SHADOWED, objects, message);
    }
}

fn join_step(part: &Part<'_>, joined: &FederationInfo, by_name: bool) -> TraceStep {
    let share = joined.share.map(|share| format!(", share {share}")).unwrap_or_default();
    let standby = if joined.standby { ", standby" } else { "" };
    let by = if by_name { "its name (merge.byName)" } else { "the federated service" };
    TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Pass,
        code: Code::FEDERATED,
        registry: Some(part.shard.info.shard.registry.name.clone()),
        object: Some(part.own.source.reference()),
        endpoint: String::new(),
        detail: format!("joined as {} by {by}{share}{standby}", part.found.service.key),
        time: None,
    }
}

fn refused(shard: &Ranked<'_>, condition: &Condition) -> TraceStep {
    TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Drop,
        code: condition.code,
        registry: Some(shard.info.shard.registry.name.clone()),
        object: condition.objects.last().cloned(),
        endpoint: String::new(),
        detail: condition.message.to_string(),
        time: None,
    }
}
