//! Writes protobuf, field by field.
//!
//! Resources, responses and the requests of test clients are written with it. Callers write fields in order of
//! number, so that equal values give equal bytes. A nested message of known length is a head and then its contents.
//! Any other is written in place: one byte is reserved for its length, and the contents move if the length needs more.

use bytes::BufMut;

use super::Field;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Writes one message into a buffer.
#[derive(Debug)]
pub struct Writer<B = Vec<u8>> {
    out: B,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the length of a varint.
const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Returns the size of a length-delimited field: its tag, for a number below 16, its length and its contents.
#[must_use]
pub const fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value as u8) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Fields with a value, written to any buffer.
impl<B: BufMut> Writer<B> {
    /// Continues the message in a buffer.
    pub const fn to(out: B) -> Self {
        Self { out }
    }
    /// Writes a number, even 0 (one of several alternatives).
    pub fn varint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        put_varint(&mut self.out, value);
    }
    /// Writes a number; omits 0.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.varint(field, value);
        }
    }
    /// Writes a field as a reader returns it.
    pub fn field(&mut self, number: u32, value: &Field) {
        match value {
            Field::Varint(value) => self.varint(number, *value),
            Field::Fixed64(value) => {
                self.key(number, FIXED64);
                self.out.put_u64_le(*value);
            }
            Field::Fixed32(value) => {
                self.key(number, FIXED32);
                self.out.put_u32_le(*value);
            }
            Field::Bytes(value) => self.present(number, value),
        }
    }
    /// Writes a string, bytes or an encoded message, even if it is empty.
    pub fn present(&mut self, field: u32, value: impl AsRef<[u8]>) {
        self.head(field, value.as_ref().len());
        self.out.put_slice(value.as_ref());
    }
    /// Writes bytes; omits an empty value.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.present(field, value);
        }
    }
    /// Writes a string; omits an empty one.
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }
    /// Writes the tag and the length of a field whose contents the caller appends.
    pub fn head(&mut self, field: u32, len: usize) {
        self.key(field, BYTES);
        put_varint(&mut self.out, len as u64);
    }
    fn key(&mut self, field: u32, kind: u8) {
        put_varint(&mut self.out, u64::from(field) << 3 | u64::from(kind));
    }
}

/// Nested messages, written in place.
impl Writer {
    /// Creates an empty message.
    #[must_use]
    pub const fn new() -> Self {
        Self::to(Vec::new())
    }
    /// Creates an empty message with a reserved capacity.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self::to(Vec::with_capacity(bytes))
    }
    /// Returns the message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
    /// Writes a nested message, even if it is empty.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, BYTES);
        let at = self.out.len();
        self.out.push(0);
        write(self);
        self.close(at);
    }
    /// Writes a wrapped number (`google.protobuf.UInt32Value`), including 0.
    pub fn wrapped(&mut self, field: u32, value: u32) {
        self.message(field, |w| w.number(1, value.into()));
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
        // the alternative must be present even if the string is empty
        self.entry(1, key, |w| w.present(3, value));
    }
    /// Writes the length of the bytes after `at`, for which one byte was reserved.
    fn close(&mut self, at: usize) {
        let len = self.out.len() - at - 1;
        let extra = varint_len(len as u64) - 1;
        let end = self.out.len();
        self.out.resize(end + extra, 0);
        self.out.copy_within(at + 1..end, at + 1 + extra);
        if let Some(mut room) = self.out.get_mut(at..=at + extra) {
            put_varint(&mut room, len as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    #[test]
    fn nested_message_has_the_bytes_of_a_head_and_its_contents() {
        for len in [0, 1, 100, 127, 128, 130, 16_383, 16_384, 20_000, 3_000_000] {
            let text = "x".repeat(len);
            let mut nested = Writer::new();
            nested.message(2, |w| w.present(1, &text));
            nested.string(3, "after");
            let mut known = BytesMut::new();
            let mut writer = Writer::to(&mut known);
            writer.head(2, field_len(len));
            writer.present(1, &text);
            writer.string(3, "after");
            assert_eq!(nested.finish(), known, "length {len}");
        }
    }

    #[test]
    fn lengths_of_varints_are_those_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
    }

    #[test]
    fn empty_values_are_omitted_unless_they_must_be_present() {
        let mut writer = Writer::new();
        writer.number(1, 0);
        writer.string(2, "");
        writer.bytes(3, b"");
        writer.wrapped(4, 0);
        writer.varint(5, 0);
        writer.present(6, "");
        assert_eq!(writer.finish(), [0x22, 0, 0x28, 0, 0x32, 0]);
    }
}
