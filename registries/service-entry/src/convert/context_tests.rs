//! Effects of the cluster context on documents that leave a field unset.

use std::sync::Arc;

use tributary_model::labels::NETWORK;
use tributary_model::*;
use tributary_registry_api::ClusterContext;

use super::*;
use crate::read::load::load_str;

fn network(name: &str) -> NetworkId {
    NetworkId::new(name).unwrap()
}

fn shop() -> Namespace {
    Namespace::new("shop").unwrap()
}

fn facts(kind: &str, meta: &str, spec: &str, context: ClusterContext) -> Vec<Fact> {
    let text = format!(
        "apiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata:\n  name: pay\n  namespace: shop\n{meta}spec:\n{spec}"
    );
    let mut object = load_str(&text, "f.yaml").documents.remove(0);
    object.cluster_context = Arc::new(context);
    convert(&object, &Context::new(ClusterId::new("east").unwrap()))
}

fn workload(spec: &str, context: ClusterContext) -> Arc<Workload> {
    let found = facts("WorkloadEntry", "", spec, context).into_iter().find_map(|fact| match fact {
        Fact::Workload(_, workload) => Some(workload),
        _ => None,
    });
    found.unwrap()
}

const ENTRY: &str = "  hosts: [a.b]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n";

fn declaration(meta: &str, context: ClusterContext) -> Arc<Declaration> {
    let all = facts("ServiceEntry", meta, ENTRY, context).into_iter();
    let mut found = all.filter_map(|fact| if let Fact::Service(_, d) = fact { Some(d) } else { None });
    found.next().unwrap()
}

fn endpoint_network(location: &str) -> Option<NetworkId> {
    let spec = format!(
        "{ENTRY}  location: {location}\n  resolution: STATIC\n  endpoints: [{{address: 10.0.0.1}}]\n"
    );
    let context = ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    let all = facts("ServiceEntry", "", &spec, context).into_iter();
    let mut groups = all.filter_map(|fact| if let Fact::Group(_, g) = fact { Some(g) } else { None });
    groups.next().unwrap().addresses[0].topology.network.clone()
}

#[test]
fn workload_without_a_network_takes_that_of_its_context() {
    let context = || ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    for (spec, expected) in [
        ("  address: 10.0.0.1\n", "own"),
        ("  address: 10.0.0.1\n  network: net\n", "net"),
        ("  address: 10.0.0.1\n  labels: {topology.istio.io/network: label}\n", "label"),
        ("  address: 10.0.0.1\n  network: net\n  labels: {topology.istio.io/network: label}\n", "net"),
    ] {
        let w = workload(spec, context());
        assert_eq!(w.topology.network, Some(network(expected)), "{spec}");
        assert_eq!(w.augmented.get(NETWORK), Some(expected), "{spec}");
    }
}

#[test]
fn external_endpoint_does_not_take_the_cluster_network() {
    assert_eq!(endpoint_network("MESH_INTERNAL"), Some(network("own")));
    assert_eq!(endpoint_network("MESH_EXTERNAL"), None);
}

#[test]
fn traffic_distribution_defaults_to_the_namespaces() {
    let context = || ClusterContext {
        traffic: [(shop(), TrafficDistribution::SameZone)].into(),
        ..ClusterContext::default()
    };
    assert_eq!(declaration("", context()).attributes.traffic, TrafficDistribution::SameZone);
    let own = "  annotations: {networking.istio.io/traffic-distribution: PreferSameNode}\n";
    assert_eq!(declaration(own, context()).attributes.traffic, TrafficDistribution::SameNode);
    let any = "  annotations: {networking.istio.io/traffic-distribution: Any}\n";
    assert_eq!(declaration(any, context()).attributes.traffic, TrafficDistribution::Any);
}

#[test]
fn trust_domain_of_the_mesh_precedes_the_configured_one() {
    let context = ClusterContext { trust_domain: Some("mesh.test".into()), ..ClusterContext::default() };
    let w = workload("  address: 10.0.0.1\n  serviceAccount: till\n", context);
    assert_eq!(w.identity.as_ref().unwrap().to_string(), "spiffe://mesh.test/ns/shop/sa/till");
}
