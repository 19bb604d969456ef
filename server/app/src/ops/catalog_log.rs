//! Adds changes of the served catalog to the timeline: services, endpoints, and their health; and what was removed to `removed`.
//!
//! Started with the server. It compares generations as a subscriber of the catalog, apart from the task that wakes clients, so no client
//! waits for it. The cost follows the change: groups of endpoints that two generations share are not walked. Generations within
//! [`PACE`] are one entry.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tributary_model::{
    Address as EndpointAddress, AddressRef, DeclarationView, EndpointGroup, EndpointSource, Health, Hostname,
    Origin, PortNumber, PortView, RegistryName, ServiceView, Source,
};
use tributary_runtime::{ClusterScope, ScopeChange};

use super::backend::LiveBackend;
use super::removed::{Address, Removals, RemovedEndpoint, RemovedHost, address_text};
use super::timeline::MOST_HOSTS;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};
use crate::traces::Traces;

/// Shortest time between two entries.
const PACE: Duration = Duration::from_millis(100);
/// Most removed addresses that an entry names.
const MOST_ADDRESSES: usize = 3;
/// Most registries that an entry names.
const MOST_REGISTRIES: usize = 3;

/// Adds changes until the server stops.
pub async fn run(live: Arc<LiveBackend>, stop: CancellationToken) {
    let mut changes = live.handle.subscribe(ClusterScope::All);
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = stop.cancelled() => None,
        };
        let Some(change) = change else { return };
        let (began, at, now) = (Instant::now(), Timestamp::now(), live.clock.now());
        let compared = tokio::task::spawn_blocking(move || {
            let difference = Difference::of(&change);
            let entry = difference.entry(change.generation);
            (difference.removals, entry)
        });
        if let Ok((removals, entry)) = compared.await {
            live.removed.add(now, removals);
            entry
                .into_iter()
                .for_each(|entry| live.timeline.add(at, traced(entry, live.sessions.traces.as_deref())));
        }
        sleep_until(began + PACE).await;
    }
}

/// Names the trace of the change, if there is one.
fn traced(entry: TimelineItem, traces: Option<&Traces>) -> TimelineItem {
    let trace = entry.generation.zip(traces).and_then(|(generation, traces)| traces.id_of(generation));
    TimelineItem { trace_id: trace.unwrap_or_default(), ..entry }
}

/// What changed between two generations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Difference {
    /// Services: added, changed, removed.
    services: [usize; 3],
    /// Endpoints: added, with another health, removed.
    endpoints: [usize; 3],
    /// Services that had endpoints and have none.
    emptied: usize,
    /// The first hosts in order, which are named, and the number of all.
    hosts: BTreeSet<Hostname>,
    all_hosts: usize,
    registries: BTreeSet<RegistryName>,
    removals: Removals,
}

/// What identifies an endpoint of a service: its port, registry, address and number.
type Key<'a> = (PortNumber, &'a RegistryName, At<'a>, Option<PortNumber>);

