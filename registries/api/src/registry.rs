//! The trait that every adapter implements, and what it is handed.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tributary_model::{RegistrySpec, Scope};

use crate::confirm::ConfirmReceiver;
use crate::error::RegistryError;
use crate::update_channel::UpdateSender;

/// One run of an adapter against one source.
///
/// The whole run is one task tree: whatever it spawns must end when `stop` fires or when the
/// future is dropped, because the supervisor drops what does not stop in time.
#[async_trait]
pub trait Registry: Send + 'static {
    /// Runs until `stop` fires or the source fails for good. All that it learns goes into `io.out`:
    /// first `Required`, then for every collection `Restart`, its facts and `Synced`.
    ///
    /// A source that is merely down is not an error of the run: the adapter says so with a
    /// `Status` and tries again by itself. An error ends the run; the supervisor builds the next
    /// one, with backoff, while everything said so far stays served and is marked stale.
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError>;
}

/// What a run may touch.
#[derive(Debug)]
pub struct RegistryIo {
    /// Takes all that the run learns; never stalls it.
    pub out: UpdateSender,
    /// What the core wants to have confirmed; the answers go into `out`.
    pub confirms: ConfirmReceiver,
    /// Scopes of which facts are held from earlier runs. A run that discovers its scopes follows these too,
    /// whatever the discovery lists.
    pub held: Arc<[Scope]>,
}

/// Builds runs of one registry.
pub trait RegistryFactory: Send + Sync {
    /// Who the registry is; the same for every run.
    fn spec(&self) -> RegistrySpec;
    /// Builds the next run. Called once per run, so that each begins without the last one's state.
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError>;
}
