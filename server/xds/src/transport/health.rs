//! `grpc.health.v1.Health`: whether clients are served. It needs no authorization.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tributary_proto::wire::Reader;
use tributary_proto::{FrameDecoder, GrpcCode, GrpcStatus, Rope, RopeBuilder, peer};

use super::outbox::Outbox;
use super::route::ADS_SERVICE;
use super::server::Shared;

/// Name of the service.
pub(crate) const SERVICE: &str = "grpc.health.v1.Health";
const MAX_REQUEST: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serving {
    Yes = 1,
    No = 2,
    Unknown = 3,
}

impl Serving {
    fn message(self) -> Bytes {
        Bytes::copy_from_slice(&[0x08, self as u8])
    }
}

/// Answers one health request.
pub(crate) async fn check(shared: &Shared, body: Incoming) -> (Option<Bytes>, GrpcStatus) {
    match requested_service(body).await {
        Err(status) => (None, status),
        Ok(service) => match serving(shared, &service) {
            Serving::Unknown => (None, GrpcStatus::new(GrpcCode::NotFound, "unknown service")),
            serving => (Some(peer::frame(&serving.message())), ok()),
        },
    }
}

/// Answers one health request, and again whenever the answer changes.
pub(crate) async fn watch(shared: &Arc<Shared>, body: Incoming, outbox: &Outbox) -> GrpcStatus {
    let service = match requested_service(body).await {
        Err(status) => return status,
        Ok(service) => service,
    };
    let mut reported = None;
    let mut tick = tokio::time::interval(shared.limits.health_interval);
    while !outbox.is_closed() {
        let now = serving(shared, &service);
        if reported != Some(now) && outbox.is_idle() {
            reported = Some(now);
            let mut body = RopeBuilder::default();
            body.push(&now.message());
            outbox.put(Rope::framed(&[], &[body.finish().chunks()]));
        }
        tokio::select! {
            () = outbox.moved() => {}
            _ = tick.tick() => {}
            () = shared.stop.cancelled() => return ok(),
        }
    }
    ok()
}

fn ok() -> GrpcStatus {
    GrpcStatus::new(GrpcCode::Ok, "")
}

fn serving(shared: &Shared, service: &str) -> Serving {
    if !matches!(service, "" | ADS_SERVICE | SERVICE) {
        return Serving::Unknown;
    }
    if shared.source.ready() && !shared.stop.is_cancelled() { Serving::Yes } else { Serving::No }
}

async fn requested_service(mut body: Incoming) -> Result<String, GrpcStatus> {
    let bad = |what: &str| GrpcStatus::new(GrpcCode::InvalidArgument, what);
    let mut decoder = FrameDecoder::new(MAX_REQUEST);
    loop {
        if let Some(message) = decoder.message().map_err(|e| bad(&e.to_string()))? {
            return service_of(message).ok_or_else(|| bad("the health request cannot be read"));
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    decoder.push(data);
                }
            }
            _ => return Err(bad("the health request is missing")),
        }
    }
}

fn service_of(message: Bytes) -> Option<String> {
    let mut reader = Reader::new(message);
    let mut service = String::new();
    while let Some((field, value)) = reader.field().ok()? {
        if field == 1 {
            service = String::from_utf8(value.bytes(1).ok()?.to_vec()).ok()?;
        }
    }
    Some(service)
}
