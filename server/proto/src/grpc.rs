//! gRPC frames and status codes: a five-byte prefix before each message, a code in the trailers.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::ProtoError;

/// The length of the prefix before each message.
pub const PREFIX: usize = 5;

/// Returns the prefix of an uncompressed message of this length.
#[must_use]
pub fn prefix(len: usize) -> [u8; PREFIX] {
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [0, len[0], len[1], len[2], len[3]]
}

/// Cuts a byte stream into messages. Holds at most one message and the bytes received with its end.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    limit: usize,
}

impl FrameDecoder {
    /// Creates a decoder for messages up to this length.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
    /// Returns the next whole message. Rejects a length beyond the limit before its bytes arrive.
    pub fn message(&mut self) -> Result<Option<Bytes>, ProtoError> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let [flag, len @ ..] = *prefix;
        if flag != 0 {
            return Err(if flag == 1 { ProtoError::Compressed } else { ProtoError::Malformed });
        }
        let len = u32::from_be_bytes(len) as usize;
        if len > self.limit {
            return Err(ProtoError::TooLarge { what: "the message", limit: self.limit });
        }
        if self.buffer.len() < PREFIX + len {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let message = self.buffer.split_to(len).freeze();
        if self.buffer.is_empty() {
            // The message keeps the old allocation; otherwise the stream would keep the 7 MB of a reconnect.
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }
    /// Whether the buffer holds an incomplete message.
    #[must_use]
    pub fn is_mid_message(&self) -> bool {
        !self.buffer.is_empty()
    }
}

/// gRPC status codes that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcCode {
    /// Success.
    Ok = 0,
    /// The request cannot be decoded or lacks a required value.
    InvalidArgument = 3,
    /// No request arrived in time.
    DeadlineExceeded = 4,
    /// The requested object does not exist.
    NotFound = 5,
    /// The peer is not permitted to do this.
    PermissionDenied = 7,
    /// A bound was exceeded.
    ResourceExhausted = 8,
    /// The method or feature does not exist.
    Unimplemented = 12,
    /// A fault of the server.
    Internal = 13,
    /// Temporarily unavailable: retry later.
    Unavailable = 14,
    /// The peer has not proved its identity.
    Unauthenticated = 16,
}

/// Status that ends a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The code.
    pub code: GrpcCode,
    /// What happened and what to do next.
    pub message: String,
}

impl GrpcStatus {
    /// Creates a status.
    pub fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
    /// Encodes the message for the trailer `grpc-message`: visible ASCII unchanged, other bytes
    /// percent-encoded.
    #[must_use]
    pub fn encoded_message(&self) -> String {
        let mut out = String::with_capacity(self.message.len());
        for byte in self.message.bytes() {
            if (0x20..=0x7e).contains(&byte) && byte != b'%' {
                out.push(char::from(byte));
            } else {
                out.push('%');
                out.extend([byte >> 4, byte & 15].map(hex));
            }
        }
        out
    }
}

fn hex(nibble: u8) -> char {
    char::from(if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_wherever_the_bytes_break() {
        let mut bytes = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            bytes.extend_from_slice(&prefix(message.len()));
            bytes.extend_from_slice(message);
        }
        for step in 1..bytes.len() {
            let mut decoder = FrameDecoder::new(16);
            let mut got = Vec::new();
            for chunk in bytes.chunks(step) {
                decoder.push(chunk);
                while let Some(message) = decoder.message().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, ["one", "", "three"].map(Bytes::from), "step {step}");
            assert!(!decoder.is_mid_message());
        }
    }

    #[test]
    fn long_message_is_rejected_by_its_prefix() {
        let mut decoder = FrameDecoder::new(16);
        decoder.push(&prefix(17));
        assert!(matches!(decoder.message(), Err(ProtoError::TooLarge { limit: 16, .. })));
    }

    #[test]
    fn compressed_messages_are_rejected() {
        let mut decoder = FrameDecoder::new(16);
        decoder.push(&[1, 0, 0, 0, 0]);
        assert_eq!(decoder.message(), Err(ProtoError::Compressed));
    }

    #[test]
    fn a_status_message_travels_as_ascii() {
        let status = GrpcStatus::new(GrpcCode::Internal, "100% \u{e9}\n");
        assert_eq!(status.encoded_message(), "100%25 %C3%A9%0A");
    }
}
