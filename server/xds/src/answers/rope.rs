//! The `resources` fields of a response as shared chunks.
//!
//! Protobuf lets fields come in any order and repeated fields in pieces, so a response is the
//! session's own head and then these chunks, which all clients of a set share. Field 2 is `resources`
//! in both variants; only its contents differ.

use bytes::{BufMut, Bytes, BytesMut};
use tributary_model::EncodedResource;

use super::ResourceType;

/// Number of hex digits of a version.
const VERSION_LEN: usize = 16;

/// Protocol variant of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `DiscoveryResponse.resources`: each an `Any`.
    Sotw,
    /// `DeltaDiscoveryResponse.resources`: each a `Resource` with version, `Any` and name.
    Delta,
}

/// Encoded fields in chunks of at least [`Rope::CHUNK`] bytes, but for the last.
#[derive(Debug, Default)]
pub struct Rope {
    /// The chunks, in order.
    pub chunks: Vec<Bytes>,
    /// Total number of bytes.
    pub len: usize,
}

impl Rope {
    /// Smaller chunks cost more in HTTP/2 frames than copying them.
    pub const CHUNK: usize = 64 * 1024;

    /// Writes the members, in order, each with its body.
    pub fn of<'a>(
        form: Form,
        kind: ResourceType,
        members: impl IntoIterator<Item = (&'a EncodedResource, Bytes)>,
    ) -> Self {
        let mut writer = RopeWriter::new(form, kind);
        for (resource, body) in members {
            writer.push(resource, &body);
        }
        writer.finish()
    }
}

/// Writes resources into a rope one by one; for sessions with a set of their own.
#[derive(Debug)]
pub struct RopeWriter {
    form: Form,
    kind: ResourceType,
    buffer: BytesMut,
    rope: Rope,
}

impl RopeWriter {
    /// Creates an empty writer.
    #[must_use]
    pub fn new(form: Form, kind: ResourceType) -> Self {
        Self { form, kind, buffer: BytesMut::new(), rope: Rope::default() }
    }
    /// Adds one resource. In delta form it carries its version and name.
    pub fn push(&mut self, resource: &EncodedResource, body: &[u8]) {
        let any = any_len(self.kind, body.len());
        self.start(inner_len(self.form, any, &resource.name));
        match self.form {
            Form::Sotw => put_any(&mut self.buffer, self.kind, body),
            Form::Delta => {
                put_bytes(&mut self.buffer, 0x0a, resource.version.to_string().as_bytes());
                put_head(&mut self.buffer, 0x12, any);
                put_any(&mut self.buffer, self.kind, body);
                put_bytes(&mut self.buffer, 0x1a, resource.name.as_bytes());
            }
        }
        if self.buffer.len() >= Rope::CHUNK {
            self.cut();
        }
    }
    /// Returns the rope.
    #[must_use]
    pub fn finish(mut self) -> Rope {
        if !self.buffer.is_empty() {
            self.cut();
        }
        self.rope
    }
    fn start(&mut self, len: usize) {
        let need = field_len(len);
        if self.buffer.capacity() - self.buffer.len() < need {
            self.buffer.reserve(need.max(Rope::CHUNK));
        }
        put_head(&mut self.buffer, 0x12, len);
    }
    fn cut(&mut self) {
        let chunk = self.buffer.split().freeze();
        self.rope.len += chunk.len();
        self.rope.chunks.push(chunk);
    }
}

/// Returns the number of bytes that [`RopeWriter::push`] writes for a resource.
pub(crate) fn field_size(form: Form, kind: ResourceType, resource: &EncodedResource) -> usize {
    field_len(inner_len(form, any_len(kind, resource.len as usize), &resource.name))
}

fn inner_len(form: Form, any: usize, name: &str) -> usize {
    match form {
        Form::Sotw => any,
        Form::Delta => field_len(VERSION_LEN) + field_len(any) + field_len(name.len()),
    }
}

fn any_len(kind: ResourceType, body: usize) -> usize {
    field_len(kind.type_url().len()) + if body == 0 { 0 } else { field_len(body) }
}

fn put_any(out: &mut impl BufMut, kind: ResourceType, body: &[u8]) {
    put_bytes(out, 0x0a, kind.type_url().as_bytes());
    if !body.is_empty() {
        put_bytes(out, 0x12, body);
    }
}

fn put_bytes(out: &mut impl BufMut, tag: u8, bytes: &[u8]) {
    put_head(out, tag, bytes.len());
    out.put_slice(bytes);
}

fn put_head(out: &mut impl BufMut, tag: u8, len: usize) {
    out.put_u8(tag);
    put_len(out, len);
}

/// Returns the size of a field: one tag byte, its length and its contents.
fn field_len(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

/// Writes a length as a varint.
pub(crate) fn put_len(out: &mut impl BufMut, len: usize) {
    prost::encoding::encode_varint(len as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};
    use prost::Message;

    fn mk_resources(count: usize, size: usize) -> Vec<(EncodedResource, Bytes)> {
        let mk = |n: usize| {
            let body = Bytes::from(vec![u8::try_from(n % 251).unwrap(); size]);
            (EncodedResource::new(format!("r{n:05}").into(), body.clone()), body)
        };
        (0..count).map(mk).collect()
    }

    fn mk_rope(form: Form, resources: &[(EncodedResource, Bytes)]) -> (Rope, Vec<u8>) {
        let rope = Rope::of(form, ResourceType::Cluster, resources.iter().map(|(e, b)| (e, b.clone())));
        let flat = rope.chunks.concat();
        (rope, flat)
    }

    #[test]
    fn a_sotw_rope_decodes_to_its_resources() {
        let resources = mk_resources(300, 700);
        let (rope, flat) = mk_rope(Form::Sotw, &resources);
        let message = DiscoveryResponse::decode(&flat[..]).unwrap();
        assert_eq!((rope.len, message.resources.len()), (flat.len(), 300));
        for (any, (_, body)) in message.resources.iter().zip(&resources) {
            assert_eq!(
                (any.type_url.as_str(), &any.value[..]),
                (ResourceType::Cluster.type_url(), &body[..])
            );
        }
    }

    #[test]
    fn a_delta_rope_carries_names_and_versions() {
        let resources = mk_resources(3, 0);
        let (_, flat) = mk_rope(Form::Delta, &resources);
        let message = DeltaDiscoveryResponse::decode(&flat[..]).unwrap();
        for (got, (encoded, body)) in message.resources.iter().zip(&resources) {
            assert_eq!((&*got.name, &got.version), (&*encoded.name, &encoded.version.to_string()));
            assert_eq!(got.resource.as_ref().unwrap().value, &body[..]);
        }
    }

    #[test]
    fn chunks_are_not_small() {
        let (rope, _) = mk_rope(Form::Delta, &mk_resources(2_000, 500));
        let (last, full) = rope.chunks.split_last().unwrap();
        assert!(full.len() > 10 && full.iter().all(|c| c.len() >= Rope::CHUNK));
        assert!(!last.is_empty());
    }
}
