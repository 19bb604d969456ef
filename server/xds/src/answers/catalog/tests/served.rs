//! What clients hold after random changes of services, exports and Sidecars equals a naive reading of all facts. The
//! clients have real sessions, which only the interest index wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use proptest::prelude::*;
use tributary_answer::{ClientSidecar, OwnSide};
use tributary_fixtures::{mk_ns, mk_sidecar};
use tributary_model::{
    CatalogChanges, EgressListener, Mono, ObservedSince, PolicyKey, PolicyView, Shared, Sidecar, Visibility,
};
use tributary_proto::peer::Response;
use tributary_proto::{DeltaRequest, Node, SotwRequest, Value};

use super::properties::{some_services, some_visibility};
use super::scopes::{is_listed, reached, some_listeners};
use super::*;
use crate::answers::ClientClass;
use crate::client::ClientNode;
use crate::counters::Counters as ServerCounters;
use crate::interest::{InterestIndex, Registration, Wake};
use crate::session::{ChangedHosts, Env, Outgoing, STUCK, Session};

const ROOT: &str = "istio-system";

/// All facts.
#[derive(Debug, Clone, Default)]
struct Facts {
    services: Vec<Svc>,
    policies: BTreeMap<PolicyKey, Shared<PolicyView>>,
}

#[derive(Debug, Clone)]
enum Edit {
    Services(Vec<Svc>),
    Export(usize, Visibility),
    Ports(usize, Protocol),
    Endpoints(usize, u8),
    Put(&'static str, &'static str, &'static str, Arc<[EgressListener]>),
    Remove(&'static str, &'static str),
}

fn some_edit() -> impl Strategy<Value = Edit> {
    let namespace = || prop::sample::select(vec!["shop", "web", "blog", ROOT]);
    let name = || prop::sample::select(vec!["a", "b"]);
    let app = prop::sample::select(vec!["", "", "pay", "none"]);
    let protocol = prop::sample::select(vec![Protocol::Http, Protocol::Grpc, Protocol::Tcp]);
    let at = || 0..7usize;
    prop_oneof![
        3 => some_services().prop_map(Edit::Services),
        3 => (at(), some_visibility()).prop_map(|(at, visibility)| Edit::Export(at, visibility)),
        3 => (at(), protocol).prop_map(|(at, protocol)| Edit::Ports(at, protocol)),
        3 => (at(), 1u8..6).prop_map(|(at, last)| Edit::Endpoints(at, last)),
        4 => (namespace(), name(), app, some_listeners()).prop_map(|(ns, name, app, egress)| Edit::Put(ns, name, app, egress)),
        2 => (namespace(), name()).prop_map(|(ns, name)| Edit::Remove(ns, name)),
    ]
}

fn mk_put(
    namespace: &str,
    name: &str,
    app: &str,
    egress: &Arc<[EgressListener]>,
) -> (PolicyKey, Shared<PolicyView>) {
    let selector = [("app", app)].into_iter().filter(|(_, app)| !app.is_empty()).collect();
    mk_sidecar(namespace, name, Sidecar { selector, egress: Arc::clone(egress), ..Sidecar::default() })
}

impl Facts {
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Services(services) => self.services.clone_from(services),
            Edit::Export(at, visibility) => self.change(*at, |svc| svc.visibility = visibility.clone()),
            Edit::Ports(at, protocol) => {
                self.change(*at, |svc| svc.ports = vec![(80, *protocol), (81, Protocol::Http)])
            }
            Edit::Endpoints(at, last) => {
                self.change(*at, |svc| svc.endpoints = vec![format!("10.0.0.{last}")])
            }
            Edit::Put(namespace, name, app, egress) => {
                let (key, view) = mk_put(namespace, name, app, egress);
                self.policies.insert(key, view);
            }
            Edit::Remove(namespace, name) => {
                let (key, _) = mk_put(namespace, name, "", &Arc::from([]));
                self.policies.remove(&key);
            }
        }
    }
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Svc)) {
        if let Some(svc) = self.services.get_mut(at) {
            change(svc);
        }
    }
    /// The Sidecar of a workload, by a naive reading.
    fn sidecar(&self, namespace: &str, app: &str) -> Option<ClientSidecar> {
        let selects = |namespace: &str, app: &str| {
            let mut all = self.policies.iter().filter(|(key, _)| key.namespace == mk_ns(namespace));
            let of_app = |view: &PolicyView| {
                view.sidecar().is_some_and(|sidecar| sidecar.selector.get("app").unwrap_or("") == app)
            };
            all.find(|(_, view)| of_app(view))
        };
        let own = selects(namespace, app).or_else(|| selects(namespace, ""));
        let (key, view) = own.or_else(|| selects(ROOT, ""))?;
        view.sidecar().map(|sidecar| ClientSidecar::new(key, sidecar))
    }
}

