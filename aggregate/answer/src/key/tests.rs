//! Tables and properties: a key has one value per outcome, and gives the answer of the whole client.

use std::collections::HashSet;

use proptest::prelude::*;
use tributary_model::{
    Address, AddressRef, Attributes, ClientKind, ConnectionPolicy, Declaration, HashKey, Protocol,
    Resolution, Shared, TrafficDistribution,
};

use super::*;
use crate::fixtures::*;
use crate::listener::listener;
use crate::route::{names_of, route};

fn on_nodes(nodes: &[&str]) -> EndpointInputs {
    let address = |(i, node): (usize, &&str)| {
        let ip = [10, 0, 0, u8::try_from(i).unwrap()];
        Address::new(AddressRef::Ip(ip.into()), mk_topology("", "r1/z1", node))
    };
    mk_one(nodes.iter().enumerate().map(address).collect())
}
fn on_node(n: usize) -> ClientClass {
    ClientClass {
        node: NodeName::new(format!("n{n}")).ok(),
        locality: Locality::parse("r1/z1"),
        ..ClientClass::new(ClientKind::Sidecar)
    }
}
fn keys<T: Outcomes>(node: &ResourceInputs<T>, of: impl Iterator<Item = ClientClass>) -> usize {
    of.map(|class| key(node, &class)).collect::<HashSet<_>>().len()
}

#[test]
fn three_endpoints_on_a_thousand_nodes_have_four_keys() {
    let near = EndpointInputs { traffic: TrafficDistribution::SameNode, ..on_nodes(&["n1", "n2", "n3"]) };
    let dims = ClientDimensions::NODE | ClientDimensions::LOCALITY | ClientDimensions::NETWORK;
    assert_eq!(keys(&ResourceInputs::new(near.clone(), dims), (0..1000).map(on_node)), 4);
    let elsewhere = |n| ClientClass { locality: Locality::parse(&format!("r{n}/z1")), ..on_node(n) };
    assert_eq!(keys(&ResourceInputs::new(near, dims), (2..1000).map(elsewhere)), 1);
    let mut local = on_nodes(&["n1", "n2", "n3"]);
    let attributes = Attributes { node_local: true, ..Attributes::default() };
    let mut sources = local.sources.to_vec();
    sources[0].declaration = Declaration { attributes, ..mk_declaration("pay") }.into();
    local.sources = sources.into();
    let endpoints = Shared::new(ResourceInputs::new(local, ClientDimensions::NODE));
    assert_eq!(keys(&endpoints, (0..1000).map(on_node)), 4);
    let facts = ListenerInputs { endpoints: Some(endpoints), ..mk_listener(&[]) };
    assert_eq!(keys(&ResourceInputs::new(facts, ClientDimensions::NODE), (0..1000).map(on_node)), 4);
}

fn mk_listener(addresses: &[(&str, &str)]) -> ListenerInputs {
    ListenerInputs {
        service: mk_key("pay.shop", "shop"),
        port: mk_port(80),
        protocol: Protocol::Tcp,
        resolution: Resolution::ClientSide,
        addresses: addresses.iter().map(|(ip, cluster)| mk_cluster_ip(ip, cluster)).collect(),
        endpoints: None,
        policy: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
    }
}
fn mk_cluster_ip(ip: &str, cluster: &str) -> ServiceAddress {
    ServiceAddress {
        cluster: ClusterId::new(cluster).ok(),
        ip: ip.parse().unwrap(),
        prefix: 32,
        allocated: false,
    }
}
fn mk_route(host: &str) -> RouteInputs {
    RouteInputs {
        service: mk_key(host, "shop"),
        port: mk_port(80),
        protocol: Protocol::Http,
        resolution: Resolution::ClientSide,
        addresses: [mk_cluster_ip("10.9.0.1", "c1"), mk_cluster_ip("10.9.0.2", "c2")].into(),
        headless: false,
        retries: None,
        hash: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
        has_service: true,
    }
}
fn in_namespace(namespace: &str, suffix: &str) -> ClientClass {
    ClientClass {
        namespace: Namespace::new(namespace).ok(),
        domain: (!suffix.is_empty()).then(|| format!("{namespace}.svc.{suffix}").into()),
        ..ClientClass::new(ClientKind::Sidecar)
    }
}
fn route_dims() -> ClientDimensions {
    ClientDimensions::KIND | ClientDimensions::DOMAIN | ClientDimensions::CLUSTER
}

