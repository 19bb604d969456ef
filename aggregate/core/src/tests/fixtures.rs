//! Builders of facts and updates, and a test core with a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::merge::outline::outlines;
use crate::{ApplyOutcome, Core, RunGroup, RunOrder};
pub(crate) use tributary_fixtures::{
    SCOPE, mk_host, mk_name, mk_ns, mk_port, mk_registry, mk_scope, mk_spec, mk_spec_of,
};
use tributary_model::{
    Address, AddressRef, AuthorizationPolicy, Basis, Catalog, ClusterId, Code, Collection, CollectionKind,
    Completeness, DeclKey, Declaration, DeclaredPolicy, DestinationRule, EndpointGroup, EndpointGroupKey,
    Evidence, ExportTo, Fact, FactKey, Gateway, GatewayAddress, GatewayKey, Generation, GroupPort, Health,
    HostPattern, Identity, Labels, Locality, Mono, NetworkId, ObjectId, ObjectRef, PeerAuthentication,
    Policy, PolicyKey, PolicyKind, PortName, PortNumber, PortPolicies, PortSet, Protocol, ProviderId, Record,
    RegistryName, RegistrySpec, RegistryUpdate, RequestAuthentication, Resolution, Selector, ServiceKey,
    ServicePort, ServiceView, Sidecar, Source, Stamped, Subset, SubsetRule, Target, Timestamp, Topology,
    Workload, WorkloadAddress, WorkloadKey, WorkloadKind, WorkloadName,
};

pub(crate) fn mk_labels(text: &str) -> Labels {
    text.split(',').filter_map(|pair| pair.split_once('=')).collect()
}

/// Parses a service key such as `shop/pay.shop`.
pub(crate) fn mk_key(text: &str) -> ServiceKey {
    let (namespace, host) = text.split_once('/').unwrap();
    ServiceKey { host: mk_host(host), namespace: mk_ns(namespace) }
}

/// Parses ports such as `80 http HTTP`, separated by commas; `> 8080` and `> name` are targets.
pub(crate) fn mk_ports(text: &str) -> Arc<[ServicePort]> {
    let port = |text: &str| {
        let (port, target) = text.split_once('>').map_or((text, None), |(p, t)| (p, Some(t.trim())));
        let parts: Vec<&str> = port.split_whitespace().collect();
        let target = match target {
            None => Target::NamedOr(None),
            Some(t) => t.parse().map_or_else(
                |_| Target::Name(PortName::new(t).unwrap()),
                |n| Target::NamedOr(Some(mk_port(n))),
            ),
        };
        ServicePort {
            number: mk_port(parts[0].parse().unwrap()),
            name: PortName::new(parts.get(1).copied().unwrap_or_default()).unwrap(),
            protocol: Protocol::from_service_entry(parts.get(2).copied().unwrap_or("http")),
            target,
        }
    };
    text.split(',').filter(|t| !t.trim().is_empty()).map(port).collect()
}

/// Returns a declaration of the ServiceEntry with this name.
pub(crate) fn mk_decl(object: &str, ports: &str) -> Declaration {
    Declaration {
        created: Timestamp::from_second(1000).ok(),
        ports: mk_ports(ports),
        ..Declaration::new(Source::new(ObjectId::new("ServiceEntry", "shop", object)))
    }
}

pub(crate) fn mk_selector(labels: &str) -> Selector {
    Selector {
        labels: mk_labels(labels),
        kinds: Arc::from([WorkloadKind::Pod, WorkloadKind::Entry, WorkloadKind::Instance]),
        cluster: None,
        names: false,
        augmented: true,
    }
}

/// Returns the identity of an account.
pub(crate) fn mk_identity(account: &str) -> Identity {
    Identity::spiffe("mesh", &mk_ns("shop"), account).unwrap()
}

/// Returns the fact of a declaration of a service.
pub(crate) fn mk_service(service: &str, declaration: Declaration) -> Fact {
    let key = DeclKey { service: mk_key(service), object: declaration.source.object.clone() };
    Fact::Service(key, Arc::new(declaration))
}

pub(crate) fn mk_topology(text: &str) -> Arc<Topology> {
    let (network, locality) = text.split_once(' ').unwrap_or((text, ""));
    let network = (!network.is_empty()).then(|| NetworkId::new(network).unwrap());
    Arc::new(Topology { cluster: None, network, locality: Locality::parse(locality), node: None })
}

