//! What a condition of a policy is made of: its code, the other policies that it concerns, and its message.
//!
//! The conditions of DestinationRules and VirtualServices use it.

use tributary_model::{Catalog, Code, Condition, PolicyKey, PolicyView};

pub(super) use crate::steps::named;

/// Most other policies that a condition lists as concerned.
pub(super) const MAX_OTHERS: usize = 8;

/// Condition, with the other policies that it concerns.
pub(super) struct Found<'c>(pub(super) Code, pub(super) Vec<&'c PolicyKey>, pub(super) String);

impl Found<'_> {
    /// Returns the condition of a policy; its object precedes the others.
    pub(super) fn condition(self, catalog: &Catalog, view: &PolicyView) -> Condition {
        let Self(code, others, message) = self;
        let others = others.into_iter().filter_map(|key| catalog.policies.get(key));
        let others = others.map(|other| other.declared.source.reference());
        let objects = std::iter::once(view.declared.source.reference()).chain(others).collect();
        Condition { code, objects, message: message.into() }
    }
}
