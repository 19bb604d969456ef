//! The custom resources of a cluster as a [`DocumentSource`]: one watch and one table for each kind, those of kinds that are
//! not served, and the writer of addresses.
//!
//! A run of the registry polls it. It reports the identity of the cluster before any fact, and ends with an
//! error when a different cluster answers.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::select_all;
use tributary_kube_client::{
    ClusterContext, ClusterContextReceiver, ClusterIdentity, Event, Found, Resource, Watch,
};
use tributary_model::{Fingerprint, InvalidName, Namespace, Scope};
use tributary_registry_api::RegistryError;

use super::fetched::Fetched;
use super::kinds::{self, Kinds};
use super::options::{Addresses, CrdOptions};
use super::resource_table::ResourceTable;
use super::send;
use super::unserved::{self, UnservedKinds, UnservedObject};
use crate::allocate::Writer;
use crate::source::{Content, DocumentSource, SourceEvent};

/// The custom resources of one cluster.
pub struct CrdSource {
    kinds: Vec<Followed>,
    unserved: UnservedKinds,
    context: Option<ClusterContextReceiver>,
    /// A context that was not applied yet: of a different cluster, or received before the cluster is identified.
    news: Option<Arc<ClusterContext>>,
    /// Confirms the identity of the cluster before a watch reports anything.
    cluster: ClusterIdentity,
    /// The identity that the context names, and the one that was last reported.
    named: Option<Fingerprint>,
    reported: Option<Fingerprint>,
    /// Allocates addresses to ServiceEntries, if enabled.
    writer: Option<Writer>,
}

struct Followed {
    scope: Scope,
    watch: Watch<Fetched>,
    table: ResourceTable,
    /// Whether addresses may be written into its objects.
    writable: bool,
    content: Content,
}

/// Event that woke the source.
enum Wakeup {
    /// Events of the watch with that index.
    Watch(usize, Vec<Event<Fetched>>),
    /// Events of a kind whose objects are not served.
    Unserved(usize, Vec<Event<UnservedObject>>),
    /// A new cluster context.
    Context(Arc<ClusterContext>),
    /// A different cluster answers, with the reason.
    Replaced(String),
    /// The writer made progress.
    Written,
}

impl CrdSource {
    /// Creates a source; it begins at the first call of [`DocumentSource::next`].
    pub fn new(client: &kube::Client, options: &CrdOptions) -> Result<Self, InvalidName> {
        let mut context = options.cluster_context.clone();
        let news = match &mut context {
            Some(channel) => channel.borrow_and_update().clone(),
            None => Some(Arc::default()),
        };
        let cluster = ClusterIdentity::new(client.clone());
        let kinds = options.follow_all(client, &cluster)?;
        let unserved = UnservedKinds::new(client, options, &cluster)?;
        let addresses = options.addresses.clone().filter(|_| options.kinds == Kinds::All);
        let writer = addresses.map(|Addresses { ranges, leads }| {
            Writer::new(ranges, leads, send::sends(client.clone()), options.random_source("writer"))
        });
        let named = news.as_ref().and_then(|news| news.identity.clone());
        Ok(Self { kinds, unserved, context, news, cluster, named, reported: None, writer })
    }

    async fn wait(&mut self) -> Wakeup {
        let Self { kinds, unserved, context, writer, cluster, .. } = self;
        let listed = kinds.iter().filter(|kind| kind.writable).all(|kind| kind.table.is_listed());
        let watches = kinds.iter_mut().map(|kind| Box::pin(kind.watch.next()));
        // the watches come last: one of them can be ready for ever
        tokio::select! {
            biased;
            why = cluster.replaced() => Wakeup::Replaced(why),
            known = next_context(context) => Wakeup::Context(known),
            () = run_writer(writer, listed) => Wakeup::Written,
            (index, events) = unserved.next() => Wakeup::Unserved(index, events),
            (events, index, _) = select_all(watches) => Wakeup::Watch(index, events),
        }
    }

    fn take(&mut self, wakeup: Wakeup) -> Vec<SourceEvent> {
        if let Wakeup::Context(context) = &wakeup {
            self.named.clone_from(&context.identity);
            self.news = Some(Arc::clone(context));
        }
        let mut events = self.identify();
        events.extend(self.set_context());
        events.extend(match wakeup {
            Wakeup::Watch(index, events_of_watch) => self.table(index, events_of_watch),
            Wakeup::Unserved(index, events_of_watch) => self.unserved.apply(index, events_of_watch),
            Wakeup::Context(_) | Wakeup::Written | Wakeup::Replaced(_) => Vec::new(),
        });
        events.extend(self.withhold());
        self.pass_to_writer();
        events.extend(self.writer_problems());
        events
    }

    /// Reports the identity of the cluster before anything that depends on it: the identity that answers, else the one
    /// that the context names.
    fn identify(&mut self) -> Vec<SourceEvent> {
        let identity = match self.cluster.found() {
            Found::Unknown => None,
            Found::Unreadable => self.named.clone(),
            Found::Is(identity) | Found::Replaced { was: identity, .. } => Some(identity),
        };
        if identity.is_none() || identity == self.reported {
            return Vec::new();
        }
        self.reported.clone_from(&identity);
        identity.map(SourceEvent::Identity).into_iter().collect()
    }

