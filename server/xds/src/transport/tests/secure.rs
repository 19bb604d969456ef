//! TLS, mutual TLS and reload.

use super::*;
use crate::transport::tls::{Tls, TlsMaterial};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::TlsConnector;
use tonic::Code;
use tributary_proto::{Metadata, Value};

pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }
    /// Issues certificate and key, as PEM.
    fn issue(&self, names: Vec<SanType>) -> (String, String) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
    pub(super) fn server(&self, clients: Option<&Self>) -> TlsMaterial {
        let (certificate, key) = self.issue(vec![SanType::DnsName("xds".try_into().unwrap())]);
        TlsMaterial {
            protocols: TlsMaterial::GRPC,
            certificates: certificate.into(),
            key: key.into(),
            client_ca: clients.map(|ca| ca.0.pem().into()),
            is_certificate_optional: false,
        }
    }
    pub(super) fn client(&self, uri: &str) -> (String, String) {
        self.client_of(&[uri])
    }
    fn client_of(&self, uris: &[&str]) -> (String, String) {
        self.issue(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect())
    }
}

pub(super) async fn secured(material: &TlsMaterial) -> (Served, Arc<Tls>) {
    secured_with(material, Limits::default()).await
}

pub(super) async fn secured_with(material: &TlsMaterial, limits: Limits) -> (Served, Arc<Tls>) {
    let (server, source) = Served::build(limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Arc::new(Tls::new(material).unwrap());
    server.listen(listener, Some(Arc::clone(&tls)));
    (Served { server, source, address }, tls)
}

/// Connects; `None` if either side rejects the other's certificate.
pub(super) async fn dial(
    served: &Served,
    ca: &Authority,
    own: Option<&(String, String)>,
) -> Option<Connection> {
    dial_with_window(served, ca, own, 1 << 20).await
}

/// Connects; the server may send this much that the client has not read.
pub(super) async fn dial_with_window(
    served: &Served,
    ca: &Authority,
    own: Option<&(String, String)>,
    window: u32,
) -> Option<Connection> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(served.address).await.unwrap();
    let name = ServerName::try_from("xds").unwrap();
    let tls = timeout(SOON, TlsConnector::from(Arc::new(config)).connect(name, tcp)).await.unwrap().ok()?;
    Some(Connection::with_window(tls, window).await)
}

pub(super) fn mk_request(namespace: &str) -> SotwRequest {
    let metadata: Metadata = [("NAMESPACE", Value::Text(namespace.into()))].into_iter().collect();
    let node = Some(Node { metadata, ..mk_node("x").unwrap() });
    SotwRequest { node, type_url: ResourceType::Cluster.type_url().into(), ..SotwRequest::default() }
}

#[tokio::test]
async fn streams_are_served_over_tls() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(None)).await;
    served.set(ResourceType::Cluster, "a.x", &"1".repeat(100_000));
    let mut stream = dial(&served, &ca, None).await.unwrap().delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    assert_eq!(stream.bodies().await[0].len(), 100_004);
}

#[tokio::test]
async fn a_certificate_must_prove_the_namespace() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let own = ca.client("spiffe://cluster.local/ns/shop/sa/pay");
    let mut connection = dial(&served, &ca, Some(&own)).await.unwrap();

    let mut right = connection.sotw().await;
    right.send_sotw(mk_request("shop")).await;
    right.next().await;
    let rows = served.server.clients().rows(&served.source.current(), served.server.now());
    assert_eq!(rows[0].identity.as_ref().unwrap().as_str(), "spiffe://cluster.local/ns/shop/sa/pay");

    let mut wrong = connection.sotw().await;
    wrong.send_sotw(mk_request("web")).await;
    let (code, message) = wrong.end().await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(message.contains("TRB0603") && message.contains("web"), "{message}");

    let mut anonymous = connection.sotw().await;
    anonymous.subscribe(ResourceType::Cluster, &[]).await;
    anonymous.next().await;
    let rows = served.server.clients().rows(&served.source.current(), served.server.now());
    let namespaces: Vec<_> = rows.iter().map(|row| row.namespace.as_deref()).collect();
    assert_eq!(namespaces, [Some("shop"), Some("shop")], "a client without a namespace is in its identity's");
}

