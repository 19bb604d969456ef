//! Encodes responses: the head of a response, and the records of its resources.
//!
//! Protobuf fields may come in any order, so a response is the stream's own head (version, type, nonce)
//! followed by records that all streams share.

use bytes::{Bytes, BytesMut};

use crate::rope::RopeBuilder;
use crate::wire::{field_len, put_bytes, put_head, put_text};

/// Fields of a state-of-the-world response other than resources.
#[derive(Debug, Clone, Copy)]
pub struct SotwHead<'a> {
    /// Version of the response.
    pub version: &'a str,
    /// Type URL of the resources.
    pub type_url: &'a str,
    /// Nonce that the client's answer repeats.
    pub nonce: &'a str,
}

impl SotwHead<'_> {
    /// Encodes the fields.
    #[must_use]
    pub fn encode(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(128);
        put_text(&mut out, 1, self.version);
        put_text(&mut out, 4, self.type_url);
        put_text(&mut out, 5, self.nonce);
        out
    }
}

/// Fields of a delta response other than resources.
#[derive(Debug, Clone, Copy)]
pub struct DeltaHead<'a> {
    /// Version of the response, for information only.
    pub version: &'a str,
    /// Type URL of the resources.
    pub type_url: &'a str,
    /// Nonce that the client's answer repeats.
    pub nonce: &'a str,
}

impl DeltaHead<'_> {
    /// Encodes the fields, with the removed names.
    #[must_use]
    pub fn encode<'n>(&self, removed: impl Iterator<Item = &'n str>) -> BytesMut {
        let mut out = BytesMut::with_capacity(128);
        put_text(&mut out, 1, self.version);
        put_text(&mut out, 4, self.type_url);
        put_text(&mut out, 5, self.nonce);
        for name in removed {
            put_bytes(&mut out, 6, name.as_bytes());
        }
        out
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
    /// Encoded resource.
    pub body: &'a Bytes,
}

impl Record<'_> {
    const FIELD: u8 = 2;

    /// Appends a `resources` field of a state-of-the-world response: an `Any`.
    pub fn push_sotw(&self, out: &mut RopeBuilder) {
        out.write(|open| {
            put_head(open, Self::FIELD, self.any_len());
            self.put_any_head(open);
        });
        out.push(self.body);
    }
    /// Appends a `resources` field of a delta response: a `Resource` with an `Any`.
    pub fn push_delta(&self, out: &mut RopeBuilder) {
        let any = self.any_len();
        let len = field_len(self.version.len()) + field_len(self.name.len()) + field_len(any);
        out.write(|open| {
            put_head(open, Self::FIELD, len);
            put_bytes(open, 1, self.version.as_bytes());
            put_bytes(open, 3, self.name.as_bytes());
            put_head(open, 2, any);
            self.put_any_head(open);
        });
        out.push(self.body);
    }
    fn any_len(&self) -> usize {
        field_len(self.type_url.len()) + field_len(self.body.len())
    }
    fn put_any_head(&self, open: &mut BytesMut) {
        put_bytes(open, 1, self.type_url.as_bytes());
        put_head(open, 2, self.body.len());
    }
}
