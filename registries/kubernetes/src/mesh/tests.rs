//! Supported fields, ignored fields, and the effect of an invalid field.

use tributary_model::{GatewayAddress, Labels, Namespace, NetworkId};

use super::*;

const MESH: &str = "
accessLogFile: /dev/stdout
trustDomain: example.test
connectTimeout: 2.5s
defaultServiceExportTo: ['.']
discoverySelectors:
- matchLabels: {team: shop}
outboundTrafficPolicy: {mode: REGISTRY_ONLY, tls: {}}
serviceSettings:
- settings: {clusterLocal: true, other: 1}
  hosts: ['*', '*.shop.svc.cluster.local']
- settings: {clusterLocal: false}
  hosts: [pay.shop.svc.cluster.local]
- settings: {}
  hosts: ['*.shop.svc.cluster.local']
serviceEntryVisibility:
  applyToSidecars: true
  defaultVisibility: NAMESPACE
  policies:
  - visibility: PUBLIC
    matchingRules:
    - namespaceSelector: {matchLabels: {trusted: 'yes'}}
  - visibility: NONE
    matchingRules:
    - namespaceSelector: {matchLabels: {team: shop}}
    - hostSuffix: x
defaultConfig: {discoveryAddress: x}
enableAutoMtls: false
pathNormalization: {normalization: MERGE_SLASHES}
";

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}
fn mesh(text: &str) -> Mesh {
    Mesh::read(Some(text), None)
}
fn networks(text: &str) -> Mesh {
    Mesh::read(None, Some(text))
}

#[test]
fn supported_fields_are_read_and_ignored_ones_named_once() {
    let mesh = mesh(MESH);
    assert_eq!(mesh.complaint(), None);
    assert_eq!(mesh.trust_domain.as_deref(), Some("example.test"));
    assert_eq!(mesh.connect_timeout, Some(Duration::from_millis(2500)));
    assert_eq!(mesh.default_export, Some(Visibility::Own));
    assert_eq!((mesh.block_unknown, mesh.auto_mtls), (Some(true), Some(false)));
    assert_eq!(mesh.path_normalization, Some(PathNormalization::MergeSlashes));
    assert!(mesh.discovery.admit(&labels(&[("team", "shop")])) && !mesh.discovery.admit(&labels(&[])));
    let local: Vec<(&str, bool)> = mesh.cluster_local.iter().map(|(p, local)| (p.as_str(), *local)).collect();
    let want = [("*", true), ("*.shop.svc.cluster.local", false), ("pay.shop.svc.cluster.local", false)];
    assert_eq!(local, want, "the last entry of a pattern wins");
    let ignored: Vec<&str> = mesh.ignored.iter().map(|name| &**name).collect();
    let want =
        ["defaultConfig.discoveryAddress", "outboundTrafficPolicy.tls", "serviceSettings[].settings.other"];
    assert_eq!(ignored, want);
}

#[test]
fn normalization_of_paths_is_read() {
    let read = |value: &str| {
        let mesh = mesh(&format!("pathNormalization: {{normalization: {value}}}"));
        mesh.path_normalization.ok_or_else(|| mesh.complaint().unwrap_or_default())
    };
    let cases = [
        ("NONE", PathNormalization::None),
        ("BASE", PathNormalization::Base),
        ("DEFAULT", PathNormalization::Base),
        ("DECODE_AND_MERGE_SLASHES", PathNormalization::DecodeAndMergeSlashes),
    ];
    for (text, want) in cases {
        assert_eq!(read(text), Ok(want), "{text}");
    }
    assert!(read("DECODE").unwrap_err().contains("is not one of NONE, BASE, MERGE_SLASHES"));
    assert_eq!(mesh("pathNormalization: {}").path_normalization, None);
}

#[test]
fn first_matching_policy_caps_a_namespace() {
    let policy = mesh(MESH).entries.unwrap();
    assert_eq!(policy.of(&labels(&[("trusted", "yes")])), &Visibility::Public);
    assert_eq!(policy.of(&labels(&[("team", "shop")])), &Visibility::Own, "an unknown rule matches nothing");
    let ns = |name| Namespace::new(name).unwrap();
    let (trusted, other) = (labels(&[("trusted", "yes")]), labels(&[]));
    let caps = policy.caps([(ns("b"), &trusted), (ns("a"), &other)].into_iter());
    assert_eq!((caps.of(&ns("b")), caps.of(&ns("a"))), (&Visibility::Public, &Visibility::Own));
    assert_eq!(caps.namespaces.len(), 1, "only differences are listed");
    let inert = mesh("serviceEntryVisibility: {defaultVisibility: NONE}");
    assert_eq!(
        (inert.entries, inert.ignored.len()),
        (None, 1),
        "without applyToSidecars it binds no client here"
    );
}

#[test]
fn protobuf_field_spellings_are_accepted() {
    let mesh =
        mesh("trust_domain: a.test\nservice_settings: [{settings: {cluster_local: true}, hosts: [a.b]}]");
    assert_eq!((mesh.trust_domain.as_deref(), mesh.cluster_local.len()), (Some("a.test"), 1));
    assert_eq!(mesh.ignored.len(), 0);
}

