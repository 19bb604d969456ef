//! A Consul with ACLs and its own data, read with a token from a file.

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::Consul;
use tributary_suites::consul::{ConsulOptions, MANAGEMENT};

use crate::origin::{Origin, host};
use crate::table::Source;

const NODE: &str = "n1";
/// A token that Consul does not know.
const UNKNOWN: &str = "22222222-2222-2222-2222-222222222222";

/// The Consul.
pub(crate) struct Catalog {
    consul: Consul,
    home: TempDir,
    /// A token without permissions.
    blind: String,
}

impl Catalog {
    /// Starts it without any service.
    pub(crate) async fn start() -> Result<Self> {
        let consul = Consul::start_with(ConsulOptions::default().server_of(1).acl()).await?;
        let (_, blind) = consul.token("blind", "").await?;
        let catalog = Self { consul, home: tempfile::tempdir()?, blind };
        catalog.login(MANAGEMENT)?;
        Ok(catalog)
    }
    fn login(&self, token: &str) -> Result<()> {
        Ok(std::fs::write(self.home.path().join("token"), token)?)
    }
}

impl Origin for Catalog {
    fn registry(&self) -> &'static str {
        "consul"
    }
    fn config(&self) -> Value {
        let token = self.home.path().join("token");
        json!({"kind": "consul", "addresses": [self.consul.url()], "tokenFile": token})
    }
    fn domain(&self) -> &'static str {
        "service.consul"
    }
    async fn set(&self, name: &str, last: &[u8]) -> Result<()> {
        let hosts: Vec<_> = last.iter().map(|last| host(*last)).collect();
        self.consul.set(name, NODE, &hosts).await
    }
    async fn take(&self, source: Source) -> Result<()> {
        match source {
            Source::Up => Ok(()),
            Source::Paused => self.consul.daemon().pause().await,
            Source::Killed => {
                self.consul.daemon().kill();
                Ok(())
            }
            Source::Refusing => self.login(UNKNOWN),
            Source::Blind => self.login(&self.blind),
            Source::Empty => self.consul.deregister_node(NODE).await,
        }
    }
    async fn give_back(&self, source: Source) -> Result<()> {
        match source {
            Source::Paused => self.consul.daemon().resume(),
            Source::Killed => self.consul.restart().await,
            Source::Refusing | Source::Blind => self.login(MANAGEMENT),
            Source::Up | Source::Empty => Ok(()),
        }
    }
}
