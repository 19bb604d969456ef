//! The table of recorded rounds, bounded in bytes.
//!
//! [`super::shared_round`] records and repeats them. A recorded round has no reference to a catalog.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tributary_model::Catalog;
use tributary_proto::Template;

use super::rejection::Carried;
use crate::answers::{ClientClass, ResourceType, Subscription, TypeMap};

/// What the responses of a round depend on, beside the two generations: addresses of the class and of the subscribed names,
/// and which types have a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RoundKey {
    pub(super) class: usize,
    pub(super) watches: TypeMap<Option<(bool, usize)>>,
}

/// A response of a recorded round.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) kind: ResourceType,
    pub(super) version: Arc<str>,
    pub(super) carried: Carried,
    pub(super) template: Template,
}

/// Responses of one round, in order.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(super) responses: SmallVec<[Recorded; 2]>,
    pub(super) bytes: usize,
    /// Assignments sent because their xDS clusters were.
    pub(super) forced: usize,
}

/// A recorded round. The weak references keep the addresses in its key from being reused.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) _class: Weak<ClientClass>,
    pub(super) _names: SmallVec<[Weak<Subscription>; 4]>,
    pub(super) round: Arc<Recorder>,
}

/// Rounds from one generation to another.
#[derive(Debug)]
struct OfGenerations {
    from: Weak<Catalog>,
    to: Weak<Catalog>,
    rounds: HashMap<RoundKey, Kept>,
    bytes: usize,
}

impl OfGenerations {
    /// Most bytes of the responses that are kept.
    const MAX_BYTES: usize = 1 << 20;

    fn is(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> bool {
        self.from.as_ptr() == Arc::as_ptr(from) && self.to.as_ptr() == Arc::as_ptr(to)
    }
}

/// Recorded rounds of a server, bounded in bytes.
#[derive(Debug, Default)]
pub struct SharedRounds {
    last: Mutex<VecDeque<OfGenerations>>,
}

impl SharedRounds {
    /// Enough for streams that lag behind each other.
    const KEPT: usize = 4;

    pub(super) fn find(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        key: &RoundKey,
    ) -> Option<Arc<Recorder>> {
        let last = self.last.lock();
        let of = last.iter().rev().find(|of| of.is(from, to))?;
        of.rounds.get(key).map(|kept| Arc::clone(&kept.round))
    }
    pub(super) fn keep(&self, from: &Arc<Catalog>, to: &Arc<Catalog>, key: RoundKey, kept: Kept) {
        let mut last = self.last.lock();
        let at = last.iter().position(|of| of.is(from, to)).unwrap_or_else(|| {
            if last.len() >= Self::KEPT {
                last.pop_front();
            }
            let (from, to) = (Arc::downgrade(from), Arc::downgrade(to));
            last.push_back(OfGenerations { from, to, rounds: HashMap::new(), bytes: 0 });
            last.len() - 1
        });
        let Some(of) = last.get_mut(at) else { return };
        if of.bytes + kept.round.bytes <= OfGenerations::MAX_BYTES {
            of.bytes += kept.round.bytes;
            of.rounds.insert(key, kept);
        }
    }
}
