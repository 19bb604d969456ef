//! A run of the registry: polls its sources and sends their events as updates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{Stream, select_all, unfold};
use tributary_model::{ClusterId, ProviderId, RegistryId, RegistryName, RegistrySpec, RegistryUpdate, Scope};
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo};

use crate::convert::Context;
use crate::crd::kinds::is_of_sidecars;
use crate::files::{Directory, Timing};
use crate::source::{DocumentSource, SourceEvent, collections, registry_updates};

/// One run over any sources of documents.
pub struct ServiceEntryRegistry {
    sources: Vec<Box<dyn DocumentSource>>,
    context: Context,
}

impl ServiceEntryRegistry {
    /// Creates a run; it begins with [`Registry::run`].
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
        let mut required_scopes = RequiredScopes::new(sources.iter().flat_map(|source| source.scopes()));
        io.out.send(required_scopes.required());
        // Each source confirms absence itself, so confirm requests are not handled.
        let mut incoming = select_all(sources.into_iter().map(|source| Box::pin(follow(source))));
        loop {
            let events = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                events = incoming.next() => events,
            };
            let Some(events) = events.transpose()? else { return Ok(()) };
            let updates = events.into_iter().flat_map(|event| {
                let required = required_scopes.observe(&event);
                required.into_iter().chain(registry_updates(event, &context))
            });
            if !io.out.send_all(updates) {
                return Ok(());
            }
        }
    }
}

/// The events of a source, until it fails.
fn follow(source: Box<dyn DocumentSource>) -> impl Stream<Item = Result<Vec<SourceEvent>, RegistryError>> {
    unfold(source, |mut source| async move { Some((source.next().await, source)) })
}

/// The followed scopes, each with whether the registry is complete only with it.
struct RequiredScopes(BTreeMap<Scope, bool>);

impl RequiredScopes {
    fn new(scopes: impl Iterator<Item = Scope>) -> Self {
        Self(scopes.map(|scope| (scope, true)).collect())
    }
    fn required(&self) -> RegistryUpdate {
        let of = |required: bool| {
            let scopes = self.0.iter().filter(move |(_, is)| **is == required);
            scopes.flat_map(|(scope, _)| collections(scope)).collect()
        };
        RegistryUpdate::Follows { required: of(true), optional: of(false) }
    }
    /// Returns the update to send before this event's own updates, if the event changes the required scopes.
    fn observe(&mut self, event: &SourceEvent) -> Option<RegistryUpdate> {
        let (scope, is) = match event {
            SourceEvent::Withheld(scope, _) => (scope, is_of_sidecars(scope)),
            SourceEvent::ListStarted(scope) | SourceEvent::ListEnded(scope, _) => (scope, true),
            _ => return None,
        };
        let was = self.0.insert(scope.clone(), is);
        (was != Some(is)).then(|| self.required())
    }
}

/// Builds runs over directories.
#[derive(Debug, Clone)]
pub struct FileFactory {
    id: Arc<RegistryId>,
    directories: Vec<PathBuf>,
    context: Context,
    timing: Timing,
}

impl FileFactory {
    /// Creates a registry over directories, each a scope; they need not exist yet.
    #[must_use]
    pub fn new(name: RegistryName, cluster: ClusterId, directories: Vec<PathBuf>) -> Self {
        let context = Context::new(cluster.clone());
        let id = Arc::new(RegistryId { name, provider: ProviderId::SERVICE_ENTRY, cluster });
        Self { id, directories, context, timing: Timing::default() }
    }
    /// Sets the trust domain of service account identities.
    #[must_use]
    pub fn trust_domain(mut self, domain: &str) -> Self {
        self.context.trust_domain = domain.into();
        self
    }
    /// Sets the timing; for tests.
    #[must_use]
    pub const fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
}

impl RegistryFactory for FileFactory {
    fn spec(&self) -> RegistrySpec {
        // `build` refuses a directory whose name is not a valid scope.
        let scopes = self.directories.iter().filter_map(|directory| Directory::scope(directory).ok());
        RegistrySpec::new(self.id.clone(), 1).configured(scopes).limiting_visibility()
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

    fn scopes(update: &RegistryUpdate) -> Vec<&str> {
        let RegistryUpdate::Follows { required: list, .. } = update else { panic!("{update:?}") };
        let mut scopes: Vec<&str> = list.iter().map(|collection| collection.scope.as_str()).collect();
        scopes.dedup();
        scopes
    }

    #[test]
    fn withheld_scope_is_optional_until_it_begins_or_is_listed() {
        let mut required_scopes = RequiredScopes::new([scope("a"), scope("b")].into_iter());
        assert_eq!(scopes(&required_scopes.required()), ["a", "b"]);
        assert_eq!(required_scopes.observe(&SourceEvent::ListStarted(scope("a"))), None);
        let withheld = || SourceEvent::Withheld(scope("b"), Withheld::forbidden("403"));
        let less = required_scopes.observe(&withheld()).unwrap();
        assert_eq!(scopes(&less), ["a"]);
        let RegistryUpdate::Follows { optional, .. } = &less else { panic!("{less:?}") };
        assert!(optional.iter().all(|collection| collection.scope == scope("b")) && optional.len() == 4);
        assert_eq!(required_scopes.observe(&withheld()), None, "it is reported once");
        let all = required_scopes.observe(&SourceEvent::ListStarted(scope("b"))).unwrap();
        assert_eq!(scopes(&all), ["a", "b"]);
        required_scopes.observe(&withheld());
        let listed = SourceEvent::ListEnded(scope("b"), Completeness::Complete);
        assert_eq!(scopes(&required_scopes.observe(&listed).unwrap()), ["a", "b"]);
    }

    #[test]
    fn unreadable_sidecars_stay_required() {
        let mut required_scopes =
            RequiredScopes::new([scope("serviceentries"), scope("sidecars")].into_iter());
        let withheld = |name| SourceEvent::Withheld(scope(name), Withheld::forbidden("403"));
        let less = required_scopes.observe(&withheld("serviceentries")).unwrap();
        assert_eq!(scopes(&less), ["sidecars"]);
        assert_eq!(required_scopes.observe(&withheld("sidecars")), None);
        let mut namespaced = RequiredScopes::new([scope("sidecars/shop")].into_iter());
        assert_eq!(namespaced.observe(&withheld("sidecars/shop")), None);
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
