//! gRPC's frames and status codes: a five-byte prefix before each message, a code in the trailers.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::ProtoError;

/// The length of the prefix before each message.
pub const PREFIX: usize = 5;

/// The prefix of an uncompressed message of this length.
#[must_use]
pub fn prefix(len: usize) -> [u8; PREFIX] {
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [0, len[0], len[1], len[2], len[3]]
}

/// Cuts a stream of bytes into messages. Holds at most one message and what came with its end.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    limit: usize,
}

impl FrameDecoder {
    /// Takes messages up to this length.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }
    /// Takes what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
    /// The next whole message. A length beyond the limit is refused before its bytes arrive.
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
            // The message keeps the old allocation; a reconnect's 7 MB must not stay with the stream.
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }
    /// Whether bytes of an unfinished message are held.
    #[must_use]
    pub fn is_mid_message(&self) -> bool {
        !self.buffer.is_empty()
    }
}

/// The codes that this server ends streams with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcCode {
    /// All is well.
    Ok = 0,
    /// What was sent cannot be understood.
    InvalidArgument = 3,
    /// Nothing was sent in time.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// The peer may not do this.
    PermissionDenied = 7,
    /// A bound was exceeded.
    ResourceExhausted = 8,
    /// There is no such method, or no such feature.
    Unimplemented = 12,
    /// Something here is wrong.
    Internal = 13,
    /// Come back later.
    Unavailable = 14,
    /// The peer has not proved who it is.
    Unauthenticated = 16,
}

/// How a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The code.
    pub code: GrpcCode,
    /// What happened and what to do next.
    pub message: String,
}

impl GrpcStatus {
    /// From its parts.
    pub fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
    /// The message as the trailer `grpc-message` carries it: visible ASCII as it is, the rest
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
    fn a_long_message_is_refused_by_its_prefix() {
        let mut decoder = FrameDecoder::new(16);
        decoder.push(&prefix(17));
        assert!(matches!(decoder.message(), Err(ProtoError::TooLarge { limit: 16, .. })));
    }

    #[test]
    fn compressed_messages_are_refused() {
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
