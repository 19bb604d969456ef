//! Remote clusters that a directory of kubeconfigs declares, on two real API servers: added, rotated and removed with the files, also
//! by a server without a config cluster and across a restart. One of the clusters stands for both where a test needs one name more.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::kube::remotes::{
    AWAY, HOME, NAMESPACE, mk_declaration, sends_nothing, serves, start_pair,
};
use tributary_suites::kube::{Login, Named};
use tributary_suites::{ApiServer, Follower, ServerOptions, TestServer, Variant, eventually};

const SOON: Duration = Duration::from_secs(60);
/// Longer than the grace and than several looks.
const WATCHED: Duration = Duration::from_secs(4);

/// Two clusters, a directory of kubeconfigs, and a server that follows it.
struct Lab {
    home: ApiServer,
    away: ApiServer,
    server: Option<TestServer>,
    recorder: Option<Follower>,
    folder: TempDir,
}

impl Lab {
    /// Starts a server with these lines in place of a registry.
    async fn start(remotes: &str, registries: &str) -> Result<Self> {
        let (home, away) = start_pair().await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = home.kubeconfig(&Login::user("admin"))?;
        let directory = folder.path().join("clusters");
        std::fs::create_dir(&directory)?;
        let text = format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\nstart: {{firstSyncTimeout: 5s}}\n\
             remotes: {{directory: {}, leaveGrace: 1s, drain: 0s, allowServerCidrs: [127.0.0.0/8]{remotes}}}\n{}",
            directory.display(),
            registries.replace("KUBECONFIG", &kubeconfig.display().to_string()),
        );
        std::fs::write(folder.path().join("config.yaml"), text)?;
        Ok(Self { home, away, server: None, recorder: None, folder })
    }
    /// Starts the server, after the last one was killed.
    async fn launch(&mut self) -> Result<()> {
        (self.recorder, self.server) = (None, None);
        let config = self.folder.path().join("config.yaml");
        let state = self.folder.path().join("state");
        let options = ServerOptions::default().config(&config).arg("--state-dir");
        let mut server = TestServer::launch(options.arg(state.to_str().context("a path that is text")?))?;
        server.ready(SOON).await?;
        self.recorder = Some(Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?);
        self.server = Some(server);
        Ok(())
    }
    fn server(&self) -> Result<&TestServer> {
        self.server.as_ref().context("no server runs")
    }
    fn recorder(&mut self) -> Result<&mut Follower> {
        self.recorder.as_mut().context("no client is connected")
    }
    fn directory(&self) -> PathBuf {
        self.folder.path().join("clusters")
    }
    fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
    fn kubeconfig(cluster: &ApiServer, login: &Login) -> Result<String> {
        Ok(std::fs::read_to_string(cluster.kubeconfig(login)?)?)
    }
    /// Replaces a file by one with the kubeconfig of a cluster.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let next = self.path(".next");
        std::fs::write(&next, text)?;
        Ok(std::fs::rename(next, self.path(name))?)
    }
    fn remove(&self, name: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.path(name))?)
    }
    async fn serves(&mut self, endpoints: &[&str]) -> Result<()> {
        serves(self.recorder()?, endpoints, SOON).await
    }
    async fn sends_nothing(&mut self) -> Result<()> {
        sends_nothing(self.recorder()?, WATCHED).await
    }
    async fn clusters(&self) -> Result<Value> {
        let (_, text, notes) = self.server()?.command(&["get", "clusters", "-o", "json"]).await?;
        serde_json::from_str(&text).with_context(|| format!("{text} {notes}"))
    }
    /// Waits until a cluster is in this state and its report has these texts.
    async fn is(&self, name: &str, state: &str, texts: &[&str]) -> Result<Value> {
        eventually(&format!("{name} to be {state} with {texts:?}"), SOON, || async {
            let all = self.clusters().await?;
            let one = all["items"].as_array().into_iter().flatten().find(|one| one["name"] == name);
            let text = one.map(ToString::to_string).unwrap_or_default();
            let is_so = one.is_some_and(|one| one["state"] == state);
            ensure!(is_so && texts.iter().all(|part| text.contains(part)), "{all:#}");
            Ok(one.cloned().unwrap_or_default())
        })
        .await
    }
    /// Waits until the notes of `get clusters` have these texts.
    async fn notes(&self, texts: &[&str]) -> Result<()> {
        eventually(&format!("notes with {texts:?}"), SOON, || async {
            let (status, _, notes) = self.server()?.command(&["get", "clusters"]).await?;
            ensure!(status.success() && texts.iter().all(|text| notes.contains(text)), "{notes}");
            Ok(())
        })
        .await
    }
    /// Waits until the log has these texts: its comparison of the clusters follows a change by a second or more.
    async fn logs(&mut self, texts: &[&str]) -> Result<()> {
        let until = Instant::now() + SOON;
        loop {
            let log = self.server.as_mut().context("no server runs")?.process().output();
            if texts.iter().all(|text| log.contains(text)) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "{log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    async fn is_written(&self) -> Result<()> {
        eventually("everything to be written", SOON, || async {
            let state = self.server()?.debug("state").await?;
            let registries = state["registries"].as_array().context("registries")?;
            ensure!(registries.iter().all(|one| one["whole"] == true), "{state}");
            ensure!(state["journal"]["pendingKeys"] == 0, "{state}");
            Ok(())
        })
        .await
    }
}

