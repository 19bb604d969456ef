//! Decodes the requests of a stream from its HTTP/2 data, within their limits.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tributary_proto::{
    DeltaRequest, FrameDecoder, GrpcCode, GrpcStatus, Node, ProtoError, SotwRequest, Variant, limits,
};

/// One request of either variant.
#[derive(Debug)]
pub(crate) enum Request {
    Sotw(SotwRequest),
    Delta(DeltaRequest),
}

impl Request {
    pub(crate) const fn node(&self) -> Option<&Node> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }
    pub(crate) fn type_url(&self) -> &str {
        match self {
            Self::Sotw(request) => request.type_url.as_str(),
            Self::Delta(request) => request.type_url.as_str(),
        }
    }
}

/// Reads requests.
#[derive(Debug)]
pub(crate) struct Reader {
    body: Incoming,
    decoder: FrameDecoder,
    variant: Variant,
}

impl Reader {
    pub(crate) fn new(body: Incoming, variant: Variant) -> Self {
        let limit = match variant {
            Variant::Sotw => limits::MAX_SOTW_MESSAGE,
            Variant::Delta => limits::MAX_DELTA_MESSAGE,
        };
        Self { body, decoder: FrameDecoder::new(limit), variant }
    }
    /// Returns the next request; `None` when the client has ended its half. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Request>, GrpcStatus> {
        loop {
            if let Some(message) = self.decoder.message().map_err(refuse)? {
                let request = match self.variant {
                    Variant::Sotw => SotwRequest::decode(message).map(Request::Sotw),
                    Variant::Delta => DeltaRequest::decode(message).map(Request::Delta),
                };
                return request.map(Some).map_err(refuse);
            }
            match self.body.frame().await {
                None if self.decoder.is_mid_message() => {
                    return Err(GrpcStatus::new(GrpcCode::InvalidArgument, "the last message is truncated"));
                }
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.decoder.push(data);
                    }
                }
                Some(Err(_)) => {
                    return Err(GrpcStatus::new(GrpcCode::Unavailable, "the client disconnected"));
                }
            }
        }
    }
}

fn refuse(error: ProtoError) -> GrpcStatus {
    let code = match error {
        ProtoError::TooLarge { .. } => GrpcCode::ResourceExhausted,
        ProtoError::Compressed => GrpcCode::Unimplemented,
        _ => GrpcCode::InvalidArgument,
    };
    GrpcStatus::new(code, error.to_string())
}
