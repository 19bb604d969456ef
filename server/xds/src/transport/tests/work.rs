//! Heavy work runs outside the runtime's workers, and only those who need its result wait for it.

use super::*;
use crate::answers::CatalogAnswers;
use crate::fixtures::{Svc, World as Services, mk_svc};
use tributary_model::Protocol;

/// A server over real answers.
struct Mesh {
    server: XdsServer,
    answers: Arc<CatalogAnswers>,
    current: Arc<Current>,
    services: Mutex<Services>,
    address: std::net::SocketAddr,
}

struct Current(Mutex<Arc<Catalog>>);

impl CatalogSource for Current {
    fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.lock())
    }
    fn ready(&self) -> bool {
        true
    }
}

fn mk_services(address: &str) -> Vec<Svc> {
    let mk = |n| mk_svc(&format!("s{n:03}.shop.svc.cluster.local")).virtual_at(&[&format!("10.1.0.{n}")]);
    let mut all: Vec<Svc> = (1..200).map(mk).collect();
    all[7] = all[7].clone().at(&[address]).on(&[(80, Protocol::Http), (81, Protocol::Tcp)]);
    all
}

const CHANGED: &str = "s008.shop.svc.cluster.local";

impl Mesh {
    async fn start() -> Self {
        let answers = Arc::<CatalogAnswers>::default();
        let mut services = Services::default();
        let current = Arc::new(Current(Mutex::new(services.next(&mk_services("10.0.0.1")))));
        let server =
            XdsServer::builder(Arc::<CatalogAnswers>::clone(&answers), Arc::clone(&current) as _).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        server.listen(listener, None);
        Self { server, answers, current, services: Mutex::new(services), address }
    }
    fn change(&self, address: &str) {
        let catalog = self.services.lock().next(&mk_services(address));
        *self.current.0.lock() = Arc::clone(&catalog);
        let hosts = [Hostname::new(CHANGED).unwrap()].into();
        let changed = CatalogChanges { hosts, ..CatalogChanges::default() };
        self.server.published(&catalog, &changed, ObservedSince::default());
    }
    async fn connect(&self) -> Connection {
        Connection::over(TcpStream::connect(self.address).await.unwrap()).await
    }
    fn on_workers(&self) -> u64 {
        self.answers.counters().on_workers.get()
    }
    fn offloaded(&self) -> u64 {
        self.server.counters().offloaded.get()
    }
}

const SIDECAR: &str = "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local";
const ENVOY: &str = "edge";