/// Swaps a link to a directory, as kubelet does with the files of a mounted Secret.
fn swap(link: &Path, version: &str) -> Result<()> {
    let next = link.with_file_name("..data_tmp");
    symlink(version, &next).with_context(|| format!("link {}", next.display()))?;
    std::fs::rename(&next, link).with_context(|| format!("rename {}", next.display()))
}

#[tokio::test]
async fn files_alone_are_served_rotated_held_and_removed_without_a_config_cluster() -> Result<()> {
    let mut lab = Lab::start("", "").await?;
    let away = Lab::kubeconfig(&lab.away, &Login::user("admin"))?;
    lab.write("away.yaml", &away)?;
    lab.launch().await?;
    lab.serves(&[AWAY]).await?;
    let file = lab.path("away.yaml").display().to_string();
    let shown = lab.is("away", "Live", &[]).await?;
    ensure!(
        shown["source"] == format!("file {file}") && shown["claims"][0]["outcome"] == "Used",
        "{shown:#}"
    );
    let (status, text, _) = lab.server()?.command(&["cluster", "describe", "away"]).await?;
    ensure!(status.success() && text.contains(&file), "{text}");

    // a second file joins, and a mount is swapped as a whole
    for version in ["..1", "..2"] {
        std::fs::create_dir(lab.path(version)).context("make a version")?;
    }
    for version in ["..1", "..2"] {
        let login = if version == "..1" { "admin-token" } else { "garbage-token" };
        let text = Lab::kubeconfig(&lab.home, &Login::Token(login.to_owned()))?;
        std::fs::write(lab.path(version).join("home.conf"), text)?;
    }
    symlink("..1", lab.path("..data")).context("link the version")?;
    symlink("..data/home.conf", lab.path("home.conf")).context("link the file")?;
    lab.serves(&[AWAY, HOME]).await?;
    lab.is("home", "Live", &[]).await?;
    lab.recorder()?.forget();
    swap(&lab.path("..data"), "..2")?;
    lab.is("home", "Live", &["TRB0713", "NewCredential"]).await?;
    swap(&lab.path("..data"), "..1")?;
    lab.is("home", "Live", &["\"rotations\":2"]).await?;
    lab.sends_nothing().await?;

    // an unreadable file, a refused one and a missing directory lose nothing, and show
    lab.write("away.yaml", "users: [{user: {exec: {command: s3cr3t-hunter2}}}]")?;
    let shown = lab.is("away", "Live", &["TRB070"]).await?;
    ensure!(
        shown["claims"][0]["outcome"] == "Refused" && !shown.to_string().contains("hunter2"),
        "{shown:#}"
    );
    let (status, text, _) = lab.server()?.command(&["cluster", "check", "--all", "-o", "json"]).await?;
    ensure!(status.code() == Some(3) && text.contains(&file), "{status}: {text}");
    let moved = lab.folder.path().join("moved");
    std::fs::rename(lab.directory(), &moved)?;
    lab.notes(&["directory ", "Failed", "no cluster is removed", "No such file", "TRB0719"]).await?;
    lab.sends_nothing().await?;
    std::fs::rename(&moved, lab.directory())?;
    lab.write("away.yaml", &away)?;
    lab.is("away", "Live", &["\"outcome\":\"Used\""]).await?;
    lab.sends_nothing().await?;

    policy_of_a_file_applies_at_once(&mut lab, &file).await?;
    lab.remove("away.yaml")?;
    lab.serves(&[HOME]).await?;
    let receipts = lab.server()?.items("receipts").await?;
    ensure!(receipts.len() == 1 && receipts[0]["object"] == file.as_str(), "{receipts:?}");
    Ok(())
}

/// A pause in the configuration closes the connection of a file's cluster; another directory waits for a restart.
async fn policy_of_a_file_applies_at_once(lab: &mut Lab, file: &str) -> Result<()> {
    let (status, text, _) = lab.server()?.command(&["cluster", "pause", "away"]).await?;
    ensure!(status.code() == Some(3) && text.contains("    away:\n      paused: true\n"), "{text}");
    let (status, text, notes) = lab.server()?.command(&["cluster", "remove", "away"]).await?;
    ensure!(status.code() == Some(3) && text.contains(&format!("rm {file}\n")), "{text}");
    ensure!(notes.contains("with cluster away leave ") && notes.contains(" 1 endpoint, "), "{notes}");
    let path = lab.folder.path().join("config.yaml");
    let before = std::fs::read_to_string(&path)?;
    let paused = before.replace("leaveGrace", "clusters: {away: {paused: true}}, leaveGrace");
    std::fs::write(&path, paused.replace("/clusters,", "/elsewhere,"))?;
    lab.is("away", "Paused", &["`remotes.clusters.away.paused` is set"]).await?;
    let config = lab.server()?.debug("config").await?;
    ensure!(config["lastReload"]["needsRestart"] == serde_json::json!(["remotes.directory"]), "{config:#}");
    std::fs::write(&path, before)?;
    lab.is("away", "Live", &[]).await?;
    lab.sends_nothing().await
}