/// Parses endpoints such as `10.0.0.1:http=8080+admin=9090`, `!` for unhealthy, separated by blanks. Of `10.0.0.1@a` the
/// identity is the account `a`, and it accepts mesh TLS.
pub(crate) fn mk_group_value(object: &str, endpoints: &str) -> EndpointGroup {
    mk_group_at(object, endpoints, mk_topology(""))
}
pub(crate) fn mk_group_at(object: &str, endpoints: &str, topology: Arc<Topology>) -> EndpointGroup {
    let mut sets: Vec<PortSet> = Vec::new();
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut addresses = Vec::new();
    for text in endpoints.split_whitespace() {
        let (text, sick) = text.strip_suffix('!').map_or((text, false), |t| (t, true));
        let (at, ports) = text.split_once(':').unwrap();
        let port = |text: &str| {
            let (name, number) = text.split_once('=').unwrap();
            let number = Some(mk_port(number.parse().unwrap()));
            GroupPort { name: PortName::new(name).unwrap(), number }
        };
        let set: PortSet = ports.split('+').map(port).collect();
        let port_set = sets.iter().position(|s| *s == set).unwrap_or_else(|| {
            sets.push(set);
            sets.len() - 1
        });
        let (at, account) = at.split_once('@').map_or((at, None), |(at, account)| (at, Some(account)));
        let at = match at.parse::<IpAddr>() {
            Ok(ip) => AddressRef::Ip(ip),
            Err(_) => {
                names.push(at.into());
                AddressRef::Name(u16::try_from(names.len() - 1).unwrap())
            }
        };
        let health = if sick { Health::Unhealthy } else { Health::Healthy };
        let port_set = u16::try_from(port_set).unwrap();
        let (identity, mtls) = (account.map(mk_identity), account.is_some());
        let address = Address::new(at, Arc::clone(&topology));
        addresses.push(Address { port_set, health, identity, mtls, ..address });
    }
    EndpointGroup::new(Source::new(ObjectId::new("Slice", "shop", object)), sets, names, addresses)
}

/// Returns the group of a slice for the declaration of a ServiceEntry.
pub(crate) fn mk_group(service: &str, declaration: &str, object: &str, endpoints: &str) -> Fact {
    Fact::Group(mk_group_key(service, declaration, object), Arc::new(mk_group_value(object, endpoints)))
}
pub(crate) fn mk_group_key(service: &str, declaration: &str, object: &str) -> EndpointGroupKey {
    EndpointGroupKey {
        service: mk_key(service),
        declaration: ObjectId::new("ServiceEntry", "shop", declaration),
        object: ObjectId::new("Slice", "shop", object),
        bucket: 0,
    }
}

pub(crate) fn mk_workload_key(name: &str) -> WorkloadKey {
    WorkloadKey::from(WorkloadName {
        namespace: mk_ns("shop"),
        kind: WorkloadKind::Entry,
        name: name.into(),
        cluster: ClusterId::new("east").unwrap(),
    })
}
pub(crate) fn mk_workload_value(name: &str, at: &str, labels: &str) -> Workload {
    let address = at.parse().map_or_else(|_| WorkloadAddress::Name(at.into()), WorkloadAddress::Ip);
    Workload {
        addresses: Arc::from([address]),
        labels: mk_labels(labels),
        augmented: mk_labels(labels),
        topology: mk_topology(""),
        name: name.into(),
        ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "shop", name)))
    }
}
pub(crate) fn mk_workload(name: &str, at: &str, labels: &str) -> Fact {
    Fact::Workload(mk_workload_key(name), Arc::new(mk_workload_value(name, at, labels)))
}

pub(crate) fn mk_gateway(network: &str, at: &str) -> Fact {
    mk_gateway_of(at, network, Some(at))
}
/// Returns the gateway of an object; without an address it cannot be used.
pub(crate) fn mk_gateway_of(name: &str, network: &str, at: Option<&str>) -> Fact {
    let object = ObjectId::new("Gateway", "mesh", name);
    let key = GatewayKey {
        network: NetworkId::new(network).unwrap(),
        cluster: ClusterId::new("east").unwrap(),
        object: object.clone(),
        index: 0,
    };
    let gateway = Gateway {
        source: Source::new(object),
        address: at.map(|at| GatewayAddress::Ip(at.parse().unwrap())),
        mtls_port: PortNumber::new(15443).ok(),
        hbone_port: None,
    };
    Fact::Gateway(key, Arc::new(gateway))
}

