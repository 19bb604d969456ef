//! Content of the scripted Consul of a bench: services of equal size, their checks and the indexes.
//!
//! The server's tasks call it: each reads an index, waits until it moves, and fetches the body. Indexes move as
//! Consul's do: a flipped check moves the index of its service and that of all checks, and not the catalog's; a
//! registration moves all three. A query for an absent service has the index of the last service that vanished.

use std::fmt::Write as _;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// First value of all indexes.
const FIRST: u64 = 20;
/// Instances per node.
const PER_NODE: usize = 50;
/// Output of checks, which the registry ignores.
const OUTPUT: &str = "HTTP GET http://10.0.0.1:8080/health: 200 OK Output: all systems are fine here";

/// Size of the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Number of services.
    pub(crate) services: usize,
    /// Instances per service, at most 64.
    pub(crate) instances: usize,
}

impl Shape {
    /// Returns the number of instances of all services.
    pub(crate) const fn all(&self) -> usize {
        self.services * self.instances
    }
    fn nodes(&self) -> usize {
        (self.all() / PER_NODE).max(self.instances)
    }
}

/// Returns the name of a service.
pub(super) fn name(service: usize) -> String {
    format!("svc-{service:05}")
}

/// Requested resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Datacenters,
    Names,
    Checks,
    Service(usize),
    /// A service that does not exist.
    Nothing,
}

impl What {
    /// Parses a path.
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/catalog/datacenters" => Self::Datacenters,
            "/v1/catalog/services" => Self::Names,
            "/v1/health/state/any" => Self::Checks,
            _ => {
                let name = path.strip_prefix("/v1/health/service/")?;
                name.strip_prefix("svc-").and_then(|n| n.parse().ok()).map_or(Self::Nothing, Self::Service)
            }
        })
    }
}

/// Registration of a service.
#[derive(Clone)]
struct Registered {
    /// Index of the registration.
    at: u64,
    /// Instances whose check is critical, one bit each.
    critical: u64,
    /// Index at which each instance's check changed last.
    checks: Box<[u64]>,
}

impl Registered {
    fn new(at: u64, instances: usize) -> Self {
        Self { at, critical: 0, checks: vec![at; instances].into() }
    }
}

struct Service {
    index: u64,
    registered: Option<Registered>,
}

struct State {
    index: u64,
    /// Index of the names.
    names: u64,
    /// Index at which a service vanished last.
    vanished: u64,
    services: Vec<Service>,
}

impl State {
    /// Returns the index of a service and its registration.
    fn service(&self, service: usize) -> (u64, Option<&Registered>) {
        match self.services.get(service) {
            Some(Service { index, registered: Some(registered) }) => (*index, Some(registered)),
            Some(_) => (self.vanished, None),
            None => (FIRST, None),
        }
    }
}

/// The scripted catalog.
pub(super) struct Catalog {
    shape: Shape,
    state: Mutex<State>,
    moved: Vec<Notify>,
    checks_moved: Notify,
    names_moved: Notify,
    /// Fires when a service vanishes or returns, for queries for absent ones.
    absent_moved: Notify,
    never: Notify,
    /// List of all checks at an index; kept because it is long and several requests read it.
    checks: Mutex<(u64, Bytes)>,
}

impl Catalog {
    /// Creates a catalog in which every check passes.
    pub(super) fn new(shape: Shape) -> Self {
        let registered = || Some(Registered::new(FIRST, shape.instances));
        let services = (0..shape.services).map(|_| Service { index: FIRST, registered: registered() });
        let services = services.collect();
        Self {
            shape,
            state: Mutex::new(State { index: FIRST, names: FIRST, vanished: FIRST, services }),
            moved: (0..shape.services).map(|_| Notify::new()).collect(),
            checks_moved: Notify::new(),
            names_moved: Notify::new(),
            absent_moved: Notify::new(),
            never: Notify::new(),
            checks: Mutex::default(),
        }
    }
    /// Flips the check of one instance of this service.
    pub(super) fn flip(&self, service: usize) {
        let mut state = self.state.lock();
        state.index += 1;
        let index = state.index;
        if let Some(known) = state.services.get_mut(service) {
            known.index = index;
            let instance = service % self.shape.instances;
            if let Some(registered) = &mut known.registered {
                registered.critical ^= 1 << instance;
                registered.checks[instance] = index;
            }
        }
        drop(state);
        if let Some(moved) = self.moved.get(service) {
            moved.notify_waiters();
        }
        self.checks_moved.notify_waiters();
    }
    /// Registers all instances of a service, each with a passing check, or deregisters them.
    pub(super) fn set_present(&self, service: usize, present: bool) {
        let mut state = self.state.lock();
        state.index += 1;
        let index = state.index;
        state.names = index;
        if !present {
            state.vanished = index;
        }
        if let Some(known) = state.services.get_mut(service) {
            let registered = present.then(|| Registered::new(index, self.shape.instances));
            *known = Service { index, registered };
        }
        drop(state);
        if let Some(moved) = self.moved.get(service) {
            moved.notify_waiters();
        }
        for moved in [&self.checks_moved, &self.names_moved, &self.absent_moved] {
            moved.notify_waiters();
        }
    }
    /// Returns the number of critical instances.
    pub(super) fn critical(&self) -> u32 {
        let state = self.state.lock();
        let registered = state.services.iter().filter_map(|service| service.registered.as_ref());
        registered.map(|registered| registered.critical.count_ones()).sum()
    }
    pub(super) fn index(&self, what: What) -> u64 {
        let state = self.state.lock();
        match what {
            What::Checks => state.index,
            What::Service(n) => state.service(n).0,
            What::Names => state.names,
            What::Datacenters | What::Nothing => FIRST,
        }
    }
    fn is_present(&self, service: usize) -> bool {
        self.state.lock().service(service).1.is_some()
    }
    /// Returns the notification that fires when that index moves.
    pub(super) fn moved(&self, what: What) -> &Notify {
        match what {
            What::Checks => &self.checks_moved,
            What::Service(n) if !self.is_present(n) => &self.absent_moved,
            What::Service(n) => self.moved.get(n).unwrap_or(&self.never),
            What::Names => &self.names_moved,
            What::Datacenters | What::Nothing => &self.never,
        }
    }
    /// Returns a body with its index.
    pub(super) fn body(&self, what: What) -> (u64, Bytes) {
        match what {
            What::Datacenters => (FIRST, Bytes::from_static(b"[\"dc1\"]")),
            What::Nothing => (FIRST, Bytes::from_static(b"[]")),
            What::Names => self.names(),
            What::Checks => self.all_checks(),
            What::Service(n) => self.service(n),
        }
    }

