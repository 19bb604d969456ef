//! Assigns addresses: a pure function of the claims of all entries.
//!
//! First every entry keeps its addresses, older entries before younger ones, unless the `spec` of a
//! different entry names the address or a different host has it. Then each host without an address
//! receives the address that it has in a different entry, or the next free one. The plan keeps no
//! memory of removed entries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_kube_client::ObjectName;
use tributary_model::{Code, Problem};

use super::address_claim::AddressClaim;
use super::range::{Range, Ranges};

/// A planned write of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// The entry's name.
    pub(crate) name: ObjectName,
    /// The claim from which the write was planned.
    pub(crate) was: Arc<AddressClaim>,
    /// The new addresses; empty if the entry is not eligible.
    pub(crate) addresses: Vec<(Arc<str>, IpAddr)>,
}

impl Write {
    /// Formats the new addresses for a log line.
    pub(crate) fn new_addresses(&self) -> String {
        listed(self.addresses.iter().map(|(host, ip)| format!("{host} {ip}")))
    }
    /// Formats the previous addresses for a log line.
    pub(crate) fn old_addresses(&self) -> String {
        listed(self.was.given.iter().map(|(host, value)| format!("{host} {value}")))
    }
}

/// Maximum number of addresses in a log line.
const SHOWN: usize = 16;

fn listed(mut all: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = all.by_ref().take(SHOWN).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The last address given from each range; the search for a free address continues after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursors {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl Cursors {
    fn of(&mut self, range: &Range) -> &mut Option<IpAddr> {
        if range.is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }
}

/// An entry as input of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) claim: &'a Arc<AddressClaim>,
    /// Addresses of a write in flight; they are neither written again nor given away.
    pub(crate) in_flight: Option<&'a [(Arc<str>, IpAddr)]>,
    /// Whether it must not be written now; it keeps its addresses.
    pub(crate) held: bool,
}

/// The result of planning.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Planned writes, at most the requested number.
    pub(crate) writes: Vec<Write>,
    /// Entries that cannot receive all addresses, among those visited.
    pub(crate) short: BTreeMap<ObjectName, Problem>,
    /// Whether all entries were visited.
    pub(crate) whole: bool,
}

/// Plans at most `room` writes.
pub(crate) fn plan<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    ranges: &Ranges,
    cursors: &mut Cursors,
    room: usize,
) -> Plan {
    let mut candidates: Vec<Candidate<'_>> = candidates.collect();
    candidates.sort_by_key(|candidate| {
        (candidate.claim.created.is_none(), candidate.claim.created, candidate.name)
    });
    let mut pool = Pool::new(&candidates, ranges);
    let kept: Vec<_> = candidates.iter().map(|candidate| pool.keep(candidate)).collect();
    let mut plan = Plan { whole: true, ..Plan::default() };
    for (candidate, kept) in candidates.iter().zip(kept) {
        if !candidate.claim.writable || candidate.in_flight.is_some() || candidate.held {
            continue;
        }
        if plan.writes.len() >= room {
            plan.whole = false;
            break;
        }
        pool.serve(candidate, &kept, ranges, cursors, &mut plan);
    }
    plan
}

/// The addresses that an entry keeps: host and family to address.
type Kept = BTreeMap<(Arc<str>, bool), IpAddr>;

/// The assignment of addresses to hosts.
struct Pool {
    /// Addresses in use, each by one host.
    owners: BTreeMap<IpAddr, Arc<str>>,
    /// Addresses without an owner that an object still names; free once the object no longer names them.
    reserved: BTreeSet<IpAddr>,
    /// Networks that a `spec` names.
    specified: Vec<IpNet>,
    /// The first address of a host by family, shared by its other entries.
    shared: Kept,
    /// Ranges without a free address.
    full: Vec<Range>,
}

