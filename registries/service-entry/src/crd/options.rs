//! Options of a run over custom resources, and the watches and scopes that result.

use std::sync::Arc;

use tokio::sync::watch;
use tributary_kube_client::{ClusterContextReceiver, Resource, Timing, WatchSpec};
use tributary_model::{InvalidName, Namespace, Scope, Version};
use tributary_registry_api::SplitMix;

use super::kinds::{self, Kinds};
use crate::allocate::Ranges;
use crate::document::unserved::UnservedKind;

/// Options of a run over custom resources.
#[derive(Debug, Clone, Default)]
pub struct CrdOptions {
    /// The kinds to read.
    pub kinds: Kinds,
    /// Revision; objects of a different revision are excluded.
    pub revision: Option<Arc<str>>,
    /// The namespaces to read, each with its own watch; empty means all.
    pub namespaces: Vec<Namespace>,
    /// Context of the objects, reported by the cluster's Kubernetes registry. The run reports nothing
    /// before the first value. `None` means that all namespaces count and no network is known.
    pub cluster_context: Option<ClusterContextReceiver>,
    /// Allocates addresses to hosts without any and writes them into their objects; `None` disables
    /// all writes.
    pub addresses: Option<Addresses>,
    /// Timing of the watches.
    pub timing: Timing,
    /// Seed of pauses and audits.
    pub seed: u64,
}

/// Options of address allocation.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The ranges to allocate from.
    pub ranges: Ranges,
    /// Whether this replica holds the Lease for writing.
    pub leads: watch::Receiver<bool>,
}

impl CrdOptions {
    /// Every kind in every configured namespace.
    pub(super) fn watched(&self) -> Vec<(&'static Resource, Option<&Namespace>)> {
        self.in_namespaces(self.kinds.resources())
    }
    /// Every kind whose objects are not served, in every configured namespace.
    pub(super) fn unserved(&self) -> Vec<(&'static UnservedKind, Option<&Namespace>)> {
        self.in_namespaces(self.kinds.unserved())
    }
    fn in_namespaces<T>(&self, kinds: &'static [T]) -> Vec<(&'static T, Option<&Namespace>)> {
        let namespaces: Vec<Option<&Namespace>> = match &self.namespaces[..] {
            [] => vec![None],
            named => named.iter().map(Some).collect(),
        };
        let of = |kind| namespaces.iter().map(move |namespace| (kind, *namespace));
        kinds.iter().flat_map(of).collect()
    }
    /// The scopes that a run reports: one for each watch.
    pub fn scopes(&self) -> Result<Vec<Scope>, InvalidName> {
        let unserved = self.unserved().into_iter().map(|(known, namespace)| (&known.resource, namespace));
        let all = self.watched().into_iter().chain(unserved);
        all.map(|(resource, namespace)| kinds::scope(resource, namespace)).collect()
    }
    pub(super) fn watch(&self, resource: &Resource, namespace: Option<&Namespace>) -> WatchSpec {
        let namespace = namespace.map(ToString::to_string);
        WatchSpec { namespace, ..WatchSpec::all(resource.clone(), self.timing) }
    }
    /// Returns the random source of one part, so that parts with the same seed do not pause in step.
    pub(super) fn random_source(&self, what: &str) -> SplitMix {
        SplitMix::seeded(self.seed ^ Version::of(what.as_bytes()).0)
    }
}
