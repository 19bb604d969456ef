//! What a source has and a registry leaves out on purpose: an object of another revision, a
//! namespace that is not selected.
//!
//! Said by adapters, kept by the core with the registry, read where a person asks why a host is not
//! there. Nothing that is left out is bad: it holds back no sweep and is no problem.

use std::sync::Arc;

use crate::code::Code;
use crate::hostname::{HostPattern, Hostname};
use crate::labels::{self, Labels};
use crate::object::ObjectRef;

/// One object that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ExcludedObject {
    /// The object.
    pub object: ObjectRef,
    /// By which rule.
    pub code: Code,
    /// The rule's word about it, for people.
    pub message: Arc<str>,
    /// The hosts that are not there for it.
    pub hosts: Arc<[HostPattern]>,
}

impl ExcludedObject {
    /// How many are kept of one scope.
    pub const MAX: usize = 4096;

    /// Whether this may be why there is no such host.
    #[must_use]
    pub fn explains(&self, host: &Hostname) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(host))
    }
}

/// Whether an object with these labels belongs to the revision that is served. An object that names
/// no revision belongs to all, and where no revision is asked for all are served.
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
    fn a_revision_takes_what_is_its_own_or_nobodys() {
        let of = |text: &str| [(labels::REVISION, text)].into_iter().collect::<Labels>();
        assert!(of_revision(&of("blue"), Some("blue")) && of_revision(&Labels::default(), Some("blue")));
        assert!(!of_revision(&of("green"), Some("blue")) && !of_revision(&of(""), Some("blue")));
        assert!(of_revision(&of("green"), None));
    }
}
