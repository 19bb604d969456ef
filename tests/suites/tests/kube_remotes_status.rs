//! What a server reports of remote clusters, on real API servers: each fault shows with its reason while what was served goes on, and
//! a cluster that is not read is never shown as live.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::kube::remotes::{
    AWAY, HOME, NAMESPACE, fill, mk_declaration, sends_nothing, serves, start_pair,
};
use tributary_suites::kube::{Login, Named, READ, READABLE, Watched, mk_namespace};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually, ports};

const SOON: Duration = Duration::from_secs(60);
/// Longer than several probes of shortened intervals.
const WATCHED: Duration = Duration::from_secs(4);
/// Name of the Secret that declares the cluster first.
const FIRST: &str = "remote-away";

/// A config cluster, a remote cluster, and a server that reads Secrets of the first.
struct Lab {
    home: ApiServer,
    away: ApiServer,
    server: TestServer,
    recorder: Follower,
    _config: TempDir,
}

impl Lab {
    async fn start() -> Result<Self> {
        let (home, away) = start_pair().await?;
        let watched = Watched::by_admin(&home)?.config(
            "remotes: {secrets: on, leaveGrace: 1s, allowServerCidrs: [127.0.0.0/8]}\n\
             start: {firstSyncTimeout: 2s}",
        );
        let (server, config) = watched.start().await?;
        let recorder = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        let mut lab = Self { home, away, server, recorder, _config: config };
        lab.serves(&[HOME]).await?;
        Ok(lab)
    }
    /// Kubeconfigs of the remote cluster with one fault each: a name for a cluster, what it shows, and a text of its report.
    fn faulty(&self) -> Result<Vec<(&'static str, String, &'static str, &'static str)>> {
        let good: Value = serde_json::from_str(&self.kubeconfig("admin-token")?)?;
        let home: Value = serde_json::from_str(&std::fs::read_to_string(self.home.admin_kubeconfig()?)?)?;
        let cluster = |field: &str, value: Value| {
            let mut text = good.clone();
            text["clusters"][0]["cluster"][field] = value;
            text.to_string()
        };
        let authority = home["clusters"][0]["cluster"]["certificate-authority-data"].clone();
        let nowhere = format!("https://127.0.0.1:{}", ports::free_port()?);
        Ok(vec![
            ("text", "garbage".to_owned(), "Refused", "remote-text"),
            ("program", with_a_program(&good.to_string())?, "Refused", "users[0].user.exec"),
            ("token", self.kubeconfig("garbage-token")?, "AuthFailed", "TRB0708"),
            ("authority", cluster("certificate-authority-data", authority), "Unreachable", "TRB0707"),
            ("port", cluster("server", json!(nowhere)), "Unreachable", "TRB0707"),
        ])
    }
    fn kubeconfig(&self, token: &str) -> Result<String> {
        let path = self.away.kubeconfig(&Login::Token(token.to_owned()))?;
        Ok(std::fs::read_to_string(path)?)
    }
    async fn declare(&self, secret: &str, key: &str, kubeconfig: &str) -> Result<()> {
        self.home.api().apply(&mk_declaration(secret, key, kubeconfig)).await.map(drop)
    }
    async fn undeclare(&self, secret: &str) -> Result<()> {
        self.home.api().remove(&Named::of(&mk_declaration(secret, "away", ""))?).await
    }
    async fn joined(&mut self) -> Result<()> {
        self.declare(FIRST, "away", &self.kubeconfig("admin-token")?).await?;
        self.serves(&[HOME, AWAY]).await?;
        self.is("away", "Live", &[]).await?;
        self.recorder.forget();
        Ok(())
    }
    /// Waits until the client has exactly these endpoints.
    async fn serves(&mut self, endpoints: &[&str]) -> Result<()> {
        serves(&mut self.recorder, endpoints, SOON).await
    }
    /// Asserts that nothing is sent for this long.
    async fn sends_nothing(&mut self, span: Duration) -> Result<()> {
        sends_nothing(&mut self.recorder, span).await
    }
    /// Returns every cluster, as an operator lists them.
    async fn clusters(&self) -> Result<Vec<Value>> {
        let (_, text, notes) = self.server.command(&["get", "clusters", "-o", "json"]).await?;
        let list: Value = serde_json::from_str(&text).with_context(|| format!("{text} {notes}"))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
    async fn cluster(&self, name: &str) -> Result<Value> {
        let found = self.clusters().await?.into_iter().find(|one| one["name"] == name);
        found.with_context(|| format!("no cluster is called {name}"))
    }
    /// Waits until a cluster is in this state and its report has these texts.
    async fn is(&self, name: &str, state: &str, texts: &[&str]) -> Result<Value> {
        eventually(&format!("{name} to be {state} with {texts:?}"), SOON, || async {
            let one = self.cluster(name).await?;
            let text = one.to_string();
            ensure!(one["state"] == state && texts.iter().all(|part| text.contains(part)), "{one:#}");
            Ok(one)
        })
        .await
    }
    /// Waits until exactly one line of the log is about a change of the cluster to this state.
    async fn logs_once(&mut self, name: &str, state: &str) -> Result<()> {
        let texts = ["cluster changed its state", name, state];
        let until = Instant::now() + SOON;
        loop {
            let log = self.server.process().output();
            let count = log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count();
            ensure!(count <= 1, "{log}");
            if count == 1 {
                return Ok(());
            }
            ensure!(Instant::now() < until, "no line of the log has {texts:?}: {log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Kubeconfig with a program, which no server runs.
fn with_a_program(kubeconfig: &str) -> Result<String> {
    let mut text: Value = serde_json::from_str(kubeconfig)?;
    text["users"][0]["user"] = json!({"exec": {"command": "s3cr3t-hunter2"}});
    Ok(text.to_string())
}

#[tokio::test]
async fn refused_kubeconfig_shows_its_field_while_the_old_connection_goes_on() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    let live = lab.cluster("away").await?;
    ensure!(live["source"] == format!("Secret {NAMESPACE}/{FIRST}") && live["endpoints"] == 1, "{live:#}");
    ensure!(live["identity"].as_str().is_some_and(|uid| !uid.is_empty()), "{live:#}");
    let home = lab.cluster("Kubernetes").await?;
    ensure!(home["state"] == "Live" && home["source"] == "configuration", "{home:#}");

    let refused = with_a_program(&lab.kubeconfig("admin-token")?)?;
    lab.declare(FIRST, "away", &refused).await?;
    let shown = lab.is("away", "Live", &["TRB0702", "users[0].user.exec"]).await?;
    ensure!(shown["claims"][0]["outcome"] == "Refused", "{shown:#}");
    ensure!(shown["conditions"][0]["kind"] == "Refused", "{shown:#}");
    lab.sends_nothing(WATCHED).await?;

    // a cluster that was never read is refused as a whole, and comes first
    lab.declare("remote-third", "third", &refused).await?;
    lab.is("third", "Refused", &["TRB0702", "users[0].user.exec"]).await?;
    ensure!(lab.clusters().await?[0]["name"] == "third", "it does not come first");
    let (status, text, _) = lab.server.command(&["cluster", "describe", "third"]).await?;
    ensure!(status.success() && text.contains("users[0].user.exec") && !text.contains("hunter2"), "{text}");
    let (status, _, notes) = lab.server.command(&["cluster", "describe", "fourth"]).await?;
    ensure!(status.code() == Some(4) && notes.contains("`fourth` not found"), "{notes}");

    let (status, text, _) = lab.server.command(&["cluster", "check", "--all"]).await?;
    ensure!(status.code() == Some(3) && text.contains("users[0].user.exec"), "{status}: {text}");

    lab.declare(FIRST, "away", &lab.kubeconfig("admin-token")?).await?;
    eventually("the refusal to end", SOON, || async {
        let shown = lab.cluster("away").await?;
        ensure!(shown["claims"][0]["outcome"] == "Used" && shown.get("conditions").is_none(), "{shown:#}");
        Ok(())
    })
    .await?;
    lab.undeclare("remote-third").await?;
    eventually("the refused cluster to be gone", SOON, || async {
        ensure!(lab.clusters().await?.len() == 2, "{:?}", lab.clusters().await?);
        Ok(())
    })
    .await?;
    // on a busy machine one of the frequent probes of the Secrets may be late, which the check reports
    eventually("every declaration to be accepted", SOON, || async {
        let (status, text, notes) = lab.server.command(&["cluster", "check", "--all"]).await?;
        let accepted = status.success() && notes.contains("accepted: 1, expired: 0, refused: 0");
        ensure!(accepted, "{status}: {text} {notes}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn second_secret_of_a_cluster_shows_a_conflict_and_steps_in() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    // names decide between Secrets of one second
    lab.declare("remote-b", "away", &lab.kubeconfig("admin-token")?).await?;
    let shown = lab.is("away", "Live", &["TRB0710", "remote-b declares the cluster, too"]).await?;
    ensure!(shown["claims"][1]["outcome"] == "Duplicate", "{shown:#}");
    ensure!(shown["claims"][1]["object"] == format!("Secret {NAMESPACE}/remote-b"), "{shown:#}");
    lab.undeclare(FIRST).await?;
    let shown = lab.is("away", "Live", &["remote-b"]).await?;
    ensure!(shown["claims"].as_array().is_some_and(|claims| claims.len() == 1), "{shown:#}");
    ensure!(shown["claims"][0]["outcome"] == "Used", "{shown:#}");
    lab.sends_nothing(WATCHED).await
}

/// istio#58047, #37925: a repaired Secret was ignored until a restart.
#[tokio::test]
async fn fix_bad_secret_recovers_without_restart() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.declare(FIRST, "away", &lab.kubeconfig("garbage-token")?).await?;
    let shown = lab.is("away", "AuthFailed", &["TRB0708"]).await?;
    ensure!(!shown.to_string().contains("garbage-token"), "{shown:#}");
    ensure!(shown["retryInMillis"].is_u64() && shown["sinceMillisAgo"].is_u64(), "{shown:#}");
    lab.declare(FIRST, "away", &lab.kubeconfig("admin-token")?).await?;
    lab.serves(&[HOME, AWAY]).await?;
    lab.is("away", "Live", &[]).await?;
    lab.recorder.forget();

    // the trouble of a new credential is a condition: the old one still reads the cluster
    lab.declare(FIRST, "away", &lab.kubeconfig("garbage-token")?).await?;
    let shown = lab.is("away", "Live", &["TRB0713", "NewCredential"]).await?;
    ensure!(shown["registries"][0]["nextGeneration"].is_u64() && shown["rotations"] == 2, "{shown:#}");
    lab.sends_nothing(WATCHED).await?;

    // each fault of a Secret ends with the fault
    let all = lab.faulty()?;
    for (name, bad, ..) in &all {
        lab.declare(&format!("remote-{name}"), name, bad).await?;
    }
    for (name, _, state, text) in &all {
        lab.is(name, state, &[text]).await?;
    }
    lab.sends_nothing(Duration::from_millis(500)).await?;
    for (name, ..) in &all {
        lab.declare(&format!("remote-{name}"), name, &lab.kubeconfig("admin-token")?).await?;
    }
    for (name, ..) in &all {
        // endpoints are counted when they are published, up to the delay of a batch after the cluster is read
        let fixed = lab.is(name, "Live", &["\"endpoints\":1"]).await?;
        ensure!(fixed["claims"][0]["outcome"] == "Used" && fixed["endpoints"] == 1, "{fixed:#}");
    }
    Ok(())
}

#[tokio::test]
async fn killed_api_server_shows_as_unreachable_and_never_as_live() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    lab.away.daemon().kill();
    let shown = lab.is("away", "Unreachable", &["TRB0707"]).await?;
    ensure!(shown["retryInMillis"].is_u64() && shown["sinceMillisAgo"].is_u64(), "{shown:#}");
    let until = Instant::now() + WATCHED;
    let mut oldest = 0;
    while Instant::now() < until {
        let shown = lab.cluster("away").await?;
        ensure!(shown["state"] == "Unreachable" || shown["state"] == "Stale", "{shown:#}");
        ensure!(shown["endpoints"] == 1, "its endpoints are served: {shown:#}");
        let confirmed = shown["confirmedMillisAgo"].as_u64().context("no confirmation")?;
        ensure!(confirmed >= oldest, "without an answer nothing is confirmed: {shown:#}");
        oldest = confirmed;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    lab.sends_nothing(Duration::from_secs(1)).await?;
    lab.away.daemon().start_again()?;
    lab.away.ready().await?;
    lab.is("away", "Live", &[]).await.map(drop)
}

#[tokio::test]
async fn metrics_and_log_follow_the_state_of_a_cluster_and_end_with_it() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    let state = |state: &str| format!("tributary_cluster_state{{cluster=\"away\",state=\"{state}\"}}");
    ensure!(
        lab.server.metric(&state("Live")).await? == 1.0 && lab.server.metric(&state("Stale")).await? == 0.0
    );
    lab.logs_once("away", "Live").await?;
    lab.away.daemon().kill();
    lab.is("away", "Unreachable", &[]).await?;
    ensure!(lab.server.metric(&state("Unreachable")).await? == 1.0);
    lab.logs_once("away", "Unreachable").await?;
    lab.undeclare(FIRST).await?;
    eventually("the metrics of the cluster to be gone", SOON, || async {
        ensure!(lab.server.metric(&state("Live")).await.is_err(), "it still has a state");
        ensure!(lab.cluster("away").await.is_err(), "it is still listed");
        Ok(())
    })
    .await?;
    let text = tributary_suites::http_client::get_text(lab.server.admin(), "/metrics").await?;
    ensure!(!text.contains("cluster=\"away\""), "{text}");
    Ok(())
}

/// Launches a server whose account may read all but Secrets.
async fn without_secrets(remotes: &str) -> Result<(ApiServer, TestServer, TempDir)> {
    let home = ApiServer::start().await?;
    fill(&home, "10.77.0.10").await?;
    home.api().apply(&mk_namespace(NAMESPACE)).await?;
    home.api().allow("reader", &READ, &READABLE).await?;
    let watched = Watched::by(&home, &Login::user("reader"))?.config(remotes);
    let (server, config) = watched.launch()?;
    Ok((home, server, config))
}

fn with_secrets() -> Vec<&'static str> {
    READABLE.into_iter().chain(["secrets"]).collect()
}

#[tokio::test]
async fn server_that_may_not_read_secrets_is_ready_without_them_and_shows_it() -> Result<()> {
    let remotes = "remotes: {allowServerCidrs: [127.0.0.0/8]}";
    let (home, mut server, config) = without_secrets(remotes).await?;
    server.ready(Duration::from_secs(20)).await?;
    let (status, _, notes) = server.command(&["get", "clusters"]).await?;
    ensure!(status.success() && notes.contains("Forbidden: the account may not read Secrets"), "{notes}");
    tokio::time::sleep(WATCHED).await;
    let log = server.process().output();
    ensure!(!log.contains("may not be read"), "a right that is not needed is not reported: {log}");
    let file = config.path().join("config.yaml").display().to_string();
    let (_, roles, _) = server.run(&["rbac", "print", "--config", &file]).await?;
    ensure!(roles.contains("endpointslices") && !roles.contains("secrets"), "{roles}");

    // the right comes later: so do the clusters
    let away = ApiServer::start().await?;
    fill(&away, "10.78.0.10").await?;
    let kubeconfig = std::fs::read_to_string(away.kubeconfig(&Login::user("admin"))?)?;
    home.api().apply(&mk_declaration(FIRST, "away", &kubeconfig)).await?;
    home.api().allow("reader", &READ, &with_secrets()).await?;
    server.registry_is("away", "Live", &[], SOON).await?;
    // from then on they are not given up
    home.api().allow("reader", &READ, &READABLE).await?;
    eventually("the loss of the right to show", SOON, || async {
        let (_, _, notes) = server.command(&["get", "clusters"]).await?;
        ensure!(notes.contains("Forbidden") && notes.contains("no cluster is removed"), "{notes}");
        Ok(())
    })
    .await?;
    server.registry_is("away", "Live", &[], SOON).await.map(drop)
}

#[tokio::test]
async fn server_that_requires_secrets_waits_for_the_right() -> Result<()> {
    let (home, mut server, _config) = without_secrets("remotes: {secrets: on}").await?;
    server.registry_is("kubernetes", "Live", &[], SOON).await?;
    tokio::time::sleep(WATCHED).await;
    ensure!(!server.is_ready().await?, "it is ready without the Secrets that it needs");
    let ready = server.readiness().await?;
    ensure!(ready.contains("Secrets istio/multiCluster") && ready.contains("TRB0715"), "{ready}");
    let (status, _, notes) = server.command(&["cluster", "check", "--all"]).await?;
    ensure!(
        status.code() == Some(3) && notes.contains("it is not known which clusters are declared"),
        "{notes}"
    );
    home.api().allow("reader", &READ, &with_secrets()).await?;
    server.ready(SOON).await
}
