//! Detection of answers that refuse the credential or a right, for any request of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Response, StatusCode};
use tokio::sync::Notify;
use tower::util::MapResponseLayer;

/// What the server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The credential (401).
    Credential,
    /// A right (403): the credential is valid, another one can have the right.
    Right,
}

/// Refusals of a connection; its clones share them.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Noticed>);

#[derive(Default)]
struct Noticed {
    any: Notify,
    credential: AtomicBool,
}

impl Refusals {
    /// Returns a client layer that records refusals.
    pub(super) fn layer<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let noticed = Arc::clone(&self.0);
        MapResponseLayer::new(move |response: Response<B>| {
            noticed.see(response.status());
            response
        })
    }
    /// Waits for a refusal that has not been returned; a refused credential takes precedence.
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
    async fn refused_credential_takes_precedence_once() {
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
