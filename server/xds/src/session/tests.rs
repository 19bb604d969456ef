//! Session tests: exchanges with a client that records what it receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Catalog, Hostname, Mono};
use tributary_proto::peer::Response;
use tributary_proto::{DeltaRequest, ErrorDetail, Names, Node, SotwRequest, Variant};

use super::{ChangedHosts, Env, Outgoing, STUCK, Session};
use crate::answers::ResourceType;
use crate::client::ClientNode;
use crate::counters::Counters;
use crate::fake::{Fake, World};

mod absent;
mod bounds;
mod converge;
mod delta;
mod incomplete;
mod private;
mod rejected_listeners;
mod rounds;
mod sent;
mod shared_rounds;
mod sotw;

pub(super) use ResourceType::{Cluster as C, Endpoints as E, Listener as L, Route as R};

/// A stream and the resources behind it.
pub(super) struct TestStream {
    pub(super) fake: Arc<Fake>,
    pub(super) env: Arc<Env>,
    pub(super) session: Session,
    pub(super) catalog: Arc<Catalog>,
    pub(super) world: World,
    pub(super) now: Mono,
    complete: bool,
}

/// A response, decoded to text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestResponse {
    pub(super) kind: ResourceType,
    pub(super) nonce: String,
    pub(super) version: String,
    /// `name=body`; an empty assignment is `name=`.
    pub(super) resources: Vec<String>,
    pub(super) removed: Vec<String>,
}

pub(super) fn mk_world(all: &[(ResourceType, &str, &str)]) -> World {
    all.iter().map(|&(kind, name, body)| ((kind, name.to_owned()), body.to_owned())).collect()
}

pub(super) fn mk_node() -> ClientNode {
    ClientNode::parse(Some(&Node { id: "test-id".into(), ..Node::default() })).unwrap()
}

impl TestStream {
    pub(super) fn new(variant: Variant, world: &[(ResourceType, &str, &str)]) -> Self {
        let fake = Arc::new(Fake::default());
        let env = Arc::new(Env::new(Arc::clone(&fake) as _, Arc::new(Counters::default()), STUCK));
        Self::over(fake, env, variant, mk_world(world), 1)
    }
    fn over(fake: Arc<Fake>, env: Arc<Env>, variant: Variant, world: World, generation: u64) -> Self {
        let catalog = fake.publish(generation, true, &world);
        let session = Session::new(Arc::clone(&env), variant, mk_node(), Mono(0));
        Self { fake, env, session, catalog, world, now: Mono(0), complete: true }
    }
    pub(super) fn sotw(world: &[(ResourceType, &str, &str)]) -> Self {
        Self::new(Variant::Sotw, world)
    }
    pub(super) fn delta(world: &[(ResourceType, &str, &str)]) -> Self {
        Self::new(Variant::Delta, world)
    }
    /// Opens a stream of a gRPC client.
    pub(super) fn grpc(variant: Variant, world: &[(ResourceType, &str, &str)]) -> Self {
        let mut stream = Self::new(variant, world);
        let user_agent = "gRPC C-core".into();
        let node = ClientNode::parse(Some(&Node { id: "test-id".into(), user_agent, ..Node::default() }));
        stream.session = Session::new(Arc::clone(&stream.env), variant, node.unwrap(), Mono(0));
        stream
    }
    /// Opens another stream to the same server.
    pub(super) fn reconnect(&self) -> Self {
        let (fake, env) = (Arc::clone(&self.fake), Arc::clone(&self.env));
        let mut again =
            Self::over(fake, env, self.session.variant(), self.world.clone(), self.catalog.generation);
        again.catalog = Arc::clone(&self.catalog);
        again.complete = self.complete;
        again
    }
    /// Publishes the resources after a change, and wakes the session.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut World)) {
        change(&mut self.world);
        self.catalog = self.fake.publish(self.catalog.generation + 1, self.complete, &self.world);
        self.session.on_generation(ChangedHosts::Everything);
    }
    /// Publishes a change of some hosts, as the interest index reports it.
    pub(super) fn touch(&mut self, hosts: &[&str], change: impl FnOnce(&mut World)) {
        change(&mut self.world);
        self.catalog = self.fake.publish(self.catalog.generation + 1, self.complete, &self.world);
        let hosts = hosts.iter().map(|host| Hostname::new(host).unwrap()).collect();
        self.session.on_generation(ChangedHosts::Hosts(hosts));
    }
    pub(super) fn complete(&mut self, complete: bool) {
        self.complete = complete;
        self.change(|_| {});
    }
    pub(super) fn set(&mut self, kind: ResourceType, name: &str, body: &str) {
        self.change(|world| drop(world.insert((kind, name.into()), body.into())));
    }
    pub(super) fn drop(&mut self, all: &[(ResourceType, &str)]) {
        self.change(|world| {
            all.iter().for_each(|&(kind, name)| drop(world.remove(&(kind, name.to_owned()))))
        });
    }
    /// Returns the next response.
    pub(super) fn next(&mut self) -> Option<TestResponse> {
        let catalog = Arc::clone(&self.catalog);
        let out = self.session.on_writable(self.now, move || Arc::clone(&catalog))?;
        Some(decode(self.session.variant(), out))
    }
    /// Returns all responses that are due.
    pub(super) fn all(&mut self) -> Vec<TestResponse> {
        std::iter::from_fn(|| self.next()).collect()
    }
    /// Returns all responses that are due, without version and nonce.
    pub(super) fn responses(&mut self) -> Vec<String> {
        self.all().iter().map(TestResponse::text).collect()
    }
    pub(super) fn count(&self, name: &str) -> u64 {
        self.env.counters.all().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    pub(super) fn request(&mut self, kind: ResourceType, names: &[&str], nonce: &str) {
        self.send_sotw(SotwRequest { nonce: nonce.into(), names: list(names), ..mk_sotw(kind) });
    }
    pub(super) fn send_sotw(&mut self, request: SotwRequest) {
        self.session.on_sotw(&request, self.now).unwrap();
    }
    pub(super) fn refuse(&mut self, kind: ResourceType, names: &[&str], nonce: &str, text: &str) {
        let error = Some(ErrorDetail { code: 3, message: text.into() });
        self.send_sotw(SotwRequest { nonce: nonce.into(), names: list(names), error, ..mk_sotw(kind) });
    }
    pub(super) fn sub(&mut self, kind: ResourceType, subscribe: &[&str], unsubscribe: &[&str], nonce: &str) {
        self.send_delta(DeltaRequest {
            subscribe: list(subscribe),
            unsubscribe: list(unsubscribe),
            nonce: nonce.into(),
            ..mk_delta(kind)
        });
    }
    pub(super) fn claim(&mut self, kind: ResourceType, subscribe: &[&str], held: &[(&str, &str)]) {
        let initial = held.iter().copied().collect();
        self.send_delta(DeltaRequest { subscribe: list(subscribe), initial, ..mk_delta(kind) });
    }
    pub(super) fn send_delta(&mut self, request: DeltaRequest) {
        self.session.on_delta(&request, self.now).unwrap();
    }
    /// Returns the current version of a resource, as a delta client records it.
    pub(super) fn version(&self, kind: ResourceType, name: &str) -> String {
        let class = self.env.class(mk_node().class);
        let found = self.env.answers.one(&self.catalog, &class, kind, name);
        found.unwrap_or_else(|| crate::answers::empty_assignment(name)).version.to_string()
    }
}

