//! Who gets which address: a function of what all entries say.
//!
//! First every entry keeps what it has, the older before the younger, unless somebody else's `spec`
//! names it or another host has it. Then each host without an address is given the one that it has in
//! another entry, or the next free one. Nothing here can fail for an entry that has vanished, because
//! nothing is remembered of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_kube_client::ObjectName;
use tributary_model::{Code, Problem};

use super::address_claim::AddressClaim;
use super::range::{Range, Ranges};

/// What is to be written into one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// Which.
    pub(crate) name: ObjectName,
    /// What it was when this was planned.
    pub(crate) was: Arc<AddressClaim>,
    /// Its addresses from now on; none where it is no longer eligible.
    pub(crate) addresses: Vec<(Arc<str>, IpAddr)>,
}

impl Write {
    /// Its addresses from now on, for people.
    pub(crate) fn gives(&self) -> String {
        listed(self.addresses.iter().map(|(host, ip)| format!("{host} {ip}")))
    }
    /// Those that it had.
    pub(crate) fn was_given(&self) -> String {
        listed(self.was.given.iter().map(|(host, value)| format!("{host} {value}")))
    }
}

/// So many are told of one entry.
const TOLD: usize = 16;

fn listed(mut all: impl Iterator<Item = String>) -> String {
    let told: Vec<String> = all.by_ref().take(TOLD).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", told.join(", "))
}

/// Where the search for a free address goes on, by family.
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

/// An entry as a plan sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) claim: &'a Arc<AddressClaim>,
    /// What is being written into it, which is not to be written again and not to be given away.
    pub(crate) flying: Option<&'a [(Arc<str>, IpAddr)]>,
    /// Whether it is not to be written now; it keeps what it has.
    pub(crate) held: bool,
}

/// What a plan comes to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// At most as many as were asked for.
    pub(crate) writes: Vec<Write>,
    /// Entries that cannot be given all that they need, as far as was looked.
    pub(crate) short: BTreeMap<ObjectName, Problem>,
    /// Whether all entries were looked at.
    pub(crate) whole: bool,
}

/// Plans up to so many writes.
pub(crate) fn plan<'a>(
    parties: impl Iterator<Item = Party<'a>>,
    ranges: &Ranges,
    cursors: &mut Cursors,
    room: usize,
) -> Plan {
    let mut parties: Vec<Party<'_>> = parties.collect();
    parties.sort_by_key(|party| (party.claim.created.is_none(), party.claim.created, party.name));
    let mut pool = Pool::new(&parties, ranges);
    let kept: Vec<_> = parties.iter().map(|party| pool.keep(party)).collect();
    let mut plan = Plan { whole: true, ..Plan::default() };
    for (party, kept) in parties.iter().zip(kept) {
        if !party.claim.ours || party.flying.is_some() || party.held {
            continue;
        }
        if plan.writes.len() >= room {
            plan.whole = false;
            break;
        }
        pool.serve(party, &kept, ranges, cursors, &mut plan);
    }
    plan
}

/// What an entry keeps: host and family to address.
type Kept = BTreeMap<(Arc<str>, bool), IpAddr>;

/// Who has which address.
struct Pool {
    /// Addresses in use, each by one host.
    owners: BTreeMap<IpAddr, Arc<str>>,
    /// Addresses that still stand in an object and belong to nobody; free when they are gone from it.
    reserved: BTreeSet<IpAddr>,
    /// What a `spec` names.
    specified: Vec<IpNet>,
    /// The first address of a host by family, for its other entries.
    shared: Kept,
    /// Families of which nothing is left.
    full: Vec<Range>,
}

impl Pool {
    fn new(parties: &[Party<'_>], ranges: &Ranges) -> Self {
        let named = parties.iter().flat_map(|party| &party.claim.specified);
        // A network that holds a whole range takes what comes by, and means no address of it.
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
        // aggregated, so sorted by network and without overlap: only the last that begins before it can hold it
        let behind = self.specified.partition_point(|net| net.network() <= ip);
        self.specified.get(..behind)?.last().filter(|net| net.contains(&ip))
    }

    /// Takes in what an entry has; what of it the entry keeps.
    fn keep(&mut self, party: &Party<'_>) -> Kept {
        let mut kept = Kept::new();
        let claim = party.claim;
        let given: Vec<(Arc<str>, IpAddr)> = claim.addresses().collect();
        if let Some(flying) = party.flying {
            self.reserved.extend(given.iter().map(|(_, ip)| *ip));
            flying.iter().for_each(|(host, ip)| self.claim(host, *ip, &mut kept));
            return kept;
        }
        let hosts: BTreeSet<&Arc<str>> = claim.hosts.iter().collect();
        for (host, ip) in given {
            if claim.ours && !hosts.contains(&host) {
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

    /// Plans the write of one entry, where it needs one.
    fn serve(
        &mut self,
        party: &Party<'_>,
        kept: &Kept,
        ranges: &Ranges,
        cursors: &mut Cursors,
        plan: &mut Plan,
    ) {
        let mut addresses = Vec::new();
        for host in &party.claim.hosts {
            for v4 in [true, false] {
                let range = if v4 { ranges.v4 } else { ranges.v6 };
                let found = kept.get(&(host.clone(), v4)).copied();
                match (found, range) {
                    (Some(ip), _) => addresses.push((host.clone(), ip)),
                    (None, Some(range)) => match self.give(host, &range, cursors) {
                        Some(ip) => addresses.push((host.clone(), ip)),
                        None => drop(plan.short.insert(party.name.clone(), exhausted(&range, host))),
                    },
                    (None, None) => {}
                }
            }
        }
        if !stands(party.claim, &addresses) {
            plan.writes.push(Write { name: party.name.clone(), was: party.claim.clone(), addresses });
        }
    }

    /// The host's address in another entry, else the next free one.
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

    /// Up to which address all are taken from this one.
    fn taken(&self, ip: IpAddr) -> Option<IpAddr> {
        if let Some(net) = self.specified(ip) {
            return Some(net.broadcast());
        }
        (self.owners.contains_key(&ip) || self.reserved.contains(&ip)).then_some(ip)
    }
}

/// Whether these very addresses stand in the object, in whatever order.
fn stands(claim: &AddressClaim, addresses: &[(Arc<str>, IpAddr)]) -> bool {
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
