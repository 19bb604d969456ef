//! The one merge: what all shards say about a service becomes ports, sources and conditions.
//!
//! Called by publication with `()` and by explain with a trace (law 12); there is no second merge.
//! The service has the union of its shards' port numbers; a number's name and protocol come from
//! the first shard in precedence that declares it; a shard's endpoints stand only behind numbers
//! that the shard itself declares, its port names resolved by its own declaration. A host that the
//! configuration makes an alias is merged by [`join`] instead.

pub(crate) mod conditions;
mod join;
mod name;
pub(crate) mod outline;
pub(crate) mod parts;
pub(crate) mod precedence;
pub(crate) mod target;

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    AliasHost, Code, CollectionKind, Condition, Declaration, DeclarationView, EndpointGroup, EndpointSource,
    FederationInfo, GroupPort, Identity, Mono, NetworkId, ObjectId, ObjectRef, Origin, PortName, PortNumber,
    Protocol, Provider, Recorder, Resolution, ServiceAddress, ServiceKey, ServicePort, Settings,
    ShardPriority, Stage, TraceStep, Verdict, Visibility,
};

pub(crate) use join::refusal;

use crate::merge::conditions::Conditions;
use crate::merge::precedence::{Ranked, ranked};
use crate::state::MergeContext;
use crate::state::services::{Decl, Hosts, Service};
use crate::state::workloads::WorkloadSlot;

/// A service, merged.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Its declarations, in order of precedence.
    pub(crate) declarations: Vec<DeclarationView>,
    /// Its ports, by number.
    pub(crate) ports: BTreeMap<PortNumber, MergedPort>,
    /// What is odd about it.
    pub(crate) conditions: Conditions,
    /// The identities of all endpoints and declarations, sorted.
    pub(crate) identities: Vec<Identity>,
    /// The networks of all endpoints, sorted.
    pub(crate) networks: Vec<NetworkId>,
    /// Its virtual addresses, sorted.
    pub(crate) addresses: Vec<ServiceAddress>,
    /// Services of other hosts that lead here.
    pub(crate) aliases: Vec<AliasHost>,
    /// How many endpoints' addresses it has.
    pub(crate) size: u32,
    /// Whether it is an alias that joins others.
    pub(crate) is_join: bool,
}

/// A port, merged.
#[derive(Debug)]
pub(crate) struct MergedPort {
    /// Its name, by the first that declares it.
    pub(crate) name: PortName,
    /// Its protocol, by the same.
    pub(crate) protocol: Protocol,
    /// The object that decided both.
    by: ObjectRef,
    /// The groups behind it, in order of precedence.
    pub(crate) sources: Vec<EndpointSource>,
}

impl MergedPort {
    fn new(port: &ServicePort, by: ObjectRef) -> Self {
        Self { name: port.name.clone(), protocol: port.protocol, by, sources: Vec::new() }
    }
}

/// A group that stands behind a declaration, listed or made by selection.
struct Behind<'a> {
    group: &'a Arc<EndpointGroup>,
    held: Option<&'a Arc<[u32]>>,
    standing: ShardPriority,
    /// When it was last confirmed; unknown for what selection made, whose workloads know it.
    confirmed: Option<Mono>,
}

/// Merges what is said about a service. `None` when nothing declares it.
pub(crate) fn merge<R: Recorder>(
    world: &MergeContext,
    hosts: &Hosts,
    service: &Service,
    rec: &mut R,
) -> Option<Merged> {
    let alias = service.alias.as_ref();
    if let Some(joined) = alias.and_then(|alias| join::join(world, hosts, service, alias, rec)) {
        return Some(joined);
    }
    let shards = ranked(&world.shards, service);
    let first = parts::deciding(&shards)?;
    let (mut out, mut imports) = (Merged::default(), Vec::new());
    for shard in &shards {
        for decl in &shard.declarations {
            if parts::is_import(decl) {
                rec.step(|| declared(shard, decl));
                imports.push(parts::import(shard, decl));
            } else {
                merge_declaration(world, service, shard, decl, first, &mut out, rec);
            }
        }
    }
    parts::add_imports(imports, &mut out);
    note_waiting(world, service, &mut out, rec);
    name::note(world, &service.key, &mut out, rec);
    if let Resolution::Alias(target) = &first.declaration.resolution {
        out.conditions.alias(world.names.end_of(&service.key), target, &first.declaration.source.reference());
    } else {
        out.aliases = world.names.leading_to(&service.key.host);
    }
    sort(&mut out.identities);
    sort(&mut out.networks);
    sort(&mut out.addresses);
    note_networks(world, &mut out);
    Some(out)
}

