//! Listeners that a gRPC server rejected. It keeps its earlier one then, or none: what the newer one restricts would stay open.
//! So it is sent one that refuses every request, until the listener changes.
//!
//! The session records them with each rejection; snapshots answer with them.

use std::sync::Arc;

use tributary_answer::listens_at;
use tributary_model::{ClientKind, EncodedResource, Version};

use super::held_versions::Holding;
use super::rejection::Verdict;
use super::{ChangedHosts, Session};
use crate::answers::ResourceType;

/// Rejected listeners of a gRPC server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShutServers(Arc<[Shut]>);

/// A rejected listener.
#[derive(Debug, Clone)]
struct Shut {
    name: Arc<str>,
    /// Version that the server rejected.
    version: Version,
    /// Text of the rejection.
    text: Arc<str>,
}

impl ShutServers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether this is a listener that the server rejected.
    pub(crate) fn has(&self, listener: &EncodedResource) -> bool {
        self.0.iter().any(|shut| shut.name == listener.name && shut.version == listener.version)
    }
    /// Iterates over the names and the texts of the rejections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|shut| (&shut.name, &shut.text))
    }
    fn add(&mut self, shut: Shut) {
        let others = self.0.iter().filter(|known| known.name != shut.name).cloned();
        self.0 = others.chain([shut.clone()]).collect();
    }
}

impl Session {
    /// Records the listeners of a gRPC server that it rejected, and sends others.
    pub(super) fn shut_rejected(&mut self) {
        if self.client.class.kind != ClientKind::Grpc {
            return;
        }
        let rejected = self.rejected_servers();
        if rejected.is_empty() {
            return;
        }
        rejected.into_iter().for_each(|shut| self.shut.add(shut));
        self.on_generation(ChangedHosts::Everything);
    }
    /// Returns the listeners of its own that the client rejects by name in the version that it was sent.
    fn rejected_servers(&self) -> Vec<Shut> {
        let state = &self.kinds[ResourceType::Listener];
        let names = state.watch.iter().flat_map(|watch| watch.names.iter());
        let own = names.filter(|name| listens_at(name).is_some());
        let shut = |name: &Arc<str>| {
            let Verdict::Rejected(text) = state.acks.verdict(name) else { return None };
            let version = match (&state.known, &self.base) {
                (Some(known), _) => known.get(name),
                (None, Some(base)) => {
                    Holding::Version(base.one(&self.env, ResourceType::Listener, name)?.version)
                }
                (None, None) => return None,
            };
            let Holding::Version(version) = version else { return None };
            let refusing = self.env.answers.refusing_listener(name)?.version;
            (version != refusing).then(|| Shut { name: Arc::clone(name), version, text })
        };
        own.filter_map(shut).collect()
    }
}