    /// Applies a new context once it is known to belong to the cluster that answers.
    fn set_context(&mut self) -> Vec<SourceEvent> {
        let is_own = match (self.cluster.found(), &self.named) {
            (Found::Unknown, _) => false,
            (Found::Unreadable, _) | (_, None) => true,
            (Found::Is(own) | Found::Replaced { was: own, .. }, Some(named)) => own == *named,
        };
        let Some(news) = self.news.take_if(|_| is_own) else { return Vec::new() };
        let tables = self.kinds.iter_mut().flat_map(|kind| kind.table.set_context(Arc::clone(&news)));
        let mut events: Vec<SourceEvent> = tables.collect();
        events.extend(self.unserved.set_context(&news));
        events
    }

    /// Reports the kinds that cannot be read.
    fn withhold(&mut self) -> Vec<SourceEvent> {
        let live: Vec<usize> =
            (0..).zip(&self.kinds).filter(|(_, k)| k.table.is_live()).map(|(i, _)| i).collect();
        let kinds = self.kinds.iter_mut().enumerate();
        kinds
            .filter_map(|(index, kind)| kind.table.withhold(live.iter().any(|other| *other != index)))
            .collect()
    }

    /// Passes changed objects to the writer.
    fn pass_to_writer(&mut self) {
        for kind in &mut self.kinds {
            let touched = kind.table.touched();
            let writer = self.writer.as_mut().filter(|_| kind.writable);
            if let Some(writer) = writer {
                touched.iter().for_each(|name| writer.claim(name, kind.table.claim(name)));
            }
        }
    }

    /// Attaches the writer's problems to the objects.
    fn writer_problems(&mut self) -> Vec<SourceEvent> {
        let news = self.writer.as_mut().map(Writer::problem_changes).unwrap_or_default();
        let mut events = Vec::new();
        for kind in self.kinds.iter_mut().filter(|kind| kind.writable) {
            events.extend(
                news.iter().flat_map(|(name, problem)| kind.table.set_extra_problem(name, problem.as_ref())),
            );
        }
        events
    }

    fn table(&mut self, index: usize, events_of_watch: Vec<Event<Fetched>>) -> Vec<SourceEvent> {
        let Some(kind) = self.kinds.get_mut(index) else { return Vec::new() };
        events_of_watch.into_iter().flat_map(|event| kind.table.apply(event)).collect()
    }
}

impl CrdOptions {
    fn follow_all(
        &self,
        client: &kube::Client,
        cluster: &ClusterIdentity,
    ) -> Result<Vec<Followed>, InvalidName> {
        let all = self.watched().into_iter();
        all.map(|(resource, namespace)| self.follow(client, resource, namespace, cluster)).collect()
    }
    fn follow(
        &self,
        client: &kube::Client,
        resource: &Resource,
        namespace: Option<&Namespace>,
        cluster: &ClusterIdentity,
    ) -> Result<Followed, InvalidName> {
        let scope = kinds::scope(resource, namespace)?;
        let table = ResourceTable::new(scope.clone(), resource.kind, self.revision.clone(), None);
        let watch =
            Watch::new(client.clone(), self.watch(resource, namespace), self.random_source(scope.as_str()));
        let watch = watch.of_cluster(cluster.clone());
        let (writable, content) = (*resource == kinds::SERVICE_ENTRIES, kinds::content(resource));
        Ok(Followed { scope, watch, table, writable, content })
    }
}

/// Waits for a new cluster context; never returns if there is no sender.
async fn next_context(context: &mut Option<ClusterContextReceiver>) -> Arc<ClusterContext> {
    let Some(channel) = context else { return std::future::pending().await };
    while channel.changed().await.is_ok() {
        if let Some(known) = channel.borrow_and_update().clone() {
            return known;
        }
    }
    // The sender has ended: its last value stays valid.
    std::future::pending().await
}

/// Runs the writer; never returns without a writer.
async fn run_writer(writer: &mut Option<Writer>, listed: bool) {
    match writer {
        Some(writer) => writer.work(listed).await,
        None => std::future::pending().await,
    }
}

#[async_trait]
impl DocumentSource for CrdSource {
    fn scopes(&self) -> Vec<Scope> {
        let served = self.kinds.iter().map(|kind| &kind.scope);
        served.chain(self.unserved.scopes()).cloned().collect()
    }

    fn content(&self, scope: &Scope) -> Content {
        let served = self.kinds.iter().find(|kind| kind.scope == *scope).map(|kind| kind.content);
        let unserved = || self.unserved.scopes().any(|own| own == scope).then_some(unserved::CONTENT);
        served.or_else(unserved).unwrap_or(Content::ANY)
    }

    fn hold(&mut self, scopes: &[Scope]) {
        let held = self.kinds.iter_mut().filter(|kind| scopes.contains(&kind.scope));
        held.for_each(|kind| kind.watch.hold());
    }

    async fn next(&mut self) -> Result<Vec<SourceEvent>, RegistryError> {
        loop {
            let wakeup = self.wait().await;
            if let Wakeup::Replaced(why) = wakeup {
                return Err(RegistryError::retryable(why));
            }
            let events = self.take(wakeup);
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