/// Subscribes to everything that a client of this node does, and reads all responses.
async fn follow(stream: &mut Stream, node: &str) {
    let names = [format!("outbound|80||{CHANGED}")];
    let mut subscribe = async |kind: ResourceType, names: &[&str]| {
        let (node, type_url) = (mk_node(node), kind.type_url().into());
        let names = names.iter().copied().collect();
        if stream.delta {
            let request = DeltaRequest { node, type_url, subscribe: names, ..DeltaRequest::default() };
            stream.send_delta(request).await;
        } else {
            stream.send_sotw(SotwRequest { node, type_url, names, ..SotwRequest::default() }).await;
        }
        stream.next().await
    };
    assert!(subscribe(ResourceType::Cluster, &[]).await.resources.len() >= 199);
    assert_eq!(subscribe(ResourceType::Endpoints, &[&names[0]]).await.resources.len(), 1);
    if node == SIDECAR {
        assert!(!subscribe(ResourceType::Listener, &[]).await.resources.is_empty());
        assert_eq!(subscribe(ResourceType::Route, &["80"]).await.resources.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_encoded_on_runtime_workers() {
    let mesh = Mesh::start().await;
    let mut connection = mesh.connect().await;
    let mut streams = Vec::new();
    for node in [ENVOY, SIDECAR] {
        for mut stream in [connection.sotw().await, connection.delta().await] {
            follow(&mut stream, node).await;
            streams.push(stream);
        }
    }
    for address in ["10.0.0.2", "10.0.0.3"] {
        mesh.change(address);
        for stream in &mut streams {
            let response = stream.next().await;
            assert_eq!(ResourceType::parse(response.type_url.as_str()), Some(ResourceType::Endpoints));
            assert_eq!(response.resources.len(), 1);
        }
    }
    let counters = mesh.answers.counters();
    assert!(counters.encodes(ResourceType::Cluster) >= 199 && counters.encodes(ResourceType::Endpoints) >= 3);
    assert_eq!(mesh.on_workers(), 0, "{:?}", counters.all());
}

#[tokio::test]
async fn built_answers_are_sent_without_another_thread() {
    let mesh = Mesh::start().await;
    for sotw in [true, false] {
        let mut connection = mesh.connect().await;
        let mut first = if sotw { connection.sotw().await } else { connection.delta().await };
        follow(&mut first, ENVOY).await;
        let before = mesh.offloaded();
        let mut second = if sotw { connection.sotw().await } else { connection.delta().await };
        follow(&mut second, ENVOY).await;
        assert_eq!(mesh.offloaded(), before, "sotw {sotw}: everything was built for the first");
        mesh.change(&format!("10.0.1.{}", u8::from(sotw)));
        for stream in [&mut first, &mut second] {
            assert_eq!(stream.next().await.resources.len(), 1);
        }
        assert!((1..=2).contains(&(mesh.offloaded() - before)), "sotw {sotw}: {}", mesh.offloaded() - before);
    }
    assert_eq!(mesh.on_workers(), 0);
}

#[tokio::test]
async fn a_small_round_is_assembled_once_for_its_class() {
    let mesh = Mesh::start().await;
    let mut connection = mesh.connect().await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = connection.delta().await;
        follow(&mut stream, ENVOY).await;
        streams.push(stream);
    }
    let count = |name: &str| mesh.server.counters().all().into_iter().find(|(n, _)| *n == name).unwrap().1;
    let before = count("waits");
    mesh.change("10.0.0.2");
    for stream in &mut streams {
        assert_eq!(stream.next().await.resources.len(), 1);
    }
    assert!(count("rounds_repeated") >= 4, "{} of 7", count("rounds_repeated"));
    assert!(count("waits") - before <= 8, "a stream is woken once: {}", count("waits") - before);
}

/// Releases the callers of a provider when it is dropped.
struct Blocked(Arc<Fake>);

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.block(false);
    }
}

#[tokio::test]
async fn status_is_read_while_a_response_is_built() {
    let served = Served::with(&[(ResourceType::Cluster, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    let blocked = Blocked(Arc::clone(&served.source.fake));
    blocked.0.block(true);
    stream.subscribe(ResourceType::Cluster, &[]).await;
    served.reaches("offloaded", 1).await;
    let catalog = Arc::default();
    let rows = served.server.clients().rows(&catalog, served.server.now());
    assert_eq!((rows.len(), &*rows[0].node), (1, "test-id"));
    let mut health = connection.call("/grpc.health.v1.Health/Check", &[]).await;
    assert!(health.message().await.is_some(), "others are served meanwhile");
    drop(blocked);
    assert_eq!(stream.bodies().await, ["a.x=1"]);
    let status = served.server.clients().rows(&catalog, served.server.now()).remove(0);
    assert_eq!(
        (status.mode, status.types.len()),
        ("bulk", 1),
        "the status is stored before the message leaves"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_many_names_leave_the_workers_free() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    let stream = connection.delta().await;
    let names: Vec<String> = (0..5_000).map(|n| format!("s{n}.x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stream.subscribe(ResourceType::Endpoints, &names).await;
    let mut stream = stream;
    assert_eq!(stream.next().await.resources.len(), 5_000);
    assert_eq!(served.source.fake.lookups_on_workers(), 0);
    assert!(served.count("offloaded") >= 3, "decoding, interest and response");
}

#[tokio::test]
async fn an_acknowledgement_of_many_names_needs_no_other_thread() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    let names: Vec<String> = (0..1_100).map(|n| format!("s{n}.x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stream.subscribe(ResourceType::Endpoints, &names).await;
    let response = stream.next().await;
    let before = served.count("offloaded");
    let type_url: Text = ResourceType::Endpoints.type_url().into();
    let nonce: Text = response.nonce.as_str().into();
    let ack = DeltaRequest { type_url: type_url.clone(), nonce, ..DeltaRequest::default() };
    stream.send_delta(ack).await;
    served.reaches("acks", 1).await;
    assert_eq!(served.count("offloaded"), before);
    let more =
        DeltaRequest { type_url, subscribe: ["new.x"].into_iter().collect(), ..DeltaRequest::default() };
    stream.send_delta(more).await;
    stream.next().await;
    assert!(served.count("offloaded") > before, "a changed subscription to many names is heavy work");
}
