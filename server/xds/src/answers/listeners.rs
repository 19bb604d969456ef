//! LDS for sidecars: listeners, joined from the parts of all services that claim them.
//!
//! Services claim the matches within a listener; the first claimant of a match serves it. Services that claim a
//! port's route table claim the same part, so most changes leave the listener and its version unchanged.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use imbl::OrdMap;
use tributary_answer::vip::ListenAddress;
use tributary_answer::{Listener, ListenerPlan, Match, PortSet, Serves, key, listener_name, scoped_listener};
use tributary_model::{
    EncodedResource, Hostname, ListenerInputs, PortNumber, PortView, Resolution, ResourceInputs, Shared,
};

use super::claims::{ClaimOrder, Claims};
use super::fold::{self, Fold, Start, moved};
use super::singles::ports;
use super::tables::{TableChanges, table_changes};
use super::{ClientClassKey, ResourceType};
use crate::encode;

/// Address and port of a listener.
type ListenerAddress = (IpAddr, u16);

/// The listeners of one class in one generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listeners {
    tables: OrdMap<ListenerAddress, Shared<Table>>,
}

#[derive(Debug, Clone, Default)]
struct Table {
    additional: Option<Ipv6Addr>,
    binds: bool,
    claims: Claims<Match, Claim>,
    resource: Option<(Plan, Arc<EncodedResource>)>,
}

/// Everything that a listener is encoded from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    listener: Listener,
    /// Matches for which the proxy itself resolves the host names of requests.
    forwards: BTreeSet<Match>,
}

/// What one service port claims in a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    host: Hostname,
    port: PortNumber,
    serves: Serves,
    /// Whether the proxy itself resolves the host names of requests.
    forward: bool,
}

/// Claims removed from and added to the matches of one listener.
#[derive(Debug, Default)]
struct ClaimChanges {
    additional: Option<Ipv6Addr>,
    binds: bool,
    removed: BTreeMap<Match, BTreeSet<Claim>>,
    added: BTreeMap<Match, Vec<Claim>>,
}

impl Listeners {
    /// Computes the listeners at the end of a fold from those at its start; `None` if they are unchanged.
    pub(crate) fn advance(&self, fold: Fold<'_>, start: Start<'_>) -> Option<Self> {
        let touched = touched(start, fold);
        if touched.is_empty() {
            return None;
        }
        let mut tables = self.tables.clone();
        for (address, changes) in touched {
            let mut table = tables.get(&address).map_or_else(Table::default, |table| Table::clone(table));
            table.apply(fold, address, changes);
            if table.claims.is_empty() {
                tables.remove(&address);
            } else {
                tables.insert(address, Shared::new(table));
            }
        }
        Some(Self { tables })
    }
    /// Returns every listener, by address and port.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<EncodedResource>> {
        self.tables.values().filter_map(|table| table.resource.as_ref()).map(|(_, resource)| resource)
    }
    /// Returns the listeners that differ from those of another table, and the names of those that only the other has.
    pub(crate) fn differing<'a>(&'a self, from: &'a Self) -> TableChanges<'a> {
        let resource = |table: &'a Shared<Table>| table.resource.as_ref().map(|(_, resource)| resource);
        table_changes(&from.tables, &self.tables, resource)
    }
    /// Encodes the body of a listener again.
    pub(crate) fn body(&self, fold: Fold<'_>, name: &str) -> Option<Vec<u8>> {
        let (ip, port) = name.rsplit_once('_')?;
        let table = self.tables.get(&(ip.parse().ok()?, port.parse().ok()?))?;
        table.resource.as_ref().map(|(plan, _)| plan.body(fold))
    }
}

/// Returns the names of the listeners that may differ between two generations.
pub(crate) fn touched_names(start: Start<'_>, fold: Fold<'_>) -> BTreeSet<String> {
    touched(start, fold).into_keys().map(|(ip, port)| listener_name(ip, port)).collect()
}

fn touched<'a>(start: Start<'a>, fold: Fold<'a>) -> BTreeMap<ListenerAddress, ClaimChanges> {
    let mut out: BTreeMap<ListenerAddress, ClaimChanges> = BTreeMap::new();
    for difference in start.differences(fold) {
        let moved = moved(&difference);
        for (_, before, after) in ports(&difference, fold.scope(), PortSet::Imported) {
            let same = before.zip(after).is_some_and(|(a, b)| a.listener == b.listener);
            if !moved && same && start.is_same_class() {
                continue;
            }
            let (before, mut after): (BTreeSet<_>, BTreeSet<_>) =
                (claims(start.class, before).collect(), claims(fold.class, after).collect());
            for (plan, claim) in before {
                // A port has a claim for each endpoint; only those of changed endpoints touch listeners.
                let claim = (plan, claim);
                if !moved && after.remove(&claim) {
                    continue;
                }
                let (plan, claim) = claim;
                let changes = out.entry((plan.bind.ip, plan.port)).or_default();
                changes.removed.entry(plan.matches).or_default().insert(claim);
            }
            for (plan, claim) in after {
                let changes = out.entry((plan.bind.ip, plan.port)).or_default();
                (changes.additional, changes.binds) = (plan.bind.additional, plan.binds);
                changes.added.entry(plan.matches).or_default().push(claim);
            }
        }
    }
    out
}

