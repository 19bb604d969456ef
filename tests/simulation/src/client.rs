//! A client of ADS, as Envoy is one: the shipped session of each process behind the shipped index of wake-ups, and what the client
//! holds from one process to the next.
//!
//! The observer passes publications on, and the client answers at once. For a time it is slow, and then reads several generations as
//! one. It returns what must not happen: an address that is served and that a response takes away, and a difference to the catalog
//! after everything was read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::{core::v3::address::Address, endpoint::v3::lb_endpoint::HostIdentifier};
use prost::Message as _;
use tokio::time::Instant;
use tributary_model::{Catalog, CatalogChanges, Mono, ObservedSince};
use tributary_proto::peer::{Received, Response};
use tributary_proto::{DeltaRequest, Names, Node, SotwRequest, Variant};
use tributary_xds::InterestIndex;
use tributary_xds::answers::{CatalogAnswers, ResourceType};
use tributary_xds::client::ClientNode;
use tributary_xds::counters::Counters;
use tributary_xds::interest::{Registration, Wake};
use tributary_xds::session::{ChangedHosts, Env, Outgoing, Session};

use crate::bugs::Bug;
use crate::dice::Dice;
use crate::served::Served;

const CLUSTER: ResourceType = ResourceType::Cluster;
const ENDPOINTS: ResourceType = ResourceType::Endpoints;
/// Bytes of encoded resources that a process keeps.
const BUDGET: u64 = 8 << 20;
/// Longest time without reading, in milliseconds.
const SLOW: u64 = 20_000;

