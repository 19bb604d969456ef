//! Random policies.

use super::authorization_policies::authorization_policy;
use super::envoy_filters::envoy_filter;
use super::request_authentications::request_authentication;
use super::traffic_policies::destination_rule;
use super::virtual_services::virtual_service;
use super::*;

fn listener_port() -> BoxedStrategy<ListenerPort> {
    let protocol = select(vec![Protocol::Unspecified, Protocol::Http, Protocol::Mysql]);
    (port(), protocol, port_name())
        .prop_map(|(number, protocol, name)| ListenerPort { number, protocol, name })
        .boxed()
}
fn capture() -> BoxedStrategy<CaptureMode> {
    select(vec![CaptureMode::Default, CaptureMode::Iptables, CaptureMode::None]).boxed()
}
fn import() -> BoxedStrategy<HostImport> {
    let namespace = prop_oneof![
        Just(ImportNamespace::Any),
        Just(ImportNamespace::Own),
        Just(ImportNamespace::None),
        namespace().prop_map(ImportNamespace::Named),
    ];
    let all = Just(HostPattern::new("*").unwrap());
    let host = prop_oneof![all, host().prop_map(HostPattern::from)];
    (namespace, host).prop_map(|(namespace, host)| HostImport { namespace, host }).boxed()
}
fn egress() -> BoxedStrategy<EgressListener> {
    (of(listener_port()), of(any::<IpAddr>()), capture(), vec(import(), 0..4))
        .prop_map(|(port, bind, capture, hosts)| EgressListener { port, bind, capture, hosts: hosts.into() })
        .boxed()
}
fn ingress() -> BoxedStrategy<IngressListener> {
    let endpoint = prop_oneof![
        (of(any::<IpAddr>()), port()).prop_map(|(ip, port)| IngressEndpoint::Address(ip, port)),
        text().prop_map(IngressEndpoint::Unix),
    ];
    (listener_port(), of(any::<IpAddr>()), capture(), of(endpoint))
        .prop_map(|(port, bind, capture, endpoint)| IngressListener { port, bind, capture, endpoint })
        .boxed()
}
fn sidecar() -> BoxedStrategy<Policy> {
    let proxy = (host(), port()).prop_map(|(host, port)| OutboundMode::Proxy(EgressProxy { host, port }));
    let plain = select(vec![OutboundMode::AllowAny, OutboundMode::RegistryOnly]);
    let outbound = of(prop_oneof![plain, proxy]);
    (labels(), vec(egress(), 0..3), vec(ingress(), 0..3), outbound, vec(text(), 0..3))
        .prop_map(|(selector, egress, ingress, outbound, ignored)| {
            let (egress, ingress, ignored) = (egress.into(), ingress.into(), ignored.into());
            Policy::Sidecar(Sidecar { selector, egress, ingress, outbound, ignored })
        })
        .boxed()
}

fn peer_authentication() -> BoxedStrategy<Policy> {
    let mode = || of(select(MtlsMode::NAMES.iter().map(|(_, mode)| *mode).collect::<Vec<_>>()));
    (labels(), mode(), btree_map(port(), mode(), 0..4), vec(text(), 0..3))
        .prop_map(|(selector, mode, ports, ignored)| {
            let ignored = ignored.into();
            Policy::PeerAuthentication(PeerAuthentication { selector, mode, ports, ignored })
        })
        .boxed()
}

fn gateway() -> BoxedStrategy<Policy> {
    let server = (port(), of(any::<IpAddr>()), vec(import(), 0..4))
        .prop_map(|(port, bind, hosts)| ForwardingServer { port, bind, hosts: hosts.into() });
    (labels(), vec(server, 0..3), vec(text(), 0..3), vec(text(), 0..3))
        .prop_map(|(selector, servers, unserved, ignored)| {
            let (servers, unserved, ignored) = (servers.into(), unserved.into(), ignored.into());
            Policy::Gateway(ForwardingGateway { selector, servers, unserved, ignored })
        })
        .boxed()
}

/// Any policy, of the object that its key names or of another one.
pub(super) fn policy() -> BoxedStrategy<Fact> {
    let created = of((0i64..2_000_000_000).prop_map(|s| Timestamp::from_second(s).unwrap()));
    let policy = prop_oneof![
        sidecar(),
        destination_rule(),
        virtual_service(),
        envoy_filter(),
        peer_authentication(),
        authorization_policy(),
        request_authentication(),
        gateway(),
    ];
    (namespace(), name(), source(), any::<bool>(), created, policy)
        .prop_map(|(namespace, name, mut source, same, created, policy)| {
            let key = PolicyKey { kind: policy.kind(), namespace, name: name.as_str().into() };
            if same {
                source.object = ObjectId::new(key.kind.as_str(), key.namespace.as_str(), &key.name);
            }
            Fact::Policy(key, Arc::new(DeclaredPolicy { source, created, policy }))
        })
        .boxed()
}
