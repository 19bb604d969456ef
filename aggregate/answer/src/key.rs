//! Reduces a client to what makes a difference to one answer: the key of its bytes.
//!
//! A dimension alone is too much: three endpoints on three of a thousand nodes have four outcomes, not a
//! thousand. So a value that the inputs do not name becomes one that nothing equals, and all such
//! values share a key. The plans read the key as they read any projection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{
    ByNamespace, ClientDimensions, ClientKind, ClusterId, ClusterInputs, EndpointInputs, EndpointPolicy,
    EndpointSource, Hostname, HttpCandidate, L4Candidate, ListenerInputs, Locality, NamedValues, Namespace,
    NetworkId, NodeName, Projection, ResourceInputs, RouteInputs, ServiceAddress, Visibility,
};

use crate::client::ClientClass;
use crate::virtual_service::{choose_http, choose_l4, mention};

mod order;

/// Client value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attr {
    /// Network.
    Network(NetworkId),
    /// Cluster.
    Cluster(ClusterId),
    /// Node.
    Node(NodeName),
    /// Region, with the zones and subzones in it.
    Region(Arc<str>),
    /// Namespace.
    Namespace(Namespace),
    /// DNS domain of one namespace.
    Domain(Arc<str>),
    /// Key and value of a label.
    Label(Arc<str>, Arc<str>),
}

/// Returns the values of a client.
#[must_use]
pub fn attrs(client: &ClientClass) -> Vec<Attr> {
    let region = Attr::Region(Arc::clone(&client.locality.region));
    let named = [
        client.network.clone().map(Attr::Network),
        client.cluster.clone().map(Attr::Cluster),
        client.node.clone().map(Attr::Node),
        client.namespace.clone().map(Attr::Namespace),
        client.domain.clone().map(Attr::Domain),
    ];
    let label = |(key, value): (&Arc<str>, &Arc<str>)| Attr::Label(Arc::clone(key), Arc::clone(value));
    named.into_iter().flatten().chain([region]).chain(client.labels.pairs().map(label)).collect()
}

/// Replaces the values that are not kept by values that no inputs mention. Inputs that mention none of the
/// replaced values give both clients the same bytes.
#[must_use]
pub fn base(client: &ClientClass, keeps: impl Fn(&Attr) -> bool) -> ClientClass {
    // what a Sidecar imports is seen from its namespace, and is as small as an overlay
    let narrow = client.scope().egress().is_some();
    let keeps = |attr: &Attr| narrow && matches!(attr, Attr::Namespace(_) | Attr::Domain(_)) || keeps(attr);
    let domain = |own: Arc<str>| {
        if keeps(&Attr::Domain(Arc::clone(&own))) {
            return Some(own);
        }
        own.split_once(".svc.").map(|(_, suffix)| foreign_domain(suffix))
    };
    let own = client.clone();
    let label = |(key, value): (&Arc<str>, &Arc<str>)| {
        keeps(&Attr::Label(Arc::clone(key), Arc::clone(value))).then(|| (Arc::clone(key), Arc::clone(value)))
    };
    ClientClass {
        labels: own.labels.pairs().filter_map(label).collect(),
        // no resource of a set has the paths, or is of its workload
        certificate_files: None,
        inbound: None,
        authorization: None,
        tokens: None,
        trust_domains: None,
        withholds_inbound: false,
        network: own.network.map(|n| if keeps(&Attr::Network(n.clone())) { n } else { NetworkId::unnamed() }),
        cluster: own.cluster.map(|c| if keeps(&Attr::Cluster(c.clone())) { c } else { ClusterId::unnamed() }),
        node: own.node.map(|n| if keeps(&Attr::Node(n.clone())) { n } else { NodeName::unnamed() }),
        namespace: own.namespace.filter(|ns| keeps(&Attr::Namespace(ns.clone()))),
        domain: own.domain.and_then(domain),
        locality: if keeps(&Attr::Region(Arc::clone(&own.locality.region))) {
            own.locality
        } else {
            other_place(&own.locality)
        },
        ..own
    }
}

fn other_place(own: &Locality) -> Locality {
    let region = if own.region.is_empty() { Arc::clone(&own.region) } else { Locality::unnamed_part() };
    Locality { region, ..Locality::default() }
}

/// Dimensions whose values the inputs may name; the others have few values.
const OPEN: [ClientDimensions; 7] = [
    ClientDimensions::NETWORK,
    ClientDimensions::CLUSTER,
    ClientDimensions::LOCALITY,
    ClientDimensions::NODE,
    ClientDimensions::NAMESPACE,
    ClientDimensions::DOMAIN,
    ClientDimensions::LABELS,
];