/// Object that lists an endpoint, and the workload behind it.
type Listed<'a> = (&'a Source, Option<&'a Origin>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At<'a> {
    Ip(std::net::IpAddr),
    Text(&'a str),
    Unix(&'a str),
}

impl Difference {
    fn of(change: &ScopeChange) -> Self {
        let mut out = Self::default();
        for one in &change.services {
            out.host(&one.key.host);
            match (one.before.as_deref(), one.after.as_deref()) {
                (None, Some(view)) => out.whole(0, view),
                (Some(view), None) => {
                    out.whole(2, view);
                    out.removed(view);
                }
                (Some(before), Some(after)) => out.both(before, after),
                (None, None) => {}
            }
        }
        out
    }
    fn host(&mut self, host: &Hostname) {
        let is_full = self.hosts.len() >= MOST_HOSTS;
        if self.hosts.contains(host) {
            return;
        }
        self.all_hosts += 1;
        if is_full && self.hosts.last().is_some_and(|last| host >= last) {
            return;
        }
        self.hosts.insert(host.clone());
        if is_full {
            self.hosts.pop_last();
        }
    }
    /// Counts a service that was added or removed.
    fn whole(&mut self, at: usize, view: &ServiceView) {
        self.services[at] += 1;
        self.endpoints[at] += sources(view).map(|(_, source)| served(source).count()).sum::<usize>();
        self.registries.extend(registries(view).cloned());
    }
    /// Compares a service that was and is served.
    fn both(&mut self, before: &ServiceView, after: &ServiceView) {
        self.services[1] += 1;
        for declaration in own_declarations(before).filter(|old| !declares(after, old)) {
            self.removals.host(|| removed_host(before, declaration));
        }
        let endpoints = self.endpoints;
        let (old, new) = (apart(before, after), apart(after, before));
        for (key, health) in &new {
            match old.get(key) {
                None => self.endpoint(0, key),
                Some(before) if before.0 != health.0 => self.endpoint(1, key),
                Some(_) => {}
            }
        }
        for (key, (_, listed)) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            self.endpoint(2, key);
            self.removals.endpoint(|| removed_endpoint(before, key, *listed));
        }
        if self.endpoints == endpoints {
            self.registries.extend(registries(after).cloned());
        }
        let is_served = |view| sources(view).any(|(_, source)| served(source).next().is_some());
        self.emptied += usize::from(!is_served(after) && is_served(before));
    }
    fn endpoint(&mut self, at: usize, (_, registry, ..): &Key<'_>) {
        self.endpoints[at] += 1;
        if !self.registries.contains(*registry) {
            self.registries.insert((*registry).clone());
        }
    }
    /// Keeps a service that was removed, with its endpoints.
    fn removed(&mut self, view: &ServiceView) {
        let registry = |source: &EndpointSource| source.shard.registry.name.clone();
        for declaration in own_declarations(view) {
            self.removals.host(|| removed_host(view, declaration));
        }
        for (port, source) in sources(view) {
            let registry = registry(source);
            for (at, number, address) in served(source) {
                let key = (port.number, &registry, at, number);
                let listed = (&source.group.source, address.origin.as_deref());
                self.removals.endpoint(|| removed_endpoint(view, &key, listed));
            }
        }
    }
    /// Names the first addresses that were removed, in order, and the number of the others.
    fn lost(&self) -> String {
        let all = &self.removals.endpoints;
        // an address may be the endpoint of several service ports
        let distinct: BTreeSet<_> = all.iter().map(|endpoint| (&endpoint.at, endpoint.number)).collect();
        let uncounted = self.endpoints[2].saturating_sub(all.len());
        let shown: Vec<String> =
            distinct.iter().take(MOST_ADDRESSES).map(|(at, number)| address_text(at, *number)).collect();
        let more = distinct.len() - shown.len() + uncounted;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        // fewer addresses than endpoints would look like a wrong count
        let of = if distinct.len() < all.len() { "addresses " } else { "" };
        if shown.is_empty() { String::new() } else { format!(" ({of}{}{more})", shown.join(", ")) }
    }
    /// Returns the entry; `None` if no service changed.
    fn entry(&self, generation: u64) -> Option<TimelineItem> {
        if self.hosts.is_empty() {
            return None;
        }
        let parts = [
            counted("services", ["added", "changed", "removed"], self.services),
            counted("endpoints", ["added", "changed health", "removed"], self.endpoints)
                .map(|text| text + &self.lost()),
            match self.emptied {
                0 => None,
                1 => Some("1 service has no endpoint left".to_owned()),
                count => Some(format!("{count} services have no endpoint left")),
            },
            Some(named(&self.registries)).filter(|names| !names.is_empty()),
        ];
        let only = self.hosts.first().filter(|_| self.all_hosts == 1);
        let registry = self.registries.first().filter(|_| self.registries.len() == 1);
        Some(TimelineItem {
            kind: TimelineKind::Catalog,
            severity: if self.emptied > 0 { TimelineSeverity::Warning } else { TimelineSeverity::Info },
            object: only.and_then(|host| TimelineObject::new("service", host.as_str())),
            message: parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
            registry: registry.map(ToString::to_string).unwrap_or_default(),
            generation: Some(generation),
            more_hosts: self.all_hosts - self.hosts.len(),
            hosts: self.hosts.iter().map(ToString::to_string).collect(),
            ..TimelineItem::default()
        })
    }
}

/// Returns the declarations of a view without those of the members of a federated service, which declare other hosts.
fn own_declarations(view: &ServiceView) -> impl Iterator<Item = &DeclarationView> {
    view.declarations.iter().filter(|declaration| !declaration.federated)
}

/// Whether an object of a registry declares the service.
fn declares(view: &ServiceView, of: &DeclarationView) -> bool {
    let own = |one: &DeclarationView| {
        one.shard.registry.name == of.shard.registry.name
            && one.declaration.source.object == of.declaration.source.object
    };
    view.declarations.iter().any(own)
}

fn removed_host(view: &ServiceView, declaration: &DeclarationView) -> RemovedHost {
    let (host, registry) = (view.key.host.clone(), declaration.shard.registry.name.clone());
    RemovedHost { host, registry, object: declaration.declaration.source.reference() }
}

/// Registries that declare a service.
fn registries(view: &ServiceView) -> impl Iterator<Item = &RegistryName> {
    view.declarations.iter().map(|declaration| &declaration.shard.registry.name)
}

fn removed_endpoint(
    view: &ServiceView,
    (port, registry, at, number): &Key<'_>,
    (source, origin): Listed<'_>,
) -> RemovedEndpoint {
    let at = match at {
        At::Ip(ip) => Address::Ip(*ip),
        At::Text(text) => Address::Text((*text).into()),
        At::Unix(path) => Address::Text(format!("unix:{path}").into()),
    };
    let (number, port) = (*number, *port);
    let (host, registry, object) = (view.key.host.clone(), (*registry).clone(), source.reference());
    let workload = origin.map(|origin| origin.object.clone()).filter(|workload| *workload != source.object);
    RemovedEndpoint { at, number, host, port, registry, object, workload }
}

/// Describes numbers without zeros; `None` if all are zero.
fn counted(of: &str, names: [&str; 3], counts: [usize; 3]) -> Option<String> {
    let shown = names.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    let shown: Vec<String> = shown.map(|(name, count)| format!("{count} {name}")).collect();
    (!shown.is_empty()).then(|| format!("{of}: {}", shown.join(", ")))
}

/// Names the first registries, and the number of the others.
fn named(registries: &BTreeSet<RegistryName>) -> String {
    let shown: Vec<&str> = registries.iter().take(MOST_REGISTRIES).map(|name| name.as_str()).collect();
    let more = registries.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if shown.is_empty() { String::new() } else { format!("from {}{more}", shown.join(", ")) }
}

fn sources(view: &ServiceView) -> impl Iterator<Item = (&PortView, &EndpointSource)> {
    view.ports.iter().flat_map(|port| port.endpoints.inputs.sources.iter().map(move |source| (port, source)))
}

/// Returns the addresses of a source that have a port for the service port, with its number.
fn served(source: &EndpointSource) -> impl Iterator<Item = (At<'_>, Option<PortNumber>, &EndpointAddress)> {
    source.group.addresses.iter().filter_map(|address| {
        let index = (*source.ports.get(usize::from(address.port_set))?)?;
        let port = source.group.ports(address).get(usize::from(index))?;
        let at = match address.at {
            AddressRef::Ip(ip) => At::Ip(ip),
            AddressRef::Name(_) => At::Text(source.group.name(address)?),
            AddressRef::Unix(_) => At::Unix(source.group.name(address)?),
        };
        Some((at, port.number, address))
    })
}

/// Returns the endpoints of a view's groups that the other view does not share, each with its health and what listed it.
fn apart<'a>(view: &'a ServiceView, other: &ServiceView) -> HashMap<Key<'a>, (Health, Listed<'a>)> {
    let group = |(port, source): (&PortView, &EndpointSource)| {
        (port.number, std::ptr::from_ref::<EndpointGroup>(&source.group))
    };
    let shared: HashSet<_> = sources(other).map(group).collect();
    let own = sources(view).filter(|one| !shared.contains(&group(*one)));
    own.flat_map(|(port, source)| {
        let registry = &source.shard.registry.name;
        let of_group = &source.group.source;
        served(source).map(move |(at, number, address)| {
            let listed = (of_group, address.origin.as_deref());
            ((port.number, registry, at, number), (address.health, listed))
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use tributary_core::Core;
    use tributary_model::Catalog;
    use tributary_runtime::ObjectChange;

    use super::super::receipts::tests::list;
    use super::*;

    /// Returns the difference of two catalogs' services.
    fn difference(before: &Catalog, after: &Catalog) -> Difference {
        let keys: BTreeSet<_> =
            before.services().chain(after.services()).map(|view| view.key.clone()).collect();
        let services = keys.into_iter().map(|key| {
            let of = |catalog: &Catalog| catalog.service(&key).cloned();
            ObjectChange { before: of(before), after: of(after), key }
        });
        let is_changed = |one: &ObjectChange<_, Arc<ServiceView>>| match (&one.before, &one.after) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
            _ => true,
        };
        Difference::of(&ScopeChange {
            services: services.filter(is_changed).collect(),
            ..ScopeChange::default()
        })
    }

    /// Returns a catalog of one registry; each service has its endpoints on two ports.
    fn mk_catalog(services: &[(&str, u8)]) -> Arc<Catalog> {
        let mut core = Core::default();
        list(&mut core, "home", services);
        core.publish()
    }

    #[test]
    fn changes_are_counted_by_service_and_endpoint() {
        let first = mk_catalog(&[("pay.test", 3), ("cart.test", 2)]);
        let added = difference(&Catalog::default(), &first);
        assert_eq!((added.services, added.endpoints), ([2, 0, 0], [10, 0, 0]));
        let entry = added.entry(7).unwrap();
        assert_eq!(entry.message, "services: 2 added; endpoints: 10 added; from home");
        assert_eq!((entry.registry.as_str(), entry.generation, entry.object), ("home", Some(7), None));
        assert_eq!(entry.hosts, ["cart.test", "pay.test"]);
        let second = mk_catalog(&[("pay.test", 1), ("cart.test", 0)]);
        let less = difference(&first, &second);
        assert_eq!((less.services, less.endpoints, less.emptied), ([0, 2, 0], [0, 0, 8], 1));
        let entry = less.entry(8).unwrap();
        assert_eq!(entry.severity, TimelineSeverity::Warning);
        assert!(entry.message.contains("1 service has no endpoint left"), "{}", entry.message);
        let kept: Vec<_> = less.removals.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!((kept.len(), less.removals.hosts.len()), (8, 0), "{kept:?}");
        let named = less.entry(8).unwrap().message;
        let want = "8 removed (addresses 10.4.0.1:80, 10.4.0.1:81, 10.4.0.2:80 and 3 more)";
        assert!(named.contains(want), "each address once, in order: {named}");
        let gone = difference(&first, &mk_catalog(&[("pay.test", 3)]));
        assert_eq!((gone.removals.endpoints.len(), gone.removals.hosts.len()), (4, 1));
        assert_eq!(gone.removals.hosts[0].host.as_str(), "cart.test");
        assert_eq!((gone.services, gone.endpoints), ([0, 1, 1], [0, 0, 4]));
        assert_eq!(difference(&second, &second).entry(9), None);
    }

    #[test]
    fn groups_that_both_generations_share_are_not_walked() {
        let mut core = Core::default();
        list(&mut core, "home", &[("pay.test", 200)]);
        let first = core.publish();
        list(&mut core, "away", &[("pay.test", 2)]);
        let second = core.publish();
        let view = |catalog: &Catalog| Arc::clone(catalog.services().next().unwrap());
        let (before, after) = (view(&first), view(&second));
        assert_eq!((apart(&before, &after).len(), apart(&after, &before).len()), (0, 4));
        let entry = difference(&first, &second).entry(2).unwrap();
        assert_eq!(entry.message, "services: 1 changed; endpoints: 4 added; from away");
        assert_eq!(entry.object, TimelineObject::new("service", "pay.test"));
    }

    #[test]
    fn many_hosts_are_counted_and_the_first_are_named() {
        let mut difference = Difference { services: [25, 0, 0], ..Difference::default() };
        for at in (0..25).rev().chain([3]) {
            difference.host(&Hostname::new(format!("h{at:02}")).unwrap());
        }
        let entry = difference.entry(1).unwrap();
        let want: Vec<String> = (0..MOST_HOSTS).map(|at| format!("h{at:02}")).collect();
        assert_eq!((entry.hosts, entry.more_hosts), (want, 15));
    }
}
