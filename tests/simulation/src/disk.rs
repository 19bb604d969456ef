//! The disk and the journal's commits on it.
//!
//! The journal has no thread here: a task of the simulation commits at every interval. After each commit it notes what was served, so
//! that an invariant knows what a restart must bring back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tributary_app::wiring::journal::{Kept, State};
use tributary_journal::{FaultyDisk, Journal, JournalOptions, JournalSteps, Now, Numbers};
use tributary_model::Timestamp;
use tributary_registry_api::Clock;

/// Time between two commits.
const INTERVAL: Duration = Duration::from_millis(500);
/// Wall time at the start of every simulation, in milliseconds since 1970.
const EPOCH_MILLIS: i64 = 1_800_000_000_000;

/// Disk of a process, and the wall clock whose times are written to it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: FaultyDisk,
    skew: Arc<Mutex<i64>>,
}

/// Opened journal.
pub struct Opened {
    /// The server's interface to it.
    pub state: State,
    /// Content from before.
    pub kept: Kept,
    /// Commits.
    pub steps: JournalSteps,
}

impl Disk {
    /// Opens the journal and decodes it.
    #[must_use]
    pub fn open(&self, clock: &Arc<dyn Clock>) -> Option<Opened> {
        let (clock, skew) = (Arc::clone(clock), Arc::clone(&self.skew));
        let began = tokio::time::Instant::now();
        let start = EPOCH_MILLIS;
        let now = move || {
            let elapsed = i64::try_from(began.elapsed().as_millis()).unwrap_or_default();
            let millis = start + elapsed + *skew.lock();
            Now { mono: clock.now(), wall: Timestamp::from_millisecond(millis).unwrap_or_default() }
        };
        let opened = Journal::open_stepped(self.files.directory(), JournalOptions::default(), Arc::new(now));
        let (journal, restoring, mut steps) = opened.ok()?;
        steps.restore();
        let (state, kept) = State::over(PathBuf::from("simulated"), journal, restoring);
        Some(Opened { state, kept, steps })
    }
    /// Moves the wall clock.
    pub fn skew(&self, hours: i64) {
        *self.skew.lock() += hours * 3_600_000;
    }
    /// Sets whether nothing can be written.
    pub fn set_failing(&self, fails: bool) {
        self.files.fail_sync(fails);
    }
    /// Limits the size of the disk to what is used, or not at all.
    pub fn set_full(&self, is_full: bool) {
        self.files.set_capacity(is_full.then_some(1));
    }
    /// Loses what was not synced, as a loss of power does: each write is there, absent or torn.
    pub fn lose_power(&mut self, numbers: &mut Numbers) {
        self.files = self.files.after_power_loss(numbers);
    }
}

/// Commits at every interval until it is dropped; `committed` is called after each that wrote something.
pub async fn commit_always(mut steps: JournalSteps, state: State, committed: impl Fn() + Send) {
    let mut commits = 0;
    loop {
        tokio::time::sleep(INTERVAL).await;
        steps.commit();
        let now = state.stats().map_or(0, |stats| stats.commits);
        if now > commits {
            commits = now;
            committed();
        }
    }
}
