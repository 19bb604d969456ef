//! RDS for sidecars: a port's route table, joined from the virtual hosts of all its services.
//!
//! A table is a persistent map of parts, so the next generation joins only the ports whose services
//! changed again and shares the rest. Every domain keeps all its claimants in order of precedence;
//! the first owns it. A host that is an alias of another service claims its domains itself, for that
//! service's part. The table's version is the hash over its parts' versions; its bytes are a list of runs
//! (`runs.rs`), each written when it is needed first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use smallvec::SmallVec;
use tributary_answer::{
    Difference, Surface, VirtualHostPlan, claim_order, concrete, key, route, route_table_name,
};
use tributary_model::{
    Catalog, EncodedResource, Hostname, PortNumber, PortView, ResourceInputs, RouteInputs, ServiceView,
    Shared, Version,
};

use super::fold::{Fold, Start, moved};
use super::runs::{Edits, PartId, Runs};
use super::singles::ports;
use super::tables::{TableChanges, table_changes};
use super::{BodyChunks, ClientClassKey, ResourceType};
use crate::encode::route::{table_head, table_tail, virtual_host};

/// The route tables of one class in one generation, by port.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    tables: OrdMap<PortNumber, Shared<Table>>,
}

#[derive(Debug, Clone, Default)]
struct Table {
    runs: Runs,
    /// The hosts that claim a domain, in order of precedence.
    owners: OrdMap<Arc<str>, SmallVec<[Hostname; 1]>>,
    /// Claiming hosts that are aliases, with the host whose part they use.
    led: OrdMap<Hostname, Hostname>,
    resource: Option<Arc<EncodedResource>>,
}

/// Inputs of a host on a port, before and after.
struct InputChange<'c> {
    host: &'c Hostname,
    before: Option<&'c ResourceInputs<RouteInputs>>,
    after: Option<&'c ResourceInputs<RouteInputs>>,
}

impl Routes {
    /// Computes the tables at the end of a fold from those at its start; `None` if they are unchanged.
    pub(crate) fn advance(&self, fold: Fold<'_>, start: Start<'_>) -> Option<Self> {
        let touched = touched(start, fold);
        if touched.is_empty() {
            return None;
        }
        let mut tables = self.tables.clone();
        for (number, changes) in touched {
            let mut table = tables.get(&number).map_or_else(Table::default, |table| Table::clone(table));
            let changes: Vec<InputChange<'_>> = changes.into_values().collect();
            table.apply(fold, start.class, number, &changes);
            if table.runs.is_empty() {
                tables.remove(&number);
            } else {
                tables.insert(number, Shared::new(table));
            }
        }
        Some(Self { tables })
    }
    /// Returns every table, by port.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<EncodedResource>> {
        self.tables.values().filter_map(|table| table.resource.as_ref())
    }
    /// Returns the tables that differ from those of another class, and the names of those that only the other has.
    pub(crate) fn differing<'a>(&'a self, from: &'a Self) -> TableChanges<'a> {
        table_changes(&from.tables, &self.tables, |table| table.resource.as_ref())
    }
    /// Returns the body of a port's table: its runs, which other tables share.
    pub(crate) fn body(&self, fold: Fold<'_>, name: &str) -> Option<BodyChunks> {
        let number = port_of_table(name)?;
        let table = self.tables.get(&number)?;
        joined(fold, name, &table.runs, |id, part| table.part_body(fold, number, &id.1, part))
    }
    /// Returns the runs of a table.
    pub(crate) fn runs(&self, name: &str) -> Option<&Runs> {
        Some(&self.tables.get(&port_of_table(name)?)?.runs)
    }
    /// Returns the runs of the tables that differ from those of another class.
    pub(crate) fn runs_beside(&self, from: &Self) -> BTreeMap<String, Runs> {
        let differs =
            |(number, table): &(&PortNumber, &Shared<Table>)| from.tables.get(*number) != Some(*table);
        let own = self.tables.iter().filter(differs);
        own.map(|(number, table)| (route_table_name(*number), table.runs.clone())).collect()
    }
}

/// Returns the body of a table; `body` encodes parts again that were evicted.
pub(crate) fn joined(
    fold: Fold<'_>,
    name: &str,
    runs: &Runs,
    body: impl FnMut(&PartId, &Arc<EncodedResource>) -> Option<Bytes>,
) -> Option<BodyChunks> {
    let runs = runs.bytes(&fold.store.budget.copies(), body)?;
    let (head, tail) = (table_head(name).into(), table_tail(fold.unclaimed()).into());
    Some(std::iter::once(head).chain(runs).chain([tail]).collect())
}

