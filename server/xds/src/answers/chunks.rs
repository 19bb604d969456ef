//! Chunks of ropes, shared by sets that agree on a run of members.
//!
//! Two generations of a set, or the sets of two namespaces, differ in few members. Only the members of a run
//! decide where it ends, so both sets cut at the same positions again soon after a difference, and all
//! other chunks are the same bytes in memory. So clients at different generations do not cost a whole
//! body each.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_model::{EncodedResource, Version};
use tributary_proto::{Body, Record, RopeBuilder, Variant};

use super::ResourceType;
use super::budget::Copies;
use super::weak_table::WeakTable;

/// Identity of a chunk: the versions of its members determine all bytes except the frame.
type Key = (Variant, ResourceType, usize, Version);

/// Chunks in use.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    table: Mutex<WeakTable<Key, Shared>>,
    copies: Arc<Copies>,
}

/// Owner of a chunk's bytes, which count against the budget while they are referenced.
#[derive(Debug)]
struct Shared {
    bytes: Vec<u8>,
    copies: Arc<Copies>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.copies.take(self.bytes.len());
    }
}

#[derive(Debug, Clone)]
struct Handle(Arc<Shared>);

impl AsRef<[u8]> for Handle {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Chunks {
    /// One member in this many ends a run that is long enough.
    const ENDS: u64 = 16;
    /// A run of this many bytes always ends.
    const LONGEST: usize = 4 * Self::LEAST;
    /// Smaller chunks cost more in HTTP/2 frames than copying them.
    const LEAST: usize = 64 * 1024;

    /// Creates an empty table that counts bytes in `copies`.
    pub(crate) fn new(copies: Arc<Copies>) -> Self {
        Self { table: Mutex::default(), copies }
    }
    /// Builds the rope of these members, and returns how many bytes were copied into it. Calls `body` for members of
    /// chunks that are not in use.
    pub(crate) fn rope(
        &self,
        variant: Variant,
        kind: ResourceType,
        members: &[&Arc<EncodedResource>],
        mut body: impl FnMut(&Arc<EncodedResource>) -> Option<super::BodyChunks>,
    ) -> (Body, usize) {
        let mut rope = RopeBuilder::default();
        let mut copied = 0;
        for run in runs(variant, kind, members) {
            if let [large] = run
                && is_large(large)
            {
                body(large).into_iter().for_each(|body| push(variant, kind, large, &body, &mut rope));
                continue;
            }
            let key = (variant, kind, run.len(), Version::of_all(run.iter().map(|m| m.version)));
            let chunk = self.get(&key).unwrap_or_else(|| {
                let chunk = self.keep(key, written(variant, kind, run, &mut body));
                copied += chunk.0.bytes.len();
                chunk
            });
            rope.share(Bytes::from_owner(chunk));
        }
        (rope.finish(), copied)
    }
    fn get(&self, key: &Key) -> Option<Handle> {
        self.table.lock().get(key).map(Handle)
    }
    fn keep(&self, key: Key, bytes: Vec<u8>) -> Handle {
        self.copies.add(bytes.len());
        let chunk = Arc::new(Shared { bytes, copies: Arc::clone(&self.copies) });
        self.table.lock().insert(key, &chunk);
        Handle(chunk)
    }
}

/// Whether a body is shared by reference instead of copied into a chunk: it fills a chunk alone. A smaller one would
/// cost every stream two frames, of the record's head and of the body.
fn is_large(member: &EncodedResource) -> bool {
    member.len as usize >= Chunks::LEAST
}

fn push(
    variant: Variant,
    kind: ResourceType,
    member: &EncodedResource,
    body: &[Bytes],
    out: &mut RopeBuilder,
) {
    let version = member.version.to_string();
    let len = body.iter().map(Bytes::len).sum();
    Record { len, ..record(kind, member, &version) }.push(variant, body, out);
}

fn written(
    variant: Variant,
    kind: ResourceType,
    run: &[&Arc<EncodedResource>],
    body: &mut impl FnMut(&Arc<EncodedResource>) -> Option<super::BodyChunks>,
) -> Vec<u8> {
    let mut out = RopeBuilder::default();
    for member in run {
        if let Some(body) = body(member) {
            push(variant, kind, member, &body, &mut out);
        }
    }
    out.finish().chunks().concat()
}

/// Returns the record of a resource, whose version is formatted.
pub(crate) fn record<'a>(kind: ResourceType, resource: &'a EncodedResource, version: &'a str) -> Record<'a> {
    Record { type_url: kind.type_url(), name: &resource.name, version, len: resource.len as usize }
}

/// Returns the number of bytes of a resource in a rope.
fn field_size(variant: Variant, kind: ResourceType, resource: &EncodedResource) -> usize {
    /// As long as every version.
    const VERSION: &str = "0000000000000000";
    record(kind, resource, VERSION).size(variant)
}

/// Splits the members into runs of at least a chunk's size, except for the last.
fn runs<'m>(
    variant: Variant,
    kind: ResourceType,
    members: &'m [&'m Arc<EncodedResource>],
) -> Vec<&'m [&'m Arc<EncodedResource>]> {
    let mut out = Vec::new();
    let mut rest = members;
    while !rest.is_empty() {
        let (run, more) = rest.split_at(run_len(variant, kind, rest));
        out.push(run);
        rest = more;
    }
    out
}

