//! Tokens of service accounts: what proves a client, beside certificates and without them.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tonic::Code;
use tributary_model::ClusterId;
use tributary_proto::{Metadata, Value};

use super::secure::{Authority, dial, mk_request};
use super::*;
use crate::client::Proof;
use crate::token::{BearerToken, ServiceAccount, TokenRefused, TokenReviewer};
use crate::transport::tls::{Tls, TlsMaterial};

/// Knows one token for each account: `<cluster>.<namespace>.<account>`.
#[derive(Default)]
struct Reviewer {
    reviews: AtomicU64,
}

impl TokenReviewer for Reviewer {
    fn review(
        &self,
        cluster: ClusterId,
        token: BearerToken,
    ) -> BoxFuture<'static, Result<ServiceAccount, TokenRefused>> {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        let text = String::from_utf8(token.expose().to_vec()).unwrap();
        let parts: Vec<&str> = text.split('.').collect();
        let account = ServiceAccount::of_user(&format!("system:serviceaccount:{}:{}", parts[1], parts[2]));
        let result = match cluster.as_str() {
            "silent" => return std::future::pending().boxed(),
            "stopped" => Err(TokenRefused::Unavailable("no answer".into())),
            "none" => Err(TokenRefused::NoCluster),
            known if known == parts[0] => account.ok_or_else(|| TokenRefused::Invalid("no account".into())),
            _ => Err(TokenRefused::Invalid("it is unknown".into())),
        };
        async move { result }.boxed()
    }
    fn audiences(&self) -> String {
        "test".into()
    }
}

/// A server in cluster `home` that takes tokens.
async fn start(tls: Option<&TlsMaterial>, limits: Limits) -> (Served, Arc<Reviewer>) {
    let reviewer = Arc::<Reviewer>::default();
    let shared = Arc::<Reviewer>::clone(&reviewer);
    let home = ClusterId::new("home").ok();
    let (server, source) = Served::build_with(limits, |builder| builder.cluster(home).tokens(shared));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    server.listen(listener, tls.map(|material| Arc::new(Tls::new(material).unwrap())));
    (Served { server, source, address }, reviewer)
}

async fn end_of(connection: &mut Connection, request: SotwRequest) -> (Code, String) {
    let mut stream = connection.sotw().await;
    stream.send_sotw(request).await;
    stream.end().await
}

fn of_cluster(cluster: &str, namespace: &str) -> SotwRequest {
    let request = mk_request(namespace);
    let pairs = [("NAMESPACE", namespace), ("CLUSTER_ID", cluster)];
    let metadata: Metadata =
        pairs.map(|(name, value)| (name, Value::Text(value.into()))).into_iter().collect();
    let node = request.node.map(|node| Node { metadata, ..node });
    SotwRequest { node, ..request }
}

#[tokio::test]
async fn token_must_prove_the_namespace_in_both_protocols() {
    let (served, reviewer) = start(None, Limits::default()).await;
    let mut connection = served.connect().await;
    connection.authorization = Some("Bearer home.shop.pay".into());
    let mut right = connection.sotw().await;
    right.send_sotw(mk_request("shop")).await;
    right.next().await;
    let mut delta = connection.delta().await;
    delta.subscribe(ResourceType::Cluster, &[]).await;
    delta.next().await;
    let rows = served.server.clients().rows(&served.source.current(), served.server.now());
    for row in &rows {
        assert_eq!(row.identity.as_ref().unwrap().as_str(), "spiffe://cluster.local/ns/shop/sa/pay");
        assert_eq!((row.proof, row.namespace.as_deref()), (Some(Proof::Token), Some("shop")));
        assert_eq!(row.cluster.as_deref(), Some("home"));
    }
    assert_eq!((rows.len(), reviewer.reviews.load(Ordering::Relaxed)), (2, 2));

    let (code, message) = end_of(&mut connection, mk_request("web")).await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(
        message.contains("TRB0603") && message.contains("needs an identity of namespace web"),
        "{message}"
    );
    assert_eq!((served.count("identities_refused"), served.count("streams_refused")), (1, 1));
}

#[tokio::test]
async fn client_without_a_valid_token_is_refused() {
    let (served, reviewer) = start(None, Limits::default()).await;
    let mut connection = served.connect().await;
    for (authorization, what) in [
        (None, "proves no identity"),
        (Some("Basic a.b.c"), "no bearer token"),
        (Some("Bearer hunter2"), "no JSON web token"),
    ] {
        connection.authorization = authorization.map(str::to_owned);
        let (code, message) = end_of(&mut connection, mk_request("shop")).await;
        assert!(code == Code::Unauthenticated && message.contains(what), "{code}: {message}");
        assert!(!message.contains("hunter2"));
    }
    assert_eq!(reviewer.reviews.load(Ordering::Relaxed), 0, "they cost no review");
    connection.authorization = Some("Bearer hunter2.shop.pay".into());
    let (code, message) = end_of(&mut connection, mk_request("shop")).await;
    assert!(code == Code::Unauthenticated && message.contains("it is unknown"), "{message}");
    assert!(message.contains("for audience test") && !message.contains("hunter2"), "{message}");
    assert_eq!(served.count("identities_refused"), 4);
}

