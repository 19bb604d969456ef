//! What an installation needs: a cluster, a Consul with ACLs, certificates, and configurations of a server.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::consul::{Consul, ConsulOptions};
use tributary_suites::kube::{ApiServerOptions, Login, READ, READABLE, mk_namespace, mk_service, mk_slice};
use tributary_suites::{
    ApiServer, Authority, Etcd, Front, Identity, ServerOptions, TestServer, TlsFront, replace,
};

/// Rules of a token that sees everything.
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;

/// What an installation needs, and its configuration.
pub(crate) struct Site {
    pub(crate) cluster: ApiServer,
    pub(crate) consul: Consul,
    pub(crate) authority: Authority,
    home: TempDir,
}

impl Site {
    pub(crate) async fn start() -> Result<Self> {
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
    /// Returns the path of a file of the installation.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
    /// Writes the configuration of a server with this certificate, and returns its file.
    pub(crate) fn config(&self, identity: &Identity) -> Result<PathBuf> {
        self.write(&self.document(identity)?)
    }
    /// Returns the configuration of a server with this certificate.
    pub(crate) fn document(&self, identity: &Identity) -> Result<Value> {
        let kubeconfig = self.cluster.kubeconfig(&Login::user("reader"))?;
        let (certificate, key) = (&identity.certificate_file, &identity.key_file);
        Ok(json!({"apiVersion": "tributary.dev/v1alpha1", "kind": "Config",
        "stateDir": self.path("state"),
        "xds": {"listen": "127.0.0.1:0", "tls": {"certFile": certificate, "keyFile": key}},
        "admin": {"listen": "127.0.0.1:0"},
        "registries": [
            {"kind": "kubernetes", "kubeconfig": kubeconfig, "probeInterval": "1s", "staleAfter": "5s"},
            {"kind": "consul", "addresses": [self.consul.url()], "tokenFile": self.path("token")},
        ]}))
    }
    /// Writes a configuration in one step, as a server may follow it, and returns its file.
    pub(crate) fn write(&self, config: &Value) -> Result<PathBuf> {
        let file = self.path("config.json");
        replace(&file, &config.to_string())?;
        Ok(file)
    }
    /// Starts a front before the API server, with a certificate of the authority, and returns a kubeconfig that leads through it.
    pub(crate) async fn front(&self) -> Result<(Front, TlsFront, PathBuf)> {
        let front = Front::tls(self.cluster.url(), &self.cluster.certificate()?).await?;
        let identity = self.authority.server("kube")?;
        let outside = self.authority.front(&identity, front.addr(), false).await?;
        let url = format!("https://{}", outside.addr());
        let text = Login::user("reader").kubeconfig(&url, self.authority.certificate(), "default");
        let file = self.path("through-the-front");
        replace(&file, &text)?;
        Ok((front, outside, file))
    }
    pub(crate) async fn serve(&self, config: &Path) -> Result<TestServer> {
        TestServer::start(
            ServerOptions::default()
                .config(config)
                .arg("--state-dir")
                .arg(&self.path("state").display().to_string()),
        )
        .await
    }
}