    fn names(&self) -> (u64, Bytes) {
        let state = self.state.lock();
        let present = (0..self.shape.services).filter(|n| state.services[*n].registered.is_some());
        let all: Vec<String> = present.map(|n| format!(",\"{}\":[\"v1\"]", name(n))).collect();
        (state.names, format!("{{\"consul\":[]{}}}", all.concat()).into())
    }

    fn service(&self, n: usize) -> (u64, Bytes) {
        let (index, registered) = {
            let state = self.state.lock();
            let (index, registered) = state.service(n);
            (index, registered.cloned())
        };
        let Some(registered) = registered else { return (index, Bytes::from_static(b"[]")) };
        let mut out = String::with_capacity(1_600 * self.shape.instances);
        for instance in 0..self.shape.instances {
            out.push(if instance == 0 { '[' } else { ',' });
            self.entry(&mut out, n, instance, &registered);
        }
        out.push(']');
        (index, out.into())
    }

    fn all_checks(&self) -> (u64, Bytes) {
        let mut cached = self.checks.lock();
        let (index, registered): (u64, Vec<Option<Registered>>) = {
            let state = self.state.lock();
            (state.index, state.services.iter().map(|service| service.registered.clone()).collect())
        };
        if cached.0 != index {
            *cached = (index, self.write_checks(&registered));
        }
        cached.clone()
    }

    fn write_checks(&self, all: &[Option<Registered>]) -> Bytes {
        let mut out = String::with_capacity(420 * (self.shape.all() + self.shape.nodes()));
        for node in 0..self.shape.nodes() {
            out.push(if node == 0 { '[' } else { ',' });
            node_check(&mut out, node);
        }
        for (service, registered) in all.iter().enumerate() {
            let Some(registered) = registered else { continue };
            for instance in 0..self.shape.instances {
                out.push(',');
                self.check(&mut out, service, instance, registered);
            }
        }
        out.push(']');
        out.into()
    }

    fn node(&self, service: usize, instance: usize) -> usize {
        (service * self.shape.instances + instance) % self.shape.nodes()
    }

    /// Appends an entry; writing to a string does not fail.
    fn entry(&self, out: &mut String, service: usize, instance: usize, registered: &Registered) {
        let node = self.node(service, instance);
        let number = service * self.shape.instances + instance + 1;
        let ip = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
        let (name, node_ip) = (name(service), format!("10.200.{}.{}", node >> 8 & 255, node & 255));
        let _ = write!(
            out,
            "{{\"Node\":{{\"ID\":\"00000000-0000-4000-8000-{node:012}\",\"Node\":\"node-{node:05}\",\"Address\":\"{node_ip}\",\
             \"Datacenter\":\"dc1\",\"TaggedAddresses\":{{\"lan\":\"{node_ip}\",\"lan_ipv4\":\"{node_ip}\",\"wan\":\"{node_ip}\"}},\
             \"Meta\":{{\"consul-network-segment\":\"\",\"zone\":\"z{}\"}},\"CreateIndex\":11,\"ModifyIndex\":12}},\
             \"Service\":{{\"ID\":\"{name}-{instance}\",\"Service\":\"{name}\",\"Tags\":[\"v1\"],\"Address\":\"{ip}\",\
             \"TaggedAddresses\":{{\"lan_ipv4\":{{\"Address\":\"{ip}\",\"Port\":8080}},\"wan_ipv4\":{{\"Address\":\"{ip}\",\"Port\":8080}}}},\
             \"Meta\":{{\"version\":\"v1\",\"protocol\":\"http\"}},\"Port\":8080,\"Weights\":{{\"Passing\":1,\"Warning\":1}},\
             \"EnableTagOverride\":false,\"Proxy\":{{\"Mode\":\"\",\"MeshGateway\":{{}},\"Expose\":{{}}}},\"Connect\":{{}},\
             \"PeerName\":\"\",\"CreateIndex\":{at},\"ModifyIndex\":{at}}},\"Checks\":[",
            node % 3,
            at = registered.at,
        );
        node_check(out, node);
        out.push(',');
        self.check(out, service, instance, registered);
        out.push_str("]}");
    }