#[test]
fn invalid_field_keeps_its_last_value_and_others_change() {
    let good = mesh("trustDomain: one.test\nconnectTimeout: 1s\ndiscoverySelectors: [{matchLabels: {a: b}}]");
    let mut next =
        mesh("trustDomain: two.test\nconnectTimeout: 10\ndiscoverySelectors: [{matchLabels: {a: [b]}}]");
    next.inherit(&good);
    assert_eq!(next.trust_domain.as_deref(), Some("two.test"));
    assert_eq!((next.connect_timeout, &next.discovery), (good.connect_timeout, &good.discovery));
    let complaint = next.complaint().unwrap();
    assert!(
        complaint.contains("connectTimeout: ") && complaint.contains("discoverySelectors: [0] matchLabels.a")
    );
    let mut broken = mesh("trustDomain: [");
    broken.inherit(&good);
    assert_eq!((broken.trust_domain, broken.connect_timeout), (good.trust_domain, good.connect_timeout));
}

#[test]
fn unreadable_document_is_one_complaint() {
    for text in ["a: [", "- a", "a: 1\na: 2", &"x".repeat((1 << 20) + 1)] {
        let complaint = mesh(text).complaint().unwrap();
        assert_eq!(complaint.matches("; ").count(), 0, "{complaint}");
        assert!(complaint.starts_with("mesh: "), "no single field is at fault: {complaint}");
    }
    for text in ["", "null", "{}", "# nothing\n"] {
        assert_eq!(mesh(text), Mesh::default(), "{text:?}");
    }
}

#[test]
fn invalid_value_is_a_fault_of_its_field() {
    let table = [
        ("trustDomain: 'a b'", Field::TrustDomain),
        ("trustDomain: {}", Field::TrustDomain),
        ("trustDomainAliases: a.test", Field::TrustDomainAliases),
        ("trustDomainAliases: [a.test, 'a b']", Field::TrustDomainAliases),
        ("rootNamespace: 'a b'", Field::RootNamespace),
        ("rootNamespace: [a]", Field::RootNamespace),
        ("rootNamespace: Bad_Name", Field::RootNamespace),
        ("connectTimeout: 0s", Field::ConnectTimeout),
        ("connectTimeout: -1s", Field::ConnectTimeout),
        ("connectTimeout: NaNs", Field::ConnectTimeout),
        ("connectTimeout: 1e3s", Field::ConnectTimeout),
        ("defaultServiceExportTo: '*'", Field::DefaultExport),
        ("outboundTrafficPolicy: {mode: SOME}", Field::Outbound),
        ("defaultHttpRetryPolicy: 2", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: many}", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: 2, perTryTimeout: soon}", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: 2, retryOn: [5xx]}", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: 2, retryOn: 'a b'}", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: 2, retryOn: 'reset,5xxx'}", Field::HttpRetries),
        ("defaultHttpRetryPolicy: {attempts: 2, retryRemoteLocalities: 1}", Field::HttpRetries),
        ("accessLogFile: [/dev/stdout]", Field::AccessLogFile),
        ("accessLogEncoding: XML", Field::AccessLogEncoding),
        ("accessLogFormat: {a: b}", Field::AccessLogFormat),
        (
            "{accessLogFile: /dev/stdout, accessLogEncoding: JSON, accessLogFormat: '[]'}",
            Field::AccessLogFormat,
        ),
        ("serviceSettings: [{settings: {clusterLocal: 'yes'}, hosts: []}]", Field::ServiceSettings),
        ("serviceSettings: [{settings: {}, hosts: ['a b']}]", Field::ServiceSettings),
        ("serviceEntryVisibility: {applyToSidecars: true, defaultVisibility: SOME}", Field::Entries),
        ("discoverySelectors: {}", Field::Discovery),
    ];
    for (text, field) in table {
        let faults = mesh(text).faults;
        assert_eq!(faults.iter().map(|f| f.field).collect::<Vec<_>>(), [field], "{text}");
    }
}

#[test]
fn retry_policy_is_read_as_istio_does() {
    let read = |text: &str| {
        let mesh = mesh(&format!("defaultHttpRetryPolicy: {text}"));
        assert_eq!(mesh.complaint(), None, "{text}");
        HttpRetries::clone(&mesh.http_retries.unwrap())
    };
    let none = HttpRetries { attempts: 0, ..HttpRetries::default() };
    for text in ["{}", "{attempts: 0}", "{attempts: -1}"] {
        assert_eq!(read(text), none, "{text}");
    }
    assert_eq!(read("{attempts: 2}"), HttpRetries::default());
    let all = "{attempts: 3, perTryTimeout: 2.5s, retryOn: '5xx,503', backoff: 0.01s, \
        retryRemoteLocalities: true, retry_ignore_previous_hosts: false}";
    let want = HttpRetries {
        attempts: 3,
        per_try_timeout: Some(Duration::from_millis(2_500)),
        backoff: Some(Duration::from_millis(10)),
        remote_localities: true,
        other_hosts: false,
        ..HttpRetries::default().on("5xx,503").unwrap()
    };
    assert_eq!(read(all), want);
    let other = mesh("defaultHttpRetryPolicy: {attempts: 2, budget: 1}");
    assert_eq!(
        other.ignored.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["defaultHttpRetryPolicy.budget"]
    );
    assert_eq!(mesh("").http_retries, None);
}

