//! Response bodies of streams: shared chunks without copying, then the gRPC trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};

use super::outbox::{BodyEnd, Chunk, Outbox};

/// Body of a stream; the stream's task supplies its messages.
#[derive(Debug)]
pub(crate) struct StreamBody(Option<BodyEnd>);

impl StreamBody {
    pub(crate) const fn new(outbox: Arc<Outbox>) -> Self {
        Self(Some(BodyEnd(outbox)))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(outbox) = &self.0 else { return Poll::Ready(None) };
        let frame = match ready!(outbox.0.poll(cx)) {
            Chunk::Data(bytes) => Frame::data(bytes),
            Chunk::End(status) => {
                self.0 = None;
                let mut trailers = HeaderMap::with_capacity(2);
                // fails only for metadata, which these statuses do not have
                let _ = status.add_header(&mut trailers);
                Frame::trailers(trailers)
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }
    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}