    fn check(&self, out: &mut String, service: usize, instance: usize, registered: &Registered) {
        let (name, node) = (name(service), self.node(service, instance));
        let status = if registered.critical >> instance & 1 == 1 { "critical" } else { "passing" };
        let _ = write!(
            out,
            "{{\"Node\":\"node-{node:05}\",\"CheckID\":\"service:{name}-{instance}\",\"Name\":\"Service '{name}' check\",\
             \"Status\":\"{status}\",\"Notes\":\"\",\"Output\":\"{OUTPUT}\",\"ServiceID\":\"{name}-{instance}\",\
             \"ServiceName\":\"{name}\",\"ServiceTags\":[\"v1\"],\"Type\":\"http\",\"Interval\":\"10s\",\"Timeout\":\"1s\",\
             \"ExposedPort\":0,\"Definition\":{{}},\"CreateIndex\":{},\"ModifyIndex\":{}}}",
            registered.at, registered.checks[instance],
        );
    }
}

fn node_check(out: &mut String, node: usize) {
    let _ = write!(
        out,
        "{{\"Node\":\"node-{node:05}\",\"CheckID\":\"serfHealth\",\"Name\":\"Serf Health Status\",\"Status\":\"passing\",\
         \"Notes\":\"\",\"Output\":\"Agent alive and reachable\",\"ServiceID\":\"\",\"ServiceName\":\"\",\"ServiceTags\":[],\
         \"Type\":\"\",\"Interval\":\"\",\"Timeout\":\"\",\"ExposedPort\":0,\"Definition\":{{}},\"CreateIndex\":11,\"ModifyIndex\":11}}",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn flip_moves_only_its_service_and_the_checks_index() {
        let catalog = Catalog::new(Shape { services: 4, instances: 3 });
        catalog.flip(2);
        let index = |what| catalog.index(what);
        assert_eq!((index(What::Service(2)), index(What::Checks)), (FIRST + 1, FIRST + 1));
        assert_eq!((index(What::Service(1)), index(What::Names), catalog.critical()), (FIRST, FIRST, 1));
        let (_, body) = catalog.body(What::Service(2));
        let entries: Value = serde_json::from_slice(&body).unwrap();
        let statuses: Vec<_> = (0..3).map(|n| entries[n]["Checks"][1]["Status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["passing", "passing", "critical"]);
        let (_, body) = catalog.body(What::Checks);
        let checks: Vec<Value> = serde_json::from_slice(&body).unwrap();
        assert_eq!(checks.iter().filter(|check| check["Status"] == "critical").count(), 1);
        assert_eq!(checks.len(), 3 + 12);
        let (_, body) = catalog.body(What::Names);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap().as_object().unwrap().len(), 5);
    }

    #[test]
    fn removed_service_leaves_every_list_until_it_returns() {
        let catalog = Catalog::new(Shape { services: 3, instances: 2 });
        let length = |what| {
            let body: Value = serde_json::from_slice(&catalog.body(what).1).unwrap();
            body.as_object().map_or_else(|| body.as_array().unwrap().len(), serde_json::Map::len)
        };
        let lengths = || [What::Names, What::Checks, What::Service(1)].map(length);
        let before = lengths();
        catalog.set_present(1, false);
        assert_eq!(lengths(), [before[0] - 1, before[1] - 2, 0]);
        catalog.set_present(2, false);
        let index = |what| catalog.index(what);
        assert_eq!(
            (index(What::Names), index(What::Service(1))),
            (FIRST + 2, FIRST + 2),
            "the last to vanish"
        );
        assert_eq!(index(What::Service(0)), FIRST);
        catalog.set_present(1, true);
        catalog.set_present(2, true);
        assert_eq!((lengths(), index(What::Service(1))), (before, FIRST + 3));
    }

    #[test]
    fn each_path_is_parsed_to_its_resource() {
        assert_eq!(What::of("/v1/health/service/svc-00012"), Some(What::Service(12)));
        assert_eq!(What::of("/v1/health/service/consul"), Some(What::Nothing));
        assert_eq!(What::of("/v1/kv/a"), None);
    }
}
