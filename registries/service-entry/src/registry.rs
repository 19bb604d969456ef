//! A run of the registry: polls its sources and sends their events as updates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{Stream, select_all, unfold};
use tributary_model::{
    ClusterId, Collection, ProviderId, RegistryId, RegistryName, RegistrySpec, RegistryUpdate, Scope,
};
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo};

use crate::convert::Context;
use crate::files::{Directory, Timing};
use crate::source::{Content, DocumentSource, Need, SourceEvent, registry_updates};

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
        let mut followed = FollowedScopes::new(sources.iter().flat_map(|source| contents(source.as_ref())));
        io.out.send(followed.follows());
        // Each source confirms absence itself, so confirm requests are not handled.
        let mut incoming = select_all(sources.into_iter().map(|source| Box::pin(follow(source))));
        loop {
            let events = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                events = incoming.next() => events,
            };
            let Some(events) = events.transpose()? else { return Ok(()) };
            let updates = events.into_iter().flat_map(|event| {
                let follows = followed.observe(&event);
                let mut updates = registry_updates(event, &context);
                updates.retain(|update| followed.concerns(update));
                follows.into_iter().chain(updates)
            });
            if !io.out.send_all(updates) {
                return Ok(());
            }
        }
    }
}

/// The scopes of a source with their contents.
fn contents(source: &dyn DocumentSource) -> Vec<(Scope, Content)> {
    source.scopes().into_iter().map(|scope| (scope.clone(), source.content(&scope))).collect()
}

/// The events of a source, until it fails.
fn follow(source: Box<dyn DocumentSource>) -> impl Stream<Item = Result<Vec<SourceEvent>, RegistryError>> {
    unfold(source, |mut source| async move { Some((source.next().await, source)) })
}

/// The followed scopes, each with its content and whether the registry is complete only with it.
struct FollowedScopes(BTreeMap<Scope, (Content, bool)>);

