//! Maps requests to methods, and rejects requests before a stream opens
//! (docs/reference/xds.md#status-codes).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tributary_proto::{GrpcCode, GrpcStatus, Variant};

use super::body::{ResponseBody, trailers};
use super::connection::Peer;
use super::health;
use super::outbox::Outbox;
use super::reader::Reader;
use super::server::Shared;
use super::stream;

/// Name of the discovery service.
pub(crate) const ADS_SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Handles one request; streams continue in tasks of their own.
pub(crate) async fn handle(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    if let Some(status) = not_grpc(&request) {
        return plain(status);
    }
    let path = request.uri().path().to_owned();
    let Some((service, method)) = path.strip_prefix('/').and_then(|p| p.split_once('/')) else {
        return refuse(&unknown(&path));
    };
    match (service, method) {
        (ADS_SERVICE, "StreamAggregatedResources") => discover(&shared, peer, request, Variant::Sotw),
        (ADS_SERVICE, "DeltaAggregatedResources") => discover(&shared, peer, request, Variant::Delta),
        (health::SERVICE, "Check") => {
            let (message, status) = health::check(&shared, request.into_body()).await;
            once(message, status)
        }
        (health::SERVICE, "Watch") => watch(&shared, request),
        _ => refuse(&unknown(&path)),
    }
}

fn not_grpc(request: &Request<Incoming>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    (!grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn discover(
    shared: &Arc<Shared>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
    variant: Variant,
) -> Response<ResponseBody> {
    if !shared.source.ready() {
        shared.env.counters.streams_refused.inc();
        let message = "server is not ready to serve discovery information; try again";
        return refuse(&GrpcStatus::new(GrpcCode::Unavailable, message));
    }
    let outbox = Arc::new(Outbox::default());
    let reader = Reader::new(request.into_body(), variant);
    let task = stream::run(Arc::clone(shared), peer, reader, variant, Arc::clone(&outbox));
    shared.tasks.spawn(task);
    streaming(outbox)
}

fn watch(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<ResponseBody> {
    let outbox = Arc::new(Outbox::default());
    let (shared_task, outbox_task) = (Arc::clone(shared), Arc::clone(&outbox));
    shared.tasks.spawn(async move {
        let status = health::watch(&shared_task, request.into_body(), &outbox_task).await;
        outbox_task.finish(status);
    });
    streaming(outbox)
}

fn streaming(outbox: Arc<Outbox>) -> Response<ResponseBody> {
    with_type(Response::new(ResponseBody::stream(outbox)))
}

fn once(message: Option<Bytes>, status: GrpcStatus) -> Response<ResponseBody> {
    match message {
        Some(_) => with_type(Response::new(ResponseBody::Once(message, status))),
        None => refuse(&status),
    }
}

/// Puts the status in the headers, because the response has no body.
fn refuse(status: &GrpcStatus) -> Response<ResponseBody> {
    let mut response = with_type(Response::new(ResponseBody::Done));
    response.headers_mut().extend(trailers(status));
    response
}

fn plain(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Done);
    *response.status_mut() = status;
    response
}

fn with_type(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

fn unknown(path: &str) -> GrpcStatus {
    let path: String = path.chars().take(200).collect();
    GrpcStatus::new(GrpcCode::Unimplemented, format!("unknown method {path}"))
}
