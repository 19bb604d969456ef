//! An HTTP server before a real one, which passes every request on and changes what a test names in the answers: a real server does not
//! set its clock or its version on command.
//!
//! Streams, such as watches, are passed on as they come. [`crate::Authority::front`] adds TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use reqwest::Client;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::ports;
use crate::tls::trusting;

type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

/// What a front changes; the default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Seconds that are added to the header `Date`.
    pub seconds: i64,
    /// Fields of JSON documents, as path of the request, pointer to the field, and its value.
    pub fields: Vec<(&'static str, &'static str, Value)>,
    /// Paths that are answered with 500.
    pub broken: Vec<&'static str>,
}

/// The server; closed when dropped.
#[derive(Debug)]
pub struct Front {
    addr: SocketAddr,
    changes: Arc<Mutex<Changes>>,
    cut: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// What a request needs.
#[derive(Debug, Clone)]
struct Onward {
    base: String,
    client: Client,
    changes: Arc<Mutex<Changes>>,
}

impl Front {
    /// Starts before a server without TLS.
    pub async fn plain(target: SocketAddr) -> Result<Self> {
        Self::start(format!("http://{target}"), "").await
    }

    /// Starts before a server at https, which has one of these certificates.
    pub async fn tls(base: &str, certificates: &str) -> Result<Self> {
        Self::start(base.to_owned(), certificates).await
    }

    async fn start(base: String, certificates: &str) -> Result<Self> {
        let addr = ports::free_addr()?;
        let listener = TcpListener::bind(addr).await.with_context(|| format!("listen on {addr}"))?;
        let builder = Client::builder().tls_backend_preconfigured(trusting(certificates, None)?);
        let client = builder.no_proxy().no_gzip().build().context("make a client")?;
        let changes = Arc::<Mutex<Changes>>::default();
        let onward = Onward { base, client, changes: Arc::clone(&changes) };
        let cut = watch::Sender::new(());
        let task = tokio::spawn(accept(listener, onward, cut.subscribe()));
        Ok(Self { addr, changes, cut, task })
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes other things from now on, also on open connections; streams that have begun continue.
    pub fn set(&self, changes: Changes) {
        *self.changes.lock() = changes;
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, onward: Onward, mut cut: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok(()) = cut.changed() => connections.shutdown().await,
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(serve(stream, onward.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, onward: Onward) {
    let service = service_fn(move |request| {
        let onward = onward.clone();
        async move { pass(request, onward).await }
    });
    // A client that disconnects is ignored.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn pass(request: Request<Incoming>, onward: Onward) -> Result<Response<Body>> {
    let changes = onward.changes.lock().clone();
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    if changes.broken.iter().any(|broken| *broken == path) {
        let mut response = Response::new(whole(Bytes::from_static(b"out of order")));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(response);
    }
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let onward = onward.client.request(head.method, format!("{}{target}", onward.base));
    let onward = onward.headers(passed(head.headers)).body(body.collect().await?.to_bytes());
    let answer = onward.send().await?;
    let mut response = Response::builder().status(answer.status()).body(whole(Bytes::new()))?;
    *response.headers_mut() = passed(answer.headers().clone());
    shift(response.headers_mut(), changes.seconds)?;
    let fields: Vec<_> = changes.fields.iter().filter(|(of, ..)| *of == path).collect();
    *response.body_mut() = if fields.is_empty() {
        let frames = answer.bytes_stream().map_ok(Frame::data).map_err(anyhow::Error::from);
        BodyExt::boxed_unsync(StreamBody::new(frames))
    } else {
        let mut document: Value = answer.json().await?;
        for (_, pointer, value) in fields {
            *document.pointer_mut(pointer).with_context(|| format!("no {pointer} in {path}"))? =
                value.clone();
        }
        whole(document.to_string().into())
    };
    Ok(response)
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns the headers without those of one connection.
fn passed(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    headers
}

fn shift(headers: &mut HeaderMap, seconds: i64) -> Result<()> {
    if seconds == 0 {
        return Ok(());
    }
    let at = Timestamp::now() + SignedDuration::from_secs(seconds);
    let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at)?;
    headers.insert(header::DATE, HeaderValue::from_str(&text)?);
    Ok(())
}