/// A service in several networks, of which some are entered through gateways, is told in part to everybody.
fn note_networks(world: &MergeContext, out: &mut Merged) {
    let gated = gated(world, out.networks.iter());
    if out.networks.len() < 2 || gated.is_empty() {
        return;
    }
    let objects = out.declarations.first().map(|d| d.declaration.source.reference());
    let networks: Vec<&str> = gated.iter().map(NetworkId::as_str).collect();
    let message = format!(
        "endpoints in {} are told to clients of their own network only: gateways are not used yet",
        networks.join(", ")
    );
    out.conditions.push(Code::OTHER_NETWORK, objects.into_iter().collect(), message);
}

/// The networks among these that are entered through gateways, sorted.
pub(crate) fn gated<'a>(
    world: &MergeContext,
    networks: impl Iterator<Item = &'a NetworkId>,
) -> Vec<NetworkId> {
    if world.settings.effective.cross_network_direct == Some(true) {
        return Vec::new();
    }
    let mut out: Vec<NetworkId> = networks.filter(|n| world.gateways.has(n)).cloned().collect();
    sort(&mut out);
    out
}

fn sort<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}

fn merge_declaration<R: Recorder>(
    world: &MergeContext,
    service: &Service,
    shard: &Ranked<'_>,
    decl: &Decl,
    first: &Decl,
    out: &mut Merged,
    rec: &mut R,
) {
    let own = &effective(world, service, &decl.declaration);
    let visibility = visibility(&world.settings.effective, shard, own, &service.key);
    rec.step(|| declared(shard, decl));
    if own.resolution != first.declaration.resolution {
        out.conditions.resolution(&first.declaration, own);
    }
    out.conditions.remarks(own);
    if decl.held {
        out.conditions.held_declaration(own);
    }
    let groups = groups_behind(world, shard, decl);
    groups.iter().for_each(|behind| note_group(behind, out));
    out.identities.extend(own.attributes.identities.iter().cloned());
    out.addresses.extend(own.addresses.iter().cloned());
    let workloads = if rec.is_on() { workloads_confirmed(world, decl) } else { BTreeMap::new() };
    let with = With { shard, declaration: own, visibility: &visibility, workloads };
    for port in own.ports.iter() {
        merge_port(&with, port, &groups, out, rec);
    }
    out.conditions.unmatched(own, groups.iter().map(|b| &**b.group));
    let leads_elsewhere = matches!(own.resolution, Resolution::Alias(_));
    if let Some(id) = decl.selector.filter(|_| !leads_elsewhere) {
        out.conditions.no_target(own, world.selection.misses(id));
    }
    out.declarations.push(DeclarationView {
        shard: Arc::clone(&shard.info.shard),
        declaration: Arc::clone(own),
        rank: shard.info.rank,
        visibility,
        federated: false,
    });
}

/// What a group adds to the service as a whole.
fn note_group(behind: &Behind<'_>, out: &mut Merged) {
    out.size = out.size.saturating_add(u32::try_from(behind.group.addresses.len()).unwrap_or(u32::MAX));
    out.identities.extend(behind.group.summary.identities.iter().cloned());
    out.networks.extend(behind.group.summary.networks.iter().cloned());
    if let Some(held) = behind.held {
        out.conditions.held_addresses(&behind.group.source, held.len());
    }
}

/// A declaration with what its sources have in common.
struct With<'a> {
    shard: &'a Ranked<'a>,
    declaration: &'a Arc<Declaration>,
    visibility: &'a Visibility,
    /// When the workloads that it selects were last confirmed; gathered only for a trace.
    workloads: BTreeMap<&'a ObjectId, Mono>,
}

fn workloads_confirmed<'a>(world: &'a MergeContext, decl: &Decl) -> BTreeMap<&'a ObjectId, Mono> {
    let members = decl.selector.map(|id| world.selection.members(id)).into_iter().flatten();
    let slots = members.filter_map(|id| world.workloads.get(id));
    let object = |slot: &'a WorkloadSlot| Some(&slot.origin.as_ref()?.object);
    slots.filter_map(|slot| Some((object(slot)?, slot.confirmed(&world.shards)?))).collect()
}

