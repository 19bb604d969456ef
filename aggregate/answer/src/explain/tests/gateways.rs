//! Endpoints behind gateways without a client, and gateways as the endpoint of the query.

use super::*;

fn mk_gateway(name: &str, address: Option<GatewayAddress>) -> (GatewayKey, Shared<Gateway>) {
    let object = ObjectId::new("Service", "istio-system", name);
    let key = GatewayKey {
        network: NetworkId::new("net2").unwrap(),
        cluster: ClusterId::new("c2").unwrap(),
        object: object.clone(),
        index: 0,
    };
    let mtls_port = Some(mk_port(15443));
    let gateway = Gateway { source: Source::new(object), address, mtls_port, hbone_port: None };
    (key, Shared::new(gateway))
}

/// Returns `pay.shop` with these endpoints in network `net2` behind a gateway.
fn mk_far(ips: &[&str]) -> Catalog {
    let address = |ip: &&str| Address { mtls: true, ..mk_address_at(ip, mk_topology("net2", "", "")) };
    let gated = mk_gated(&[("net2", &[("c2", "2.2.2.2")])]);
    let facts = EndpointInputs { gated, automatic_tls: true, ..mk_one(ips.iter().map(address).collect()) };
    let mut catalog = mk_served(facts, Visibility::Public);
    let ip = GatewayAddress::Ip("2.2.2.2".parse().unwrap());
    catalog.gateways.extend([
        mk_gateway("eastwest", Some(ip)),
        mk_gateway("named", Some(GatewayAddress::Name("gw.test".into()))),
    ]);
    catalog
}

