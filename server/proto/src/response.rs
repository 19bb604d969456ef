//! Encodes responses: the head of a response, and the records of its resources.
//!
//! Protobuf fields may come in any order, so a response is the stream's own head (version, type, nonce)
//! followed by records that all streams share.

use bytes::{Bytes, BytesMut};

use crate::grpc;
use crate::rope::{Rope, RopeBuilder};
use crate::wire::{Writer, field_len};

/// Protocol variant of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// State of the world: `DiscoveryResponse`, whose resources are each an `Any`.
    Sotw,
    /// Incremental: `DeltaDiscoveryResponse`, whose resources are each a `Resource` with version, name and `Any`.
    Delta,
}

/// Fields of a response other than resources. Both variants number them alike.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// Version of the response; for information only in the delta variant.
    pub version: &'a str,
    /// Type URL of the resources.
    pub type_url: &'a str,
    /// Nonce that the client's answer repeats.
    pub nonce: &'a str,
}

impl ResponseHead<'_> {
    /// Encodes the fields, with the removed names, which only the delta variant has.
    #[must_use]
    pub fn encode<'n>(&self, removed: impl Iterator<Item = &'n str>) -> Vec<u8> {
        let mut out = Writer::with_capacity(128);
        out.string(1, self.version);
        out.string(4, self.type_url);
        out.string(5, self.nonce);
        removed.for_each(|name| out.present(6, name));
        out.finish()
    }
}

/// A small response that streams send alike but for the nonce.
#[derive(Debug, Clone)]
pub struct Template {
    before: Bytes,
    after: Bytes,
}

impl Template {
    const NONCE: u32 = 5;

    /// Divides a framed response around its nonce. Returns `None` if it is not one chunk.
    #[must_use]
    pub fn of(framed: &Rope, head: &ResponseHead<'_>) -> Option<Self> {
        let chunk = framed.chunk()?;
        let len = |text: &str| if text.is_empty() { 0 } else { field_len(text.len()) };
        let (begin, nonce) = (len(head.version) + len(head.type_url), len(head.nonce));
        let at = grpc::PREFIX + begin;
        let is_whole = at + nonce <= chunk.len();
        is_whole.then(|| Self { before: chunk.slice(grpc::PREFIX..at), after: chunk.slice(at + nonce..) })
    }
    /// Returns the number of bytes of the framed response with a nonce.
    #[must_use]
    pub const fn len(&self, nonce: &str) -> usize {
        grpc::PREFIX + self.before.len() + field_len(nonce.len()) + self.after.len()
    }
    /// Writes the framed response.
    pub fn write(&self, nonce: &str, out: &mut BytesMut) {
        out.extend_from_slice(&grpc::prefix(self.len(nonce) - grpc::PREFIX));
        out.extend_from_slice(&self.before);
        Writer::to(&mut *out).present(Self::NONCE, nonce);
        out.extend_from_slice(&self.after);
    }
}

/// One resource of a response.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Type URL.
    pub type_url: &'a str,
    /// Name.
    pub name: &'a str,
    /// Version.
    pub version: &'a str,
    /// Encoded resource, in bytes.
    pub len: usize,
}

impl Record<'_> {
    const FIELD: u32 = 2;

    /// Returns the number of bytes of the `resources` field, with the encoded resource.
    #[must_use]
    pub const fn size(&self, variant: Variant) -> usize {
        field_len(self.inner(variant))
    }
    /// Writes the `resources` field up to the encoded resource, which comes last.
    pub fn write_head(&self, variant: Variant, open: &mut BytesMut) {
        let mut out = Writer::to(open);
        out.head(Self::FIELD, self.inner(variant));
        if variant == Variant::Delta {
            out.present(1, self.version);
            out.present(3, self.name);
            out.head(2, self.any());
        }
        out.present(1, self.type_url);
        out.head(2, self.len);
    }
    /// Appends the `resources` field.
    pub fn push(&self, variant: Variant, body: &[Bytes], out: &mut RopeBuilder) {
        out.write(|open| self.write_head(variant, open));
        body.iter().for_each(|chunk| out.push(chunk));
    }
    const fn inner(&self, variant: Variant) -> usize {
        match variant {
            Variant::Sotw => self.any(),
            Variant::Delta => {
                field_len(self.version.len()) + field_len(self.name.len()) + field_len(self.any())
            }
        }
    }
    const fn any(&self) -> usize {
        field_len(self.type_url.len()) + field_len(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_the_same_bytes_with_another_nonce() {
        fn head(nonce: &str) -> ResponseHead<'_> {
            ResponseHead { version: "17", type_url: "type.googleapis.com/x", nonce }
        }
        let body = [Bytes::from_static(b"\x12\x04body")];
        let framed = |nonce: &str, removed: &[&str]| {
            Rope::framed(&head(nonce).encode(removed.iter().copied()), &[&body])
        };
        for removed in [&[][..], &["a", "b"]] {
            let template = Template::of(&framed("1z", removed), &head("1z")).unwrap();
            for nonce in ["1z", "2", &"n".repeat(200)] {
                let mut out = BytesMut::new();
                template.write(nonce, &mut out);
                assert_eq!(out.len(), template.len(nonce));
                assert_eq!(Some(&out.freeze()), framed(nonce, removed).chunk());
            }
        }
    }
}
