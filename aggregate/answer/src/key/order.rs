//! The part of a client that decides its order of endpoints: location, node and labels, each cut where no endpoint and
//! no rule names its value.
//!
//! The key calls it. A rule's order counts only for the namespaces to which the rule applies.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tributary_model::{
    ByNamespace, ClientDimensions, EndpointInputs, EndpointPolicy, FailoverLabel, LabelValues, Labels,
    Locality, NamedLabels, NamedOrder, Namespace, NodeName, Parts, Places, Preference, Projection,
    TrafficDistribution,
};

use super::Attr;
use crate::endpoints::label_of;

/// Returns the values that the orders of endpoints compare, by the namespace of the client.
pub(super) fn named_orders(facts: &EndpointInputs) -> ByNamespace<Arc<NamedOrder>> {
    // the rules of many namespaces are often equal
    let mut known: HashMap<Option<&EndpointPolicy>, Arc<NamedOrder>> = HashMap::new();
    let mut of = |namespace: Option<&Namespace>| {
        let policy = facts.policy_of(namespace);
        Arc::clone(known.entry(policy).or_insert_with(|| Arc::new(named_order(facts, policy))))
    };
    let ruled = facts.policy.iter().flat_map(|policies| policies.namespaces());
    let named: Vec<_> = ruled.map(|namespace| (namespace.clone(), of(Some(namespace)))).collect();
    ByNamespace::new(of(None), named)
}

fn named_order(facts: &EndpointInputs, policy: Option<&EndpointPolicy>) -> NamedOrder {
    let whole = facts.preference(policy.map(|policy| &policy.whole));
    let subsets = policy.into_iter().flat_map(|policy| policy.subsets.iter());
    let subsets = subsets.map(|(_, _, order)| facts.preference(Some(order)));
    let mut out = NamedOrder::default();
    std::iter::once(whole).chain(subsets).for_each(|preference| add(&mut out, facts, preference));
    out
}

fn add(out: &mut NamedOrder, facts: &EndpointInputs, preference: Preference<'_>) {
    match preference {
        Preference::Alike => {}
        Preference::Near(traffic) if out.near.is_none() => out.near = Some((traffic, places(facts))),
        Preference::Near(_) => {}
        Preference::Distribute(shares) => {
            shares.iter().for_each(|share| add_part(&mut out.parts, &pattern(&share.from)));
        }
        Preference::Failover { regions, labels } => {
            if preference.compares_localities() {
                addresses(facts).for_each(|(_, a)| add_part(&mut out.parts, &a.topology.locality));
                let from = regions.iter().map(|(from, _)| Arc::clone(from));
                from.for_each(|from| add_part(&mut out.parts, &vec![from]));
            }
            if !labels.is_empty() && !out.labels.iter().any(|known| known.labels == *labels) {
                out.labels.push(named_labels(facts, labels));
            }
        }
    }
}

type Listed<'a> = (&'a tributary_model::EndpointSource, &'a tributary_model::Address);

fn addresses(facts: &EndpointInputs) -> impl Iterator<Item = Listed<'_>> {
    facts.sources.iter().flat_map(|source| source.group.addresses.iter().map(move |a| (source, a)))
}

fn places(facts: &EndpointInputs) -> Places {
    let mut out = Places::new();
    for (_, address) in addresses(facts) {
        let (at, node) = (&address.topology.locality, address.topology.node.clone());
        let zones = out.entry(Arc::clone(&at.region)).or_default();
        let subzones = zones.entry(Arc::clone(&at.zone)).or_default();
        subzones.entry(Arc::clone(&at.subzone)).or_default().extend(node);
    }
    out
}

/// Returns the parts that a pattern compares, without those after a part that it leaves open.
fn pattern(text: &str) -> Vec<Arc<str>> {
    text.split('/').take(3).take_while(|part| *part != "*").map(Arc::from).collect()
}

/// Parts of a location, the most significant first; fewer than three if the others do not count.
trait Path {
    fn part(&self, at: usize) -> Option<Arc<str>>;
}
impl Path for Locality {
    fn part(&self, at: usize) -> Option<Arc<str>> {
        [&self.region, &self.zone, &self.subzone].get(at).map(|part| Arc::clone(part))
    }
}
impl Path for Vec<Arc<str>> {
    fn part(&self, at: usize) -> Option<Arc<str>> {
        self.get(at).cloned()
    }
}

fn add_part(parts: &mut Parts, path: &impl Path) {
    let Some(region) = path.part(0) else { return };
    let zones = parts.entry(region).or_default();
    let Some(zone) = path.part(1) else { return };
    let subzones = zones.entry(zone).or_default();
    subzones.extend(path.part(2));
}

fn named_labels(facts: &EndpointInputs, list: &Arc<[FailoverLabel]>) -> NamedLabels {
    let by_network = list.first().is_some_and(FailoverLabel::is_network);
    let mut values = LabelValues::default();
    let mut networks = BTreeSet::new();
    for (source, address) in addresses(facts) {
        let value = |label: &FailoverLabel| label_of(source, address, &label.key);
        networks.extend(list.first().filter(|_| by_network).map(|label| Arc::from(value(label))));
        let mut at = &mut values;
        for label in list.iter().skip(usize::from(by_network)) {
            let value = value(label);
            if label.value.as_deref().is_some_and(|fixed| fixed != value) {
                break;
            }
            at = at.0.entry(value.into()).or_default();
        }
    }
    NamedLabels { labels: Arc::clone(list), networks: by_network.then_some(networks), values }
}