fn merge_port<R: Recorder>(
    with: &With<'_>,
    port: &ServicePort,
    groups: &[Behind<'_>],
    out: &mut Merged,
    rec: &mut R,
) {
    let by = || with.declaration.source.reference();
    let merged = out.ports.entry(port.number).or_insert_with(|| MergedPort::new(port, by()));
    if merged.name != port.name || merged.protocol != port.protocol {
        let served = (&merged.name, merged.protocol, &merged.by);
        let condition = out.conditions.port_conflict(port, served, by());
        rec.step(|| conflicted(with.shard, condition));
    }
    add_sources(with, port, groups, None, merged, rec);
}

/// The endpoints of a declaration's groups behind one port; `joined` where an alias brings them.
fn add_sources<R: Recorder>(
    with: &With<'_>,
    port: &ServicePort,
    groups: &[Behind<'_>],
    joined: Option<&Arc<FederationInfo>>,
    merged: &mut MergedPort,
    rec: &mut R,
) {
    for behind in groups {
        let ports = ports_behind(with.declaration, port, behind.group);
        if ports.iter().all(Option::is_none) {
            continue;
        }
        let source = EndpointSource {
            shard: Arc::clone(&with.shard.info.shard),
            priority: behind.standing,
            declaration: Arc::clone(with.declaration),
            visibility: with.visibility.clone(),
            group: Arc::clone(behind.group),
            ports,
            held: behind.held.map_or_else(|| Arc::clone(&NONE_HELD), Arc::clone),
            federation: joined.cloned(),
        };
        if rec.is_on() {
            trace_source(with, &source, behind.confirmed, rec);
        }
        merged.sources.push(source);
    }
}

/// A declaration with what the settings say of its host over it.
fn effective(world: &MergeContext, service: &Service, declaration: &Arc<Declaration>) -> Arc<Declaration> {
    match world.settings.effective.is_cluster_local(&service.key.host) {
        Some(local) if local != declaration.attributes.cluster_local => {
            let mut own = Declaration::clone(declaration);
            own.attributes.cluster_local = local;
            Arc::new(own)
        }
        _ => Arc::clone(declaration),
    }
}

/// The groups behind a declaration: those listed for it, then those that its selector made. What an
/// alias lists is not served: its name leads elsewhere.
fn groups_behind<'a>(world: &'a MergeContext, shard: &Ranked<'a>, decl: &'a Decl) -> Vec<Behind<'a>> {
    if matches!(decl.declaration.resolution, Resolution::Alias(_)) {
        return Vec::new();
    }
    let listed = shard.said.groups_of(&decl.object).iter().map(|fact| Behind {
        group: &fact.group,
        held: fact.held.as_ref(),
        standing: shard.info.standing,
        confirmed: Some(shard.info.confirmed(CollectionKind::Groups, fact.changed)),
    });
    let selected = decl.selector.map(|id| world.selection.groups(id)).into_iter().flatten();
    let selected = selected.map(|made| Behind {
        group: &made.group,
        held: made.held.as_ref(),
        standing: made.standing,
        confirmed: None,
    });
    listed.chain(selected).filter(|b| !b.group.addresses.is_empty()).collect()
}

/// Who sees a declaration, with "its own namespace" written out. What an administrator set for
/// ServiceEntries narrows theirs, wherever they come from.
fn visibility(
    settings: &Settings,
    shard: &Ranked<'_>,
    declaration: &Declaration,
    service: &ServiceKey,
) -> Visibility {
    let said = match declaration.export.resolve(&settings.default_export()) {
        Visibility::Own => Visibility::Namespaces(Arc::from([service.namespace.clone()])),
        other => other,
    };
    let caps = settings.entry_visibility.as_ref();
    let caps = caps.filter(|_| shard.info.shard.registry.provider == Provider::ServiceEntry);
    caps.map_or_else(|| said.clone(), |caps| said.under(caps.of(&service.namespace), &service.namespace))
}

/// Which port of a set stands behind a declaration's port: the one of the same name, or the only
/// one where both sides have exactly one.
pub(crate) fn port_behind(declaration: &Declaration, port: &ServicePort, set: &[GroupPort]) -> Option<u16> {
    let at = match (&*declaration.ports, set) {
        ([_], [_]) => Some(0),
        _ => set.iter().position(|p| p.name == port.name),
    };
    at.and_then(|at| u16::try_from(at).ok())
}

