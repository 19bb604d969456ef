//! Golden bytes: equal in every process, and equal to those of the last release.

use std::path::Path;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, LbPolicy};
use envoy_types::pb::envoy::config::core::v3::address::Address as At;
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, HealthStatus, Metadata};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::google::protobuf::value::Kind as Is;
use tributary_model::{CertificateSource, Distribution, LocalityBalancing};

use super::*;
use crate::answers::ClientClass;

/// Returns a service of every kind.
fn mk_services() -> Vec<Svc> {
    let dns = |host: &str, resolution| Svc {
        names: vec!["db.example.com".into(), "db2.example.com".into()],
        ..mk_svc(host).at(&[]).resolved(resolution)
    };
    vec![
        Svc { mtls: true, ..mk_svc("pay.shop.svc.cluster.local").at(&["10.0.0.1", "10.0.0.2", "fd00::3"]) }
            .virtual_at(&["10.9.0.1"]),
        mk_svc("grpc.shop").on(&[(80, Protocol::Grpc), (90, Protocol::Http2), (53, Protocol::Udp)]),
        mk_svc("tcp.shop").on(&[(5432, Protocol::Tcp)]).virtual_at(&["10.9.0.2", "fd00::1"]),
        mk_svc("tls.shop").on(&[(443, Protocol::Tls)]),
        mk_svc("*.wild.com").on(&[(443, Protocol::Tls), (80, Protocol::Http)]).resolved(Resolution::Dynamic),
        mk_svc("headless.shop").on(&[(7000, Protocol::Tcp)]).resolved(Resolution::Passthrough),
        dns("strict.shop", Resolution::DnsStrict),
        dns("logical.shop", Resolution::DnsLogical),
        Svc { names: vec!["/run/pay.sock".into()], ..mk_svc("unix.shop").at(&[]) },
        mk_svc("empty.shop").at(&[]),
        mk_shared(),
        mk_meshed(),
    ]
}
/// A service of a mesh with automatic TLS.
fn mk_meshed() -> Svc {
    let ports = [(80, Protocol::Http), (90, Protocol::Grpc)];
    Svc { mtls: true, account: Some("web".into()), ..mk_svc("meshed.shop").on(&ports) }
}
/// A service whose requests go to two of its three localities, a third of them to one.
fn mk_shared() -> Svc {
    let to = [("eu/1a".into(), 33), ("eu/1b".into(), 67)].into();
    let shares = [Distribution { from: "*".into(), to }];
    let order = Some(LocalityBalancing::Distribute(shares.into()));
    Svc { order, ..mk_svc("shared.shop").at(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]) }
}
fn mk_classes() -> [ClientClassKey; 3] {
    [ClientKind::Envoy, ClientKind::Sidecar, ClientKind::Grpc].map(|kind| mk_class(kind, "shop"))
}
/// Encodes all resources of these services, for every kind of client.
fn goldens() -> Vec<(String, Bytes)> {
    let (catalog, answers) = (World::default().next(&mk_services()), CatalogAnswers::default());
    let mut out = Vec::new();
    for class in mk_classes() {
        for kind in ResourceType::ALL {
            for member in answers.folded(&catalog, &class, kind).set.members() {
                let body = answers.bytes(&catalog, &class, kind, member).unwrap();
                out.push((format!("{:?} {} {}", class.kind, kind.as_str(), member.name), body));
            }
        }
    }
    for (label, certificates) in [
        ("Files", CertificateSource::Files),
        ("Agent", CertificateSource::Sds(CertificateSource::AGENT.into())),
    ] {
        let plain = mk_class(ClientKind::Sidecar, "shop");
        let class = ClientClassKey::alone(ClientClass { certificates, ..(*plain).clone() });
        let kind = ResourceType::Cluster;
        let set = answers.folded(&catalog, &class, kind).set;
        for member in set.iter().filter(|member| member.name.contains("meshed")) {
            let body = answers.bytes(&catalog, &class, kind, member).unwrap();
            out.push((format!("{label} cds {}", member.name), body));
        }
    }
    out
}
fn mk_text() -> String {
    goldens().iter().map(|(name, body)| format!("{name} {}\n", hex(body))).collect()
}
fn hex(body: &[u8]) -> String {
    body.iter().map(|b| format!("{b:02x}")).collect()
}
fn mk_cluster(kind: ClientKind, name: &str) -> Cluster {
    let wanted = format!("{kind:?} cds {name}");
    let found = goldens().into_iter().find(|(name, _)| *name == wanted);
    Cluster::decode(found.unwrap_or_else(|| panic!("no {wanted}")).1).unwrap()
}
fn metadata(of: &Option<Metadata>, key: &str, field: &str) -> Option<String> {
    match &of.as_ref()?.filter_metadata.get(key)?.fields.get(field)?.kind {
        Some(Is::StringValue(text)) => Some(text.clone()),
        other => panic!("{key}.{field} is {other:?}"),
    }
}

