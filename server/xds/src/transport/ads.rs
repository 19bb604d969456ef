//! The discovery service of the router, which rejects requests before a stream opens
//! (docs/reference/xds.md#status-codes).

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, header};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Status, metadata::GRPC_CONTENT_TYPE};
use tributary_proto::Variant;

use super::body::StreamBody;
use super::connection::Peer;
use super::health::Health;
use super::outbox::Outbox;
use super::reader::Reader;
use super::server::Shared;
use super::{reflection, stream};
use crate::token::BearerToken;

/// Returns the services of a server.
pub(crate) fn routes(shared: &Arc<Shared>) -> Routes {
    let health = Health(Arc::clone(shared)).service();
    let routes = Routes::new(Ads(Arc::clone(shared))).add_service(health);
    reflection::add(routes).prepare()
}

/// `envoy.service.discovery.v3.AggregatedDiscoveryService`. Its streams continue in tasks of their own.
#[derive(Clone)]
pub(crate) struct Ads(Arc<Shared>);

impl NamedService for Ads {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl Service<Request<Body>> for Ads {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(self.open(request).unwrap_or_else(Status::into_http)))
    }
}

impl Ads {
    fn open(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let variant = match request.uri().path().rsplit('/').next() {
            Some("StreamAggregatedResources") => Variant::Sotw,
            Some("DeltaAggregatedResources") => Variant::Delta,
            _ => return Err(Status::unimplemented("unknown method of the discovery service")),
        };
        let shared = &self.0;
        if !shared.source.ready() {
            shared.env.counters.streams_refused.inc();
            let message = "server is not ready to serve discovery information; try again";
            return Err(Status::unavailable(message));
        }
        let (mut head, body) = request.into_parts();
        let Some(peer) = head.extensions.remove::<Arc<Peer>>() else {
            return Err(Status::internal("the connection is unknown"));
        };
        let outbox = Arc::new(Outbox::new(head.extensions.remove(), Arc::clone(&shared.env.counters)));
        let reader = Reader::new(body, variant, Arc::clone(&shared.inbound), shared.limits.message);
        let token = if shared.tokens.is_some() { BearerToken::of(&head.headers) } else { Ok(None) };
        let task = stream::run(Arc::clone(shared), (peer, token), reader, variant, Arc::clone(&outbox));
        shared.tasks.spawn(task);
        let mut response = Response::new(Body::new(StreamBody::new(outbox)));
        response.headers_mut().insert(header::CONTENT_TYPE, GRPC_CONTENT_TYPE);
        Ok(response)
    }
}
