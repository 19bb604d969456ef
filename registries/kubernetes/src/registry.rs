//! Run of the registry of one cluster.

use async_trait::async_trait;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::run_loop::RunLoop;

/// Run that has not started. An unreachable server does not end it: the run reports that and retries. Another cluster at
/// the same address does: the next run reports that cluster's identity first, then its facts.
pub struct KubernetesRegistry {
    run_loop: RunLoop,
}

impl KubernetesRegistry {
    pub(crate) const fn new(run_loop: RunLoop) -> Self {
        Self { run_loop }
    }
}

#[async_trait]
impl Registry for KubernetesRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let cluster = self.run_loop.cluster();
        // a watch deletes by its own events and a list by completing, so the core never has to request a confirmation
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            why = cluster.replaced() => Err(RegistryError::retryable(why)),
            () = self.run_loop.run(&io.out, &io.held) => Ok(()),
        }
    }
}