const CHILD: &str = "TRIBUTARY_GOLDENS";

#[test]
fn two_processes_encode_the_same_bytes() {
    let own = mk_text();
    if let Some(path) = std::env::var_os(CHILD) {
        return std::fs::write(path, own).unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "answers::catalog::tests::goldens::two_processes_encode_the_same_bytes"])
        .env(CHILD, file.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let other = std::fs::read_to_string(file.path()).unwrap();
    assert!(own.lines().count() > 60, "too few goldens");
    assert_eq!(own, other);
}

#[test]
fn encoded_bytes_equal_the_goldens() {
    // A difference makes every client reload the resource once.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/answers/catalog/tests/goldens.txt");
    let versions: String =
        goldens().iter().map(|(name, body)| format!("{} {name}\n", Version::of(body))).collect();
    if std::env::var_os("TRIBUTARY_BLESS").is_some() {
        std::fs::write(&path, &versions).unwrap();
    }
    let pinned = std::fs::read_to_string(path).unwrap();
    for (now, then) in versions.lines().zip(pinned.lines()) {
        assert_eq!(now, then, "run with TRIBUTARY_BLESS=1 if the change is intended");
    }
    assert_eq!(versions.lines().count(), pinned.lines().count());
}

#[test]
fn assignment_contains_every_endpoint_attribute() {
    let (catalog, answers) = (World::default().next(&mk_services()), CatalogAnswers::default());
    let body = mk_decoded(&answers, &catalog, "outbound|80||pay.shop.svc.cluster.local");
    let shown: Vec<_> = body
        .endpoints
        .iter()
        .map(|group| {
            let locality = group.locality.as_ref().unwrap();
            let weight = group.load_balancing_weight.unwrap().value;
            (locality.region.as_str(), locality.zone.as_str(), weight, group.lb_endpoints.len())
        })
        .collect();
    assert_eq!(shown, [("eu", "1a", 1, 1), ("eu", "1b", 1, 1), ("us", "2a", 2, 1)]);
    let endpoint = &body.endpoints[2].lb_endpoints[0];
    let Some(HostIdentifier::Endpoint(at)) = &endpoint.host_identifier else { panic!() };
    let Some(At::SocketAddress(at)) = &at.address.as_ref().unwrap().address else { panic!() };
    assert_eq!((at.address.as_str(), endpoint.health_status()), ("fd00::3", HealthStatus::Healthy));
    let field_of = |key, field| metadata(&endpoint.metadata, key, field);
    assert_eq!(field_of("envoy.transport_socket_match", "tlsMode").as_deref(), Some("istio"));
    assert_eq!(field_of("istio", "workload").as_deref(), Some("web-v1;shop;web;v1"));
    let unix = mk_decoded(&answers, &catalog, "outbound|80||unix.shop");
    let Some(HostIdentifier::Endpoint(at)) = &unix.endpoints[0].lb_endpoints[0].host_identifier else {
        panic!()
    };
    let Some(At::Pipe(pipe)) = &at.address.as_ref().unwrap().address else { panic!() };
    assert_eq!(pipe.path, "/run/pay.sock");
    assert!(unix.endpoints[0].lb_endpoints[0].metadata.is_none());
}

#[test]
fn shares_of_localities_are_weights() {
    use envoy_types::pb::envoy::config::cluster::v3::cluster::common_lb_config::LocalityConfigSpecifier;
    let (catalog, answers) = (World::default().next(&mk_services()), CatalogAnswers::default());
    let body = mk_decoded(&answers, &catalog, "outbound|80||shared.shop");
    let shown: Vec<_> = body
        .endpoints
        .iter()
        .map(|group| (group.load_balancing_weight.unwrap().value, group.lb_endpoints.len(), group.priority))
        .collect();
    assert_eq!(shown, [(33, 1, 0), (67, 1, 0), (2, 0, 0)]);
    let specifier =
        |name| mk_cluster(ClientKind::Sidecar, name).common_lb_config.unwrap().locality_config_specifier;
    let weighted = specifier("outbound|80||shared.shop");
    assert!(matches!(weighted, Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(_))));
    assert!(specifier("outbound|80||empty.shop").is_none());
}

#[test]
fn cluster_discovery_follows_the_services_resolution() {
    let kind = |name| mk_cluster(ClientKind::Sidecar, name).cluster_discovery_type.unwrap();
    let by = |kind: DiscoveryType| ClusterDiscoveryType::Type(kind.into());
    assert_eq!(kind("outbound|5432||tcp.shop"), by(DiscoveryType::Eds));
    assert_eq!(kind("outbound|80||strict.shop"), by(DiscoveryType::StrictDns));
    assert_eq!(kind("outbound|80||logical.shop"), by(DiscoveryType::LogicalDns));
    assert_eq!(kind("outbound|7000||headless.shop"), by(DiscoveryType::OriginalDst));
    assert_eq!(kind("BlackHoleCluster"), by(DiscoveryType::Static));
    assert_eq!(kind("PassthroughCluster"), by(DiscoveryType::OriginalDst));
    let ClusterDiscoveryType::ClusterType(forward) = kind("outbound|80||*.wild.com") else { panic!() };
    assert_eq!(forward.name, "envoy.clusters.dynamic_forward_proxy");
}

