//! TLS of the xDS listener, on the real binary: clients must prove their identity, a certificate is rotated
//! while the server runs, and real Envoy receives its resources over TLS.

use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use tributary_suites::ads::{CDS, EDS, client::Tuning, node};
use tributary_suites::envoy::sidecar_id;
use tributary_suites::{
    AdsClient, Authority, Entry, Envoy, EnvoyConfig, Files, Follower, Identity, ServerOptions, TestServer,
    Variant, eventually, nowhere,
};

const SOON: Duration = Duration::from_secs(20);
const WEB: &str = "spiffe://cluster.local/ns/default/sa/web";
const PERMISSION_DENIED: i32 = 7;

fn entry() -> Entry {
    Entry::http("svc.test", 80).at(nowhere(1))
}

fn files() -> Result<Files> {
    let files = Files::new()?;
    files.put("svc.yaml", &entry().yaml())?;
    Ok(files)
}

/// Starts a server that requires certificates of `clients`.
async fn mutual(files: &Files, authority: &Authority) -> Result<TestServer> {
    let identity = authority.server("xds")?;
    TestServer::start(ServerOptions::files(files.path()).tls(&identity, Some(authority))).await
}

fn tuning() -> Tuning {
    Tuning { scheme: "https", authority: "localhost".to_owned(), ..Tuning::default() }
}

async fn connect(
    server: &TestServer,
    authority: &Authority,
    identity: Option<&Identity>,
    node: Node,
) -> Result<AdsClient> {
    let stream = authority.connect(server.xds(), identity).await?;
    AdsClient::over(stream, Variant::Delta, Some(node), tuning()).await
}

fn claims(fields: &[(&str, &str)]) -> Node {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect();
    Node { metadata: Some(Struct { fields }), ..node(&sidecar_id("web")) }
}

#[tokio::test]
async fn client_is_served_over_mutual_tls_with_its_identity() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let server = mutual(&files, &authority).await?;
    let web = authority.client("web", WEB)?;
    let node = claims(&[("NAMESPACE", "default"), ("SERVICE_ACCOUNT", "web")]);
    let client = connect(&server, &authority, Some(&web), node).await?;
    let mut client = Follower::over(client, Variant::Delta);
    client.subscribe(CDS, &[])?;
    client.holds(CDS, &[&entry().cluster()], SOON).await?;
    let shown = server.client(&sidecar_id("web")).await?;
    assert_eq!(shown["identity"], WEB);
    Ok(())
}

#[tokio::test]
async fn client_with_another_identity_than_its_node_is_denied() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let server = mutual(&files, &authority).await?;
    let web = authority.client("web", WEB)?;
    let odd = authority.client("odd", "spiffe://cluster.local/somewhere/else")?;
    for (identity, fields) in [
        (&web, &[("NAMESPACE", "other")][..]),
        (&web, &[("NAMESPACE", "default"), ("SERVICE_ACCOUNT", "db")]),
        (&odd, &[("NAMESPACE", "default")]),
    ] {
        let mut client = connect(&server, &authority, Some(identity), claims(fields)).await?;
        client.subscribe(CDS, &[])?;
        let status = client.expect_end(SOON).await?;
        ensure!(status.code == PERMISSION_DENIED, "{fields:?}: {status}");
        ensure!(!status.message.contains("outbound"), "the rejection names a served resource: {status}");
    }
    ensure!(server.items("clients").await?.is_empty(), "a client that was denied is shown as one");
    Ok(())
}

#[tokio::test]
async fn client_without_a_trusted_certificate_is_rejected() -> Result<()> {
    let (files, authority, foreign) = (files()?, Authority::new()?, Authority::new()?);
    let server = mutual(&files, &authority).await?;
    let stranger = foreign.client("web", WEB)?;
    for identity in [None, Some(&stranger)] {
        // With TLS 1.3 the rejection may come after the handshake, with the first response.
        let refused = async {
            let mut client =
                connect(&server, &authority, identity, claims(&[("NAMESPACE", "default")])).await?;
            client.subscribe(CDS, &[])?;
            client.next(SOON).await
        };
        ensure!(refused.await.is_err(), "a client without a proper certificate was answered");
    }
    let stream = tokio::net::TcpStream::connect(server.xds()).await?;
    let mut plain = AdsClient::over(stream, Variant::Sotw, Some(node("plain")), Tuning::default()).await?;
    let asked = plain.subscribe(CDS, &[]);
    ensure!(asked.is_err() || plain.next(SOON).await.is_err(), "plaintext was answered on the TLS port");
    Ok(())
}

