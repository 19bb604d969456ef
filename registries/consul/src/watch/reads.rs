//! Which read follows: its mode, its pause and how long it may take.
//!
//! Owned by the loop, which calls this whenever a read ended or is given up; there is at most one under way.

use std::time::Duration;

use tributary_model::Mono;

use super::LastReported;
use super::{Action, Actions, Confidence, Content, Follow, Mode, Pending, Read, Ticket, Watch};

impl<C: Content> Watch<C> {
    /// What to ask at that time: the leader if a question is open, else what follows the last index.
    pub(super) fn mode(&self, at: Mono) -> Mode {
        let until = self.confirm_at.map(|due| due.since(at));
        match (until, self.index, self.follow) {
            (Some(Duration::ZERO), ..) => Mode::Leader,
            (_, None, _) | (_, _, Follow::Demand) => Mode::Any,
            (until, Some(index), Follow::Poll) => {
                let whole = self.policy.timing.wait;
                let wait = self.stagger.map_or(whole, |part| whole.mul_f64(0.5 + part / 2.0));
                let wait = until.map_or(wait, |until| until.min(wait));
                Mode::Blocking { index, wait: wait.max(Duration::from_secs(1)) }
            }
        }
    }

    pub(super) fn next_read(&mut self, now: Mono, out: &mut Actions<C>) {
        self.pending = Pending::Nothing;
        let mode = self.mode(now);
        match (mode, self.follow) {
            (Mode::Leader, _) => self.read(Duration::ZERO, mode, out),
            (_, Follow::Poll) => {
                let after = self.bucket.take(now);
                self.read(after, mode, out);
            }
            (_, Follow::Demand) => {
                if let Some(look) = self.again.take() {
                    let after = self.bucket.take(now);
                    self.read(after, self.mode_of(look), out);
                } else if let Some(at) = self.confirm_at {
                    self.read(at.since(now), Mode::Leader, out);
                }
            }
        }
    }

    pub(super) fn read(&mut self, after: Duration, mode: Mode, out: &mut Actions<C>) {
        let (wait, index) = match mode {
            Mode::Blocking { wait, index } => (wait, Some(index)),
            Mode::Any | Mode::Leader => (Duration::ZERO, None),
        };
        if index.is_some() {
            self.stagger = None;
        }
        let timeout = wait + wait / 16 + self.policy.timing.grace;
        let in_doubt = |told: &LastReported| matches!(told.word, Confidence::Partial(_));
        let settled = self.doubt.is_none() && self.told.as_ref().is_some_and(|told| !in_doubt(told));
        // an answer may have been short without showing it: now and then all is looked at again
        let fresh = self.now.since(self.seen_at) < self.policy.timing.sweep;
        let skip = index.filter(|_| settled && fresh);
        self.ticket = Ticket(self.ticket.0 + 1);
        self.pending = Pending::Read(mode);
        out.push(Action::Read(Read { ticket: self.ticket, after, mode, timeout, skip }));
    }

    pub(super) fn cancel(&mut self, out: &mut Actions<C>) {
        if !matches!(self.pending, Pending::Nothing) {
            out.push(Action::Cancel(self.ticket));
            self.pending = Pending::Nothing;
        }
    }
}
