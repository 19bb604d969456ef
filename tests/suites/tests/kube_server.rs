//! Tests the test API server itself: kills, revoked permissions and expiring tokens, on which the suites rely.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::SignedDuration;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{
    ApiServerOptions, Login, Named, With, mk_namespace, mk_node, mk_pod, mk_service, mk_slice,
};
use tributary_suites::{ApiServer, Etcd};

/// An API server learns of a right a moment after it was granted.
const SOON: Duration = Duration::from_secs(20);

fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Named {
    let text = |text: &str| text.to_owned();
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(text);
    Named { api_version: text(api_version), kind: text(kind), namespace, name: text(name) }
}

#[tokio::test]
async fn objects_are_applied_stored_and_cleared() -> Result<()> {
    let server = ApiServer::start().await?;
    let api = server.api();
    let pod = mk_pod("shop", "pay-0", "10.1.0.1", "n1", &[("app", "pay")]);
    let ports: &[(&str, u16, u16)] = &[("http", 80, 8080)];
    api.apply_all(&[
        mk_namespace("shop"),
        mk_node("n1", "eu", "1b")
            .with(json!({"status": {"addresses": [{"type": "ExternalIP", "address": "1.2.3.4"}]}})),
        mk_service("shop", "pay", ports),
        mk_slice("shop", "pay", "pay-1", &["10.1.0.1"], &[("http", 8080)]),
        pod.clone(),
    ])
    .await?;
    let kept = api.find(&Named::of(&pod)?).await?.unwrap_or_default();
    assert_eq!(kept["status"]["podIP"], "10.1.0.1", "the status is written too: {kept}");
    // Applied again with fewer fields: absent fields are removed.
    api.apply(&mk_service("shop", "pay", ports).with(json!({"spec": {"selector": null}}))).await?;
    let service = named("v1", "Service", "shop", "pay");
    assert_eq!(api.find(&service).await?.unwrap_or_default()["spec"].get("selector"), None);

    server.daemon().kill();
    server.restart().await?;
    assert!(api.find(&service).await?.is_some(), "objects outlive the server");
    api.clear(&[]).await?;
    for (version, kind) in [("v1", "Pod"), ("v1", "Node"), ("discovery.k8s.io/v1", "EndpointSlice")] {
        assert_eq!(api.list(version, kind).await?.len(), 0, "{kind}");
    }
    assert_eq!(api.list("v1", "Service").await?.len(), 1, "the server's own stays");
    assert!(api.find(&named("v1", "Namespace", "", "shop")).await?.is_none());
    // A removed namespace can be created again at once.
    api.apply(&mk_namespace("shop")).await?;
    api.apply(&mk_service("shop", "pay", ports)).await?;
    Ok(())
}

#[tokio::test]
async fn logins_have_exactly_their_granted_permissions() -> Result<()> {
    let server = ApiServer::start().await?;
    let status = async |login: &Login| -> Result<StatusCode> {
        let api = server.api_as(login)?;
        Ok(api.rest().send(Method::GET, "/api/v1/services?limit=1", None).await?.0)
    };
    let reader = Login::user("reader");
    assert_eq!(status(&reader).await?, StatusCode::FORBIDDEN);
    server.api().allow("reader", &["get", "list", "watch"], &["services"]).await?;
    tributary_suites::eventually("the right to be there", SOON, || async {
        ensure!(status(&reader).await? == StatusCode::OK);
        Ok(())
    })
    .await?;
    server.api().allow("reader", &["get"], &["nodes"]).await?;
    tributary_suites::eventually("the right to be gone", SOON, || async {
        ensure!(status(&reader).await? == StatusCode::FORBIDDEN);
        Ok(())
    })
    .await?;
    assert_eq!(status(&Login::Token("stranger".to_owned())).await?, StatusCode::UNAUTHORIZED);

    let account =
        documents("{apiVersion: v1, kind: ServiceAccount, metadata: {name: trib, namespace: default}}")?;
    let account = server.api().apply(&account[0]).await?;
    let uid = account["metadata"]["uid"].as_str().unwrap_or_default();
    let sign = |lasts| server.signer().token("default", "trib", uid, lasts).map(Login::Token);
    assert_eq!(
        status(&sign(SignedDuration::from_hours(1))?).await?,
        StatusCode::FORBIDDEN,
        "known, without a right"
    );
    assert_eq!(
        status(&sign(SignedDuration::from_mins(-5))?).await?,
        StatusCode::UNAUTHORIZED,
        "it has ended"
    );
    server.api().allow("default:trib", &["list"], &["services"]).await?;
    let login = sign(SignedDuration::from_hours(1))?;
    tributary_suites::eventually("the account's right", SOON, || async {
        ensure!(status(&login).await? == StatusCode::OK);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn clusters_share_an_etcd_and_nothing_else() -> Result<()> {
    let etcd = std::sync::Arc::new(Etcd::start().await?);
    let start = |prefix| ApiServer::start_with(ApiServerOptions::default().on(&etcd, prefix));
    let (one, two) = futures::future::try_join(start("one"), start("two")).await?;
    one.api().apply(&mk_namespace("shop")).await?;
    assert!(two.api().find(&named("v1", "Namespace", "", "shop")).await?.is_none());
    let before = etcd.revision().await?;
    // the API servers write leases of their own in between
    assert!(etcd.compact().await? >= before);
    one.daemon().kill();
    one.restart().await?;
    let watch = "/api/v1/namespaces?watch=true&resourceVersion=1&timeoutSeconds=1";
    let (status, body) = one.api().rest().send(Method::GET, watch, None).await?;
    let gone = status == StatusCode::GONE || body["object"]["code"] == 410;
    assert!(gone, "a watch from before the compaction cannot go on: {status} {body}");
    one.daemon().pause().await?;
    let silent = one.api().rest().get("/readyz");
    let waited = tokio::time::timeout(Duration::from_millis(300), silent).await;
    assert!(waited.is_err(), "a paused server answers nothing: {waited:?}");
    one.daemon().resume()?;
    one.ready().await
}