/// How a client connects and what it subscribes to.
#[derive(Debug, Clone, Copy)]
struct Kind {
    namespace: &'static str,
    app: &'static str,
    grpc: bool,
    variant: Variant,
    /// Whether it has everything, and not only assignments by name.
    everything: bool,
    /// Whether it subscribes to more assignments than are looked up one by one.
    many: bool,
}

const SIDECAR: Kind = Kind {
    namespace: "shop",
    app: "pay",
    grpc: false,
    variant: Variant::Delta,
    everything: true,
    many: false,
};
const CLIENTS: [Kind; 9] = [
    SIDECAR,
    Kind { app: "cart", variant: Variant::Sotw, many: true, ..SIDECAR },
    Kind { namespace: "web", variant: Variant::Sotw, ..SIDECAR },
    Kind { namespace: "web", app: "", many: true, ..SIDECAR },
    Kind { namespace: "blog", many: true, ..SIDECAR },
    Kind { namespace: "blog", app: "", variant: Variant::Sotw, ..SIDECAR },
    Kind { everything: false, ..SIDECAR },
    Kind { namespace: "web", grpc: true, everything: false, ..SIDECAR },
    Kind { namespace: "web", app: "", everything: false, variant: Variant::Sotw, many: true, ..SIDECAR },
];

impl Kind {
    fn node(self) -> ClientNode {
        let Self { namespace, .. } = self;
        let id = format!("sidecar~10.0.0.7~w.{namespace}~{namespace}.svc.cluster.local");
        let metadata =
            [("GENERATOR", Value::Text("grpc".into()))].into_iter().filter(|_| self.grpc).collect();
        let node = Node { id: id.as_str().into(), metadata, ..Node::default() };
        let labels = [("app", self.app)].into_iter().filter(|(_, app)| !app.is_empty()).collect();
        ClientNode { labels, ..ClientNode::parse(Some(&node)).unwrap() }
    }
    fn class(self, facts: &Facts) -> ClientClassKey {
        let sidecar = facts.sidecar(self.namespace, self.app).map(Arc::new);
        ClientClassKey::alone(ClientClass { sidecar, ..self.node().class })
    }
    /// Types with the names that it subscribes to; none is all.
    fn subscriptions(self) -> Vec<(ResourceType, Vec<String>)> {
        let hosts = ["a", "b", "c", "d"].map(|host| format!("{host}.shop"));
        let more = (0..if self.many { 30 } else { 0 }).map(|n| format!("x{n}.shop"));
        let cluster = |host: String| [80, 81].map(|port| format!("outbound|{port}||{host}"));
        let assignments =
            (ResourceType::Endpoints, hosts.into_iter().chain(more).flat_map(cluster).collect());
        if !self.everything {
            return vec![assignments];
        }
        let tables = ["80", "81", "82"].map(str::to_owned).to_vec();
        vec![
            (ResourceType::Cluster, vec![]),
            assignments,
            (ResourceType::Listener, vec![]),
            (ResourceType::Route, tables),
        ]
    }
}

/// Resources by type and name.
type Resources = BTreeMap<(ResourceType, String), Bytes>;

/// What a client must hold: built from all facts for it alone, by a provider without history or other clients.
fn expected(facts: &Facts, client: Kind) -> Resources {
    let (catalog, answers) = (World::default().next(&facts.services), CatalogAnswers::default());
    let (class, node) = (client.class(facts), client.node());
    let side = OwnSide { workloads: &[], ips: &node.ips };
    let mut out = Resources::new();
    for (kind, names) in client.subscriptions() {
        let body = |resource: &Arc<EncodedResource>| answers.bytes(&catalog, &class, kind, resource).unwrap();
        let mut add = |resource: &Arc<EncodedResource>| {
            out.insert((kind, resource.name.to_string()), body(resource));
        };
        answers.all(&catalog, &class, kind).iter().for_each(&mut add);
        answers.private(&catalog, &class, kind, side).iter().for_each(&mut add);
        for name in names {
            let found = answers.one(&catalog, &class, kind, &name);
            let found = found.or_else(|| (kind == ResourceType::Endpoints).then(|| empty_assignment(&name)));
            found.iter().for_each(&mut add);
        }
    }
    out
}

