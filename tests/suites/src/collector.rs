//! A collector of OpenTelemetry: takes spans as OTLP over HTTP, and keeps them for a test to look at.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A received span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// Identity of its trace.
    pub trace: Vec<u8>,
    /// Its identity.
    pub id: Vec<u8>,
    /// Identity of its parent; empty without one.
    pub parent: Vec<u8>,
    /// Name.
    pub name: String,
    /// Start and end, in nanoseconds of Unix time.
    pub times: (u64, u64),
    /// Attributes, as texts.
    pub attributes: BTreeMap<String, String>,
    /// Text of its failure.
    pub error: Option<String>,
    /// Attributes of its process, as texts.
    pub resource: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Seen {
    spans: Vec<ReceivedSpan>,
    headers: Vec<HeaderMap>,
    connections: usize,
}

/// A running collector; closed when dropped.
#[derive(Debug)]
pub struct Collector {
    addr: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts on a free loopback port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (addr, seen) = (listener.local_addr()?, Arc::<Mutex<Seen>>::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&seen)));
        Ok(Self { addr, seen, task })
    }

    /// Returns its URL, as `traces.endpoint` takes it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns every span so far.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.seen.lock().spans.clone()
    }

    /// Returns the headers of every request so far.
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.seen.lock().headers.clone()
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.seen.lock().connections
    }

    /// Returns the spans from the first span of a trace to this one.
    pub fn chain(&self, span: &ReceivedSpan) -> Result<Vec<ReceivedSpan>> {
        let spans = self.spans();
        let mut chain = vec![span.clone()];
        while let Some(last) = chain.last().filter(|last| !last.parent.is_empty()) {
            let parent = spans.iter().find(|one| one.trace == last.trace && one.id == last.parent);
            ensure!(parent.is_some() && chain.len() < 16, "a parent of {last:?} has not arrived");
            chain.extend(parent.cloned());
        }
        chain.reverse();
        Ok(chain)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        seen.lock().connections += 1;
        let seen = Arc::clone(&seen);
        let service = service_fn(move |request| {
            let seen = Arc::clone(&seen);
            async move { Ok::<_, Infallible>(answer(request, &seen).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            // The requests show how the connection ended.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>, seen: &Mutex<Seen>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let read = async {
        ensure!(parts.uri.path() == "/v1/traces", "{} is no path of OTLP", parts.uri);
        let kind = parts.headers.get("content-type").map(|kind| kind.as_bytes());
        ensure!(kind == Some(b"application/x-protobuf"), "the content type is {kind:?}");
        Ok(ExportTraceServiceRequest::decode(body.collect().await?.to_bytes())?)
    };
    let (status, body) = match read.await {
        Ok(request) => {
            let mut seen = seen.lock();
            seen.spans.extend(spans(request));
            seen.headers.push(parts.headers);
            (StatusCode::OK, ExportTraceServiceResponse::default().encode_to_vec())
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string().into_bytes()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

fn spans(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut out = Vec::new();
    for of in request.resource_spans {
        let resource = texts(of.resource.map(|resource| resource.attributes).unwrap_or_default());
        for span in of.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            out.push(ReceivedSpan {
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
                name: span.name,
                times: (span.start_time_unix_nano, span.end_time_unix_nano),
                attributes: texts(span.attributes),
                error: span.status.filter(|status| status.code == 2).map(|status| status.message),
                resource: resource.clone(),
            });
        }
    }
    out
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |one: KeyValue| match one.value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => (one.key, text),
        Some(Value::IntValue(number)) => (one.key, number.to_string()),
        other => (one.key, format!("{other:?}")),
    };
    attributes.into_iter().map(text).collect()
}
