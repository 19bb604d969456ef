//! Time limits that count only time in which the server has looked at what it waits for.
//!
//! When thousands of clients connect at once, a task may wait for seconds until it is polled, while the bytes of its
//! client lie in the socket. [`Patience`] splits its limit into periods; the next begins when the task has looked after
//! the last. So an overloaded server waits longer, and a client that sends nothing is still cut.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Number of looks before a limit ends.
const LOOKS: u32 = 10;

/// A time limit. Poll it after what it limits.
#[derive(Debug)]
pub(crate) struct Patience {
    period: Duration,
    looks: u32,
    sleep: Pin<Box<Sleep>>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        let period = limit / LOOKS;
        Self { period, looks: LOOKS, sleep: Box::pin(sleep(period)) }
    }
}

impl Future for Patience {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            self.looks = self.looks.saturating_sub(1);
            if self.looks == 0 {
                return Poll::Ready(());
            }
            let next = Instant::now() + self.period;
            self.sleep.as_mut().reset(next);
        }
    }
}

/// Waits for a future within a limit; `None` if the limit ends before it.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        out = future => Some(out),
        () = Patience::new(limit) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;
    use tokio::time::advance;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn time_without_a_look_does_not_count() {
        let mut patience = std::pin::pin!(Patience::new(LIMIT));
        assert!(poll!(patience.as_mut()).is_pending());
        advance(LIMIT * 6).await;
        assert!(poll!(patience.as_mut()).is_pending(), "the task was not polled for a minute");
        let began = Instant::now();
        patience.await;
        assert_eq!(began.elapsed().as_secs(), 9, "nine of ten looks are left");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_server_keeps_the_limit() {
        let began = Instant::now();
        assert_eq!(within(LIMIT, std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed().as_secs(), 10);
        assert_eq!(within(LIMIT, std::future::ready(7)).await, Some(7));
    }
}