#[test]
fn a_thousand_namespaces_have_two_keys_of_a_route() {
    let node = ResourceInputs::new(mk_route("pay.n7.svc.cluster.local"), route_dims());
    let all = || (0..1000).map(|n| in_namespace(&format!("n{n}"), "cluster.local"));
    assert_eq!(keys(&node, all()), 2);
    let elsewhere = (0..1000).map(|n| in_namespace("n7", &format!("cluster{n}.local")));
    assert_eq!(keys(&node, elsewhere), 1, "short forms are of one suffix");
    let clusters = (0..100)
        .map(|n| ClientClass { cluster: ClusterId::new(format!("c{n}")).ok(), ..in_namespace("a", "") });
    assert_eq!(keys(&node, clusters), 3, "two clusters have an address");
}

/// Returns a value of most clients, and others of the namespaces shop and web.
fn mk_by_namespace<T: PartialEq>(values: [T; 3]) -> Arc<ByNamespace<Option<Arc<T>>>> {
    let [usual, shop, web] = values.map(|value| Some(Arc::new(value)));
    let named = [("shop", shop), ("web", web)].map(|(name, value)| (Namespace::new(name).unwrap(), value));
    Arc::new(ByNamespace::new(usual, named))
}
fn mk_hashed(header: &str) -> HashKey {
    HashKey::Header(header.into())
}

#[test]
fn clients_with_other_rules_have_other_hash_keys() {
    let dims = route_dims() | ClientDimensions::NAMESPACE;
    let hash = Some(mk_by_namespace(["a", "b", "b"].map(mk_hashed)));
    let node = ResourceInputs::new(RouteInputs { hash, ..mk_route("pay.example.com") }, dims);
    let of = |namespace: &str| key(&node, &in_namespace(namespace, "cluster.local"));
    let header = |namespace: &str| route(&node.inputs, &of(namespace)).unwrap().hash;
    assert_eq!(header("n9").as_deref(), Some(&mk_hashed("a")));
    assert_eq!(header("shop").as_deref(), Some(&mk_hashed("b")));
    assert_eq!(of("shop"), of("web"), "equal rules have one key");
    assert_eq!(keys(&node, (0..1000).map(|n| in_namespace(&format!("n{n}"), "cluster.local"))), 1);
}

fn some_class() -> impl Strategy<Value = ClientClass> {
    let namespace = prop::sample::select(vec!["", "shop", "web", "n9"]);
    let suffix = prop::sample::select(vec!["", "cluster.local", "other.local"]);
    let cluster = prop::sample::select(vec!["", "c1", "c2", "c9"]);
    (namespace, suffix, cluster).prop_map(|(namespace, suffix, cluster)| ClientClass {
        cluster: ClusterId::new(cluster).ok(),
        ..in_namespace(namespace, suffix)
    })
}

proptest! {
    #[test]
    fn key_of_a_route_gives_the_route_of_the_whole_client(
        class in some_class(),
        host in prop::sample::select(vec!["pay.shop.svc.cluster.local", "pay.web.svc.cluster.local", "pay.example.com"]),
        ruled in any::<bool>(),
    ) {
        let hash = ruled.then(|| mk_by_namespace(["a", "b", "c"].map(mk_hashed)));
        let dims = if ruled { route_dims() | ClientDimensions::NAMESPACE } else { route_dims() };
        let node = ResourceInputs::new(RouteInputs { hash, ..mk_route(host) }, dims);
        prop_assert_eq!(route(&node.inputs, &key(&node, &class)), route(&node.inputs, &class.project(dims)));
        let names = |domain: Option<&str>| names_of(&mk_host(host), domain, true);
        let key = key_of_names(&mk_host(host), &class);
        prop_assert_eq!(names(key.domain.flatten().as_deref()), names(class.domain.as_deref()));
    }

    #[test]
    fn key_of_a_listener_gives_the_parts_of_the_whole_client(class in some_class(), inline in any::<bool>(), ruled in any::<bool>()) {
        let addresses: &[_] = if inline { &[] } else { &[("10.9.0.1", "c1"), ("10.9.0.2", "c2")] };
        let mut facts = mk_listener(addresses);
        let rule = |seconds| ConnectionPolicy {
            idle_timeout: Some(std::time::Duration::from_secs(seconds)),
            ..ConnectionPolicy::default()
        };
        facts.policy = ruled.then(|| mk_by_namespace([1, 2, 3].map(rule)));
        let ruled = if ruled { ClientDimensions::NAMESPACE } else { ClientDimensions::NONE };
        let dims = ClientDimensions::KIND | ClientDimensions::CLUSTER | ruled;
        facts.endpoints = inline.then(|| Shared::new(ResourceInputs::new(on_nodes(&["n1"]), dims)));
        let node = ResourceInputs::new(facts, dims);
        let whole = listener(&node.inputs, &class.project(dims), &mut ());
        prop_assert_eq!(listener(&node.inputs, &key(&node, &class), &mut ()), whole);
    }
}
