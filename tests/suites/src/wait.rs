//! Waiting for a condition. Every test that waits for an event calls [`eventually`], which reports the awaited
//! condition and the last observation; there are no fixed pauses. Time limits are those of an idle machine; a
//! busy one gets a multiple, and a test that proves a duration measures it itself.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// Interval between two polls.
pub(crate) const STEP: Duration = Duration::from_millis(10);
/// Factor of time limits on a busy machine.
const BUSY: u32 = 3;

/// Returns the time after which a wait fails even on a busy machine.
pub(crate) fn deadline(within: Duration) -> Instant {
    Instant::now() + within * BUSY
}

/// Polls `probe` until it is `Ok`; after `within`, extended for a busy machine, fails with its last error.
pub async fn eventually<T, F, Fut>(what: &str, within: Duration, mut probe: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = deadline(within);
    let mut last = anyhow!("nothing was seen yet");
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = error,
            Err(_) => return Err(last.context(format!("{what}: not within {within:?}"))),
        }
        if Instant::now() + STEP > deadline {
            return Err(last.context(format!("{what}: not within {within:?}")));
        }
        sleep(STEP).await;
    }
}

/// Awaits `work`; fails with `what` if it takes longer than `within`, extended for a busy machine.
pub async fn in_time<T>(what: &str, within: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout_at(deadline(within), work).await {
        Ok(result) => result,
        Err(_) => Err(anyhow!("{what}: not within {within:?}")),
    }
}
