//! Tests the test Consul itself: restarts, snapshots and revoked tokens, on which the suites rely.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tributary_suites::consul::{ConsulOptions, Servers, join_wan, mk_instance};
use tributary_suites::kube::With;
use tributary_suites::{Authority, Consul, Rest, eventually};

const SOON: Duration = Duration::from_secs(30);

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 8080))
}

/// Returns the ids of a service's instances with the worst of their checks.
async fn health(rest: &Rest, service: &str) -> Result<Vec<(String, String)>> {
    let found = rest.get(&format!("/v1/health/service/{service}")).await?;
    let worst = |checks: &Value| {
        let of = |state| checks.as_array().into_iter().flatten().any(|check| check["Status"] == state);
        ["critical", "warning"].into_iter().find(|state| of(*state)).unwrap_or("passing").to_owned()
    };
    let id = |one: &Value| one["Service"]["ID"].as_str().unwrap_or_default().to_owned();
    Ok(found.as_array().into_iter().flatten().map(|one| (id(one), worst(&one["Checks"]))).collect())
}

fn states(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(id, state)| ((*id).to_owned(), (*state).to_owned())).collect()
}

#[tokio::test]
async fn instances_checks_and_maintenance() -> Result<()> {
    let consul = Consul::start().await?;
    consul.instance("pay", "pay-1", "n1", at(1)).await?;
    consul.instance("pay", "pay-1", "n2", at(2)).await?;
    let rest = consul.rest();
    assert_eq!(health(rest, "pay").await?, states(&[("pay-1", "passing"), ("pay-1", "passing")]));
    consul.check("pay-1", "n1", "http", "warning").await?;
    assert_eq!(health(rest, "pay").await?, states(&[("pay-1", "warning"), ("pay-1", "passing")]));
    consul.maintenance("pay-1", "n2", true).await?;
    assert_eq!(health(rest, "pay").await?, states(&[("pay-1", "warning"), ("pay-1", "critical")]));
    consul.maintenance("pay-1", "n2", false).await?;
    consul.deregister("n1", "pay-1").await?;
    assert_eq!(health(rest, "pay").await?, states(&[("pay-1", "passing")]));
    consul
        .register(&mk_instance("pay", "pay-9", "n2", at(9)).with(json!({"Service": {"Tags": ["v2"]}})))
        .await?;
    consul.deregister_node("n2").await?;
    assert_eq!(health(rest, "pay").await?, states(&[]));
    Ok(())
}

#[tokio::test]
async fn server_keeps_its_data_and_restores_a_snapshot() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    consul.instance("pay", "pay-1", "n1", at(1)).await?;
    let snapshot = consul.snapshot().await?;
    consul.instance("pay", "pay-2", "n1", at(2)).await?;
    consul.daemon().kill();
    consul.restart().await?;
    eventually("what it remembers", SOON, || async {
        let found = health(consul.rest(), "pay").await?;
        ensure!(found.len() == 2, "it remembers {found:?}");
        Ok(())
    })
    .await?;
    consul.restore(snapshot).await?;
    eventually("the state of the snapshot", SOON, || async {
        ensure!(health(consul.rest(), "pay").await? == states(&[("pay-1", "passing")]));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn tokens_see_what_their_rules_allow_until_they_are_revoked() -> Result<()> {
    let authority = Authority::new()?;
    let consul = Consul::start_with(ConsulOptions::default().acl().tls(&authority)?).await?;
    consul.instance("pay", "pay-1", "n1", at(1)).await?;
    consul.instance("audit", "audit-1", "n1", at(2)).await?;
    let rules = "service_prefix \"pay\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }";
    let (accessor, secret) = consul.token("pay-reader", rules).await?;
    let reader = consul.rest_as(Some(&secret))?;
    let names = reader.get("/v1/catalog/services").await?;
    assert!(names.get("pay").is_some() && names.get("audit").is_none(), "{names}");
    let anonymous = consul.rest_as(None)?.get("/v1/catalog/services").await?;
    assert!(anonymous.get("pay").is_none(), "who has no token sees nothing: {anonymous}");
    consul.revoke(&accessor).await?;
    eventually("the token to be gone", SOON, || async {
        let (status, why) = reader.send(Method::GET, "/v1/catalog/services", None).await?;
        ensure!(status == StatusCode::FORBIDDEN, "{status} {why}");
        Ok(())
    })
    .await?;
    // Its certificate is replaced in place and reloaded.
    authority.server("consul")?;
    consul.reload().await?;
    consul.rest().get("/v1/status/leader").await.map(drop)
}

#[tokio::test]
async fn three_servers_elect_another_leader() -> Result<()> {
    let servers = Servers::start().await?;
    let (leader, others) = servers.leader().await?;
    leader.instance("pay", "pay-1", "n1", at(1)).await?;
    let before = leader.leader().await?;
    leader.daemon().kill();
    for other in others {
        eventually("another leader", SOON, || async {
            let now = other.leader().await?;
            ensure!(!now.is_empty() && now != before, "it is {now:?}");
            ensure!(health(other.rest(), "pay").await?.len() == 1);
            Ok(())
        })
        .await?;
    }
    leader.restart().await
}

#[tokio::test]
async fn two_datacenters_answer_for_each_other() -> Result<()> {
    let wan = |name| Consul::start_with(ConsulOptions::default().datacenter(name).wan());
    let (one, two) = futures::future::try_join(wan("dc1"), wan("dc2")).await?;
    join_wan(&one, &two).await?;
    two.instance("pay", "pay-1", "n1", at(1)).await?;
    let found = one.rest().get("/v1/health/service/pay?dc=dc2").await?;
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    two.daemon().kill();
    let (status, why) = one.rest().send(Method::GET, "/v1/health/service/pay?dc=dc2", None).await?;
    assert!(status.is_server_error(), "a datacenter that is cut off is an error: {status} {why}");
    Ok(())
}

#[tokio::test]
async fn too_many_connections_get_429() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().connections(4)).await?;
    let url = consul.url().trim_start_matches("http://").to_owned();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(tokio::net::TcpStream::connect(&url).await?);
    }
    eventually("a refusal", SOON, || async {
        let (status, why) = Rest::plain(consul.url())?.send(Method::GET, "/v1/status/leader", None).await?;
        ensure!(status == StatusCode::TOO_MANY_REQUESTS, "{status} {why}");
        Ok(())
    })
    .await
}
