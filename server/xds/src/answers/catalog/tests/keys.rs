//! Counts of encoded resources: they follow the outcomes of a resource, not the number of clients.

use tributary_model::{
    Address, ClientDimensions, EndpointInputs, EndpointSource, NodeName, PortView, ResourceInputs, Shared,
    Topology, TrafficDistribution,
};

use super::*;
use crate::answers::ClientClass;

/// Puts each endpoint of a port on a node of its own, and prefers endpoints of the client's node.
fn on_nodes(port: &PortView) -> PortView {
    let source = &port.endpoints.inputs.sources[0];
    let topology = |n: usize| Topology { node: NodeName::new(format!("n{n}")).ok(), ..Topology::default() };
    let place = |(n, address): (usize, &Address)| Address { topology: topology(n).into(), ..address.clone() };
    let addresses = source.group.addresses.iter().enumerate().map(place).collect();
    let group = tributary_model::EndpointGroup { addresses, ..(*source.group).clone() };
    let sources = [EndpointSource { group: group.into(), ..source.clone() }].into();
    let traffic = TrafficDistribution::SameNode;
    let facts = EndpointInputs { sources, traffic, ..port.endpoints.inputs.clone() };
    let dims = ClientDimensions::NODE | ClientDimensions::LOCALITY | ClientDimensions::NETWORK;
    PortView { endpoints: Shared::new(ResourceInputs::new(facts, dims)), ..port.clone() }
}

#[test]
fn three_endpoints_on_a_thousand_nodes_are_encoded_four_times() {
    let service = mk_svc("pay.shop").at(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let catalog = World::default().next(&[service]);
    let port = on_nodes(&catalog.services().next().unwrap().ports[0]);
    let store = Store::new(Budget::DEFAULT);
    for n in 0..1_000 {
        let node = NodeName::new(format!("n{n}")).ok();
        Assignments::fill(&store, &port, &ClientClass { node, ..ClientClass::new(ClientKind::Sidecar) });
    }
    assert_eq!(store.counters.encodes(ResourceType::Endpoints), 4);
}

#[test]
fn routes_are_encoded_for_the_own_namespace_and_for_all_others() {
    const NAMESPACES: usize = 1_000;
    let name = |n: usize| format!("n{n}");
    let service = |n: usize| {
        let host = format!("pay.{}.svc.cluster.local", name(n));
        mk_svc(&host).in_namespace(&name(n)).on(&[(80, Protocol::Http), (81, Protocol::Http)])
    };
    let catalog = World::default().next(&(0..NAMESPACES).map(service).collect::<Vec<_>>());
    let answers = CatalogAnswers::default();
    for n in 0..NAMESPACES {
        let class = mk_class(ClientKind::Sidecar, &name(n));
        let domain = Some(format!("{}.svc.cluster.local", name(n)).into());
        let class = ClientClassKey::alone(ClientClass { domain, ..(*class).clone() });
        for table in ["80", "81"] {
            assert!(answers.one(&catalog, &class, ResourceType::Route, table).is_some());
        }
    }
    let ports = u64::try_from(NAMESPACES * 2).unwrap();
    assert_eq!(answers.counters().encodes(ResourceType::Route), 2 * ports);
    assert_eq!(Cause::ALL.map(|cause| answers.counters().passes(cause)), [1, 0, 0], "more than one base");
}
