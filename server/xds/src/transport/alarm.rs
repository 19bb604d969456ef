//! A time limit that moves often and is seldom reached.
//!
//! A stream's task sets one with each write. The timer stays where it is when the limit moves to a later time, and looks at
//! the limit when it fires, so that moving it costs a comparison.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for one limit at a time.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Completes at `due`; never without one.
    pub(crate) fn poll(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if due < sleep.deadline() {
            sleep.as_mut().reset(due);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if due <= sleep.deadline() {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn completes_at_the_last_limit_that_was_set() {
        let (mut alarm, began) = (Alarm::default(), Instant::now());
        let at = |seconds| Some(began + Duration::from_secs(seconds));
        for limit in [at(30), at(40), None, at(20), at(50)] {
            assert!(futures::poll!(poll_fn(|cx| alarm.poll(limit, cx))).is_pending());
        }
        poll_fn(|cx| alarm.poll(at(50), cx)).await;
        assert_eq!(began.elapsed().as_secs(), 50);
        poll_fn(|cx| alarm.poll(at(60), cx)).await;
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}