fn claims<'a>(
    class: &'a ClientClassKey,
    port: Option<&'a PortView>,
) -> impl Iterator<Item = (ListenerPlan, Claim)> + 'a {
    let plans = port.map(|port| (plans(class, &port.listener), &port.listener.inputs));
    plans.into_iter().flat_map(|(plans, inputs)| {
        plans.into_iter().map(|plan| {
            let claim = Claim {
                host: inputs.service.host.clone(),
                port: inputs.port,
                serves: plan.serves.clone(),
                forward: inputs.resolution == Resolution::Dynamic && leads_to(&plan, &inputs.service.host),
            };
            (plan, claim)
        })
    })
}

/// Whether a part leads to a host itself, or through the route table of its port.
fn leads_to(plan: &ListenerPlan, host: &Hostname) -> bool {
    match &plan.serves {
        Serves::Routes => true,
        Serves::Http(cluster, _) | Serves::Cluster(cluster, _) => cluster.host == *host,
        Serves::Weighted(..) => false,
    }
}

fn plans(class: &ClientClassKey, node: &ResourceInputs<ListenerInputs>) -> Vec<ListenerPlan> {
    scoped_listener(&node.inputs, &key(node, class), class.scope(), &mut ())
}

impl Table {
    fn apply(&mut self, fold: Fold<'_>, address: ListenerAddress, changes: ClaimChanges) {
        self.additional = self.additional.or(changes.additional);
        self.binds |= changes.binds;
        for (matches, removed) in changes.removed {
            self.claims.remove(&matches, |claim| removed.contains(claim));
        }
        for (matches, added) in changes.added {
            self.claims.add_all(matches, added, &Precedence(fold));
        }
        if !self.claims.is_empty() {
            self.encode(fold, address);
        }
    }
    /// Encodes the listener; keeps the previous resource if the plan is unchanged.
    fn encode(&mut self, fold: Fold<'_>, address: ListenerAddress) {
        let plan = self.plan(address);
        if self.resource.as_ref().is_some_and(|(now, _)| *now == plan) {
            return;
        }
        let resource = fold.store.keep(ResourceType::Listener, (plan.listener.name.clone(), plan.body(fold)));
        self.resource = Some((plan, resource));
    }
    fn plan(&self, (ip, port): ListenerAddress) -> Plan {
        let serving = |(m, claims): (&Match, &[Claim])| Some((m.clone(), claims.first()?.serves.clone()));
        let (name, bind) = (listener_name(ip, port), ListenAddress { ip, additional: self.additional });
        let parts = self.claims.iter().filter_map(serving).collect();
        Plan { listener: Listener { name, bind, port, binds: self.binds, parts }, forwards: self.forwards() }
    }
    /// A port's route table has the hosts of all claimants; other parts serve the first claim only.
    fn forwards(&self) -> BTreeSet<Match> {
        let forwards = |claims: &[Claim]| {
            let routed = claims.first().is_some_and(|first| first.serves == Serves::Routes);
            claims.iter().take(if routed { claims.len() } else { 1 }).any(|claim| claim.forward)
        };
        self.claims.iter().filter(|(_, claims)| forwards(claims)).map(|(m, _)| m.clone()).collect()
    }
}

impl Plan {
    fn body(&self, fold: Fold<'_>) -> Vec<u8> {
        encode::listener::listener(&self.listener, &self.forwards, &fold.listener_defaults())
    }
}

/// Order of precedence of the services, then of their ports.
struct Precedence<'a>(Fold<'a>);

impl ClaimOrder<Claim> for Precedence<'_> {
    fn compare(&self, a: &Claim, b: &Claim) -> Ordering {
        self.0.order(&a.host, &b.host).then(a.port.cmp(&b.port))
    }
    fn sort(&self, all: &mut Vec<Claim>) {
        let mut ranked: Vec<_> = all.drain(..).map(|claim| (self.0.view(&claim.host), claim)).collect();
        ranked.sort_by(|(view_a, a), (view_b, b)| {
            fold::order(&a.host, *view_a, &b.host, *view_b).then(a.port.cmp(&b.port))
        });
        all.extend(ranked.into_iter().map(|(_, claim)| claim));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn connections_that_a_route_leads_elsewhere_are_not_resolved_by_the_proxy() {
        let cluster = |name: &str| name.parse().unwrap();
        let host = Hostname::new("*.wild.test").unwrap();
        let leads = |serves| {
            let (bind, matches) = (ListenAddress::only(IpAddr::from([0; 4])), Match::default());
            leads_to(&ListenerPlan { bind, port: 443, binds: false, matches, serves, rule: None }, &host)
        };
        assert!(leads(Serves::Routes) && leads(Serves::Cluster(cluster("outbound|443||*.wild.test"), None)));
        assert!(!leads(Serves::Cluster(cluster("outbound|443||b.test"), None)));
        assert!(!leads(Serves::Weighted([(cluster("outbound|443||*.wild.test"), 1)].into(), None)));
    }
}
