//! Merges the facts of all shards about a service into ports, sources and conditions.
//!
//! The build calls it with `()` and explain with a trace (law 12); it is the only merge. The service
//! has the union of its shards' port numbers; the first shard in precedence that declares a number
//! gives its name and protocol; a shard's endpoints serve only numbers that the shard itself declares,
//! with port names resolved by its own declaration. A federated service is merged by [`join`] instead.

pub(crate) mod conditions;
pub(crate) mod destinations;
pub(crate) mod identities;
mod join;
mod name;
pub(crate) mod outline;
pub(crate) mod parts;
pub(crate) mod precedence;
pub(crate) mod rules;
pub(crate) mod target;
pub(crate) mod virtual_services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    AudienceView, Code, CollectionKind, Condition, Declaration, DeclarationView, EndpointGroup,
    EndpointSource, FederationInfo, GatedNetwork, GroupPort, Identity, Mono, Namespace, NetworkId, ObjectId,
    ObjectRef, Origin, PortName, PortNumber, Protocol, Recorder, Resolution, ServiceAddress, ServiceKey,
    ServicePort, Settings, ShardPriority, Stage, StepTime, Target, TraceStep, Verdict, Visibility,
};

pub(crate) use join::refusal;

use crate::merge::conditions::Conditions;
use crate::merge::precedence::{Ranked, compare, ranked};
use crate::state::MergeContext;
use crate::state::services::{Decl, Hosts, Service};
use crate::state::workloads::WorkloadSlot;

/// Merged service.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Declarations, in order of precedence.
    pub(crate) declarations: Vec<DeclarationView>,
    /// Ports, by number.
    pub(crate) ports: BTreeMap<PortNumber, MergedPort>,
    /// Conditions.
    pub(crate) conditions: Conditions,
    /// Identities of all endpoints and declarations, sorted.
    pub(crate) identities: Vec<Identity>,
    /// Networks of all endpoints, sorted.
    pub(crate) networks: Vec<NetworkId>,
    /// Virtual addresses, sorted.
    pub(crate) addresses: Vec<ServiceAddress>,
    /// Aliases from other hosts.
    pub(crate) aliases: Vec<ServiceKey>,
    /// Number of endpoint addresses.
    pub(crate) size: u32,
    /// Whether it is a federated service.
    pub(crate) is_join: bool,
    /// Whether every client that receives it sees all of its declarations.
    pub(crate) one_audience: bool,
    /// The service as clients see it that see some of its declarations.
    pub(crate) audiences: Vec<AudienceView>,
}

/// Merged port.
#[derive(Debug)]
pub(crate) struct MergedPort {
    /// Name, by the first declaration in precedence.
    pub(crate) name: PortName,
    /// Protocol, by the same declaration.
    pub(crate) protocol: Protocol,
    /// Target port, by the same declaration.
    pub(crate) target: Target,
    /// Object of that declaration.
    by: ObjectRef,
    /// Groups that serve it, in order of precedence.
    pub(crate) sources: Vec<EndpointSource>,
}

impl MergedPort {
    fn new(port: &ServicePort, by: ObjectRef) -> Self {
        let (name, target) = (port.name.clone(), port.target.clone());
        Self { name, protocol: port.protocol, target, by, sources: Vec::new() }
    }
}

/// Group that serves a declaration, listed or selected.
struct Backing<'a> {
    group: &'a Arc<EndpointGroup>,
    held: Option<&'a Arc<[u32]>>,
    priority: ShardPriority,
    /// Time of the last confirmation; `None` for a selected group, whose workloads have their own.
    confirmed: Option<Mono>,
}

/// Merges the facts about a service; `None` if nothing declares it.
pub(crate) fn merge<R: Recorder>(
    context: &MergeContext,
    hosts: &Hosts,
    service: &Service,
    rec: &mut R,
) -> Option<Merged> {
    let federated = service.federated.as_ref();
    if let Some(joined) = federated.and_then(|federated| join::join(context, hosts, service, federated, rec))
    {
        return Some(joined);
    }
    merge_declared(context, service, &ranked(&context.shards, service), rec)
}

