//! The next messages of a stream that leave together.

use std::sync::Arc;

use smallvec::smallvec;
use tokio::time::Instant;
use tributary_model::{Catalog, Mono};
use tributary_proto::Rope;
use tributary_proto::rope::BY_REFERENCE;

use super::outbox::Pushing;
use crate::session::{Outgoing, RepeatedRound, Session, Step};

/// Messages that leave in one write, becausea write costs more than the bytes of a small one.
pub(crate) struct Batch {
    pub(crate) rope: Rope,
    /// Their types, and when building each began.
    pub(crate) pushing: Pushing,
}

impl Batch {
    /// Adds what follows a message while it is small.
    pub(crate) fn gather(
        first: Outgoing,
        began: Instant,
        mut next: impl FnMut() -> Option<Outgoing>,
    ) -> Self {
        let mut batch = Self { rope: first.rope, pushing: smallvec![(first.kind, began)] };
        while batch.rope.len() < BY_REFERENCE {
            let began = Instant::now();
            let Some(next) = next() else { break };
            batch.pushing.push((next.kind, began));
            batch.rope.append(next.rope);
        }
        batch
    }
    pub(crate) fn repeated(round: RepeatedRound, began: Instant) -> Self {
        Self { rope: round.rope, pushing: round.kinds.into_iter().map(|kind| (kind, began)).collect() }
    }
    /// Returns the next messages of a session: another session's round, or what costs little. `Err` if they are heavy work.
    pub(crate) fn at_once(
        session: &mut Session,
        now: Mono,
        catalog: &Arc<Catalog>,
        began: Instant,
    ) -> Result<Option<Self>, Heavy> {
        if let Some(round) = session.repeat_round(now, catalog) {
            return Ok(Some(Self::repeated(round, began)));
        }
        match session.next_step(now, catalog) {
            Step::Send(out) => Ok(Some(Self::gather(out, began, || session.following_at_once(now, catalog)))),
            Step::Idle => Ok(None),
            Step::Work => Err(Heavy),
        }
    }
}

/// The next messages are heavy work.
pub(crate) struct Heavy;
