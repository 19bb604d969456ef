//! Sends spans to a collector, as OTLP over HTTP.
//!
//! The library encodes; the client here bounds time and answers, follows no redirect, and marks headers as secret. Nothing is sent
//! twice: spans that a collector does not take are lost, and counted. A collector that fails is logged once, then once a minute.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, SpanContext, SpanId as OtelSpanId, SpanKind, Status, TraceFlags, TraceId as OtelTraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _, SpanLinks};
use parking_lot::Mutex;
use prost::Message as _;
use reqwest::{Certificate, Client, redirect};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::SpanCounts;
use super::span::{Span, SpanId, TraceId, Value};
use crate::config::traces::TraceSettings;
use crate::exit::CommandError;

/// Most spans of a request.
const BATCH: usize = 512;
/// How long a request waits for more spans.
const PACE: Duration = Duration::from_millis(500);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;
/// Shortest time between two lines of the log about failures.
const QUIET: Duration = Duration::from_secs(60);
/// Most bytes of an error in the log.
const MAX_ERROR: usize = 256;

/// Sender of spans.
pub struct Exporter {
    exporter: SpanExporter,
    /// What the library leaves out of its result.
    outcome: Arc<Mutex<Outcome>>,
    scope: InstrumentationScope,
    endpoint: String,
    failing: Option<Failing>,
}

/// What a collector did with a request.
#[derive(Debug, Default)]
struct Outcome {
    /// Why the request failed, or spans were rejected.
    why: Option<String>,
    /// Spans that the collector rejected although the request succeeded.
    rejected: u64,
}

/// Answer of a collector, as opentelemetry/proto/collector/trace/v1/trace_service.proto numbers its fields.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// Spans that a collector did not take.
#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// A collector that does not take spans.
struct Failing {
    logged: Instant,
    spans: u64,
}

/// Without headers: they may be secrets.
impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Exporter {
    /// Prepares the exporter. The library reads `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
    pub fn new(settings: &TraceSettings, name: &str) -> Result<Self, CommandError> {
        let endpoint = settings.endpoint.to_string();
        let outcome = Arc::<Mutex<Outcome>>::default();
        let collector = Collector { client: client(settings)?, outcome: Arc::clone(&outcome) };
        let builder = SpanExporter::builder().with_http().with_http_client(collector);
        let builder = builder.with_endpoint(endpoint.clone()).with_timeout(settings.timeout);
        let built = builder.build();
        let mut exporter =
            built.map_err(|e| CommandError::config(format!("traces cannot be sent to {endpoint}: {e}")))?;
        exporter.set_resource(&resource(name));
        let scope =
            InstrumentationScope::builder("tributary").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { exporter, outcome, scope, endpoint, failing: None })
    }
    /// Sends spans until their channel is closed and empty.
    pub(super) async fn run(
        mut self,
        mut spans: mpsc::Receiver<Span>,
        epoch: SystemTime,
        counts: Arc<SpanCounts>,
    ) {
        let mut batch = Vec::new();
        while spans.recv_many(&mut batch, BATCH).await > 0 {
            let gather = async {
                while batch.len() < BATCH {
                    let room = BATCH - batch.len();
                    if spans.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            let _ = timeout(PACE, gather).await;
            self.send(std::mem::take(&mut batch), epoch, &counts).await;
        }
    }
    async fn send(&mut self, batch: Vec<Span>, epoch: SystemTime, counts: &SpanCounts) {
        let count = batch.len() as u64;
        let data = batch.into_iter().map(|span| data(span, epoch, &self.scope)).collect();
        let exported = self.exporter.export(data).await;
        let Outcome { why, rejected } = std::mem::take(&mut *self.outcome.lock());
        let (lost, why) = match exported {
            Ok(()) => (rejected.min(count), why.unwrap_or_default()),
            Err(error) => (count, why.unwrap_or_else(|| error.to_string())),
        };
        counts.exported.fetch_add(count - lost, Relaxed);
        counts.failed.fetch_add(lost, Relaxed);
        if lost > 0 {
            self.failed(&why, lost);
        } else if let Some(Failing { spans, .. }) = self.failing.take() {
            tracing::info!(endpoint = self.endpoint, lost = spans, "collector takes spans again");
        }
    }
    fn failed(&mut self, error: &str, count: u64) {
        let now = Instant::now();
        let is_first = self.failing.is_none();
        let failing = self.failing.get_or_insert(Failing { logged: now, spans: 0 });
        failing.spans += count;
        if is_first || now.duration_since(failing.logged) >= QUIET {
            failing.logged = now;
            let error = error[..error.floor_char_boundary(MAX_ERROR)].escape_debug();
            tracing::warn!(
                endpoint = self.endpoint,
                lost = failing.spans,
                %error,
                "collector does not take spans; check traces.endpoint and that it takes OTLP over HTTP"
            );
        }
    }
}

/// Describes this server. The variables precede its name.
fn resource(name: &str) -> Resource {
    let of_process = Resource::builder().build();
    let is_named = of_process
        .get(&Key::from_static_str("service.name"))
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let own = [("service.version", env!("CARGO_PKG_VERSION")), ("service.instance.id", name)];
    let missing = own.into_iter().filter(|(key, _)| of_process.get(&Key::from_static_str(key)).is_none());
    let missing = missing.map(|(key, value)| KeyValue::new(key, value.to_owned()));
    let builder = Resource::builder().with_attributes(missing);
    if is_named { builder.build() } else { builder.with_service_name("tributary").build() }
}

fn client(settings: &TraceSettings) -> Result<Client, CommandError> {
    let wrong_file = |path: &std::path::Path, why: &dyn fmt::Display| {
        CommandError::config(format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {}: {why}", path.display()))
    };
    let wrong = |why: String| CommandError::config(format!("no client for traces can be created: {why}"));
    let builder = Client::builder().no_proxy().redirect(redirect::Policy::none()).timeout(settings.timeout);
    let builder = match &settings.certificate {
        Some(path) => {
            let text = std::fs::read(path).map_err(|e| wrong_file(path, &e))?;
            let all = Certificate::from_pem_bundle(&text);
            builder.tls_certs_only(all.map_err(|e| wrong_file(path, &e))?)
        }
        // an empty set skips the system's files
        None if settings.endpoint.scheme() == "http" => builder.tls_certs_only([]),
        None => builder,
    };
    builder.build().map_err(|e| wrong(e.to_string()))
}

/// Client of the collector.
#[derive(Debug)]
struct Collector {
    client: Client,
    outcome: Arc<Mutex<Outcome>>,
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match self.exchange(request).await {
            Ok(answer) => {
                *self.outcome.lock() = Outcome::of(&answer);
                Ok(answer)
            }
            Err(error) => {
                self.outcome.lock().why = Some(cause(&*error));
                Err(error)
            }
        }
    }
}

impl Collector {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (mut parts, body) = request.into_parts();
        parts.headers.values_mut().for_each(|value| value.set_sensitive(true));
        let sent = self.client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let mut answer = sent.send().await.map_err(reqwest::Error::without_url)?;
        let (status, mut text) = (answer.status(), Vec::new());
        while let Some(chunk) = answer.chunk().await? {
            if text.len() + chunk.len() > MAX_ANSWER {
                return Err("the answer of the collector is too large".into());
            }
            text.extend_from_slice(&chunk);
        }
        Ok(Response::builder().status(status).body(text.into())?)
    }
}

