//! What surroundings make of a document that does not say it itself.

use std::sync::Arc;

use tributary_model::labels::NETWORK;
use tributary_model::*;
use tributary_registry_api::ClusterContext;

use super::*;
use crate::load::load_str;

fn network(name: &str) -> NetworkId {
    NetworkId::new(name).unwrap()
}

fn shop() -> Namespace {
    Namespace::new("shop").unwrap()
}

fn facts(kind: &str, meta: &str, spec: &str, around: ClusterContext) -> Vec<Fact> {
    let text = format!(
        "apiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata:\n  name: pay\n  namespace: shop\n{meta}spec:\n{spec}"
    );
    let mut object = load_str(&text, "f.yaml").documents.remove(0);
    object.cluster_context = Arc::new(around);
    convert(&object, &Context::new(ClusterId::new("east").unwrap()))
}

fn workload(spec: &str, around: ClusterContext) -> Arc<Workload> {
    let found = facts("WorkloadEntry", "", spec, around).into_iter().find_map(|fact| match fact {
        Fact::Workload(_, workload) => Some(workload),
        _ => None,
    });
    found.unwrap()
}

const ENTRY: &str = "  hosts: [a.b]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n";

fn declaration(meta: &str, around: ClusterContext) -> Arc<Declaration> {
    let all = facts("ServiceEntry", meta, ENTRY, around).into_iter();
    let mut found = all.filter_map(|fact| if let Fact::Service(_, d) = fact { Some(d) } else { None });
    found.next().unwrap()
}

fn endpoint_network(location: &str) -> Option<NetworkId> {
    let spec = format!(
        "{ENTRY}  location: {location}\n  resolution: STATIC\n  endpoints: [{{address: 10.0.0.1}}]\n"
    );
    let around = ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    let all = facts("ServiceEntry", "", &spec, around).into_iter();
    let mut groups = all.filter_map(|fact| if let Fact::Group(_, g) = fact { Some(g) } else { None });
    groups.next().unwrap().addresses[0].topology.network.clone()
}

#[test]
fn a_workload_without_a_network_lies_in_that_of_its_surroundings_by_routing_and_by_label() {
    let around = || ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    for (spec, expected) in [
        ("  address: 10.0.0.1\n", "own"),
        ("  address: 10.0.0.1\n  network: said\n", "said"),
        ("  address: 10.0.0.1\n  labels: {topology.istio.io/network: label}\n", "label"),
        ("  address: 10.0.0.1\n  network: said\n  labels: {topology.istio.io/network: label}\n", "said"),
    ] {
        let w = workload(spec, around());
        assert_eq!(w.topology.network, Some(network(expected)), "{spec}");
        assert_eq!(w.augmented.get(NETWORK), Some(expected), "{spec}");
    }
}

#[test]
fn an_endpoint_outside_the_mesh_lies_in_no_network_of_the_cluster() {
    assert_eq!(endpoint_network("MESH_INTERNAL"), Some(network("own")));
    assert_eq!(endpoint_network("MESH_EXTERNAL"), None);
}

#[test]
fn the_namespaces_traffic_distribution_counts_where_the_entry_says_none() {
    let around = || ClusterContext {
        traffic: [(shop(), TrafficDistribution::SameZone)].into(),
        ..ClusterContext::default()
    };
    assert_eq!(declaration("", around()).attributes.traffic, TrafficDistribution::SameZone);
    let own = "  annotations: {networking.istio.io/traffic-distribution: PreferSameNode}\n";
    assert_eq!(declaration(own, around()).attributes.traffic, TrafficDistribution::SameNode);
    let any = "  annotations: {networking.istio.io/traffic-distribution: Any}\n";
    assert_eq!(declaration(any, around()).attributes.traffic, TrafficDistribution::Any);
}

#[test]
fn the_meshs_trust_domain_comes_before_the_contexts() {
    let around = ClusterContext { trust_domain: Some("mesh.test".into()), ..ClusterContext::default() };
    let w = workload("  address: 10.0.0.1\n  serviceAccount: till\n", around);
    assert_eq!(w.identity.as_ref().unwrap().to_string(), "spiffe://mesh.test/ns/shop/sa/till");
}
