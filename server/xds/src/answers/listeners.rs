//! LDS for sidecars: listeners, joined from the parts of all services that ask for them.
//!
//! Each match within a listener keeps all its claimants in order of precedence; the first serves.
//! Services that want a port's route table want the same thing, so that most changes leave the
//! listener as it is: its version says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use tributary_answer::{Listener, ListenerPlan, Match, Serves, differing, listener, listener_name};
use tributary_model::{
    Catalog, EncodedResource, Hostname, ListenerInputs, PortNumber, PortView, Resolution, ResourceInputs,
};

use super::ResourceType;
use super::fold::{self, Fold, moved};
use super::singles::ports;
use crate::encode;

/// Which listener.
type Place = (IpAddr, u16);

/// The listeners of one class in one generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listeners {
    tables: OrdMap<Place, Arc<Table>>,
}

#[derive(Debug, Clone, Default)]
struct Table {
    binds: bool,
    claims: OrdMap<Match, Arc<Vec<Claim>>>,
    resource: Option<(Plan, Arc<EncodedResource>)>,
}

/// What a listener is encoded from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    listener: Listener,
    /// Behind which matches the proxy itself resolves the names of requests.
    forwards: BTreeSet<Match>,
}

/// What one port of one service wants of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    host: Hostname,
    port: PortNumber,
    serves: Serves,
    /// The proxy itself resolves the names of requests.
    forward: bool,
}

/// What is taken from and given to the matches of one listener.
#[derive(Debug, Default)]
struct Touch {
    binds: bool,
    gone: BTreeMap<Match, Vec<Claim>>,
    come: BTreeMap<Match, Vec<Claim>>,
}

impl Listeners {
    /// The listeners of a generation, from those of another; `None` where nothing touched them.
    pub(crate) fn advance(&self, fold: Fold<'_>, from: &Catalog) -> Option<Self> {
        let touched = touched(from, fold);
        if touched.is_empty() {
            return None;
        }
        let mut tables = self.tables.clone();
        for (place, touch) in touched {
            let mut table = tables.get(&place).map_or_else(Table::default, |table| (**table).clone());
            table.apply(fold, place, touch);
            if table.claims.is_empty() {
                tables.remove(&place);
            } else {
                tables.insert(place, Arc::new(table));
            }
        }
        Some(Self { tables })
    }
    /// Every listener, by place.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<EncodedResource>> {
        self.tables.values().filter_map(|table| table.resource.as_ref()).map(|(_, resource)| resource)
    }
    /// The body of a listener, encoded once more.
    pub(crate) fn body(&self, fold: Fold<'_>, name: &str) -> Option<Vec<u8>> {
        let (ip, port) = name.rsplit_once('_')?;
        let table = self.tables.get(&(ip.parse().ok()?, port.parse().ok()?))?;
        table.resource.as_ref().map(|(plan, _)| plan.body(fold))
    }
}

/// The names of the listeners that may differ between two generations.
pub(crate) fn touched_names(from: &Catalog, fold: Fold<'_>) -> BTreeSet<String> {
    touched(from, fold).into_keys().map(|(ip, port)| listener_name(ip, port)).collect()
}

fn touched(from: &Catalog, fold: Fold<'_>) -> BTreeMap<Place, Touch> {
    let mut out: BTreeMap<Place, Touch> = BTreeMap::new();
    for difference in differing(from, fold.catalog, fold.class.namespace.as_ref()) {
        let moved = moved(&difference);
        for (_, before, after) in ports(&difference) {
            if !moved && before.zip(after).is_some_and(|(a, b)| a.listener == b.listener) {
                continue;
            }
            for (plan, claim) in claims(fold, before) {
                let touch = out.entry((plan.bind, plan.port)).or_default();
                touch.gone.entry(plan.matches).or_default().push(claim);
            }
            for (plan, claim) in claims(fold, after) {
                let touch = out.entry((plan.bind, plan.port)).or_default();
                touch.binds = plan.binds;
                touch.come.entry(plan.matches).or_default().push(claim);
            }
        }
    }
    out
}

