//! Claims on the matches of composite resources: the domains of a route table, the connections of a listener.
//!
//! Every match keeps all its claimants in order of precedence; the first serves it, and the next one takes its place
//! when it goes. Generations share the lists that did not change.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

/// Claimants by match.
#[derive(Debug, Clone)]
pub(crate) struct Claims<M: Ord, C>(OrdMap<M, Claimants<C>>);

/// Order of precedence among claims.
pub(crate) trait ClaimOrder<C> {
    fn compare(&self, a: &C, b: &C) -> Ordering;
    /// Sorts many claims; looks each claimant up once.
    fn sort(&self, all: &mut Vec<C>);
}

/// Claimants of one match, never empty. Most matches have one.
#[derive(Debug, Clone)]
enum Claimants<C> {
    One(C),
    Many(Arc<[C]>),
}

impl<C: Clone> Claimants<C> {
    fn new(mut all: Vec<C>) -> Option<Self> {
        match all.len() {
            0 => None,
            1 => all.pop().map(Self::One),
            _ => Some(Self::Many(all.into())),
        }
    }
    fn all(&self) -> &[C] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<M: Ord, C> Default for Claims<M, C> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<M: Ord + Clone, C: Clone> Claims<M, C> {
    /// Returns the claimants of a match, the serving one first.
    pub(crate) fn of<Q: Ord + ?Sized>(&self, found: &Q) -> &[C]
    where
        M: Borrow<Q>,
    {
        self.0.get(found).map_or(&[], Claimants::all)
    }
    /// Adds a claim where `order` places it, after equal ones. Returns the match if others claim it too.
    pub(crate) fn add<Q: Ord + ?Sized>(
        &mut self,
        on: &Q,
        claim: C,
        order: impl Fn(&C, &C) -> Ordering,
    ) -> Option<M>
    where
        M: Borrow<Q> + for<'q> From<&'q Q>,
    {
        let Some((on, known)) = self.0.get_key_value(on) else {
            self.0.insert(on.into(), Claimants::One(claim));
            return None;
        };
        let (on, mut all) = (on.clone(), known.all().to_vec());
        all.insert(all.partition_point(|known| order(known, &claim).is_le()), claim);
        self.set(on.clone(), all);
        Some(on)
    }
    /// Adds many claims at once: few by insertion, many by sorting all of them.
    pub(crate) fn add_all(&mut self, on: M, added: Vec<C>, order: &impl ClaimOrder<C>) {
        let mut all = self.of(&on).to_vec();
        if added.len() * 16 < all.len() {
            for claim in added {
                all.insert(all.partition_point(|known| order.compare(known, &claim).is_le()), claim);
            }
        } else {
            all.extend(added);
            order.sort(&mut all);
        }
        self.set(on, all);
    }
    /// Removes the claims that `gone` admits. Returns the match if others still claim it.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, on: &Q, gone: impl Fn(&C) -> bool) -> Option<M>
    where
        M: Borrow<Q>,
    {
        let (on, known) = self.0.get_key_value(on)?;
        let (on, left) = (on.clone(), known.all().iter().filter(|claim| !gone(claim)).cloned().collect());
        self.set(on.clone(), left).then_some(on)
    }
    /// Returns the matches with their claimants, in order of the matches.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&M, &[C])> {
        self.0.iter().map(|(on, claimants)| (on, claimants.all()))
    }
    /// Whether nothing is claimed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Replaces the claimants of a match. Returns whether there are any.
    fn set(&mut self, on: M, all: Vec<C>) -> bool {
        let all = Claimants::new(all);
        let is_claimed = all.is_some();
        match all {
            Some(all) => self.0.insert(on, all),
            None => self.0.remove(&on),
        };
        is_claimed
    }
}
