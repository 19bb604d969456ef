//! A cluster's custom resources as a [`ConfigSource`]: one watch and one table for each kind, and the
//! writer of addresses beside them.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::select_all;
use tributary_kube_client::{Event, Resource, Watch};
use tributary_model::{Fingerprint, InvalidName, Namespace, Scope};
use tributary_registry_api::{RegistryError, Surroundings, SurroundingsReceiver};

use super::factory::{Addresses, CrdOptions};
use super::fetched::Fetched;
use super::kinds::{self, Kinds};
use super::send;
use super::table::Table;
use crate::allocate::Writer;
use crate::config::{ConfigEvent, ConfigSource};

/// The custom resources of one cluster.
pub struct CrdSource {
    kinds: Vec<Followed>,
    around: Option<SurroundingsReceiver>,
    /// The identity of the cluster as it was last learned, and as it was last reported.
    identity: Option<Fingerprint>,
    reported: Option<Fingerprint>,
    /// Gives addresses to ServiceEntries, where that is asked for.
    writer: Option<Writer>,
}

struct Followed {
    scope: Scope,
    watch: Watch<Fetched>,
    table: Table,
    /// Whether addresses may be written into its objects.
    writable: bool,
}

/// What woke the source.
enum Heard {
    /// Words of the kind with that index.
    Watch(usize, Vec<Event<Fetched>>),
    /// Other surroundings.
    Around(Arc<Surroundings>),
    /// The writer has worked.
    Written,
}

impl CrdSource {
    /// A source that begins when [`ConfigSource::next`] is called first.
    pub fn new(client: &kube::Client, options: &CrdOptions) -> Result<Self, InvalidName> {
        let mut around = options.surroundings.clone();
        let known = match &mut around {
            Some(channel) => channel.borrow_and_update().clone(),
            None => Some(Arc::default()),
        };
        let kinds = options.follow_all(client, known.as_ref())?;
        let addresses = options.addresses.clone().filter(|_| options.kinds == Kinds::All);
        let writer = addresses.map(|Addresses { ranges, leads }| {
            Writer::new(ranges, leads, send::sends(client.clone()), options.chance("writer"))
        });
        let identity = known.and_then(|known| known.identity.clone());
        Ok(Self { kinds, around, identity, reported: None, writer })
    }

    async fn hear(&mut self) -> Heard {
        let Self { kinds, around, writer, .. } = self;
        let listed = kinds.iter().filter(|kind| kind.writable).all(|kind| kind.table.is_listed());
        let watches = kinds.iter_mut().map(|kind| Box::pin(kind.watch.next()));
        tokio::select! {
            (events, index, _) = select_all(watches) => Heard::Watch(index, events),
            known = surrounded(around) => Heard::Around(known),
            () = written(writer, listed) => Heard::Written,
        }
    }

    fn take(&mut self, heard: Heard) -> Vec<ConfigEvent> {
        if let Heard::Around(around) = &heard {
            self.identity.clone_from(&around.identity);
        }
        let mut events = self.identify();
        events.extend(self.table(heard));
        events.extend(self.withhold());
        self.tell_writer();
        events.extend(self.ask_writer());
        events
    }

    /// The identity of the cluster, before anything that depends on it.
    fn identify(&mut self) -> Vec<ConfigEvent> {
        if self.identity.is_none() || self.identity == self.reported {
            return Vec::new();
        }
        self.reported.clone_from(&self.identity);
        self.identity.clone().map(ConfigEvent::Identity).into_iter().collect()
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

    fn table(&mut self, heard: Heard) -> Vec<ConfigEvent> {
        match heard {
            Heard::Written => Vec::new(),
            Heard::Watch(index, events) => {
                let Some(kind) = self.kinds.get_mut(index) else { return Vec::new() };
                events.into_iter().flat_map(|event| kind.table.take(event)).collect()
            }
            Heard::Around(around) => {
                self.kinds.iter_mut().flat_map(|kind| kind.table.surround(around.clone())).collect()
            }
        }
    }
}

impl CrdOptions {
    fn follow_all(
        &self,
        client: &kube::Client,
        around: Option<&Arc<Surroundings>>,
    ) -> Result<Vec<Followed>, InvalidName> {
        let all = self.watched().into_iter();
        all.map(|(resource, namespace)| self.follow(client, resource, namespace, around)).collect()
    }
    fn follow(
        &self,
        client: &kube::Client,
        resource: &Resource,
        namespace: Option<&Namespace>,
        around: Option<&Arc<Surroundings>>,
    ) -> Result<Followed, InvalidName> {
        let scope = kinds::scope(resource, namespace)?;
        let table = Table::new(scope.clone(), resource.kind, self.revision.clone(), around.cloned());
        let watch = Watch::new(client.clone(), self.watch(resource, namespace), self.chance(scope.as_str()));
        Ok(Followed { scope, watch, table, writable: *resource == kinds::SERVICE_ENTRIES })
    }
}

/// Waits for other surroundings; for ever where nobody tells of any.
async fn surrounded(around: &mut Option<SurroundingsReceiver>) -> Arc<Surroundings> {
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
impl ConfigSource for CrdSource {
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
            let events = self.take(heard);
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