/// Returns a Sidecar of a namespace, such as `shop/a`, created in this second.
pub(crate) fn mk_sidecar(name: &str, labels: &str, created: Option<i64>) -> Fact {
    let (namespace, name) = name.split_once('/').unwrap();
    let key = PolicyKey { kind: PolicyKind::Sidecar, namespace: mk_ns(namespace), name: name.into() };
    let sidecar = Sidecar { selector: mk_labels(labels), ..Sidecar::default() };
    let declared = DeclaredPolicy {
        source: Source::new(ObjectId::new("Sidecar", namespace, name)),
        created: created.and_then(|s| Timestamp::from_second(s).ok()),
        policy: Policy::Sidecar(sidecar),
    };
    Fact::Policy(key, Arc::new(declared))
}

/// Returns a PeerAuthentication of a namespace, such as `shop/a`, created in this second.
pub(crate) fn mk_peer(name: &str, labels: &str, created: Option<i64>) -> Fact {
    let (namespace, name) = name.split_once('/').unwrap();
    let kind = PolicyKind::PeerAuthentication;
    let policy = PeerAuthentication { selector: mk_labels(labels), ..PeerAuthentication::default() };
    let declared = DeclaredPolicy {
        source: Source::new(ObjectId::new(kind.as_str(), namespace, name)),
        created: created.and_then(|s| Timestamp::from_second(s).ok()),
        policy: Policy::PeerAuthentication(policy),
    };
    Fact::Policy(PolicyKey { kind, namespace: mk_ns(namespace), name: name.into() }, Arc::new(declared))
}

/// Returns an AuthorizationPolicy of a namespace, such as `shop/a`, which stands in for one that is not valid if `is_valid` is not
/// set.
pub(crate) fn mk_authorization(name: &str, labels: &str, is_valid: bool) -> Fact {
    let (namespace, name) = name.split_once('/').unwrap();
    let kind = PolicyKind::AuthorizationPolicy;
    let mut policy = AuthorizationPolicy::stand_in(mk_labels(labels));
    if is_valid {
        policy.ignored = Arc::default();
    }
    let source = Source::new(ObjectId::new(kind.as_str(), namespace, name));
    let declared = DeclaredPolicy { source, created: None, policy: Policy::AuthorizationPolicy(policy) };
    Fact::Policy(PolicyKey { kind, namespace: mk_ns(namespace), name: name.into() }, Arc::new(declared))
}

/// Returns a RequestAuthentication as [`mk_authorization`] returns an AuthorizationPolicy.
pub(crate) fn mk_tokens(name: &str, labels: &str, is_valid: bool) -> Fact {
    let (namespace, name) = name.split_once('/').unwrap();
    let kind = PolicyKind::RequestAuthentication;
    let mut policy = RequestAuthentication::stand_in(mk_labels(labels));
    if is_valid {
        policy.ignored = Arc::default();
    }
    let source = Source::new(ObjectId::new(kind.as_str(), namespace, name));
    let declared = DeclaredPolicy { source, created: None, policy: Policy::RequestAuthentication(policy) };
    Fact::Policy(PolicyKey { kind, namespace: mk_ns(namespace), name: name.into() }, Arc::new(declared))
}

/// Returns a DestinationRule of a namespace, such as `shop/a`, created in this second, with these subsets, each with the
/// label `v` of its name, that is exported so, such as `*` or `cli,oth`.
pub(crate) fn mk_rule(name: &str, created: i64, host: &str, export: &str, subsets: &str) -> Fact {
    let (namespace, name) = name.split_once('/').unwrap();
    let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns(namespace), name: name.into() };
    let subset = |name: &str| SubsetRule {
        name: Subset::new(name).unwrap(),
        labels: mk_labels(&format!("v={name}")),
        policies: PortPolicies::default(),
    };
    let rule = DestinationRule {
        host: HostPattern::new(host).unwrap(),
        export: ExportTo::parse(export.split(','), &key.namespace),
        selector: Labels::default(),
        policies: PortPolicies::default(),
        subsets: subsets.split(',').filter(|name| !name.is_empty()).map(subset).collect(),
        ignored: Arc::from([]),
    };
    let declared = DeclaredPolicy {
        source: Source::new(ObjectId::new("DestinationRule", namespace, name)),
        created: Timestamp::from_second(created).ok(),
        policy: Policy::DestinationRule(rule),
    };
    Fact::Policy(key, Arc::new(declared))
}

pub(crate) fn mk_collection(kind: CollectionKind) -> Collection {
    Collection { scope: mk_scope(SCOPE), kind }
}
pub(crate) const KINDS: [CollectionKind; 4] =
    [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads, CollectionKind::Policies];

