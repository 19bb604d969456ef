//! Transport tests over loopback, with a real HTTP/2 client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tributary_model::{Catalog, CatalogChanges, Hostname, Namespace, ObservedSince};
use tributary_proto::peer::{FrameDecoder, Response as Received, frame};
use tributary_proto::{DeltaRequest, Node, SotwRequest, Text};

use super::{DebugAccess, Limits, XdsServer, XdsServerBuilder};
use crate::answers::ResourceType;
use crate::client::ClientNode;
use crate::fake::{Fake, World};
use crate::fixtures::{self, mk_svc};
use crate::source::{CatalogSource, ClientFacts};

mod debug;
mod drain;
mod hostile;
mod secure;
mod streams;
mod tokens;
mod tools;
mod work;

/// Longer than any event on loopback takes; no test waits for it to pass.
const SOON: Duration = Duration::from_secs(20);

/// A server with a catalog.
struct Served {
    server: XdsServer,
    source: Arc<Source>,
    address: std::net::SocketAddr,
}

struct Source {
    fake: Arc<Fake>,
    world: Mutex<World>,
    current: Mutex<Arc<Catalog>>,
    ready: AtomicBool,
    generation: AtomicU64,
    events: Mutex<Vec<String>>,
}

impl ClientFacts for Source {
    fn connected(&self, _: u64, client: &ClientNode, _: std::net::SocketAddr) {
        self.events.lock().push(format!("+{}", client.id));
    }
    fn disconnected(&self, _: u64) {
        self.events.lock().push("-".into());
    }
}

impl CatalogSource for Source {
    fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.lock())
    }
    fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
}

impl Served {
    fn build(limits: Limits) -> (XdsServer, Arc<Source>) {
        Self::build_with(limits, |builder| builder)
    }
    fn build_with(
        limits: Limits,
        finish: impl FnOnce(XdsServerBuilder) -> XdsServerBuilder,
    ) -> (XdsServer, Arc<Source>) {
        let fake = Arc::new(Fake::default());
        let source = Arc::new(Source {
            current: Mutex::new(fake.publish(0, true, &World::default())),
            fake: Arc::clone(&fake),
            world: Mutex::default(),
            ready: AtomicBool::new(true),
            generation: AtomicU64::new(0),
            events: Mutex::default(),
        });
        let facts = Arc::clone(&source) as _;
        let access = DebugAccess { system_namespace: Namespace::new("system").unwrap(), name: "test".into() };
        let builder = XdsServer::builder(fake, Arc::clone(&source) as _).facts(facts).limits(limits);
        let server = finish(builder.debug(access)).build();
        (server, source)
    }
    async fn start(limits: Limits) -> Self {
        let (server, source) = Self::build(limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        server.listen(listener, None);
        Self { server, source, address }
    }
    async fn with(world: &[(ResourceType, &str, &str)]) -> Self {
        let served = Self::start(Limits::default()).await;
        for (kind, name, body) in world {
            served.set(*kind, name, body);
        }
        served
    }
    /// Publishes a change as the runtime does: first the generation, then the fan-out.
    fn set(&self, kind: ResourceType, name: &str, body: &str) {
        let source = &self.source;
        source.world.lock().insert((kind, name.into()), body.into());
        let generation = source.generation.fetch_add(1, Ordering::Relaxed) + 1;
        // A new view of the host, so that streams that see it are woken.
        let host = Hostname::new(name).ok().map(|_| mk_svc(name));
        let hosts = fixtures::World::default().next(host.as_slice()).hosts.clone();
        let catalog = Catalog { generation, complete: true, hosts, ..Catalog::default() };
        let catalog = source.fake.publish_with(&source.world.lock(), catalog);
        *source.current.lock() = Arc::clone(&catalog);
        let changed =
            CatalogChanges { hosts: Hostname::new(name).into_iter().collect(), ..CatalogChanges::default() };
        let observed = ObservedSince::batch(self.server.now(), false);
        self.server.published(&catalog, &changed, observed);
    }
    async fn connect(&self) -> Connection {
        Connection::over(TcpStream::connect(self.address).await.unwrap()).await
    }
    fn count(&self, name: &str) -> u64 {
        self.server.counters().all().into_iter().find(|(n, _)| *n == name).unwrap().1
    }
    /// Waits until a count is reached.
    async fn reaches(&self, name: &str, at_least: u64) {
        let wait = async {
            while self.count(name) < at_least {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, wait).await.unwrap_or_else(|_| panic!("{name} stays at {}", self.count(name)));
    }
}

type Sent = StreamBody<ReceiverStream>;

/// Frames from a channel as a body.
struct ReceiverStream(mpsc::Receiver<Bytes>);

impl futures::Stream for ReceiverStream {
    type Item = Result<Frame<Bytes>, std::convert::Infallible>;
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
    }
}

/// A client's connection.
struct Connection {
    send: SendRequest<Sent>,
    driver: tokio::task::JoinHandle<hyper::Result<()>>,
    /// Value of `authorization` in requests.
    authorization: Option<String>,
}

const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/";

impl Connection {
    async fn over<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: I) -> Self {
        Self::with_window(io, 1 << 20).await
    }
    async fn with_window<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: I, window: u32) -> Self {
        let (send, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .initial_connection_window_size(window.max(1 << 16))
            .max_frame_size(1 << 20)
            .handshake(TokioIo::new(io))
            .await
            .unwrap();
        Self { send, driver: tokio::spawn(driver), authorization: None }
    }
    /// Calls a method; the sender is the request's stream.
    async fn open(&mut self, path: &str) -> (mpsc::Sender<Bytes>, Response<Incoming>) {
        let (tx, rx) = mpsc::channel(64);
        (tx, self.request(path, rx).await)
    }
    /// Calls a method with one message and ends the request.
    async fn call(&mut self, path: &str, message: &[u8]) -> Stream {
        let (tx, rx) = mpsc::channel(1);
        tx.send(frame(message)).await.unwrap();
        drop(tx);
        Stream::new(mpsc::channel(1).0, self.request(path, rx).await, false)
    }
    async fn request(&mut self, path: &str, sent: mpsc::Receiver<Bytes>) -> Response<Incoming> {
        let mut request =
            Request::post(format!("http://xds{path}")).header("content-type", "application/grpc");
        if let Some(value) = &self.authorization {
            request = request.header("authorization", value);
        }
        let request = request.body(StreamBody::new(ReceiverStream(sent))).unwrap();
        timeout(SOON, self.send.send_request(request)).await.unwrap().unwrap()
    }
    async fn sotw(&mut self) -> Stream {
        let (tx, response) = self.open(&format!("{ADS}StreamAggregatedResources")).await;
        Stream::new(tx, response, false)
    }
    async fn delta(&mut self) -> Stream {
        let (tx, response) = self.open(&format!("{ADS}DeltaAggregatedResources")).await;
        Stream::new(tx, response, true)
    }
}

