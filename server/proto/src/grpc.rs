//! gRPC frames: a five-byte prefix before each message.

use crate::error::ProtoError;

/// The length of the prefix before each message.
pub const PREFIX: usize = 5;

/// Returns the prefix of an uncompressed message of this length.
#[must_use]
pub fn prefix(len: usize) -> [u8; PREFIX] {
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [0, len[0], len[1], len[2], len[3]]
}

/// Returns the length of a message from its prefix. Rejects a length beyond the limit before the message arrives.
pub fn parse_prefix(prefix: [u8; PREFIX], limit: usize) -> Result<usize, ProtoError> {
    let [flag, len @ ..] = prefix;
    let len = u32::from_be_bytes(len) as usize;
    match flag {
        0 if len > limit => Err(ProtoError::TooLarge { what: "the message", limit }),
        0 => Ok(len),
        1 => Err(ProtoError::Compressed),
        _ => Err(ProtoError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_gives_a_length_within_the_limit_only() {
        assert_eq!(parse_prefix(prefix(7), 7), Ok(7));
        assert_eq!(parse_prefix(prefix(8), 7), Err(ProtoError::TooLarge { what: "the message", limit: 7 }));
        assert_eq!(parse_prefix([1, 0, 0, 0, 0], 7), Err(ProtoError::Compressed));
        assert_eq!(parse_prefix([9, 0, 0, 0, 0], 7), Err(ProtoError::Malformed));
    }
}
