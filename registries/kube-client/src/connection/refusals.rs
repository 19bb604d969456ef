//! Notices answers that refuse the credential, whichever request they are for.

use std::sync::Arc;

use http::{Response, StatusCode};
use tokio::sync::Notify;
use tower::util::MapResponseLayer;

/// Shared by the clones of a connection.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Notify>);

impl Refusals {
    /// A layer of the client that notices.
    pub(super) fn layer<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let noticed = Arc::clone(&self.0);
        MapResponseLayer::new(move |response: Response<B>| {
            if response.status() == StatusCode::UNAUTHORIZED {
                noticed.notify_one();
            }
            response
        })
    }
    /// Waits for one that nobody has waited for.
    pub(super) async fn next(&self) {
        self.0.notified().await;
    }
}
