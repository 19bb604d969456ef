//! Messages as lists of shared chunks.
//!
//! Small pieces are copied together, because every chunk costs an HTTP/2 frame; large ones are
//! shared, because every copy costs memory per stream.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::grpc;

/// Smallest piece that is shared instead of copied, in bytes.
pub const BY_REFERENCE: usize = 12 << 10;
/// Largest piece that is passed to the transport, in bytes: a transport that takes one piece more than it can
/// send must not take the whole message.
pub const PIECE: usize = 256 << 10;
/// Typical size of a chunk of copied pieces, in bytes.
const GATHER: usize = 256 << 10;

/// Builds a body from pieces.
#[derive(Debug, Default)]
pub struct RopeBuilder {
    done: Vec<Bytes>,
    open: BytesMut,
    len: usize,
}

impl RopeBuilder {
    /// Creates a builder with capacity for this many copied bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { open: BytesMut::with_capacity(bytes.min(GATHER)), ..Self::default() }
    }
    /// Appends bytes by writing them.
    pub fn write(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let before = self.open.len();
        write(&mut self.open);
        self.len += self.open.len() - before;
        if self.open.len() >= GATHER {
            self.close();
        }
    }
    /// Appends bytes; shares them if they are many.
    pub fn push(&mut self, bytes: &Bytes) {
        if bytes.len() < BY_REFERENCE {
            return self.write(|open| open.extend_from_slice(bytes));
        }
        self.close();
        self.len += bytes.len();
        self.done.push(bytes.clone());
    }
    /// Appends bytes by reference, however few.
    pub fn share(&mut self, bytes: Bytes) {
        self.close();
        self.len += bytes.len();
        self.done.push(bytes);
    }
    /// Returns the body.
    #[must_use]
    pub fn finish(mut self) -> Body {
        self.close();
        Body { chunks: self.done.into(), len: self.len }
    }
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push(self.open.split().freeze());
        }
    }
}

/// Part of a message, shared by every stream that sends it.
#[derive(Debug, Clone)]
pub struct Body {
    chunks: Arc<[Bytes]>,
    len: usize,
}

impl Body {
    /// Returns its chunks, in order.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }
    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Body {
    fn default() -> Self {
        Self { chunks: Arc::from([]), len: 0 }
    }
}

/// One framed message: a head of its own stream, then shared bodies.
#[derive(Debug, Clone)]
pub struct Rope {
    chunks: std::collections::VecDeque<Bytes>,
    len: usize,
}

impl Rope {
    /// Frames a head and the chunks after it. Small chunks are copied behind the head, so a small
    /// message is one chunk.
    #[must_use]
    pub fn framed(head: &[u8], parts: &[&[Bytes]]) -> Self {
        let chunks = || parts.iter().flat_map(|part| part.iter());
        let len = head.len() + chunks().map(Bytes::len).sum::<usize>();
        let mut out = RopeBuilder::with_capacity(grpc::PREFIX + len.min(BY_REFERENCE));
        out.write(|open| {
            open.extend_from_slice(&grpc::prefix(len));
            open.extend_from_slice(head);
        });
        chunks().for_each(|chunk| out.push(chunk));
        let body = out.finish();
        Self { chunks: body.chunks.iter().cloned().collect(), len: body.len }
    }
    /// Creates the rope of framed messages that are one chunk.
    #[must_use]
    pub fn of_chunk(chunk: Bytes) -> Self {
        Self { len: chunk.len(), chunks: [chunk].into() }
    }
    /// Returns all bytes that are left, if they are one chunk.
    #[must_use]
    pub fn chunk(&self) -> Option<&Bytes> {
        self.chunks.front().filter(|_| self.chunks.len() == 1)
    }
    /// Appends a message. Two small ones become one chunk, which the transport passes on in one write.
    pub fn append(&mut self, mut next: Self) {
        self.len += next.len;
        if let Some(joined) = self.chunks.back().zip(next.chunks.front()).and_then(joined) {
            self.chunks.pop_back();
            next.chunks.pop_front();
            self.chunks.push_back(joined);
        }
        self.chunks.append(&mut next.chunks);
    }
    /// Removes and returns the next piece, of at most [`PIECE`] bytes.
    pub fn pop(&mut self) -> Option<Bytes> {
        let mut chunk = self.chunks.pop_front()?;
        if chunk.len() > PIECE {
            self.chunks.push_front(chunk.split_off(PIECE));
        }
        self.len -= chunk.len();
        Some(chunk)
    }
    /// Returns the number of remaining bytes, including the prefix.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Whether no bytes remain.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the remaining bytes as one buffer, without the prefix; for tests and tools.
    #[must_use]
    pub fn message(mut self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len);
        while let Some(chunk) = self.pop() {
            out.extend_from_slice(&chunk);
        }
        let whole = out.freeze();
        whole.slice(grpc::PREFIX.min(whole.len())..)
    }
}