#[test]
fn access_log_has_a_file_a_form_and_a_format() {
    let of = |file: &str, encoding, format: Option<&str>| {
        Some(AccessLog { file: file.into(), encoding, format: format.map(Into::into) })
    };
    let object = "{\"a\": \"%PROTOCOL%\"}";
    let json = format!("accessLogFile: /dev/stdout\naccessLogEncoding: JSON\naccessLogFormat: '{object}'");
    let cases = [
        ("", None),
        ("accessLogFile: ''", None),
        ("accessLogFormat: '%PROTOCOL%'", None),
        ("accessLogFile: /dev/stdout", of("/dev/stdout", LogEncoding::Text, None)),
        (
            "{accessLogFile: /a, accessLogFormat: '%PROTOCOL%'}",
            of("/a", LogEncoding::Text, Some("%PROTOCOL%")),
        ),
        ("{accessLogFile: /a, accessLogEncoding: JSON}", of("/a", LogEncoding::Json, None)),
        (&json, of("/dev/stdout", LogEncoding::Json, Some(object))),
    ];
    for (text, want) in cases {
        let mesh = mesh(text);
        assert_eq!((mesh.complaint(), mesh.access_log()), (None, want), "{text}");
    }
}

#[test]
fn networks_are_read_with_members_and_gateways() {
    let text = "
networks:
  west:
    endpoints: [{fromCidr: 10.1.0.0/16}, {fromRegistry: c2}]
    gateways: [{address: 203.0.113.9, port: 15443}, {registryServiceName: gw.istio-system.svc.cluster.local, port: 443}]
  east:
    endpoints: [{fromRegistry: c1}]
    gateways: [{address: gw.example.test, port: 15443, locality: eu}]
";
    let mesh = networks(text);
    assert_eq!(mesh.complaint(), None);
    let names: Vec<&str> = mesh.networks.iter().map(|n| n.id.as_str()).collect();
    assert_eq!(names, ["east", "west"]);
    assert_eq!(mesh.networks.of_registry("c2").map(NetworkId::as_str), Some("west"));
    assert_eq!(mesh.networks.of_registry("c3"), None);
    let targets: Vec<_> =
        mesh.networks.iter().flat_map(|n| n.gateways.iter()).map(|g| g.at.clone()).collect();
    assert_eq!(targets[0], GatewayTarget::Address(GatewayAddress::Name("gw.example.test".into())));
    assert_eq!(targets[1], GatewayTarget::Address(GatewayAddress::Ip("203.0.113.9".parse().unwrap())));
    assert!(matches!(&targets[2], GatewayTarget::Service(host) if host.as_str().starts_with("gw.")));
    assert_eq!(mesh.networks.contested(), [""; 0]);
}

#[test]
fn contested_claims_go_to_the_first_name_and_are_reported() {
    let text = "
networks:
  b: {endpoints: [{fromRegistry: c1}, {fromCidr: 10.0.0.1/8}, {fromCidr: 10.0.0.0/8}]}
  a: {endpoints: [{fromRegistry: c1}, {fromCidr: 10.0.0.0/8}]}
";
    let mesh = networks(text);
    assert_eq!(mesh.networks.of_registry("c1").map(NetworkId::as_str), Some("a"));
    let want = [
        "range 10.0.0.0/8 is claimed by a, b; the first has it",
        "registry c1 is claimed by a, b; the first has it",
    ];
    assert_eq!(mesh.networks.contested(), want);
}

#[test]
fn invalid_networks_are_named() {
    let table = [
        ("networks: []", "is not a map"),
        ("networks: {a: {endpoints: [{fromCidr: x}]}}", "networks.a endpoints: \"x\" is not a CIDR"),
        ("networks: {a: {endpoints: [{}]}}", "fromCidr and fromRegistry"),
        ("networks: {a: {gateways: [{address: 1.2.3.4}]}}", "port"),
        ("networks: {a: {gateways: [{port: 1}]}}", "address and registryServiceName"),
        ("networks: {a: {gateways: [{address: 'a b', port: 1}]}}", "neither an IP"),
        ("networks: {'a/b': {}}", "network"),
    ];
    for (text, part) in table {
        let complaint = networks(text).complaint().unwrap();
        assert!(complaint.contains(part), "{text}: {complaint}");
    }
}

#[test]
fn system_hosts_are_cluster_local_by_default() {
    let patterns: Vec<String> = usually_local("c.test").iter().map(|(p, _)| p.to_string()).collect();
    assert_eq!(patterns, ["*.kube-system.svc.c.test", "kubernetes.default.svc.c.test"]);
}
