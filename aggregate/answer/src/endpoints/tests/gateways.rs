//! Gateways that stand in for endpoints of other networks: which, for whom, and with which weights.

use super::*;

/// Returns an endpoint of the mesh: address, network, cluster and region.
fn mk_meshed(ip: &str, network: &str, cluster: &str, region: &str) -> Address {
    let topology =
        Topology { cluster: ClusterId::new(cluster).ok(), ..(*mk_topology(network, region, "")).clone() };
    Address { mtls: true, ..mk_address_at(ip, topology.into()) }
}

fn mk_networks(addresses: Vec<Address>) -> EndpointInputs {
    let gated = mk_gated(&[
        ("net1", &[("c1a", "1.1.1.1")]),
        ("net2", &[("c2a", "2.2.2.2"), ("c2b", "2.2.2.20"), ("c2b", "2.2.2.21")]),
        ("net3", &[("c3", "3.3.3.3")]),
    ]);
    EndpointInputs { gated, automatic_tls: true, ..mk_one(addresses) }
}

/// Returns a sidecar with certificates in a network.
fn mk_client_of(network: &str) -> Projection {
    Projection {
        network: Some(NetworkId::new(network).ok()),
        certificates: Some(CertificateSource::Files),
        families: Some((true, false)),
        ..mk_projection(ClientKind::Sidecar)
    }
}

fn sent(facts: &EndpointInputs, client: &Projection) -> String {
    let all = shown(&endpoints(facts, client, &mut ()));
    let short = |line: &String| line.replacen("0 ", "", 1).replace(":8080", "").replace(":15443", "");
    all.iter().map(short).collect::<Vec<_>>().join(", ")
}

#[test]
fn clients_of_each_network_have_its_endpoints_and_gateways_into_others() {
    let hbone_only = Address { mtls: false, ..mk_meshed("10.0.0.3", "net1", "c1a", "") };
    let facts = mk_networks(vec![
        mk_meshed("10.0.0.1", "net1", "c1a", ""),
        hbone_only,
        mk_meshed("10.0.0.2", "net1", "c1b", ""),
        mk_meshed("20.0.0.1", "net2", "c2a", ""),
        mk_meshed("20.0.0.2", "net2", "c2b", ""),
        mk_meshed("20.0.0.3", "net2", "c2b", ""),
        mk_meshed("40.0.0.1", "net4", "c4", ""),
    ]);
    let into_2 = "2.2.2.2 2, 2.2.2.20 2, 2.2.2.21 2";
    let rows = [
        ("net1", format!("10.0.0.1 2, 10.0.0.2 2, 10.0.0.3 2, 40.0.0.1 2, {into_2}")),
        ("net2", "20.0.0.1 1, 20.0.0.2 1, 20.0.0.3 1, 40.0.0.1 1, 1.1.1.1 2".to_owned()),
        ("net3", format!("40.0.0.1 2, 1.1.1.1 4, {into_2}")),
        ("net4", format!("40.0.0.1 2, 1.1.1.1 4, {into_2}")),
        ("", format!("40.0.0.1 2, 1.1.1.1 4, {into_2}")),
    ];
    for (network, want) in rows {
        assert_eq!(sent(&facts, &mk_client_of(network)), want, "{network}");
    }
}

#[test]
fn gateways_need_mesh_tls_and_an_address_that_the_client_uses() {
    let facts = mk_networks(vec![mk_meshed("20.0.0.1", "net2", "c2a", "")]);
    let client = mk_client_of("net1");
    let ruled = |mesh_tls| {
        let whole = EndpointUse { mesh_tls, ..EndpointUse::default() };
        let policy = EndpointPolicy { whole, ..EndpointPolicy::default() };
        Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), [])))
    };
    let off = EndpointInputs { automatic_tls: false, ..facts.clone() };
    let passes = EndpointUse { passes: true, ..EndpointUse::default() };
    let passes = EndpointPolicy { whole: passes, ..EndpointPolicy::default() };
    let passes = Some(Arc::new(ByNamespace::new(Some(Arc::new(passes)), [])));
    let headless = EndpointInputs { resolution: Resolution::Passthrough, ..facts.clone() };
    let rows: [(&str, EndpointInputs, Projection); 10] = [
        ("keep their destination", headless, client.clone()),
        ("keep their destination", EndpointInputs { policy: passes, ..facts.clone() }, client.clone()),
        ("", facts.clone(), client.clone()),
        ("gRPC", facts.clone(), Projection { kind: Some(ClientKind::Grpc), ..client.clone() }),
        (
            "no certificates",
            facts.clone(),
            Projection { certificates: Some(CertificateSource::None), ..client.clone() },
        ),
        ("sets another mode", EndpointInputs { policy: ruled(Some(false)), ..facts.clone() }, client.clone()),
        ("", EndpointInputs { policy: ruled(Some(true)), ..off.clone() }, client.clone()),
        ("automatic mesh TLS is off", off, client.clone()),
        ("IP families", facts.clone(), Projection { families: Some((false, true)), ..client.clone() }),
        (
            "no gateway of it has a known address",
            EndpointInputs { gated: mk_gated(&[("net2", &[])]), ..facts },
            client,
        ),
    ];
    for (why, facts, client) in rows {
        let mut trace = Trace::default();
        let found = endpoints(&facts, &client, &mut trace);
        let refused = trace.steps.iter().find(|step| step.verdict == Verdict::Drop);
        assert_eq!(found.is_empty(), !why.is_empty(), "{why}");
        let refused = refused.map(|step| (step.code, step.detail.contains(why)));
        assert_eq!(refused, (!why.is_empty()).then_some((Code::OTHER_NETWORK, true)), "{why}");
    }
}

