//! RDS for sidecars: a port's route table, joined from the virtual hosts of all its services.
//!
//! A table is a persistent map of parts, so the next generation joins only the ports whose services
//! changed again and shares the rest. Services, aliases and hosts without a service claim domains; the first claimant
//! of a domain owns it, an alias for the part of the service that it leads to. The table's version is the hash over its
//! parts' versions; its bytes are a list of runs (`runs.rs`), each written when it is needed first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tributary_answer::{
    Difference, HostClaim, VirtualHostPlan, claim_order, host_claims, key, names_of, route, route_table_name,
    wildcard_claim, wildcards_beside, without_service,
};
use tributary_model::{EncodedResource, Hostname, PortNumber, ResourceInputs, RouteInputs, Shared, Version};

use super::claims::Claims;
use super::fold::{Fold, Start, moved};
use super::runs::{Edits, PartId, Runs};
use super::store::NamedBody;
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
    /// Hosts that claim each domain.
    domains: Claims<Arc<str>, Hostname>,
    /// Hosts of the services that aliases lead to, by alias.
    ends: OrdMap<Hostname, Hostname>,
    /// Aliases by the host that they lead to.
    aliases: OrdMap<Hostname, OrdSet<Hostname>>,
    resource: Option<Arc<EncodedResource>>,
}

fn alias_names(class: &ClientClassKey, alias: &Hostname, node: &Node) -> Vec<String> {
    names_of(alias, class.domain.as_deref(), node.inputs.headless)
}

/// Claims of a host on a port's table, before and after.
struct ClaimChange<'c> {
    host: &'c Hostname,
    before: Option<HostClaim<'c>>,
    after: Option<HostClaim<'c>>,
}

/// Inputs of a virtual host.
type Node = Shared<ResourceInputs<RouteInputs>>;

/// Changed claims by port and host.
type ClaimChanges<'c> = BTreeMap<PortNumber, BTreeMap<&'c Hostname, ClaimChange<'c>>>;

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
            let changes: Vec<ClaimChange<'_>> = changes.into_values().collect();
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
    let (head, tail) = (table_head(name).into(), table_tail(&fold.unclaimed()).into());
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

fn touched<'c>(start: Start<'c>, fold: Fold<'c>) -> ClaimChanges<'c> {
    let (mut out, mut aliases) = (ClaimChanges::new(), BTreeSet::new());
    let differences = start.differences(fold);
    for difference in &differences {
        let all = moved(difference) || !start.is_same_class();
        if change(start, fold, difference, all, &mut out) {
            let possible = [start.catalog, fold.catalog].map(|catalog| catalog.aliases_of(difference.host));
            aliases.extend(possible.into_iter().flatten());
        }
    }
    for host in aliases {
        let (before, after) = (start.view(host), fold.view(host));
        change(start, fold, &Difference { host, before, after }, true, &mut out);
    }
    change_wildcards(start, fold, &differences, &mut out);
    out
}

/// Adds the claims of wildcards of VirtualServices that may have changed, or that services may match now or not any more.
fn change_wildcards<'c>(
    start: Start<'c>,
    fold: Fold<'c>,
    differences: &[Difference<'c>],
    out: &mut ClaimChanges<'c>,
) {
    let own = differences.iter().map(|difference| difference.host).filter(|host| host.is_wildcard());
    let mut wildcards: BTreeSet<&Hostname> = own.collect();
    // from nothing, every wildcard differs; wildcards are the first hosts
    let any = fold.catalog.hosts.keys().next().is_some_and(Hostname::is_wildcard);
    let changes = out.get(&PortNumber::HTTP).filter(|_| any && !start.catalog.hosts.is_empty());
    for change in changes.into_iter().flat_map(BTreeMap::values) {
        let has = |claim: Option<HostClaim<'_>>, class: &ClientClassKey| {
            claim.is_some_and(|claim| claim.node.inputs.has_service && claim.plan(class).is_some())
        };
        if has(change.before, start.class) != has(change.after, fold.class) {
            wildcards.extend(wildcards_beside(fold.catalog, change.host));
        }
    }
    if wildcards.is_empty() {
        return;
    }
    let open = without_service(fold.catalog, &wildcards, fold.class);
    for host in wildcards {
        // whether services matched it before does not matter: what it does not claim is not released
        let before = wildcard_claim(start.catalog, host, start.class);
        let after = open.contains(host).then(|| wildcard_claim(fold.catalog, host, fold.class)).flatten();
        if before.is_none() && after.is_none() {
            continue;
        }
        let changes = out.entry(PortNumber::HTTP).or_default();
        let change = changes.entry(host).or_insert(ClaimChange { host, before: None, after: None });
        (change.before, change.after) = (change.before.or(before), change.after.or(after));
    }
}

/// Adds the claims of a host that changed, or `all` of them. Returns whether there are any.
fn change<'c>(
    start: Start<'c>,
    fold: Fold<'c>,
    difference: &Difference<'c>,
    all: bool,
    out: &mut ClaimChanges<'c>,
) -> bool {
    let host = difference.host;
    let mut ports: BTreeMap<PortNumber, (Option<HostClaim<'_>>, Option<HostClaim<'_>>)> = BTreeMap::new();
    for (number, claim) in host_claims(start.catalog, host, difference.before, start.class) {
        ports.entry(number).or_default().0 = Some(claim);
    }
    for (number, claim) in host_claims(fold.catalog, host, difference.after, fold.class) {
        ports.entry(number).or_default().1 = Some(claim);
    }
    ports.retain(|_, (before, after)| all || before != after);
    let any = !ports.is_empty();
    for (number, (before, after)) in ports {
        out.entry(number).or_default().insert(host, ClaimChange { host, before, after });
    }
    any
}