/// Merges the declarations of a service that clients of this namespace see; `None` if they see nothing.
pub(crate) fn merge_visible(
    context: &MergeContext,
    service: &Service,
    namespace: Option<&Namespace>,
) -> Option<Merged> {
    let mut shards = ranked(&context.shards, service);
    for shard in &mut shards {
        // An import has the visibility of the exports.
        let sees = |decl: &&Decl| {
            let declared = || visibility(&context.settings.effective, shard, &decl.declaration, &service.key);
            parts::is_import(decl) || declared().admits(&service.key.namespace, namespace)
        };
        shard.declarations = shard.declarations.iter().copied().filter(sees).collect();
    }
    shards.retain(|shard| !shard.declarations.is_empty());
    shards.sort_by(|a, b| compare(a.first(), b.first()));
    let merged = merge_declared(context, service, &shards, &mut ())?;
    Some(Merged { one_audience: true, ..merged })
}

fn merge_declared<R: Recorder>(
    context: &MergeContext,
    service: &Service,
    shards: &[Ranked<'_>],
    rec: &mut R,
) -> Option<Merged> {
    let first = parts::deciding(shards)?;
    let (mut out, mut imports) = (Merged::default(), Vec::new());
    for shard in shards {
        for decl in &shard.declarations {
            if parts::is_import(decl) {
                rec.step(|| declared(shard, decl));
                imports.push(parts::import(shard, decl));
            } else {
                merge_declaration(context, service, shard, decl, first, &mut out, rec);
            }
        }
    }
    parts::add_imports(imports, &mut out);
    note_waiting(context, service, &mut out, rec);
    name::note(context, &service.key, &mut out, rec);
    if let Resolution::Alias(target) = &first.declaration.resolution {
        out.conditions.alias(
            context.names.end_of(&service.key),
            target,
            &first.declaration.source.reference(),
        );
    } else {
        out.aliases = context.names.aliases_of(&service.key.host);
    }
    sort(&mut out.identities);
    sort(&mut out.networks);
    sort(&mut out.addresses);
    note_networks(context, &mut out);
    Some(out)
}

/// Adds a condition to a service with endpoints in networks whose gateways cannot be used: clients of other networks do not receive
/// them.
fn note_networks(context: &MergeContext, out: &mut Merged) {
    let gated = gated(context, out.networks.iter());
    let closed: Vec<&str> =
        gated.iter().filter(|of| of.gateways.is_empty()).map(|of| of.id.as_str()).collect();
    if closed.is_empty() {
        return;
    }
    let objects = out.declarations.first().map(|d| d.declaration.source.reference());
    let message = format!(
        "only clients of the same network receive endpoints in {}: its gateways have no known address with a port for mesh TLS",
        closed.join(", ")
    );
    out.conditions.push(Code::OTHER_NETWORK, objects.into_iter().collect(), message);
}

/// Returns those of some networks that have gateways, sorted.
pub(crate) fn gated<'a>(
    context: &MergeContext,
    networks: impl Iterator<Item = &'a NetworkId>,
) -> Vec<Arc<GatedNetwork>> {
    if context.settings.effective.cross_network_direct == Some(true) {
        return Vec::new();
    }
    let names: BTreeSet<&NetworkId> = networks.collect();
    names.into_iter().filter_map(|network| context.gateways.of(network)).cloned().collect()
}

fn sort<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}

fn merge_declaration<R: Recorder>(
    context: &MergeContext,
    service: &Service,
    shard: &Ranked<'_>,
    decl: &Decl,
    first: &Decl,
    out: &mut Merged,
    rec: &mut R,
) {
    let own = &effective(context, service, &decl.declaration);
    let visibility = visibility(&context.settings.effective, shard, own, &service.key);
    rec.step(|| declared(shard, decl));
    if own.resolution != first.declaration.resolution {
        out.conditions.resolution(&first.declaration, own);
    }
    out.conditions.warnings(own);
    if decl.held {
        out.conditions.held_declaration(own);
    }
    let groups = backing_groups(context, shard, decl);
    groups.iter().for_each(|backing| note_group(backing, out));
    out.identities.extend(own.attributes.identities.iter().cloned());
    out.addresses.extend(own.addresses.iter().cloned());
    let workloads = if rec.is_on() { workloads_confirmed(context, decl) } else { BTreeMap::new() };
    let with = With { context, shard, declaration: own, visibility: &visibility, workloads };
    for port in own.ports.iter() {
        merge_port(&with, port, &groups, out, rec);
    }
    out.conditions.unmatched(own, groups.iter().map(|b| &**b.group));
    let is_alias = matches!(own.resolution, Resolution::Alias(_));
    if let Some(id) = decl.selector.filter(|_| !is_alias) {
        out.conditions.no_target(own, context.selection.misses(id));
    }
    out.declarations.push(DeclarationView {
        shard: Arc::clone(&shard.info.shard),
        declaration: Arc::clone(own),
        precedence: shard.info.precedence,
        visibility,
        federated: false,
    });
}

