//! Tokens of service accounts on real API servers: what a token proves, which cluster reviews it, how often, and what becomes of
//! clients while that cluster is stopped.

use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use jiff::SignedDuration;
use tempfile::TempDir;
use tributary_suites::ads::{CDS, GrpcStatus, client::Tuning, node};
use tributary_suites::consul::PORT;
use tributary_suites::envoy::{sidecar_id, sidecar_metadata};
use tributary_suites::kube::remotes::{mk_declaration, start_pair};
use tributary_suites::kube::{Login, READ, READABLE, Watched, mk_namespace};
use tributary_suites::{
    AdsClient, ApiServer, Authority, Envoy, EnvoyConfig, Follower, GrpcClient, GrpcConfig, Language,
    TestServer, Variant, eventually, outbound,
};

const SOON: Duration = Duration::from_secs(60);
const PAY: &str = "pay.shop.svc.cluster.local";
const WEB: &str = "spiffe://cluster.local/ns/default/sa/web";
const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

fn claims(fields: &[(&str, &str)]) -> Node {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect();
    Node { metadata: Some(Struct { fields }), ..node(&sidecar_id("web")) }
}

/// A sidecar of account `web` in namespace `default`.
fn web(cluster: &str) -> Node {
    claims(&[("NAMESPACE", "default"), ("SERVICE_ACCOUNT", "web"), ("CLUSTER_ID", cluster)])
}

async fn open(server: &TestServer, variant: Variant, node: Node, token: Option<&str>) -> Result<AdsClient> {
    let stream = tokio::net::TcpStream::connect(server.xds()).await?;
    let tuning = Tuning { token: token.map(str::to_owned), ..Tuning::default() };
    let mut client = AdsClient::over(stream, variant, Some(node), tuning).await?;
    client.subscribe(CDS, &[])?;
    Ok(client)
}

async fn is_served(server: &TestServer, node: Node, token: &str) -> Result<()> {
    for variant in Variant::BOTH {
        let answer = open(server, variant, node.clone(), Some(token)).await?.next(SOON).await?;
        ensure!(answer.names().contains(&outbound(PORT, PAY)), "{:?}", answer.names());
    }
    Ok(())
}

async fn is_refused(server: &TestServer, node: Node, token: Option<&str>) -> Result<GrpcStatus> {
    let status = open(server, Variant::Delta, node, token).await?.expect_end(SOON).await?;
    for part in token.into_iter().flat_map(|token| token.split('.')) {
        ensure!(part.len() < 8 || !status.message.contains(part), "a message repeats a token");
    }
    Ok(status)
}

/// Creates account `web` in namespace `default`, and returns its uid.
async fn account(cluster: &ApiServer) -> Result<String> {
    cluster.api().apply(&mk_namespace("default")).await?;
    cluster.api().create_account("default", "web").await
}

async fn good(cluster: &ApiServer) -> Result<String> {
    cluster.api().token_of("default", "web", &["istio-ca"]).await
}

/// Reviews with this result.
async fn reviews(server: &TestServer, result: &str) -> Result<u64> {
    let count = server.metric(&format!("tributary_token_reviews_total{{result=\"{result}\"}}")).await?;
    Ok(count as u64)
}

/// A cluster with a service, and a server that takes tokens.
async fn start() -> Result<(ApiServer, String, TestServer, TempDir)> {
    let cluster = ApiServer::start().await?;
    cluster.api().fill_pay(PORT, &["10.77.0.10"]).await?;
    let uid = account(&cluster).await?;
    let (server, config) = Watched::by_admin(&cluster)?.arg("--xds-tokens").start().await?;
    Ok((cluster, uid, server, config))
}

