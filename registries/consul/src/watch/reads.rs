//! Selection of the next read: its mode, pause and time limit.
//!
//! The loop calls it when a read has ended or was aborted; at most one is under way.

use std::time::Duration;

use tributary_model::Mono;

use super::LastReported;
use super::{Action, Actions, Confidence, Content, Follow, Mode, Pending, Read, Ticket, Watch};

impl<C: Content> Watch<C> {
    /// Returns the mode of a read at that time: the leader if a confirmation is due, otherwise what follows the last
    /// index.
    pub(super) fn mode(&self, at: Mono) -> Mode {
        let until = self.confirm_at.map(|due| due.since(at));
        match (until, self.index, self.follow) {
            (Some(Duration::ZERO), ..) => Mode::Leader,
            (_, None, _) | (_, _, Follow::Demand) => Mode::Any,
            (until, Some(index), Follow::Poll) => {
                let whole = self.policy.timing.wait;
                let wait = self.stagger.map_or(whole, |part| whole.mul_f64(0.5 + part / 2.0));
                let wait = until.map_or(wait, |until| until.min(wait));
                Mode::Blocking { index, wait: wait.max(whole.min(Duration::from_secs(1))) }
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
                if let Some(reason) = self.again.take() {
                    let after = self.bucket.take(now);
                    self.read(after, self.mode_of(reason), out);
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
        let in_doubt = |last: &LastReported| matches!(last.confidence, Confidence::Partial(_));
        let settled = self.doubt.is_none() && self.last_reported.as_ref().is_some_and(|last| !in_doubt(last));
        // an answer may have been incomplete without a sign: at intervals the content is read again
        let fresh = self.now.since(self.seen_at) < self.policy.timing.full_pass;
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