fn plan(class: &ClientClassKey, node: &ResourceInputs<RouteInputs>) -> Option<VirtualHostPlan> {
    route(&node.inputs, &key(node, class))
}

/// Encodes a virtual host.
fn named(host: &VirtualHostPlan) -> NamedBody {
    (host.name.clone(), virtual_host(host))
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
        changes: &[ClaimChange<'_>],
    ) {
        let (mut contested, mut edits, mut hosts) = (BTreeSet::new(), Edits::new(), BTreeSet::new());
        for (change, claim) in changes.iter().filter_map(|change| Some((change, change.before?))) {
            edits.extend((!claim.is_alias).then(|| (part_id(claim.node), None)));
            hosts.insert(claim.to().clone());
            self.release(before, change.host, claim, &mut contested);
        }
        for (change, claim) in changes.iter().filter_map(|change| Some((change, change.after?))) {
            hosts.insert(claim.to().clone());
            self.claim(fold, change.host, claim, &mut contested);
        }
        let claimants = contested.iter().flat_map(|domain| self.domains.of(domain));
        hosts.extend(claimants.map(|host| self.ends.get(host).unwrap_or(host).clone()));
        let nodes = hosts.iter().filter_map(|host| Some((host, fold.node(host, number)?)));
        edits.extend(nodes.map(|(host, node)| (part_id(node), self.part(fold, node, host))));
        self.runs = self.runs.edited(&fold.store.runs, edits);
        self.update_resource(fold, number);
    }
    fn release(
        &mut self,
        class: &ClientClassKey,
        host: &Hostname,
        claim: HostClaim<'_>,
        contested: &mut BTreeSet<Arc<str>>,
    ) {
        if claim.is_alias {
            self.lead(host, None);
        }
        let domains = claim.domains(host, class);
        contested.extend(domains.iter().filter_map(|domain| self.domains.remove(&**domain, |by| by == host)));
    }
    fn claim(
        &mut self,
        fold: Fold<'_>,
        host: &Hostname,
        claim: HostClaim<'_>,
        contested: &mut BTreeSet<Arc<str>>,
    ) {
        if claim.is_alias {
            self.lead(host, Some(claim.to()));
        }
        for domain in claim.domains(host, fold.class) {
            let order = |a: &Hostname, b: &Hostname| claim_order(&domain, a, b, || fold.order(a, b));
            contested.extend(self.domains.add(&*domain, host.clone(), order));
        }
    }
    /// Sets the host that an alias leads to.
    fn lead(&mut self, alias: &Hostname, to: Option<&Hostname>) {
        if let Some(before) = self.ends.remove(alias) {
            let mut aliases = self.aliases.remove(&before).unwrap_or_default();
            aliases.remove(alias);
            if !aliases.is_empty() {
                self.aliases.insert(before, aliases);
            }
        }
        if let Some(to) = to {
            self.ends.insert(alias.clone(), to.clone());
            self.aliases.entry(to.clone()).or_default().insert(alias.clone());
        }
    }
    /// Shared with every class that agrees on it, unless it lacks a domain of its own or has one of an alias.
    fn part(&self, fold: Fold<'_>, node: &Node, host: &Hostname) -> Option<Arc<EncodedResource>> {
        let full = plan(fold.class, node)?;
        let Some(left) = self.left(fold.class, node, host, &full) else {
            let encode = |_: &RouteInputs, _: &_| vec![(ResourceType::Route, named(&full))];
            let whole = (!full.is_empty()).then(|| fold.store.fill(node, fold.class, encode));
            return whole?.first().cloned();
        };
        (!left.is_empty()).then(|| fold.store.keep(ResourceType::Route, named(&left)))
    }
    /// Returns the virtual host of a service with the domains that it and its aliases own; `None` if these are the domains of
    /// the service.
    fn left(
        &self,
        class: &ClientClassKey,
        node: &Node,
        host: &Hostname,
        full: &VirtualHostPlan,
    ) -> Option<VirtualHostPlan> {
        let owns = |by: &Hostname, domain: &str| self.domains.of(domain).first() == Some(by);
        let aliases = self.aliases.get(host).into_iter().flatten();
        let names = aliases.flat_map(|alias| {
            let names = alias_names(class, alias, node).into_iter();
            names.filter(move |name| owns(alias, name))
        });
        let names: Vec<String> = names.collect();
        let is_whole = names.is_empty() && full.claims().all(|domain| owns(host, domain));
        (!is_whole).then(|| full.with_claims(|domain| owns(host, domain), names))
    }
    /// Updates the table as a resource; keeps the previous one if the version is unchanged.
    fn update_resource(&mut self, fold: Fold<'_>, number: PortNumber) {
        let name = route_table_name(number);
        let (head, tail) = (table_head(&name), table_tail(&fold.unclaimed()));
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
            let node = fold.node(host, number)?;
            let full = plan(fold.class, node)?;
            let won = self.left(fold.class, node, host, &full).unwrap_or(full);
            fold.store.refill(part, BodyChunks::from_elem(virtual_host(&won).into(), 1))?.pop()
        })
    }
}
