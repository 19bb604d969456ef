//! One run of the registry of a cluster.

use async_trait::async_trait;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::run_loop::RunLoop;

/// A run that has not begun. A server that is down does not end it: the run reports that and tries again by itself.
/// Another cluster that answers does: the next run reports that cluster's identity first, and everything of it.
pub struct KubernetesRegistry {
    rim: RunLoop,
}

impl KubernetesRegistry {
    pub(crate) const fn new(rim: RunLoop) -> Self {
        Self { rim }
    }
}

#[async_trait]
impl Registry for KubernetesRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let cluster = self.rim.cluster();
        // a watch deletes by its own word and a list by being complete, so that nothing is ever asked
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            why = cluster.replaced() => Err(RegistryError::retryable(why)),
            () = self.rim.run(&io.out, &io.held) => Ok(()),
        }
    }
}