/// Parses a table's name; rejects all but its canonical spelling.
pub(crate) fn port_of_table(name: &str) -> Option<PortNumber> {
    let number = PortNumber::new(name.parse().ok()?).ok()?;
    (route_table_name(number) == name).then_some(number)
}

/// Returns the ports whose tables may differ between two generations.
pub(crate) fn touched_ports(start: Start<'_>, fold: Fold<'_>) -> BTreeSet<PortNumber> {
    touched(start, fold).into_keys().collect()
}

fn touched<'c>(start: Start<'c>, fold: Fold<'c>) -> InputChanges<'c> {
    let mut out = InputChanges::new();
    let mut targets = BTreeSet::new();
    for difference in start.differences(fold) {
        targets.extend(alias_targets(start, fold, &difference));
        let all = moved(&difference) || !start.is_same_class();
        change(fold, &difference, all, &mut out);
    }
    for host in targets {
        let (before, after) = (start.view(host), fold.view(host));
        change(fold, &Difference { host, before, after }, true, &mut out);
    }
    out
}

/// Changed inputs by port and host.
type InputChanges<'c> = BTreeMap<PortNumber, BTreeMap<&'c Hostname, InputChange<'c>>>;

fn change<'c>(fold: Fold<'c>, difference: &Difference<'c>, all: bool, out: &mut InputChanges<'c>) {
    for (number, before, after) in ports(difference, fold.scope(), Surface::Routes) {
        let same = before.zip(after).is_some_and(|(a, b)| a.route == b.route);
        if all || !same {
            let node = |port: Option<&'c PortView>| port.map(|port| &*port.route);
            let change = InputChange { host: difference.host, before: node(before), after: node(after) };
            out.entry(number).or_default().insert(difference.host, change);
        }
    }
}

/// Returns the hosts of which this host was or is an alias: its claims for them may have changed.
fn alias_targets<'c>(
    start: Start<'c>,
    fold: Fold<'c>,
    of: &Difference<'c>,
) -> impl Iterator<Item = &'c Hostname> {
    let end = |catalog: &'c Catalog, class: &'c ClientClassKey, view: &'c Arc<ServiceView>| {
        let end = concrete(catalog, view, class.scope(), &mut ())?;
        (end.key.host != view.key.host).then_some(&end.key.host)
    };
    let before = of.before.and_then(|view| end(start.catalog, start.class, view));
    before.into_iter().chain(of.after.and_then(|view| end(fold.catalog, fold.class, view)))
}

fn plan(class: &ClientClassKey, node: &ResourceInputs<RouteInputs>) -> Option<VirtualHostPlan> {
    route(&node.inputs, &key(node, class))
}

fn part_id(node: &ResourceInputs<RouteInputs>) -> PartId {
    (node.inputs.service.namespace.clone(), node.inputs.service.host.clone())
}

