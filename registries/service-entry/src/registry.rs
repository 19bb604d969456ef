//! The registry itself: runs its sources and sends what they say as deltas.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{Stream, select_all, unfold};
use tributary_model::{ClusterId, Provider, RegistryId, RegistryName, RegistrySpec, RegistryUpdate, Scope};
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo};

use crate::convert::Context;
use crate::files::{Directory, Timing};
use crate::source::{ConfigEvent, DocumentSource, collections, deltas};

/// One run over any sources of documents.
pub struct ServiceEntryRegistry {
    sources: Vec<Box<dyn DocumentSource>>,
    context: Context,
}

impl ServiceEntryRegistry {
    /// A run that has not begun.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn DocumentSource>>, context: Context) -> Self {
        Self { sources, context }
    }
}

#[async_trait]
impl Registry for ServiceEntryRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let Self { mut sources, context } = *self;
        sources.iter_mut().for_each(|source| source.hold(&io.held));
        let mut awaited = Awaited::new(sources.iter().flat_map(|source| source.scopes()));
        io.out.send(awaited.required());
        // What a source misses it has looked for twice itself, so nothing is ever asked.
        let mut said = select_all(sources.into_iter().map(|source| Box::pin(follow(source))));
        loop {
            let events = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                events = said.next() => events,
            };
            let Some(events) = events.transpose()? else { return Ok(()) };
            let words = events.into_iter().flat_map(|event| {
                let required = awaited.hear(&event);
                required.into_iter().chain(deltas(event, &context))
            });
            if !io.out.send_all(words) {
                return Ok(());
            }
        }
    }
}

/// What a source says, until it fails.
fn follow(source: Box<dyn DocumentSource>) -> impl Stream<Item = Result<Vec<ConfigEvent>, RegistryError>> {
    unfold(source, |mut source| async move { Some((source.next().await, source)) })
}

/// The scopes that are followed, each with whether the registry's facts count as all only with it.
struct Awaited(BTreeMap<Scope, bool>);

impl Awaited {
    fn new(scopes: impl Iterator<Item = Scope>) -> Self {
        Self(scopes.map(|scope| (scope, true)).collect())
    }
    fn required(&self) -> RegistryUpdate {
        let of = |awaited: bool| {
            let scopes = self.0.iter().filter(move |(_, is)| **is == awaited);
            scopes.flat_map(|(scope, _)| collections(scope)).collect()
        };
        RegistryUpdate::Follows { required: of(true), optional: of(false) }
    }
    /// The word that goes before this event's own, where the event changes what is awaited.
    fn hear(&mut self, event: &ConfigEvent) -> Option<RegistryUpdate> {
        let (scope, is) = match event {
            ConfigEvent::Withheld(scope, _) => (scope, false),
            ConfigEvent::Restart(scope) | ConfigEvent::Listed(scope, _) => (scope, true),
            _ => return None,
        };
        let was = self.0.insert(scope.clone(), is);
        (was != Some(is)).then(|| self.required())
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
        // a directory without a name that a scope may have is refused when the run is built
        let scopes = self.directories.iter().filter_map(|directory| Directory::scope(directory).ok());
        RegistrySpec::new(self.id.clone(), 1).configured(scopes)
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let mut sources: Vec<Box<dyn DocumentSource>> = Vec::new();
        for directory in &self.directories {
            let source = Directory::new(directory, self.timing).map_err(RegistryError::final_)?;
            sources.push(Box::new(source));
        }
        Ok(Box::new(ServiceEntryRegistry::new(sources, self.context.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{Completeness, RestartMode, Scopes, Withheld};

    fn scope(name: &str) -> Scope {
        Scope::new(name).unwrap()
    }

    fn scopes(delta: &RegistryUpdate) -> Vec<&str> {
        let RegistryUpdate::Follows { required: list, .. } = delta else { panic!("{delta:?}") };
        let mut scopes: Vec<&str> = list.iter().map(|collection| collection.scope.as_str()).collect();
        scopes.dedup();
        scopes
    }

    #[test]
    fn withheld_scope_is_optional_until_it_begins_or_is_listed() {
        let mut awaited = Awaited::new([scope("a"), scope("b")].into_iter());
        assert_eq!(scopes(&awaited.required()), ["a", "b"]);
        assert_eq!(awaited.hear(&ConfigEvent::Restart(scope("a"))), None);
        let withheld = || ConfigEvent::Withheld(scope("b"), Withheld::forbidden("403"));
        let less = awaited.hear(&withheld()).unwrap();
        assert_eq!(scopes(&less), ["a"]);
        let RegistryUpdate::Follows { optional, .. } = &less else { panic!("{less:?}") };
        assert!(optional.iter().all(|collection| collection.scope == scope("b")) && optional.len() == 3);
        assert_eq!(awaited.hear(&withheld()), None, "it is reported once");
        let all = awaited.hear(&ConfigEvent::Restart(scope("b"))).unwrap();
        assert_eq!(scopes(&all), ["a", "b"]);
        awaited.hear(&withheld());
        let listed = ConfigEvent::Listed(scope("b"), Completeness::Complete);
        assert_eq!(scopes(&awaited.hear(&listed).unwrap()), ["a", "b"]);
    }

    #[test]
    fn directories_are_the_configured_scopes_and_restart_in_place() {
        let id = ClusterId::new("c").unwrap();
        let directories = vec![PathBuf::from("conf"), PathBuf::from("more")];
        let spec = FileFactory::new(RegistryName::new("f").unwrap(), id, directories).spec();
        assert_eq!(spec.scopes, Scopes::Configured([scope("conf"), scope("more")].into()));
        assert_eq!(spec.restart, RestartMode::InPlace);
    }
}
