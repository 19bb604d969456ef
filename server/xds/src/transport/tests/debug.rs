//! `istio.io/debug` requests, as istioctl's proxy-status sends them.

use super::secure::{Authority, dial, dial_with_window, secured, secured_with};
use super::*;
use envoy_types::pb::envoy::admin::v3::ClustersConfigDump;
use envoy_types::pb::envoy::config::core::v3::{DataSource, data_source::Specifier};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, TlsCertificate, UpstreamTlsContext,
};
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use envoy_types::pb::google::protobuf::Any;
use prost::Message as _;
use tonic::Code;
use tributary_proto::{Metadata, Value};

const SYNCZ: &str = "istio.io/debug/syncz";
const CONFIG_DUMP: &str = "istio.io/debug/config_dump";
const POD: &str = "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local";
/// As text: an xDS cluster of the name `a=1`, as the fake provider writes a name and a body.
const CLUSTER: &str = "\n\u{3}a";

/// A request of istioctl 1.30: its node, whose id names another namespace, and a text in place of a nonce.
fn mk_request(type_url: &str, namespace: &str, names: &[&str]) -> SotwRequest {
    let pairs = [("GENERATOR", "event"), ("SERVICE_ACCOUNT", "default"), ("NAMESPACE", namespace)];
    let metadata: Metadata = pairs.into_iter().map(|(key, value)| (key, Value::Text(value.into()))).collect();
    let id = "sidecar~192.0.2.1~test-1.default~default.svc.cluster.local";
    let node = Some(Node { id: id.into(), metadata, ..Node::default() });
    let nonce = "2026-01-01 00:00:00.0 +0000 UTC m=+0.1".into();
    let names = names.iter().copied().collect();
    SotwRequest { node, type_url: type_url.into(), names, nonce, ..SotwRequest::default() }
}

#[tokio::test]
async fn identity_of_the_system_namespace_reads_status_and_dump() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    served.set(ResourceType::Cluster, CLUSTER, "1");
    let pod = ca.client("spiffe://cluster.local/ns/shop/sa/web");
    let mut proxy = dial(&served, &ca, Some(&pod)).await.unwrap().sotw().await;
    let node = Some(Node { id: POD.into(), ..Node::default() });
    let type_url = ResourceType::Cluster.type_url();
    proxy.send_sotw(SotwRequest { node, type_url: type_url.into(), ..SotwRequest::default() }).await;
    proxy.next().await;

    let operator = ca.client("spiffe://cluster.local/ns/system/sa/default");
    let mut connection = dial(&served, &ca, Some(&operator)).await.unwrap();
    let mut stream = connection.sotw().await;
    stream.send_sotw(mk_request(SYNCZ, "system", &[])).await;
    let response = stream.next().await;
    assert_eq!((response.type_url.as_str(), response.resources.len()), (SYNCZ, 1), "one subscribes");
    let resource = &response.resources[0];
    assert_eq!(resource.type_url.as_str(), "type.googleapis.com/envoy.service.status.v3.ClientConfig");
    let config = ClientConfig::decode(&resource.body[..]).unwrap();
    let node = config.node.unwrap();
    assert_eq!(node.id, "web-0.shop");
    assert!(node.metadata.unwrap().fields.contains_key("NAMESPACE"));
    let of = &config.generic_xds_configs[0];
    assert_eq!((of.type_url.as_str(), of.config_status()), (type_url, ConfigStatus::Stale));
    assert!(of.last_updated.is_some());

    let mut stream = connection.sotw().await;
    stream.send_sotw(mk_request(CONFIG_DUMP, "system", &["web-0.shop"])).await;
    let response = stream.next().await;
    let types: Vec<&str> =
        response.resources.iter().filter_map(|r| r.type_url.as_str().rsplit('.').next()).collect();
    assert_eq!(
        types,
        [
            "BootstrapConfigDump",
            "ClustersConfigDump",
            "ListenersConfigDump",
            "ScopedRoutesConfigDump",
            "RoutesConfigDump",
            "SecretsConfigDump",
            "EcdsConfigDump"
        ]
    );
    let clusters = ClustersConfigDump::decode(&response.resources[1].body[..]).unwrap();
    let cluster = clusters.dynamic_active_clusters[0].cluster.as_ref().unwrap();
    assert_eq!((cluster.type_url.as_str(), &cluster.value[..]), (type_url, &b"\n\x03a=1"[..]));

    let mut stream = connection.sotw().await;
    stream.send_sotw(mk_request(CONFIG_DUMP, "system", &["missing.shop"])).await;
    assert_eq!(stream.next().await.resources.len(), 0, "istioctl asks another replica");
}

/// Reads the dump of a client that was sent one cluster with this text after its name.
async fn dump_of(served: &Served, ca: &Authority, cluster: &str) -> (Stream, Connection) {
    served.set(ResourceType::Cluster, CLUSTER, cluster);
    let pod = ca.client("spiffe://cluster.local/ns/shop/sa/web");
    let mut connection = dial(served, ca, Some(&pod)).await.unwrap();
    let mut proxy = connection.sotw().await;
    let node = Some(Node { id: POD.into(), ..Node::default() });
    let type_url = ResourceType::Cluster.type_url().into();
    proxy.send_sotw(SotwRequest { node, type_url, ..SotwRequest::default() }).await;
    proxy.next().await;
    (proxy, connection)
}

