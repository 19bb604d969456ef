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

/// Returns a configuration with file registries of these names; one without a name is named after its kind.
fn named(registries: &[(&str, &Path)]) -> String {
    let mut text = "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n".to_owned();
    for (name, folder) in registries {
        let name = if name.is_empty() { String::new() } else { format!("  name: {name}\n") };
        text.push_str(&format!("- kind: file\n{name}  path: {}\n", folder.display()));
    }
    text
}

async fn lists(server: &TestServer, names: &[&str]) -> Result<()> {
    eventually("the registries to be these", SOON, || async {
        let all = server.items("registries").await?;
        let found: Vec<&str> = all.iter().filter_map(|one| one["name"].as_str()).collect();
        ensure!(names.iter().all(|name| found.contains(name)) && found.len() == names.len(), "{found:?}");
        Ok(())
    })
    .await
}

/// The endpoints of a registry under a new name are those of the old name until the source has been listed again, which takes until it can be
/// read.
#[tokio::test]
async fn renamed_registry_keeps_its_endpoints_until_its_source_is_listed() -> Result<()> {
    let (home, other) = (Files::new()?, Files::new()?);
    let (folder, away) = (home.path().join("here"), home.path().join("away"));
    std::fs::create_dir(&folder)?;
    write(&folder.join("svc.yaml"), &svc(&[nowhere(1)]).yaml())?;
    other.put("other.yaml", &Entry::http("other.test", 80).at(nowhere(2)).yaml())?;
    let path = home.path().join("config.yaml");
    write(&path, &named(&[("one", &folder)]))?;
    let server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut client = follow(&server).await?;
    let cluster = svc(&[]).cluster();
    client.has_endpoints(&cluster, &[nowhere(1)], SOON).await?;

    std::fs::rename(&folder, &away)?;
    write(&path, &named(&[("two", &folder)]))?;
    let waits = async |text: &str| {
        eventually("the reload to wait", SOON, || async {
            let shown = server.debug("config").await?.to_string();
            ensure!(shown.contains(text), "{shown}");
            Ok(())
        })
        .await
    };
    waits("`one`: it stays until `two`, which has the same source").await?;
    lists(&server, &["one", "two"]).await?;
    let listed = server.items("endpoints?host=svc.test").await?;
    ensure!(listed[0]["endpoint"] == nowhere(1).to_string(), "they left: {listed:?}");
    std::fs::rename(&away, &folder)?;
    lists(&server, &["two"]).await?;
    ensure!(server.metric("tributary_config_last_reload_successful").await? == 1.0, "it counts as failed");
    client.has_endpoints(&cluster, &[nowhere(1)], SOON).await?;

    // the names of the others change because the first one has left; what the second one had waits for its new name, too
    let third = Files::new()?;
    let last = Entry::http("last.test", 80).at(nowhere(3));
    third.put("last.yaml", &last.yaml())?;
    write(&path, &named(&[("", other.path()), ("", &folder), ("", third.path())]))?;
    lists(&server, &["file", "file-2", "file-3"]).await?;
    client.has_endpoints(&last.cluster(), &[nowhere(3)], SOON).await?;
    std::fs::rename(&folder, &away)?;
    write(&path, &named(&[("", &folder), ("", third.path())]))?;
    waits("`file-3`: it stays until `file-2`").await?;
    ensure!(server.items("endpoints?host=svc.test").await?.len() == 1, "they left with the name");
    std::fs::rename(&away, &folder)?;
    lists(&server, &["file", "file-2"]).await?;
    client.has_endpoints(&cluster, &[nowhere(1)], SOON).await?;
    client.has_endpoints(&last.cluster(), &[nowhere(3)], SOON).await?;
    // a new run does not know the last valid version of an object
    write(&path, &named(&[("one", &folder), ("last", third.path())]))?;
    lists(&server, &["one", "last"]).await?;
    write(&folder.join("svc.yaml"), &svc(&[nowhere(1)]).yaml().replace("STATIC", "OTHER"))?;
    server.registry_is("one", "Live", &["svc.yaml", "OTHER"], SOON).await?;
    write(&path, &named(&[("two", &folder), ("last", third.path())]))?;
    waits("`one`: it stays until `two`").await?;
    let listed = server.items("endpoints?host=svc.test").await?;
    ensure!(listed.len() == 1 && listed[0]["registry"] == "one", "they left: {listed:?}");
    write(&folder.join("svc.yaml"), &svc(&[nowhere(1)]).yaml())?;
    lists(&server, &["two", "last"]).await?;
    let items = server.items("timeline?host=svc.test").await?;
    let is_loss = |text: &str| text.contains("no endpoint left") || text.contains("services: 1 removed");
    let lost = items
        .iter()
        .find(|item| is_loss(&item["message"].to_string()) && item["object"]["name"] == "svc.test");
    ensure!(lost.is_none(), "its endpoints left: {items:#?}");
    Ok(())
}
