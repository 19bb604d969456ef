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
pub(crate) struct RejectedListeners(Arc<[RejectedListener]>);

/// A rejected listener.
#[derive(Debug, Clone)]
struct RejectedListener {
    name: Arc<str>,
    /// Version that the server rejected.
    version: Version,
    /// Text of the rejection.
    text: Arc<str>,
}

impl RejectedListeners {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether this is a listener that the server rejected.
    pub(crate) fn has(&self, listener: &EncodedResource) -> bool {
        self.0.iter().any(|known| known.name == listener.name && known.version == listener.version)
    }
    /// Iterates over the names and the texts of the rejections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|known| (&known.name, &known.text))
    }
    /// Adds a listener, and forgets those to which the client does not subscribe any more.
    fn add(&mut self, rejected: RejectedListener, wants: impl Fn(&str) -> bool) {
        let kept = self.0.iter().filter(|known| known.name != rejected.name && wants(&known.name));
        let mut all: Vec<RejectedListener> = kept.cloned().collect();
        all.push(rejected);
        self.0 = all.into();
    }
}

impl Session {
    /// Records the listeners of a gRPC server that it rejected, and sends others.
    pub(super) fn replace_rejected(&mut self) {
        if self.client.class.kind != ClientKind::Grpc {
            return;
        }
        let watch = self.kinds[ResourceType::Listener].watch.clone();
        for listener in self.newly_rejected() {
            self.rejected.add(listener, |name| watch.as_ref().is_some_and(|watch| watch.wants(name)));
            self.on_generation(ChangedHosts::Everything);
        }
    }
    /// Returns the listeners of its own that the client rejects by name in the version that it was sent.
    fn newly_rejected(&self) -> Vec<RejectedListener> {
        let state = &self.kinds[ResourceType::Listener];
        let names = state.watch.iter().flat_map(|watch| watch.names.iter());
        let own = names.filter(|name| listens_at(name).is_some());
        let rejected = |name: &Arc<str>| {
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
            (version != refusing).then(|| RejectedListener { name: Arc::clone(name), version, text })
        };
        own.filter_map(rejected).collect()
    }
}
