//! What clients ask, in both variants of the protocol.

use bytes::Bytes;

use crate::error::ProtoError;
use crate::limits::MAX_ERROR_TEXT;
use crate::names::{Names, Pairs, Text};
use crate::node::Node;
use crate::wire::Reader;

/// Why a client refused a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorDetail {
    /// The gRPC code that it gives.
    pub code: i32,
    /// Its words, cut to 4 KiB.
    pub message: String,
}

impl ErrorDetail {
    fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            match field {
                1 => out.code = value.varint(1)? as i32,
                2 => out.message = cut(&value.bytes(2)?),
                _ => {}
            }
        }
        Ok(out)
    }
}

/// A refusal's words are shown to people: what is not text in them is replaced, not refused.
fn cut(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MAX_ERROR_TEXT).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    while text.len() > MAX_ERROR_TEXT {
        text.pop();
    }
    text
}

/// A state-of-the-world request.
#[derive(Debug, Clone, Default)]
pub struct SotwRequest {
    /// The version that the client holds.
    pub version: Text,
    /// Who asks; only the first request of a stream must say.
    pub node: Option<Node>,
    /// All names that the client wants.
    pub names: Names,
    /// The type.
    pub type_url: Text,
    /// Which response this answers.
    pub nonce: Text,
    /// That response was refused, and why.
    pub error: Option<ErrorDetail>,
}

impl SotwRequest {
    /// From a message; names stay where they are.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            match field {
                1 => out.version = Text::new(1, "version_info", value.bytes(1)?)?,
                2 => out.node = Some(Node::decode(value.bytes(2)?)?),
                3 => out.names.push(3, value.bytes(3)?)?,
                4 => out.type_url = Text::new(4, "type_url", value.bytes(4)?)?,
                5 => out.nonce = Text::new(5, "response_nonce", value.bytes(5)?)?,
                6 => out.error = Some(ErrorDetail::decode(value.bytes(6)?)?),
                _ => {}
            }
        }
        Ok(out)
    }
}

/// A delta request.
#[derive(Debug, Clone, Default)]
pub struct DeltaRequest {
    /// Who asks; only the first request of a stream must say.
    pub node: Option<Node>,
    /// The type.
    pub type_url: Text,
    /// Names wanted from now on.
    pub subscribe: Names,
    /// Names wanted no more.
    pub unsubscribe: Names,
    /// What the client holds from an earlier stream.
    pub initial: Pairs,
    /// Which response this answers.
    pub nonce: Text,
    /// That response was refused, and why.
    pub error: Option<ErrorDetail>,
}

impl DeltaRequest {
    /// From a message; names stay where they are.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            match field {
                1 => out.node = Some(Node::decode(value.bytes(1)?)?),
                2 => out.type_url = Text::new(2, "type_url", value.bytes(2)?)?,
                3 => out.subscribe.push(3, value.bytes(3)?)?,
                4 => out.unsubscribe.push(4, value.bytes(4)?)?,
                5 => pair(value.bytes(5)?, &mut out.initial)?,
                6 => out.nonce = Text::new(6, "response_nonce", value.bytes(6)?)?,
                7 => out.error = Some(ErrorDetail::decode(value.bytes(7)?)?),
                _ => {}
            }
        }
        Ok(out)
    }
}

fn pair(bytes: Bytes, into: &mut Pairs) -> Result<(), ProtoError> {
    let (mut name, mut version) = (Text::default(), Text::default());
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        match field {
            1 => name = Text::new(1, "a resource name", value.bytes(1)?)?,
            2 => version = Text::new(2, "a resource version", value.bytes(2)?)?,
            _ => {}
        }
    }
    into.push(name, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusals_words_are_cut_at_a_character() {
        let text = cut("\u{e9}".repeat(4000).as_bytes());
        assert!(text.len() <= MAX_ERROR_TEXT);
        assert!(text.starts_with('\u{e9}'));
        assert!(cut(&[0xff; 5000]).len() <= MAX_ERROR_TEXT);
    }
}
