//! A cluster's custom resources as a [`DocumentSource`]: one watch and one table for each kind, and the
//! writer of addresses beside them.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::select_all;
use tributary_kube_client::{ClusterIdentity, Event, Found, Resource, Watch};
use tributary_model::{Fingerprint, InvalidName, Namespace, Scope};
use tributary_registry_api::{ClusterContext, ClusterContextReceiver, RegistryError};

use super::factory::{Addresses, CrdOptions};
use super::fetched::Fetched;
use super::kinds::{self, Kinds};
use super::resource_table::ResourceTable;
use super::send;
use crate::allocate::Writer;
use crate::source::{ConfigEvent, DocumentSource};

/// The custom resources of one cluster.
pub struct CrdSource {
    kinds: Vec<Followed>,
    around: Option<ClusterContextReceiver>,
    /// Surroundings that were not passed on yet: of another cluster, or before it is known which one answers.
    news: Option<Arc<ClusterContext>>,
    /// Confirms which cluster answers, before a watch reports anything of it.
    cluster: ClusterIdentity,
    /// The identity that the surroundings name, and the one that was last reported.
    named: Option<Fingerprint>,
    reported: Option<Fingerprint>,
    /// Gives addresses to ServiceEntries, where that is asked for.
    writer: Option<Writer>,
}

struct Followed {
    scope: Scope,
    watch: Watch<Fetched>,
    table: ResourceTable,
    /// Whether addresses may be written into its objects.
    writable: bool,
}

/// What woke the source.
enum Heard {
    /// Words of the kind with that index.
    Watch(usize, Vec<Event<Fetched>>),
    /// Other surroundings.
    Around(Arc<ClusterContext>),
    /// Another cluster answers, for that reason.
    Replaced(String),
    /// The writer has worked.
    Written,
}

impl CrdSource {
    /// A source that begins when [`DocumentSource::next`] is called first.
    pub fn new(client: &kube::Client, options: &CrdOptions) -> Result<Self, InvalidName> {
        let mut around = options.cluster_context.clone();
        let news = match &mut around {
            Some(channel) => channel.borrow_and_update().clone(),
            None => Some(Arc::default()),
        };
        let cluster = ClusterIdentity::new(client.clone());
        let kinds = options.follow_all(client, &cluster)?;
        let addresses = options.addresses.clone().filter(|_| options.kinds == Kinds::All);
        let writer = addresses.map(|Addresses { ranges, leads }| {
            Writer::new(ranges, leads, send::sends(client.clone()), options.chance("writer"))
        });
        let named = news.as_ref().and_then(|news| news.identity.clone());
        Ok(Self { kinds, around, news, cluster, named, reported: None, writer })
    }

    async fn hear(&mut self) -> Heard {
        let Self { kinds, around, writer, cluster, .. } = self;
        let listed = kinds.iter().filter(|kind| kind.writable).all(|kind| kind.table.is_listed());
        let watches = kinds.iter_mut().map(|kind| Box::pin(kind.watch.next()));
        tokio::select! {
            (events, index, _) = select_all(watches) => Heard::Watch(index, events),
            known = surrounded(around) => Heard::Around(known),
            why = cluster.replaced() => Heard::Replaced(why),
            () = written(writer, listed) => Heard::Written,
        }
    }

    fn take(&mut self, heard: Heard) -> Vec<ConfigEvent> {
        let words = match heard {
            Heard::Around(around) => {
                self.named.clone_from(&around.identity);
                self.news = Some(around);
                None
            }
            Heard::Watch(index, words) => Some((index, words)),
            Heard::Written | Heard::Replaced(_) => None,
        };
        let mut events = self.identify();
        events.extend(self.surround());
        events.extend(words.into_iter().flat_map(|(index, words)| self.table(index, words)));
        events.extend(self.withhold());
        self.tell_writer();
        events.extend(self.ask_writer());
        events
    }

