//! `tributary check` on a real API server and a real Consul: all is green before and after the installation; then a right is missing, a
//! certificate has expired and a token is wrong, and each is red with its next step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::consul::{Consul, ConsulOptions};
use tributary_suites::kube::{
    ApiServerOptions, Login, READ, READABLE, mk_namespace, mk_service, mk_slice, without,
};
use tributary_suites::{ApiServer, Authority, Etcd, Identity, ServerOptions, TestServer, tools};

const LATER: Duration = Duration::from_secs(60);
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;

/// What an installation needs, and its configuration.
struct Site {
    cluster: ApiServer,
    consul: Consul,
    authority: Authority,
    home: TempDir,
}

impl Site {
    async fn start() -> Result<Self> {
        let etcd = std::sync::Arc::new(Etcd::start().await?);
        let cluster = ApiServer::start_with(ApiServerOptions::default().on(&etcd, "check")).await?;
        let api = cluster.api();
        api.define().await?;
        let slice = mk_slice("shop", "pay", "pay-1", &["10.1.0.1"], &[("http", 80)]);
        let service = mk_service("shop", "pay", &[("http", 80, 80)]);
        api.apply_all(&[mk_namespace("shop"), mk_namespace("tributary-system"), service, slice]).await?;
        api.allow("reader", &READ, &READABLE).await?;
        let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
        consul.instance("web", "web-1", "n1", ([10, 0, 0, 1], 8080).into()).await?;
        let (_, secret) = consul.token("reader", ALL).await?;
        let home = tempfile::tempdir()?;
        std::fs::write(home.path().join("token"), secret)?;
        Ok(Self { cluster, consul, authority: Authority::new()?, home })
    }
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
    /// Writes the configuration of a server with this certificate, and returns its file.
    fn config(&self, identity: &Identity) -> Result<PathBuf> {
        let kubeconfig = self.cluster.kubeconfig(&Login::user("reader"))?;
        let config = json!({"apiVersion": "tributary.dev/v1alpha1", "kind": "Config",
        "stateDir": self.path("state"),
        "xds": {"listen": "127.0.0.1:0", "tls": {"certFile": identity.certificate_file, "keyFile": identity.key_file}},
        "admin": {"listen": "127.0.0.1:0"},
        "registries": [
            {"kind": "kubernetes", "kubeconfig": kubeconfig, "probeInterval": "1s", "staleAfter": "5s"},
            {"kind": "consul", "addresses": [self.consul.url()], "tokenFile": self.path("token")},
        ]});
        let file = self.path("config.json");
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }
    async fn serve(&self, config: &Path) -> Result<TestServer> {
        TestServer::start(
            ServerOptions::default()
                .config(config)
                .arg("--state-dir")
                .arg(&self.path("state").display().to_string()),
        )
        .await
    }
}

/// Result of `check -o json`: its exit code and its document.
struct Checked(Option<i32>, Value);

impl Checked {
    /// Returns the results that are neither passed nor skipped, as `check: message; next`.
    fn red(&self) -> Vec<String> {
        let items = self.1["items"].as_array().into_iter().flatten();
        let red = items.filter(|item| matches!(item["outcome"].as_str(), Some("Error" | "Warning")));
        let text = |item: &Value| {
            let of = |finding: &Value| {
                let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
                format!(
                    "{}: {}; {}",
                    item["check"].as_str().unwrap_or_default(),
                    text("message"),
                    text("next")
                )
            };
            item["findings"].as_array().into_iter().flatten().map(of).collect::<Vec<_>>()
        };
        red.flat_map(text).collect()
    }
    /// Asserts that only these checks are red, each with a text of its finding or its next step.
    fn is_red(&self, expected: &[(&str, &str)]) -> Result<()> {
        let red = self.red();
        for (check, text) in expected {
            let found = red.iter().any(|one| one.starts_with(&format!("{check}: ")) && one.contains(text));
            ensure!(found, "{check} with {text:?} is not in {red:#?}");
        }
        let other =
            red.iter().find(|one| !expected.iter().any(|(check, _)| one.starts_with(&format!("{check}: "))));
        ensure!(other.is_none(), "{other:?} is red, too: {red:#?}");
        Ok(())
    }
    fn is_green(&self) -> Result<()> {
        ensure!(self.0 == Some(0) && self.red().is_empty(), "exit {:?}: {:#?}", self.0, self.red());
        Ok(())
    }
}

