//! `grpc.health.v1.Health`: whether clients are served. It needs no authorization.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use tokio::time::{Interval, interval};
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::ads::Ads;
use super::server::Shared;

/// Most bytes of a request.
const MAX_REQUEST: usize = 4096;

/// The service.
pub(crate) struct Health(pub(crate) Arc<Shared>);

impl Health {
    pub(crate) fn service(self) -> HealthServer<Self> {
        HealthServer::new(self).max_decoding_message_size(MAX_REQUEST)
    }
}

fn status(shared: &Shared, service: &str) -> ServingStatus {
    if !["", Ads::NAME, HealthServer::<Health>::NAME].contains(&service) {
        return ServingStatus::ServiceUnknown;
    }
    let is_served = shared.source.ready() && !shared.stop.is_cancelled();
    if is_served { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match status(&self.0, &request.get_ref().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("unknown service")),
            status => Ok(Response::new(response(status))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Answers, and again whenever the answer changes.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watch = Watch {
            shared: Arc::clone(&self.0),
            service: request.into_inner().service,
            reported: None,
            tick: interval(self.0.limits.health_interval),
        };
        let stream = unfold(watch, |mut watch| async move {
            let status = watch.changed().await?;
            Some((Ok(response(status)), watch))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

struct Watch {
    shared: Arc<Shared>,
    service: String,
    reported: Option<ServingStatus>,
    tick: Interval,
}

impl Watch {
    /// Returns the next status that differs from the reported one; `None` when the server stops.
    async fn changed(&mut self) -> Option<ServingStatus> {
        loop {
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return None,
                _ = self.tick.tick() => {}
            }
            let now = status(&self.shared, &self.service);
            if self.reported.replace(now) != Some(now) {
                return Some(now);
            }
        }
    }
}
