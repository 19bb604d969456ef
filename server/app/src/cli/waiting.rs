//! The one loop of commands that wait for something that a server shows: `wait`, `cluster wait`, `cluster remove` and `cluster rotate`.
//!
//! A server that does not answer meanwhile, such as one that restarts, is requested again until the time is over.

use std::time::Duration;

use tokio::time::Instant;

use crate::exit::{CommandError, Exit};

/// Pause between two requests.
pub(super) const PACE: Duration = Duration::from_millis(250);
/// Longest time of one request.
pub(super) const REQUEST: Duration = Duration::from_secs(10);

/// Why a state is not reached.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// It can still be reached.
    NotYet(String),
    /// It will not be reached.
    Never(CommandError),
}

impl From<String> for Pending {
    fn from(why: String) -> Self {
        Self::NotYet(why)
    }
}

impl Pending {
    /// Returns what a failed request means: only a wrong address, or a refusal, stays so.
    pub(super) fn of(failure: CommandError) -> Self {
        match failure.exit {
            Exit::Usage | Exit::NotAuthorised => Self::Never(failure),
            _ => Self::NotYet(failure.message),
        }
    }
}

/// Repeats a look until a test of what it shows holds, at [`PACE`] at most. After `end` it returns the last reason; a look that is still
/// under way then is ended.
pub(super) async fn until<T, F: Future<Output = Result<T, CommandError>>>(
    end: Instant,
    mut look: impl FnMut() -> F,
    mut test: impl FnMut(T) -> Result<(), Pending>,
) -> Result<(), Pending> {
    let mut last = "there was no answer".to_owned();
    loop {
        let next = Instant::now() + PACE;
        let Ok(shown) = tokio::time::timeout_at(end, look()).await else { return Err(Pending::NotYet(last)) };
        match shown.map_err(Pending::of).and_then(&mut test) {
            Ok(()) => return Ok(()),
            Err(Pending::NotYet(why)) => last = why,
            Err(never) => return Err(never),
        }
        if next >= end {
            return Err(Pending::NotYet(last));
        }
        tokio::time::sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_bounds_the_wait_and_a_test_that_hangs() {
        let end = Instant::now() + Duration::from_secs(1);
        let mut tests = 0;
        let ended = until(
            end,
            || std::future::ready(Ok(())),
            |()| {
                tests += 1;
                Err(Pending::NotYet("no".to_owned()))
            },
        );
        assert!(matches!(ended.await, Err(Pending::NotYet(why)) if why == "no"));
        assert!((2..=5).contains(&tests), "{tests}");
        let hangs = until(
            Instant::now() + Duration::from_secs(1),
            std::future::pending::<Result<(), CommandError>>,
            |()| Ok(()),
        );
        assert!(matches!(hangs.await, Err(Pending::NotYet(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_ends_the_wait_and_a_failure_does_not() {
        let run = async |exit| {
            let failure = CommandError { exit, ..CommandError::plain("refused") };
            let look = || std::future::ready(Err::<(), _>(failure.clone()));
            until(Instant::now() + Duration::from_secs(1), look, |()| Ok(())).await
        };
        assert!(
            matches!(run(Exit::NotAuthorised).await, Err(Pending::Never(failure)) if failure.message == "refused")
        );
        assert!(matches!(run(Exit::Failed).await, Err(Pending::NotYet(why)) if why == "refused"));
    }
}