pub(crate) fn mk_required() -> RegistryUpdate {
    RegistryUpdate::Follows { required: KINDS.map(mk_collection).to_vec(), optional: Vec::new() }
}
pub(crate) fn mk_put(fact: Fact) -> RegistryUpdate {
    RegistryUpdate::Put(mk_scope(SCOPE), fact, Basis::Authoritative)
}
pub(crate) fn mk_unsure(fact: Fact) -> RegistryUpdate {
    RegistryUpdate::Put(mk_scope(SCOPE), fact, Basis::PossiblyPartial("short answer".into()))
}
pub(crate) fn mk_doubted(fact: Fact) -> RegistryUpdate {
    RegistryUpdate::Put(mk_scope(SCOPE), fact, Basis::KnownPartial("old answer".into()))
}
pub(crate) fn mk_fact_key(fact: &Fact) -> FactKey {
    FactKey { scope: mk_scope(SCOPE), item: fact.item() }
}
pub(crate) fn mk_drop(fact: &Fact, evidence: Evidence) -> RegistryUpdate {
    RegistryUpdate::Remove(mk_fact_key(fact), evidence)
}
pub(crate) fn mk_deleted(fact: &Fact) -> RegistryUpdate {
    let object = fact.object().cloned().unwrap_or_else(|| ObjectId::new("X", "", "x"));
    mk_drop(fact, Evidence::Deleted(ObjectRef::new(object)))
}

/// Core with a clock, and registries that report in their current generation.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now: u64,
    generations: BTreeMap<RegistryName, u64>,
    specs: BTreeMap<RegistryName, RegistrySpec>,
}

impl World {
    /// Creates a core with registries that have begun their first run.
    pub(crate) fn with(specs: &[RegistrySpec]) -> Self {
        let mut world = Self { now: 1, ..Self::default() };
        for spec in specs {
            world.add_registry(spec);
            world.restart(spec.id.name.as_str());
        }
        world
    }
    /// Adds a registry without a run.
    pub(crate) fn add_registry(&mut self, spec: &RegistrySpec) {
        self.core.add_registry(spec).unwrap();
        self.specs.insert(spec.id.name.clone(), spec.clone());
    }
    /// Creates a core with one ServiceEntry registry, `file`.
    pub(crate) fn of_files() -> Self {
        Self::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY)])
    }
    /// Creates a core with one registry that can confirm, `east`.
    pub(crate) fn confirming() -> Self {
        Self::with(&[RegistrySpec { can_confirm: true, ..mk_spec("east", ProviderId::KUBERNETES) }])
    }
    pub(crate) fn restart(&mut self, registry: &str) -> ApplyOutcome {
        let order = self.order(registry);
        self.generations.insert(mk_name(registry), order.generation.0);
        self.core.serve(Mono(self.now), &order).unwrap().0
    }
    /// Returns the order for the registry's next run.
    pub(crate) fn order(&self, registry: &str) -> RunOrder {
        let spec = self.specs[&mk_name(registry)].clone();
        let replaces = self.generation(registry);
        let begun = self.generations.get(&mk_name(registry)).copied().unwrap_or_default();
        RunOrder { spec, generation: Generation(begun.max(replaces.0) + 1), replaces, group: None }
    }
    /// Returns the generation of the served run.
    pub(crate) fn generation(&self, registry: &str) -> Generation {
        let status = self.core.status();
        status
            .iter()
            .find(|one| one.id.name == mk_name(registry))
            .map(|one| one.generation)
            .unwrap_or_default()
    }
    pub(crate) fn shadow(&mut self, registry: &str) -> Generation {
        self.shadow_in(registry, None)
    }
    /// Begins a shadow that is to serve together with those of a group.
    pub(crate) fn shadow_in(&mut self, registry: &str, group: Option<RunGroup>) -> Generation {
        let order = RunOrder { group, ..self.order(registry) };
        self.generations.insert(mk_name(registry), order.generation.0);
        self.core.begin_shadows(Mono(self.now), std::slice::from_ref(&order)).unwrap();
        order.generation
    }
    pub(crate) fn stamp(
        &self,
        registry: &str,
        generation: Generation,
        value: RegistryUpdate,
    ) -> Stamped<RegistryUpdate> {
        Stamped { registry: mk_name(registry), generation, at: Mono(self.now), value }
    }
    /// Reports updates of the registry's served run in one batch.
    pub(crate) fn report(
        &mut self,
        registry: &str,
        deltas: impl IntoIterator<Item = RegistryUpdate>,
    ) -> ApplyOutcome {
        let generation = self.generation(registry);
        self.report_in(registry, generation, deltas)
    }
    pub(crate) fn report_in(
        &mut self,
        registry: &str,
        generation: Generation,
        deltas: impl IntoIterator<Item = RegistryUpdate>,
    ) -> ApplyOutcome {
        let deltas = deltas.into_iter().map(|d| self.stamp(registry, generation, d)).collect();
        self.now += 10;
        self.core.apply(Mono(self.now), deltas)
    }
    /// Puts facts of the registry in one batch.
    pub(crate) fn put(&mut self, registry: &str, facts: impl IntoIterator<Item = Fact>) -> ApplyOutcome {
        self.report(registry, facts.into_iter().map(mk_put).collect::<Vec<_>>())
    }
    /// Reports a complete list of these facts.
    pub(crate) fn list(&mut self, registry: &str, facts: impl IntoIterator<Item = Fact>) -> ApplyOutcome {
        let generation = self.generation(registry);
        let updates = mk_list(facts);
        self.report_in(registry, generation, updates)
    }
    pub(crate) fn catalog(&mut self) -> Arc<Catalog> {
        self.core.publish()
    }
    pub(crate) fn view(&mut self, service: &str) -> Option<Arc<ServiceView>> {
        self.catalog().service(&mk_key(service)).cloned()
    }
    /// Returns the endpoints of a port such as `10.0.0.1:8080`, sorted; `!` unhealthy, `?` held.
    pub(crate) fn served(&mut self, service: &str, port: u32) -> Vec<String> {
        self.view(service).map(|view| served(&view, port)).unwrap_or_default()
    }
    pub(crate) fn codes(&mut self, service: &str) -> Vec<Code> {
        let view = self.view(service).unwrap();
        let codes: BTreeSet<Code> = view.conditions.iter().map(|c| c.code).collect();
        codes.into_iter().collect()
    }
}

