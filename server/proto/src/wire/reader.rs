//! Reads protobuf from peers without a panic.
//!
//! Yields fields in message order; the caller interprets them. Skips groups, as the format requires.

use bytes::Bytes;

use crate::error::ProtoError;
use crate::limits::MAX_DEPTH;
use crate::names::Names;

/// Value of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Length-delimited bytes, sharing the message's buffer.
    Bytes(Bytes),
}

impl Field {
    /// Returns the bytes of a length-delimited field.
    pub fn bytes(self, field: u32) -> Result<Bytes, ProtoError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtoError::WireType { field }),
        }
    }
    /// Returns the number of a varint field.
    pub const fn varint(&self, field: u32) -> Result<u64, ProtoError> {
        match self {
            Self::Varint(v) => Ok(*v),
            _ => Err(ProtoError::WireType { field }),
        }
    }
}

/// Reads the fields of one message.
#[derive(Debug)]
pub struct Reader {
    buffer: Bytes,
    at: usize,
}

impl Reader {
    /// Creates a reader at the start of a message.
    #[must_use]
    pub const fn new(buffer: Bytes) -> Self {
        Self { buffer, at: 0 }
    }
    /// Returns the next field with its number, or `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Field)>, ProtoError> {
        loop {
            if self.at >= self.buffer.len() {
                return Ok(None);
            }
            let (field, kind) = self.tag()?;
            let value = match kind {
                0 => Field::Varint(self.varint()?),
                1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => Field::Bytes(self.delimited()?),
                3 => {
                    self.skip_group(field, 0)?;
                    continue;
                }
                5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
                _ => return Err(ProtoError::Malformed),
            };
            return Ok(Some((field, value)));
        }
    }
    /// Returns the next field like [`Reader::field`], after the fields of this number, which are names. These do not share
    /// the message's buffer.
    pub fn field_beside(&mut self, names: u32, into: &mut Names) -> Result<Option<(u32, Field)>, ProtoError> {
        self.names(names, into)?;
        self.field()
    }
    fn names(&mut self, field: u32, into: &mut Names) -> Result<(), ProtoError> {
        while self.at < self.buffer.len() {
            let start = self.at;
            if self.tag()? != (field, 2) {
                self.at = start;
                break;
            }
            let range = self.range()?;
            into.push(field, self.buffer.get(range).unwrap_or_default())?;
        }
        Ok(())
    }
    fn tag(&mut self) -> Result<(u32, u8), ProtoError> {
        let key = u32::try_from(self.varint()?).map_err(|_| ProtoError::Malformed)?;
        if key >> 3 == 0 {
            return Err(ProtoError::Malformed);
        }
        Ok((key >> 3, (key & 7) as u8))
    }
    fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.buffer.get(self.at).ok_or(ProtoError::Truncated)?;
            self.at += 1;
            if shift == 63 && byte > 1 {
                return Err(ProtoError::Malformed);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtoError::Malformed)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtoError> {
        let bytes = self.buffer.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let array = *bytes.ok_or(ProtoError::Truncated)?;
        self.at += N;
        Ok(array)
    }
    fn delimited(&mut self) -> Result<Bytes, ProtoError> {
        let range = self.range()?;
        Ok(self.buffer.slice(range))
    }
    /// Takes the place of a length-delimited value.
    fn range(&mut self) -> Result<std::ops::Range<usize>, ProtoError> {
        let len = usize::try_from(self.varint()?).map_err(|_| ProtoError::Truncated)?;
        let end = self.at.checked_add(len).ok_or(ProtoError::Truncated)?;
        if end > self.buffer.len() {
            return Err(ProtoError::Truncated);
        }
        Ok(std::mem::replace(&mut self.at, end)..end)
    }
    fn skip_group(&mut self, group: u32, depth: usize) -> Result<(), ProtoError> {
        if depth >= MAX_DEPTH {
            return Err(ProtoError::Malformed);
        }
        loop {
            let (field, kind) = self.tag()?;
            match kind {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => drop(self.delimited()?),
                3 => self.skip_group(field, depth + 1)?,
                4 if field == group => return Ok(()),
                5 => drop(self.array::<4>()?),
                _ => return Err(ProtoError::Malformed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    #[test]
    fn varints_round_trip_at_their_edges() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Writer::new();
            out.varint(1, value);
            let mut reader = Reader::new(out.finish().into());
            assert_eq!(reader.field(), Ok(Some((1, Field::Varint(value)))));
        }
    }

    #[test]
    fn fields_come_in_their_order_and_groups_are_skipped() {
        let group = [0x1b, 0x08, 0x01, 0x1c]; // group 3 { field 1: 1 }
        let mut reader = Reader::new([&b"\x0a\x01a"[..], &group, b"\x12\x01b"].concat().into());
        assert_eq!(reader.field(), Ok(Some((1, Field::Bytes(Bytes::from_static(b"a"))))));
        assert_eq!(reader.field(), Ok(Some((2, Field::Bytes(Bytes::from_static(b"b"))))));
        assert_eq!(reader.field(), Ok(None));
    }

    #[test]
    fn names_are_taken_until_another_field() {
        let mut reader = Reader::new(Bytes::from_static(b"\x1a\x01a\x1a\x00\x22\x01b\x1a\x01c\x18\x05"));
        let mut names = Names::default();
        let other = reader.field_beside(3, &mut names);
        assert_eq!(other, Ok(Some((4, Field::Bytes(Bytes::from_static(b"b"))))));
        assert!(names.iter().eq(["a", ""]));
        let wrong = reader.field_beside(3, &mut names);
        assert_eq!(
            wrong,
            Ok(Some((3, Field::Varint(5)))),
            "a name of another wire type is the caller's error"
        );
        assert!(names.iter().eq(["a", "", "c"]));
        assert_eq!(reader.field_beside(3, &mut names), Ok(None));
        let cut = Reader::new(Bytes::from_static(b"\x1a\x05a")).field_beside(3, &mut names);
        assert_eq!(cut, Err(ProtoError::Truncated));
    }

    #[test]
    fn invalid_protobuf_is_an_error() {
        for (bytes, error) in [
            (&[0x0a, 0x05, b'x'][..], ProtoError::Truncated),
            (&[0x00][..], ProtoError::Malformed),
            (&[0x0c][..], ProtoError::Malformed),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..], ProtoError::Malformed),
            (&[0x0d, 1, 2][..], ProtoError::Truncated),
        ] {
            assert_eq!(Reader::new(Bytes::copy_from_slice(bytes)).field(), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn deeply_nested_groups_are_rejected() {
        let bytes = vec![0x0b; 100_000];
        assert_eq!(Reader::new(bytes.into()).field(), Err(ProtoError::Malformed));
    }
}
