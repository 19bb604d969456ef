//! Requests reviews of tokens from the clusters that are served, over the connections of their registries.
//!
//! `wiring::xds` uses [`ServedClusters`] for the tokens of clients; `wiring::remote_admin` uses it for those of operators, whose
//! rights it requests too.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tributary_kube_client::{ApiFailure, Connection, LiveConnections, Writer};
use tributary_model::{Catalog, ClusterId, ProviderId};
use tributary_registry_api::Credential;
use tributary_runtime::Handle;
use tributary_xds::token::ServiceAccount;

use crate::admin::remote::AdminUser;
use crate::tokens::{ClusterReviews, Reviewed, Verdict, account_of, user_of};

/// Path by whose rights an operator may read or change: `get` and `post` on `/debug/*`.
const PATH: &str = "/debug/";

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
    fn is_served(&self, cluster: &ClusterId) -> bool {
        of_cluster(&self.handle.catalog(), cluster).next().is_some()
    }
    fn writer(&self, cluster: &ClusterId) -> Result<Writer, String> {
        let connection = self.connection(cluster).ok_or("the server is not connected to it now")?;
        Ok(Writer::new(connection.client()))
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

impl ClusterReviews<ServiceAccount> for ServedClusters {
    fn knows(&self, cluster: &ClusterId) -> bool {
        self.is_served(cluster)
    }
    fn review(
        &self,
        cluster: ClusterId,
        token: Credential,
        audiences: Arc<[String]>,
    ) -> BoxFuture<'static, Reviewed<ServiceAccount>> {
        let writer = self.writer(&cluster);
        async move {
            let reviewed = writer?.review_token(&token, &audiences).await;
            reviewed.map(|reviewed| account_of(&reviewed, &audiences)).map_err(|failure| failure.to_string())
        }
        .boxed()
    }
}

impl ClusterReviews<AdminUser> for ServedClusters {
    fn knows(&self, cluster: &ClusterId) -> bool {
        self.is_served(cluster)
    }
    fn review(
        &self,
        cluster: ClusterId,
        token: Credential,
        audiences: Arc<[String]>,
    ) -> BoxFuture<'static, Reviewed<AdminUser>> {
        let writer = self.writer(&cluster);
        async move { operator(&writer?, &token, &audiences).await.map_err(|failure| failure.to_string()) }
            .boxed()
    }
}

/// Returns whose token it is, with the rights of that user.
async fn operator(
    writer: &Writer,
    token: &Credential,
    audiences: &[String],
) -> Result<Verdict<AdminUser>, ApiFailure> {
    let reviewed = writer.review_token(token, audiences).await?;
    let user = match user_of(&reviewed, audiences) {
        Ok(user) => user,
        Err(why) => return Ok(Err(why)),
    };
    let may_view = writer.review_access(user, "get", PATH).await?;
    let may_change = writer.review_access(user, "post", PATH).await?;
    Ok(Ok(AdminUser { name: user.username.as_str().into(), may_view, may_change }))
}
