//! Tagged fields as bytes: the lowest layer of the codec, independent of facts.
//!
//! The rest of the codec calls it. A field is a number, a type and a value; a reader skips unknown numbers,
//! so a later release may add fields. Reading never panics, and allocates in proportion to its
//! input.

use super::Fault;

/// Appends an unsigned number, seven bits a byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Removes an unsigned number from the front.
pub(crate) fn take_varint(from: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first().ok_or(Fault::Truncated)?;
        *from = rest;
        if shift == 63 && byte > 1 {
            return Err(Fault::Malformed("a number exceeds 64 bits"));
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::Malformed("a number exceeds 64 bits"))
}

/// Removes this many bytes from the front.
pub(crate) fn take<'a>(from: &mut &'a [u8], length: u64) -> Result<&'a [u8], Fault> {
    let length = usize::try_from(length).map_err(|_| Fault::Truncated)?;
    let (taken, rest) = from.split_at_checked(length).ok_or(Fault::Truncated)?;
    *from = rest;
    Ok(taken)
}

/// Maps a signed number to an unsigned one that is small if its magnitude is.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverts [`zigzag`].
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a number as a field.
pub(crate) fn put_int(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 1);
    put_varint(out, value);
}

/// Appends bytes as a field.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(out, u64::from(field) << 1 | 1);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Inserts the length before the bytes appended since `start`.
pub(crate) fn close_nested(out: &mut Vec<u8>, start: usize) {
    let mut length = Vec::with_capacity(4);
    put_varint(&mut length, (out.len() - start) as u64);
    let end = out.len();
    out.extend_from_slice(&length);
    out.copy_within(start..end, start + length.len());
    out[start..start + length.len()].copy_from_slice(&length);
}

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number.
    Int(u64),
    /// Bytes, or nested fields.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the number.
    pub(crate) fn int(self) -> Result<u64, Fault> {
        match self {
            Self::Int(value) => Ok(value),
            Self::Bytes(_) => Err(Fault::Malformed("a number is bytes")),
        }
    }
    /// Returns the number in a narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(self) -> Result<T, Fault> {
        T::try_from(self.int()?).map_err(|_| Fault::Malformed("a number exceeds its type"))
    }
    /// Returns the number as a boolean.
    pub(crate) fn flag(self) -> Result<bool, Fault> {
        match self.int()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Malformed("a truth value is neither 0 nor 1")),
        }
    }
    /// Returns the bytes.
    pub(crate) fn bytes(self) -> Result<&'a [u8], Fault> {
        match self {
            Self::Bytes(value) => Ok(value),
            Self::Int(_) => Err(Fault::Malformed("bytes are a number")),
        }
    }
    /// Returns the nested fields.
    pub(crate) fn fields(self) -> Result<Fields<'a>, Fault> {
        self.bytes().map(Fields)
    }
}

/// Fields of a message, in order.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the next field, `None` at the end. Number 0 is never written: it would hide a continuation key.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Fault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = take_varint(&mut self.0)?;
        let field = u32::try_from(tag >> 1).map_err(|_| Fault::Malformed("a field number is too large"))?;
        if field == 0 {
            return Err(Fault::Malformed("a field has number 0"));
        }
        let value = take_varint(&mut self.0)?;
        let value = if tag & 1 == 0 { Value::Int(value) } else { Value::Bytes(take(&mut self.0, value)?) };
        Ok(Some((field, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn numbers_round_trip(value: u64, signed: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut rest = &out[..];
            proptest::prop_assert_eq!(take_varint(&mut rest), Ok(value));
            proptest::prop_assert!(rest.is_empty());
            proptest::prop_assert_eq!(unzigzag(zigzag(signed)), signed);
        }

        #[test]
        fn any_bytes_end_without_a_panic(bytes: Vec<u8>) {
            let mut fields = Fields(&bytes);
            while let Ok(Some(_)) = fields.next() {}
        }

        #[test]
        fn nested_fields_of_any_length_round_trip(inner in proptest::collection::vec(0u8.., 0..300)) {
            let mut out = Vec::new();
            put_varint(&mut out, 7 << 1 | 1);
            let start = out.len();
            out.extend_from_slice(&inner);
            close_nested(&mut out, start);
            put_int(&mut out, 1, 9);
            let mut fields = Fields(&out);
            proptest::prop_assert_eq!(fields.next(), Ok(Some((7, Value::Bytes(&inner)))));
            proptest::prop_assert_eq!(fields.next(), Ok(Some((1, Value::Int(9)))));
            proptest::prop_assert_eq!(fields.next(), Ok(None));
        }
    }

    #[test]
    fn length_beyond_the_end_is_a_fault() {
        let mut out = Vec::new();
        put_varint(&mut out, 1 << 1 | 1);
        put_varint(&mut out, u64::MAX);
        assert_eq!(Fields(&out).next(), Err(Fault::Truncated));
    }
}
