//! The remote admin listener: its certificates, its address, and who may use it.
//!
//! `wiring` reads the certificates and binds the address before anything is served, as for xDS.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tributary_kube_client::LiveConnections;
use tributary_model::ClusterId;
use tributary_registry_api::Clock;
use tributary_runtime::Handle;

use super::certificates::Certificates;
use super::tokens::ServedClusters;
use crate::admin::remote::AdminUser;
use crate::admin::{Listener, RemoteAccess, Shared, router};
use crate::config::{Config, Loaded};
use crate::exit::CommandError;
use crate::reload::Running;
use crate::tokens::Tokens;

/// Listener with its certificates; requests are not answered yet.
pub(super) struct RemoteAdmin {
    pub(super) listener: Listener,
    certificates: Certificates,
}

impl RemoteAdmin {
    /// Reads the certificates and binds the address; `None` if the configuration has no such listener.
    pub(super) async fn bind(loaded: &Loaded) -> Result<Option<Self>, CommandError> {
        let Some(certificates) = Certificates::of_remote_admin(loaded)? else { return Ok(None) };
        let Some(remote) = &loaded.config.admin.remote else { return Ok(None) };
        let listener = Listener::bind("admin.remote.listen", remote.listen).await?;
        Ok(Some(Self { listener, certificates }))
    }
    /// Serves it, and follows its certificates.
    pub(super) fn serve(
        self,
        shared: Shared,
        running: &Arc<Running>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let tls = Some(self.certificates.tls());
        self.certificates.show(running);
        tasks.spawn(self.listener.serve_with(router(shared), tls, stop.clone()));
        tasks.spawn(self.certificates.follow(Arc::clone(running), stop.clone()));
    }
}

/// Returns who may use the listener of a configuration.
pub(super) fn access(
    config: &Config,
    (handle, live): (&Handle, &LiveConnections),
    clock: &Arc<dyn Clock>,
) -> Option<RemoteAccess> {
    let remote = config.admin.remote.as_ref()?;
    let tokens = remote.tokens.as_ref().and_then(|tokens| {
        let clusters = ServedClusters { handle: handle.clone(), live: live.clone() };
        let time = (Arc::clone(clock), Timestamp::now as fn() -> Timestamp);
        let seed = u64::from(std::process::id());
        let tokens = Tokens::<AdminUser>::new(Arc::new(clusters), &tokens.audiences, time, seed);
        Some((tokens, ClusterId::new(&config.cluster_id).ok()?))
    });
    Some(RemoteAccess::new(remote, tokens))
}
