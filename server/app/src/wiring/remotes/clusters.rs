//! The registries of remote clusters in the supervisor: both are added, rotated and removed together.
//!
//! The driver calls it with the orders of the roster. Every connection is vetted and dials only what the operator allows.

use std::sync::Arc;

use tributary_model::{ClusterId, RegistryName};
use tributary_registry_api::RegistryFactory;
use tributary_remote::VettedKubeconfig;
use tributary_remote::roster::ENTRIES;
use tributary_runtime::{Handle, SupervisorError};

use crate::config::Config;
use crate::exit::CommandError;
use crate::wiring::factories::{Factories, RemoteCluster};

/// Registries of remote clusters. Clones share the server.
#[derive(Clone)]
pub(super) struct Clusters {
    handle: Handle,
    factories: Factories,
    config: Arc<Config>,
}

impl Clusters {
    pub(super) fn new(handle: Handle, factories: Factories, config: Config) -> Self {
        Self { handle, factories, config: Arc::new(config) }
    }

    /// Adds the registries of a cluster; those that exist are rotated, so that a repeated order completes a part.
    pub(super) async fn put(
        &self,
        registry: &RegistryName,
        cluster: &ClusterId,
        kubeconfig: VettedKubeconfig,
    ) -> Result<(), CommandError> {
        for factory in self.factories(registry, cluster, kubeconfig)? {
            match self.handle.add_registry(Arc::clone(&factory)).await {
                Err(SupervisorError::Taken(_)) => self.handle.rotate(factory).await,
                added => added,
            }
            .map_err(|error| CommandError::plain(error.to_string()))?;
        }
        Ok(())
    }

    /// Removes the registries of a cluster and their facts.
    pub(super) async fn remove(&self, registry: &RegistryName, cluster: &ClusterId) {
        let entries = RegistryName::new(format!("{registry}{ENTRIES}"));
        for name in [Some(registry.clone()), entries.ok()].into_iter().flatten() {
            match self.handle.remove_registry(name).await {
                // a registry that was never added has nothing to remove
                Ok(()) | Err(SupervisorError::Unknown(_) | SupervisorError::Stopped(_)) => {}
                Err(error) => {
                    tracing::error!(%cluster, %error, "a registry of a remote cluster was not removed")
                }
            }
        }
        self.factories.forget(registry, cluster);
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
        kubeconfig: VettedKubeconfig,
    ) -> Result<Vec<Arc<dyn RegistryFactory>>, CommandError> {
        let allowed = self.config.remotes.allowed();
        let open = move || kubeconfig.connect(&allowed);
        let remote = RemoteCluster { name: registry.clone(), cluster: cluster.clone(), open: Arc::new(open) };
        self.factories.remote(remote, &self.config)
    }
}
