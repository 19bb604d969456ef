//! A client's subscription to one type, and names that must be sent even if unchanged.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::answers::Subscription;

/// Whether a client subscribes to all names of a type (docs/reference/xds.md#wildcards).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcard {
    /// Only to listed names.
    No,
    /// To all, because its first request listed no name; ends as soon as it lists one.
    Legacy,
    /// To all, because it listed `*`.
    Star,
}

/// A client's subscription to one type.
#[derive(Debug, Clone)]
pub(crate) struct TypeSubscription {
    /// Whether it covers all names.
    pub(crate) all: Wildcard,
    /// Listed names; equal lists share one allocation.
    pub(crate) names: Arc<Subscription>,
}

impl TypeSubscription {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.is_wildcard() || self.names.contains(name)
    }
    pub(crate) fn is_wildcard(&self) -> bool {
        self.all != Wildcard::No
    }
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_wildcard() && self.names.is_empty()
    }
}

/// Names that must be sent even if unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Requested {
    /// None.
    #[default]
    Nothing,
    /// These.
    Names(BTreeSet<Box<str>>),
    /// All subscribed names.
    Everything,
}

impl Requested {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
    pub(crate) fn add(&mut self, name: &str) {
        match self {
            Self::Nothing => *self = Self::Names(BTreeSet::from([name.into()])),
            Self::Names(names) => drop(names.insert(name.into())),
            Self::Everything => {}
        }
    }
    /// Withdraws a name that is no longer subscribed.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Self::Names(names) = self {
            names.remove(name);
            if names.is_empty() {
                *self = Self::Nothing;
            }
        }
    }
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Assignments that must follow because their xDS clusters were sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Forced {
    /// None.
    #[default]
    Nothing,
    /// These.
    Names(BTreeSet<Arc<str>>),
    /// All.
    Everything,
}

impl Forced {
    /// Most names that are listed; more become `Everything`.
    const MAX: usize = 1024;

    pub(crate) fn add(&mut self, names: impl Iterator<Item = Arc<str>>) {
        for name in names {
            match self {
                Self::Nothing => *self = Self::Names(BTreeSet::from([name])),
                Self::Names(held) if held.len() >= Self::MAX => *self = Self::Everything,
                Self::Names(held) => drop(held.insert(name)),
                Self::Everything => return,
            }
        }
    }
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
