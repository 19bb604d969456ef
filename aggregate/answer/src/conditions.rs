//! Conditions that only become visible when answers are built: addresses that several shards list, and
//! names that services of different hosts claim. Computed on request, for diagnosis.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Catalog, Code, Condition, EndpointInputs, EndpointSource, ObjectRef, PortView, ServiceKey, ServiceView,
};

use crate::claims::route_claims;
use crate::client::ClientClass;
use crate::compose::{Conflict, compose_listeners, compose_routes};
use crate::egress::PortSet;
use crate::endpoints::Destination;
use crate::key::key;
use crate::listener::scoped_listener;
use crate::members::members;

mod addresses;
mod shares;

/// Maximum number of endpoints in a condition's message.
const MAX_NAMED: usize = 8;
/// Maximum number of objects of a condition.
const MAX_OBJECTS: usize = 16;

/// Returns the conditions of a service: those of the core, the endpoints that several of its shards list, ports that no
/// listener can match, and shares of the mesh that lead to no endpoint. Walks all addresses of a service with several shards.
#[must_use]
pub fn conditions(view: &ServiceView) -> Vec<Condition> {
    let duplicates = view.ports.iter().filter_map(|port| duplicates(&port.endpoints.inputs));
    let unmatched = view.ports.iter().filter_map(|port| unmatched(view, port));
    view.conditions.iter().cloned().chain(duplicates).chain(unmatched).chain(shares::unshared(view)).collect()
}

/// Returns the condition of a port whose listeners match endpoints, of which none is an IP address.
fn unmatched(view: &ServiceView, port: &PortView) -> Option<Condition> {
    let endpoints = port.listener.inputs.endpoints.as_ref()?;
    let mut targets = endpoints.inputs.sources.iter().flat_map(targets).map(|(target, _)| target).peekable();
    targets.peek()?;
    if targets.any(|target| matches!(target, Destination::Ip(..))) {
        return None;
    }
    let capture =
        if port.listener.inputs.addresses.is_empty() { "" } else { " unless the client captures DNS" };
    let message = format!(
        "port {} has no virtual address and its endpoints are DNS names, so no listener of a sidecar matches its \
         connections{capture}; they pass through, or are blocked where unknown hosts are",
        port.number
    );
    let objects = view.declarations.iter().take(MAX_OBJECTS).map(|seen| seen.declaration.source.reference());
    Some(Condition { code: Code::NO_LISTENER, objects: objects.collect(), message: message.into() })
}

