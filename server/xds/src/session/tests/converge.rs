//! Any interleaving of changes, requests, responses, rejections, stalls and reconnects ends with a
//! client that holds the catalog; meanwhile no resource returns to an older version, and each xDS cluster gets
//! its assignment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// A client that applies and acknowledges responses, and subscribes to the assignments of the
/// clusters that it holds.
#[derive(Default)]
struct Client {
    delta: bool,
    /// Whether it subscribes only to assignments and routes, by name.
    named: bool,
    held: BTreeMap<(ResourceType, String), (u64, String)>,
    /// Clusters that wait for an assignment.
    warming: BTreeSet<String>,
    wanted: BTreeSet<String>,
    nonces: BTreeMap<ResourceType, String>,
    outbox: VecDeque<Request>,
    refuses: bool,
}

enum Request {
    Sotw(SotwRequest),
    Delta(DeltaRequest),
}

const ROUTES: [&str; 4] = ["n0", "n1", "n2", "n3"];

impl Client {
    /// Opens a stream. A delta client lists what it holds.
    fn open(&mut self) {
        self.outbox.clear();
        self.nonces.clear();
        self.warming.clear();
        if self.named {
            self.wanted = ROUTES.map(String::from).into();
            self.first(E, &ROUTES);
            self.first(R, &ROUTES);
            return;
        }
        for kind in [C, L] {
            self.first(kind, &[]);
        }
        self.first(R, &ROUTES);
        let wanted: Vec<String> = self.wanted.iter().cloned().collect();
        if !wanted.is_empty() {
            self.first(E, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    fn first(&mut self, kind: ResourceType, names: &[&str]) {
        if self.delta {
            let held = self.held.iter().filter(|((k, _), _)| *k == kind);
            let initial = held.map(|((_, name), (_, version))| (name.as_str(), version.as_str())).collect();
            self.outbox.push_back(Request::Delta(DeltaRequest {
                subscribe: list(names),
                initial,
                ..mk_delta(kind)
            }));
        } else {
            self.outbox.push_back(Request::Sotw(SotwRequest { names: list(names), ..mk_sotw(kind) }));
        }
    }
    fn receive(
        &mut self,
        response: &TestResponse,
        versions: &BTreeMap<String, String>,
    ) -> Result<(), TestCaseError> {
        self.nonces.insert(response.kind, response.nonce.clone());
        let mut listed = BTreeSet::new();
        for resource in &response.resources {
            let (name, body) = resource.split_once('=').unwrap();
            if response.kind == E && !self.wanted.contains(name) {
                continue; // unsubscribed while the response was in flight
            }
            listed.insert(name.to_owned());
            let value = body.parse().unwrap_or(0);
            let before = self.held.insert(
                (response.kind, name.into()),
                (value, versions.get(name).cloned().unwrap_or_default()),
            );
            if let Some((old, _)) = before.as_ref().filter(|_| value != 0) {
                prop_assert!(*old <= value, "{:?} {name} returned from {old} to {value}", response.kind);
            }
            match response.kind {
                ResourceType::Cluster if before.is_none_or(|(old, _)| old != value) => {
                    self.warming.insert(name.into());
                }
                ResourceType::Endpoints => {
                    self.warming.remove(name);
                }
                _ => {}
            }
        }
        let full = !self.delta && response.kind.has_wildcard();
        self.held.retain(|(kind, name), _| *kind != response.kind || !full || listed.contains(name));
        for name in &response.removed {
            self.held.remove(&(response.kind, name.clone()));
        }
        self.acknowledge(response);
        if response.kind == C {
            self.subscribe_to_assignments();
        }
        Ok(())
    }
    fn clusters(&self) -> BTreeSet<String> {
        self.held.keys().filter(|(kind, _)| *kind == C).map(|(_, name)| name.clone()).collect()
    }
    fn acknowledge(&mut self, response: &TestResponse) {
        let refused = std::mem::take(&mut self.refuses);
        let error = refused.then(|| ErrorDetail { code: 3, message: "no".into() });
        let nonce = response.nonce.as_str().into();
        if self.delta {
            self.outbox.push_back(Request::Delta(DeltaRequest { nonce, error, ..mk_delta(response.kind) }));
        } else {
            let names = self.names(response.kind);
            self.outbox.push_back(Request::Sotw(SotwRequest {
                nonce,
                error,
                names,
                ..mk_sotw(response.kind)
            }));
        }
    }
    fn names(&self, kind: ResourceType) -> Names {
        match kind {
            ResourceType::Endpoints => self.wanted.iter().map(String::as_str).collect(),
            ResourceType::Route => list(&ROUTES),
            ResourceType::Cluster | ResourceType::Listener | ResourceType::Secret => Names::default(),
        }
    }
    fn subscribe_to_assignments(&mut self) {
        let clusters = self.clusters();
        if clusters == self.wanted {
            return;
        }
        let added: Vec<&str> = clusters.difference(&self.wanted).map(String::as_str).collect();
        let dropped: Vec<&str> = self.wanted.difference(&clusters).map(String::as_str).collect();
        let request = DeltaRequest { subscribe: list(&added), unsubscribe: list(&dropped), ..mk_delta(E) };
        let dropped: Vec<String> = dropped.iter().map(ToString::to_string).collect();
        self.wanted = clusters;
        for name in dropped {
            self.held.remove(&(E, name.clone()));
            self.warming.remove(&name);
        }
        if self.delta {
            self.outbox.push_back(Request::Delta(request));
        } else {
            let nonce = self.nonces.get(&E).map_or("", String::as_str).into();
            self.outbox.push_back(Request::Sotw(SotwRequest { nonce, names: self.names(E), ..mk_sotw(E) }));
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Service(usize),
    Endpoints(usize),
    Vanish(usize),
    Listener(usize),
    Route(usize),
    DropRest(usize),
    Write,
    Deliver,
    Request,
    Refuse,
    Stall,
    Reconnect,
    Incomplete,
    Complete,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let at = || 0..4usize;
    let one = prop_oneof![
        2 => at().prop_map(Op::Service),
        3 => at().prop_map(Op::Endpoints),
        2 => at().prop_map(Op::Vanish),
        1 => at().prop_map(Op::Listener),
        1 => at().prop_map(Op::Route),
        1 => at().prop_map(Op::DropRest),
        6 => Just(Op::Write),
        6 => Just(Op::Deliver),
        6 => Just(Op::Request),
        1 => Just(Op::Refuse),
        1 => Just(Op::Stall),
        1 => Just(Op::Reconnect),
        1 => Just(Op::Incomplete),
        1 => Just(Op::Complete),
    ];
    proptest::collection::vec(one, 0..120)
}

struct Run {
    stream: TestStream,
    client: Client,
    wire: VecDeque<(TestResponse, BTreeMap<String, String>)>,
}

impl Run {
    fn new(variant: Variant, named: bool) -> Self {
        let mut client = Client { delta: variant == Variant::Delta, named, ..Client::default() };
        client.open();
        Self { stream: TestStream::new(variant, &[]), client, wire: VecDeque::new() }
    }
    fn change(&mut self, host: &str, change: impl FnOnce(&mut World, String)) {
        let value = (self.stream.catalog.generation + 1).to_string();
        if self.client.named {
            self.stream.touch(&[host], |world| change(world, value));
        } else {
            self.stream.change(|world| change(world, value));
        }
    }
    fn write(&mut self) -> bool {
        let catalog = Arc::clone(&self.stream.catalog);
        if self.stream.session.take_interest().is_some() {
            self.stream.session.on_generation(ChangedHosts::Everything);
        }
        let Some(out) = self.stream.session.on_writable(self.stream.now, move || Arc::clone(&catalog)) else {
            return false;
        };
        let versions = match self.stream.session.variant() {
            Variant::Sotw => BTreeMap::new(),
            Variant::Delta => versions_of(&out),
        };
        self.wire.push_back((decode(self.stream.session.variant(), out), versions));
        true
    }
    fn deliver(&mut self) -> Result<bool, TestCaseError> {
        let Some((response, versions)) = self.wire.pop_front() else { return Ok(false) };
        self.client.receive(&response, &versions)?;
        Ok(true)
    }
    fn request(&mut self) -> bool {
        match self.client.outbox.pop_front() {
            Some(Request::Sotw(request)) => self.stream.send_sotw(request),
            Some(Request::Delta(request)) => self.stream.send_delta(request),
            None => return false,
        }
        true
    }
    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let name = |i: &usize| format!("n{i}");
        match op {
            Op::Service(i) => self.change(&name(i), |world, value| {
                world.insert((C, name(i)), value.clone());
                world.entry((E, name(i))).or_insert(value);
            }),
            Op::Endpoints(i) => self.change(&name(i), |world, value| {
                if world.contains_key(&(C, name(i))) {
                    world.insert((E, name(i)), value);
                }
            }),
            Op::Vanish(i) => self.change(&name(i), |world, _| {
                world.remove(&(C, name(i)));
                world.remove(&(E, name(i)));
            }),
            Op::Listener(i) => self.change(&name(i), |world, value| drop(world.insert((L, name(i)), value))),
            Op::Route(i) => self.change(&name(i), |world, value| drop(world.insert((R, name(i)), value))),
            Op::DropRest(i) => self.change(&name(i), |world, _| {
                world.remove(&(L, name(i)));
                world.remove(&(R, name(i)));
            }),
            Op::Write => drop(self.write()),
            Op::Deliver => drop(self.deliver()?),
            Op::Request => drop(self.request()),
            Op::Refuse => self.client.refuses = true,
            Op::Stall => {
                self.stream.now = self.stream.now.plus(crate::session::stuck::SLOW);
                self.stream.session.on_tick(self.stream.now).unwrap();
            }
            Op::Reconnect => {
                self.wire.clear();
                self.client.open();
                self.stream = self.stream.reconnect();
            }
            Op::Incomplete => self.stream.complete(false),
            Op::Complete => self.stream.complete(true),
        }
        Ok(())
    }
    /// Delivers everything in flight.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.stream.complete(true);
        for _ in 0..1_000 {
            let (request, write, deliver) = (self.request(), self.write(), self.deliver()?);
            if !(request || write || deliver) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("server and client never settle"))
    }
    /// Sends listeners and routes that the client accepts, if it rejects some: meanwhile it keeps xDS clusters.
    fn accept_routes(&mut self) -> Result<(), TestCaseError> {
        if self.client.named || !self.client.delta || !self.stream.session.rejects_routes() {
            return Ok(());
        }
        let keeps = |name: &&str| self.client.held.contains_key(&(C, (*name).to_owned()));
        let world = &self.stream.world;
        let mut declared = ROUTES.iter().filter(|name| world.contains_key(&(C, (**name).to_owned())));
        prop_assert!(declared.all(keeps), "a cluster was not sent");
        for at in 0..ROUTES.len() {
            self.step(&Op::Listener(at))?;
            self.step(&Op::Route(at))?;
        }
        self.settle()
    }
    fn holds_the_catalog(&self) -> Result<(), TestCaseError> {
        let world = &self.stream.world;
        let values = |kind: ResourceType| -> BTreeMap<&str, u64> {
            let of_kind = world.iter().filter(move |((k, _), _)| *k == kind);
            of_kind.map(|((_, name), value)| (name.as_str(), value.parse().unwrap())).collect()
        };
        let held = |kind: ResourceType| -> BTreeMap<&str, u64> {
            let of_kind = self.client.held.iter().filter(move |((k, _), _)| *k == kind);
            of_kind.map(|((_, name), (value, _))| (name.as_str(), *value)).collect()
        };
        if self.client.named {
            for name in ROUTES {
                prop_assert_eq!(held(E).get(name).copied(), Some(values(E).get(name).copied().unwrap_or(0)));
            }
            return Ok(());
        }
        prop_assert_eq!(held(C), values(C));
        prop_assert_eq!(held(L), values(L));
        prop_assert_eq!(held(E), values(E));
        for (name, value) in values(R) {
            prop_assert_eq!(held(R).get(name).copied(), Some(value));
        }
        if self.client.delta {
            prop_assert_eq!(held(R), values(R), "a removed route was not sent");
        }
        prop_assert!(
            self.client.warming.is_empty(),
            "clusters without assignments: {:?}",
            self.client.warming
        );
        Ok(())
    }
}

fn versions_of(out: &Outgoing) -> BTreeMap<String, String> {
    let response = Response::decode_delta(out.rope.clone().message()).unwrap();
    response.resources.iter().map(|r| (r.name.to_string(), r.version.to_string())).collect()
}

fn run(variant: Variant, named: bool, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut run = Run::new(variant, named);
    for op in ops {
        run.step(op)?;
    }
    run.settle()?;
    run.client.refuses = false;
    run.accept_routes()?;
    run.holds_the_catalog()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_delta_client_converges(ops in ops()) {
        run(Variant::Delta, false, &ops)?;
    }

    #[test]
    fn a_sotw_client_converges(ops in ops()) {
        run(Variant::Sotw, false, &ops)?;
    }

    #[test]
    fn client_with_few_names_converges(ops in ops(), delta in any::<bool>()) {
        run(if delta { Variant::Delta } else { Variant::Sotw }, true, &ops)?;
    }
}
