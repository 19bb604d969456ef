//! Conversion of EnvoyFilters to policies.

use super::*;

fn filter(spec: &str) -> EnvoyFilter {
    let facts = facts(&mk("EnvoyFilter", "", spec));
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(key.to_string(), "EnvoyFilter shop/pay");
    let Policy::EnvoyFilter(filter) = declared.policy.clone() else { panic!("not an EnvoyFilter") };
    filter
}

fn patch(fields: &str) -> ConfigPatch {
    let filter = filter(&format!("  configPatches:\n  - {{{fields}}}\n"));
    let [patch] = &filter.patches[..] else { panic!("{:?}", filter.patches) };
    patch.clone()
}

#[test]
fn filter_keeps_selection_priority_and_order() {
    let cluster = "{applyTo: CLUSTER, patch: {operation: REMOVE, value: {}}}";
    let listener = "{applyTo: LISTENER, match: {listener: {portName: x}}, patch: {operation: REMOVE}}";
    let filter = filter(&format!(
        "  workloadSelector: {{labels: {{app: pay}}}}\n  priority: -3\n  targetRefs: [{{kind: Service, name: x}}]\n  configPatches: [{cluster}, {listener}]\n"
    ));
    assert_eq!((filter.selector.get("app"), filter.priority, filter.has_targets), (Some("pay"), -3, true));
    let kinds: Vec<ApplyTo> = filter.patches.iter().map(|patch| patch.apply_to).collect();
    assert_eq!(kinds, [ApplyTo::Cluster, ApplyTo::Listener]);
    let ignored: Vec<&str> = filter.ignored.iter().map(|path| &**path).collect();
    assert_eq!(
        ignored,
        ["spec.configPatches[0].patch.value", "spec.configPatches[1].match.listener.portName"]
    );
}

#[test]
fn empty_names_and_ports_match_everything() {
    let patch = patch(
        "applyTo: CLUSTER, match: {proxy: {proxyVersion: ''}, cluster: {name: '', portNumber: 0}}, patch: {operation: MERGE, value: {}}",
    );
    assert_eq!(patch.context, PatchContext::Any);
    assert_eq!(patch.proxy, ProxyMatch::default());
    assert_eq!(patch.object, ObjectMatch::Cluster(ClusterMatch::default()));
    assert_eq!(patch.value.as_deref(), Some(&[][..]));
}

#[test]
fn matches_keep_every_field() {
    let routes = patch(
        "applyTo: HTTP_ROUTE, match: {context: SIDECAR_OUTBOUND, routeConfiguration: {portNumber: 80, name: '80', vhost: {name: a, domainName: b, route: {name: c, action: REDIRECT}}}}, patch: {operation: REMOVE}",
    );
    let route = RouteMatch { name: Some("c".into()), action: RouteAction::Redirect };
    let host = VirtualHostMatch { name: Some("a".into()), domain: Some("b".into()), route: Some(route) };
    let expected = RoutesMatch { port: Some(80), name: Some("80".into()), host: Some(host) };
    assert_eq!(routes.object, ObjectMatch::Routes(Box::new(expected)));
    assert_eq!((routes.context, routes.value), (PatchContext::Outbound, None));
    let listener = patch(
        "applyTo: FILTER_CHAIN, match: {proxy: {proxyVersion: '1.3', metadata: {a: ''}}, listener: {portNumber: 9, name: n, listenerFilter: f, filterChain: {name: c, sni: s, transportProtocol: t, applicationProtocols: 'a, b', destinationPort: 8}}}, patch: {operation: REMOVE}",
    );
    let chain = ChainMatch {
        name: Some("c".into()),
        sni: Some("s".into()),
        transport: Some("t".into()),
        applications: ["a", "b"].map(Arc::from).into(),
        port: Some(8),
        filter: None,
        sub_filter: None,
    };
    let expected = ListenerMatch {
        port: Some(9),
        name: Some("n".into()),
        listener_filter: Some("f".into()),
        chain: Some(chain),
    };
    assert_eq!(listener.object, ObjectMatch::Listener(Box::new(expected)));
    assert!(listener.proxy.version.unwrap().is_in("x1.3x"));
    assert_eq!(listener.proxy.metadata, [("a".into(), "".into())].into());
}

#[test]
fn values_are_encoded_in_one_order() {
    let of = |fields: &str| {
        patch(&format!("applyTo: CLUSTER, patch: {{operation: MERGE, value: {{{fields}}}}}")).value.unwrap()
    };
    assert_eq!(of("name: a, connectTimeout: 1s"), of("connect_timeout: 1000ms, name: a"));
    let keys = |order: [u32; 3]| {
        let fields: Vec<String> = order.iter().map(|i| format!("k{i}: {{x: {i}}}")).collect();
        of(&format!("metadata: {{filter_metadata: {{{}}}}}", fields.join(", ")))
    };
    assert_eq!(keys([1, 2, 3]), keys([3, 1, 2]));
}