/// Adds the properties of a group that concern the whole service.
fn note_group(backing: &Backing<'_>, out: &mut Merged) {
    out.size = out.size.saturating_add(u32::try_from(backing.group.addresses.len()).unwrap_or(u32::MAX));
    out.identities.extend(backing.group.summary.identities.iter().cloned());
    out.networks.extend(backing.group.summary.networks.iter().cloned());
    if let Some(held) = backing.held {
        out.conditions.held_addresses(&backing.group.source, held.len());
    }
}

/// Declaration with the properties that its sources share.
struct With<'a> {
    context: &'a MergeContext,
    shard: &'a Ranked<'a>,
    declaration: &'a Arc<Declaration>,
    visibility: &'a Visibility,
    /// Time of the last confirmation of each selected workload; computed only for a trace.
    workloads: BTreeMap<&'a ObjectId, Mono>,
}

impl With<'_> {
    /// Returns the addresses of a group that accept no mesh TLS because of a policy.
    fn plain(&self, group: &EndpointGroup, ports: &[Option<u16>]) -> Arc<[u32]> {
        let MergeContext { peers, settings, .. } = self.context;
        if !peers.disable_any() {
            return Arc::clone(&NONE);
        }
        let root = settings.effective.root_namespace();
        peers.plain(root.as_ref(), &self.declaration.source.object.namespace, group, ports).into()
    }
}

fn workloads_confirmed<'a>(context: &'a MergeContext, decl: &Decl) -> BTreeMap<&'a ObjectId, Mono> {
    let members = decl.selector.map(|id| context.selection.members(id)).into_iter().flatten();
    let slots = members.filter_map(|id| context.workloads.get(id));
    let object = |slot: &'a WorkloadSlot| Some(&slot.origin.as_ref()?.object);
    slots.filter_map(|slot| Some((object(slot)?, slot.confirmed(&context.shards)?))).collect()
}