fn run_len(variant: Variant, kind: ResourceType, members: &[&Arc<EncodedResource>]) -> usize {
    let mut size = 0;
    for (at, member) in members.iter().enumerate() {
        if is_large(member) {
            return at.max(1);
        }
        size += field_size(variant, kind, member);
        let may_end = size >= Chunks::LEAST && member.version.0.is_multiple_of(Chunks::ENDS);
        if may_end || size >= Chunks::LONGEST {
            return at + 1;
        }
    }
    members.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::budget::Budget;
    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};
    use prost::Message;
    use smallvec::smallvec;

    fn mk_member(n: u32, body: u32) -> Arc<EncodedResource> {
        let text = format!("{n}/{body}/").repeat(60);
        Arc::new(EncodedResource::new(format!("r{n:06}").into(), text.into()))
    }
    fn mk_members(count: u32) -> Vec<Arc<EncodedResource>> {
        (0..count).map(|n| mk_member(n, 0)).collect()
    }
    fn mk_rope(chunks: &Chunks, members: &[Arc<EncodedResource>]) -> (Body, usize) {
        let members: Vec<_> = members.iter().collect();
        chunks.rope(Variant::Delta, ResourceType::Cluster, &members, |m| m.body().map(|body| smallvec![body]))
    }

    #[test]
    fn chunks_equal_the_output_of_one_writer() {
        let members = mk_members(3_000);
        for variant in [Variant::Sotw, Variant::Delta] {
            let all: Vec<_> = members.iter().collect();
            let (rope, copied) = Chunks::default()
                .rope(variant, ResourceType::Cluster, &all, |m| m.body().map(|body| smallvec![body]));
            let mut plain = RopeBuilder::default();
            for member in &members {
                push(variant, ResourceType::Cluster, member, &[member.body().unwrap()], &mut plain);
            }
            assert_eq!((rope.chunks().concat(), rope.len()), (plain.finish().chunks().concat(), copied));
            let (_, full) = rope.chunks().split_last().unwrap();
            assert!(full.len() > 5 && full.iter().all(|c| c.len() >= Chunks::LEAST), "a chunk is small");
        }
    }

    #[test]
    fn sets_that_differ_in_one_member_share_all_other_chunks() {
        let (chunks, mut members) = (Chunks::default(), mk_members(5_000));
        let (first, all) = mk_rope(&chunks, &members);
        for at in [10, 2_500, 4_990] {
            members[at] = mk_member(u32::try_from(at).unwrap(), 1);
            members.insert(at, mk_member(900_000, 2));
        }
        let (second, copied) = mk_rope(&chunks, &members);
        assert!(copied < all / 2, "{copied} of {all} bytes were copied for three changes");
        let own = first.chunks().iter().map(|c| c.as_ptr()).collect::<Vec<_>>();
        let shared = second.chunks().iter().filter(|c| own.contains(&c.as_ptr())).count();
        assert!(
            shared > second.chunks().len() / 2,
            "{shared} of {} chunks are shared",
            second.chunks().len()
        );
    }

    #[test]
    fn ropes_decode_to_their_resources() {
        let members = mk_members(300);
        let all: Vec<_> = members.iter().collect();
        let rope = |variant| {
            let body = |m: &Arc<EncodedResource>| m.body().map(|body| smallvec![body]);
            Chunks::default().rope(variant, ResourceType::Cluster, &all, body).0.chunks().concat()
        };
        let sotw = DiscoveryResponse::decode(&*rope(Variant::Sotw)).unwrap();
        let delta = DeltaDiscoveryResponse::decode(&*rope(Variant::Delta)).unwrap();
        assert_eq!((sotw.resources.len(), delta.resources.len()), (300, 300));
        for ((any, named), member) in sotw.resources.iter().zip(&delta.resources).zip(&members) {
            assert_eq!(
                (any.type_url.as_str(), &any.value),
                (ResourceType::Cluster.type_url(), &member.body().unwrap().to_vec())
            );
            assert_eq!((&*named.name, &named.version), (&*member.name, &member.version.to_string()));
            assert_eq!(named.resource.as_ref(), Some(any));
        }
    }

    #[test]
    fn large_body_is_shared_by_reference() {
        let large = Arc::new(EncodedResource::unfilled("80".into(), Version(1), 3 * Chunks::LEAST));
        let small = mk_member(1, 1);
        let pieces = [b"a", b"b", b"c"].map(|text| Bytes::from(text.repeat(Chunks::LEAST)));
        let body = |m: &Arc<EncodedResource>| match m.body() {
            Some(body) => Some(smallvec![body]),
            None => Some(pieces.iter().cloned().collect()),
        };
        let all = [&large, &small];
        let (rope, copied) = Chunks::default().rope(Variant::Sotw, ResourceType::Route, &all, body);
        assert!(copied < Chunks::LEAST, "{copied} bytes were copied");
        let shared = |piece: &&Bytes| rope.chunks().iter().any(|chunk| chunk.as_ptr() == piece.as_ptr());
        assert_eq!(pieces.iter().filter(shared).count(), 3);
        let message = DiscoveryResponse::decode(&*rope.chunks().concat()).unwrap();
        assert_eq!((message.resources.len(), message.resources[0].value.len()), (2, 3 * Chunks::LEAST));
    }

    #[test]
    fn unused_chunks_are_removed() {
        let chunks = Chunks::default();
        for n in 0..2_000 {
            mk_rope(&chunks, &[mk_member(n, n)]);
        }
        let live = chunks.table.lock().len();
        assert!(live <= WeakTable::<Key, Shared>::FIRST_CLEANUP, "{live} are kept");
    }

    #[test]
    fn chunk_bytes_count_while_in_use() {
        let budget = Budget::new(0);
        let chunks = Chunks::new(budget.copies());
        let (rope, copied) = mk_rope(&chunks, &mk_members(10));
        assert_eq!(budget.held(), copied as u64);
        drop(rope);
        assert_eq!(budget.held(), 0);
    }
}
