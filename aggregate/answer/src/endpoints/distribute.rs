//! Shares of localities that a rule sets for the clients of one place (`docs/reference/destination-rule.md`).
//!
//! `assemble` calls it. The first entry for the client's place applies. Without one, localities keep their weights. A
//! locality without a share keeps its place in the assignment, empty: its endpoints stay out of health counts, too.

use tributary_model::{Distribution, Locality, Preference, Projection};

use super::LocalityEndpoints;

/// Shares for the clients of one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares<'a>(&'a Distribution);

impl<'a> Shares<'a> {
    /// Returns the shares that apply to a client; `None` if none do.
    pub(super) fn of(preference: Preference<'a>, client: &Projection) -> Option<Self> {
        let Preference::Distribute(all) = preference else { return None };
        let unknown = Locality::default();
        let own = client.locality.as_ref().unwrap_or(&unknown);
        all.iter().find(|entry| own.matches(&entry.from)).map(Self)
    }
    /// Whether a locality has a share.
    pub(super) fn include(self, locality: &Locality) -> bool {
        self.at(locality).is_some()
    }
    /// Returns the index of the share of a locality.
    fn at(self, locality: &Locality) -> Option<usize> {
        self.0.to.iter().position(|(place, _)| locality.matches(place))
    }
    /// Replaces the weights of localities. Those with one share divide it by their own weights, each rounded up, as in
    /// Istio; a priority is divided apart from the others.
    pub(super) fn apply(self, localities: &mut [LocalityEndpoints<'_>]) {
        for priority in localities.chunk_by_mut(|a, b| a.priority == b.priority) {
            let places: Vec<Option<usize>> = priority.iter().map(|l| self.at(&l.locality)).collect();
            let mut sums = vec![0_u64; self.0.to.len()];
            for (locality, at) in priority.iter().zip(&places) {
                if let Some(sum) = at.and_then(|at| sums.get_mut(at)) {
                    *sum += u64::from(locality.weight);
                }
            }
            for (locality, at) in priority.iter_mut().zip(&places) {
                let Some((share, sum)) = at.and_then(|at| Some((self.0.to.get(at)?.1, *sums.get(at)?)))
                else {
                    continue;
                };
                let weight = (u64::from(locality.weight) * u64::from(share)).div_ceil(sum.max(1));
                locality.weight = u32::try_from(weight).unwrap_or(u32::MAX).max(1);
            }
        }
    }
}
