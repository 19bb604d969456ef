//! Client side of the messages, for tests, benches and tools.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::error::ProtoError;
use crate::grpc;
use crate::names::Text;
use crate::node::{Metadata, Node, Value};
use crate::request::{DeltaRequest, ErrorDetail, SotwRequest};
use crate::wire::{Field, Reader, Writer};

/// Prepends the gRPC prefix to a message.
#[must_use]
pub fn frame(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(grpc::PREFIX + message.len());
    out.extend_from_slice(&grpc::prefix(message.len()));
    out.extend_from_slice(message);
    out.freeze()
}

/// Cuts a byte stream into messages. Holds at most one message and the bytes received with its end.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    limit: usize,
}

impl FrameDecoder {
    /// Creates a decoder for messages up to this length.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
    /// Returns the next whole message. Rejects a length beyond the limit before its bytes arrive.
    pub fn message(&mut self) -> Result<Option<Bytes>, ProtoError> {
        let Some(prefix) = self.buffer.first_chunk() else { return Ok(None) };
        let len = grpc::parse_prefix(*prefix, self.limit)?;
        if self.buffer.len() < grpc::PREFIX + len {
            return Ok(None);
        }
        self.buffer.advance(grpc::PREFIX);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }
}

impl SotwRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.string(1, self.version.as_str());
        if let Some(node) = &self.node {
            out.message(2, |w| node.write(w));
        }
        self.names.iter().for_each(|name| out.present(3, name));
        out.string(4, self.type_url.as_str());
        out.string(5, self.nonce.as_str());
        if let Some(error) = &self.error {
            out.message(6, |w| error.write(w));
        }
        out.finish().into()
    }
}

impl DeltaRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        if let Some(node) = &self.node {
            out.message(1, |w| node.write(w));
        }
        out.string(2, self.type_url.as_str());
        self.subscribe.iter().for_each(|name| out.present(3, name));
        self.unsubscribe.iter().for_each(|name| out.present(4, name));
        for (name, version) in self.initial.iter() {
            out.message(5, |w| {
                w.string(1, name);
                w.string(2, version);
            });
        }
        out.string(6, self.nonce.as_str());
        if let Some(error) = &self.error {
            out.message(7, |w| error.write(w));
        }
        out.finish().into()
    }
}

impl ErrorDetail {
    fn write(&self, out: &mut Writer) {
        out.varint(1, i64::from(self.code) as u64);
        out.string(2, &self.message);
    }
}

impl Node {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        self.write(&mut out);
        out.finish().into()
    }
    fn write(&self, out: &mut Writer) {
        out.string(1, self.id.as_str());
        out.string(2, self.cluster.as_str());
        out.message(3, |w| self.metadata.write(w));
        if let Some(parts) = &self.locality {
            out.message(4, |w| (1..).zip(parts).for_each(|(field, part)| w.string(field, part.as_str())));
        }
        out.string(6, self.user_agent.as_str());
        out.string(7, self.user_agent_version.as_str());
    }
}

impl Metadata {
    fn write(&self, out: &mut Writer) {
        for (name, value) in self.iter() {
            out.message(1, |w| {
                w.present(1, name);
                w.message(2, |w| value.write(w));
            });
        }
    }
}

impl Value {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Null => out.varint(1, 0),
            Self::Number(number) => out.field(2, &Field::Fixed64(number.to_bits())),
            Self::Text(text) => out.present(3, text.as_str()),
            Self::Bool(truth) => out.varint(4, u64::from(*truth)),
            Self::Struct(fields) => out.message(5, |w| fields.write(w)),
            Self::List(values) => {
                out.message(6, |w| values.iter().for_each(|value| w.message(1, |w| value.write(w))));
            }
        }
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
