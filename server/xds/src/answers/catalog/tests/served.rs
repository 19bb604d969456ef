//! What clients hold after random changes of services, exports and Sidecars equals a naive reading of all facts. The
//! clients have real sessions, which only the interest index wakes.

mod client;
mod facts;
mod naive;
mod stream;

use std::collections::BTreeSet;

use client::{CLIENTS, Kind, SIDECAR, expected};
use facts::{Edit, Facts, ROOT, some_edit};
use naive::is_naive;
use proptest::prelude::*;
use stream::Stream;
use tributary_answer::ClientSidecar;
use tributary_model::{CatalogChanges, ObservedSince, Visibility};

use super::properties::some_services;
use super::scopes::some_listeners;
use super::*;
use crate::counters::Counters as ServerCounters;
use crate::interest::InterestIndex;
use crate::session::{Env, STUCK};

/// A server with its clients.
struct Server {
    facts: Facts,
    world: World,
    catalog: Arc<Catalog>,
    answers: Arc<CatalogAnswers>,
    index: Arc<InterestIndex>,
    streams: Vec<Stream>,
    counters: Arc<ServerCounters>,
}

impl Server {
    fn new(part: usize, clients: &[Kind]) -> Self {
        let answers = Arc::new(CatalogAnswers::layered(Budget::DEFAULT, Layering { most: usize::MAX, part }));
        let counters = Arc::new(ServerCounters::default());
        let env = Arc::new(Env::new(Arc::clone(&answers) as _, Arc::clone(&counters), STUCK));
        let index = Arc::new(InterestIndex::default());
        let streams = clients.iter().map(|client| Stream::open(*client, &env, &index)).collect();
        let mut world = World::default();
        let catalog = world.next(&[]);
        let mut out = Self { facts: Facts::default(), world, catalog, answers, index, streams, counters };
        let catalog = Arc::clone(&out.catalog);
        out.streams.iter_mut().for_each(|stream| stream.read(&catalog));
        out
    }
    /// Publishes an edit, and returns which clients it woke.
    fn publish(&mut self, edit: &Edit) -> Vec<bool> {
        self.facts.apply(edit);
        let before = Arc::clone(&self.catalog);
        let hosts = self.world.next(&self.facts.services);
        let policies = self.facts.policies.clone();
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

#[test]
fn policies_are_read_once_for_all_clients_with_equal_labels() {
    let clients: Vec<Kind> = ["pay", "cart"]
        .into_iter()
        .flat_map(|app| std::iter::repeat_n(Kind { app, everything: false, ..SIDECAR }, 500))
        .collect();
    let mut server = Server::new(8, &clients);
    let step = |server: &mut Server, edit: &Edit| {
        let before = server.counters.policies_selected.get();
        let woken = server.publish(edit).into_iter().filter(|woken| *woken).count();
        server.read(|_| true);
        (woken, server.counters.policies_selected.get() - before)
    };
    let at = |ip: &str| Edit::Services(vec![mk_svc("a.shop").at(&[ip])]);
    assert_eq!(server.counters.policies_selected.get(), 2, "once for the labels of each half");
    assert_eq!(step(&mut server, &at("10.0.0.1")), (1_000, 0));
    let nothing = tributary_fixtures::mk_egress(&[(None, &["~/*"])]);
    let policy = |app, egress| Edit::Put("shop", "a", app, egress);
    // only the half that the policy selects, before or after, is looked at
    assert_eq!(step(&mut server, &policy("pay", Arc::clone(&nothing))), (500, 1));
    assert_eq!(step(&mut server, &policy("none", nothing)), (500, 1));
    assert_eq!(step(&mut server, &at("10.0.0.2")), (1_000, 1), "the other half, with its next change");
    assert_eq!(step(&mut server, &at("10.0.0.3")), (1_000, 0));
}
