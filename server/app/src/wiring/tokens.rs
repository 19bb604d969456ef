//! Requests reviews of tokens from the clusters that are served, over the connections of their registries.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tributary_kube_client::{Connection, LiveConnections, Writer};
use tributary_model::{Catalog, ClusterId, ProviderId};
use tributary_registry_api::Credential;
use tributary_runtime::Handle;

use crate::tokens::{ClusterReviews, Reviewed};

/// Clusters of a running server.
pub(super) struct ServedClusters {
    pub(super) handle: Handle,
    pub(super) live: LiveConnections,
}

impl ServedClusters {
    /// Returns the connection of the run that is served. One that is to replace it may lead to another cluster.
    fn connection(&self, cluster: &ClusterId) -> Option<Connection> {
        let catalog = self.handle.catalog();
        let mut runs = of_cluster(&catalog, cluster);
        runs.find_map(|registry| self.live.of(&registry.id.name, registry.generation))
    }
}

/// Returns the registries of a cluster's own objects.
fn of_cluster<'c>(
    catalog: &'c Catalog,
    cluster: &'c ClusterId,
) -> impl Iterator<Item = &'c tributary_model::RegistryView> {
    let is_own = move |id: &tributary_model::RegistryId| {
        id.provider == ProviderId::KUBERNETES && id.cluster == *cluster
    };
    catalog.registries.values().filter(move |registry| is_own(&registry.id)).map(|registry| &**registry)
}

impl ClusterReviews for ServedClusters {
    fn knows(&self, cluster: &ClusterId) -> bool {
        of_cluster(&self.handle.catalog(), cluster).next().is_some()
    }
    fn review(
        &self,
        cluster: ClusterId,
        token: Credential,
        audiences: Arc<[String]>,
    ) -> BoxFuture<'static, Reviewed> {
        let connection = self.connection(&cluster);
        async move {
            let connection = connection.ok_or("the server is not connected to it now")?;
            let reviewed = Writer::new(connection.client()).review_token(&token, &audiences).await;
            reviewed.map_err(|failure| failure.to_string())
        }
        .boxed()
    }
}
