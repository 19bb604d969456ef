//! Conversion of Sidecars to policies.

use super::*;

fn policy(meta: &str, spec: &str) -> (PolicyKey, Arc<DeclaredPolicy>) {
    let facts = facts(&mk("Sidecar", meta, spec));
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    (key.clone(), Arc::clone(declared))
}

fn sidecar(spec: &str) -> Sidecar {
    let Policy::Sidecar(sidecar) = policy("", spec).1.policy.clone() else { panic!("not a Sidecar") };
    sidecar
}

#[test]
fn sidecar_becomes_a_policy_of_its_object() {
    let meta = "  creationTimestamp: \"2026-01-02T03:04:05Z\"\n";
    let (key, declared) = policy(meta, "  egress: [{hosts: [./*]}]\n");
    assert_eq!(key.to_string(), "Sidecar shop/pay");
    assert_eq!(declared.source.object, ObjectId::new("Sidecar", "shop", "pay"));
    assert_eq!(&*declared.source.position.text(), "f.yaml:1:1");
    assert_eq!(declared.created.unwrap().to_string(), "2026-01-02T03:04:05Z");
}

#[test]
fn egress_listeners_keep_their_order_and_fields() {
    let sidecar = sidecar(
        "  workloadSelector: {labels: {app: pay}}\n  egress:\n  - {port: {number: 80, protocol: HTTP, name: web}, bind: 10.0.0.9, captureMode: NONE, hosts: [\"*/*\"]}\n  - hosts: [\"~/*\", ./a.b]\n",
    );
    assert_eq!(sidecar.selector.get("app"), Some("pay"));
    let [first, second] = &sidecar.egress[..] else { panic!("{:?}", sidecar.egress) };
    let port = first.port.as_ref().unwrap();
    assert_eq!((port.number.get(), port.protocol, port.name.as_str()), (80, Protocol::Http, "web"));
    assert_eq!((first.bind, first.capture), ("10.0.0.9".parse().ok(), CaptureMode::None));
    let hosts: Vec<String> = second.hosts.iter().map(ToString::to_string).collect();
    assert_eq!((hosts, &second.port), (vec!["~/*".to_owned(), "./a.b".to_owned()], &None));
}

#[test]
fn ingress_listeners_keep_their_destination() {
    let sidecar = sidecar(
        "  ingress:\n  - {port: {number: 80}, defaultEndpoint: \":8080\"}\n  - {port: {number: 81, protocol: GRPC}, defaultEndpoint: \"unix:///run/a\"}\n  - port: {number: 82}\n",
    );
    let ends: Vec<_> = sidecar.ingress.iter().map(|listener| listener.endpoint.clone()).collect();
    let own = IngressEndpoint::Address(None, PortNumber::new(8080).unwrap());
    assert_eq!(ends, [Some(own), Some(IngressEndpoint::Unix("/run/a".into())), None]);
    assert_eq!(sidecar.ingress[1].port.protocol, Protocol::Grpc);
    assert_eq!(sidecar.ingress[0].port.protocol, Protocol::Unspecified);
}

#[test]
fn outbound_mode_is_registry_only_if_its_policy_names_none() {
    let mode = |text: &str| sidecar(&format!("  egress: [{{hosts: [./*]}}]\n{text}")).outbound;
    assert_eq!(mode(""), None);
    assert_eq!(mode("  outboundTrafficPolicy: {}\n"), Some(OutboundMode::RegistryOnly));
    assert_eq!(mode("  outboundTrafficPolicy: {mode: ALLOW_ANY}\n"), Some(OutboundMode::AllowAny));
    let proxy =
        "  outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: Out.x, port: {number: 8080}}}\n";
    let (host, port) = (Hostname::new("out.x").unwrap(), PortNumber::new(8080).unwrap());
    assert_eq!(mode(proxy), Some(OutboundMode::Proxy(EgressProxy { host, port })));
}

#[test]
fn fields_without_effect_are_named() {
    let sidecar = sidecar(
        "  workloadSelector: {}\n  egress: [{port: {number: 80}, bind: 10.0.0.9, captureMode: NONE, hosts: [./*]}]\n  inboundConnectionPool: {tcp: {maxConnections: 1}}\n  ingress: [{port: {number: 80}, connectionPool: {tcp: {maxConnections: 1}}}]\n",
    );
    let ignored: Vec<&str> = sidecar.ignored.iter().map(|path| &**path).collect();
    assert_eq!(
        ignored,
        ["spec.inboundConnectionPool", "spec.ingress[0].connectionPool", "spec.workloadSelector"]
    );
}