/// Checks the names of clusters and the addresses of endpoints against a reading that shares no code with the product.
fn is_naive(facts: &Facts, client: Kind, held: &Resources) -> Result<(), TestCaseError> {
    let sidecar = facts.sidecar(client.namespace, client.app);
    let egress = sidecar.and_then(|sidecar| sidecar.egress).map(|egress| egress.listeners().to_vec());
    let reached = reached(&facts.services, &mk_ns(client.namespace), &egress.unwrap_or_default());
    let service = |host: &str, ns: &str| {
        facts.services.iter().find(|svc| svc.host == host && svc.namespace == ns).unwrap()
    };
    let name = |port: &u32, host: &str| format!("outbound|{port}||{host}");
    let listed = reached.iter().filter(|(host, ns, port)| is_listed(service(host, ns), *port));
    let clusters: BTreeSet<String> = listed.map(|(host, _, port)| name(port, host)).collect();
    let of_services =
        held.keys().filter(|(kind, name)| *kind == ResourceType::Cluster && name.starts_with("outbound|"));
    let found: BTreeSet<String> = of_services.map(|(_, name)| name.clone()).collect();
    prop_assert!(!client.everything || found == clusters, "clusters {:?}, not {:?}", found, clusters);
    let endpoints: BTreeMap<String, BTreeSet<&str>> = reached
        .iter()
        .map(|(host, ns, port)| (name(port, host), service(host, ns)))
        .filter(|(_, svc)| !svc.resolution.is_dns())
        .map(|(name, svc)| (name, svc.endpoints.iter().map(String::as_str).collect()))
        .collect();
    for ((_, name), body) in held.iter().filter(|((kind, _), _)| *kind == ResourceType::Endpoints) {
        let body = ClusterLoadAssignment::decode(body.clone()).unwrap();
        let text = format!("{body:?}");
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
        let found: BTreeSet<&str> = all.into_iter().filter(|ip| text.contains(ip)).collect();
        prop_assert_eq!(found, endpoints.get(name).cloned().unwrap_or_default(), "{}", name);
    }
    Ok(())
}

/// A client with its stream.
struct Stream {
    client: Kind,
    session: Session,
    wake: Arc<Wake>,
    registration: Registration,
    held: Resources,
    /// Whether it was woken and has not read since.
    woken: bool,
}

