//! Body of an answer: it stops while the network is frozen, breaks with its connection, and notes what passed.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::unfold;
use http_body_util::BodyExt;

use super::{Link, Site};

struct Gate {
    site: Arc<Site>,
    /// Number of breaks at the start of the connection.
    breaks: u64,
    /// Bytes until the answer is cut off.
    left: Option<usize>,
    /// Kind of the answer, if it counts as delivered.
    noted: Option<String>,
    inner: Body,
    is_over: bool,
}

/// Wraps the body of an answer.
pub(super) fn over(
    site: Arc<Site>,
    breaks: u64,
    cut: Option<usize>,
    noted: Option<String>,
    inner: Body,
) -> Body {
    let gate = Gate { site, breaks, left: cut, noted, inner, is_over: false };
    Body::from_stream(unfold(gate, next))
}

type Piece = Result<Bytes, std::io::Error>;

async fn next(mut gate: Gate) -> Option<(Piece, Gate)> {
    if gate.is_over {
        return None;
    }
    let piece = gate.piece().await?;
    gate.is_over = piece.is_err();
    Some((piece, gate))
}

impl Gate {
    async fn piece(&mut self) -> Option<Piece> {
        let site = Arc::clone(&self.site);
        let frame = loop {
            let mut change = pin!(site.changes.notified());
            change.as_mut().enable();
            if self.is_broken() {
                return Some(Err(reset()));
            }
            tokio::select! {
                biased;
                () = change => {}
                frame = self.inner.frame() => break frame,
            }
        };
        let data = match frame? {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(_) => return Some(Err(reset())),
        };
        if !self.thaw().await {
            return Some(Err(reset()));
        }
        if let Some(plural) = &self.noted {
            self.site.note(plural);
        }
        Some(self.cut(data))
    }
    fn is_broken(&self) -> bool {
        self.site.breaks() != self.breaks || self.site.link() == Link::Down
    }
    /// Waits while the network is frozen; returns false if the connection broke meanwhile.
    async fn thaw(&mut self) -> bool {
        self.site.pass().await.is_ok() && !self.is_broken()
    }
    fn cut(&mut self, mut data: Bytes) -> Piece {
        let Some(left) = &mut self.left else { return Ok(data) };
        if data.len() <= *left {
            *left -= data.len();
            return Ok(data);
        }
        self.is_over = true;
        if *left == 0 {
            return Err(reset());
        }
        data.truncate(*left);
        *left = 0;
        self.is_over = false;
        Ok(data)
    }
}

fn reset() -> std::io::Error {
    std::io::Error::other("connection reset")
}