/// A client's stream.
struct Stream {
    tx: mpsc::Sender<Bytes>,
    headers: HeaderMap,
    body: Incoming,
    decoder: FrameDecoder,
    trailers: Option<HeaderMap>,
    delta: bool,
}

fn mk_node(id: &str) -> Option<Node> {
    Some(Node { id: id.into(), ..Node::default() })
}

impl Stream {
    fn new(tx: mpsc::Sender<Bytes>, response: Response<Incoming>, delta: bool) -> Self {
        let headers = response.headers().clone();
        let decoder = FrameDecoder::new(1 << 30);
        Self { tx, headers, body: response.into_body(), decoder, trailers: None, delta }
    }
    async fn send(&self, message: Bytes) {
        self.tx.send(frame(&message)).await.unwrap();
    }
    async fn send_sotw(&self, request: SotwRequest) {
        self.send(request.encode()).await;
    }
    async fn send_delta(&self, request: DeltaRequest) {
        self.send(request.encode()).await;
    }
    /// Subscribes with the first request of a stream.
    async fn subscribe(&self, kind: ResourceType, names: &[&str]) {
        let (node, type_url) = (mk_node("test-id"), kind.type_url().into());
        let names = names.iter().copied().collect();
        if self.delta {
            self.send_delta(DeltaRequest { node, type_url, subscribe: names, ..DeltaRequest::default() })
                .await;
        } else {
            self.send_sotw(SotwRequest { node, type_url, names, ..SotwRequest::default() }).await;
        }
    }
    /// Returns the next message; `None` at the end of the stream.
    async fn message(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.decoder.message().unwrap() {
                return Some(message);
            }
            match timeout(SOON, self.body.frame()).await.expect("no message arrives")? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => self.decoder.push(&data),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
                Err(_) => return None,
            }
        }
    }
    async fn next(&mut self) -> Received {
        let message = self.message().await.expect("the stream ended");
        if self.delta {
            Received::decode_delta(message).unwrap()
        } else {
            Received::decode_sotw(message).unwrap()
        }
    }
    /// Returns the bodies of the next response.
    async fn bodies(&mut self) -> Vec<String> {
        self.next().await.resources.iter().map(|r| String::from_utf8_lossy(&r.body).into_owned()).collect()
    }
    /// Reads to the end; returns code and message of the status.
    async fn end(&mut self) -> (tonic::Code, String) {
        while self.message().await.is_some() {}
        let all = self.trailers.as_ref().unwrap_or(&self.headers);
        let status = tonic::Status::from_header_map(all).unwrap();
        (status.code(), status.message().to_owned())
    }
}
