//! Catalogs for the tests of this crate, built as the core builds them: equal parts are shared with
//! the previous generation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use imbl::{OrdMap, OrdSet};
use tributary_answer::ClientSidecar;
use tributary_fixtures::{mk_egress, mk_host, mk_key, mk_ns, mk_shard, mk_sidecar};
use tributary_model::*;

use crate::answers::{ClientClass, ClientClassKey};

mod rules;

pub(crate) use rules::Rule;

/// One service of a test catalog, with the simplest defaults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Svc {
    pub(crate) host: String,
    pub(crate) namespace: String,
    pub(crate) ports: Vec<(u32, Protocol)>,
    pub(crate) endpoints: Vec<String>,
    /// DNS names, and unix paths, which begin with a slash.
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<String>,
    pub(crate) visibility: Visibility,
    pub(crate) resolution: Resolution,
    /// Port in place of that of the original destination.
    pub(crate) target: Option<u32>,
    pub(crate) traffic: TrafficDistribution,
    /// Order that a rule sets; every third endpoint has no label `tier`, the others `a` or `b`.
    pub(crate) order: Option<LocalityBalancing>,
    pub(crate) created: Option<i64>,
    /// Whether its endpoints are mesh workloads: mTLS, an origin, labels.
    pub(crate) mtls: bool,
    /// Account of its endpoints, if it is in a mesh with automatic TLS.
    pub(crate) account: Option<String>,
    /// VirtualServices that may route its clients; the world sets them.
    pub(crate) virtual_services: Arc<[HttpCandidate]>,
}

/// Returns a public service with an HTTP port 80 and one endpoint.
pub(crate) fn mk_svc(host: &str) -> Svc {
    Svc {
        host: host.into(),
        namespace: "shop".into(),
        ports: vec![(80, Protocol::Http)],
        endpoints: vec!["10.0.0.1".into()],
        names: Vec::new(),
        addresses: Vec::new(),
        visibility: Visibility::Public,
        resolution: Resolution::ClientSide,
        target: None,
        traffic: TrafficDistribution::Any,
        order: None,
        created: None,
        mtls: false,
        account: None,
        virtual_services: Arc::default(),
    }
}

impl Svc {
    pub(crate) fn at(self, endpoints: &[&str]) -> Self {
        Self { endpoints: endpoints.iter().map(|&e| e.into()).collect(), ..self }
    }
    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self }
    }
    pub(crate) fn on(self, ports: &[(u32, Protocol)]) -> Self {
        Self { ports: ports.to_vec(), ..self }
    }
    pub(crate) fn virtual_at(self, addresses: &[&str]) -> Self {
        Self { addresses: addresses.iter().map(|&a| a.into()).collect(), ..self }
    }
    pub(crate) fn seen_by(self, namespaces: &[&str]) -> Self {
        let list = namespaces.iter().map(|ns| mk_ns(ns)).collect();
        Self { visibility: Visibility::Namespaces(list), ..self }
    }
    pub(crate) fn key(&self) -> ServiceKey {
        mk_key(&self.host, &self.namespace)
    }
    pub(crate) fn resolved(self, resolution: Resolution) -> Self {
        Self { resolution, ..self }
    }
}

/// Builds successive generations that share equal parts.
#[derive(Debug, Default)]
pub(crate) struct World {
    generation: u64,
    built: BTreeMap<(String, String), (Svc, Arc<ServiceView>)>,
    last: Arc<Catalog>,
}