#[test]
fn endpoint_behind_gateways_is_left_open_without_a_client() {
    let catalog = mk_far(&["20.0.0.1"]);
    let explanation = explain_one(&catalog, "20.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Served);
    let networks: Vec<&StepDocument> =
        explanation.steps.iter().filter(|step| step.stage == Stage::Network).collect();
    let [step] = networks[..] else { panic!("{networks:?}") };
    assert_eq!((step.verdict, step.code), (Verdict::Pass, Code::THROUGH_GATEWAY));
    assert_eq!(
        step.detail,
        "clients of network net2 reach it directly, others through its gateways: 2.2.2.2:15443"
    );
    let mut facts = catalog.services().next().unwrap().ports[0].endpoints.inputs.clone();
    facts.automatic_tls = false;
    let plain = mk_served(facts, Visibility::Public);
    let explanation = explain_one(&plain, "20.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Served, "clients of its network have it");
    let step = explanation.steps.iter().find(|step| step.stage == Stage::Network).unwrap();
    assert_eq!((step.verdict, step.code), (Verdict::Warn, Code::OTHER_NETWORK));
    assert!(step.detail.contains("others do not receive it: gateways need mesh TLS"), "{}", step.detail);
}

#[test]
fn gateway_names_its_network_and_the_endpoints_behind_it() {
    let catalog = mk_far(&["20.0.0.1", "20.0.0.2"]);
    for text in ["2.2.2.2", "2.2.2.2:15443"] {
        let explanation = explain_one(&catalog, text, None);
        assert_eq!((explanation.verdict, &*explanation.endpoint), (Outcome::Served, "2.2.2.2:15443"));
        let object = explanation.steps[0].object.as_ref().map(|object| &*object.name);
        assert_eq!(object, Some("eastwest"));
        let details: Vec<&str> = explanation.steps.iter().map(|step| step.detail.as_str()).collect();
        assert_eq!(
            details,
            [
                "gateway of network net2, reported by cluster c2",
                "it stands in for 20.0.0.1:8080 of pay.shop:80, 20.0.0.2:8080 of pay.shop:80",
            ]
        );
    }
    let other = explain_one(&catalog, "2.2.2.2:80", None);
    assert_eq!(decided(&other), [(Stage::Source, Verdict::Drop, 502)], "another port is no gateway");
    let plain = explain_one(&catalog, "2.2.2.2", Some(&mk_client("web")));
    assert_eq!(plain.verdict, Outcome::Dropped, "a client without certificates uses none");
    assert_eq!(decided(&plain).last(), Some(&(Stage::Network, Verdict::Warn, 556)));
}

#[test]
fn gateway_with_a_host_name_is_explained_by_the_name_and_by_its_addresses() {
    let mut catalog = mk_far(&["20.0.0.1"]);
    let ips = ["2.2.2.2", "2.2.2.3"].map(|ip| ip.parse().unwrap());
    catalog.gateway_names.insert("gw.test".into(), Shared::new(ResolvedName::new(ips)));
    let details = |catalog: &Catalog, text: &str, at: usize| {
        let explanation = &explain(catalog, &text.parse().unwrap(), None)[at];
        explanation.steps.iter().map(|step| (step.verdict, step.detail.clone())).collect::<Vec<_>>()
    };
    for (text, at) in [("gw.test", 0), ("2.2.2.2:15443", 1)] {
        let steps = details(&catalog, text, at);
        assert_eq!(steps[1], (Verdict::Pass, "host name gw.test has 2.2.2.2, 2.2.2.3".to_owned()), "{text}");
        assert_eq!(steps[2].1, "it stands in for 20.0.0.1:8080 of pay.shop:80", "{text}");
    }
    let failure = NameFailure { since: Mono(7), reason: "no answer".into() };
    let failing = ResolvedName::new(ips).failing(failure);
    catalog.gateway_names.insert("gw.test".into(), Shared::new(failing));
    let steps = details(&catalog, "gw.test:15443", 0);
    let kept = "host name gw.test had 2.2.2.2, 2.2.2.3, which stay in use: no answer";
    assert_eq!(steps[1], (Verdict::Warn, kept.to_owned()));
    let socket = GatewaySocket {
        cluster: ClusterId::new("c2").ok(),
        address: ips[1],
        port: mk_port(15443),
        name: Some("gw.test".into()),
    };
    let mut facts = catalog.services().next().unwrap().ports[0].endpoints.inputs.clone();
    let id = NetworkId::new("net2").unwrap();
    facts.gated = [Arc::new(GatedNetwork { id, gateways: [socket].into() })].into();
    let explanation = explain_one(&mk_served(facts, Visibility::Public), "20.0.0.1", None);
    let step = explanation.steps.iter().find(|step| step.stage == Stage::Network).unwrap();
    assert!(step.detail.ends_with("others through its gateways: 2.2.2.3:15443 (gw.test)"), "{}", step.detail);
}

#[test]
fn gateway_that_cannot_be_used_shows_what_it_lacks() {
    let mut catalog = mk_far(&["20.0.0.1"]);
    let explanation = explain_one(&catalog, "gw.test", None);
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert_eq!(decided(&explanation), [(Stage::Source, Verdict::Drop, 557)]);
    assert!(explanation.steps[0].detail.ends_with("its host name is not resolved yet"));
    let failure = NameFailure { since: Mono(7), reason: "no such name".into() };
    catalog.gateway_names.insert("gw.test".into(), Shared::new(ResolvedName::default().failing(failure)));
    let step = &explain_one(&catalog, "gw.test", None).steps[0];
    assert!(step.detail.ends_with("its host name has no address: no such name"), "{}", step.detail);
    assert_eq!(step.time, Some(StepTime::Since(Mono(7))));
    catalog.settings = Shared::new(Settings { cross_network_direct: Some(true), ..Settings::default() });
    let direct = explain_one(&catalog, "2.2.2.2", None);
    assert!(direct.steps[0].detail.contains("clients do not use it: `crossNetwork: direct` is set"));
}

#[test]
fn endpoints_behind_a_gateway_are_bounded() {
    let ips: Vec<String> = (1..=20).map(|at| format!("20.0.0.{at}")).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let explanation = explain_one(&mk_far(&ips), "2.2.2.2", None);
    let detail = &explanation.steps[1].detail;
    assert!(detail.ends_with(" and 4 more") && detail.matches(" of pay.shop:80").count() == 16, "{detail}");
}