impl Pool {
    fn new(candidates: &[Candidate<'_>], ranges: &Ranges) -> Self {
        let named = candidates.iter().flat_map(|candidate| &candidate.claim.specified);
        // A network that contains a whole range (such as a default route) does not claim its addresses.
        let near = |net: &&IpNet| !ranges.all().any(|range| range.lies_in(net));
        Self {
            owners: BTreeMap::new(),
            reserved: BTreeSet::new(),
            specified: IpNet::aggregate(&named.filter(near).copied().collect()),
            shared: Kept::new(),
            full: Vec::new(),
        }
    }

    fn specified(&self, ip: IpAddr) -> Option<&IpNet> {
        // Aggregated networks are sorted and disjoint: only the last that begins at or before `ip` can contain it.
        let behind = self.specified.partition_point(|net| net.network() <= ip);
        self.specified.get(..behind)?.last().filter(|net| net.contains(&ip))
    }

    /// Registers an entry's addresses; returns those that it keeps.
    fn keep(&mut self, candidate: &Candidate<'_>) -> Kept {
        let mut kept = Kept::new();
        let claim = candidate.claim;
        let given: Vec<(Arc<str>, IpAddr)> = claim.addresses().collect();
        if let Some(in_flight) = candidate.in_flight {
            self.reserved.extend(given.iter().map(|(_, ip)| *ip));
            in_flight.iter().for_each(|(host, ip)| self.claim(host, *ip, &mut kept));
            return kept;
        }
        let hosts: BTreeSet<&Arc<str>> = claim.hosts.iter().collect();
        for (host, ip) in given {
            if claim.writable && !hosts.contains(&host) {
                self.reserved.insert(ip);
            } else {
                self.claim(&host, ip, &mut kept);
            }
        }
        kept
    }

    fn claim(&mut self, host: &Arc<str>, ip: IpAddr, kept: &mut Kept) {
        if self.specified(ip).is_some() || self.owners.get(&ip).is_some_and(|owner| owner != host) {
            return;
        }
        let slot = (host.clone(), ip.is_ipv4());
        if *kept.entry(slot.clone()).or_insert(ip) != ip {
            self.reserved.insert(ip);
            return;
        }
        self.owners.insert(ip, host.clone());
        self.shared.entry(slot).or_insert(ip);
    }

    /// Plans the write of one entry, if it needs one.
    fn serve(
        &mut self,
        candidate: &Candidate<'_>,
        kept: &Kept,
        ranges: &Ranges,
        cursors: &mut Cursors,
        plan: &mut Plan,
    ) {
        let mut addresses = Vec::new();
        for host in &candidate.claim.hosts {
            for v4 in [true, false] {
                let range = if v4 { ranges.v4 } else { ranges.v6 };
                let found = kept.get(&(host.clone(), v4)).copied();
                match (found, range) {
                    (Some(ip), _) => addresses.push((host.clone(), ip)),
                    (None, Some(range)) => match self.give(host, &range, cursors) {
                        Some(ip) => addresses.push((host.clone(), ip)),
                        None => drop(plan.short.insert(candidate.name.clone(), exhausted(&range, host))),
                    },
                    (None, None) => {}
                }
            }
        }
        if !is_current(candidate.claim, &addresses) {
            plan.writes.push(Write { name: candidate.name.clone(), was: candidate.claim.clone(), addresses });
        }
    }

    /// Returns the host's address in a different entry, or the next free one.
    fn give(&mut self, host: &Arc<str>, range: &Range, cursors: &mut Cursors) -> Option<IpAddr> {
        let slot = (host.clone(), range.is_ipv4());
        if let Some(ip) = self.shared.get(&slot) {
            return Some(*ip);
        }
        if self.full.contains(range) {
            return None;
        }
        let cursor = cursors.of(range);
        let Some(ip) = range.next_free(*cursor, |ip| self.taken(ip)) else {
            self.full.push(*range);
            return None;
        };
        *cursor = Some(ip);
        self.owners.insert(ip, host.clone());
        self.shared.insert(slot, ip);
        Some(ip)
    }

    /// Returns the last address of the occupied block that contains `ip`, or `None` if `ip` is free.
    fn taken(&self, ip: IpAddr) -> Option<IpAddr> {
        if let Some(net) = self.specified(ip) {
            return Some(net.broadcast());
        }
        (self.owners.contains_key(&ip) || self.reserved.contains(&ip)).then_some(ip)
    }
}

/// Whether the object names exactly these addresses, in any order.
fn is_current(claim: &AddressClaim, addresses: &[(Arc<str>, IpAddr)]) -> bool {
    let mut given: Vec<(Arc<str>, IpAddr)> = claim.addresses().collect();
    let mut wanted = addresses.to_vec();
    given.sort();
    wanted.sort();
    given.len() == claim.given.len() && given == wanted
}

fn exhausted(range: &Range, host: &str) -> Problem {
    let message = format!(
        "no address of {range} is left for host {host}; configure a larger range, or delete entries that are not needed"
    );
    Problem { code: Code::ADDRESSES_EXHAUSTED, message: message.into() }
}

#[cfg(test)]
mod tests;
