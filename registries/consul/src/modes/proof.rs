//! Which services are gone: what their own answers prove where the list of names does not.
//!
//! A list of names proves an absence only where it is whole. What a filtered list lacks, or a peer's, is asked about
//! service by service: Consul marks an answer about a service that the token may not see as filtered, and leaves one
//! unmarked about a service that does not exist. A peer's service has to be absent twice, with a pause between.

use std::sync::Arc;

use super::{Machine, Output, Turn};
use crate::answer::Doubt;
use crate::watch::{Confidence, Event, Sight};

impl Machine {
    /// Takes leave of listed services that a list lacks, or asks about each.
    pub(super) fn leave_unlisted(&mut self, word: Confidence, turn: &mut Turn) {
        if matches!(word, Confidence::Partial(_)) {
            return;
        }
        let proves = !self.settings.peer && self.names.sight() == Sight::Whole;
        let lacks = |(name, slot): (&Arc<str>, &u32)| {
            let listed = self.slots.get(slot).is_some_and(|slot| slot.listed);
            (listed && !self.listed.contains_key(name)).then(|| (Arc::clone(name), *slot))
        };
        let gone: Vec<_> = self.by_name.iter().filter_map(lacks).collect();
        for (name, slot) in gone {
            if proves {
                self.close(slot, turn);
                turn.out.push(Output::Gone(name, word));
            } else {
                self.drive_service(slot, Event::Confirm, turn);
            }
        }
    }

    /// What an answer without instances proves. Of a peer's service one answer of the leader is not enough, and any
    /// other one leads to it.
    pub(super) fn prove_empty(&mut self, id: u32, word: Confidence, turn: &Turn) -> Confidence {
        let Some(slot) = self.slots.get_mut(&id).filter(|_| self.settings.peer) else { return word };
        let pause = self.settings.timing.recheck;
        match (word, slot.emptied) {
            (Confidence::Confirmed, Some(first)) if turn.now.since(first) >= pause => {
                slot.emptied = None;
                return Confidence::Confirmed;
            }
            (Confidence::Confirmed, Some(_)) => {}
            (Confidence::Confirmed, None) => {
                slot.emptied = Some(turn.now);
                self.rechecks.insert((turn.now.plus(pause), id));
            }
            (Confidence::Plausible | Confidence::Partial(_), _) => drop(self.rechecks.insert((turn.now, id))),
        }
        Confidence::Partial(Doubt::Stale)
    }

    /// Asks the leader again about services that may be gone, where the pause is over.
    pub(super) fn recheck(&mut self, turn: &mut Turn) {
        while let Some((at, id)) = self.rechecks.first().copied().filter(|(at, _)| *at <= turn.now) {
            self.rechecks.remove(&(at, id));
            self.drive_service(id, Event::Confirm, turn);
        }
    }
}