#[tokio::test]
async fn token_of_the_account_is_admitted_and_every_other_is_refused() -> Result<()> {
    let (cluster, uid, server, _config) = start().await?;
    let api = cluster.api();
    let token = good(&cluster).await?;
    is_served(&server, web("Kubernetes"), &token).await?;
    is_served(&server, node(&sidecar_id("web")), &token).await?;
    let both = api.token_of("default", "web", &["other", "tributary"]).await?;
    is_served(&server, web("Kubernetes"), &both).await?;

    let client = open(&server, Variant::Sotw, web("Kubernetes"), Some(&token)).await?;
    let mut client = Follower::over(client, Variant::Sotw);
    let has = |now: &Follower| now.names(CDS).contains(&outbound(PORT, PAY)).then_some(());
    client.until("the service", SOON, has).await?;
    let shown = server.client(&sidecar_id("web")).await?;
    ensure!(shown["identity"] == WEB && shown["proof"] == "token", "{shown}");
    let (_, wide, _) = server.command(&["get", "clients", "-o", "wide"]).await?;
    ensure!(wide.contains(WEB) && wide.contains("token") && wide.contains("PROOF"), "{wide}");

    let hour = SignedDuration::from_hours(1);
    let account = ("default", "web", uid.as_str());
    let expired = cluster.signer().token_for("istio-ca", account, -hour)?;
    let valid = cluster.signer().token_for("istio-ca", account, hour)?;
    is_served(&server, web("Kubernetes"), &valid).await?;
    let gone = cluster.signer().token_for("istio-ca", ("default", "gone", "u"), hour)?;
    let elsewhere = api.token_of("default", "web", &["other"]).await?;
    let api_only = api.token_of("default", "web", &[]).await?;
    let (head, _) = token.rsplit_once('.').unwrap_or_default();
    let forged = format!("{head}.{}", "A".repeat(86));
    for (what, token) in [
        ("none", None),
        ("of another audience", Some(elsewhere.as_str())),
        ("for the API server", Some(&api_only)),
        ("expired", Some(&expired)),
        ("of an account that is gone", Some(&gone)),
        ("with another signature", Some(&forged)),
        ("garbage", Some("garbage")),
        ("garbage of the form of a token", Some("a.b.c")),
        ("of a user", Some("admin-token")),
    ] {
        let status = is_refused(&server, web("Kubernetes"), token).await?;
        ensure!(status.code == UNAUTHENTICATED && status.message.contains("TRB0603"), "{what}: {status}");
    }
    for fields in [&[("NAMESPACE", "shop")][..], &[("NAMESPACE", "default"), ("SERVICE_ACCOUNT", "db")]] {
        let status = is_refused(&server, claims(fields), Some(&token)).await?;
        ensure!(status.code == PERMISSION_DENIED, "{fields:?}: {status}");
        ensure!(status.message.contains(" in namespace default, but node"), "{status}");
    }
    let status = is_refused(&server, web("nowhere"), Some(&token)).await?;
    ensure!(status.code == UNAUTHENTICATED && status.message.contains("cluster nowhere"), "{status}");
    ensure!(
        server.metric("tributary_xds_rejected_total{reason=\"identity\"}").await? == 12.0,
        "it is counted"
    );
    Ok(())
}

#[tokio::test]
async fn review_is_remembered_while_the_api_server_is_stopped() -> Result<()> {
    let (cluster, _, server, _config) = start().await?;
    let (token, later) = (good(&cluster).await?, good(&cluster).await?);
    for _ in 0..3 {
        is_served(&server, web("Kubernetes"), &token).await?;
    }
    ensure!((reviews(&server, "granted").await?, reviews(&server, "cached").await?) == (1, 5), "one request");
    cluster.daemon().kill();
    is_served(&server, web("Kubernetes"), &token).await?;
    let status = is_refused(&server, web("Kubernetes"), Some(&later)).await?;
    ensure!(status.code == UNAVAILABLE && status.message.contains("TRB0612"), "{status}");
    let status = is_refused(&server, web("Kubernetes"), Some("a.b.c")).await?;
    ensure!(status.code == UNAVAILABLE, "what was not reviewed is not refused for good: {status}");
    is_served(&server, web("Kubernetes"), &token).await?;
    ensure!(server.metric("tributary_xds_rejected_total{reason=\"review\"}").await? == 2.0, "it is counted");
    cluster.restart().await?;
    eventually("the other token to be reviewed", SOON, || is_served(&server, web("Kubernetes"), &later)).await
}

