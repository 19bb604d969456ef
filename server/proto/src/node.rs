//! The `node` of a request: the fields that this server reads.

use bytes::Bytes;

use crate::error::ProtoError;
use crate::limits::{MAX_DEPTH, MAX_METADATA};
use crate::names::Text;
use crate::wire::Reader;

/// Self-description of a client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// Id; its form determines its meaning.
    pub id: Text,
    /// Envoy's service cluster.
    pub cluster: Text,
    /// Metadata.
    pub metadata: Metadata,
    /// Locality: region, zone, subzone.
    pub locality: Option<[Text; 3]>,
    /// Program, `envoy` or `gRPC C-core …`.
    pub user_agent: Text,
    /// Version of the program, if it is given as text.
    pub user_agent_version: Text,
}

impl Node {
    /// Decodes the message.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            match field {
                1 => out.id = Text::new(1, "node.id", value.bytes(1)?)?,
                2 => out.cluster = Text::new(2, "node.cluster", value.bytes(2)?)?,
                3 => out.metadata = Metadata::decode(value.bytes(3)?)?,
                4 => out.locality = Some(locality(value.bytes(4)?)?),
                6 => out.user_agent = Text::new(6, "node.user_agent_name", value.bytes(6)?)?,
                7 => out.user_agent_version = Text::new(7, "node.user_agent_version", value.bytes(7)?)?,
                _ => {}
            }
        }
        Ok(out)
    }
}

fn locality(bytes: Bytes) -> Result<[Text; 3], ProtoError> {
    let mut out: [Text; 3] = Default::default();
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        if let Some(part) = out.get_mut((field as usize).wrapping_sub(1)) {
            *part = Text::new(field, "node.locality", value.bytes(field)?)?;
        }
    }
    Ok(out)
}

/// A metadata value. Lists keep only their text values.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// A number.
    Number(f64),
    /// Text.
    Text(Text),
    /// A boolean.
    Bool(bool),
    /// A struct.
    Struct(Metadata),
    /// A list.
    List(Vec<Value>),
}

impl Value {
    /// Returns the value as text: numbers and booleans may arrive as such
    /// or as text.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.as_str().to_owned()),
            Self::Number(number) => Some(number.to_string()),
            Self::Bool(truth) => Some(truth.to_string()),
            Self::Null | Self::Struct(_) | Self::List(_) => None,
        }
    }
}

/// A struct of metadata; the last value of a name wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(Vec<(Text, Value)>);

impl Metadata {
    /// Decodes a `google.protobuf.Struct` of a bounded size.
    pub fn decode(bytes: Bytes) -> Result<Self, ProtoError> {
        if bytes.len() > MAX_METADATA {
            return Err(ProtoError::TooLarge { what: "node.metadata", limit: MAX_METADATA });
        }
        Self::nested(bytes, 0)
    }
    /// Returns a value by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(n, _)| n.as_str() == name).map(|(_, v)| v)
    }
    /// Returns a value as text; `None` if it is missing, empty or not a scalar.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.text().filter(|text| !text.is_empty())
    }
    /// Returns all names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v))
    }
    fn nested(bytes: Bytes, depth: usize) -> Result<Self, ProtoError> {
        let mut out = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            if field == 1 {
                out.push(entry(value.bytes(1)?, depth)?);
            }
        }
        Ok(Self(out))
    }
}

impl<'a> FromIterator<(&'a str, Value)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (&'a str, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(n, v)| (n.into(), v)).collect())
    }
}

fn entry(bytes: Bytes, depth: usize) -> Result<(Text, Value), ProtoError> {
    let (mut name, mut value) = (Text::default(), Value::Null);
    let mut reader = Reader::new(bytes);
    while let Some((field, part)) = reader.field()? {
        match field {
            1 => name = Text::new(1, "a metadata key", part.bytes(1)?)?,
            2 => value = one(part.bytes(2)?, depth + 1)?,
            _ => {}
        }
    }
    Ok((name, value))
}

fn one(bytes: Bytes, depth: usize) -> Result<Value, ProtoError> {
    if depth > MAX_DEPTH {
        return Err(ProtoError::TooLarge { what: "the nesting of node.metadata", limit: MAX_DEPTH });
    }
    let mut out = Value::Null;
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        out = match field {
            2 => match value {
                crate::wire::Field::Fixed64(bits) => Value::Number(f64::from_bits(bits)),
                _ => return Err(ProtoError::WireType { field }),
            },
            3 => Value::Text(whole_text(value.bytes(3)?)?),
            4 => Value::Bool(value.varint(4)? != 0),
            5 => Value::Struct(Metadata::nested(value.bytes(5)?, depth)?),
            6 => Value::List(list(value.bytes(6)?, depth)?),
            _ => Value::Null,
        };
    }
    Ok(out)
}

/// Decodes a text without its own bound, because metadata is bounded as a whole.
fn whole_text(bytes: Bytes) -> Result<Text, ProtoError> {
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Text::from(text)),
        Err(_) => Err(ProtoError::NotText { field: 3 }),
    }
}

fn list(bytes: Bytes, depth: usize) -> Result<Vec<Value>, ProtoError> {
    let mut out = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        if field == 1 {
            out.push(one(value.bytes(1)?, depth + 1)?);
        }
    }
    Ok(out)
}