#[test]
fn gateway_stands_in_once_at_the_first_priority_with_the_weights_there() {
    let facts = EndpointInputs {
        traffic: TrafficDistribution::SameZone,
        ..mk_networks(vec![
            mk_meshed("10.0.0.1", "net1", "c1a", "r1"),
            mk_meshed("20.0.0.1", "net2", "c2a", "r2"),
            mk_meshed("20.0.0.2", "net2", "c2a", "r3"),
            mk_meshed("20.0.0.3", "net2", "c2a", "r1"),
        ])
    };
    let client =
        Projection { locality: Some(mk_topology("", "r1", "").locality.clone()), ..mk_client_of("net1") };
    let found = endpoints(&facts, &client, &mut ());
    let places: Vec<_> =
        found.localities.iter().map(|at| (at.priority, at.locality.to_string(), at.weight)).collect();
    assert_eq!(
        places,
        [(0, "r1".to_owned(), 1), (1, "r1".to_owned(), 1)],
        "without gaps or empty localities"
    );
    let facts = EndpointInputs { traffic: TrafficDistribution::Any, ..facts };
    let alike = endpoints(&facts, &client, &mut ());
    assert_eq!(shown(&alike), ["0 10.0.0.1:8080 1", "0 2.2.2.2:15443 3"]);
}

#[test]
fn unhealthy_endpoints_have_no_gateway_and_weights_are_kept() {
    let heavy = Address { weight: 3, ..mk_meshed("20.0.0.2", "net2", "c2a", "") };
    let sick = |ip, health| Address { health, ..mk_meshed(ip, "net2", "c2b", "") };
    let facts = mk_networks(vec![
        heavy,
        sick("20.0.0.3", Health::Unhealthy),
        sick("20.0.0.4", Health::Draining),
        mk_meshed("10.0.0.1", "net1", "c1a", ""),
    ]);
    assert_eq!(sent(&facts, &mk_client_of("net1")), "10.0.0.1 1, 2.2.2.2 3");
}

#[test]
fn address_of_two_networks_is_an_endpoint_of_each() {
    let facts =
        mk_networks(vec![mk_meshed("10.0.0.1", "net1", "c1a", ""), mk_meshed("10.0.0.1", "net2", "c2a", "")]);
    assert_eq!(sent(&facts, &mk_client_of("net1")), "10.0.0.1 1, 2.2.2.2 1");
    assert_eq!(sent(&facts, &mk_client_of("net3")), "1.1.1.1 1, 2.2.2.2 1");
}

#[test]
fn gateway_of_no_cluster_stands_in_where_a_cluster_has_none() {
    let gated = mk_gated(&[("net2", &[("", "9.9.9.9"), ("c2a", "2.2.2.2")])]);
    let of = |cluster| EndpointInputs {
        gated: Arc::clone(&gated),
        ..mk_networks(vec![mk_meshed("20.0.0.1", "net2", cluster, "")])
    };
    assert_eq!(sent(&of("c2a"), &mk_client_of("net1")), "2.2.2.2 1");
    assert_eq!(
        sent(&of("c2b"), &mk_client_of("net1")),
        "2.2.2.2 1, 9.9.9.9 1",
        "all gateways of the network"
    );
}

#[test]
fn gateways_that_a_client_cannot_use_hide_no_others() {
    let gated = mk_gated(&[("net2", &[("c2a", "2001:db8::9"), ("", "9.9.9.9")])]);
    let facts = EndpointInputs { gated, ..mk_networks(vec![mk_meshed("20.0.0.1", "net2", "c2a", "")]) };
    assert_eq!(sent(&facts, &mk_client_of("net1")), "9.9.9.9 1");
    let of_v6 = Projection { families: Some((false, true)), ..mk_client_of("net1") };
    assert_eq!(sent(&facts, &of_v6), "[2001:db8::9] 1");
}

