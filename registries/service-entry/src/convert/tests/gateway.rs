//! Gateways as policies.

use tributary_model::{ForwardingGateway, Policy, PolicyKind};

use super::*;

const GATEWAY: &str = r#"apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - port: {number: 443, name: https, protocol: HTTPS}
    tls: {mode: SIMPLE, credentialName: c}
    hosts: ["*"]
  - port: {number: 15443, name: tls, protocol: TLS, targetPort: 443}
    bind: 10.0.0.1
    tls: {mode: AUTO_PASSTHROUGH, minProtocolVersion: TLSV1_2}
    hosts: ["*.local", shop/pay.example.com, ./*]
  - port: {number: 80, protocol: HTTP}
    hosts: ["*"]
"#;

#[test]
fn gateway_becomes_a_policy_with_the_servers_that_are_served() {
    let all = facts(GATEWAY);
    let [Fact::Policy(key, declared)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((key.kind, key.to_string().as_str()), (PolicyKind::Gateway, "Gateway istio-system/cross"));
    let Policy::Gateway(gateway) = &declared.policy else { panic!("another kind") };
    let ForwardingGateway { selector, servers, unserved, ignored } = gateway;
    assert_eq!(selector.get("istio"), Some("eastwestgateway"));
    let [server] = &**servers else { panic!("{servers:?}") };
    assert_eq!((server.port.get(), server.bind), (15_443, "10.0.0.1".parse().ok()));
    let hosts: Vec<String> = server.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["*/*.local", "shop/pay.example.com", "./*"]);
    assert_eq!(
        unserved.iter().map(|text| &**text).collect::<Vec<_>>(),
        ["spec.servers[0] (port 443, SIMPLE)", "spec.servers[2] (port 80, no TLS)"]
    );
    let ignored: Vec<&str> = ignored.iter().map(|path| &**path).collect();
    assert_eq!(ignored, ["spec.servers[1].port.targetPort", "spec.servers[1].tls.minProtocolVersion"]);
}
