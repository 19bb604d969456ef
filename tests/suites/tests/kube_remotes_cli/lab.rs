//! A config cluster, a remote cluster, a Tributary that reads Secrets of the first, and the commands as an operator runs them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::consul::PORT;
use tributary_suites::kube::remotes::{HOME, NAMESPACE, mk_declaration, serves, start_pair};
use tributary_suites::kube::{Login, Named, Watched, mk_service, mk_slice};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually};

pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The commands accept the address of the tests' servers.
pub(crate) const LOOPBACK: [&str; 2] = ["--allow-server-cidr", "127.0.0.0/8"];
/// Start of every token that an API server issues.
pub(crate) const TOKEN: &str = "eyJ";

/// Two clusters, a server that reads Secrets of the first, and the operator's kubeconfig with a context for each.
pub(crate) struct Lab {
    pub(crate) home: ApiServer,
    pub(crate) away: ApiServer,
    pub(crate) server: TestServer,
    pub(crate) recorder: Follower,
    pub(crate) folder: TempDir,
    _config: TempDir,
}

/// What a command printed.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) notes: String,
}

impl Ran {
    /// Asserts that it ended with this code and shows no credential.
    pub(crate) fn ends(self, code: i32) -> Result<Self> {
        let Self { out, notes, .. } = &self;
        ensure!(self.code == Some(code), "ended with {:?}: {out}\n{notes}", self.code);
        ensure!(!out.contains(TOKEN) && !notes.contains(TOKEN), "a token is shown: {out}\n{notes}");
        Ok(self)
    }
    /// Asserts that its messages contain a text.
    pub(crate) fn notes(self, text: &str) -> Result<Self> {
        ensure!(self.notes.contains(text), "no {text:?} in {}", self.notes);
        Ok(self)
    }
    /// Asserts that its output contains a text.
    pub(crate) fn prints(self, text: &str) -> Result<Self> {
        ensure!(self.out.contains(text), "no {text:?} in {}", self.out);
        Ok(self)
    }
}