impl Outcome {
    /// Reads an answer. One that is not as expected rejects nothing.
    fn of(answer: &Response<Bytes>) -> Self {
        if !answer.status().is_success() {
            return Self { why: Some(format!("the collector answered {}", answer.status())), rejected: 0 };
        }
        let partial = Answer::decode(answer.body().clone()).ok().and_then(|answer| answer.partial_success);
        let rejected = partial.as_ref().and_then(|partial| u64::try_from(partial.rejected_spans).ok());
        let why = partial.map(|partial| format!("the collector rejected spans: {}", partial.error_message));
        Self { why, rejected: rejected.unwrap_or_default() }
    }
}

/// Returns the innermost cause of an error, which is the most exact.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Returns a span as the library encodes it.
fn data(span: Span, epoch: SystemTime, scope: &InstrumentationScope) -> SpanData {
    let mut links = SpanLinks::default();
    links.links = span.links.into_iter().map(|(trace, id)| Link::with_context(context(trace, id))).collect();
    let attribute = |(name, value): (&'static str, Value)| match value {
        Value::Text(text) => KeyValue::new(name, text),
        Value::Number(number) => KeyValue::new(name, i64::try_from(number).unwrap_or(i64::MAX)),
    };
    SpanData {
        span_context: context(span.trace, span.id),
        parent_span_id: span.parent.map_or(OtelSpanId::INVALID, |id| OtelSpanId::from(id.0)),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.into(),
        start_time: epoch + span.began,
        end_time: epoch + span.ended,
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: opentelemetry_sdk::trace::SpanEvents::default(),
        links,
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn context(trace: TraceId, id: SpanId) -> SpanContext {
    let (trace, id) = (OtelTraceId::from(trace.0), OtelSpanId::from(id.0));
    SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_a_collector_rejects_are_counted_with_its_reason() {
        let of = |status: u16, body: Vec<u8>| {
            Outcome::of(&Response::builder().status(status).body(body.into()).unwrap())
        };
        let partial = PartialSuccess { rejected_spans: 3, error_message: "too large".into() };
        let some = of(200, Answer { partial_success: Some(partial) }.encode_to_vec());
        assert_eq!(
            (some.rejected, some.why.as_deref()),
            (3, Some("the collector rejected spans: too large"))
        );
        for body in [Vec::new(), b"{}".to_vec()] {
            let all = of(200, body);
            assert_eq!((all.rejected, all.why), (0, None));
        }
        let refused = of(401, b"secret".to_vec());
        assert_eq!(refused.why.as_deref(), Some("the collector answered 401 Unauthorized"));
    }

    #[test]
    fn innermost_cause_of_an_error_is_logged() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outer")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        assert_eq!(cause(&Outer(refused)), "connection refused");
    }

    #[test]
    fn span_keeps_its_identities_times_and_failure() {
        let (trace, id, parent) = (TraceId(0x0123 << 64 | 5), SpanId(7), SpanId(6));
        let span = Span {
            trace,
            id,
            parent: Some(parent),
            name: "ack",
            began: Duration::from_millis(5),
            ended: Duration::from_millis(9),
            attributes: vec![("a", Value::Number(u64::MAX)), ("b", Value::Text("x".into()))],
            links: vec![(TraceId(9), SpanId(8))],
            error: Some("no".into()),
        };
        let data = data(span, SystemTime::UNIX_EPOCH, &InstrumentationScope::builder("t").build());
        assert_eq!(data.span_context.trace_id().to_string(), "00000000000001230000000000000005");
        assert_eq!(data.span_context.span_id().to_string(), "0000000000000007");
        assert_eq!((data.parent_span_id.to_string(), &*data.name), ("0000000000000006".to_owned(), "ack"));
        assert_eq!(data.start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap(), Duration::from_millis(5));
        assert_eq!(data.end_time.duration_since(data.start_time).unwrap(), Duration::from_millis(4));
        assert_eq!(data.attributes[0].value, i64::MAX.into());
        assert_eq!(data.links[0].span_context.span_id().to_string(), "0000000000000008");
        assert_eq!(data.status, Status::error("no"));
    }
}