/// Inputs that name client values.
pub trait Outcomes: Sized {
    /// Replaces the values that the inputs do not name.
    #[must_use]
    fn reduce(node: &ResourceInputs<Self>, client: Projection) -> Projection;
    /// Adds the choice among the VirtualServices, in place of the client values that decide it.
    #[must_use]
    fn choose(_: &Self, _: &ClientClass, reduced: Projection) -> Projection {
        reduced
    }
    /// Reports every client value that changes the key.
    fn mentions(node: &ResourceInputs<Self>, report: &mut dyn FnMut(Attr));
}

/// Returns the key of the bytes that these inputs give to a client.
#[must_use]
pub fn key<T: Outcomes>(node: &ResourceInputs<T>, client: &ClientClass) -> Projection {
    // names of a router differ where nothing else does
    let is_router = client.kind == ClientKind::Router;
    let own = if is_router { ClientDimensions::KIND } else { ClientDimensions::NONE };
    let projection = client.project(node.dimensions | own);
    let is_open = OPEN.into_iter().any(|dimension| node.dimensions.meets(dimension));
    let reduced = if is_open { T::reduce(node, projection) } else { projection };
    T::choose(&node.inputs, client, reduced)
}

impl Outcomes for EndpointInputs {
    fn reduce(node: &ResourceInputs<Self>, client: Projection) -> Projection {
        let named = node.named_or_make(named);
        let order = named.orders.get(client.namespace.as_ref().and_then(Option::as_ref));
        let (locality, near, labels) = order::reduce(order, &client);
        let node_name = |own: NodeName| {
            let is_named = named.nodes.contains(&own) || near.as_ref() == Some(&own);
            if is_named { own } else { NodeName::unnamed() }
        };
        Projection {
            node: client.node.clone().map(|own| own.map(node_name)),
            locality: client.locality.is_some().then_some(locality),
            labels: client.labels.is_some().then_some(labels),
            ..admitted(named, order.near.is_some(), client)
        }
    }
    fn mentions(node: &ResourceInputs<Self>, report: &mut dyn FnMut(Attr)) {
        mention_endpoints(node, node.dimensions, report);
    }
}

impl Outcomes for ClusterInputs {
    fn reduce(node: &ResourceInputs<Self>, client: Projection) -> Projection {
        let ClusterInputs { inline, policy, .. } = &node.inputs;
        let own = client.namespace.clone().flatten();
        let reduced = match inline {
            Some(inline) => EndpointInputs::reduce(inline, client),
            None => client,
        };
        let Some(policy) = policy else { return reduced };
        let alike = |own: &Namespace| match inline {
            // two namespaces with the same endpoints may have different rules
            Some(inline) => {
                let is_named = inline.named_or_make(named).namespaces.contains_key(own);
                (is_named || policy.alike(own).is_some()).then(|| own.clone())
            }
            None => policy.alike(own).cloned(),
        };
        let namespace = reduced.namespace.as_ref().map(|_| own.as_ref().and_then(alike));
        Projection { namespace, ..reduced }
    }
    fn mentions(node: &ResourceInputs<Self>, report: &mut dyn FnMut(Attr)) {
        mention_ruled(node.inputs.policy.as_deref(), report);
        if let Some(inline) = &node.inputs.inline {
            mention_endpoints(inline, node.dimensions, report);
        }
    }
}

impl Outcomes for ListenerInputs {
    /// Listeners match the endpoints that a client may have, in any order.
    fn reduce(node: &ResourceInputs<Self>, client: Projection) -> Projection {
        let addressed = cluster_of(&node.inputs.addresses, &client);
        let Some(endpoints) = &node.inputs.endpoints else {
            let namespace = client.namespace.clone().map(|own| own.and_then(|own| ruled(&node.inputs, own)));
            return Projection { cluster: addressed, namespace, ..client };
        };
        let named = endpoints.named_or_make(named);
        let node_name = |own: NodeName| if named.nodes.contains(&own) { own } else { NodeName::unnamed() };
        let by_endpoints = admitted(named, false, client.clone());
        let cluster =
            if addressed.as_ref().is_some_and(Option::is_some) { addressed } else { by_endpoints.cluster };
        let is_named = |own: &Namespace| {
            named.namespaces.contains_key(own) || node.inputs.policies().any(|by| by.alike(own).is_some())
        };
        let namespace = match node.inputs.policies().next() {
            // two namespaces with the same endpoints may have different rules
            Some(_) => client.namespace.clone().map(|own| own.filter(is_named)),
            None => by_endpoints.namespace,
        };
        Projection { node: client.node.map(|own| own.map(node_name)), cluster, namespace, ..by_endpoints }
    }
    fn choose(facts: &Self, client: &ClientClass, reduced: Projection) -> Projection {
        if facts.virtual_services.is_empty() {
            return reduced;
        }
        Projection { labels: None, choices: Some(choose_l4(facts, client)), ..reduced }
    }
    fn mentions(node: &ResourceInputs<Self>, report: &mut dyn FnMut(Attr)) {
        mention_addresses(&node.inputs.addresses, report);
        node.inputs.policies().for_each(|by| mention_ruled(Some(by), report));
        mention(&node.inputs.virtual_services, L4Candidate::clients, report);
        if let Some(endpoints) = &node.inputs.endpoints {
            mention_endpoints(endpoints, node.dimensions, report);
        }
    }
}

