//! Proof that a service is gone, from its own answers where the list of names does not prove it.
//!
//! A list of names proves an absence only if it is complete. For services that a filtered list or a peer's list
//! lacks, each service is read: Consul marks an answer about a service that the token may not see as filtered, and
//! does not mark one about a service that does not exist. A peer's service must be absent twice, with a pause
//! between.

use std::sync::Arc;

use super::{Machine, Output, StepContext};
use crate::answer::Doubt;
use crate::watch::{Confidence, Event, TokenView};

impl Machine {
    /// Removes listed services that a list lacks, or starts a leader read for each.
    pub(super) fn remove_unlisted(&mut self, confidence: Confidence, cx: &mut StepContext) {
        if matches!(confidence, Confidence::Partial(_)) {
            return;
        }
        let proves = !self.settings.peer && self.names.token_view() == TokenView::Whole;
        let lacks = |(name, id): (&Arc<str>, &u32)| {
            let listed = self.services.get(id).is_some_and(|service| service.listed);
            (listed && !self.listed.contains_key(name)).then(|| (Arc::clone(name), *id))
        };
        let gone: Vec<_> = self.by_name.iter().filter_map(lacks).collect();
        for (name, id) in gone {
            if proves {
                self.close(id, cx);
                cx.out.push(Output::Gone(name, confidence));
            } else {
                self.drive_service(id, Event::ReadLeader, cx);
            }
        }
    }

    /// Returns the confidence of an answer without instances. For a peer's service one answer of the leader is not
    /// enough, and any other answer starts a leader read.
    pub(super) fn prove_empty(&mut self, id: u32, confidence: Confidence, cx: &StepContext) -> Confidence {
        let Some(service) = self.services.get_mut(&id).filter(|_| self.settings.peer) else {
            return confidence;
        };
        let pause = self.settings.timing.recheck;
        match (confidence, service.emptied) {
            (Confidence::Confirmed, Some(first)) if cx.now.since(first) >= pause => {
                service.emptied = None;
                return Confidence::Confirmed;
            }
            (Confidence::Confirmed, Some(_)) => {}
            (Confidence::Confirmed, None) => {
                service.emptied = Some(cx.now);
                self.rechecks.insert((cx.now.plus(pause), id));
            }
            (Confidence::Plausible | Confidence::Partial(_), _) => drop(self.rechecks.insert((cx.now, id))),
        }
        Confidence::Partial(Doubt::Stale)
    }

    /// Starts the leader reads that are due.
    pub(super) fn recheck(&mut self, cx: &mut StepContext) {
        while let Some((at, id)) = self.rechecks.first().copied().filter(|(at, _)| *at <= cx.now) {
            self.rechecks.remove(&(at, id));
            self.drive_service(id, Event::ReadLeader, cx);
        }
    }
}