static NONE_HELD: std::sync::LazyLock<Arc<[u32]>> = std::sync::LazyLock::new(|| Arc::from([]));

type Row = Arc<[Option<u16>]>;

/// Most groups have one port set and few ports: such rows are shared by all sources.
static ROWS: std::sync::LazyLock<Vec<Row>> =
    std::sync::LazyLock::new(|| (0..16_u16).map(|i| Arc::from([Some(i)])).collect());

fn ports_behind(declaration: &Declaration, port: &ServicePort, group: &EndpointGroup) -> Row {
    let row = |set: &Arc<[GroupPort]>| port_behind(declaration, port, set);
    if let [only] = &*group.port_sets
        && let Some(known) = row(only).and_then(|i| ROWS.get(usize::from(i)))
    {
        return Arc::clone(known);
    }
    group.port_sets.iter().map(row).collect()
}

/// Groups whose declaration is not there are shown, not served.
fn note_waiting<R: Recorder>(world: &MergeContext, service: &Service, out: &mut Merged, rec: &mut R) {
    for shard in &service.shards {
        let Some(info) = world.shards.get(shard.id) else { continue };
        for fact in shard.waiting() {
            let object = fact.group.source.reference();
            out.conditions.waiting(object.clone());
            rec.step(|| TraceStep {
                stage: Stage::Merge,
                verdict: Verdict::Drop,
                code: Code::GROUP_WITHOUT_DECLARATION,
                registry: Some(info.shard.registry.name.clone()),
                object: Some(object),
                endpoint: String::new(),
                detail: format!("its endpoints wait for the declaration {}", fact.declaration),
            });
        }
    }
}

fn declared(shard: &Ranked<'_>, decl: &Decl) -> TraceStep {
    let info = &shard.info.shard;
    let at = shard.info.confirmed(CollectionKind::Services, decl.changed).0;
    TraceStep {
        stage: Stage::Merge,
        verdict: if decl.held { Verdict::Warn } else { Verdict::Pass },
        code: if decl.held { Code::REMOVAL_HELD } else { Code::MERGED },
        registry: Some(info.registry.name.clone()),
        object: Some(decl.declaration.source.reference()),
        endpoint: String::new(),
        detail: format!("declared by {} (scope {}), last confirmed at {at} ms", info.registry, info.scope),
    }
}

fn conflicted(shard: &Ranked<'_>, condition: &Condition) -> TraceStep {
    TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Warn,
        code: condition.code,
        registry: Some(shard.info.shard.registry.name.clone()),
        object: condition.objects.last().cloned(),
        endpoint: String::new(),
        detail: condition.message.to_string(),
    }
}

fn trace_source<R: Recorder>(with: &With<'_>, source: &EndpointSource, confirmed: Option<Mono>, rec: &mut R) {
    let group = &source.group;
    for (at, address) in group.addresses.iter().enumerate() {
        let Some(port) = source.ports.get(usize::from(address.port_set)).copied().flatten() else { continue };
        let number = group.ports(address).get(usize::from(port)).and_then(|p| p.number);
        let held = u32::try_from(at).is_ok_and(|at| source.held.binary_search(&at).is_ok());
        rec.step(|| TraceStep {
            stage: Stage::Source,
            verdict: if held { Verdict::Warn } else { Verdict::Pass },
            code: if held { Code::HELD_ENDPOINT } else { Code::SOURCE_ENDPOINT },
            registry: Some(source.shard.registry.name.clone()),
            object: Some(group.source.reference()),
            endpoint: crate::merge::conditions::endpoint_text(group, address, number),
            detail: said(with, source, address.origin.as_deref(), confirmed),
        });
    }
}

fn said(
    with: &With<'_>,
    source: &EndpointSource,
    origin: Option<&Origin>,
    confirmed: Option<Mono>,
) -> String {
    let by = format!("listed by {} (scope {})", source.shard.registry, source.shard.scope);
    let of = origin.map(|o| format!(" for {}", o.object)).unwrap_or_default();
    let confirmed = confirmed.or_else(|| origin.and_then(|o| with.workloads.get(&o.object).copied()));
    let when = confirmed.map(|at| format!(", last confirmed at {} ms", at.0)).unwrap_or_default();
    format!("{by}{of}{when}")
}