#[tokio::test]
async fn token_is_reviewed_by_the_cluster_of_its_client() {
    let limits = Limits { first_message: Duration::from_millis(200), ..Limits::default() };
    let (served, _) = start(None, limits).await;
    let mut connection = served.connect().await;
    connection.authorization = Some("Bearer home.shop.pay".into());
    for (cluster, expected, what) in [
        ("east", Code::Unauthenticated, "it is unknown"),
        ("none", Code::Unauthenticated, "no registry reads cluster none"),
        ("stopped", Code::Unavailable, "TRB0612"),
        ("silent", Code::Unavailable, "its review took too long; try again"),
    ] {
        let (code, message) = end_of(&mut connection, of_cluster(cluster, "shop")).await;
        assert!(code == expected && message.contains(what), "{cluster}: {code}: {message}");
    }
    assert_eq!((served.count("identities_refused"), served.count("tokens_unreviewed")), (2, 2));
}

#[tokio::test]
async fn only_tokens_of_the_servers_cluster_show_other_clients() {
    let (served, _) = start(None, Limits::default()).await;
    let mut connection = served.connect().await;
    for (token, is_admitted) in [("home.system.op", true), ("east.system.op", false), ("home.shop.op", false)]
    {
        let parts: Vec<&str> = token.split('.').collect();
        connection.authorization = Some(format!("Bearer {token}"));
        let mut stream = connection.sotw().await;
        let request = of_cluster(parts[0], parts[1]);
        stream.send_sotw(SotwRequest { type_url: "istio.io/debug/syncz".into(), ..request }).await;
        if is_admitted {
            stream.next().await;
        } else {
            let (code, message) = stream.end().await;
            assert!(
                code == Code::PermissionDenied && message.contains("is answered only to"),
                "{token}: {message}"
            );
        }
    }
}

#[tokio::test]
async fn either_proof_is_enough_where_both_are_taken() {
    let ca = Authority::new();
    let material = TlsMaterial { is_certificate_optional: true, ..ca.server(Some(&ca)) };
    let (served, reviewer) = start(Some(&material), Limits::default()).await;
    let token = || Some("Bearer home.shop.pay".to_owned());
    let own = ca.client("spiffe://cluster.local/ns/shop/sa/pay");
    let other = ca.client("spiffe://other.test/ns/shop/sa/pay");
    for (certificate, token, expected) in [
        (None, token(), Some(Proof::Token)),
        (Some(&own), None, Some(Proof::Certificate)),
        (Some(&own), token(), Some(Proof::Certificate)),
        (Some(&other), token(), Some(Proof::Token)),
        (Some(&other), None, None),
        (None, None, None),
    ] {
        let mut connection = dial(&served, &ca, certificate).await.unwrap();
        connection.authorization = token;
        let mut stream = connection.sotw().await;
        stream.send_sotw(mk_request("shop")).await;
        if expected.is_some() {
            stream.next().await;
            let rows = served.server.clients().rows(&served.source.current(), served.server.now());
            assert!(rows.iter().any(|row| row.proof == expected), "{expected:?}");
        } else {
            let expected = if certificate.is_some() { Code::PermissionDenied } else { Code::Unauthenticated };
            assert_eq!(stream.end().await.0, expected);
        }
    }
    assert_eq!(
        reviewer.reviews.load(Ordering::Relaxed),
        2,
        "a certificate that proves the client needs no review"
    );
    let stranger = Authority::new().client("spiffe://cluster.local/ns/shop/sa/pay");
    if let Some(mut connection) = dial(&served, &ca, Some(&stranger)).await {
        let request = Request::post("http://xds/").body(StreamBody::new(ReceiverStream(mpsc::channel(1).1)));
        assert!(timeout(SOON, connection.send.send_request(request.unwrap())).await.unwrap().is_err());
    }
    served.reaches("handshakes_failed", 1).await;
}

#[tokio::test]
async fn tokens_are_not_read_where_they_are_not_taken() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    connection.authorization = Some("Bearer hunter2".into());
    let mut stream = connection.sotw().await;
    stream.send_sotw(mk_request("shop")).await;
    stream.next().await;
    let rows = served.server.clients().rows(&served.source.current(), served.server.now());
    assert_eq!((rows[0].identity.as_ref(), rows[0].proof), (None, None));
}