/// Invariant that did not hold, and what was seen.
pub type Broken = (&'static str, String);

/// What the client holds of an xDS cluster or an assignment.
#[derive(Debug, Clone, Default)]
struct Resource {
    version: String,
    addresses: BTreeSet<IpAddr>,
}

/// Client and what it holds.
pub struct Client {
    variant: Variant,
    held: BTreeMap<(ResourceType, String), Resource>,
    /// Version of the last response of a type (SotW).
    versions: BTreeMap<ResourceType, String>,
    dice: Dice,
    bug: Option<Bug>,
    /// Part of the process that serves it.
    server: Server,
    stream: Option<Stream>,
    slow_until: Instant,
    /// Catalog that was compared last with what it holds.
    compared: Weak<Catalog>,
}

/// A catalog, and the addresses of its hosts.
type Current<'a> = (&'a Arc<Catalog>, &'a BTreeMap<String, BTreeSet<IpAddr>>);

/// What the streams of a process share.
struct Server {
    env: Arc<Env>,
    index: Arc<InterestIndex>,
    /// Hosts that the process has served.
    known: BTreeSet<String>,
}

impl Server {
    fn new() -> Self {
        let answers = Arc::new(CatalogAnswers::new(BUDGET));
        let env = Env::new(answers, Arc::new(Counters::default()), Duration::from_secs(60));
        Self { env: Arc::new(env), index: Arc::default(), known: BTreeSet::new() }
    }
}

/// Stream to a process.
struct Stream {
    session: Session,
    wake: Arc<Wake>,
    registration: Registration,
    began: Instant,
    /// Nonce of the last response with assignments.
    nonce: String,
}

impl Client {
    /// Creates a client that holds nothing.
    #[must_use]
    pub fn new(mut dice: Dice, bug: Option<Bug>) -> Self {
        let variant = if dice.percent(50) { Variant::Delta } else { Variant::Sotw };
        Self {
            variant,
            held: BTreeMap::new(),
            versions: BTreeMap::new(),
            dice,
            bug,
            server: Server::new(),
            stream: None,
            slow_until: Instant::now(),
            compared: Weak::new(),
        }
    }
    /// Returns the variant of its streams.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        self.variant
    }
    /// Ends the stream; the next publication comes from another process.
    pub fn disconnect(&mut self) {
        self.stream = None;
        self.server = Server::new();
    }
    /// Takes a publication, and reads unless it is slow or the process does not answer yet.
    pub fn published(
        &mut self,
        (catalog, changed): (&Arc<Catalog>, &CatalogChanges),
        observed: ObservedSince,
        is_ready: bool,
    ) -> Vec<Broken> {
        self.server.known.extend(catalog.services().map(|view| view.key.host.to_string()));
        let is_lost = self.bug == Some(Bug::WakeUpLost) && self.dice.percent(20);
        if !is_lost {
            self.server.index.published(catalog, changed, observed);
        }
        if self.dice.percent(5) {
            self.slow_until =
                Instant::now() + Duration::from_millis(1 + self.dice.below(SLOW as usize) as u64);
        }
        self.read(catalog, is_ready)
    }
    /// Reads everything that is new, if it can.
    pub fn read(&mut self, catalog: &Arc<Catalog>, is_ready: bool) -> Vec<Broken> {
        if !is_ready || Instant::now() < self.slow_until {
            return Vec::new();
        }
        let is_new = self.stream.is_none();
        if is_new {
            self.connect();
        }
        let Some(mut stream) = self.stream.take() else { return Vec::new() };
        let is_due = is_new || stream.is_woken() || stream.is_due();
        let broken = if is_due || !self.has_compared(catalog) {
            self.compared = Arc::downgrade(catalog);
            self.take_all(&mut stream, (catalog, &by_host(catalog)), is_due)
        } else {
            Vec::new()
        };
        self.stream = Some(stream);
        broken
    }
    fn has_compared(&self, catalog: &Arc<Catalog>) -> bool {
        std::ptr::eq(self.compared.as_ptr(), Arc::as_ptr(catalog))
    }
    /// Receives what the session sends, if it was woken, and compares what the client holds then.
    fn take_all(&mut self, stream: &mut Stream, current: Current<'_>, is_due: bool) -> Vec<Broken> {
        let mut broken = Vec::new();
        while let Some(out) = is_due.then(|| stream.next(current.0)).flatten() {
            broken.extend(self.receive(stream, out, current));
        }
        if is_due {
            stream.wake.handled();
        }
        let waits = stream.session.deadline().is_some();
        broken.extend(self.differences(current, waits));
        broken
    }

    /// Opens a stream and subscribes, with what the client holds.
    fn connect(&mut self) {
        let id = "sidecar~10.9.0.1~probe.shop~shop.svc.cluster.local";
        let node = Node { id: id.into(), ..Node::default() };
        let node = Arc::new(ClientNode::parse(Some(&node)).expect("a node"));
        let wake = self.server.index.wake();
        let registration = self.server.index.register(Arc::clone(&wake), Arc::clone(&node));
        let session = Session::new(Arc::clone(&self.server.env), self.variant, node, Mono::START);
        let mut stream = Stream { session, wake, registration, began: Instant::now(), nonce: String::new() };
        self.subscribe(&mut stream, CLUSTER);
        if self.held.keys().any(|(kind, _)| *kind == CLUSTER) {
            self.subscribe(&mut stream, ENDPOINTS);
        }
        self.stream = Some(stream);
    }
    fn names(&self, kind: ResourceType) -> impl Iterator<Item = &str> {
        self.held.keys().filter(move |(of, _)| *of == kind).map(|(_, name)| name.as_str())
    }
    /// Sends the first request of a type.
    fn subscribe(&self, stream: &mut Stream, kind: ResourceType) {
        let names: Names = if kind == ENDPOINTS { self.names(CLUSTER).collect() } else { Names::default() };
        let initial = self.held.iter().filter(|((of, _), _)| *of == kind);
        let initial = initial.map(|((_, name), resource)| (name.as_str(), resource.version.as_str()));
        match self.variant {
            Variant::Delta => stream.delta(DeltaRequest {
                subscribe: names,
                initial: initial.collect(),
                ..DeltaRequest { type_url: kind.type_url().into(), ..DeltaRequest::default() }
            }),
            Variant::Sotw => {
                let version = self.versions.get(&kind).map_or("", String::as_str).into();
                let type_url = kind.type_url().into();
                stream.sotw(SotwRequest { version, names, type_url, ..SotwRequest::default() });
            }
        }
    }
    /// Acknowledges a response, and follows the assignments of the xDS clusters that it holds now.
    fn acknowledge(&self, stream: &mut Stream, kind: ResourceType, nonce: &str, before: &BTreeSet<String>) {
        let type_url = kind.type_url();
        match self.variant {
            Variant::Delta => {
                stream.delta(DeltaRequest {
                    type_url: type_url.into(),
                    nonce: nonce.into(),
                    ..DeltaRequest::default()
                });
            }
            Variant::Sotw => {
                let names = if kind == ENDPOINTS { self.names(CLUSTER).collect() } else { Names::default() };
                let version = self.versions.get(&kind).map_or("", String::as_str).into();
                let (type_url, nonce) = (type_url.into(), nonce.into());
                stream.sotw(SotwRequest { version, names, type_url, nonce, ..SotwRequest::default() });
            }
        }
        let now: BTreeSet<String> = self.names(CLUSTER).map(str::to_owned).collect();
        if kind == CLUSTER && now != *before {
            self.follow(stream, (before, &now));
        }
    }
    /// Subscribes to the assignments of new xDS clusters, and ends the subscription of removed ones.
    fn follow(&self, stream: &mut Stream, (before, now): (&BTreeSet<String>, &BTreeSet<String>)) {
        let type_url = || ENDPOINTS.type_url().into();
        match self.variant {
            Variant::Delta => stream.delta(DeltaRequest {
                type_url: type_url(),
                subscribe: now.difference(before).map(String::as_str).collect(),
                unsubscribe: before.difference(now).map(String::as_str).collect(),
                ..DeltaRequest::default()
            }),
            Variant::Sotw => {
                let names = now.iter().map(String::as_str).collect();
                let nonce = stream.nonce.as_str().into();
                let version = self.versions.get(&ENDPOINTS).map_or("", String::as_str).into();
                let request =
                    SotwRequest { version, names, type_url: type_url(), nonce, ..SotwRequest::default() };
                stream.sotw(request);
            }
        }
    }
    /// Applies a response as Envoy does; returns what it takes away although it is served.
    fn receive(&mut self, stream: &mut Stream, out: Outgoing, current: Current<'_>) -> Vec<Broken> {
        let (kind, message) = (out.kind, out.rope.message());
        let response = match self.variant {
            Variant::Delta => Response::decode_delta(message),
            Variant::Sotw => Response::decode_sotw(message),
        };
        let response = response.expect("a response");
        let before = self.held.clone();
        let names = self.names(CLUSTER).map(str::to_owned).collect();
        self.store(kind, &response);
        self.versions.insert(kind, response.version.as_str().to_owned());
        if kind == ENDPOINTS {
            response.nonce.as_str().clone_into(&mut stream.nonce);
        }
        let lost = self.lost(&before, current);
        self.acknowledge(stream, kind, response.nonce.as_str(), &names);
        lost
    }
    fn store(&mut self, kind: ResourceType, response: &Response) {
        if self.variant == Variant::Sotw && kind == CLUSTER {
            self.held.retain(|(of, _), _| *of != CLUSTER);
        }
        for received in &response.resources {
            let (name, resource) = resource(kind, received);
            self.held.insert((kind, name), resource);
        }
        for name in &response.removed {
            self.held.remove(&(kind, name.as_str().to_owned()));
        }
        let clusters: BTreeSet<String> = self.names(CLUSTER).map(str::to_owned).collect();
        self.held.retain(|(of, name), _| *of != ENDPOINTS || clusters.contains(name));
    }
    /// Returns addresses that a response took away although the catalog has them, and xDS clusters of hosts that the process has not
    /// read.
    fn lost(
        &self,
        before: &BTreeMap<(ResourceType, String), Resource>,
        (catalog, served): Current<'_>,
    ) -> Vec<Broken> {
        let mut broken = Vec::new();
        for ((kind, name), resource) in before {
            let host = host(name);
            let now = self.held.get(&(*kind, name.clone()));
            // a full state cannot have what the process does not know
            let is_unread = self.variant == Variant::Delta && catalog.is_partial();
            if now.is_none() && is_unread && !self.server.known.contains(host) {
                broken.push(("client_keeps_what_was_not_read", format!("{name} was taken away")));
            }
            let kept = now.map(|now| &now.addresses);
            let gone = resource.addresses.iter().filter(|ip| !kept.is_some_and(|kept| kept.contains(*ip)));
            let served = gone.filter(|ip| served.get(host).is_some_and(|all| all.contains(*ip)));
            broken.extend(
                served.map(|ip| ("client_loses_nothing_on_the_way", format!("{name} {ip} was taken away"))),
            );
        }
        broken
    }
    /// Returns in what the client differs from the catalog. It may hold more of hosts that were not read, and while the session waits
    /// for a time limit: this client does not request routes, so what it returned with is removed later.
    fn differences(&self, (catalog, served): Current<'_>, waits: bool) -> Vec<Broken> {
        let differs = |(host, addresses): (&String, &BTreeSet<IpAddr>)| {
            let held = self.held.get(&(ENDPOINTS, format!("outbound|80||{host}")));
            let held = held.map(|resource| resource.addresses.clone()).unwrap_or_default();
            let is_equal = held == *addresses;
            (!is_equal).then(|| ("client_has_what_is_served", format!("{host} {held:?}, not {addresses:?}")))
        };
        let mut broken: Vec<Broken> = served.iter().filter_map(differs).collect();
        if !catalog.is_partial() && !waits {
            let more = self.held.iter().filter(|((_, name), resource)| {
                !resource.addresses.is_empty() && !served.contains_key(host(name))
            });
            broken
                .extend(more.map(|((_, name), _)| ("client_has_what_is_served", format!("{name} is held"))));
        }
        broken
    }
}

