//! The registries of remote clusters in the supervisor: both are added, rotated and removed together.
//!
//! The driver calls it with the orders of the roster. Every connection is vetted and dials only what the operator allows.

use std::sync::Arc;

use tributary_model::{ClusterId, RegistryName, ShardPriority};
use tributary_registry_api::RegistryFactory;
use tributary_remote::VettedKubeconfig;
use tributary_remote::roster::{Policy, both};
use tributary_runtime::{Handle, SupervisorError};

use super::accepted::Acceptance;
use super::remembered::{Object, declared, unopened};
use crate::config::Config;
use crate::document::LeavePlan;
use crate::exit::CommandError;
use crate::ops::receipts;
use crate::wiring::factories::{Factories, RegistryPolicy, RemoteCluster};
use crate::wiring::journal::State;

/// Registries of remote clusters. Clones share the server.
#[derive(Clone)]
pub(super) struct Clusters {
    handle: Handle,
    factories: Factories,
    config: Arc<Config>,
    state: State,
}

impl Clusters {
    pub(super) fn new(handle: Handle, factories: Factories, config: Config) -> Self {
        Self { handle, factories, config: Arc::new(config), state: State::none() }
    }

    /// Uses this configuration for the next connections. Returns whether it has other settings than policies of files.
    pub(super) fn configure(&mut self, config: Arc<Config>) -> bool {
        let mut was = (*self.config).clone();
        was.remotes.clusters.clone_from(&config.remotes.clusters);
        let is_other = was != *config;
        self.config = config;
        is_other
    }

    /// Shows registries that a journal restored, and records clusters in it from now on.
    pub(super) fn remember<'a>(&mut self, restored: impl Iterator<Item = &'a RegistryName>, state: State) {
        restored.for_each(|name| self.handle.await_run(name));
        self.state = state;
    }

    /// Adds the registries of a cluster or rotates them; both begin to serve in one turn. A repeated order completes a part.
    pub(super) async fn put(
        &self,
        registry: &RegistryName,
        cluster: &ClusterId,
        (object, kubeconfig, policy): (Object<'_>, VettedKubeconfig, &Policy),
    ) -> Result<(), CommandError> {
        let factories = self.factories(registry, cluster, (kubeconfig, policy))?;
        // a journal with facts and without their registry would lose them
        self.state.remember(&declared(&factories, object));
        let put = self.handle.put_registries(factories).await;
        put.map_err(|error| CommandError::plain(error.to_string()))
    }

    /// Records that another object declares a cluster now, with the credential that is in use.
    pub(super) fn move_to(&self, registry: &RegistryName, cluster: &ClusterId, object: Object<'_>) {
        match self.factories.remote(unopened(registry.clone(), cluster), &self.config) {
            Ok(factories) => self.state.remember(&declared(&factories, object)),
            Err(error) => {
                tracing::error!(%cluster, %error, "the journal keeps the earlier source of a cluster")
            }
        }
    }

    /// Returns whether a run of the registry is still to take over from an earlier one.
    pub(super) fn is_filling(&self, registry: &RegistryName) -> bool {
        self.handle.runs().get(registry).is_some_and(|run| run.shadow.is_some())
    }

    /// Removes the registries of a cluster and their facts in one turn, also those that a journal restored.
    pub(super) async fn remove(&self, registry: &RegistryName, cluster: &ClusterId) {
        match self.handle.remove_registries(both(registry).collect()).await {
            Ok(()) | Err(SupervisorError::Stopped(_)) => {}
            Err(error) => tracing::error!(%cluster, %error, "a remote cluster was not removed"),
        }
        self.factories.forget(registry, cluster);
    }

    /// Stops the connections of a cluster; its facts stay.
    pub(super) async fn pause(&self, registry: &RegistryName, cluster: &ClusterId) {
        let why = "its declaration asks for a pause".into();
        if self.handle.pause_registries(both(registry).collect(), why).await.is_ok() {
            tracing::info!(%cluster, "remote cluster paused; its last known facts stay");
        }
    }

    /// Sets the identity that a cluster may have in place of the known one, and whether it may be read with fewer rights.
    pub(super) async fn accept(&self, registry: &RegistryName, accepted: Acceptance) {
        let Acceptance { identity, fewer_rights } = accepted;
        // a server that stops serves nothing
        let _ = self.handle.set_accepted(both(registry).collect(), identity, fewer_rights).await;
    }

    /// Uses the endpoints of a cluster after those of others, or as before.
    pub(super) async fn demote(&self, registry: &RegistryName, is_demoted: bool) {
        let priority = if is_demoted { ShardPriority::Demoted } else { ShardPriority::Normal };
        // a server that stops serves nothing
        let _ = self.handle.set_priority(both(registry).collect(), priority).await;
    }

    /// Returns what the removal of a cluster takes away, and the generation of its objects.
    pub(super) fn plan(&self, registry: &RegistryName) -> (LeavePlan, u64) {
        let catalog = self.handle.catalog();
        let generation = catalog.registries.get(registry).map(|view| view.generation.0);
        (receipts::plan(&catalog, &both(registry).collect::<Vec<_>>()), generation.unwrap_or_default())
    }

    /// Records that every declaration was read: a journal has the clusters of them from now on.
    pub(super) fn are_declared(&self) {
        self.state.membership_synced(true);
    }
    /// Declares that every remote cluster is known.
    pub(super) async fn are_known(&self) {
        // a server that stops needs no membership
        let _ = self.handle.set_membership_known(true).await;
    }

    fn factories(
        &self,
        registry: &RegistryName,
        cluster: &ClusterId,
        (kubeconfig, policy): (VettedKubeconfig, &Policy),
    ) -> Result<Vec<Arc<dyn RegistryFactory>>, CommandError> {
        let allowed = self.config.remotes.allowed();
        let platform = Arc::clone(self.factories.platform());
        let open = move || platform.connect(&kubeconfig, &allowed);
        let policy =
            RegistryPolicy { stale: policy.staleness.unwrap_or_default(), pinned: policy.found_uid.clone() };
        let (name, cluster) = (registry.clone(), cluster.clone());
        let remote = RemoteCluster { name, cluster, open: Arc::new(open), policy };
        self.factories.remote(remote, &self.config)
    }
}