impl World {
    /// Builds the next generation with exactly these services.
    pub(crate) fn next(&mut self, services: &[Svc]) -> Arc<Catalog> {
        self.routed(services, &[])
    }
    /// Builds the next generation with exactly these services and VirtualServices, the latter in order of precedence.
    pub(crate) fn routed(&mut self, services: &[Svc], rules: &[Rule]) -> Arc<Catalog> {
        self.generation += 1;
        let mut built = BTreeMap::new();
        for svc in services {
            let svc = &Svc { virtual_services: rules::candidates(rules, &svc.host), ..svc.clone() };
            let key = (svc.host.clone(), svc.namespace.clone());
            let view = match self.built.get(&key) {
                Some((old, view)) if old == svc => Arc::clone(view),
                old => Arc::new(mk_view(svc, old.map(|(_, view)| &**view))),
            };
            built.insert(key, (svc.clone(), view));
        }
        self.built = built;
        self.last = Arc::new(self.catalog(&self.last, rules));
        Arc::clone(&self.last)
    }
    fn catalog(&self, before: &Catalog, rules: &[Rule]) -> Catalog {
        let mut hosts: BTreeMap<Hostname, Vec<Arc<ServiceView>>> = BTreeMap::new();
        let mut routes = rules::routes(rules, before);
        let mut led_to: BTreeMap<Namespace, OrdSet<Hostname>> = BTreeMap::new();
        for (host, routes) in &routes {
            hosts.entry(host.clone()).or_default();
            for candidate in routes.inputs.virtual_services.iter() {
                led_to.entry(candidate.of.key.namespace.clone()).or_default().insert(host.clone());
            }
        }
        let mut scoped: BTreeMap<Namespace, OrdSet<Hostname>> = BTreeMap::new();
        let mut aliases: BTreeMap<Hostname, OrdSet<Hostname>> = BTreeMap::new();
        for (svc, view) in self.built.values() {
            let host = view.key.host.clone();
            if let Resolution::Alias(target) = &svc.resolution {
                aliases.entry(target.clone()).or_default().insert(host.clone());
            }
            hosts.entry(host.clone()).or_default().push(Arc::clone(view));
            scoped.entry(view.key.namespace.clone()).or_default().insert(host.clone());
            if let Visibility::Namespaces(list) = &svc.visibility {
                for namespace in list.iter() {
                    scoped.entry(namespace.clone()).or_default().insert(host.clone());
                }
            }
        }
        Catalog {
            generation: self.generation,
            complete: true,
            hosts: patched(
                &before.hosts,
                hosts.into_iter().map(|(host, claimants)| {
                    let entry = mk_entry(claimants, routes.remove(&host));
                    (host, entry)
                }),
                same,
            ),
            led_to: led_to.into_iter().map(|(ns, hosts)| (ns, Shared::new(hosts))).collect(),
            scoped: scoped.into_iter().map(|(ns, hosts)| (ns, Shared::new(hosts))).collect(),
            aliases: aliases.into_iter().map(|(host, aliases)| (host, Shared::new(aliases))).collect(),
            ..Catalog::default()
        }
    }
}

/// Patches the previous map with the changes, so a difference is as small as the change.
fn patched<K: Ord + Clone, V: Clone + PartialEq>(
    before: &OrdMap<K, V>,
    now: impl Iterator<Item = (K, V)>,
    same: impl Fn(&V, &V) -> bool,
) -> OrdMap<K, V> {
    let now: BTreeMap<K, V> = now.collect();
    let mut out = before.clone();
    before.keys().filter(|key| !now.contains_key(key)).for_each(|key| drop(out.remove(key)));
    for (key, value) in now {
        if !before.get(&key).is_some_and(|old| same(old, &value)) {
            out.insert(key, value);
        }
    }
    out
}

fn same(a: &Shared<HostEntry>, b: &Shared<HostEntry>) -> bool {
    a.claimants.len() == b.claimants.len()
        && a.claimants.iter().zip(b.claimants.iter()).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.routes == b.routes
}

fn mk_entry(
    mut claimants: Vec<Arc<ServiceView>>,
    routes: Option<Shared<ResourceInputs<RouteInputs>>>,
) -> Shared<HostEntry> {
    claimants.sort_by(|a, b| tributary_answer::precedence(a, b));
    Shared::new(HostEntry { claimants: claimants.into(), led_by: Arc::default(), routes })
}

