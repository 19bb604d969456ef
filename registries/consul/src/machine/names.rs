//! The list of names: which services are followed, and whether the scope answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::Mono;

use super::catalog_moves::Move;
use super::{Answer, LoopId, Machine, Reach, StepContext};
use crate::answer::RequestFailure;
use crate::content::{Listed, Names};
use crate::watch::{Confidence, Event, Follow, ReadReason, State, Ticket, key_of};

/// Listed names.
type Listing = BTreeMap<Arc<str>, Listed>;

/// Returns how many names are in one of the lists only, or differ.
fn differences(before: &Arc<Listing>, now: &Arc<Listing>) -> usize {
    if Arc::ptr_eq(before, now) {
        return 0;
    }
    let gone = before.keys().filter(|name| !now.contains_key(*name)).count();
    gone + now.iter().filter(|(name, listed)| before.get(*name) != Some(*listed)).count()
}

impl Machine {
    pub(super) fn drive_names(&mut self, event: Event<Names>, cx: &mut StepContext) {
        let actions = self.names.step(cx.now, cx.random, event);
        for (names, confidence) in self.perform(LoopId::Names, actions, cx) {
            self.apply_names(&names, confidence, cx);
        }
    }

    /// Handles the answer or failure of the list of names, which is also that of the scope.
    pub(super) fn names_replied(
        &mut self,
        ticket: Ticket,
        reply: Result<Answer, RequestFailure>,
        cx: &mut StepContext,
    ) {
        match reply {
            Ok(Answer::Names(headers, names)) => {
                let before = (self.names.last_index(), Arc::clone(&self.listed));
                self.lag = headers.last_contact;
                if self.token.needs_agents(&headers, cx.now, self.settings.timing.poll) {
                    self.read_token(cx);
                }
                self.drive_names(Event::Answered(ticket, headers, names), cx);
                if !matches!(self.names.state(), State::Failing(_)) {
                    self.reach = Reach::Up;
                    cx.answered = true;
                }
                self.note_move(&before, cx.now);
            }
            Ok(Answer::Token(token)) => self.token_checked(LoopId::Names, ticket, token, cx),
            Ok(_) => self.names_failed(ticket, RequestFailure::Broken, cx),
            Err(failure) => self.names_failed(ticket, failure, cx),
        }
        if self.settings.peer {
            self.next_names = Some(cx.now.plus(self.settings.timing.poll));
        }
    }

    /// Records a move of the catalog's index, with how many names show why.
    fn note_move(&mut self, (from, listed): &(Option<u64>, Arc<Listing>), at: Mono) {
        let (Some(from), Some(index)) = (*from, self.names.last_index()) else { return };
        if from != index {
            let names = differences(listed, &self.listed);
            self.notify.moves.moved(Move { at, index, from, names });
        }
    }

    /// Switches to the next address. Indexes of the previous server do not apply there.
    fn names_failed(&mut self, ticket: Ticket, failure: RequestFailure, cx: &mut StepContext) {
        self.reach = Reach::Down;
        self.drive_names(Event::Failed(ticket, failure), cx);
        let elsewhere =
            matches!(failure, RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Broken);
        if elsewhere && self.settings.servers > 1 {
            self.server = (self.server + 1) % self.settings.servers;
            self.names.forget_index();
            self.switched(false, cx);
        }
    }

    /// Reads the list of names after a failure that may concern the whole scope.
    pub(super) fn suspect(&mut self, cx: &mut StepContext) {
        if self.reach == Reach::Up && !matches!(self.names.state(), State::Failing(_)) {
            self.reach = Reach::Probing;
            self.drive_names(Event::ReadNow(ReadReason::Recheck), cx);
        }
    }

    /// Reads a peer's names at intervals.
    pub(super) fn poll_names(&mut self, cx: &mut StepContext) {
        if self.next_names.is_some_and(|at| at <= cx.now) {
            self.next_names = None;
            self.drive_names(Event::ReadNow(ReadReason::Recheck), cx);
        }
    }

    fn apply_names(&mut self, list: &Names, confidence: Confidence, cx: &mut StepContext) {
        let names = &list.names;
        self.absent = list.absent;
        let before = std::mem::replace(&mut self.listed, Arc::clone(names));
        self.remove_unlisted(confidence, cx);
        for (name, listed) in names.iter() {
            let id = match self.by_name.get(name) {
                Some(id) => {
                    let id = *id;
                    self.services.entry(id).and_modify(|service| service.listed = true);
                    if before.get(name).is_some_and(|before| before.tags != listed.tags) {
                        self.mark_changed(id, cx.now);
                    }
                    id
                }
                None => {
                    let id = self.open(name, true);
                    self.drive_service(id, Event::Started, cx);
                    id
                }
            };
            self.budget.add(id, listed.named);
        }
    }

    /// Gives long polls to services, or takes them, as the budget allows. A service that loses its poll is read once,
    /// because an earlier notification may have been left to the poll.
    pub(super) fn share_out_polls(&mut self, cx: &mut StepContext) {
        self.limiter.raise_polls(cx.now);
        for (id, follow) in self.budget.balance(self.limiter.polls().current()) {
            self.drive_service(id, Event::Follow(follow), cx);
            if follow == Follow::Demand {
                self.drive_service(id, Event::ReadNow(ReadReason::Recheck), cx);
            }
        }
        self.follow_checks(cx);
    }

    pub(super) fn key(name: &str) -> u64 {
        key_of(name)
    }
}