fn merge_port<R: Recorder>(
    with: &With<'_>,
    port: &ServicePort,
    groups: &[Backing<'_>],
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

/// Adds the endpoints of a declaration's groups to one port; `joined` if a federated service adds them.
fn add_sources<R: Recorder>(
    with: &With<'_>,
    port: &ServicePort,
    groups: &[Backing<'_>],
    joined: Option<&Arc<FederationInfo>>,
    merged: &mut MergedPort,
    rec: &mut R,
) {
    for backing in groups {
        let ports = matching_ports(with.declaration, port, backing.group);
        if ports.iter().all(Option::is_none) {
            continue;
        }
        let plain = with.plain(backing.group, &ports);
        let source = EndpointSource {
            shard: Arc::clone(&with.shard.info.shard),
            priority: backing.priority,
            declaration: Arc::clone(with.declaration),
            visibility: with.visibility.clone(),
            group: Arc::clone(backing.group),
            ports,
            held: backing.held.map_or_else(|| Arc::clone(&NONE), Arc::clone),
            plain,
            federation: joined.cloned(),
        };
        if rec.is_on() {
            trace_source(with, &source, backing.confirmed, rec);
        }
        merged.sources.push(source);
    }
}

/// Returns a declaration with the settings for its host applied.
fn effective(context: &MergeContext, service: &Service, declaration: &Arc<Declaration>) -> Arc<Declaration> {
    match context.settings.effective.is_cluster_local(&service.key.host) {
        Some(local) if local != declaration.attributes.cluster_local => {
            let mut own = Declaration::clone(declaration);
            own.attributes.cluster_local = local;
            Arc::new(own)
        }
        _ => Arc::clone(declaration),
    }
}

/// Returns the groups of a declaration: listed ones, then selected ones. An alias serves none: its
/// name points to a different host.
fn backing_groups<'a>(context: &'a MergeContext, shard: &Ranked<'a>, decl: &'a Decl) -> Vec<Backing<'a>> {
    if matches!(decl.declaration.resolution, Resolution::Alias(_)) {
        return Vec::new();
    }
    let listed = shard.facts.groups_of(&decl.object).iter().map(|fact| Backing {
        group: &fact.group,
        held: fact.held.as_ref(),
        priority: shard.info.priority,
        confirmed: Some(shard.info.confirmed(CollectionKind::Groups, fact.changed)),
    });
    let selected = decl.selector.map(|id| context.selection.groups(id)).into_iter().flatten();
    let selected = selected.map(|made| Backing {
        group: &made.group,
        held: made.held.as_ref(),
        priority: made.priority,
        confirmed: None,
    });
    listed.chain(selected).filter(|b| !b.group.addresses.is_empty()).collect()
}

/// Returns the visibility of a declaration, with "its own namespace" as an explicit list. The operator's
/// settings limit it in registries that ask for it.
fn visibility(
    settings: &Settings,
    shard: &Ranked<'_>,
    declaration: &Declaration,
    service: &ServiceKey,
) -> Visibility {
    let declared = match declaration.export.resolve(&settings.default_export()) {
        Visibility::Own => Visibility::Namespaces(Arc::from([service.namespace.clone()])),
        other => other,
    };
    let caps = settings.entry_visibility.as_ref();
    let caps = caps.filter(|_| shard.info.limited_visibility);
    caps.map_or_else(
        || declared.clone(),
        |caps| declared.under(caps.of(&service.namespace), &service.namespace),
    )
}

/// Returns the index of the port of a set that serves a declaration's port: the one of the same name,
/// or the only one if both sides have exactly one.
pub(crate) fn matching_port(declaration: &Declaration, port: &ServicePort, set: &[GroupPort]) -> Option<u16> {
    let at = match (&*declaration.ports, set) {
        ([_], [_]) => Some(0),
        _ => set.iter().position(|p| p.name == port.name),
    };
    at.and_then(|at| u16::try_from(at).ok())
}

/// No index.
static NONE: std::sync::LazyLock<Arc<[u32]>> = std::sync::LazyLock::new(|| Arc::from([]));

type Row = Arc<[Option<u16>]>;

/// Rows for groups with one port set and few ports, the common case; all sources share them.
static ROWS: std::sync::LazyLock<Vec<Row>> =
    std::sync::LazyLock::new(|| (0..16_u16).map(|i| Arc::from([Some(i)])).collect());

fn matching_ports(declaration: &Declaration, port: &ServicePort, group: &EndpointGroup) -> Row {
    let row = |set: &Arc<[GroupPort]>| matching_port(declaration, port, set);
    if let [only] = &*group.port_sets
        && let Some(known) = row(only).and_then(|i| ROWS.get(usize::from(i)))
    {
        return Arc::clone(known);
    }
    group.port_sets.iter().map(row).collect()
}

/// Adds a condition for groups without a declaration, which are not served.
fn note_waiting<R: Recorder>(context: &MergeContext, service: &Service, out: &mut Merged, rec: &mut R) {
    for shard in &service.shards {
        let Some(info) = context.shards.get(shard.id) else { continue };
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
                time: None,
            });
        }
    }
}

fn declared(shard: &Ranked<'_>, decl: &Decl) -> TraceStep {
    let info = &shard.info.shard;
    let at = shard.info.confirmed(CollectionKind::Services, decl.changed);
    TraceStep {
        stage: Stage::Merge,
        verdict: if decl.held { Verdict::Warn } else { Verdict::Pass },
        code: if decl.held { Code::REMOVAL_HELD } else { Code::MERGED },
        registry: Some(info.registry.name.clone()),
        object: Some(decl.declaration.source.reference()),
        endpoint: String::new(),
        detail: format!("declared by registry {} (scope {})", info.registry.name, info.scope),
        time: Some(StepTime::Confirmed(at)),
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
        time: None,
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
            detail: source_detail(source, address.origin.as_deref()),
            time: source_time(with, address.origin.as_deref(), confirmed),
        });
    }
}

fn source_detail(source: &EndpointSource, origin: Option<&Origin>) -> String {
    let of = origin.map(|o| format!(" for {}", o.object)).unwrap_or_default();
    format!("listed by registry {} (scope {}){of}", source.shard.registry.name, source.shard.scope)
}

/// Returns when the source confirmed an endpoint, or the workload that it was selected from.
fn source_time(with: &With<'_>, origin: Option<&Origin>, confirmed: Option<Mono>) -> Option<StepTime> {
    let confirmed = confirmed.or_else(|| origin.and_then(|o| with.workloads.get(&o.object).copied()));
    confirmed.map(StepTime::Confirmed)
}