impl Table {
    fn apply(
        &mut self,
        fold: Fold<'_>,
        before: &ClientClassKey,
        number: PortNumber,
        changes: &[InputChange<'_>],
    ) {
        let (mut contested, mut edits) = (BTreeSet::new(), Edits::new());
        for change in changes {
            edits.extend(change.before.map(|node| (part_id(node), None)));
            let plan = change.before.and_then(|node| plan(before, node));
            plan.iter().for_each(|plan| self.release_all(plan, change.host, &mut contested));
        }
        for change in changes {
            let plan = change.after.and_then(|node| plan(fold.class, node));
            plan.iter().for_each(|plan| self.claim_all(fold, plan, change.host, &mut contested));
        }
        let claimants = contested.iter().filter_map(|d| self.owners.get(d)).flatten();
        let parts = claimants.map(|host| self.part_of(host).clone());
        let hosts: BTreeSet<Hostname> =
            changes.iter().map(|change| change.host.clone()).chain(parts).collect();
        let ports = hosts.iter().filter_map(|host| Some((host, fold.port(host, number)?)));
        edits.extend(ports.map(|(host, port)| (part_id(&port.route), self.part(fold, &port.route, host))));
        self.runs = self.runs.edited(&fold.store.runs, edits);
        self.update_resource(fold, number);
    }
    /// Returns the host whose part has the domains that a host claims.
    fn part_of<'a>(&'a self, host: &'a Hostname) -> &'a Hostname {
        self.led.get(host).unwrap_or(host)
    }
    /// Returns the host that claims a domain for a part; `None` if an alias means a different service to the class.
    fn claimant<'a>(
        &self,
        plan: &'a VirtualHostPlan,
        domain: &str,
        host: &'a Hostname,
    ) -> Option<&'a Hostname> {
        let Some(by) = plan.alias_domains.get(domain) else { return Some(host) };
        (self.led.get(by) == Some(host)).then_some(by)
    }
    fn release_all(&mut self, plan: &VirtualHostPlan, host: &Hostname, contested: &mut BTreeSet<Arc<str>>) {
        for domain in &plan.domains {
            if let Some(by) = self.claimant(plan, domain, host) {
                self.release(domain, by, contested);
            }
        }
        for by in plan.alias_domains.values() {
            if self.led.get(by) == Some(host) {
                self.led.remove(by);
            }
        }
    }
    fn claim_all(
        &mut self,
        fold: Fold<'_>,
        plan: &VirtualHostPlan,
        host: &Hostname,
        contested: &mut BTreeSet<Arc<str>>,
    ) {
        let hosts: BTreeSet<&Hostname> = plan.alias_domains.values().collect();
        for by in hosts.into_iter().filter(|by| fold.leads(by, host)) {
            self.led.insert(by.clone(), host.clone());
        }
        for domain in &plan.domains {
            if let Some(by) = self.claimant(plan, domain, host) {
                self.claim(fold, domain, by, contested);
            }
        }
    }
    fn release(&mut self, domain: &str, host: &Hostname, contested: &mut BTreeSet<Arc<str>>) {
        let Some((name, owners)) = self.owners.get_key_value(domain) else { return };
        let name = Arc::clone(name);
        let left: SmallVec<[Hostname; 1]> = owners.iter().filter(|owner| *owner != host).cloned().collect();
        if left.is_empty() {
            self.owners.remove(domain);
        } else {
            self.owners.insert(Arc::clone(&name), left);
            contested.insert(name);
        }
    }
    fn claim(&mut self, fold: Fold<'_>, domain: &str, host: &Hostname, contested: &mut BTreeSet<Arc<str>>) {
        let Some((name, owners)) = self.owners.get_key_value(domain) else {
            self.owners.insert(domain.into(), SmallVec::from_elem(host.clone(), 1));
            return;
        };
        let (name, mut owners) = (Arc::clone(name), owners.clone());
        let at = owners
            .partition_point(|owner| claim_order(domain, owner, host, || fold.order(owner, host)).is_lt());
        owners.insert(at, host.clone());
        contested.insert(Arc::clone(&name));
        self.owners.insert(name, owners);
    }
    /// Shared with every class that agrees on it, unless another service owns one of its domains.
    fn part(
        &self,
        fold: Fold<'_>,
        node: &ResourceInputs<RouteInputs>,
        host: &Hostname,
    ) -> Option<Arc<EncodedResource>> {
        let full = plan(fold.class, node)?;
        let won = self.won(host, &full);
        if won.domains.is_empty() {
            return None;
        }
        if won.domains.len() < full.domains.len() {
            return Some(fold.store.keep(ResourceType::Route, (won.name.clone(), virtual_host(&won))));
        }
        let encode = |inputs: &RouteInputs, projection: &_| {
            route(inputs, projection).map(|p| (p.name.clone(), virtual_host(&p))).into_iter().collect()
        };
        fold.store.fill(ResourceType::Route, node, fold.class, encode).first().cloned()
    }
    fn won(&self, host: &Hostname, plan: &VirtualHostPlan) -> VirtualHostPlan {
        let has = |domain: &&String| {
            let first = self.owners.get(domain.as_str()).and_then(|owners| owners.first());
            first.is_some() && first == self.claimant(plan, domain, host)
        };
        VirtualHostPlan { domains: plan.domains.iter().filter(has).cloned().collect(), ..plan.clone() }
    }
    /// Updates the table as a resource; keeps the previous one if the version is unchanged.
    fn update_resource(&mut self, fold: Fold<'_>, number: PortNumber) {
        let name = route_table_name(number);
        let (head, tail) = (table_head(&name), table_tail(fold.unclaimed()));
        let version = Version::of_all([Version::of(&head), Version::of(&tail), self.runs.version()]);
        if self.resource.as_ref().is_some_and(|now| now.version == version) {
            return;
        }
        let len = head.len() + self.runs.len() + tail.len();
        self.resource = Some(Arc::new(EncodedResource::unfilled(name.into(), version, len)));
    }
    /// Returns a part's body, encoded again if it was evicted.
    fn part_body(
        &self,
        fold: Fold<'_>,
        number: PortNumber,
        host: &Hostname,
        part: &Arc<EncodedResource>,
    ) -> Option<Bytes> {
        part.body().or_else(|| {
            let full = plan(fold.class, &fold.port(host, number)?.route)?;
            let body = BodyChunks::from_elem(virtual_host(&self.won(host, &full)).into(), 1);
            fold.store.refill(part, body)?.pop()
        })
    }
}
