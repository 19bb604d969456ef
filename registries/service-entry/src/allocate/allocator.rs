//! The state of allocation: what entries claim, and what is being written into them.
//!
//! Fed by the source with every word of the watch; asked by the writer what to write. A write that is
//! under way counts as if it had been made, until the object shows another version: then the object
//! itself says what came of it. A write that failed counts as if it had never been planned.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_kube_client::ObjectName;
use tributary_model::Problem;

use super::address_claim::AddressClaim;
use super::plan::{Cursors, Party, Plan, Write, plan};
use super::range::Ranges;

/// Who has and who is being given which address.
#[derive(Debug)]
pub(crate) struct Allocator {
    ranges: Ranges,
    claims: BTreeMap<ObjectName, Arc<AddressClaim>>,
    flying: BTreeMap<ObjectName, Flight>,
    /// Entries that could not be written, in this version of them.
    refused: BTreeMap<ObjectName, (Arc<str>, Option<Problem>)>,
    /// Entries for which nothing is left.
    short: BTreeMap<ObjectName, Problem>,
    cursors: Cursors,
}

/// A write under way.
#[derive(Debug)]
struct Flight {
    version: Arc<str>,
    addresses: Vec<(Arc<str>, IpAddr)>,
}

impl Allocator {
    pub(crate) fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            claims: BTreeMap::new(),
            flying: BTreeMap::new(),
            refused: BTreeMap::new(),
            short: BTreeMap::new(),
            cursors: Cursors::default(),
        }
    }
    /// An entry claims this now; nothing where it is gone. Whether there may be something to plan.
    pub(crate) fn claim(&mut self, name: &ObjectName, claim: Option<AddressClaim>) -> bool {
        let Some(claim) = claim else {
            self.flying.remove(name);
            self.refused.remove(name);
            self.short.remove(name);
            return self.claims.remove(name).is_some();
        };
        if self.claims.get(name).is_some_and(|known| **known == claim) {
            return false;
        }
        self.flying.retain(|flying, flight| flying != name || flight.version == claim.version);
        self.refused.retain(|refused, (version, _)| refused != name || *version == claim.version);
        self.claims.insert(name.clone(), Arc::new(claim));
        true
    }
    /// Plans as many writes as leave so many under way at most; they are under way from now on.
    pub(crate) fn plan(&mut self, at_most: usize) -> Vec<Write> {
        let room = at_most.saturating_sub(self.flying.len());
        let parties = self.claims.iter().map(|(name, claim)| Party {
            name,
            claim,
            flying: self.flying.get(name).map(|flight| &*flight.addresses),
            held: self.refused.contains_key(name),
        });
        let Plan { writes, short, whole } = plan(parties, &self.ranges, &mut self.cursors, room);
        if whole {
            self.short = short;
        } else {
            self.short.extend(short);
        }
        for Write { name, was, addresses } in &writes {
            let flight = Flight { version: was.version.clone(), addresses: addresses.clone() };
            self.flying.insert(name.clone(), flight);
        }
        writes
    }
    /// A write was not made: its addresses are free, and the entry is not written again in this
    /// version before [`Allocator::retry`]. One that was merely overtaken is no problem.
    pub(crate) fn failed(&mut self, write: &Write, problem: Option<Problem>) {
        self.flying.retain(|name, flight| *name != write.name || flight.version != write.was.version);
        let now = self.claims.get(&write.name);
        if now.is_some_and(|claim| claim.version == write.was.version) {
            self.refused.insert(write.name.clone(), (write.was.version.clone(), problem));
        }
    }
    /// What failed may be tried again.
    pub(crate) fn retry(&mut self) {
        self.refused.clear();
    }
    /// Another replica writes from now on; what was under way shows in the objects or was not made.
    pub(crate) fn resign(&mut self) {
        self.flying.clear();
        self.refused.clear();
        self.short.clear();
    }
    /// What is wrong with which entries.
    pub(crate) fn problems(&self) -> BTreeMap<&ObjectName, &Problem> {
        let refused = self.refused.iter().filter_map(|(name, (_, problem))| Some((name, problem.as_ref()?)));
        self.short.iter().chain(refused).collect()
    }
}

#[cfg(test)]
mod tests;