fn duplicates(facts: &EndpointInputs) -> Option<Condition> {
    let first = facts.sources.first()?;
    if facts.sources.iter().all(|s| s.shard == first.shard) {
        return None;
    }
    let mut listed: BTreeMap<(Destination<'_>, Option<&str>), Vec<&EndpointSource>> = BTreeMap::new();
    for source in facts.sources.iter() {
        for (target, network) in targets(source) {
            let by = listed.entry((target, network)).or_default();
            if by.iter().all(|s| s.shard != source.shard) {
                by.push(source);
            }
        }
    }
    let twice: Vec<_> = listed.into_iter().filter(|(_, by)| by.len() > 1).collect();
    let names: Vec<String> = twice.iter().take(MAX_NAMED).map(|((t, _), _)| t.to_string()).collect();
    let mut objects: Vec<ObjectRef> = Vec::new();
    for source in twice.iter().flat_map(|(_, by)| by.iter()) {
        let object = source.group.source.reference();
        if objects.len() < MAX_OBJECTS && !objects.contains(&object) {
            objects.push(object);
        }
    }
    let message = format!(
        "{} endpoints of port {} are listed by several registries: {}",
        twice.len(),
        facts.port,
        names.join(", ")
    );
    (!twice.is_empty()).then(|| Condition {
        code: Code::DUPLICATE_ENDPOINT,
        objects: objects.into(),
        message: message.into(),
    })
}

fn targets(source: &EndpointSource) -> impl Iterator<Item = (Destination<'_>, Option<&str>)> {
    source.group.addresses.iter().filter_map(|address| {
        let at = source.ports.get(usize::from(address.port_set)).copied().flatten()?;
        let port = source.group.ports(address).get(usize::from(at))?;
        let target = Destination::of(&source.group, address, port.number)?;
        Some((target, address.topology.network.as_ref().map(|n| n.as_str())))
    })
}

/// Returns every name that services of different hosts claim for clients of this class: addresses,
/// listeners and domains. Walks all services.
#[must_use]
pub fn contested(catalog: &Catalog, class: &ClientClass) -> Vec<Conflict> {
    let (mut listeners, mut addresses) = (Vec::new(), addresses::Addresses::default());
    for (_, view) in members(catalog, class.scope()) {
        for port in class.scope().ports(view, PortSet::Imported) {
            let inputs = &port.listener;
            let plans = scoped_listener(&inputs.inputs, &key(inputs, class), class.scope(), &mut ());
            addresses.add(view, (port, class), &plans);
            listeners.extend(plans.into_iter().map(|plan| (view, plan)));
        }
    }
    let (_, mut conflicts) = compose_listeners(listeners);
    conflicts.extend(addresses.conflicts());
    conflicts.extend(route_claims(catalog, class).into_values().flat_map(|claims| compose_routes(claims).1));
    conflicts
}

/// Returns the conflicts of [`contested`] as conditions of each claimant.
#[must_use]
pub fn contested_by_service(catalog: &Catalog, class: &ClientClass) -> BTreeMap<ServiceKey, Vec<Condition>> {
    let mut out: BTreeMap<ServiceKey, Vec<Condition>> = BTreeMap::new();
    for conflict in contested(catalog, class) {
        let condition = conflict.condition();
        for claimant in conflict.claimants.iter().collect::<BTreeSet<_>>() {
            out.entry(claimant.clone()).or_default().push(condition.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Address, AddressRef, ClientDimensions, ClientKind, ListenerInputs, Protocol, ResourceInputs, Shared,
    };

    use super::*;
    use crate::fixtures::*;

    fn mk_on(host: &str, facts: EndpointInputs, addresses: &[&str]) -> Arc<ServiceView> {
        mk_addressed(host, facts, (Protocol::Http, addresses))
    }

    #[test]
    fn port_that_no_listener_matches_gives_a_condition() {
        let found = |endpoints: &[&str], is_matched: bool| {
            let name = || Address::new(AddressRef::Name(0), Arc::default());
            let address = |at: &&str| if *at == "name" { name() } else { mk_address(at) };
            let group = mk_group("a", &["db.example.com"], endpoints.iter().map(address).collect());
            let facts = mk_facts(vec![mk_source("east", group)]);
            let view = mk_on("pay.shop", facts, &[]);
            let port = &view.ports[0];
            let endpoints = is_matched.then(|| port.endpoints.clone());
            let listener = ListenerInputs { endpoints, ..port.listener.inputs.clone() };
            let listener = Shared::new(ResourceInputs::new(listener, ClientDimensions::KIND));
            let port = PortView { listener, ..port.clone() };
            let view = ServiceView { ports: [port].into(), ..ServiceView::clone(&view) };
            conditions(&view).iter().map(|condition| condition.code).collect::<Vec<_>>()
        };
        assert_eq!(found(&["name"], true), [Code::NO_LISTENER]);
        assert_eq!(found(&["name"], false), [], "a host, SNI or address identifies it");
        assert_eq!(found(&["name", "10.0.0.1"], true), []);
        assert_eq!(found(&[], true), [], "it has no endpoints to lose");
    }

    #[test]
    fn endpoint_of_two_shards_gives_a_condition() {
        let group = |name| mk_group(name, &[], vec![mk_address("10.0.0.1"), mk_address("10.0.0.2")]);
        let one = mk_facts(vec![mk_source("east", group("a")), mk_source("east", group("b"))]);
        assert_eq!(conditions(&mk_on("pay.shop", one, &[])), []);
        let two = mk_facts(vec![mk_source("east", group("a")), mk_source("west", group("b"))]);
        let found = conditions(&mk_on("pay.shop", two, &[]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, Code::DUPLICATE_ENDPOINT);
        let names: Vec<&str> = found[0].objects.iter().map(|o| &*o.id.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(found[0].message.starts_with("2 endpoints of port 80"), "{}", found[0].message);
    }

    #[test]
    fn services_with_the_same_address_both_get_a_condition() {
        let facts = |ip| mk_one(vec![mk_address(ip)]);
        let on = |host, ip, address| mk_on(host, facts(ip), &[address]);
        let (a, b) = (on("a.shop", "10.0.0.1", "10.9.0.1"), on("b.shop", "10.0.0.2", "10.9.0.1"));
        let catalog = mk_catalog(vec![a, b, on("c.shop", "10.0.0.1", "10.9.0.2")]);
        let by_service = contested_by_service(&catalog, &ClientClass::new(ClientKind::Sidecar));
        let hosts: Vec<&str> = by_service.keys().map(|k| k.host.as_str()).collect();
        assert_eq!(hosts, ["a.shop", "b.shop"]);
        let codes: Vec<Code> = by_service.values().flatten().map(|c| c.code).collect();
        assert_eq!(codes, [Code::DOMAIN_CONFLICT; 2]);
    }
}