/// Returns two chunks as one if copying them costs less than a frame of their own.
fn joined((last, first): (&Bytes, &Bytes)) -> Option<Bytes> {
    let len = last.len() + first.len();
    (len <= BY_REFERENCE).then(|| {
        let mut both = BytesMut::with_capacity(len);
        both.extend_from_slice(last);
        both.extend_from_slice(first);
        both.freeze()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_small_messages_are_one_chunk_and_a_large_one_stays_shared() {
        let large = Bytes::from(vec![7; BY_REFERENCE]);
        let mut rope = Rope::framed(b"one", &[]);
        rope.append(Rope::framed(b"two", &[]));
        rope.append(Rope::framed(b"", &[std::slice::from_ref(&large)]));
        assert_eq!(rope.len(), 8 + 8 + 5 + BY_REFERENCE);
        assert_eq!(rope.pop().unwrap(), Bytes::from_static(b"\0\0\0\0\x03one\0\0\0\0\x03two\0\0\0\x30\0"));
        assert_eq!(rope.pop().unwrap().as_ptr(), large.as_ptr());
        assert!(rope.is_empty() && rope.pop().is_none());
    }

    #[test]
    fn small_pieces_are_copied_together_and_large_ones_shared() {
        let large = Bytes::from(vec![7; BY_REFERENCE]);
        let mut builder = RopeBuilder::default();
        for _ in 0..10 {
            builder.push(&Bytes::from_static(b"small"));
        }
        builder.push(&large);
        builder.push(&Bytes::from_static(b"tail"));
        let body = builder.finish();
        assert_eq!(body.chunks().len(), 3);
        assert_eq!(body.chunks()[1].as_ptr(), large.as_ptr());
        assert_eq!(body.len(), 50 + BY_REFERENCE + 4);
    }

    #[test]
    fn a_small_message_is_one_chunk() {
        let mut builder = RopeBuilder::default();
        builder.push(&Bytes::from_static(b"body"));
        let mut rope = Rope::framed(b"head", &[builder.finish().chunks()]);
        assert_eq!(rope.pop().unwrap(), Bytes::from_static(b"\0\0\0\0\x08headbody"));
        assert!(rope.is_empty() && rope.pop().is_none());
    }

    #[test]
    fn large_chunk_is_passed_on_in_pieces() {
        let large = Bytes::from(vec![7; 2 * PIECE + 1]);
        let mut rope = Rope::framed(b"", &[std::slice::from_ref(&large)]);
        rope.pop();
        let pieces: Vec<Bytes> = std::iter::from_fn(|| rope.pop()).collect();
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 1]);
        assert_eq!(pieces[1].as_ptr(), large[PIECE..].as_ptr());
    }

    #[test]
    fn a_shared_body_is_not_copied_per_stream() {
        let mut builder = RopeBuilder::default();
        builder.write(|open| open.extend_from_slice(&[1; BY_REFERENCE]));
        let body = builder.finish();
        let mut rope = Rope::framed(b"head", &[body.chunks()]);
        assert_eq!(rope.len(), 5 + 4 + BY_REFERENCE);
        rope.pop();
        assert_eq!(rope.pop().unwrap().as_ptr(), body.chunks()[0].as_ptr());
    }
}
