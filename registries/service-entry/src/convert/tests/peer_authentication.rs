//! Conversion of PeerAuthentications to policies.

use super::*;

fn policy(meta: &str, spec: &str) -> (PolicyKey, Arc<DeclaredPolicy>) {
    let text = mk("PeerAuthentication", meta, spec).replace("networking.istio.io", "security.istio.io");
    let facts = facts(&text);
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    (key.clone(), Arc::clone(declared))
}

fn peer(spec: &str) -> PeerAuthentication {
    let Policy::PeerAuthentication(peer) = policy("", spec).1.policy.clone() else { panic!("another kind") };
    peer
}

#[test]
fn peer_authentication_becomes_a_policy_of_its_object() {
    let meta = "  creationTimestamp: \"2026-01-02T03:04:05Z\"\n";
    let (key, declared) = policy(meta, "  mtls: {mode: STRICT}\n");
    assert_eq!(key.to_string(), "PeerAuthentication shop/pay");
    assert_eq!(declared.source.object, ObjectId::new("PeerAuthentication", "shop", "pay"));
    assert_eq!(declared.created.unwrap().to_string(), "2026-01-02T03:04:05Z");
}

#[test]
fn modes_are_kept_for_all_and_single_ports() {
    let mode = |text: &str| peer(&format!("  mtls: {text}\n")).mode;
    for (name, expected) in MtlsMode::NAMES {
        assert_eq!(mode(&format!("{{mode: {name}}}")), Some(*expected));
    }
    assert_eq!([mode("{mode: UNSET}"), mode("{}"), mode("~")], [None; 3]);
    let one = peer(
        "  selector: {matchLabels: {app: pay}}\n  portLevelMtls: {8080: {mode: DISABLE}, 80: {mode: UNSET}, 9: {}}\n",
    );
    let ports: Vec<_> = one.ports.iter().map(|(port, mode)| (port.get(), *mode)).collect();
    assert_eq!(ports, [(9, None), (80, None), (8080, Some(MtlsMode::Disable))]);
    assert_eq!((one.selector.get("app"), one.mode), (Some("pay"), None));
    assert!(one.ignored.is_empty());
}

#[test]
fn selector_without_labels_has_no_effect() {
    for selector in ["{}", "{matchLabels: {}}"] {
        let one = peer(&format!("  selector: {selector}\n  mtls: {{mode: STRICT}}\n"));
        assert!(one.selector.is_empty());
        assert_eq!(one.ignored.iter().map(|path| &**path).collect::<Vec<_>>(), ["spec.selector"]);
    }
}
