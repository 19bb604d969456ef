//! The list of names: which services are followed, whether the scope answers, and which mode fits.

use std::sync::Arc;

use super::{Answer, LoopId, Machine, Mode, Reach, Turn};
use crate::answer::RequestFailure;
use crate::config::ModeChoice;
use crate::content::{Marks, Names};
use crate::watch::{Confidence, Event, Follow, Look, Sight, State, Ticket, Watch, key_of};

impl Machine {
    pub(super) fn drive_names(&mut self, event: Event<Names>, turn: &mut Turn) {
        let actions = self.names.step(turn.now, turn.chance, event);
        for (names, word) in self.carry(LoopId::Names, actions, turn) {
            self.said_names(&names, word, turn);
        }
    }

    /// Their answer or failure is the scope's.
    pub(super) fn names_replied(
        &mut self,
        ticket: Ticket,
        reply: Result<Answer, RequestFailure>,
        turn: &mut Turn,
    ) {
        match reply {
            Ok(Answer::Names(headers, names)) => {
                let before = self.names.last_index();
                self.lag = headers.last_contact;
                self.drive_names(Event::Answered(ticket, headers, names), turn);
                if !matches!(self.names.state(), State::Failing(_)) {
                    self.reach = Reach::Up;
                    turn.answered = true;
                }
                if before.is_some() && self.names.last_index() != before {
                    self.doorbell.catalog_moved(turn.now);
                }
            }
            Ok(Answer::Token(token)) => self.token_checked(LoopId::Names, ticket, Some(token), turn),
            Ok(_) => self.names_failed(ticket, RequestFailure::Broken, turn),
            Err(failure) => self.names_failed(ticket, failure, turn),
        }
        if self.settings.peer {
            self.next_names = Some(turn.now.plus(self.settings.timing.poll));
        }
    }

    /// The next address is tried, to which no index of this one means anything.
    fn names_failed(&mut self, ticket: Ticket, failure: RequestFailure, turn: &mut Turn) {
        self.reach = Reach::Down;
        self.drive_names(Event::Failed(ticket, failure), turn);
        let elsewhere =
            matches!(failure, RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Broken);
        if elsewhere && self.settings.servers > 1 {
            self.server = (self.server + 1) % self.settings.servers;
            self.names.forget_index();
            self.switched(false, turn);
        }
    }

    /// A read failed as it would if the whole scope could not be reached: the names tell.
    pub(super) fn suspect(&mut self, turn: &mut Turn) {
        if self.reach == Reach::Up && !matches!(self.names.state(), State::Failing(_)) {
            self.reach = Reach::Probing;
            self.drive_names(Event::Look(Look::Again), turn);
        }
    }

    /// A peer's names are asked for from time to time.
    pub(super) fn poll_names(&mut self, turn: &mut Turn) {
        if self.next_names.is_some_and(|at| at <= turn.now) {
            self.next_names = None;
            self.drive_names(Event::Look(Look::Again), turn);
        }
    }

    fn said_names(&mut self, said: &Names, word: Confidence, turn: &mut Turn) {
        let names = &said.names;
        self.absent = said.absent;
        let before = std::mem::replace(&mut self.listed, Arc::clone(names));
        self.leave_unlisted(word, turn);
        for (name, tags) in names.iter() {
            match self.by_name.get(name) {
                Some(slot) => {
                    let slot = *slot;
                    self.slots.entry(slot).and_modify(|slot| slot.listed = true);
                    self.drive_service(slot, Event::Follow(self.follow()), turn);
                    if before.get(name).is_some_and(|before| before != tags) {
                        self.doorbell.ring(turn.now, slot, &self.settings.timing);
                    }
                }
                None => {
                    let slot = self.open(name, true);
                    self.drive_service(slot, Event::Started, turn);
                }
            }
        }
        self.choose_mode(turn);
    }

    /// A long poll per service while that fits; the doorbell otherwise, and while a server is spared. What fits only
    /// just does not bring the long polls back.
    pub(super) fn choose_mode(&mut self, turn: &mut Turn) {
        let (have, room) = (self.listed.len(), self.settings.polls);
        let room = if self.mode == Mode::Doorbell { room - room / 5 } else { room };
        let spared = self.spared_until.is_some_and(|until| until > turn.now);
        let doorbell = self.settings.mode == ModeChoice::Doorbell || have > room || spared;
        let mode = if doorbell { Mode::Doorbell } else { Mode::Precise };
        if mode == self.mode {
            return;
        }
        self.mode = mode;
        let slots: Vec<u32> = self.slots.keys().copied().collect();
        for slot in slots {
            self.drive_service(slot, Event::Follow(self.follow()), turn);
        }
        match mode {
            Mode::Doorbell => {
                self.doorbell.sweep_soon();
                self.drive_checks(Event::Started, turn);
            }
            Mode::Precise => {
                self.drive_checks(Event::Stopped, turn);
                self.checks =
                    Watch::<Marks>::new(super::notify_and_fetch::policy(*self.policy), Follow::Poll);
                self.doorbell.clear();
            }
        }
    }

    /// Whether the leader itself reports, to a token that sees all, that there are no services, and none is asked
    /// about. Of a peer it has to report that there is no such peering: a leader that has just been elected reports
    /// one without services.
    #[must_use]
    pub fn is_surely_empty(&self) -> bool {
        let none = self.listed.is_empty() && self.slots.is_empty();
        let sees = self.names.is_confirmed() && self.names.sight() == Sight::Whole;
        none && sees && (self.absent || !self.settings.peer)
    }

    pub(super) const fn follow(&self) -> Follow {
        match self.mode {
            Mode::Precise => Follow::Poll,
            Mode::Doorbell => Follow::Demand,
        }
    }

    pub(super) fn key(name: &str) -> u64 {
        key_of(name)
    }
}
