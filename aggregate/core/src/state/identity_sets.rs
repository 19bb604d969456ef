//! Sets of identities that services share. Equal sets of different services are one value, so what is encoded from them is
//! encoded once.
//!
//! The build asks for the set of each service that it builds. The table has at most twice the sets in use, and a small number.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::Arc;

use tributary_model::{Identity, IdentitySet};

/// Entry of the table, found by its content.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Known(Arc<IdentitySet>);

impl Borrow<IdentitySet> for Known {
    fn borrow(&self) -> &IdentitySet {
        &self.0
    }
}

/// Sets by content.
#[derive(Debug, Default)]
pub(crate) struct IdentitySets {
    known: HashSet<Known>,
    cleanup_at: usize,
}

impl IdentitySets {
    const FIRST_CLEANUP: usize = 1_024;

    /// Returns the set of these identities; the one before if it is equal.
    pub(crate) fn share(
        &mut self,
        before: Option<&Arc<IdentitySet>>,
        identities: Vec<Identity>,
    ) -> Arc<IdentitySet> {
        let fresh = IdentitySet::new(identities);
        if let Some(same) = before.filter(|before| ***before == fresh) {
            return Arc::clone(same);
        }
        if let Some(Known(known)) = self.known.get(&fresh) {
            return Arc::clone(known);
        }
        self.remove_unused();
        let added = Arc::new(fresh);
        self.known.insert(Known(Arc::clone(&added)));
        added
    }
    fn remove_unused(&mut self) {
        if self.known.len() >= self.cleanup_at.max(Self::FIRST_CLEANUP) {
            self.known.retain(|Known(set)| Arc::strong_count(set) > 1);
            self.cleanup_at = self.known.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(text: &str) -> Vec<Identity> {
        vec![Identity::new(text).unwrap()]
    }

    #[test]
    fn equal_sets_are_one_and_unused_ones_go() {
        let mut sets = IdentitySets::default();
        let held = sets.share(None, mk("held"));
        assert!(Arc::ptr_eq(&held, &sets.share(None, mk("held"))));
        for n in 0..10_000 {
            sets.share(None, mk(&format!("id-{n}")));
        }
        assert!(sets.known.len() <= 2 * IdentitySets::FIRST_CLEANUP, "{} sets", sets.known.len());
        assert!(Arc::ptr_eq(&held, &sets.share(None, mk("held"))));
    }
}
