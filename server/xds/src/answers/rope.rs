//! The `resources` fields of a response as shared chunks.
//!
//! Protobuf lets fields come in any order and repeated fields in pieces, so a response is the
//! session's own head and then these chunks, which all clients of a set share. Field 2 is `resources`
//! in both variants; only its contents differ.

use bytes::{Bytes, BytesMut};
use tributary_model::EncodedResource;
use tributary_proto::{Record, Variant};

use super::ResourceType;

/// As long as every version.
const VERSION: &str = "0000000000000000";

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
        variant: Variant,
        kind: ResourceType,
        members: impl IntoIterator<Item = (&'a EncodedResource, Bytes)>,
    ) -> Self {
        let mut writer = RopeWriter::new(variant, kind);
        for (resource, body) in members {
            writer.push(resource, &body);
        }
        writer.finish()
    }
}

/// Writes resources into a rope one by one; for sessions with a set of their own.
#[derive(Debug)]
pub struct RopeWriter {
    variant: Variant,
    kind: ResourceType,
    buffer: BytesMut,
    rope: Rope,
}

impl RopeWriter {
    /// Creates an empty writer.
    #[must_use]
    pub fn new(variant: Variant, kind: ResourceType) -> Self {
        Self { variant, kind, buffer: BytesMut::new(), rope: Rope::default() }
    }
    /// Adds one resource.
    pub fn push(&mut self, resource: &EncodedResource, body: &[u8]) {
        let version = resource.version.to_string();
        let record = Record { len: body.len(), ..record(self.kind, resource, &version) };
        let need = record.size(self.variant);
        if self.buffer.capacity() - self.buffer.len() < need {
            self.buffer.reserve(need.max(Rope::CHUNK));
        }
        record.write_head(self.variant, &mut self.buffer);
        self.buffer.extend_from_slice(body);
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
    fn cut(&mut self) {
        let chunk = self.buffer.split().freeze();
        self.rope.len += chunk.len();
        self.rope.chunks.push(chunk);
    }
}

/// Returns the record of a resource, whose version is formatted.
pub(crate) fn record<'a>(kind: ResourceType, resource: &'a EncodedResource, version: &'a str) -> Record<'a> {
    Record { type_url: kind.type_url(), name: &resource.name, version, len: resource.len as usize }
}

/// Returns the number of bytes that [`RopeWriter::push`] writes for a resource.
pub(crate) fn field_size(variant: Variant, kind: ResourceType, resource: &EncodedResource) -> usize {
    record(kind, resource, VERSION).size(variant)
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

    fn mk_rope(variant: Variant, resources: &[(EncodedResource, Bytes)]) -> (Rope, Vec<u8>) {
        let rope = Rope::of(variant, ResourceType::Cluster, resources.iter().map(|(e, b)| (e, b.clone())));
        let flat = rope.chunks.concat();
        (rope, flat)
    }

    #[test]
    fn a_sotw_rope_decodes_to_its_resources() {
        let resources = mk_resources(300, 700);
        let (rope, flat) = mk_rope(Variant::Sotw, &resources);
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
        let (_, flat) = mk_rope(Variant::Delta, &resources);
        let message = DeltaDiscoveryResponse::decode(&flat[..]).unwrap();
        for (got, (encoded, body)) in message.resources.iter().zip(&resources) {
            assert_eq!((&*got.name, &got.version), (&*encoded.name, &encoded.version.to_string()));
            assert_eq!(got.resource.as_ref().unwrap().value, &body[..]);
        }
    }

    #[test]
    fn chunks_are_not_small() {
        let (rope, _) = mk_rope(Variant::Delta, &mk_resources(2_000, 500));
        let (last, full) = rope.chunks.split_last().unwrap();
        assert!(full.len() > 10 && full.iter().all(|c| c.len() >= Rope::CHUNK));
        assert!(!last.is_empty());
    }
}
