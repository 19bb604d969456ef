//! What a client has subscribed to, of one type, and what it is owed beyond what changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::answers::Subscription;

/// Whether a client wants all names of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcard {
    /// Only the names that it gives.
    No,
    /// All, because its first request named none; ends as soon as it names one.
    Legacy,
    /// All, because it said `*`.
    Star,
}

/// A client's subscription to one type.
#[derive(Debug, Clone)]
pub(crate) struct TypeSubscription {
    /// Whether it wants all names.
    pub(crate) all: Wildcard,
    /// The names that it gives; equal lists are one allocation.
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
        !self.is_wildcard() && self.names.names().is_empty()
    }
}

/// Names that must be answered whether or not they have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Asked {
    /// None.
    #[default]
    Nothing,
    /// These.
    Names(BTreeSet<Box<str>>),
    /// All that is subscribed.
    Everything,
}

impl Asked {
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
    /// Takes back a name that is wanted no more.
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
    /// More than so many names are remembered as "all".
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