#[tokio::test]
async fn cluster_of_a_file_is_remembered_while_the_directory_cannot_be_read() -> Result<()> {
    let mut lab = Lab::start("", "").await?;
    lab.write("away.yaml", &Lab::kubeconfig(&lab.away, &Login::user("admin"))?)?;
    lab.launch().await?;
    lab.serves(&[AWAY]).await?;
    lab.is("away", "Live", &[]).await?;
    lab.is_written().await?;
    let (file, moved) = (lab.path("away.yaml"), lab.folder.path().join("moved"));
    std::fs::rename(lab.directory(), &moved)?;
    lab.launch().await?;
    lab.serves(&[AWAY]).await?;
    let file = format!("file {}", file.display());
    let shown = lab.is("away", "Stale", &["TRB0719", "No such file", &format!("{file} is not read")]).await?;
    ensure!(shown["source"] == file.as_str(), "{shown:#}");
    lab.recorder()?.forget();
    lab.sends_nothing().await?;

    std::fs::rename(&moved, lab.directory())?;
    lab.is("away", "Live", &[]).await?;
    lab.sends_nothing().await?;
    lab.is_written().await?;
    // only the list of the directory proves that the cluster is gone
    lab.remove("away.yaml")?;
    lab.launch().await?;
    eventually("the cluster to be gone", SOON, || async {
        let all = lab.clusters().await?;
        ensure!(all["items"].as_array().is_some_and(Vec::is_empty), "{all:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn file_precedes_a_secret_and_one_cluster_under_two_names_is_shown_on_both() -> Result<()> {
    let registry =
        "registries: [{kind: kubernetes, kubeconfig: KUBECONFIG, probeInterval: 1s, staleAfter: 5s}]\n";
    let mut lab = Lab::start("", registry).await?;
    let away = Lab::kubeconfig(&lab.away, &Login::user("admin"))?;
    lab.write("away.yaml", &away)?;
    let secret = mk_declaration("remote-away", "away", &away);
    lab.home.api().apply(&secret).await?;
    lab.launch().await?;
    lab.serves(&[HOME, AWAY]).await?;
    let object = format!("Secret {NAMESPACE}/remote-away");
    let shown = lab.is("away", "Live", &["TRB0710", "Duplicate", &object]).await?;
    ensure!(shown["source"] == format!("file {}", lab.path("away.yaml").display()), "{shown:#}");
    lab.recorder()?.forget();

    // the Secret with the same credential steps in without a resource, and is the one that is remembered
    lab.remove("away.yaml")?;
    eventually("the Secret to be used", SOON, || async {
        let shown = lab.is("away", "Live", &[]).await?;
        ensure!(shown["source"] == object.as_str() && shown["rotations"] == 0, "{shown:#}");
        let state = lab.server()?.debug("state").await?.to_string();
        ensure!(!state.contains("away.yaml"), "{state}");
        Ok(())
    })
    .await?;
    lab.sends_nothing().await?;

    // one real cluster under a second name
    lab.write("again", &away)?;
    for (name, other) in [("away", "again"), ("again", "away")] {
        lab.is(name, "Live", &["SameCluster", "TRB0717", &format!("it is one cluster with {other}")]).await?;
    }
    let (_, text, _) = lab.server()?.command(&["cluster", "describe", "again"]).await?;
    ensure!(text.contains("TRB0717"), "{text}");
    lab.remove("again")?;
    eventually("the condition to end with the second name", SOON, || async {
        let shown = lab.is("away", "Live", &[]).await?;
        ensure!(shown.get("conditions").is_none(), "{shown:#}");
        Ok(())
    })
    .await?;

    // an accepted UID that is not the cluster's
    let mut annotated = secret.clone();
    annotated["metadata"]["annotations"] = serde_json::json!({"tributary.dev/accept-uid": "0b54ab2f-0000"});
    lab.home.api().apply(&annotated).await?;
    let shown = lab.is("away", "Live", &["UidNotAccepted", "TRB0718", "0b54ab2f-0000"]).await?;
    let uid = shown["identity"].as_str().context("an identity")?;
    let message = shown["conditions"][0]["message"].as_str().unwrap_or_default();
    ensure!(!uid.is_empty() && message.contains(uid), "{shown:#}");

    // the last error of a watch that fails is in its status
    lab.home.daemon().kill();
    lab.notes(&["Secrets istio/multiCluster", "last error", "TRB0715"]).await?;
    lab.logs(&["it is one cluster with again", "names the UID 0b54ab2f-0000"]).await?;
    lab.home.daemon().start_again()?;
    lab.home.ready().await?;
    lab.home.api().remove(&Named::of(&secret)?).await
}