#[tokio::test]
async fn dump_has_no_secrets() {
    let data = |text: &str| {
        let specifier = Some(Specifier::InlineString(text.into()));
        Some(DataSource { specifier, ..DataSource::default() })
    };
    let certificate = TlsCertificate {
        certificate_chain: data("public chain"),
        private_key: data("hunter2"),
        ..TlsCertificate::default()
    };
    let common = CommonTlsContext { tls_certificates: vec![certificate], ..CommonTlsContext::default() };
    let tls = UpstreamTlsContext { common_tls_context: Some(common), ..UpstreamTlsContext::default() };
    let type_url = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext".into();
    let value = Any { type_url, value: tls.encode_to_vec() }.encode_to_vec();
    // field 3 of a transport socket, in field 24 of a cluster with a tag that is valid text
    let socket = format!(
        "\u{1a}{}{}",
        char::from(u8::try_from(value.len()).unwrap()),
        String::from_utf8(value).unwrap()
    );
    let body = format!("1\u{81}\0{}{socket}", char::from(u8::try_from(socket.len()).unwrap()));

    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let _proxy = dump_of(&served, &ca, &body).await;
    let operator = ca.client("spiffe://cluster.local/ns/system/sa/default");
    let mut stream = dial(&served, &ca, Some(&operator)).await.unwrap().sotw().await;
    stream.send_sotw(mk_request(CONFIG_DUMP, "system", &["web-0.shop"])).await;
    let dump = String::from_utf8_lossy(&stream.message().await.unwrap()).into_owned();
    assert!(dump.contains("public chain") && dump.contains("[redacted]"), "{dump}");
    assert!(!dump.contains("hunter2"), "{dump}");
}

#[tokio::test]
async fn answers_that_are_not_read_are_few_and_end() {
    let ca = Authority::new();
    let limits = Limits { stuck: Duration::from_secs(2), ..Limits::default() };
    let (served, _) = secured_with(&ca.server(Some(&ca)), limits).await;
    // the name again and again: the last one counts
    let name = format!("\n\u{7f}{}", "x".repeat(127));
    let _proxy = dump_of(&served, &ca, &format!("1{}", name.repeat(16_384))).await;
    let operator = ca.client("spiffe://cluster.local/ns/system/sa/default");
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut connection = dial_with_window(&served, &ca, Some(&operator), 1 << 16).await.unwrap();
        let mut stream = connection.sotw().await;
        stream.send_sotw(mk_request(CONFIG_DUMP, "system", &["web-0.shop"])).await;
        timeout(SOON, stream.body.frame()).await.expect("no answer arrives").unwrap().unwrap();
        slow.push((stream, connection));
    }
    let mut stream = dial(&served, &ca, Some(&operator)).await.unwrap().sotw().await;
    stream.send_sotw(mk_request(CONFIG_DUMP, "system", &["web-0.shop"])).await;
    let begun = served.count("offloaded");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(served.count("offloaded"), begun, "it waits until one of the others has ended");
    assert_eq!(stream.next().await.resources.len(), 7);
    served.reaches("streams_stuck", 2).await;
}

#[tokio::test]
async fn other_clients_are_refused() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let own = ca.client("spiffe://cluster.local/ns/shop/sa/default");
    let mut connection = dial(&served, &ca, Some(&own)).await.unwrap();
    for type_url in [SYNCZ, CONFIG_DUMP, "istio.io/debug"] {
        let mut stream = connection.sotw().await;
        stream.send_sotw(mk_request(type_url, "shop", &["x"])).await;
        let (code, message) = stream.end().await;
        assert_eq!(code, Code::PermissionDenied, "{type_url}: {message}");
        assert!(message.contains("identities of namespace system, not of shop"), "{message}");
    }
    let plain = Served::with(&[]).await;
    let mut stream = plain.connect().await.sotw().await;
    stream.send_sotw(mk_request(SYNCZ, "system", &[])).await;
    let (code, message) = stream.end().await;
    assert_eq!(code, Code::Unauthenticated, "a claimed namespace proves nothing: {message}");
    assert!(message.contains("proved identity of namespace system"), "{message}");
}

#[tokio::test]
async fn request_that_is_not_understood_is_refused_with_the_reason() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let own = ca.client("spiffe://cluster.local/ns/system/sa/default");
    let mut connection = dial(&served, &ca, Some(&own)).await.unwrap();
    for (type_url, names, why) in
        [("istio.io/debug", &["syncz"][..], "is not served"), (CONFIG_DUMP, &[], "one resource name")]
    {
        let mut stream = connection.sotw().await;
        stream.send_sotw(mk_request(type_url, "system", names)).await;
        let (code, message) = stream.end().await;
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(why), "{message}");
    }
}
