//! Response bodies: shared chunks without copying, then the gRPC trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use tributary_proto::GrpcStatus;

use super::outbox::{BodyEnd, Chunk, Outbox};

/// A response body.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Body of a stream; the stream's task supplies its messages.
    Stream(BodyEnd),
    /// One message, then its status.
    Once(Option<Bytes>, GrpcStatus),
    /// Finished.
    Done,
}

impl ResponseBody {
    pub(crate) fn stream(outbox: Arc<Outbox>) -> Self {
        Self::Stream(BodyEnd(outbox))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (data, end) = match &mut *self {
            Self::Stream(outbox) => match ready!(outbox.0.poll(cx)) {
                Chunk::Data(bytes) => (Some(bytes), None),
                Chunk::End(status) => (None, Some(trailers(&status))),
            },
            Self::Once(data, status) => match data.take() {
                Some(bytes) => (Some(bytes), None),
                None => (None, Some(trailers(status))),
            },
            Self::Done => (None, None),
        };
        if let Some(bytes) = data {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        *self = Self::Done;
        Poll::Ready(end.map(|trailers| Ok(Frame::trailers(trailers))))
    }
    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Done)
    }
}

/// Builds the trailers: `grpc-status` and, if not empty, `grpc-message`.
pub(crate) fn trailers(status: &GrpcStatus) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(2);
    out.insert("grpc-status", HeaderValue::from(status.code as u16));
    if let Ok(message) = HeaderValue::from_str(&status.encoded_message())
        && !message.is_empty()
    {
        out.insert("grpc-message", message);
    }
    out
}