fn mk_view(svc: &Svc, old: Option<&ServiceView>) -> ServiceView {
    let key = svc.key();
    let shard = mk_shard("east");
    let declaration = Arc::new(mk_declaration(svc));
    let view = DeclarationView {
        shard: Arc::clone(&shard),
        precedence: Precedence::default(),
        declaration: Arc::clone(&declaration),
        visibility: svc.visibility.clone(),
        federated: false,
    };
    let mut numbers: Vec<(PortNumber, Protocol)> =
        svc.ports.iter().map(|&(n, p)| (PortNumber::new(n).unwrap(), p)).collect();
    numbers.sort();
    numbers.dedup_by_key(|(n, _)| *n);
    let mk = |&(number, protocol): &(PortNumber, Protocol)| {
        let before = old.and_then(|view| view.port(number));
        mk_port(svc, &key, (number, protocol), &view, before)
    };
    ServiceView {
        ports: numbers.iter().map(mk).collect(),
        key,
        declarations: [view.clone()].into(),
        conditions: Arc::from([]),
        aliases: Arc::from([]),
        addresses: u32::try_from(svc.endpoints.len()).unwrap(),
        audiences: Arc::from([]),
    }
}

/// Returns resource inputs; keeps the old allocation if they are equal.
fn mk_inputs<T: PartialEq>(
    facts: T,
    dims: ClientDimensions,
    old: Option<&Shared<ResourceInputs<T>>>,
) -> Shared<ResourceInputs<T>> {
    match old {
        Some(old) if old.inputs == facts && old.dimensions == dims => old.clone(),
        _ => Shared::new(ResourceInputs::new(facts, dims)),
    }
}

fn mk_port(
    svc: &Svc,
    service: &ServiceKey,
    (port, protocol): (PortNumber, Protocol),
    view: &DeclarationView,
    old: Option<&PortView>,
) -> PortView {
    let near = svc.traffic != TrafficDistribution::Any || svc.order.is_some();
    let facts = mk_endpoints(svc, service, port, view);
    let places = if near { ClientDimensions::LOCALITY } else { ClientDimensions::NONE };
    let labels = if svc.order.is_some() { ClientDimensions::LABELS } else { ClientDimensions::NONE };
    let dims = ClientDimensions::KIND | places | labels;
    let endpoints = mk_inputs(facts, dims, old.map(|o| &o.endpoints));
    let headless = svc.resolution == Resolution::Passthrough;
    let cluster = ClusterInputs {
        service: service.clone(),
        port,
        protocol,
        resolution: svc.resolution.clone(),
        target: svc.target.and_then(|port| PortNumber::new(port).ok()),
        attributes: Arc::default(),
        identities: svc.account.as_deref().map(mk_identities).unwrap_or_default(),
        automatic_tls: svc.account.is_some(),
        all_meshed: false,
        connect_timeout: Duration::from_secs(10),
        locality: None,
        inline: svc.resolution.is_dns().then(|| endpoints.clone()),
        policy: svc.order.clone().map(mk_cluster_policy),
    };
    let resolved = if svc.resolution.is_dns() { dims } else { ClientDimensions::NONE };
    let secured = if svc.account.is_some() { ClientDimensions::CERTIFICATES } else { ClientDimensions::NONE };
    let addresses: Arc<[ServiceAddress]> = svc.addresses.iter().map(|a| mk_vip(a)).collect();
    let listener = ListenerInputs {
        service: service.clone(),
        port,
        protocol,
        resolution: svc.resolution.clone(),
        addresses: addresses.clone(),
        endpoints: matches_endpoints(svc, protocol).then(|| endpoints.clone()),
        policy: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
    };
    let route = RouteInputs {
        service: service.clone(),
        port,
        protocol,
        resolution: svc.resolution.clone(),
        addresses,
        headless,
        retries: None,
        hash: None,
        virtual_services: Arc::clone(&svc.virtual_services),
        destinations: Arc::default(),
        has_service: true,
    };
    let route_dims =
        ClientDimensions::KIND | ClientDimensions::DOMAIN | rules::dimensions(&svc.virtual_services);
    PortView {
        number: port,
        name: PortName::new("p").unwrap(),
        protocol,
        cluster: mk_inputs(
            cluster,
            ClientDimensions::KIND | ClientDimensions::FAMILIES | resolved | secured,
            old.map(|o| &o.cluster),
        ),
        listener: mk_inputs(
            listener,
            ClientDimensions::KIND | ClientDimensions::BINDS | ClientDimensions::FAMILIES,
            old.map(|o| &o.listener),
        ),
        route: mk_inputs(route, route_dims, old.map(|o| &o.route)),
        endpoints,
    }
}

