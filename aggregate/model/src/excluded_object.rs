//! Objects that a registry excludes by rule: an object of another revision, a namespace that is
//! not selected.
//!
//! Adapters report them, the core keeps them with the registry, and why-not shows them for a missing
//! host. An excluded object is valid: it does not protect stale facts from removal and is not a problem.

use std::sync::Arc;

use crate::code::Code;
use crate::hostname::{HostPattern, Hostname};
use crate::labels::{self, Labels};
use crate::object::ObjectRef;

/// One excluded object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ExcludedObject {
    /// Object.
    pub object: ObjectRef,
    /// Rule that excludes it.
    pub code: Code,
    /// Explanation, for operators.
    pub message: Arc<str>,
    /// Hosts that are missing because of the exclusion.
    pub hosts: Arc<[HostPattern]>,
}

impl ExcludedObject {
    /// Maximum number kept per scope.
    pub const MAX: usize = 4096;

    /// Whether this exclusion can explain that a host is missing.
    #[must_use]
    pub fn explains(&self, host: &Hostname) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(host))
    }
}

/// Whether an object with these labels belongs to the served revision. An object without a revision
/// belongs to all revisions; without a configured revision, all objects are served.
#[must_use]
pub fn of_revision(labels: &Labels, revision: Option<&str>) -> bool {
    match (labels.get(labels::REVISION), revision) {
        (Some(theirs), Some(own)) => theirs == own,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_selects_its_own_and_unlabelled_objects() {
        let of = |text: &str| [(labels::REVISION, text)].into_iter().collect::<Labels>();
        assert!(of_revision(&of("blue"), Some("blue")) && of_revision(&Labels::default(), Some("blue")));
        assert!(!of_revision(&of("green"), Some("blue")) && !of_revision(&of(""), Some("blue")));
        assert!(of_revision(&of("green"), None));
    }
}
