//! The registry itself: runs its sources and sends what they say as deltas.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use tributary_model::{ClusterId, Delta, Provider, RegistryId, RegistryName, RegistrySpec};
use tributary_registry_api::{
    CancellationToken, Inlet, Registry, RegistryError, RegistryFactory, RegistryIo,
};

use crate::config::{ConfigSource, collections, deltas};
use crate::convert::Context;
use crate::files::{Directory, Timing};

/// One run over any sources of documents.
pub struct ServiceEntryRegistry {
    sources: Vec<Box<dyn ConfigSource>>,
    context: Context,
}

impl ServiceEntryRegistry {
    /// A run that has not begun.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn ConfigSource>>, context: Context) -> Self {
        Self { sources, context }
    }
}

#[async_trait]
impl Registry for ServiceEntryRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let Self { sources, context } = *self;
        let scopes = sources.iter().flat_map(|source| source.scopes());
        io.out.send(Delta::Required(
            scopes.flat_map(|scope| collections(&scope).collect::<Vec<_>>()).collect(),
        ));
        // A directory's own second listing is its confirmation, so nothing is ever asked.
        let followed = sources.into_iter().map(|source| follow(source, &context, &io.out));
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = try_join_all(followed) => ended.map(drop),
        }
    }
}

/// Sends what a source says until the source fails or nobody listens any more.
async fn follow(
    mut source: Box<dyn ConfigSource>,
    context: &Context,
    out: &Inlet,
) -> Result<(), RegistryError> {
    loop {
        let events = source.next().await?;
        if !out.send_all(events.into_iter().flat_map(|event| deltas(event, context))) {
            return Ok(());
        }
    }
}

/// Builds runs of `--registry file=DIR`.
#[derive(Debug, Clone)]
pub struct FileFactory {
    id: Arc<RegistryId>,
    directories: Vec<PathBuf>,
    context: Context,
    timing: Timing,
}

impl FileFactory {
    /// A registry of that name over directories, each a scope; they need not exist yet.
    #[must_use]
    pub fn new(name: RegistryName, cluster: ClusterId, directories: Vec<PathBuf>) -> Self {
        let context = Context::new(cluster.clone());
        let id = Arc::new(RegistryId { name, provider: Provider::ServiceEntry, cluster });
        Self { id, directories, context, timing: Timing::default() }
    }
    /// With the domain of identities that are made from service accounts.
    #[must_use]
    pub fn trust_domain(mut self, domain: &str) -> Self {
        self.context.trust_domain = domain.into();
        self
    }
    /// With other times to look; for tests.
    #[must_use]
    pub const fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
}

impl RegistryFactory for FileFactory {
    fn spec(&self) -> RegistrySpec {
        RegistrySpec { id: self.id.clone(), rank: 1, can_confirm: false }
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let mut sources: Vec<Box<dyn ConfigSource>> = Vec::new();
        for directory in &self.directories {
            let source = Directory::new(directory, self.timing).map_err(RegistryError::final_)?;
            sources.push(Box::new(source));
        }
        Ok(Box::new(ServiceEntryRegistry::new(sources, self.context.clone())))
    }
}
