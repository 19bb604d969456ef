//! One run of the registry of a cluster.

use async_trait::async_trait;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::rim::Rim;

/// A run that has not begun. A server that is down does not end it: the run says so and tries again by itself.
pub struct KubernetesRegistry {
    rim: Rim,
}

impl KubernetesRegistry {
    pub(crate) const fn new(rim: Rim) -> Self {
        Self { rim }
    }
}

#[async_trait]
impl Registry for KubernetesRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        // a watch deletes by its own word and a list by being complete, so that nothing is ever asked
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.rim.run(&io.out, &io.held) => {}
        }
        Ok(())
    }
}