#[test]
fn gateway_is_in_the_locality_with_most_of_the_weight() {
    let heavy = Address { weight: 5, ..mk_meshed("20.0.0.2", "net2", "c2a", "r2") };
    let facts = mk_networks(vec![mk_meshed("20.0.0.1", "net2", "c2a", "r1"), heavy]);
    let found = endpoints(&facts, &mk_client_of("net1"), &mut ());
    let places: Vec<_> = found.localities.iter().map(|at| (at.locality.to_string(), at.weight)).collect();
    assert_eq!(places, [("r2".to_owned(), 6)]);
}

/// Returns the weight steps, by endpoint, and the reasons of what is dropped.
fn weights(facts: &EndpointInputs, client: &Projection) -> Vec<String> {
    let mut trace = Trace::default();
    endpoints(facts, client, &mut trace);
    let is_shown = |step: &TraceStep| step.code == Code::WEIGHT || step.verdict == Verdict::Drop;
    let steps = trace.steps.into_iter().filter(is_shown);
    let mut shown: Vec<String> = steps.map(|step| format!("{} {}", step.endpoint, step.detail)).collect();
    shown.sort();
    shown
}

#[test]
fn weights_of_direct_endpoints_and_of_those_behind_gateways_are_described_alike() {
    let heavy = Address { weight: 10, ..mk_meshed("20.0.0.2", "net2", "c2b", "r1") };
    let direct = Address { weight: 10, ..mk_meshed("10.0.0.1", "net1", "c1a", "r1") };
    let facts = EndpointInputs {
        traffic: TrafficDistribution::SameZone,
        ..mk_networks(vec![
            direct,
            heavy,
            mk_meshed("20.0.0.1", "net2", "c2a", "r1"),
            mk_meshed("20.0.0.3", "net2", "c2a", "r2"),
        ])
    };
    let client =
        Projection { locality: Some(mk_topology("", "r1", "").locality.clone()), ..mk_client_of("net1") };
    let unit = "(an ordinary endpoint has 2)";
    let behind = [
        format!("20.0.0.1:8080 weight 2 {unit}, through its gateway, priority 1, locality r1"),
        format!("20.0.0.2:8080 weight 20 {unit}, shared by 2 gateways, priority 1, locality r1"),
        format!(
            "20.0.0.3:8080 weight 2 {unit}, through its gateway, which has the weight of nearer endpoints instead, priority 1, locality r2"
        ),
    ];
    let direct = format!("10.0.0.1:8080 weight 20 {unit}, priority 0, locality r1");
    assert_eq!(weights(&facts, &client), [&[direct][..], &behind].concat());
}

#[test]
fn gateway_at_the_address_of_a_direct_endpoint_is_left_out() {
    let port = GroupPort { name: PortName::new("http").unwrap(), number: Some(mk_port(15443)) };
    let source = Source::new(ObjectId::new("Slice", "shop", "a"));
    let near = vec![mk_meshed("2.2.2.2", "net1", "c1a", "")];
    let group = Arc::new(EndpointGroup::new(source, vec![Arc::from([port])], Vec::new(), near));
    let facts = |behind| {
        let far = mk_group("b", &[], vec![mk_meshed("20.0.0.1", "net2", behind, "")]);
        let sources = vec![mk_source("east", group.clone()), mk_source("west", far)];
        EndpointInputs { sources: sources.into(), ..mk_networks(Vec::new()) }
    };
    let client = mk_client_of("net1");
    let direct = "2.2.2.2:15443 weight 1, priority 0, no locality";
    let why = "the client reaches each of its gateways directly as an endpoint of the service";
    let steps = weights(&facts("c2a"), &client);
    let [shown, refused] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(shown, direct);
    assert!(refused.starts_with("20.0.0.1:8080 ") && refused.contains(why), "{refused}");
    assert_eq!(sent(&facts("c2a"), &client), "2.2.2.2 1");
    let steps = weights(&facts(""), &client);
    let left_out = "shared by 3 gateways, of which 2.2.2.2:15443 is left out: the client reaches it directly";
    assert!(steps[1].starts_with("20.0.0.1:8080 ") && steps[1].contains(left_out), "{}", steps[1]);
    assert_eq!(sent(&facts(""), &client), "2.2.2.2 3, 2.2.2.20 1, 2.2.2.21 1");
}