/// Returns the identities of an account.
fn mk_identities(account: &str) -> Arc<IdentitySet> {
    let identity = Identity::spiffe("cluster.local", &mk_ns("shop"), account);
    Arc::new(identity.into_iter().collect())
}

/// Whether listeners match the endpoints of the port: it is TCP without a virtual address.
fn matches_endpoints(svc: &Svc, protocol: Protocol) -> bool {
    let headless = svc.resolution == Resolution::Passthrough;
    let is_tcp = protocol == Protocol::Tcp || (headless && protocol == Protocol::Tls);
    let has_endpoints = headless || svc.resolution.is_dns() || svc.resolution == Resolution::ClientSide;
    is_tcp && has_endpoints && svc.addresses.is_empty()
}

fn mk_endpoints(svc: &Svc, service: &ServiceKey, port: PortNumber, view: &DeclarationView) -> EndpointInputs {
    let place = |i: usize| Topology {
        locality: Locality::parse(["eu/1a", "eu/1b", "us/2a"][i % 3]),
        ..Topology::default()
    };
    let origin = svc.mtls.then(|| {
        let object = ObjectId::new("WorkloadEntry", &svc.namespace, &svc.host);
        Arc::new(Origin { object, workload: "web-v1".into() })
    });
    let meshed = [(labels::CANONICAL_NAME, "web"), (labels::CANONICAL_REVISION, "v1")];
    let labels: Labels = meshed.into_iter().filter(|_| svc.mtls).collect();
    let labels = |i: usize| match ["", "a", "b"][i % 3] {
        tier if svc.order.is_some() && !tier.is_empty() => labels.with([("tier", tier)]),
        _ => labels.clone(),
    };
    let address = |(i, text): (usize, &String)| Address {
        mtls: svc.mtls,
        labels: labels(i),
        origin: origin.clone(),
        weight: u32::try_from(i % 3).unwrap(),
        ..Address::new(AddressRef::Ip(text.parse().unwrap()), Arc::new(place(i)))
    };
    let name = |(i, text): (usize, &String)| {
        let i = u16::try_from(i).unwrap();
        let at = if text.starts_with('/') { AddressRef::Unix(i) } else { AddressRef::Name(i) };
        Address::new(at, Arc::default())
    };
    let all = svc.endpoints.iter().enumerate().map(address).chain(svc.names.iter().enumerate().map(name));
    let names = svc.names.iter().map(|n| n.as_str().into()).collect();
    let group_port = GroupPort { name: PortName::new("p").unwrap(), number: PortNumber::new(8080).ok() };
    let object = Source::new(ObjectId::new("Slice", &svc.namespace, &svc.host));
    let group = EndpointGroup::new(object, vec![Arc::from([group_port])], names, all.collect());
    let source = EndpointSource {
        shard: Arc::clone(&view.shard),
        priority: ShardPriority::Normal,
        declaration: Arc::clone(&view.declaration),
        visibility: svc.visibility.clone(),
        group: Arc::new(group),
        ports: [Some(0)].into(),
        held: Arc::from([]),
        plain: Arc::from([]),
        federation: None,
    };
    EndpointInputs {
        service: service.clone(),
        port,
        resolution: svc.resolution.clone(),
        traffic: svc.traffic,
        sources: [source].into(),
        gated: Arc::from([]),
        automatic_tls: false,
        locality: None,
        policy: svc.order.clone().map(mk_policy),
    }
}