impl Lab {
    pub(crate) async fn start() -> Result<Self> {
        let (home, away) = start_pair().await?;
        // a service that only the remote cluster has
        let solo = [
            mk_service("shop", "solo", &[("http", PORT, PORT)]),
            mk_slice("shop", "solo", "solo-1", &["10.78.0.20"], &[("http", PORT)]),
        ];
        away.api().apply_all(&solo).await?;
        let watched = Watched::by_admin(&home)?.config(
            "remotes: {secrets: on, leaveGrace: 3s, drain: 1s, allowServerCidrs: [127.0.0.0/8]}\n\
             writes: [credentials]\nstart: {firstSyncTimeout: 2s}",
        );
        let (server, config) = watched.start().await?;
        let recorder = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        let folder = tempfile::tempdir()?;
        let mut lab = Self { home, away, server, recorder, folder, _config: config };
        lab.serves(&[HOME]).await?;
        Ok(lab)
    }
    pub(crate) async fn serves(&mut self, endpoints: &[&str]) -> Result<()> {
        serves(&mut self.recorder, endpoints, SOON).await
    }
    /// Writes the operator's kubeconfig: contexts `home` and `away` of this user, and `dead` without a server.
    pub(crate) fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        let mut all = json!({"apiVersion": "v1", "kind": "Config", "current-context": "home",
            "clusters": [], "users": [], "contexts": []});
        for (name, server) in [("home", &self.home), ("away", &self.away)] {
            let text = std::fs::read_to_string(server.kubeconfig(&Login::user(user))?)?;
            let one: Value = serde_json::from_str(&text)?;
            for part in ["clusters", "users", "contexts"] {
                let mut entry = one[part][0].clone();
                entry["name"] = json!(name);
                if part == "contexts" {
                    entry["context"] = json!({"cluster": name, "user": name});
                }
                all[part].as_array_mut().context("a list")?.push(entry);
            }
        }
        // nothing listens there
        let mut dead = all["clusters"][1].clone();
        (dead["name"], dead["cluster"]["server"]) = (json!("dead"), json!("https://127.0.0.1:1"));
        let context = json!({"name": "dead", "context": {"cluster": "dead", "user": "away"}});
        for (part, entry) in [("clusters", dead), ("contexts", context)] {
            all[part].as_array_mut().context("a list")?.push(entry);
        }
        let path = self.folder.path().join(format!("{user}.kubeconfig"));
        std::fs::write(&path, all.to_string())?;
        Ok(path)
    }
    /// Runs a command as this user.
    pub(crate) async fn run_as(&self, user: &str, args: &[&str]) -> Result<Ran> {
        let path = self.kubeconfig(user)?;
        let path = path.to_str().context("a path that is text")?;
        let admin = self.server.admin().to_string();
        let all = [&["cluster"], args, &["--kubeconfig", path, "--server", &admin]].concat();
        let (status, out, notes) = self.server.run(&all).await?;
        Ok(Ran { code: status.code(), out, notes })
    }
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Ran> {
        self.run_as("admin", args).await
    }
    /// Waits for a state of the remote cluster by `cluster wait`.
    pub(crate) async fn waits_for(&self, state: &str) -> Result<()> {
        let (status, out, notes) =
            self.server.command(&["cluster", "wait", "away", "--for", state, "--timeout", "15s"]).await?;
        ensure!(status.success(), "{out}\n{notes}");
        ensure!(out == format!("cluster away is {state}\n"), "{out}");
        Ok(())
    }
    pub(crate) async fn add(&self) -> Result<()> {
        let args = [&["add", "away", "--from-context", "away", "--apply"], &LOOPBACK[..]].concat();
        let ran = self.run(&args).await?.ends(0)?;
        let ran = ran.prints("cluster away added: Secret tributary-system/tributary-cluster-away")?;
        ran.prints("every kind can be listed")?
            .notes("ServiceAccount tributary-remote of context away: created")?;
        self.waits_for("Live").await
    }
    /// Returns the Secret of the remote cluster.
    pub(crate) async fn secret(&self) -> Result<Option<Value>> {
        let name = mk_declaration("tributary-cluster-away", "away", "");
        self.home.api().find(&Named::of(&name)?).await
    }
    pub(crate) async fn value(&self) -> Result<String> {
        let secret = self.secret().await?.context("the Secret")?;
        Ok(secret["data"]["away"].as_str().context("its key")?.to_owned())
    }
    /// Returns the remote cluster as the server shows it.
    pub(crate) async fn shown(&self) -> Result<Value> {
        let (_, text, notes) = self.server.command(&["cluster", "describe", "away", "-o", "json"]).await?;
        let list: Value = serde_json::from_str(&text).with_context(|| format!("{text} {notes}"))?;
        Ok(list["items"][0].clone())
    }
    /// Waits until a declaration of the remote cluster is shown with this outcome.
    pub(crate) async fn has_declaration(&self, object: &str, outcome: &str) -> Result<()> {
        eventually("the declaration to be shown", SOON, || async {
            let shown = self.shown().await?;
            let claims = shown["claims"].as_array().context("declarations")?;
            let is_it = |claim: &Value| claim["object"] == *object && claim["outcome"] == *outcome;
            ensure!(claims.iter().any(is_it), "{shown}");
            Ok(())
        })
        .await
    }
    /// Waits until the Secret has the UID of the remote cluster.
    pub(crate) async fn is_pinned(&self, secret: &Named) -> Result<()> {
        let shown = self.shown().await?;
        let uid = shown["identity"].as_str().context("an identity")?;
        eventually("the UID in the Secret", SOON, || async {
            let found = self.home.api().find(secret).await?.context("the Secret")?;
            let annotations = &found["metadata"]["annotations"];
            ensure!(annotations["tributary.dev/found-uid"] == *uid, "{annotations}");
            Ok(())
        })
        .await
    }
    /// Puts a token of the account into the Secret that is past the time of its renewal.
    pub(crate) async fn ages(&self) -> Result<()> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": NAMESPACE, "name": "tributary-remote"}});
        let account = self.away.api().find(&Named::of(&account)?).await?.context("the account")?;
        let uid = account["metadata"]["uid"].as_str().context("its UID")?;
        let half_an_hour = jiff::SignedDuration::from_mins(30);
        let token = self.away.signer().token(NAMESPACE, "tributary-remote", uid, half_an_hour)?;
        let text = std::fs::read_to_string(self.away.kubeconfig(&Login::Token(token))?)?;
        let fields = json!({"stringData": {"away": text}});
        let secret = mk_declaration("tributary-cluster-away", "away", "");
        self.home.api().patch(&Named::of(&secret)?, &fields).await.map(drop)
    }
}
