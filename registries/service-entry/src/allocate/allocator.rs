//! The state of allocation: the claims of the entries and the writes in flight.
//!
//! The source passes every event of the watch in; the writer requests plans. A write in flight counts
//! as applied until the object appears in a different version: then the object itself shows the
//! result. A failed write counts as never planned.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_kube_client::ObjectName;
use tributary_model::Problem;

use super::address_claim::AddressClaim;
use super::plan::{Candidate, Cursors, Plan, Write, plan};
use super::range::Ranges;

/// Allocated addresses and addresses being written.
#[derive(Debug)]
pub(crate) struct Allocator {
    ranges: Ranges,
    claims: BTreeMap<ObjectName, Arc<AddressClaim>>,
    in_flight: BTreeMap<ObjectName, InFlight>,
    /// Entries that could not be written, with the version of the failed write.
    refused: BTreeMap<ObjectName, (Arc<str>, Option<Problem>)>,
    /// Entries for which no address is left.
    short: BTreeMap<ObjectName, Problem>,
    cursors: Cursors,
}

/// A write in flight.
#[derive(Debug)]
struct InFlight {
    version: Arc<str>,
    addresses: Vec<(Arc<str>, IpAddr)>,
}

impl Allocator {
    pub(crate) fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            claims: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            refused: BTreeMap::new(),
            short: BTreeMap::new(),
            cursors: Cursors::default(),
        }
    }
    /// Sets an entry's claim (`None`: the entry was removed). Returns whether a new plan may be needed.
    pub(crate) fn claim(&mut self, name: &ObjectName, claim: Option<AddressClaim>) -> bool {
        let Some(claim) = claim else {
            self.in_flight.remove(name);
            self.refused.remove(name);
            self.short.remove(name);
            return self.claims.remove(name).is_some();
        };
        if self.claims.get(name).is_some_and(|known| **known == claim) {
            return false;
        }
        self.in_flight.retain(|in_flight, write| in_flight != name || write.version == claim.version);
        self.refused.retain(|refused, (version, _)| refused != name || *version == claim.version);
        self.claims.insert(name.clone(), Arc::new(claim));
        true
    }
    /// Plans writes so that at most `at_most` are in flight, and marks them as in flight.
    pub(crate) fn plan(&mut self, at_most: usize) -> Vec<Write> {
        let room = at_most.saturating_sub(self.in_flight.len());
        let candidates = self.claims.iter().map(|(name, claim)| Candidate {
            name,
            claim,
            in_flight: self.in_flight.get(name).map(|write| &*write.addresses),
            held: self.refused.contains_key(name),
        });
        let Plan { writes, short, whole } = plan(candidates, &self.ranges, &mut self.cursors, room);
        if whole {
            self.short = short;
        } else {
            self.short.extend(short);
        }
        for Write { name, was, addresses } in &writes {
            let write = InFlight { version: was.version.clone(), addresses: addresses.clone() };
            self.in_flight.insert(name.clone(), write);
        }
        writes
    }
    /// Records a failed write: its addresses are free, and the entry is not written again in this
    /// version before [`Allocator::retry`]. An overtaken write has no problem.
    pub(crate) fn failed(&mut self, write: &Write, problem: Option<Problem>) {
        self.in_flight
            .retain(|name, in_flight| *name != write.name || in_flight.version != write.was.version);
        let now = self.claims.get(&write.name);
        if now.is_some_and(|claim| claim.version == write.was.version) {
            self.refused.insert(write.name.clone(), (write.was.version.clone(), problem));
        }
    }
    /// Allows failed writes to be retried.
    pub(crate) fn retry(&mut self) {
        self.refused.clear();
    }
    /// Hands writing over to a different replica; writes in flight either show in the objects or were not made.
    pub(crate) fn resign(&mut self) {
        self.in_flight.clear();
        self.refused.clear();
        self.short.clear();
    }
    /// The entries with a problem.
    pub(crate) fn problems(&self) -> BTreeMap<&ObjectName, &Problem> {
        let refused = self.refused.iter().filter_map(|(name, (_, problem))| Some((name, problem.as_ref()?)));
        self.short.iter().chain(refused).collect()
    }
}

#[cfg(test)]
mod tests;
