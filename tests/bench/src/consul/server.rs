//! The scripted Consul of a bench, in a separate process: long polls over h2 and h1, as agents answer them.
//!
//! Started as `tributary-bench consul-server SERVICES INSTANCES [CERTIFICATE KEY]`, with files for TLS. It
//! prints its address on standard output and executes the commands on standard input: `flip COUNT RATE FROM`,
//! `all FROM`, `remove COUNT RATE`, `return COUNT RATE`, `counts`, `reset`. It ends when its input ends. It
//! reports the time of every flip, for the measurement of followers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::catalog::{Catalog, Shape, What};
use super::counts::{Connection, Counts};
use crate::changes::unix_nanos;

/// Maximum requests per connection, as in Go's servers.
const STREAMS: u32 = 250;
/// Services flip in a scattered order: the step shares no factor with their number.
const STEP: usize = 7_919;

struct Server {
    catalog: Catalog,
    shape: Shape,
    counts: Counts,
    tls: Option<TlsAcceptor>,
}

/// Runs until standard input ends.
pub(crate) fn main(args: &[&str]) -> Result<()> {
    let (shape, files) = match args {
        [services, instances, files @ ..] => {
            (Shape { services: services.parse()?, instances: instances.parse()? }, files)
        }
        _ => return Err(anyhow!("usage: consul-server SERVICES INSTANCES [CERTIFICATE KEY]")),
    };
    let tls = match files {
        [certificate, key] => Some(acceptor(certificate, key)?),
        _ => None,
    };
    let server = Server { catalog: Catalog::new(shape), shape, counts: Counts::default(), tls };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(Arc::new(server)))
}

fn acceptor(certificate: &str, key: &str) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn run(server: Arc<Server>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    report(&json!({"event": "listening", "address": listener.local_addr()?.to_string()}));
    let accepting = tokio::spawn(accept(listener, Arc::clone(&server)));
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        execute(&server, &line).await.with_context(|| line.clone())?;
    }
    accepting.abort();
    Ok(())
}

fn report(event: &Value) {
    println!("{event}");
}

async fn execute(server: &Server, line: &str) -> Result<()> {
    let arguments: Vec<&str> = line.split(' ').collect();
    match arguments.as_slice() {
        ["flip", count, rate, from] => flip(server, count.parse()?, Some(rate.parse()?), from.parse()?).await,
        ["all", from] => flip(server, server.shape.services, None, from.parse()?).await,
        ["remove", count, rate] => set_present(server, count.parse()?, rate.parse()?, false).await,
        ["return", count, rate] => set_present(server, count.parse()?, rate.parse()?, true).await,
        ["counts"] => {
            let mut counts = server.counts.report();
            counts["event"] = json!("counts");
            counts["critical"] = json!(server.catalog.critical());
            counts["names_read"] = json!(server.counts.names_index() == server.catalog.index(What::Names));
            report(&counts);
        }
        ["reset"] => {
            server.counts.reset();
            report(&json!({"event": "reset"}));
        }
        _ => return Err(anyhow!("unknown command")),
    }
    Ok(())
}

/// Flips one check after another at this rate per second, or all at once.
async fn flip(server: &Server, count: usize, rate: Option<f64>, from: usize) {
    let begun = Instant::now();
    let mut flips = Vec::with_capacity(count);
    for n in 0..count {
        if let Some(rate) = rate {
            tokio::time::sleep_until(begun + Duration::from_secs_f64(n as f64 / rate)).await;
        }
        let service = (from + n) * STEP % server.shape.services;
        flips.push((service, unix_nanos()));
        server.catalog.flip(service);
    }
    report(&json!({"event": "flipped", "flips": flips}));
}

/// Removes the first services one after another at this rate per second, or returns them.
async fn set_present(server: &Server, count: usize, rate: f64, present: bool) {
    let begun = Instant::now();
    for service in 0..count {
        tokio::time::sleep_until(begun + Duration::from_secs_f64(service as f64 / rate)).await;
        server.catalog.set_present(service, present);
    }
    report(&json!({"event": "changed"}));
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // a broken connection is the client's concern
            let _ = connected(tcp, server).await;
        });
    }
}

async fn connected(tcp: TcpStream, server: Arc<Server>) -> Result<()> {
    let over = server.counts.connected();
    tcp.set_nodelay(true)?;
    match server.tls.clone() {
        None => serve(tcp, false, server, over).await,
        Some(acceptor) => {
            let tls = acceptor.accept(tcp).await?;
            let shared = tls.get_ref().1.alpn_protocol() == Some(b"h2");
            serve(tls, shared, server, over).await
        }
    }
}

async fn serve<S>(stream: S, shared: bool, server: Arc<Server>, over: Arc<Connection>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(request, Arc::clone(&server), Arc::clone(&over)));
    let io = TokioIo::new(stream);
    if shared {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(STREAMS).max_send_buf_size(1 << 20);
        builder.serve_connection(io, service).await?;
    } else {
        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await?;
    }
    Ok(())
}

async fn answer(
    request: Request<Incoming>,
    server: Arc<Server>,
    over: Arc<Connection>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let what = What::of(request.uri().path());
    let _stream = server.counts.requested(what, &over);
    let Some(what) = what else {
        let mut response = Response::new(Full::new(Bytes::from_static(b"no such path")));
        *response.status_mut() = http::StatusCode::NOT_FOUND;
        return Ok(response);
    };
    let query = request.uri().query().unwrap_or_default();
    if let Some(index) = parameter(query, "index").and_then(|text| text.parse().ok()) {
        let wait = parameter(query, "wait").and_then(|text| text.strip_suffix("ms")?.parse().ok());
        wait_for(&server, what, index, Duration::from_millis(wait.unwrap_or(300_000))).await;
    }
    let (index, body) = server.catalog.body(what);
    server.counts.answered(what, index, body.len());
    let response = Response::builder()
        .header("content-type", "application/json")
        .header("x-consul-index", index)
        .header("x-consul-knownleader", "true")
        .header("x-consul-lastcontact", "0")
        .body(Full::new(body));
    Ok(response.unwrap_or_default())
}

/// Waits until that index has moved beyond this one, or the wait is over.
async fn wait_for(server: &Server, what: What, index: u64, wait: Duration) {
    let _waiting = server.counts.waits();
    let until = Instant::now() + wait + wait / 16;
    while Instant::now() < until {
        let moved = server.catalog.moved(what).notified();
        let mut moved = std::pin::pin!(moved);
        moved.as_mut().enable();
        if server.catalog.index(what) > index {
            return;
        }
        // the end of the wait is also a valid result
        let _ = timeout_at(until, moved).await;
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}
