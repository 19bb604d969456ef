//! Faults of several replicas, and of clients of one.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tributary_suites::ads::{CDS, node};
use tributary_suites::front::Changes;
use tributary_suites::{
    AdsClient, Entry, Files, Front, ServerOptions, TestServer, Variant, eventually, nowhere,
};

use crate::checked::{LATER, after, check};

fn entry(host: &str) -> String {
    Entry::http(host, 80).at(nowhere(1)).yaml()
}

async fn checked(servers: &[String]) -> Result<crate::checked::Checked> {
    check(&["--server", &servers.join(",")]).await
}

#[tokio::test]
async fn each_difference_of_replicas_is_red() -> Result<()> {
    let (one, two) = (Files::new()?, Files::new()?);
    one.put("pay.yaml", &entry("pay.test"))?;
    two.put("pay.yaml", &entry("pay.test"))?;
    two.put("cart.yaml", &entry("cart.test"))?;
    let first = TestServer::start(ServerOptions::files(one.path())).await?;
    let equal = TestServer::start(ServerOptions::files(one.path())).await?;
    let more = TestServer::start(ServerOptions::files(two.path())).await?;
    let both = TestServer::start(ServerOptions::files(one.path()).and_files(two.path())).await?;
    let at = |server: &TestServer| server.admin().to_string();
    eventually("replicas to be equal", LATER, || async {
        checked(&[at(&first), at(&equal)]).await?.is_green()
    })
    .await?;

    // the folder is a part of the configuration
    let folder = ("replicas-config", "`registries` differs");
    let differs = checked(&[at(&first), at(&more)]).await?;
    differs.is_red(&[("replicas-content", "2 services and 2 endpoints on "), folder])?;
    let differs = checked(&[at(&first), at(&both)]).await?;
    differs.is_red(&[("replicas-registries", "not on "), folder])?;

    let front = Front::plain(equal.admin()).await?;
    let fronted = [at(&first), front.addr().to_string()];
    checked(&fronted).await?.is_green().context("through a front")?;
    let version = ("/debug/version", "/version", json!("0.0.1"));
    front.set(Changes { fields: vec![version], ..Changes::default() });
    checked(&fronted).await?.is_red(&[("replicas-version", "0.0.1 on "), ("server-version", "0.0.1")])?;
    drop(front);
    let silent = checked(&fronted).await?;
    silent.is_red(&[("replicas-answer", "cannot be reached")])?;
    ensure!(silent.0 == Some(7), "exit {:?}", silent.0);
    let alone = check(&["--server", &fronted[1]]).await?;
    alone.is_red(&[("server-answers", "cannot be reached")])?;
    ensure!(alone.0 == Some(3), "exit {:?}", alone.0);
    client(&first).await
}

/// A sidecar names no certificates of a mesh.
async fn client(server: &TestServer) -> Result<()> {
    let id = "sidecar~10.9.0.9~web-1.web~web.svc.cluster.local";
    let mut client = AdsClient::connect(server.xds(), Variant::Delta, node(id)).await?;
    client.subscribe(CDS, &["*"])?;
    eventually("the note of the client", LATER, || async {
        after(server, &[]).await?.is_red(&[("client-notes", "1 client, such as sidecar~")])
    })
    .await?;
    drop(client);
    eventually("the end of the client", LATER, || async { after(server, &[]).await?.is_green() }).await
}
