//! Writes protobuf, field by field, into one buffer.
//!
//! The encoders use it for messages that must be fast (assignments) or in a fixed order (maps). Callers write
//! fields in order of number. A nested message is written in place: one byte is reserved for its
//! length, and the contents move if the length needs more.

use prost::encoding::{encode_varint, encoded_len_varint};

/// Writes one message.
#[derive(Debug, Default)]
pub struct Wire {
    out: Vec<u8>,
}

const VARINT: u8 = 0;
const BYTES: u8 = 2;

impl Wire {
    /// Creates an empty message with a reserved capacity.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes) }
    }
    /// Returns the message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
    /// Writes a string or bytes; omits an empty value.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.key(field, BYTES);
            encode_varint(value.len() as u64, &mut self.out);
            self.out.extend_from_slice(value);
        }
    }
    /// Writes a string; omits an empty one.
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }
    /// Writes a number; omits 0.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, VARINT);
            encode_varint(value, &mut self.out);
        }
    }
    /// Writes a wrapped number (`google.protobuf.UInt32Value`), including 0.
    pub fn wrapped(&mut self, field: u32, value: u32) {
        self.message(field, |w| w.number(1, value.into()));
    }
    /// Writes a nested message, even if it is empty.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, BYTES);
        let at = self.out.len();
        self.out.push(0);
        write(self);
        self.close(at);
    }
    /// Writes one entry of a `map<string, Message>`.
    pub fn entry(&mut self, field: u32, key: &str, write: impl FnOnce(&mut Self)) {
        self.message(field, |w| {
            w.string(1, key);
            w.message(2, write);
        });
    }
    /// Writes a string field of a `google.protobuf.Struct`. Call it in order of key.
    pub fn struct_string(&mut self, key: &str, value: &str) {
        // The oneof must be present even if the string is empty.
        self.entry(1, key, |w| w.present(3, value));
    }
    /// Writes a string even if it is empty (one of several alternatives).
    pub fn present(&mut self, field: u32, value: &str) {
        self.key(field, BYTES);
        encode_varint(value.len() as u64, &mut self.out);
        self.out.extend_from_slice(value.as_bytes());
    }
    fn key(&mut self, field: u32, kind: u8) {
        encode_varint(u64::from(field) << 3 | u64::from(kind), &mut self.out);
    }
    /// Writes the length of the bytes after `at`, for which one byte was reserved.
    fn close(&mut self, at: usize) {
        let len = self.out.len() - at - 1;
        let extra = encoded_len_varint(len as u64) - 1;
        let end = self.out.len();
        self.out.resize(end + extra, 0);
        self.out.copy_within(at + 1..end, at + 1 + extra);
        if let Some(mut room) = self.out.get_mut(at..=at + extra) {
            encode_varint(len as u64, &mut room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
    use prost::Message;

    #[test]
    fn nested_messages_of_every_length_decode() {
        for len in [0, 1, 100, 125, 130, 20_000, 3_000_000] {
            let text = "x".repeat(len);
            let mut wire = Wire::default();
            wire.struct_string("a", &text);
            wire.struct_string("b", "after");
            let got = Struct::decode(&wire.finish()[..]).unwrap();
            let string = |s: &str| Value { kind: Some(Kind::StringValue(s.into())) };
            assert_eq!(got.fields["a"], string(&text), "length {len}");
            assert_eq!((got.fields.len(), &got.fields["b"]), (2, &string("after")));
        }
    }

    #[test]
    fn a_wrapped_zero_is_present() {
        let mut wire = Wire::default();
        wire.number(1, 0);
        wire.wrapped(4, 0);
        assert_eq!(wire.finish(), [0x22, 0]);
    }
}
