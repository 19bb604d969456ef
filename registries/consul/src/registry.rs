//! One run of a Consul registry.

use std::sync::Arc;

use async_trait::async_trait;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::client::Client;
use crate::config::ConsulConfig;
use crate::run_loop::RunLoop;

/// Run that has not started.
pub struct ConsulRegistry {
    config: Arc<ConsulConfig>,
    client: Client,
    seed: u64,
}

impl ConsulRegistry {
    /// Creates a run over these connections; `seed` seeds its randomness.
    #[must_use]
    pub const fn new(config: Arc<ConsulConfig>, client: Client, seed: u64) -> Self {
        Self { config, client, seed }
    }
}

#[async_trait]
impl Registry for ConsulRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let Self { config, client, seed } = *self;
        Box::pin(RunLoop::new(config, client, io, seed).run(stop)).await
    }
}