/// Checks that the outlines of all hosts agree with their built views.
pub(crate) fn check_outlines(core: &Core) {
    let state = &core.state;
    let known = state.hosts.iter().map(|service| &service.key.host);
    for host in known.chain(state.draft.hosts.keys()).collect::<BTreeSet<_>>() {
        let outlines = outlines(&state.context, &state.hosts, host);
        let outlined: Vec<_> = outlines.iter().map(|o| (&o.service.key, o.alias_target())).collect();
        let views = state.draft.hosts.get(host).map(|entry| &*entry.claimants).unwrap_or_default();
        let alias_target = |view: &ServiceView| match &view.first().unwrap().declaration.resolution {
            Resolution::Alias(host) => Some(host.clone()),
            _ => None,
        };
        let built: Vec<_> = views.iter().map(|view| (&view.key, alias_target(view))).collect();
        let outlined: Vec<_> = outlined.into_iter().map(|(key, to)| (key, to.cloned())).collect();
        assert_eq!(outlined, built, "{host}");
    }
}

/// Returns the updates of a complete list.
pub(crate) fn mk_list(facts: impl IntoIterator<Item = Fact>) -> Vec<RegistryUpdate> {
    let begin = KINDS.map(|k| RegistryUpdate::ListStarted(mk_collection(k)));
    let end = KINDS.map(|k| RegistryUpdate::ListEnded(mk_collection(k), Completeness::Complete));
    let facts = facts.into_iter().map(mk_put);
    std::iter::once(mk_required()).chain(begin).chain(facts).chain(end).collect()
}

/// Returns the records of changed facts.
pub(crate) fn fact_records(outcome: &ApplyOutcome) -> Vec<Record> {
    let of_facts = |record: &&Record| matches!(record, Record::Put(..) | Record::Remove(..));
    outcome.records.iter().filter(of_facts).cloned().collect()
}

/// Returns the endpoints that a view serves on a port.
pub(crate) fn served(view: &ServiceView, port: u32) -> Vec<String> {
    let Some(port) = view.port(mk_port(port)) else { return Vec::new() };
    let mut out = Vec::new();
    for source in port.endpoints.inputs.sources.iter() {
        for (at, address) in source.group.addresses.iter().enumerate() {
            let Some(i) = source.ports[usize::from(address.port_set)] else { continue };
            let number = source.group.ports(address)[usize::from(i)].number;
            let text = match address.at {
                AddressRef::Ip(ip) => ip.to_string(),
                AddressRef::Name(_) | AddressRef::Unix(_) => source.group.name(address).unwrap().to_owned(),
            };
            let sick = if address.health == Health::Unhealthy { "!" } else { "" };
            let held = if source.held.contains(&u32::try_from(at).unwrap()) { "?" } else { "" };
            out.push(format!("{text}:{}{sick}{held}", number.map_or(0, PortNumber::get)));
        }
    }
    out.sort();
    out
}
