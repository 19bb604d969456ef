//! The mesh configuration between clusters: the run of the config cluster publishes it, runs of other clusters follow it.
//!
//! The application creates one channel and gives an end of it to each factory. The value is `None` until a run of the config
//! cluster knows its mesh configuration; a follower publishes no fact before. It is never withdrawn: a config cluster that cannot
//! be read leaves its last value in force.

use std::sync::Arc;

use tokio::sync::watch;

use crate::mesh::Mesh;

/// Publishes the mesh configuration.
pub type MeshSender = watch::Sender<Option<Arc<Mesh>>>;
/// Receives it.
pub type MeshReceiver = watch::Receiver<Option<Arc<Mesh>>>;

/// What a run has to do with the mesh configuration of other clusters.
#[derive(Debug, Clone, Default)]
pub enum MeshLink {
    /// Nothing: its own is in force.
    #[default]
    Own,
    /// Its own is in force, and other clusters follow it.
    Publishes(Arc<MeshSender>),
    /// That of the config cluster is in force.
    Follows(MeshReceiver),
}

impl MeshLink {
    /// Whether the mesh configuration of the config cluster is in force.
    #[must_use]
    pub const fn follows(&self) -> bool {
        matches!(self, Self::Follows(_))
    }
    /// Publishes the own mesh configuration, if others follow it and it changed.
    pub(crate) fn publish(&self, mesh: &Mesh) {
        let Self::Publishes(sender) = self else { return };
        sender.send_if_modified(|known| {
            let changed = known.as_deref() != Some(mesh);
            if changed {
                *known = Some(Arc::new(mesh.clone()));
            }
            changed
        });
    }
    /// Returns the followed mesh configuration, if it is known.
    pub(crate) fn current(&mut self) -> Option<Arc<Mesh>> {
        match self {
            Self::Follows(receiver) => receiver.borrow_and_update().clone(),
            Self::Own | Self::Publishes(_) => None,
        }
    }
    /// Waits until the followed mesh configuration changes; for ever if none is followed.
    pub(crate) async fn changed(&mut self) {
        if let Self::Follows(receiver) = self
            && receiver.changed().await.is_ok()
        {
            return;
        }
        // a link that follows nothing has no change, and without a sender the server stops
        std::future::pending().await
    }
}
