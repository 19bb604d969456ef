//! A cluster's custom resources as a [`ConfigSource`]: one watch and one table for each kind.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::select_all;
use tributary_kube_client::{Event, Watch};
use tributary_model::{InvalidName, Scope};
use tributary_registry_api::{RegistryError, Surroundings, SurroundingsReceiver};

use super::factory::CrdOptions;
use super::fetched::Fetched;
use super::kinds;
use super::table::Table;
use crate::config::{ConfigEvent, ConfigSource};

/// The custom resources of one cluster.
pub struct CrdSource {
    kinds: Vec<Followed>,
    around: Option<SurroundingsReceiver>,
}

struct Followed {
    scope: Scope,
    watch: Watch<Fetched>,
    table: Table,
}

/// What woke the source.
enum Heard {
    /// Words of the kind with that index.
    Watch(usize, Vec<Event<Fetched>>),
    /// Other surroundings.
    Around(Arc<Surroundings>),
}

impl CrdSource {
    /// A source that begins when [`ConfigSource::next`] is called first.
    pub fn new(client: &kube::Client, options: &CrdOptions) -> Result<Self, InvalidName> {
        let mut around = options.surroundings.clone();
        let known = match &mut around {
            Some(channel) => channel.borrow_and_update().clone(),
            None => Some(Arc::default()),
        };
        let follow = |resource: &_| options.follow(client, resource, known.clone());
        let kinds = options.kinds.resources().iter().map(follow).collect::<Result<_, _>>()?;
        Ok(Self { kinds, around })
    }

    async fn hear(&mut self) -> Heard {
        let Self { kinds, around } = self;
        let watches = kinds.iter_mut().map(|kind| Box::pin(kind.watch.next()));
        tokio::select! {
            (events, index, _) = select_all(watches) => Heard::Watch(index, events),
            known = surrounded(around) => Heard::Around(known),
        }
    }

    fn take(&mut self, heard: Heard) -> Vec<ConfigEvent> {
        match heard {
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
    fn follow(
        &self,
        client: &kube::Client,
        resource: &tributary_kube_client::Resource,
        around: Option<Arc<Surroundings>>,
    ) -> Result<Followed, InvalidName> {
        let scope = kinds::scope(resource)?;
        let table = Table::new(scope.clone(), resource.kind, self.revision.clone(), around);
        let watch = Watch::new(client.clone(), self.watch(resource), self.chance(resource));
        Ok(Followed { scope, watch, table })
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

#[async_trait]
impl ConfigSource for CrdSource {
    fn scopes(&self) -> Vec<Scope> {
        self.kinds.iter().map(|kind| kind.scope.clone()).collect()
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
