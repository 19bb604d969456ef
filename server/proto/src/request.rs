//! Requests of both protocol variants.

use bytes::Bytes;

use crate::error::ProtoError;
use crate::limits::MAX_ERROR_TEXT;
use crate::names::{Names, Pairs, Text};
use crate::node::Node;
use crate::response::Variant;
use crate::text::shorten;
use crate::wire::Reader;

/// Error with which a client rejects a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorDetail {
    /// gRPC code.
    pub code: i32,
    /// Error text, shortened to 4 KiB.
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

/// Shortens error text. It is shown to operators, so invalid UTF-8 is replaced instead of rejected.
fn cut(bytes: &[u8]) -> String {
    // the ends alone are decoded: a client may send megabytes
    let half = MAX_ERROR_TEXT.min(bytes.len());
    let text = match bytes.len() > 2 * MAX_ERROR_TEXT {
        true => {
            let ends = [&bytes[..half], &bytes[bytes.len() - half..]];
            ends.map(String::from_utf8_lossy).concat()
        }
        false => String::from_utf8_lossy(bytes).into_owned(),
    };
    shorten(&text, MAX_ERROR_TEXT).into_owned()
}

/// One request of either variant.
#[derive(Debug)]
pub enum Request {
    /// State of the world.
    Sotw(SotwRequest),
    /// Delta.
    Delta(DeltaRequest),
}

impl Request {
    /// Decodes a message.
    pub fn decode(variant: Variant, message: Bytes) -> Result<Self, ProtoError> {
        match variant {
            Variant::Sotw => SotwRequest::decode(message).map(Self::Sotw),
            Variant::Delta => DeltaRequest::decode(message).map(Self::Delta),
        }
    }
    /// Returns the node of the client, if the request has one.
    #[must_use]
    pub const fn node(&self) -> Option<&Node> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }
    /// Returns the type URL.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match self {
            Self::Sotw(request) => request.type_url.as_str(),
            Self::Delta(request) => request.type_url.as_str(),
        }
    }
}

/// A state-of-the-world request.
#[derive(Debug, Clone, Default)]
pub struct SotwRequest {
    /// Version that the client holds.
    pub version: Text,
    /// Node of the client; required only in the first request of a stream.
    pub node: Option<Node>,
    /// All subscribed names.
    pub names: Names,
    /// Type URL.
    pub type_url: Text,
    /// Nonce of the response that this request answers.
    pub nonce: Text,
    /// Error, if the client rejected that response.
    pub error: Option<ErrorDetail>,
}

impl SotwRequest {
    /// Decodes the message; texts but names share its buffer.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field_beside(3, &mut out.names)? {
            match field {
                1 => out.version = Text::new(1, "version_info", value.bytes(1)?)?,
                2 => out.node = Some(Node::decode(value.bytes(2)?)?),
                3 => out.names.push(3, &value.bytes(3)?)?,
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
    /// Node of the client; required only in the first request of a stream.
    pub node: Option<Node>,
    /// Type URL.
    pub type_url: Text,
    /// Names to subscribe to.
    pub subscribe: Names,
    /// Names to unsubscribe from.
    pub unsubscribe: Names,
    /// Resources that the client holds from an earlier stream.
    pub initial: Pairs,
    /// Nonce of the response that this request answers.
    pub nonce: Text,
    /// Error, if the client rejected that response.
    pub error: Option<ErrorDetail>,
}

impl DeltaRequest {
    /// Decodes the message; texts but names share its buffer.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field_beside(3, &mut out.subscribe)? {
            match field {
                1 => out.node = Some(Node::decode(value.bytes(1)?)?),
                2 => out.type_url = Text::new(2, "type_url", value.bytes(2)?)?,
                3 => out.subscribe.push(3, &value.bytes(3)?)?,
                4 => out.unsubscribe.push(4, &value.bytes(4)?)?,
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
    fn error_text_is_shortened_at_characters() {
        let text = cut("\u{e9}".repeat(4000).as_bytes());
        assert!(text.len() <= MAX_ERROR_TEXT);
        assert!(text.starts_with('\u{e9}') && text.ends_with('\u{e9}'));
        assert!(cut(&[0xff; 5000]).len() <= MAX_ERROR_TEXT);
    }

    #[test]
    fn error_text_keeps_its_beginning_and_its_end() {
        for length in [5_000, 8_192, 50_000] {
            let text = cut(format!("Proto constraint{}: is required", "x".repeat(length)).as_bytes());
            assert!(text.len() <= MAX_ERROR_TEXT && text.len() > MAX_ERROR_TEXT - 4, "{}", text.len());
            assert!(text.starts_with("Proto constraintx") && text.ends_with("x: is required"), "{text}");
            assert!(text.contains(" \u{2026} "));
        }
        assert_eq!(cut(b"short"), "short");
    }
}