impl Stream {
    fn now(&self) -> Mono {
        Mono::from_elapsed(self.began.elapsed())
    }
    fn delta(&mut self, request: DeltaRequest) {
        let now = self.now();
        self.session.on_delta(&request, now).expect("a request that is taken");
    }
    fn sotw(&mut self, request: SotwRequest) {
        let now = self.now();
        self.session.on_sotw(&request, now).expect("a request that is taken");
    }
    /// Takes the wake-ups so far.
    fn is_woken(&mut self) -> bool {
        let woken = pin!(self.wake.woken()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready((touched, observed)) = woken else { return false };
        self.session.on_generation_of(touched, observed);
        true
    }
    /// Whether a time limit is over after which the session sends more.
    fn is_due(&mut self) -> bool {
        let now = self.now();
        let is_over = self.session.deadline().is_some_and(|due| due <= now);
        if is_over {
            self.session.on_tick(now).expect("a client that reads");
        }
        is_over && self.session.has_work()
    }
    /// Returns the next message, as the transport asks for it.
    fn next(&mut self, catalog: &Arc<Catalog>) -> Option<Outgoing> {
        loop {
            if let Some(interest) = self.session.take_interest() {
                let own = self.session.own_hosts().to_vec();
                self.registration.update(interest, self.session.class(), own);
                self.session.on_generation(ChangedHosts::Everything);
            }
            if self.registration.hold(self.session.holds_names()) {
                self.session.on_generation(ChangedHosts::Everything);
            }
            let out = self.session.on_writable(self.now(), || Arc::clone(catalog));
            if out.is_some() || !self.session.interest_is_due() {
                return out;
            }
        }
    }
}

fn resource(kind: ResourceType, received: &Received) -> (String, Resource) {
    let version = received.version.as_str().to_owned();
    if kind == CLUSTER {
        let name = envoy_types::pb::envoy::config::cluster::v3::Cluster::decode(&*received.body);
        return (name.expect("a cluster").name, Resource { version, addresses: BTreeSet::new() });
    }
    let assignment = ClusterLoadAssignment::decode(&*received.body).expect("an assignment");
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let addresses = endpoints.filter_map(|endpoint| {
        let Some(HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else { return None };
        match endpoint.address.as_ref()?.address.as_ref()? {
            Address::SocketAddress(socket) => socket.address.parse().ok(),
            _ => None,
        }
    });
    (assignment.cluster_name, Resource { version, addresses: addresses.collect() })
}

/// Returns the host of an xDS cluster.
fn host(name: &str) -> &str {
    name.rsplit('|').next().unwrap_or_default()
}

/// Returns the addresses of every host with one, of all clusters.
fn by_host(catalog: &Catalog) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut all: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for (_, (host, ip)) in Served::of(catalog).iter() {
        all.entry(host.clone()).or_default().insert(*ip);
    }
    all
}