fn mk_policy(order: LocalityBalancing) -> Arc<ByNamespace<Option<Arc<EndpointPolicy>>>> {
    let whole = EndpointUse { locality: Some(order), ejects: true, mesh_tls: None, passes: false };
    let policy = EndpointPolicy { whole, ..EndpointPolicy::default() };
    Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))
}

fn mk_cluster_policy(order: LocalityBalancing) -> Arc<ByNamespace<Option<Arc<ClusterPolicy>>>> {
    let balancer = LoadBalancer { locality: Some(order), ..LoadBalancer::default() };
    let (balancer, outliers) = (Some(Arc::new(balancer)), Some(Arc::default()));
    let whole = TrafficPolicy { balancer, outliers, ..TrafficPolicy::default() };
    let policy = ClusterPolicy { whole, ..ClusterPolicy::default() };
    Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))
}

fn mk_vip(text: &str) -> ServiceAddress {
    let ip: std::net::IpAddr = text.parse().unwrap();
    ServiceAddress { cluster: None, ip, prefix: if ip.is_ipv4() { 32 } else { 128 }, allocated: false }
}

fn mk_declaration(svc: &Svc) -> Declaration {
    Declaration {
        created: svc.created.map(|s| Timestamp::from_second(s).unwrap()),
        resolution: svc.resolution.clone(),
        ..Declaration::new(Source::new(ObjectId::new("ServiceEntry", &svc.namespace, &svc.host)))
    }
}

/// Returns a class with only a kind and a namespace.
pub(crate) fn mk_class(kind: ClientKind, namespace: &str) -> ClientClassKey {
    ClientClassKey::alone(ClientClass { namespace: Namespace::new(namespace).ok(), ..ClientClass::new(kind) })
}
/// Returns a class whose Sidecar has these egress listeners, each with its port and hosts.
pub(crate) fn mk_scoped(
    kind: ClientKind,
    namespace: &str,
    egress: &[(Option<u32>, &[&str])],
) -> ClientClassKey {
    let sidecar = Sidecar { egress: mk_egress(egress), ..Sidecar::default() };
    let (key, _) = mk_sidecar(namespace, "default", sidecar.clone());
    let sidecar = Some(Arc::new(ClientSidecar::new(&key, &sidecar)));
    ClientClassKey::alone(ClientClass { sidecar, ..(*mk_class(kind, namespace)).clone() })
}
pub(crate) fn mk_envoy() -> ClientClassKey {
    mk_class(ClientKind::Envoy, "")
}

/// Adds a workload at this address, selected by these services of namespace `shop`.
pub(crate) fn mk_with_workload(
    catalog: &Catalog,
    ip: &str,
    services: &[&str],
) -> (Arc<Catalog>, WorkloadKey) {
    let namespace = mk_ns("shop");
    let name = format!("w-{}", ip.replace(['.', ':'], "-"));
    let key = WorkloadKey::from(tributary_model::WorkloadName {
        namespace: namespace.clone(),
        kind: WorkloadKind::Entry,
        name: name.as_str().into(),
        cluster: ClusterId::new("east").unwrap(),
    });
    let workload = Workload {
        addresses: [WorkloadAddress::Ip(ip.parse().unwrap())].into(),
        name: name.as_str().into(),
        ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "shop", &name)))
    };
    let selected = |host: &&str| ServiceKey { host: mk_host(host), namespace: namespace.clone() };
    let services = services.iter().map(selected).collect();
    let view = WorkloadView { shard: mk_shard("east"), workload: Arc::new(workload), services };
    let mut catalog = catalog.clone();
    catalog.workloads.insert(key.clone(), Shared::new(view));
    (Arc::new(catalog), key)
}
