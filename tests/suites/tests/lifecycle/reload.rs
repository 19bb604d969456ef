//! The configuration file changes while the server runs.

use tributary_suites::eventually;

use super::*;

/// Writes a temporary file and renames it, as `Files` does for documents.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text)?;
    Ok(std::fs::rename(&fresh, path)?)
}

#[tokio::test]
async fn invalid_reload_keeps_the_running_config_and_is_shown() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    files.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let path = place.path().join("config.yaml");
    write(&path, &config(&[files.path()], ""))?;
    let mut server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut client = follow(&server).await?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1)], SOON).await?;
    write(&path, &config(&[files.path()], "regstries: []\n"))?;
    eventually("the bad file to be noticed", SOON, || async {
        let valid = server.metric("tributary_config_last_reload_successful").await?;
        ensure!(valid == 0.0, "it counts as taken");
        Ok(())
    })
    .await?;
    let process = server.process();
    eventually("the log to name the field", SOON, || async {
        let log = process.output();
        ensure!(log.contains("TRB0105") && log.contains("regstries"), "the log is:\n{log}");
        Ok(())
    })
    .await?;
    let shown = server.debug("config").await?.to_string();
    ensure!(shown.contains("regstries"), "/debug/config does not show it: {shown}");
    files.put("svc.yaml", &svc(&[nowhere(2)]).yaml())?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(2)], SOON).await?;
    write(&path, &config(&[files.path()], "settings: {connectTimeout: 3s}\n"))?;
    eventually("the good file to be taken", SOON, || async {
        let valid = server.metric("tributary_config_last_reload_successful").await?;
        ensure!(valid == 1.0, "the bad one still counts");
        Ok(())
    })
    .await?;
    ensure!(client.names(tributary_suites::ads::CDS).contains(&svc(&[]).cluster()), "the service was lost");
    Ok(())
}

/// A registry that is added on reload is served; a removed one is removed, because an operator requested it.
#[tokio::test]
async fn registries_come_and_go_by_reload() -> Result<()> {
    let (first, second, place) = (Files::new()?, Files::new()?, Files::new()?);
    first.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let other = Entry::http("other.test", 80).at(nowhere(2));
    second.put("other.yaml", &other.yaml())?;
    let path = place.path().join("config.yaml");
    write(&path, &config(&[first.path()], ""))?;
    let server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut client = follow(&server).await?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1)], SOON).await?;
    write(&path, &config(&[first.path(), second.path()], ""))?;
    client.has_endpoints(&other.cluster(), &[nowhere(2)], SOON).await?;
    ensure!(client.endpoints(&svc(&[]).cluster())?.len() == 1, "the first registry was restarted empty");
    write(&path, &config(&[first.path()], ""))?;
    client.holds(tributary_suites::ads::CDS, &[&svc(&[]).cluster()], SOON).await?;
    ensure!(server.is_ready().await?, "a reload touched readiness");
    Ok(())
}

/// A mesh-wide value changes every cluster, and endpoints follow their clusters.
#[tokio::test]
async fn settings_are_applied_on_reload() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    files.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let path = place.path().join("config.yaml");
    write(&path, &config(&[files.path()], ""))?;
    let server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut client = follow(&server).await?;
    let cluster = svc(&[]).cluster();
    client.has_endpoints(&cluster, &[nowhere(1)], SOON).await?;
    write(&path, &config(&[files.path()], "settings: {connectTimeout: 3s}\n"))?;
    let timeout = |now: &Follower| {
        use envoy_types::pb::envoy::config::cluster::v3::Cluster;
        let cluster: Cluster = now.decode(tributary_suites::ads::CDS, &cluster).ok()?;
        (cluster.connect_timeout?.seconds == 3).then_some(())
    };
    client.until("a timeout of 3 s", SOON, timeout).await
}