#[tokio::test]
async fn certificate_of_another_trust_domain_is_rejected() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    for uri in ["spiffe://other.test/ns/shop/sa/pay", "spiffe://cluster.local/x/ns/shop/sa/pay"] {
        let own = ca.client(uri);
        let mut stream = dial(&served, &ca, Some(&own)).await.unwrap().sotw().await;
        stream.send_sotw(mk_request("shop")).await;
        let (code, message) = stream.end().await;
        assert!(
            code == Code::PermissionDenied && message.contains("trust domain cluster.local"),
            "{uri}: {message}"
        );
    }
}

#[tokio::test]
async fn certificate_with_several_uris_is_rejected() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let right = "spiffe://cluster.local/ns/shop/sa/pay";
    for other in ["spiffe://other.test/ns/shop/sa/pay", "https://example.com/shop"] {
        let own = ca.client_of(&[other, right]);
        let mut stream = dial(&served, &ca, Some(&own)).await.unwrap().sotw().await;
        stream.send_sotw(mk_request("shop")).await;
        let (code, message) = stream.end().await;
        assert!(code == Code::PermissionDenied && message.contains("2 URIs"), "{other}: {message}");
    }
    let unreadable = ca.client_of(&[right, "spiffe://a b"]);
    let mut stream = dial(&served, &ca, Some(&unreadable)).await.unwrap().sotw().await;
    stream.send_sotw(mk_request("shop")).await;
    assert_eq!(stream.end().await.0, Code::PermissionDenied, "a URI that is no identity counts too");
}

#[tokio::test]
async fn a_certificate_without_an_identity_proves_nothing() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let own = ca.client("https://example.com/shop");
    let mut stream = dial(&served, &ca, Some(&own)).await.unwrap().sotw().await;
    stream.send_sotw(mk_request("shop")).await;
    assert_eq!(stream.end().await.0, Code::PermissionDenied);
}

#[tokio::test]
async fn client_without_a_certificate_is_rejected() {
    let ca = Authority::new();
    let (served, _) = secured(&ca.server(Some(&ca))).await;
    let stranger = Authority::new().client("spiffe://cluster.local/ns/shop/sa/pay");
    for own in [None, Some(&stranger)] {
        // In TLS 1.3 a client learns of the rejection only after its own handshake.
        if let Some(mut connection) = dial(&served, &ca, own).await {
            let request = Request::post("http://xds/")
                .body(StreamBody::new(ReceiverStream(mpsc::channel(1).1)))
                .unwrap();
            assert!(timeout(SOON, connection.send.send_request(request)).await.unwrap().is_err());
        }
    }
    served.reaches("handshakes_failed", 2).await;
}

#[tokio::test]
async fn certificates_are_replaced_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let (served, tls) = secured(&old.server(None)).await;
    let mut open = dial(&served, &old, None).await.unwrap().delta().await;
    open.subscribe(ResourceType::Cluster, &[]).await;
    open.next().await;
    tls.reload(&new.server(None)).unwrap();
    assert!(dial(&served, &old, None).await.is_none(), "the old certificate is still served");
    let mut fresh = dial(&served, &new, None).await.unwrap().delta().await;
    fresh.subscribe(ResourceType::Cluster, &[]).await;
    fresh.next().await;
    served.set(ResourceType::Cluster, "a.x", "1");
    assert_eq!(open.bodies().await, ["a.x=1"], "an open stream continues");
}

#[tokio::test]
async fn invalid_certificates_change_nothing_and_give_the_reason() {
    let ca = Authority::new();
    let (served, tls) = secured(&ca.server(None)).await;
    let good = ca.server(None);
    for (bad, what) in [
        (TlsMaterial { certificates: b"none".to_vec(), ..good.clone() }, "the certificate"),
        (TlsMaterial { key: b"none".to_vec(), ..good.clone() }, "the key"),
        (TlsMaterial { client_ca: Some(Vec::new()), ..good.clone() }, "the client CA"),
        (TlsMaterial { key: ca.server(None).key, ..good.clone() }, "the pair of certificate and key"),
    ] {
        assert_eq!(tls.reload(&bad).unwrap_err().what, what);
    }
    assert!(dial(&served, &ca, None).await.is_some());
}

#[tokio::test]
async fn a_tls_handshake_has_a_deadline() {
    let ca = Authority::new();
    let (server, source) =
        Served::build(Limits { handshake: Duration::from_millis(20), ..Limits::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    server.listen(listener, Some(Arc::new(Tls::new(&ca.server(None)).unwrap())));
    let served = Served { server, source, address };
    let silent = TcpStream::connect(served.address).await.unwrap();
    served.reaches("handshakes_failed", 1).await;
    drop(silent);
}
