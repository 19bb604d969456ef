//! Proof that a service is gone, from its own answers where the list of names does not prove it.
//!
//! A list of names proves an absence only if it is complete. For services that a filtered list or a peer's list
//! lacks, each service is read: Consul marks an answer about a service that the token may not see as filtered, and
//! does not mark one about a service that does not exist. A peer's service must be absent twice, with a pause
//! between.

use std::sync::Arc;

use super::{Machine, Output, StepContext};
use crate::absence::{Absence, Verdict};
use crate::answer::Doubt;
use crate::watch::{Confidence, Event};

impl Machine {
    /// Removes listed services that a list lacks, or starts a leader read for each.
    pub(super) fn remove_unlisted(&mut self, list: Confidence, cx: &mut StepContext) {
        let (view, peer) = (self.names.token_view(), self.settings.peer);
        let verdict = Absence::Unlisted { list, view, peer }.verdict();
        if matches!(verdict, Verdict::Partial(_)) {
            return;
        }
        let lacks = |(name, id): (&Arc<str>, &u32)| {
            let listed = self.services.get(id).is_some_and(|service| service.listed);
            (listed && !self.listed.contains_key(name)).then(|| (Arc::clone(name), *id))
        };
        let gone: Vec<_> = self.by_name.iter().filter_map(lacks).collect();
        for (name, id) in gone {
            if matches!(verdict, Verdict::Confirmed | Verdict::Plausible) {
                self.close(id, cx);
                cx.out.push(Output::Gone(name, list));
            } else {
                self.drive_service(id, Event::ReadLeader, cx);
            }
        }
    }

    /// Returns the confidence of an answer without instances. One about a peer's service may start a leader read.
    pub(super) fn prove_empty(&mut self, id: u32, answer: Confidence, cx: &StepContext) -> Confidence {
        let Some(service) = self.services.get_mut(&id).filter(|_| self.settings.peer) else { return answer };
        let empty_for = service.emptied.map(|first| cx.now.since(first));
        let pause = self.settings.timing.recheck;
        match (Absence::PeerService { answer, empty_for, pause }.verdict(), answer) {
            (Verdict::ReadLeader(after), Confidence::Confirmed) => {
                service.emptied.get_or_insert(cx.now);
                self.rechecks.insert((cx.now.plus(after), id));
            }
            (Verdict::ReadLeader(after), _) => drop(self.rechecks.insert((cx.now.plus(after), id))),
            _ => {
                service.emptied = None;
                return answer;
            }
        }
        Confidence::Partial(Doubt::Stale)
    }

    /// Returns whether the scope certainly has no services left, and no request about one is open.
    #[must_use]
    pub fn is_surely_empty(&self) -> bool {
        let none = self.listed.is_empty() && self.services.is_empty();
        let confirmed = self.names.is_confirmed();
        let (view, peer, not_found) = (self.names.token_view(), self.settings.peer, self.absent);
        none && Absence::Scope { confirmed, view, peer, not_found }.verdict() == Verdict::Confirmed
    }

    /// Starts the leader reads that are due.
    pub(super) fn recheck(&mut self, cx: &mut StepContext) {
        while let Some((at, id)) = self.rechecks.first().copied().filter(|(at, _)| *at <= cx.now) {
            self.rechecks.remove(&(at, id));
            self.drive_service(id, Event::ReadLeader, cx);
        }
    }
}