pub(super) fn mk_sotw(kind: ResourceType) -> SotwRequest {
    SotwRequest { type_url: kind.type_url().into(), ..SotwRequest::default() }
}

pub(super) fn mk_delta(kind: ResourceType) -> DeltaRequest {
    DeltaRequest { type_url: kind.type_url().into(), ..DeltaRequest::default() }
}

pub(super) fn list(names: &[&str]) -> Names {
    names.iter().copied().collect()
}

impl TestResponse {
    /// `cds a=1 b=2 -c`.
    pub(super) fn text(&self) -> String {
        let mut out = self.kind.as_str().to_owned();
        self.resources.iter().for_each(|r| out.push_str(&format!(" {r}")));
        self.removed.iter().for_each(|r| out.push_str(&format!(" -{r}")));
        out
    }
}

fn decode(variant: Variant, out: Outgoing) -> TestResponse {
    let (kind, nonce) = (out.kind, out.nonce.to_string());
    let message = out.rope.message();
    let response = match variant {
        Variant::Sotw => Response::decode_sotw(message),
        Variant::Delta => Response::decode_delta(message),
    };
    let response = response.unwrap();
    assert_eq!(response.nonce.as_str(), nonce);
    assert_eq!(ResourceType::parse(response.type_url.as_str()), Some(kind));
    let mut names = BTreeMap::new();
    for resource in &response.resources {
        assert_eq!(ResourceType::parse(resource.type_url.as_str()), Some(kind), "a resource of another type");
        let text = body_text(&resource.body);
        let name = text.split_once('=').unwrap().0.to_owned();
        if variant == Variant::Delta {
            assert_eq!(resource.name.as_str(), name);
        }
        assert!(names.insert(name, text).is_none(), "a name twice in one response");
    }
    TestResponse {
        kind,
        nonce,
        version: response.version.to_string(),
        resources: names.into_values().collect(),
        removed: response.removed.iter().map(ToString::to_string).collect(),
    }
}

/// Formats a body: an empty assignment is a message with field 1 only, an absent xDS cluster one with others.
fn body_text(body: &[u8]) -> String {
    let [0x0a, len, rest @ ..] = body else { return std::str::from_utf8(body).unwrap().to_owned() };
    let (name, others) = rest.split_at(usize::from(*len));
    let state = if others.is_empty() { "" } else { "absent" };
    format!("{}={state}", std::str::from_utf8(name).unwrap())
}
