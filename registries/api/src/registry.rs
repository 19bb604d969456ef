//! Traits that every adapter implements, and the channels of a run.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tributary_model::{RegistrySpec, Scope};

use crate::confirm::ConfirmReceiver;
use crate::error::RegistryError;
use crate::update_channel::UpdateSender;

/// One run of an adapter against one source.
///
/// The whole run is one task tree: all its tasks must end when `stop` fires or when the future is
/// dropped, because the supervisor drops a run that does not stop in time.
#[async_trait]
pub trait Registry: Send + 'static {
    /// Runs until `stop` fires or the source fails permanently. Sends every update to `io.out`: first
    /// `Follows`, then for every collection `ListStarted`, its facts and `ListEnded`.
    ///
    /// An unreachable source is not an error of the run: the adapter reports a `Status` and tries again
    /// by itself. An error ends the run; the supervisor builds the next one, with backoff, while all reported
    /// facts stay served and are marked stale.
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError>;
}

/// Channels of a run.
#[derive(Debug)]
pub struct RegistryIo {
    /// Takes all updates of the run; sending never blocks.
    pub out: UpdateSender,
    /// Confirm requests of the core; answers go to `out`.
    pub confirms: ConfirmReceiver,
    /// Scopes with facts of earlier runs. A run that discovers its scopes follows these as well, even if the
    /// discovery does not list them.
    pub held: Arc<[Scope]>,
}

/// Factory of the runs of one registry.
pub trait RegistryFactory: Send + Sync {
    /// Returns the properties of the registry; equal for every run.
    fn spec(&self) -> RegistrySpec;
    /// Builds the next run. Called once per run, so each run starts without state of the previous one.
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError>;
}
