//! gRPC messages on an HTTP/2 stream: the five-byte prefix, reassembly, and the status in the trailers. The raw
//! client and the scripted server use it.

use std::fmt;

use anyhow::{Context, Result};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::RecvStream;
use http::HeaderMap;
use prost::Message;

const PREFIX: usize = 5;

/// How the peer ended a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The gRPC status code.
    pub code: i32,
    /// The status message.
    pub message: String,
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the stream ended with status {}: {}", self.code, self.message)
    }
}

impl std::error::Error for GrpcStatus {}

impl GrpcStatus {
    /// Reads a status from headers or trailers, if they carry one.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let code = text("grpc-status")?.parse().unwrap_or(2);
        Some(Self { code, message: text("grpc-message").unwrap_or_default().replace("%20", " ") })
    }
}

/// Encodes a message with its prefix, ready for a data frame.
pub fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(length + PREFIX);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    frame.put_slice(&message.encode_to_vec());
    frame.freeze()
}

/// Splits a stream into messages. It reads only on request and releases window only for what it has read, so a
/// test stops a reader by not calling it.
#[derive(Debug)]
pub struct Reader {
    body: RecvStream,
    buffer: BytesMut,
}

impl Reader {
    /// Reads from `body`.
    pub fn new(body: RecvStream) -> Self {
        Self { body, buffer: BytesMut::new() }
    }

    /// Returns the next message; `None` when the peer has finished. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.take() {
                return Ok(Some(message));
            }
            match self.body.data().await {
                Some(chunk) => self.push(chunk.context("read from the stream")?)?,
                None => return Ok(None),
            }
        }
    }

    /// Returns the status in the trailers, after [`Reader::next`] gave `None`.
    pub async fn status(&mut self) -> Result<GrpcStatus> {
        let trailers = self.body.trailers().await.context("read the trailers")?;
        let status = trailers.as_ref().and_then(GrpcStatus::from_headers);
        Ok(status.unwrap_or_else(|| GrpcStatus { code: 2, message: "no status in the trailers".to_owned() }))
    }

    fn push(&mut self, chunk: Bytes) -> Result<()> {
        self.buffer.extend_from_slice(&chunk);
        self.body.flow_control().release_capacity(chunk.len()).context("hand the window back")
    }

    fn take(&mut self) -> Option<Bytes> {
        let length = self.buffer.get(1..PREFIX)?.try_into().map(u32::from_be_bytes).ok()? as usize;
        if self.buffer.len() < PREFIX + length {
            self.buffer.reserve(PREFIX + length - self.buffer.len());
            return None;
        }
        self.buffer.advance(PREFIX);
        Some(self.buffer.split_to(length).freeze())
    }
}
