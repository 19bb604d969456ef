//! Holds back, splits, cuts off or suppresses the updates of a run, between the adapter and the core.
//!
//! Used by [`Tamper`](crate::tamper::Tamper) for runs that begin while a pace is set. The adapter reports into
//! a separate update channel; its output is passed on in the order of arrival.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tributary_model::{Generation, RegistryName, RegistryUpdate, Withheld};
use tributary_registry_api::{
    ProcessClock, RegistryError, Run, UpdateReceiver, UpdateSender, update_channel,
};

/// How the updates of a run reach the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Unchanged.
    #[default]
    Direct,
    /// All of them in one take, once another pace is set.
    Together,
    /// Each in a take of its own.
    Singly,
    /// This many, each in a take of its own; then the run ends in an error.
    Cut(usize),
    /// As `Cut`; then every run of the registry ends.
    CutAll(usize),
    /// Not at all.
    Muted,
    /// Only what the run follows; all of it is withheld.
    Withheld,
}

/// The current pace, and the number of runs that were cut off.
#[derive(Debug)]
pub(crate) struct Paces {
    pace: watch::Sender<Pace>,
    cuts: Mutex<usize>,
}

impl Default for Paces {
    fn default() -> Self {
        Self { pace: watch::Sender::new(Pace::Direct), cuts: Mutex::default() }
    }
}

impl Paces {
    pub(crate) fn set(&self, pace: Pace) {
        self.pace.send_replace(pace);
    }
    pub(crate) fn cuts(&self) -> usize {
        *self.cuts.lock()
    }
    /// Returns a channel for the run and the task that passes its updates on; `None` if updates go to the core
    /// directly.
    pub(crate) fn between(self: &Arc<Self>, out: &UpdateSender) -> Option<(UpdateSender, Between)> {
        let pace = self.pace.subscribe();
        let now = *pace.borrow();
        if now == Pace::Direct {
            return None;
        }
        let wake = Arc::new(Notify::new());
        let run = Run { registry: registry_of(out), generation: Generation(1) };
        let clock = Arc::new(ProcessClock::starting_now());
        let (own, receiver) = update_channel(run, clock, Arc::clone(&wake));
        let between =
            Between { paces: Arc::clone(self), pace, now, receiver, wake, out: out.clone(), passed: 0 };
        Some((own, between))
    }
}

fn registry_of(out: &UpdateSender) -> RegistryName {
    out.run().registry.clone()
}

/// Passes on the updates of one run.
pub(crate) struct Between {
    paces: Arc<Paces>,
    pace: watch::Receiver<Pace>,
    now: Pace,
    receiver: UpdateReceiver,
    wake: Arc<Notify>,
    out: UpdateSender,
    passed: usize,
}

impl Between {
    /// Passes updates on until the run is cut off. Returns true if the other runs end too.
    pub(crate) async fn pass(mut self) -> bool {
        loop {
            self.now = self.next_pace();
            if self.now != Pace::Together
                && let Some(all) = self.take().await
            {
                *self.paces.cuts.lock() += 1;
                return all;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                Ok(()) = self.pace.changed() => {}
            }
        }
    }

    /// Returns the pace in force. A run that was held back or split follows the current setting; a muted or
    /// cut-off run keeps its own.
    fn next_pace(&mut self) -> Pace {
        let set = *self.pace.borrow_and_update();
        match self.now {
            Pace::Direct | Pace::Together | Pace::Singly => set,
            stays => stays,
        }
    }

    async fn take(&mut self) -> Option<bool> {
        if self.now == Pace::Direct {
            self.out.send_all(self.receiver.take().into_iter().map(|update| update.value));
            return None;
        }
        if let Some(all) = self.is_cut() {
            return Some(all);
        }
        for update in self.receiver.take() {
            match self.now {
                Pace::Muted => {}
                Pace::Withheld => self.withhold(update.value),
                _ => self.pass_one(update.value).await,
            }
            if let Some(all) = self.is_cut() {
                return Some(all);
            }
        }
        None
    }

    async fn pass_one(&mut self, update: RegistryUpdate) {
        self.out.send(update);
        self.passed += 1;
        // lets the core apply a batch
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    const fn is_cut(&self) -> Option<bool> {
        match self.now {
            Pace::Cut(most) if self.passed >= most => Some(false),
            Pace::CutAll(most) if self.passed >= most => Some(true),
            _ => None,
        }
    }

    fn withhold(&self, update: RegistryUpdate) {
        let RegistryUpdate::Follows { required, optional } = &update else { return };
        let all: Vec<_> = required.iter().chain(optional).cloned().collect();
        self.out.send(update);
        let why = || Withheld::forbidden("the scenario allows nothing to be read");
        self.out.send_all(all.into_iter().map(|collection| RegistryUpdate::Withheld(collection, why())));
    }
}

/// Returns the error with which a run that was cut off ends.
pub(crate) fn cut_off() -> RegistryError {
    RegistryError::retryable("the scenario ends the run here")
}
