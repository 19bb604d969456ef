//! Encodes responses: the head of a response, and the records of its resources.
//!
//! Protobuf fields may come in any order, so a response is the stream's own head (version, type, nonce)
//! followed by records that all streams share.

use bytes::{Bytes, BytesMut};

use crate::rope::RopeBuilder;
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
