//! Backends: servers inside the test that answer with their own name and count the requests they receive. HTTP
//! for Envoy, HTTP and gRPC on the same port for gRPC clients, and the bare name where anything else arrives first.
//! Closing one cuts every connection at once, as
//! the removal of a real endpoint may.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// A server that names itself; closed when dropped.
#[derive(Debug)]
pub struct Backend {
    name: String,
    addr: SocketAddr,
    count: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts on a free loopback port.
    pub async fn start(name: &str) -> Result<Self> {
        Self::start_on(name, Ipv4Addr::LOCALHOST.into()).await
    }

    /// Starts on a free port of this address.
    pub async fn start_on(name: &str, ip: IpAddr) -> Result<Self> {
        Self::start_at(name, SocketAddr::new(ip, crate::ports::free_port()?)).await
    }

    /// Starts on the given address.
    pub async fn start_at(name: &str, addr: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(addr).await.with_context(|| format!("backend {name} on {addr}"))?;
        Self::accepting(name, listener)
    }

    /// Starts on a listener that is open already, such as one of another network namespace.
    pub fn accepting(name: &str, listener: TcpListener) -> Result<Self> {
        let addr = listener.local_addr()?;
        let count = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, name.to_owned(), Arc::clone(&count)));
        Ok(Self { name: name.to_owned(), addr, count, task })
    }

    /// Returns the name that it answers with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the number of received requests.
    pub fn requests(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Closes its listener and all connections, and returns when they are closed.
    pub async fn close(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, name: String, count: Arc<AtomicU64>) {
    // Dropped with this task: every connection ends with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(serve(stream, name.clone(), Arc::clone(&count)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, name: String, count: Arc<AtomicU64>) {
    let _ = stream.set_nodelay(true);
    if !speaks_http(&stream).await {
        return answer_plain(stream, &name, &count).await;
    }
    let service = service_fn(move |request| answer(request, name.clone(), Arc::clone(&count)));
    // The backend ignores a client that disconnects.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Every HTTP method, and the preface of HTTP/2, starts with a capital letter.
async fn speaks_http(stream: &TcpStream) -> bool {
    let mut first = [0; 1];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Answers the first bytes of a connection with the name, and ends it.
async fn answer_plain(mut stream: TcpStream, name: &str, count: &AtomicU64) {
    let mut received = [0; 1024];
    // The backend ignores a client that disconnects.
    if matches!(stream.read(&mut received).await, Ok(1..)) {
        count.fetch_add(1, Ordering::Relaxed);
        let _ = stream.write_all(name.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

async fn answer(
    request: Request<Incoming>,
    name: String,
    count: Arc<AtomicU64>,
) -> Result<Response<Body>, Infallible> {
    count.fetch_add(1, Ordering::Relaxed);
    let grpc = request
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let _ = request.into_body().collect().await;
    Ok(if grpc { grpc_answer(&name) } else { Response::new(Full::new(Bytes::from(name)).boxed()) })
}

/// Returns a unary response: one message with the bare name, then status 0.
pub(crate) fn grpc_answer(name: &str) -> Response<Body> {
    let mut message = BytesMut::with_capacity(name.len() + 5);
    message.put_u8(0);
    message.put_u32(name.len() as u32);
    message.put_slice(name.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(message.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