impl Stream {
    fn open(client: Kind, env: &Arc<Env>, index: &Arc<InterestIndex>) -> Self {
        let node = Arc::new(client.node());
        let wake = index.wake();
        let registration = index.register(Arc::clone(&wake), Arc::clone(&node));
        let session = Session::new(Arc::clone(env), client.variant, node, Mono(0));
        let mut out = Self { client, session, wake, registration, held: Resources::new(), woken: true };
        client.subscriptions().iter().for_each(|(kind, _)| out.send(*kind, "", true));
        out
    }
    /// Subscribes, or acknowledges a response.
    fn send(&mut self, kind: ResourceType, nonce: &str, first: bool) {
        let all = self.client.subscriptions().into_iter().find(|(of, _)| *of == kind);
        let names = all.iter().flat_map(|(_, names)| names).map(String::as_str);
        let (type_url, nonce) = (kind.type_url().into(), nonce.into());
        match self.client.variant {
            Variant::Sotw => {
                let request =
                    SotwRequest { type_url, nonce, names: names.collect(), ..SotwRequest::default() };
                self.session.on_sotw(&request, Mono(0)).unwrap();
            }
            Variant::Delta => {
                let subscribe = names.filter(|_| first).collect();
                let request = DeltaRequest { type_url, nonce, subscribe, ..DeltaRequest::default() };
                self.session.on_delta(&request, Mono(0)).unwrap();
            }
        }
    }
    /// Returns whether a publication woke it.
    fn is_woken(&mut self) -> bool {
        let woken = pin!(self.wake.woken()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready((touched, observed)) = woken else { return false };
        self.session.on_generation_of(touched, observed);
        self.woken = true;
        true
    }
    /// Reads until it has all of a generation, as the transport does.
    fn read(&mut self, catalog: &Arc<Catalog>) {
        loop {
            if let Some(interest) = self.session.take_interest() {
                self.registration.update(interest, self.session.class(), Vec::new());
                self.session.on_generation(ChangedHosts::Everything);
            }
            match self.session.on_writable(Mono(0), || Arc::clone(catalog)) {
                Some(out) => self.receive(out),
                None if self.session.interest_is_due() => {}
                None => break,
            }
        }
        self.wake.handled();
        self.woken = false;
    }
    fn receive(&mut self, out: Outgoing) {
        let (kind, variant) = (out.kind, self.client.variant);
        let message = out.rope.message();
        let response = match variant {
            Variant::Sotw => Response::decode_sotw(message),
            Variant::Delta => Response::decode_delta(message),
        };
        let response = response.unwrap();
        if variant == Variant::Sotw && kind.has_wildcard() {
            self.held.retain(|(of, _), _| *of != kind);
        }
        for resource in response.resources {
            self.held.insert((kind, name_in(kind, &resource.body)), resource.body);
        }
        for name in response.removed {
            self.held.remove(&(kind, name.as_str().to_owned()));
        }
        self.send(kind, response.nonce.as_str(), false);
    }
}

fn name_in(kind: ResourceType, body: &[u8]) -> String {
    match kind {
        ResourceType::Cluster => Cluster::decode(body).unwrap().name,
        ResourceType::Endpoints => ClusterLoadAssignment::decode(body).unwrap().cluster_name,
        ResourceType::Listener => Listener::decode(body).unwrap().name,
        ResourceType::Route => RouteConfiguration::decode(body).unwrap().name,
    }
}

/// A server with its clients.
struct Server {
    facts: Facts,
    world: World,
    catalog: Arc<Catalog>,
    answers: Arc<CatalogAnswers>,
    index: Arc<InterestIndex>,
    streams: Vec<Stream>,
}

impl Server {
    fn new(part: usize, clients: &[Kind]) -> Self {
        let answers = Arc::new(CatalogAnswers::layered(Budget::DEFAULT, Layering { most: usize::MAX, part }));
        let env = Arc::new(Env::new(Arc::clone(&answers) as _, Arc::new(ServerCounters::default()), STUCK));
        let index = Arc::new(InterestIndex::default());
        let streams = clients.iter().map(|client| Stream::open(*client, &env, &index)).collect();
        let mut world = World::default();
        let catalog = world.next(&[]);
        let mut out = Self { facts: Facts::default(), world, catalog, answers, index, streams };
        let catalog = Arc::clone(&out.catalog);
        out.streams.iter_mut().for_each(|stream| stream.read(&catalog));
        out
    }
    /// Publishes an edit, and returns which clients it woke.
    fn publish(&mut self, edit: &Edit) -> Vec<bool> {
        self.facts.apply(edit);
        let before = Arc::clone(&self.catalog);
        let hosts = self.world.next(&self.facts.services);
        let policies = self.facts.policies.clone().into_iter().collect();
        self.catalog = Arc::new(Catalog { policies, ..(*hosts).clone() });
        let changed = changes(&before, &self.catalog);
        self.index.published(&self.catalog, &changed, ObservedSince::default());
        self.streams.iter_mut().map(Stream::is_woken).collect()
    }
    fn read(&mut self, which: impl Fn(usize) -> bool) {
        let woken = self.streams.iter_mut().enumerate().filter(|(at, stream)| stream.woken && which(*at));
        woken.for_each(|(_, stream)| stream.read(&self.catalog));
    }
    /// Checks the clients that have read everything or were not woken.
    fn check(&self) -> Result<(), TestCaseError> {
        for stream in self.streams.iter().filter(|stream| !stream.woken) {
            let expected = expected(&self.facts, stream.client);
            let differ = |name: &&(ResourceType, String)| expected.get(*name) != stream.held.get(*name);
            let names: BTreeSet<_> = expected.keys().chain(stream.held.keys()).filter(differ).collect();
            prop_assert!(names.is_empty(), "{:?} differs in {:?}", stream.client, names);
            is_naive(&self.facts, stream.client, &stream.held)?;
        }
        Ok(())
    }
}

fn changes(before: &Catalog, now: &Catalog) -> CatalogChanges {
    use imbl::ordmap::DiffItem::{Add, Remove, Update};
    let hosts = before.hosts.diff(&now.hosts).map(|item| match item {
        Add(host, _) | Remove(host, _) | Update { new: (host, _), .. } => host.clone(),
    });
    let policies = before.policies.diff(&now.policies).map(|item| match item {
        Add(key, _) | Remove(key, _) | Update { new: (key, _), .. } => key.clone(),
    });
    CatalogChanges { hosts: hosts.collect(), policies: policies.collect(), ..CatalogChanges::default() }
}

/// Returns what the policies decide for each client.
fn sidecars(facts: &Facts) -> Vec<Option<ClientSidecar>> {
    CLIENTS.iter().map(|client| facts.sidecar(client.namespace, client.app)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn clients_hold_what_a_naive_reading_gives(
        edits in prop::collection::vec((some_edit(), any::<u16>()), 1..8),
        part in prop::sample::select(vec![1usize, 8]),
    ) {
        let mut server = Server::new(part, &CLIENTS);
        for (edit, reads) in &edits {
            let (before, idle) = (sidecars(&server.facts), server.streams.iter().map(|s| !s.woken).collect::<Vec<_>>());
            let woken = server.publish(edit);
            if matches!(edit, Edit::Put(..) | Edit::Remove(..)) {
                let now = sidecars(&server.facts);
                for at in (0..CLIENTS.len()).filter(|at| idle[*at]) {
                    prop_assert_eq!(woken[at], before[at] != now[at], "{:?} by {:?}", CLIENTS[at], edit);
                }
            }
            server.read(|at| reads >> at & 1 == 1);
            server.check()?;
        }
        server.read(|_| true);
        server.check()?;
    }

    #[test]
    fn clients_that_see_alike_share_allocations(services in some_services(), egress in some_listeners()) {
        let mut server = Server::new(1, &[]);
        server.publish(&Edit::Services(services));
        server.publish(&Edit::Put("web", "a", "", egress));
        let classes: Vec<_> = CLIENTS.iter().map(|client| client.class(&server.facts)).collect();
        let sets: Vec<_> = classes.iter().map(|class| server.answers.all(&server.catalog, class, ResourceType::Cluster)).collect();
        for ((a, b), (x, y)) in pairs(&classes).zip(pairs(&sets)) {
            if a.kind != b.kind {
                continue;
            }
            let own = |class: &ClientClassKey, host: &str| {
                let found = tributary_answer::resolve(&server.catalog, host, class.scope(), &mut ());
                found.map(|view| Arc::as_ptr(view) as usize)
            };
            for member in x.iter().filter(|member| member.name.contains('|')) {
                let host = member.name.parse::<ClusterName>().unwrap().host;
                let Some(other) = y.get(&member.name).filter(|_| own(a, host.as_str()) == own(b, host.as_str())) else { continue };
                prop_assert!(Arc::ptr_eq(member, other), "{} is encoded twice", member.name);
            }
            let open = a.scope().egress().is_none() && b.scope().egress().is_none();
            prop_assert!(!open || x.version() != y.version() || Arc::ptr_eq(x, y), "{:?} {:?}", a.namespace, b.namespace);
        }
    }
}

fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().flat_map(move |a| all.iter().map(move |b| (a, b)))
}

#[test]
fn sidecar_that_selects_no_client_changes_nothing() {
    let mut server = Server::new(8, &CLIENTS);
    server.publish(&Edit::Services(vec![mk_svc("a.shop"), mk_svc("b.shop").in_namespace("web")]));
    server.read(|_| true);
    let counted = |server: &Server| {
        let counters = server.answers.counters();
        (
            ResourceType::ALL.map(|kind| counters.encodes(kind)),
            Cause::ALL.map(|cause| counters.passes(cause)),
            counters.overlays.get(),
        )
    };
    let nothing = tributary_fixtures::mk_egress(&[(None, &["~/*"])]);
    let sets = |server: &Server| {
        let of = |stream: &Stream| {
            server.answers.all(&server.catalog, stream.session.class(), ResourceType::Cluster)
        };
        server.streams.iter().map(of).collect::<Vec<_>>()
    };
    let held = sets(&server);
    let before = counted(&server);
    for (namespace, app) in [("shop", "none"), ("web", "none"), (ROOT, "pay"), ("nowhere", "")] {
        let woken = server.publish(&Edit::Put(namespace, "a", app, Arc::clone(&nothing)));
        assert_eq!(woken, [false; CLIENTS.len()], "{namespace} {app}");
    }
    assert!(held.iter().zip(sets(&server)).all(|(a, b)| a.version() == b.version()));
    assert_eq!(counted(&server), before);
}

#[test]
fn clients_follow_the_service_that_their_namespace_alone_sees() {
    let clients = CLIENTS.map(|client| Kind { app: "", ..client });
    let public = mk_svc("a.shop");
    for visibility in [Visibility::Own, Visibility::Public] {
        let mut server = Server::new(1, &clients);
        let own = Svc { visibility, ..mk_svc("a.shop").in_namespace("web").at(&["10.0.0.2"]) };
        let both = |own: Svc| vec![public.clone(), own];
        let moved = own.clone().at(&["10.0.0.3"]);
        let changed = moved.clone().on(&[(80, Protocol::Tcp), (81, Protocol::Grpc)]);
        let only = || vec![public.clone()];
        for services in [only(), both(own.clone()), both(moved), both(changed), only(), vec![own], only()] {
            server.publish(&Edit::Services(services));
            server.read(|_| true);
            server.check().unwrap();
        }
    }
}