impl Outcomes for RouteInputs {
    /// gRPC has one table for any authority.
    fn reduce(node: &ResourceInputs<Self>, client: Projection) -> Projection {
        let RouteInputs { service, addresses, .. } = &node.inputs;
        let (domain, cluster) = match client.kind {
            Some(ClientKind::Grpc) => {
                (client.domain.as_ref().map(|_| None), client.cluster.as_ref().map(|_| None))
            }
            _ => (
                client.domain.clone().map(|own| domain_of(own?, &service.host)),
                cluster_of(addresses, &client),
            ),
        };
        let ruled = |own: Namespace| node.inputs.hash.as_ref()?.alike(&own).cloned();
        let namespace = client.namespace.clone().map(|own| own.and_then(ruled));
        Projection { domain, cluster, namespace, ..client }
    }
    fn choose(facts: &Self, client: &ClientClass, reduced: Projection) -> Projection {
        if facts.virtual_services.is_empty() {
            return reduced;
        }
        let hashes = || facts.destinations.iter().filter_map(|to| to.hash.as_ref()).chain(&facts.hash);
        let is_named = |own: &Namespace| hashes().any(|by| by.alike(own).is_some());
        let namespace = Some(client.namespace.clone().filter(is_named));
        Projection { namespace, labels: None, choices: Some(choose_http(facts, client)), ..reduced }
    }
    fn mentions(node: &ResourceInputs<Self>, report: &mut dyn FnMut(Attr)) {
        mention_addresses(&node.inputs.addresses, report);
        mention(&node.inputs.virtual_services, HttpCandidate::clients, report);
        if node.inputs.has_service {
            mention_names(&node.inputs.service.host, report);
        }
        mention_ruled(node.inputs.hash.as_deref(), report);
        for to in node.inputs.destinations.iter() {
            mention_ruled(to.hash.as_deref(), report);
        }
    }
}

/// Returns the namespace that stands for a client's own: of one table of rules, the first with the same value.
fn ruled(facts: &ListenerInputs, own: Namespace) -> Option<Namespace> {
    let mut policies = facts.policies();
    let first = policies.next()?;
    if policies.next().is_none() {
        return first.alike(&own).cloned();
    }
    facts.policies().any(|by| by.alike(&own).is_some()).then_some(own)
}

/// Returns the key of the names that a client has for a host.
#[must_use]
pub fn key_of_names(host: &Hostname, client: &ClientClass) -> Projection {
    let domain = client.domain.clone().and_then(|own| domain_of(own, host));
    Projection { domain: Some(domain), ..Projection::default() }
}

/// Reports every client value that changes the names of a host.
pub fn mention_names(host: &Hostname, report: &mut dyn FnMut(Attr)) {
    if let Some(domain) = own_domain(host) {
        report(Attr::Domain(domain.into()));
    }
}

/// Returns the DNS domain whose clients reach a host by its first label.
fn own_domain(host: &Hostname) -> Option<&str> {
    let (_, domain) = host.as_str().split_once('.')?;
    let (name, _) = host.as_str().split_once(".svc.")?;
    name.contains('.').then_some(domain)
}

/// Reports the namespaces whose clients have rules of their own.
fn mention_ruled<T: PartialEq>(rules: Option<&ByNamespace<T>>, report: &mut dyn FnMut(Attr)) {
    let namespaces = rules.into_iter().flat_map(ByNamespace::namespaces);
    namespaces.cloned().map(Attr::Namespace).for_each(report);
}

fn list_of(visibility: &Visibility) -> &[Namespace] {
    if let Visibility::Namespaces(list) = visibility { list } else { &[] }
}

fn mention_addresses(addresses: &[ServiceAddress], report: &mut dyn FnMut(Attr)) {
    addresses.iter().filter_map(|a| a.cluster.clone()).for_each(|cluster| report(Attr::Cluster(cluster)));
}

