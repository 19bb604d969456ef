//! A server that answers with the request that it received: the first line has method and path, each further line a
//! header. A request decides how it is answered: `x-answer: 503` with this status, `x-wait: 300` after so many
//! milliseconds. A call of gRPC is answered with `echo`, or with the status of `x-answer`, such as 14.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::backend::{Body, grpc_answer};

/// A running server; closed when dropped.
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
    count: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Echo {
    /// Starts on a free loopback port.
    pub async fn start() -> Result<Self> {
        Self::accepting(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
    }

    /// Starts on a listener that is open already, such as one of another network namespace.
    pub fn accepting(listener: TcpListener) -> Result<Self> {
        let addr = listener.local_addr()?;
        let count = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, Arc::clone(&count)));
        Ok(Self { addr, count, task })
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the number of received requests.
    pub fn requests(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, count: Arc<AtomicU64>) {
    // Dropped with this task: every connection ends with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                let count = Arc::clone(&count);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&count)));
                    // The server ignores a client that disconnects.
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(request: Request<Incoming>, count: Arc<AtomicU64>) -> Result<Response<Body>, Infallible> {
    count.fetch_add(1, Ordering::Relaxed);
    let number = |name: &str| request.headers().get(name)?.to_str().ok()?.parse::<u16>().ok();
    if let Some(millis) = number("x-wait") {
        tokio::time::sleep(Duration::from_millis(millis.into())).await;
    }
    let status = number("x-answer");
    let kind = request.headers().get("content-type");
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return Ok(status.map_or_else(|| grpc_answer("echo"), grpc_failure));
    }
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let mut response = Response::new(Full::new(Bytes::from(described(&request))).boxed());
    *response.status_mut() = status.unwrap_or_default();
    Ok(response)
}

/// Returns a response that has a status in place of a message.
fn grpc_failure(status: u16) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(status));
    response
}

fn described(request: &Request<Incoming>) -> String {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    text
}