#[test]
#[allow(deprecated, reason = "these fields are sent")]
fn dns_clusters_of_envoy_follow_the_ttl() {
    for (kind, wanted) in
        [(ClientKind::Envoy, Some(60)), (ClientKind::Sidecar, Some(60)), (ClientKind::Grpc, None)]
    {
        for name in ["outbound|80||strict.shop", "outbound|80||logical.shop"] {
            let cluster = mk_cluster(kind, name);
            let rate = cluster.dns_refresh_rate.map(|rate| rate.seconds);
            assert_eq!((rate, cluster.respect_dns_ttl), (wanted, wanted.is_some()), "{kind:?} {name}");
        }
    }
}

#[test]
fn eds_cluster_uses_this_stream_without_a_timeout() {
    let cluster = mk_cluster(ClientKind::Envoy, "outbound|80||grpc.shop");
    let eds = cluster.eds_cluster_config.as_ref().unwrap();
    let source = eds.eds_config.as_ref().unwrap();
    assert_eq!(
        (eds.service_name.as_str(), source.resource_api_version()),
        (cluster.name.as_str(), ApiVersion::V3)
    );
    assert_eq!(source.initial_fetch_timeout.map(|t| (t.seconds, t.nanos)), Some((0, 0)));
    assert_eq!((cluster.lb_policy(), cluster.connect_timeout.unwrap().seconds), (LbPolicy::LeastRequest, 10));
    let panic = cluster.common_lb_config.as_ref().unwrap().healthy_panic_threshold.unwrap();
    assert!(panic.value.abs() < f64::EPSILON, "unhealthy endpoints would be used when most are");
    let http2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    assert!(cluster.typed_extension_protocol_options.contains_key(http2));
    let http1 = mk_cluster(ClientKind::Envoy, "outbound|80||empty.shop");
    assert!(http1.typed_extension_protocol_options.is_empty());
    let services = &cluster.metadata.unwrap().filter_metadata["istio"].fields["services"];
    let Some(Is::ListValue(list)) = &services.kind else { panic!() };
    let Some(Is::StructValue(service)) = &list.values[0].kind else { panic!() };
    let field = |name: &str| service.fields[name].kind.clone();
    let text = |text: &str| Some(Is::StringValue(text.into()));
    assert_eq!(
        (field("host"), field("name"), field("namespace")),
        (text("grpc.shop"), text("grpc.shop"), text("shop"))
    );
}

/// Only the client's own certificates make a difference, and plain Envoys and gRPC have none.
#[test]
fn sockets_of_the_mesh_are_for_clients_with_certificates() {
    let sockets = |label: &str| -> Vec<String> {
        let wanted = format!("{label} cds outbound|90||meshed.shop");
        let (_, body) = goldens().into_iter().find(|(name, _)| *name == wanted).unwrap();
        let cluster = Cluster::decode(body).unwrap();
        assert!(cluster.transport_socket.is_none());
        cluster.transport_socket_matches.into_iter().map(|socket| socket.name).collect()
    };
    for label in ["Files", "Agent"] {
        assert_eq!(sockets(label), ["tlsMode-istio", "tlsMode-disabled"], "{label}");
    }
    for label in ["Envoy", "Sidecar", "Grpc"] {
        assert!(sockets(label).is_empty(), "{label}");
    }
}

#[test]
fn grpc_clusters_are_accepted_by_c_core() {
    let all = goldens();
    let clusters = all.iter().filter(|(name, _)| name.starts_with("Grpc cds"));
    let mut kinds = Vec::new();
    for (name, body) in clusters {
        let cluster = Cluster::decode(&body[..]).unwrap();
        assert_eq!(cluster.lb_policy(), LbPolicy::RoundRobin, "{name}");
        let Some(ClusterDiscoveryType::Type(kind)) = cluster.cluster_discovery_type else {
            panic!("{name} has a type that gRPC does not support")
        };
        kinds.push(kind);
        match DiscoveryType::try_from(kind).unwrap() {
            DiscoveryType::Eds => assert!(cluster.eds_cluster_config.is_some(), "{name}"),
            DiscoveryType::LogicalDns => {
                let within = &cluster.load_assignment.as_ref().unwrap().endpoints;
                assert_eq!(
                    (within.len(), within[0].lb_endpoints.len()),
                    (1, 1),
                    "{name} has not one endpoint"
                );
            }
            other => panic!("{name} is {other:?}"),
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 2, "both types must occur");
}