async fn run(args: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = tokio::process::Command::new(tools::tributary()?);
    command.args(args).kill_on_drop(true).env_remove("TRIBUTARY_SERVER");
    let output = tokio::time::timeout(LATER * 2, command.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

async fn check(args: &[&str]) -> Result<Checked> {
    let (code, out, notes) = run(&[&["check", "-o", "json"], args].concat()).await?;
    let document = serde_json::from_str(&out).with_context(|| format!("exit {code:?}: {out}{notes}"))?;
    Ok(Checked(code, document))
}

async fn before(config: &Path) -> Result<Checked> {
    check(&["--before", "--config", &config.display().to_string()]).await
}

async fn after(server: &TestServer, more: &[&str]) -> Result<Checked> {
    check(&[&["--server", &server.admin().to_string()], more].concat()).await
}

/// Returns a certificate of the site's authority that has expired.
fn expired(site: &Site) -> Result<Identity> {
    site.authority.expired("expired")
}

#[tokio::test]
async fn installation_is_green_and_each_fault_is_red_with_its_next_step() -> Result<()> {
    let site = Site::start().await?;
    let good = site.authority.server("xds")?;
    let config = site.config(&good)?;
    before(&config).await?.is_green().context("before the installation")?;

    let server = site.serve(&config).await?;
    // the state directory is in use now
    before(&config).await?.is_red(&[("before-state", "is held by process")])?;
    after(&server, &["--wait", "60s", "--connect"]).await?.is_green().context("after the installation")?;
    let admin = server.admin().to_string();
    let goals = [
        "ready",
        "registry/consul=Live",
        "cluster/Kubernetes=Live",
        "endpoints/pay.shop.svc.cluster.local=1",
    ];
    let goals: Vec<String> = goals.iter().map(|goal| format!("--for={goal}")).collect();
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let (code, out, notes) = run(&[&["wait", "--server", &admin], &goals[..]].concat()).await?;
    ensure!(code == Some(0) && out.lines().count() == 4, "{out}{notes}");

    site.cluster.api().allow("reader", &READ, &without("pods")).await?;
    let lost = ("rights", "grant its account what `tributary rbac print` shows");
    let waited = until_red(&server, "rights").await?;
    waited.is_red(&[lost, ("clusters-live", "pods"), ("cluster-tries", "pods")])?;
    ensure!(waited.0 == Some(3), "exit {:?}", waited.0);
    let missing = before(&config).await?;
    let hint = ("before-rights", "list pods in every namespace; apply what `tributary rbac print` shows");
    missing.is_red(&[hint, ("before-state", "held")])?;
    site.cluster.api().allow("reader", &READ, &READABLE).await?;

    let token = std::fs::read(site.path("token"))?;
    std::fs::write(site.path("token"), "00000000-0000-4000-8000-000000000000")?;
    let refused = before(&config).await?;
    refused.is_red(&[("before-consul-token", "correct the token"), ("before-state", "held")])?;
    let refused = until_red(&server, "registries-live").await?;
    ensure!(refused.red().iter().any(|one| one.starts_with("consul-tokens: ")), "{:#?}", refused.red());
    std::fs::write(site.path("token"), token)?;
    drop(server);

    let config = site.config(&expired(&site)?)?;
    before(&config).await?.is_red(&[("before-certificates", "replace the certificate")])?;
    let server = site.serve(&config).await?;
    let found = after(&server, &["--wait", "5s"]).await?;
    ensure!(found.0 == Some(5), "the certificate stays expired: exit {:?}", found.0);
    found.is_red(&[("certificates", "replace the certificate")])?;
    report(&server, &site).await
}

/// Repeats `check` until this one is red.
async fn until_red(server: &TestServer, id: &str) -> Result<Checked> {
    tributary_suites::eventually(&format!("{id} to be red"), LATER, || async {
        let found = after(server, &["--connect"]).await?;
        ensure!(found.red().iter().any(|one| one.starts_with(&format!("{id}: "))), "{:#?}", found.red());
        Ok(found)
    })
    .await
}

/// The archive of a server holds no token, no key and no kubeconfig.
async fn report(server: &TestServer, site: &Site) -> Result<()> {
    let file = site.path("report.tar.gz");
    let (admin, output) = (server.admin().to_string(), file.display().to_string());
    let (code, out, notes) = run(&["bug-report", "--server", &admin, "--output", &output]).await?;
    ensure!(code == Some(0), "{out}{notes}");
    let unpacked = std::process::Command::new("tar").args(["-xzOf", &output]).output()?;
    let text = String::from_utf8_lossy(&unpacked.stdout);
    ensure!(text.contains("CheckList") && text.contains("tributary_build_info"), "the archive lacks parts");
    let token = std::fs::read_to_string(site.path("token"))?;
    ensure!(!text.contains(token.trim()) && !text.contains("PRIVATE KEY"), "the archive has a secret");
    Ok(())
}