/// Replaces the location, the node and the labels by what decides the order of endpoints.
pub(super) fn reduce(order: &NamedOrder, client: &Projection) -> (Locality, Option<NodeName>, Labels) {
    let (near, node) = near(order, client);
    let own = client.locality.as_ref();
    let parts = own.filter(|_| !order.parts.is_empty()).map(|own| cut(&order.parts, own));
    let locality = match (own, parts) {
        (Some(own), Some(parts)) => {
            if order.near.is_some() {
                join(own, &near, &parts)
            } else {
                parts
            }
        }
        _ => near,
    };
    (locality, node, client.labels.as_ref().map(|own| compared(order, own)).unwrap_or_default())
}

/// Compares part by part and stops at the first that nothing names: further parts cannot differ.
fn near(order: &NamedOrder, client: &Projection) -> (Locality, Option<NodeName>) {
    let Some((traffic, places)) = &order.near else { return <_>::default() };
    let Some(own) = &client.locality else { return <_>::default() };
    let by_node = *traffic == TrafficDistribution::SameNode;
    let node = client.node.clone().flatten().filter(|_| by_node);
    let has_network = client.network.as_ref().is_some_and(Option::is_some);
    if own.region.is_empty() && !has_network && node.is_none() {
        return <_>::default();
    }
    let mut out = Locality { region: Locality::unnamed_part(), ..Locality::default() };
    let Some(zones) = places.get(&own.region) else { return (out, None) };
    out.region = Arc::clone(&own.region);
    out.zone = Locality::unnamed_part();
    let Some(subzones) = zones.get(&own.zone) else { return (out, None) };
    out.zone = Arc::clone(&own.zone);
    if !by_node {
        return (out, None);
    }
    out.subzone = Locality::unnamed_part();
    let Some(nodes) = subzones.get(&own.subzone) else { return (out, None) };
    out.subzone = Arc::clone(&own.subzone);
    (out, node.filter(|own| nodes.contains(own)))
}

fn cut(parts: &Parts, own: &Locality) -> Locality {
    let mut out = Locality { region: Locality::unnamed_part(), ..Locality::default() };
    let Some(zones) = parts.get(&own.region) else { return out };
    out.region = Arc::clone(&own.region);
    out.zone = Locality::unnamed_part();
    let Some(subzones) = zones.get(&own.zone) else { return out };
    out.zone = Arc::clone(&own.zone);
    out.subzone =
        if subzones.contains(&own.subzone) { Arc::clone(&own.subzone) } else { Locality::unnamed_part() };
    out
}

/// Keeps each part that either order keeps.
fn join(own: &Locality, a: &Locality, b: &Locality) -> Locality {
    let part = |own: &Arc<str>, a: &Arc<str>, b: &Arc<str>| {
        if a == own || b == own {
            Arc::clone(own)
        } else if a.is_empty() {
            Arc::clone(b)
        } else {
            Arc::clone(a)
        }
    };
    Locality {
        region: part(&own.region, &a.region, &b.region),
        zone: part(&own.zone, &a.zone, &b.zone),
        subzone: part(&own.subzone, &a.subzone, &b.subzone),
    }
}

/// Keeps the labels up to the first whose value no endpoint has that agrees so far.
fn compared(order: &NamedOrder, own: &Labels) -> Labels {
    let mut kept: BTreeSet<&Arc<str>> = BTreeSet::new();
    for named in &order.labels {
        let mut list = named.labels.iter();
        if let Some(networks) = &named.networks
            && let Some(label) = list.next()
        {
            kept.extend(own.get(&label.key).filter(|value| networks.contains(*value)).map(|_| &label.key));
        }
        let mut at = &named.values;
        for label in list {
            let value = label.value.as_deref().or_else(|| own.get(&label.key));
            let Some(next) = value.and_then(|value| at.0.get(value)) else { break };
            kept.extend(label.value.is_none().then_some(&label.key));
            at = next;
        }
    }
    own.pairs().filter(|(key, _)| kept.contains(key)).map(|(k, v)| (Arc::clone(k), Arc::clone(v))).collect()
}

/// Reports every client value that changes an order.
pub(super) fn mention(
    orders: &ByNamespace<Arc<NamedOrder>>,
    dims: ClientDimensions,
    report: &mut dyn FnMut(Attr),
) {
    let mut seen = HashSet::new();
    for order in orders.values().filter(|order| seen.insert(Arc::as_ptr(order))) {
        if dims.contains(ClientDimensions::LOCALITY) {
            let near = order.near.iter().flat_map(|(_, places)| places.keys());
            near.chain(order.parts.keys()).cloned().map(Attr::Region).for_each(&mut *report);
            let places = order.near.iter().flat_map(|(_, places)| places.values());
            let subzones = places.flat_map(|zones| zones.values()).flat_map(|subzones| subzones.values());
            let nodes = subzones.flatten().filter(|_| dims.contains(ClientDimensions::NODE));
            nodes.cloned().map(Attr::Node).for_each(&mut *report);
        }
        if dims.contains(ClientDimensions::LABELS) {
            order.labels.iter().for_each(|named| mention_labels(named, report));
        }
    }
}

fn mention_labels(named: &NamedLabels, report: &mut dyn FnMut(Attr)) {
    let mut list = &*named.labels;
    if let (Some(networks), [first, rest @ ..]) = (&named.networks, list) {
        networks.iter().for_each(|value| report(Attr::Label(Arc::clone(&first.key), Arc::clone(value))));
        list = rest;
    }
    let mut level: Vec<&LabelValues> = vec![&named.values];
    for label in list {
        let found = || level.iter().flat_map(|values| values.0.iter());
        if label.value.is_none() {
            let values: BTreeSet<&Arc<str>> = found().map(|(value, _)| value).collect();
            let attr = |value: &Arc<str>| Attr::Label(Arc::clone(&label.key), Arc::clone(value));
            values.into_iter().map(attr).for_each(&mut *report);
        }
        level = found().map(|(_, next)| next).collect();
    }
}