/// With TLS of the server alone, clients need no certificate and have no identity.
#[tokio::test]
async fn server_side_tls_needs_no_certificate() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let identity = authority.server("xds")?;
    let server = TestServer::start(ServerOptions::files(files.path()).tls(&identity, None)).await?;
    let client = connect(&server, &authority, None, node("plain")).await?;
    let mut client = Follower::over(client, Variant::Delta);
    client.subscribe(CDS, &[])?;
    client.holds(CDS, &[&entry().cluster()], SOON).await
}

/// A rotated certificate is used for new connections; open streams stay and are still served.
#[tokio::test]
async fn certificate_rotation_keeps_streams_open() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let server = mutual(&files, &authority).await?;
    let web = authority.client("web", WEB)?;
    let node = || claims(&[("NAMESPACE", "default")]);
    let client = connect(&server, &authority, Some(&web), node()).await?;
    let mut before = Follower::over(client, Variant::Delta);
    before.subscribe(EDS, &[&entry().cluster()])?;
    before.has_endpoints(&entry().cluster(), &[nowhere(1)], SOON).await?;
    let old = shown_certificate(&server, &authority, &web).await?;
    authority.server("xds")?;
    eventually("the new certificate to be shown", SOON, || async {
        ensure!(shown_certificate(&server, &authority, &web).await? != old, "it shows the old one");
        Ok(())
    })
    .await?;
    files.put("svc.yaml", &Entry::http("svc.test", 80).at(nowhere(2)).yaml())?;
    before.has_endpoints(&entry().cluster(), &[nowhere(2)], SOON).await?;
    let client = connect(&server, &authority, Some(&web), node()).await?;
    let mut after = Follower::over(client, Variant::Delta);
    after.subscribe(EDS, &[&entry().cluster()])?;
    after.has_endpoints(&entry().cluster(), &[nowhere(2)], SOON).await
}

/// An unreadable certificate does not end serving: the last good one stays, and the fault is reported.
#[tokio::test]
async fn invalid_certificate_keeps_the_last_good_one() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let mut server = mutual(&files, &authority).await?;
    let web = authority.client("web", WEB)?;
    let old = shown_certificate(&server, &authority, &web).await?;
    std::fs::write(authority.path().join("xds.pem"), "no certificate")?;
    eventually("the log to show it", SOON, || {
        let log = server.process().output();
        async move {
            ensure!(log.contains("TRB0107"), "the log is:\n{log}");
            Ok(())
        }
    })
    .await?;
    assert_eq!(shown_certificate(&server, &authority, &web).await?, old);
    authority.server("xds")?;
    eventually("the repaired certificate to be shown", SOON, || async {
        ensure!(shown_certificate(&server, &authority, &web).await? != old, "it shows the old one");
        Ok(())
    })
    .await
}

async fn shown_certificate(server: &TestServer, authority: &Authority, web: &Identity) -> Result<Vec<u8>> {
    let stream = authority.connect(server.xds(), Some(web)).await?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    ensure!(!certificates.is_empty(), "the server shows no certificate");
    Ok(certificates[0].to_vec())
}

#[tokio::test]
async fn envoy_gets_its_resources_over_mutual_tls() -> Result<()> {
    let (files, authority) = (files()?, Authority::new()?);
    let server = mutual(&files, &authority).await?;
    let web = authority.client("web", WEB)?;
    for variant in Variant::BOTH {
        let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").tls(&authority, Some(&web));
        let envoy = Envoy::start(&config).await?;
        envoy.has_hosts(&entry().cluster(), &[nowhere(1)], SOON).await?;
        server.is_content(&sidecar_id("web"), SOON).await?;
        assert_eq!(server.client(&sidecar_id("web")).await?["identity"], WEB);
        assert_eq!(envoy.refused().await?, 0);
        drop(envoy);
        server.shows("clients", SOON, <[_]>::is_empty).await?;
    }
    Ok(())
}