#[tokio::test]
async fn token_counts_in_the_cluster_that_issued_it() -> Result<()> {
    let (home, away) = start_pair().await?;
    account(&home).await?;
    account(&away).await?;
    let watched = Watched::by_admin(&home)?
        .arg("--xds-tokens")
        .config("remotes: {secrets: on, allowServerCidrs: [127.0.0.0/8]}\nstart: {firstSyncTimeout: 2s}");
    let (server, _config) = watched.start().await?;
    let (own, other) = (good(&home).await?, good(&away).await?);
    is_served(&server, web("Kubernetes"), &own).await?;
    let status = is_refused(&server, web("away"), Some(&other)).await?;
    ensure!(
        status.code == UNAUTHENTICATED && status.message.contains("no registry reads cluster away"),
        "{status}"
    );

    // its account may read, and not review
    away.api().allow("reader", &READ, &READABLE).await?;
    let kubeconfig = std::fs::read_to_string(away.kubeconfig(&Login::user("reader"))?)?;
    home.api().apply(&mk_declaration("remote-away", "away", &kubeconfig)).await?;
    server.registry_is("away", "Live", &[], SOON).await?;
    let status = is_refused(&server, web("away"), Some(&other)).await?;
    ensure!(status.code == UNAVAILABLE && status.message.contains("the right is missing"), "{status}");

    let kubeconfig = std::fs::read_to_string(away.admin_kubeconfig()?)?;
    home.api().apply(&mk_declaration("remote-away", "away", &kubeconfig)).await?;
    eventually("the cluster to review its tokens", SOON, || is_served(&server, web("away"), &other)).await?;
    for (cluster, token) in [("away", &own), ("Kubernetes", &other)] {
        let status = is_refused(&server, web(cluster), Some(token)).await?;
        ensure!(status.code == UNAUTHENTICATED, "a token of another cluster: {status}");
    }
    is_served(&server, web("Kubernetes"), &own).await
}

#[tokio::test]
async fn right_to_review_is_printed_and_verified() -> Result<()> {
    let (cluster, _, server, _config) = start().await?;
    let kubeconfig = cluster.kubeconfig(&Login::user("reader"))?.display().to_string();
    let flags = ["--registry", "kubernetes", "--kubeconfig", &kubeconfig, "--xds-tokens"];
    let rbac = async |verb: &str, flags: &[&str]| server.run(&[&["rbac", verb], flags].concat()).await;
    let (_, roles, _) = rbac("print", &flags).await?;
    ensure!(roles.contains("tokenreviews"), "{roles}");
    let (_, roles, _) = rbac("print", &flags[..4]).await?;
    ensure!(!roles.contains("tokenreviews"), "{roles}");
    let (status, table, _) = rbac("verify", &flags).await?;
    let line = table.lines().find(|line| line.contains("tokenreviews")).unwrap_or_default();
    ensure!(!status.success() && line.contains("create") && line.ends_with("no"), "{table}");
    cluster.api().allow("reader", &["create"], &["authentication.k8s.io/tokenreviews"]).await?;
    eventually("the right", SOON, || async {
        let (_, table, _) = rbac("verify", &flags).await?;
        let line = table.lines().find(|line| line.contains("tokenreviews")).unwrap_or_default();
        ensure!(line.ends_with("yes"), "{table}");
        Ok(())
    })
    .await
}

