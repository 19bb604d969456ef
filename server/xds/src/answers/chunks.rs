//! Chunks of ropes, shared by sets that agree on a run of members.
//!
//! Two generations of a set, or the sets of two namespaces, differ in few members. Only the members of a run
//! decide where it ends, so both sets cut at the same positions again soon after a difference, and all
//! other chunks are the same bytes in memory. So clients at different generations do not cost a whole
//! body each.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_model::{EncodedResource, Version};
use tributary_proto::Variant;

use super::budget::Copies;
use super::rope::{RopeWriter, field_size};
use super::{ResourceType, Rope};

/// Identity of a chunk: the versions of its members determine all bytes except the frame.
type Key = (Variant, ResourceType, usize, Version);

/// Chunks in use.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    table: Mutex<Table>,
    copies: Arc<Copies>,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<Key, Weak<Shared>>,
    cleanup_at: usize,
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
    const FIRST_CLEANUP: usize = 256;
    /// One member in this many ends a run that is long enough.
    const ENDS: u64 = 16;
    /// A run of this many bytes always ends.
    const LONGEST: usize = 4 * Rope::CHUNK;

    /// Creates an empty table that counts bytes in `copies`.
    pub(crate) fn new(copies: Arc<Copies>) -> Self {
        Self { table: Mutex::default(), copies }
    }
    /// Builds the rope of these members. Calls `body` for members of chunks that are not in use.
    pub(crate) fn rope(
        &self,
        variant: Variant,
        kind: ResourceType,
        members: &[&Arc<EncodedResource>],
        mut body: impl FnMut(&Arc<EncodedResource>) -> Option<Bytes>,
    ) -> (Rope, usize) {
        let mut rope = Rope::default();
        let mut copied = 0;
        for run in runs(variant, kind, members) {
            let key = (variant, kind, run.len(), Version::of_all(run.iter().map(|m| m.version)));
            let chunk = self.get(&key).unwrap_or_else(|| {
                let chunk = self.keep(key, written(variant, kind, run, &mut body));
                copied += chunk.0.bytes.len();
                chunk
            });
            rope.len += chunk.0.bytes.len();
            rope.chunks.push(Bytes::from_owner(chunk));
        }
        (rope, copied)
    }
    fn get(&self, key: &Key) -> Option<Handle> {
        self.table.lock().live.get(key).and_then(Weak::upgrade).map(Handle)
    }
    fn keep(&self, key: Key, bytes: Vec<u8>) -> Handle {
        self.copies.add(bytes.len());
        let chunk = Arc::new(Shared { bytes, copies: Arc::clone(&self.copies) });
        let mut table = self.table.lock();
        table.remove_unused();
        table.live.insert(key, Arc::downgrade(&chunk));
        Handle(chunk)
    }
}

impl Table {
    fn remove_unused(&mut self) {
        if self.live.len() < self.cleanup_at.max(Chunks::FIRST_CLEANUP) {
            return;
        }
        self.live.retain(|_, chunk| chunk.strong_count() > 0);
        self.cleanup_at = self.live.len() * 2;
    }
}

fn written(
    variant: Variant,
    kind: ResourceType,
    run: &[&Arc<EncodedResource>],
    body: &mut impl FnMut(&Arc<EncodedResource>) -> Option<Bytes>,
) -> Vec<u8> {
    let mut writer = RopeWriter::new(variant, kind);
    for member in run {
        if let Some(body) = body(member) {
            writer.push(member, &body);
        }
    }
    writer.finish().chunks.concat()
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
        size += field_size(variant, kind, member);
        let may_end = size >= Rope::CHUNK && member.version.0.is_multiple_of(Chunks::ENDS);
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

    fn mk_member(n: u32, body: u32) -> Arc<EncodedResource> {
        let text = format!("{n}/{body}/").repeat(60);
        Arc::new(EncodedResource::new(format!("r{n:06}").into(), text.into()))
    }
    fn mk_members(count: u32) -> Vec<Arc<EncodedResource>> {
        (0..count).map(|n| mk_member(n, 0)).collect()
    }
    fn mk_rope(chunks: &Chunks, members: &[Arc<EncodedResource>]) -> (Rope, usize) {
        let members: Vec<_> = members.iter().collect();
        chunks.rope(Variant::Delta, ResourceType::Cluster, &members, |m| m.body())
    }

    #[test]
    fn chunks_equal_the_output_of_one_writer() {
        let members = mk_members(3_000);
        for variant in [Variant::Sotw, Variant::Delta] {
            let all: Vec<_> = members.iter().collect();
            let (rope, copied) = Chunks::default().rope(variant, ResourceType::Cluster, &all, |m| m.body());
            let plain =
                Rope::of(variant, ResourceType::Cluster, members.iter().map(|m| (&**m, m.body().unwrap())));
            assert_eq!((rope.chunks.concat(), rope.len), (plain.chunks.concat(), copied));
            let (_, full) = rope.chunks.split_last().unwrap();
            assert!(full.len() > 5 && full.iter().all(|c| c.len() >= Rope::CHUNK), "a chunk is small");
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
        let own = first.chunks.iter().map(|c| c.as_ptr()).collect::<Vec<_>>();
        let shared = second.chunks.iter().filter(|c| own.contains(&c.as_ptr())).count();
        assert!(shared > second.chunks.len() / 2, "{shared} of {} chunks are shared", second.chunks.len());
    }

    #[test]
    fn unused_chunks_are_removed() {
        let chunks = Chunks::default();
        for n in 0..2_000 {
            mk_rope(&chunks, &[mk_member(n, n)]);
        }
        let live = chunks.table.lock().live.len();
        assert!(live <= Chunks::FIRST_CLEANUP, "{live} are kept");
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
