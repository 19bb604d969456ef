//! Notices answers that refuse the credential, or what it may read, whichever request they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Response, StatusCode};
use tokio::sync::Notify;
use tower::util::MapResponseLayer;

/// What the server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The credential itself (401).
    Credential,
    /// Something that it may not read (403): another credential may, but it is good as it is.
    Right,
}

/// Shared by the clones of a connection.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Noticed>);

#[derive(Default)]
struct Noticed {
    any: Notify,
    credential: AtomicBool,
}

impl Refusals {
    /// A layer of the client that notices.
    pub(super) fn layer<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let noticed = Arc::clone(&self.0);
        MapResponseLayer::new(move |response: Response<B>| {
            noticed.see(response.status());
            response
        })
    }
    /// Waits for a refusal that was not waited for yet; of several, the credential's.
    pub(super) async fn next(&self) -> Refusal {
        self.0.any.notified().await;
        if self.0.credential.swap(false, Ordering::Relaxed) { Refusal::Credential } else { Refusal::Right }
    }
}

impl Noticed {
    fn see(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.credential.store(true, Ordering::Relaxed);
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.any.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_several_refusals_the_credentials_counts_and_only_once() {
        let refusals = Refusals::default();
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
            refusals.0.see(status);
        }
        assert_eq!(refusals.next().await, Refusal::Credential);
        refusals.0.see(StatusCode::OK);
        refusals.0.see(StatusCode::FORBIDDEN);
        assert_eq!(refusals.next().await, Refusal::Right);
    }
}
