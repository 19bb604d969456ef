//! A Tributary that watches an API server of the tests, with shortened intervals, and its reports about the
//! watches.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::{ApiServer, Login};
use crate::{ServerOptions, TestServer};

const SOON: Duration = Duration::from_secs(30);

/// Start options.
#[derive(Debug, Clone)]
pub struct Watched {
    kubeconfig: std::path::PathBuf,
    registry: String,
    more: String,
    args: Vec<String>,
    base: ServerOptions,
}

impl Watched {
    /// Uses the administrator's login.
    pub fn by_admin(server: &ApiServer) -> Result<Self> {
        Self::by(server, &Login::user("admin"))
    }

    /// Uses this login.
    pub fn by(server: &ApiServer, login: &Login) -> Result<Self> {
        Ok(Self {
            kubeconfig: server.kubeconfig(login)?,
            registry: String::new(),
            more: String::new(),
            args: Vec::new(),
            base: ServerOptions::default(),
        })
    }

    /// Adds a field of the registry in the configuration, such as `namespaces: [shop]`.
    pub fn registry(mut self, field: &str) -> Self {
        self.registry.push_str(&format!("  {field}\n"));
        self
    }

    /// Adds lines to the configuration.
    pub fn config(mut self, lines: &str) -> Self {
        self.more.push_str(lines);
        self.more.push('\n');
        self
    }

    /// Starts from these options, such as ports and certificates.
    pub fn based_on(mut self, options: ServerOptions) -> Self {
        self.base = options;
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Returns the kubeconfig file that it uses, to be replaced while it runs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Starts it and waits until it is ready. The folder holds its configuration and must live as long.
    pub async fn start(&self) -> Result<(TestServer, TempDir)> {
        let (mut server, folder) = self.launch()?;
        server.ready(SOON).await?;
        Ok((server, folder))
    }

    /// Starts it without waiting.
    pub fn launch(&self) -> Result<(TestServer, TempDir)> {
        let folder = tempfile::tempdir().context("make a folder for the configuration")?;
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, self.text()).with_context(|| format!("write {}", file.display()))?;
        Ok((TestServer::launch(self.options(&file))?, folder))
    }

    fn options(&self, file: &Path) -> ServerOptions {
        self.args.iter().fold(self.base.clone().config(file), |options, arg| options.arg(arg))
    }

    fn text(&self) -> String {
        let Self { kubeconfig, registry, more, .. } = self;
        let kubeconfig = kubeconfig.display();
        format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\n{more}registries:\n- kind: kubernetes\n  \
             kubeconfig: {kubeconfig}\n  probeInterval: 1s\n  staleAfter: 5s\n{registry}"
        )
    }
}

impl TestServer {
    /// Returns the registry `kubernetes` as `/debug/registries` shows it.
    pub async fn kubernetes(&self) -> Result<Value> {
        self.registry("kubernetes").await
    }

    /// Waits until the registry `kubernetes` is in this state and its report contains these texts.
    pub async fn kubernetes_is(&self, state: &str, texts: &[&str], within: Duration) -> Result<Value> {
        self.registry_is("kubernetes", state, texts, within).await
    }
}