fn mention_endpoints(
    node: &ResourceInputs<EndpointInputs>,
    dims: ClientDimensions,
    report: &mut dyn FnMut(Attr),
) {
    let is_open = OPEN.into_iter().any(|dimension| dims.meets(dimension));
    if !is_open {
        return;
    }
    let named = node.named_or_make(named);
    let has = |dimension| dims.contains(dimension);
    if has(ClientDimensions::NETWORK) {
        named.networks.iter().cloned().map(Attr::Network).for_each(&mut *report);
    }
    if has(ClientDimensions::CLUSTER) {
        named.clusters.iter().cloned().map(Attr::Cluster).for_each(&mut *report);
    }
    if has(ClientDimensions::NAMESPACE) {
        named.namespaces.keys().cloned().map(Attr::Namespace).for_each(&mut *report);
    }
    if has(ClientDimensions::NODE) {
        named.nodes.iter().cloned().map(Attr::Node).for_each(&mut *report);
    }
    order::mention(&named.orders, dims, report);
}

/// Returns the DNS domain if the host is of its namespace, a domain with only its suffix if the host is of its suffix.
fn domain_of(domain: Arc<str>, host: &Hostname) -> Option<Arc<str>> {
    let (own, suffix) = domain.split_once(".svc.")?;
    let (name, _) = host.as_str().split_once(".svc.").filter(|(_, rest)| *rest == suffix)?;
    let is_own = own.is_empty() || name.split_once('.').is_some_and(|(_, namespace)| namespace == own);
    if is_own {
        return Some(domain);
    }
    Some(foreign_domain(suffix))
}

/// Returns the DNS domain of a client whose namespace has no service.
fn foreign_domain(suffix: &str) -> Arc<str> {
    format!(".svc.{suffix}").into()
}

/// Returns the client's cluster if an address is of it. Any other cluster is like none.
fn cluster_of(addresses: &[ServiceAddress], client: &Projection) -> Option<Option<ClusterId>> {
    let is_named = |own: &ClusterId| addresses.iter().any(|a| a.cluster.as_ref() == Some(own));
    client.cluster.clone().map(|own| own.filter(is_named))
}

/// Reduces the values that decide which endpoints a client may have. `compares`: whether the order of
/// endpoints compares networks, where no network is one of its own.
fn admitted(named: &NamedValues, compares: bool, client: Projection) -> Projection {
    let network = |own: NetworkId| {
        let other = || compares.then(NetworkId::unnamed);
        if named.networks.contains(&own) { Some(own) } else { other() }
    };
    let cluster = |own: ClusterId| {
        if named.clusters.contains(&own) { own } else { ClusterId::unnamed() }
    };
    let namespace = |own: Namespace| named.namespaces.get(&own).cloned();
    Projection {
        network: client.network.map(|own| own.and_then(network)),
        cluster: client.cluster.map(|own| own.map(cluster)),
        namespace: client.namespace.map(|own| own.and_then(namespace)),
        ..client
    }
}

fn named(facts: &EndpointInputs) -> NamedValues {
    let mut out = NamedValues {
        namespaces: namespaces(facts),
        orders: order::named_orders(facts),
        ..NamedValues::default()
    };
    for source in facts.sources.iter() {
        let attributes = &source.declaration.attributes;
        let by_cluster = attributes.cluster_local || attributes.own_cluster_only;
        for address in &*source.group.addresses {
            let topology = &address.topology;
            out.networks.extend(topology.network.clone());
            out.clusters.extend(topology.cluster.clone().filter(|_| by_cluster));
            out.nodes.extend(topology.node.clone().filter(|_| attributes.node_local));
        }
    }
    out
}

/// Groups the namespaces that the sources and rules name by what they see and what applies to them.
fn namespaces(facts: &EndpointInputs) -> BTreeMap<Namespace, Namespace> {
    let own = &facts.service.namespace;
    let sees = |client: Option<&Namespace>| -> (Vec<bool>, Option<&EndpointPolicy>) {
        let admits = |source: &EndpointSource| source.visibility.admits(own, client);
        (facts.sources.iter().map(admits).collect(), facts.policy_of(client))
    };
    let mut first: HashMap<_, Namespace> = HashMap::new();
    let mut out = BTreeMap::new();
    let without = sees(None);
    for namespace in listed(facts) {
        let seen = sees(Some(namespace));
        if seen != without {
            let first = first.entry(seen).or_insert_with(|| namespace.clone());
            out.insert(namespace.clone(), first.clone());
        }
    }
    out
}

/// Returns the namespaces that any visibility or rule names, sorted.
fn listed(facts: &EndpointInputs) -> BTreeSet<&Namespace> {
    let lists = facts.sources.iter().flat_map(|source| list_of(&source.visibility));
    let ruled = facts.policy.iter().flat_map(|policy| policy.namespaces());
    lists.chain(ruled).chain([&facts.service.namespace]).collect()
}

#[cfg(test)]
mod tests;
