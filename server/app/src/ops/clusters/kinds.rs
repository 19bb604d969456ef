//! Kinds that a remote cluster is read for, for the checks of clusters and their conditions.
//!
//! The adapters define them and which of them they need; the state of a cluster follows from the same definitions.

use std::sync::LazyLock;

use tributary_kube_client::Resource;
use tributary_kubernetes::remote_kinds;
use tributary_service_entry::Kinds;

static ALL: LazyLock<Vec<Resource>> =
    LazyLock::new(|| remote_kinds().chain(Kinds::WorkloadEntries.resources().iter().cloned()).collect());

/// Returns the kinds of a remote cluster.
#[must_use]
pub fn kinds() -> &'static [Resource] {
    &ALL
}

/// Whether a remote cluster cannot be read without the right to list a kind, by its plural name.
#[must_use]
pub fn is_required(plural: &str) -> bool {
    kinds().iter().any(|kind| kind.plural == plural && !kind.optional)
}