    /// The identity of the cluster, before anything that depends on it: the one that answers, else the one that the
    /// surroundings name.
    fn identify(&mut self) -> Vec<ConfigEvent> {
        let identity = match self.cluster.found() {
            Found::Unasked => None,
            Found::Unreadable => self.named.clone(),
            Found::Is(identity) | Found::Replaced { was: identity, .. } => Some(identity),
        };
        if identity.is_none() || identity == self.reported {
            return Vec::new();
        }
        self.reported.clone_from(&identity);
        identity.map(ConfigEvent::Identity).into_iter().collect()
    }

    /// Passes other surroundings on, once it is known that they are those of the cluster that answers.
    fn surround(&mut self) -> Vec<ConfigEvent> {
        let is_own = match (self.cluster.found(), &self.named) {
            (Found::Unasked, _) => false,
            (Found::Unreadable, _) | (_, None) => true,
            (Found::Is(own) | Found::Replaced { was: own, .. }, Some(named)) => own == *named,
        };
        let Some(news) = self.news.take_if(|_| is_own) else { return Vec::new() };
        self.kinds.iter_mut().flat_map(|kind| kind.table.surround(Arc::clone(&news))).collect()
    }

    /// What cannot be read of each kind, in the light of the others.
    fn withhold(&mut self) -> Vec<ConfigEvent> {
        let live: Vec<usize> =
            (0..).zip(&self.kinds).filter(|(_, k)| k.table.is_live()).map(|(i, _)| i).collect();
        let kinds = self.kinds.iter_mut().enumerate();
        kinds
            .filter_map(|(index, kind)| kind.table.withhold(live.iter().any(|other| *other != index)))
            .collect()
    }

    /// The writer hears of every object that changed.
    fn tell_writer(&mut self) {
        for kind in &mut self.kinds {
            let touched = kind.table.touched();
            let writer = self.writer.as_mut().filter(|_| kind.writable);
            if let Some(writer) = writer {
                touched.iter().for_each(|name| writer.claim(name, kind.table.claim(name)));
            }
        }
    }

    /// What the writer finds wrong is shown with the objects.
    fn ask_writer(&mut self) -> Vec<ConfigEvent> {
        let news = self.writer.as_mut().map(Writer::news).unwrap_or_default();
        let mut events = Vec::new();
        for kind in self.kinds.iter_mut().filter(|kind| kind.writable) {
            events.extend(news.iter().flat_map(|(name, problem)| kind.table.remark(name, problem.as_ref())));
        }
        events
    }

    fn table(&mut self, index: usize, words: Vec<Event<Fetched>>) -> Vec<ConfigEvent> {
        let Some(kind) = self.kinds.get_mut(index) else { return Vec::new() };
        words.into_iter().flat_map(|word| kind.table.take(word)).collect()
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
        let watch = Watch::new(client.clone(), self.watch(resource, namespace), self.chance(scope.as_str()));
        let watch = watch.of(cluster.clone());
        Ok(Followed { scope, watch, table, writable: *resource == kinds::SERVICE_ENTRIES })
    }
}

/// Waits for other surroundings; for ever where nobody tells of any.
async fn surrounded(around: &mut Option<ClusterContextReceiver>) -> Arc<ClusterContext> {
    let Some(channel) = around else { return std::future::pending().await };
    while channel.changed().await.is_ok() {
        if let Some(known) = channel.borrow_and_update().clone() {
            return known;
        }
    }
    // Whoever spoke has ended: its last word stays.
    std::future::pending().await
}

/// Lets the writer work; for ever where there is none.
async fn written(writer: &mut Option<Writer>, listed: bool) {
    match writer {
        Some(writer) => writer.work(listed).await,
        None => std::future::pending().await,
    }
}

#[async_trait]
impl DocumentSource for CrdSource {
    fn scopes(&self) -> Vec<Scope> {
        self.kinds.iter().map(|kind| kind.scope.clone()).collect()
    }

    fn hold(&mut self, scopes: &[Scope]) {
        let held = self.kinds.iter_mut().filter(|kind| scopes.contains(&kind.scope));
        held.for_each(|kind| kind.watch.hold());
    }

    async fn next(&mut self) -> Result<Vec<ConfigEvent>, RegistryError> {
        loop {
            let heard = self.hear().await;
            if let Heard::Replaced(why) = heard {
                return Err(RegistryError::retryable(why));
            }
            let events = self.take(heard);
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
