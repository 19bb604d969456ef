//! Effects of the cluster context on documents that leave a field unset.

use std::sync::Arc;

use tributary_kube_client::ClusterContext;
use tributary_model::labels::NETWORK;
use tributary_model::*;

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

/// The network and the label of the endpoint `endpoint`.
fn endpoint_networks(location: &str, endpoint: &str) -> (Option<NetworkId>, Option<String>) {
    let spec =
        format!("{ENTRY}  location: {location}\n  resolution: STATIC\n  endpoints: [{{{endpoint}}}]\n");
    let context = ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    let all = facts("ServiceEntry", "", &spec, context).into_iter();
    let mut groups = all.filter_map(|fact| if let Fact::Group(_, g) = fact { Some(g) } else { None });
    let address = groups.next().unwrap().addresses[0].clone();
    (address.topology.network.clone(), address.labels.get(NETWORK).map(ToOwned::to_owned))
}

const LABELLED: &str = "labels: {topology.istio.io/network: label}";

#[test]
fn network_of_a_workload_is_that_of_its_spec_only() {
    let context = || ClusterContext { network: Some(network("own")), ..ClusterContext::default() };
    for (spec, routed, label) in [
        ("", None, "own"),
        ("  network: net\n", Some("net"), "net"),
        (&*format!("  {LABELLED}\n"), None, "label"),
        (&*format!("  network: net\n  {LABELLED}\n"), Some("net"), "label"),
    ] {
        let w = workload(&format!("  address: 10.0.0.1\n{spec}"), context());
        assert_eq!(w.topology.network, routed.map(network), "{spec}");
        assert_eq!(w.augmented.get(NETWORK), Some(label), "selectors match it: {spec}");
    }
}

#[test]
fn network_of_an_endpoint_is_that_of_its_spec_only() {
    let label = |text: &str| Some(text.to_owned());
    assert_eq!(endpoint_networks("MESH_INTERNAL", "address: 10.0.0.1"), (None, label("own")));
    assert_eq!(endpoint_networks("MESH_EXTERNAL", "address: 10.0.0.1"), (None, None));
    let labelled = format!("address: 10.0.0.1, {LABELLED}");
    assert_eq!(endpoint_networks("MESH_INTERNAL", &labelled), (None, label("label")));
    let specified = "address: 10.0.0.1, network: net";
    assert_eq!(endpoint_networks("MESH_EXTERNAL", specified), (Some(network("net")), label("net")));
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
