//! Runs that write only while their replica holds a Lease.

use async_trait::async_trait;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::lease::Leadership;

/// Lets a run compete for the Lease for as long as it runs. It resigns the Lease when it ends, so that another
/// replica acquires it at once. Without a candidate, returns the run as it is.
#[must_use]
pub fn while_running(run: Box<dyn Registry>, leadership: Option<Leadership>) -> Box<dyn Registry> {
    match leadership {
        Some(leadership) => Box::new(LeaderWrites { run, leadership }),
        None => run,
    }
}

struct LeaderWrites {
    run: Box<dyn Registry>,
    leadership: Leadership,
}

#[async_trait]
impl Registry for LeaderWrites {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let Self { run, leadership } = *self;
        let ended = CancellationToken::new();
        let run = async {
            let done = run.run(io, stop).await;
            ended.cancel();
            done
        };
        let (done, leadership) = tokio::join!(run, leadership.until(ended.cancelled()));
        leadership.resign().await;
        done
    }
}
