//! Client side of the messages, for tests, benches and tools.

use bytes::{Bytes, BytesMut};

use crate::error::ProtoError;
use crate::grpc;
use crate::names::Text;
use crate::node::{Metadata, Node, Value};
use crate::request::{DeltaRequest, ErrorDetail, SotwRequest};
use crate::wire::{Reader, put_bytes, put_head, put_text, put_varint};

/// Prepends the gRPC prefix to a message.
#[must_use]
pub fn frame(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(grpc::PREFIX + message.len());
    out.extend_from_slice(&grpc::prefix(message.len()));
    out.extend_from_slice(message);
    out.freeze()
}

impl SotwRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        put_text(&mut out, 1, self.version.as_str());
        if let Some(node) = &self.node {
            put_bytes(&mut out, 2, &node.encode());
        }
        self.names.iter().for_each(|name| put_bytes(&mut out, 3, name.as_bytes()));
        put_text(&mut out, 4, self.type_url.as_str());
        put_text(&mut out, 5, self.nonce.as_str());
        if let Some(error) = &self.error {
            put_bytes(&mut out, 6, &error.encode());
        }
        out.freeze()
    }
}

impl DeltaRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        if let Some(node) = &self.node {
            put_bytes(&mut out, 1, &node.encode());
        }
        put_text(&mut out, 2, self.type_url.as_str());
        self.subscribe.iter().for_each(|name| put_bytes(&mut out, 3, name.as_bytes()));
        self.unsubscribe.iter().for_each(|name| put_bytes(&mut out, 4, name.as_bytes()));
        for (name, version) in self.initial.iter() {
            let mut pair = BytesMut::new();
            put_text(&mut pair, 1, name);
            put_text(&mut pair, 2, version);
            put_bytes(&mut out, 5, &pair);
        }
        put_text(&mut out, 6, self.nonce.as_str());
        if let Some(error) = &self.error {
            put_bytes(&mut out, 7, &error.encode());
        }
        out.freeze()
    }
}

impl ErrorDetail {
    fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        out.extend_from_slice(&[0x08]);
        put_varint(&mut out, i64::from(self.code) as u64);
        put_text(&mut out, 2, &self.message);
        out
    }
}

impl Node {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        put_text(&mut out, 1, self.id.as_str());
        put_text(&mut out, 2, self.cluster.as_str());
        put_bytes(&mut out, 3, &self.metadata.encode());
        if let Some(parts) = &self.locality {
            let mut locality = BytesMut::new();
            for (field, part) in (1..).zip(parts) {
                put_text(&mut locality, field, part.as_str());
            }
            put_bytes(&mut out, 4, &locality);
        }
        put_text(&mut out, 6, self.user_agent.as_str());
        put_text(&mut out, 7, self.user_agent_version.as_str());
        out.freeze()
    }
}

impl Metadata {
    fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        for (name, value) in self.iter() {
            let mut entry = BytesMut::new();
            put_bytes(&mut entry, 1, name.as_bytes());
            put_bytes(&mut entry, 2, &value.encode());
            put_bytes(&mut out, 1, &entry);
        }
        out
    }
}

impl Value {
    fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        match self {
            Self::Null => out.extend_from_slice(&[0x08, 0]),
            Self::Number(number) => {
                out.extend_from_slice(&[0x11]);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Text(text) => put_bytes(&mut out, 3, text.as_str().as_bytes()),
            Self::Bool(truth) => out.extend_from_slice(&[0x20, u8::from(*truth)]),
            Self::Struct(fields) => put_bytes(&mut out, 5, &fields.encode()),
            Self::List(values) => {
                let mut list = BytesMut::new();
                values.iter().for_each(|v| put_bytes(&mut list, 1, &v.encode()));
                put_head(&mut out, 6, list.len());
                out.extend_from_slice(&list);
            }
        }
        out
    }
}

/// A resource as a client receives it; a state-of-the-world response has no name and version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Name.
    pub name: Text,
    /// Version.
    pub version: Text,
    /// Type URL of the body.
    pub type_url: Text,
    /// Encoded resource.
    pub body: Bytes,
}

/// A response of either variant as a client receives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Version of the response.
    pub version: Text,
    /// Type URL.
    pub type_url: Text,
    /// Nonce.
    pub nonce: Text,
    /// Resources.
    pub resources: Vec<Received>,
    /// Removed names.
    pub removed: Vec<Text>,
}

impl Response {
    /// Decodes a state-of-the-world response.
    pub fn decode_sotw(bytes: Bytes) -> Result<Self, ProtoError> {
        Self::decode(bytes, |any| {
            let mut out = Received::default();
            any_into(any, &mut out)?;
            Ok(out)
        })
    }
    /// Decodes a delta response.
    pub fn decode_delta(bytes: Bytes) -> Result<Self, ProtoError> {
        Self::decode(bytes, resource)
    }
    fn decode(bytes: Bytes, one: fn(Bytes) -> Result<Received, ProtoError>) -> Result<Self, ProtoError> {
        let mut out = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.field()? {
            match field {
                1 => out.version = Text::new(1, "version", value.bytes(1)?)?,
                2 => out.resources.push(one(value.bytes(2)?)?),
                4 => out.type_url = Text::new(4, "type_url", value.bytes(4)?)?,
                5 => out.nonce = Text::new(5, "nonce", value.bytes(5)?)?,
                6 => out.removed.push(Text::new(6, "a removed name", value.bytes(6)?)?),
                _ => {}
            }
        }
        Ok(out)
    }
}

fn resource(bytes: Bytes) -> Result<Received, ProtoError> {
    let mut out = Received::default();
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        match field {
            1 => out.version = Text::new(1, "version", value.bytes(1)?)?,
            2 => any_into(value.bytes(2)?, &mut out)?,
            3 => out.name = Text::new(3, "name", value.bytes(3)?)?,
            _ => {}
        }
    }
    Ok(out)
}

fn any_into(bytes: Bytes, out: &mut Received) -> Result<(), ProtoError> {
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        match field {
            1 => out.type_url = Text::new(1, "type_url", value.bytes(1)?)?,
            2 => out.body = value.bytes(2)?,
            _ => {}
        }
    }
    Ok(())
}
