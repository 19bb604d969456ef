//! Waiting for a condition. Every test that must see something happen calls [`eventually`]: it says what it
//! waited for and what it saw last, and there is no fixed pause anywhere. Times are those of a machine that has
//! nothing else to do; one that is busy is given several times as much, and a test that proves how long something
//! takes measures it itself.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// Between two looks.
pub(crate) const STEP: Duration = Duration::from_millis(10);
/// How many times longer everything may take on a busy machine.
const BUSY: u32 = 3;

/// When what takes so long has not come even on a busy machine.
pub(crate) fn deadline(within: Duration) -> Instant {
    Instant::now() + within * BUSY
}

/// Tries `probe` until it is `Ok`, or fails after `within`, and more on a busy machine, with the error that it gave
/// last.
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

/// Runs `work`, and fails with `what` if it takes longer than `within`, and more on a busy machine.
pub async fn in_time<T>(what: &str, within: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout_at(deadline(within), work).await {
        Ok(result) => result,
        Err(_) => Err(anyhow!("{what}: not within {within:?}")),
    }
}
