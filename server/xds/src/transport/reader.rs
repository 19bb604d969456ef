//! Reads the requests of a stream from its HTTP/2 data, within their limits, and decodes them.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic::{Code, Status, Streaming};
use tributary_proto::{ProtoError, Request, Variant, limits};

use super::inbound::{InboundBudget, Metered, Permit, SharedBody};

/// A request that is not decoded yet, with its part of the budget.
#[derive(Debug)]
pub(crate) struct Received {
    message: Bytes,
    variant: Variant,
    _permit: Option<Permit>,
}

impl Received {
    /// Most bytes of a message that a runtime worker decodes and handles.
    const SMALL: usize = 16 << 10;

    /// Whether decoding and handling it belong on a thread for heavy work.
    pub(crate) const fn is_large(&self) -> bool {
        self.message.len() > Self::SMALL
    }
    pub(crate) fn decode(&self) -> Result<Request, Status> {
        Request::decode(self.variant, self.message.clone()).map_err(status)
    }
}

type Shared = Arc<Mutex<Metered<Body>>>;

/// Takes one message.
struct RequestDecoder {
    variant: Variant,
    body: Shared,
}

impl Decoder for RequestDecoder {
    type Item = Received;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let message = src.copy_to_bytes(src.remaining());
        let permit = self.body.lock().take_permit();
        Ok(Some(Received { message, variant: self.variant, _permit: permit }))
    }
    fn buffer_settings(&self) -> BufferSettings {
        // Most requests are acknowledgements: memory is reserved when a length arrives.
        BufferSettings::new(0, 0)
    }
}

/// Reads requests.
pub(crate) struct Reader {
    variant: Variant,
    body: Shared,
    stream: Streaming<Received>,
}

impl Reader {
    /// A decoder that has held more than this is replaced, because it keeps its buffer.
    const KEPT: usize = 4 << 10;

    /// Creates the reader of a request's body.
    pub(crate) fn new(body: Body, variant: Variant, budget: Arc<InboundBudget>, patience: Duration) -> Self {
        let limit = match variant {
            Variant::Sotw => limits::MAX_SOTW_MESSAGE,
            Variant::Delta => limits::MAX_DELTA_MESSAGE,
        };
        let body = Arc::new(Mutex::new(Metered::new(body, budget, limit, patience)));
        Self { variant, stream: streaming(&body, variant), body }
    }
    /// Returns the next request; `None` when the client has ended its half. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Received>, Status> {
        let Some(received) = self.stream.message().await.map_err(disconnected)? else {
            return Ok(None);
        };
        if received.message.len() > Self::KEPT {
            self.stream = streaming(&self.body, self.variant);
        }
        Ok(Some(received))
    }
}

fn streaming(body: &Shared, variant: Variant) -> Streaming<Received> {
    let decoder = RequestDecoder { variant, body: Arc::clone(body) };
    // the metered body has checked the length
    Streaming::new_request(decoder, SharedBody(Arc::clone(body)), None, Some(usize::MAX))
}

/// Returns the status of a failed read: of a rejected message, or of a client that is gone.
fn disconnected(status: Status) -> Status {
    match status.code() {
        Code::ResourceExhausted | Code::Unimplemented | Code::InvalidArgument | Code::DeadlineExceeded => {
            status
        }
        _ => Status::unavailable("the client disconnected"),
    }
}

/// Returns the status of a request that cannot be decoded.
pub(crate) fn status(error: ProtoError) -> Status {
    let code = match error {
        ProtoError::TooLarge { .. } => Code::ResourceExhausted,
        ProtoError::Compressed => Code::Unimplemented,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}