impl FollowedScopes {
    fn new(scopes: impl Iterator<Item = (Scope, Content)>) -> Self {
        Self(scopes.map(|(scope, content)| (scope, (content, content.need != Need::Never))).collect())
    }
    fn follows(&self) -> RegistryUpdate {
        let of = |required: bool| {
            let scopes = self.0.iter().filter(move |(_, (_, is))| *is == required);
            let collections = scopes.flat_map(|(scope, (content, _))| {
                content.kinds.iter().map(|kind| Collection { scope: scope.clone(), kind: *kind })
            });
            collections.collect()
        };
        RegistryUpdate::Follows { required: of(true), optional: of(false) }
    }
    /// Returns the update to send before this event's own updates, if the event changes the required scopes.
    fn observe(&mut self, event: &SourceEvent) -> Option<RegistryUpdate> {
        let (scope, is_withheld) = match event {
            SourceEvent::Withheld(scope, _) => (scope, true),
            SourceEvent::ListStarted(scope) | SourceEvent::ListEnded(scope, _) => (scope, false),
            _ => return None,
        };
        let (content, required) = self.0.get_mut(scope)?;
        let is_required = match content.need {
            Need::Always => true,
            Need::WhileReadable => !is_withheld,
            Need::Never => false,
        };
        let was = std::mem::replace(required, is_required);
        (was != *required).then(|| self.follows())
    }
    /// Whether the scope may contain what a list update is about; true for other updates.
    fn concerns(&self, update: &RegistryUpdate) -> bool {
        let (RegistryUpdate::ListStarted(list)
        | RegistryUpdate::ListEnded(list, _)
        | RegistryUpdate::Progress(list)
        | RegistryUpdate::Withheld(list, _)) = update
        else {
            return true;
        };
        self.0.get(&list.scope).is_some_and(|(content, _)| content.kinds.contains(&list.kind))
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
        RegistrySpec::new(self.id.clone(), 1).configured(scopes).limiting_visibility().deciding_by_services()
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
    use tributary_model::{CollectionKind, Completeness, RestartMode, Scopes, Withheld};

    fn scope(name: &str) -> Scope {
        Scope::new(name).unwrap()
    }

    fn scopes(update: &RegistryUpdate) -> Vec<&str> {
        let RegistryUpdate::Follows { required: list, .. } = update else { panic!("{update:?}") };
        let mut scopes: Vec<&str> = list.iter().map(|collection| collection.scope.as_str()).collect();
        scopes.dedup();
        scopes
    }

    fn mk_followed(scopes: &[(&str, Content)]) -> FollowedScopes {
        FollowedScopes::new(scopes.iter().map(|(name, content)| (scope(name), *content)))
    }

    #[test]
    fn withheld_scope_is_optional_until_it_begins_or_is_listed() {
        let mut followed = mk_followed(&[("a", Content::ANY), ("b", Content::ANY)]);
        assert_eq!(scopes(&followed.follows()), ["a", "b"]);
        assert_eq!(followed.observe(&SourceEvent::ListStarted(scope("a"))), None);
        let withheld = || SourceEvent::Withheld(scope("b"), Withheld::forbidden("403"));
        let less = followed.observe(&withheld()).unwrap();
        assert_eq!(scopes(&less), ["a"]);
        let RegistryUpdate::Follows { optional, .. } = &less else { panic!("{less:?}") };
        assert!(optional.iter().all(|collection| collection.scope == scope("b")) && optional.len() == 4);
        assert_eq!(followed.observe(&withheld()), None, "it is reported once");
        let all = followed.observe(&SourceEvent::ListStarted(scope("b"))).unwrap();
        assert_eq!(scopes(&all), ["a", "b"]);
        followed.observe(&withheld());
        let listed = SourceEvent::ListEnded(scope("b"), Completeness::Complete);
        assert_eq!(scopes(&followed.observe(&listed).unwrap()), ["a", "b"]);
    }

    #[test]
    fn scope_that_decides_stays_required() {
        const POLICIES: Content = Content { kinds: &[CollectionKind::Policies], need: Need::Always };
        let mut followed = mk_followed(&[("sidecars", POLICIES), ("workloadentries", Content::ANY)]);
        let withheld = |name| SourceEvent::Withheld(scope(name), Withheld::forbidden("403"));
        assert_eq!(followed.observe(&withheld("sidecars")), None);
        assert_eq!(scopes(&followed.observe(&withheld("workloadentries")).unwrap()), ["sidecars"]);
        assert_eq!(followed.observe(&withheld("other")), None, "it is not followed");
    }

    #[test]
    fn scope_without_facts_is_never_required() {
        const NOTICES: Content = Content { kinds: &[CollectionKind::Policies], need: Need::Never };
        let mut followed = mk_followed(&[("sidecars", Content::ANY), ("telemetries", NOTICES)]);
        assert_eq!(scopes(&followed.follows()), ["sidecars"]);
        let RegistryUpdate::Follows { optional, .. } = followed.follows() else { panic!() };
        assert_eq!(optional.len(), 1, "it is followed all the same");
        let listed = SourceEvent::ListEnded(scope("telemetries"), Completeness::Complete);
        assert_eq!(followed.observe(&listed), None);
    }

    #[test]
    fn list_reports_the_kinds_that_a_scope_may_contain() {
        const POLICIES: Content = Content { kinds: &[CollectionKind::Policies], need: Need::Always };
        let followed = mk_followed(&[("sidecars", POLICIES)]);
        let RegistryUpdate::Follows { required, .. } = followed.follows() else { panic!() };
        assert_eq!(required.len(), 1);
        let list = |kind| RegistryUpdate::ListStarted(Collection { scope: scope("sidecars"), kind });
        assert!(followed.concerns(&list(CollectionKind::Policies)));
        assert!(!followed.concerns(&list(CollectionKind::Services)));
        assert!(followed.concerns(&RegistryUpdate::Excluded(scope("sidecars"), [].into())));
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