fn claims<'a>(
    fold: Fold<'a>,
    port: Option<&'a PortView>,
) -> impl Iterator<Item = (ListenerPlan, Claim)> + 'a {
    let plans = port.map(|port| (plans(fold, &port.listener), &port.listener.inputs));
    plans.into_iter().flat_map(|(plans, facts)| {
        plans.into_iter().map(|plan| {
            let claim = Claim {
                host: facts.service.host.clone(),
                port: facts.port,
                serves: plan.serves.clone(),
                forward: facts.resolution == Resolution::Dynamic,
            };
            (plan, claim)
        })
    })
}

fn plans(fold: Fold<'_>, facet: &ResourceInputs<ListenerInputs>) -> Vec<ListenerPlan> {
    listener(&facet.inputs, &fold.class.project(facet.dimensions), &mut ())
}

impl Table {
    fn apply(&mut self, fold: Fold<'_>, place: Place, touch: Touch) {
        self.binds |= touch.binds;
        for (matches, gone) in touch.gone {
            let kept = self.claims.get(&matches).map_or_else(Vec::new, |claims| without(claims, &gone));
            self.keep(matches, kept);
        }
        for (matches, come) in touch.come {
            let claims = self.claims.get(&matches).map_or_else(Vec::new, |claims| claims.to_vec());
            self.keep(matches, merged(fold, claims, come));
        }
        if !self.claims.is_empty() {
            self.encode(fold, place);
        }
    }
    fn keep(&mut self, matches: Match, claims: Vec<Claim>) {
        if claims.is_empty() {
            self.claims.remove(&matches);
        } else {
            self.claims.insert(matches, Arc::new(claims));
        }
    }
    /// The listener as a resource; the one before where nothing differs.
    fn encode(&mut self, fold: Fold<'_>, place: Place) {
        let plan = self.plan(place);
        if self.resource.as_ref().is_some_and(|(now, _)| *now == plan) {
            return;
        }
        let resource = fold.store.keep(ResourceType::Listener, (plan.listener.name.clone(), plan.body(fold)));
        self.resource = Some((plan, resource));
    }
    fn plan(&self, (bind, port): Place) -> Plan {
        let serving =
            |(m, claims): (&Match, &Arc<Vec<Claim>>)| Some((m.clone(), claims.first()?.serves.clone()));
        let name = listener_name(bind, port);
        let parts = self.claims.iter().filter_map(serving).collect();
        Plan { listener: Listener { name, bind, port, binds: self.binds, parts }, forwards: self.forwards() }
    }
    /// A port's route table has the hosts of all who want it; other parts serve the first claim only.
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
        encode::listener::listener(&self.listener, &self.forwards, fold.unclaimed())
    }
}

/// Claims without those that are gone, each taken away once.
fn without(claims: &[Claim], gone: &[Claim]) -> Vec<Claim> {
    let mut gone: Vec<&Claim> = gone.iter().collect();
    let keep = |claim: &&Claim| match gone.iter().position(|g| g == claim) {
        Some(at) => {
            gone.swap_remove(at);
            false
        }
        None => true,
    };
    claims.iter().filter(keep).cloned().collect()
}

/// Claims in order of precedence, then of port. Few are put where they belong; many are sorted in.
fn merged(fold: Fold<'_>, mut claims: Vec<Claim>, come: Vec<Claim>) -> Vec<Claim> {
    if come.len() * 16 < claims.len() {
        for claim in come {
            let precedes =
                |other: &Claim| fold.order(&other.host, &claim.host).then(other.port.cmp(&claim.port));
            let at = claims.partition_point(|other| precedes(other).is_le());
            claims.insert(at, claim);
        }
        return claims;
    }
    let mut all: Vec<_> =
        claims.into_iter().chain(come).map(|claim| (fold.view(&claim.host), claim)).collect();
    all.sort_by(|(view_a, a), (view_b, b)| {
        fold::order(&a.host, *view_a, &b.host, *view_b).then(a.port.cmp(&b.port))
    });
    all.into_iter().map(|(_, claim)| claim).collect()
}