/// Either proof is enough with both, and real Envoy presents its token over TLS.
#[tokio::test]
async fn envoy_proves_itself_by_a_token_or_a_certificate() -> Result<()> {
    let cluster = ApiServer::start().await?;
    cluster.api().fill_pay(PORT, &["10.77.0.10"]).await?;
    account(&cluster).await?;
    let (authority, token) = (Authority::new()?, good(&cluster).await?);
    let identity = authority.server("xds")?;
    let mut watched = Watched::by_admin(&cluster)?.arg("--xds-tokens");
    for (flag, file) in [
        ("--xds-cert", &identity.certificate_file),
        ("--xds-key", &identity.key_file),
        ("--xds-client-ca", &authority.file()),
    ] {
        watched = watched.arg(flag).arg(&file.display().to_string());
    }
    let (server, _config) = watched.start().await?;
    let own = authority.client("web", WEB)?;
    let others = [
        authority.client("other", "spiffe://other.test/ns/default/sa/web")?,
        authority.client("longer", &format!("{WEB}/x"))?,
        authority.client("upwards", "spiffe://cluster.local/x/../ns/default/sa/web")?,
    ];
    for variant in Variant::BOTH {
        let envoy = || EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(sidecar_metadata());
        for (config, proof) in [
            (envoy().tls(&authority, None).token(&token), "token"),
            (envoy().tls(&authority, Some(&own)), "certificate"),
            (envoy().tls(&authority, Some(&others[0])).token(&token), "token"),
        ] {
            let envoy = Envoy::start(&config).await?;
            envoy.has_hosts(&outbound(PORT, PAY), &["10.77.0.10:8080".parse()?], SOON).await?;
            let shown = server.client(&sidecar_id("web")).await?;
            ensure!(shown["identity"] == WEB && shown["proof"] == proof, "{shown}");
            drop(envoy);
            server.shows("clients", SOON, <[_]>::is_empty).await?;
        }
    }
    for other in others.iter().map(Some).chain([None]) {
        let stream = authority.connect(server.xds(), other).await?;
        let tuning = Tuning { scheme: "https", authority: "localhost".to_owned(), ..Tuning::default() };
        let mut client = AdsClient::over(stream, Variant::Delta, Some(web("Kubernetes")), tuning).await?;
        client.subscribe(CDS, &[])?;
        let status = client.expect_end(SOON).await?;
        let expected = if other.is_some() { PERMISSION_DENIED } else { UNAUTHENTICATED };
        ensure!(status.code == expected && status.message.contains("TRB0603"), "{status}");
    }
    Ok(())
}

/// A gRPC client presents the token of a file, which its call credentials read again, and is served as its account.
#[tokio::test]
async fn grpc_client_proves_itself_by_a_token() -> Result<()> {
    let cluster = ApiServer::start().await?;
    cluster.api().fill_pay(PORT, &["10.77.0.10"]).await?;
    account(&cluster).await?;
    let (authority, folder) = (Authority::new()?, TempDir::new()?);
    let identity = authority.server("xds")?;
    let mut watched = Watched::by_admin(&cluster)?.arg("--xds-tokens");
    for (flag, file) in [("--xds-cert", &identity.certificate_file), ("--xds-key", &identity.key_file)] {
        watched = watched.arg(flag).arg(&file.display().to_string());
    }
    let (server, _config) = watched.start().await?;
    let other = cluster.api().token_of("default", "web", &["other"]).await?;
    for (at, (token, is_served)) in [(good(&cluster).await?, true), (other, false)].into_iter().enumerate() {
        let (file, id) = (
            folder.path().join(at.to_string()),
            format!("sidecar~10.0.0.9~web-{at}.default~default.svc.cluster.local"),
        );
        std::fs::write(&file, token)?;
        let metadata =
            serde_json::json!({"GENERATOR": "grpc", "NAMESPACE": "default", "CLUSTER_ID": "Kubernetes"});
        let config = GrpcConfig::new(server.xds()).node_id(&id).metadata(metadata).token(&authority, &file);
        let mut client = GrpcClient::start(Language::Python, &config).await?;
        client.start_load(&format!("{PAY}:{PORT}"), 1, 1).await?;
        if is_served {
            eventually("the client with its identity", SOON, || async {
                let shown = server.client(&id).await?;
                ensure!(shown["identity"] == WEB && shown["proof"] == "token", "{shown}");
                Ok(())
            })
            .await?;
        } else {
            eventually("the refusal of a token for another audience", SOON, || async {
                let refused = server.metric("tributary_token_reviews_total{result=\"refused\"}").await?;
                ensure!(refused > 0.0, "no token was refused");
                Ok(())
            })
            .await?;
            ensure!(server.client(&id).await.is_err(), "a token for another audience proves nothing");
        }
    }
    Ok(())
}
