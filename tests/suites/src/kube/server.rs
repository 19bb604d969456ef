//! The API server's process: its files, flags and lifecycle.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::{KubeApi, Login, Signer};
use crate::{Daemon, Etcd, Rest, eventually, ports, tools};

const STARTS_WITHIN: Duration = Duration::from_secs(60);
const ADMIN: &str = "admin";
/// Users without any permission until a test grants one.
const USERS: [&str; 4] = ["reader", "writer", "other", "unprivileged"];

static SHARED: Mutex<Weak<ApiServer>> = Mutex::const_new(Weak::new());

/// Start options; the default has its own etcd.
#[derive(Debug, Clone, Default)]
pub struct ApiServerOptions {
    etcd: Option<Arc<Etcd>>,
    prefix: Option<String>,
    args: Vec<String>,
}

impl ApiServerOptions {
    /// Uses this etcd with its own prefix: another cluster.
    pub fn on(mut self, etcd: &Arc<Etcd>, prefix: &str) -> Self {
        (self.etcd, self.prefix) = (Some(Arc::clone(etcd)), Some(prefix.to_owned()));
        self
    }

    /// Adds a flag.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }
}

/// A running API server. Dropping it kills it and its etcd and removes their data.
#[derive(Debug)]
pub struct ApiServer {
    daemon: Daemon,
    etcd: Arc<Etcd>,
    url: String,
    api: KubeApi,
    signer: Signer,
    folder: TempDir,
    kubeconfigs: AtomicU64,
}

impl ApiServer {
    /// Starts a server with its own etcd.
    pub async fn start() -> Result<Self> {
        Self::start_with(ApiServerOptions::default()).await
    }

    /// Returns the server that the tests of this process share, for tests that restore it ([`KubeApi::clear`]);
    /// it ends with the last of them.
    pub async fn shared() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::start().await?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// Starts a server and waits until it is ready.
    pub async fn start_with(options: ApiServerOptions) -> Result<Self> {
        let etcd = match options.etcd {
            Some(etcd) => etcd,
            None => Arc::new(Etcd::start().await?),
        };
        let folder = tempfile::tempdir().context("make a folder for the API server")?;
        let signer = Signer::new(folder.path())?;
        std::fs::write(folder.path().join("tokens.csv"), tokens())?;
        let port = ports::free_port()?;
        let mut args = flags(folder.path(), etcd.url(), port);
        args.extend(options.prefix.map(|prefix| format!("--etcd-prefix=/{prefix}")));
        args.extend(options.args);
        let daemon = Daemon::start("kube-apiserver", tools::kube_apiserver()?, args)?;
        let certificate = certificate(&daemon, folder.path()).await?;
        let url = format!("https://127.0.0.1:{port}");
        let rest = Rest::tls(&url, &certificate, None)?.header("authorization", &bearer(ADMIN));
        let kubeconfigs = AtomicU64::new(0);
        let server = Self { daemon, etcd, url, api: KubeApi::new(rest), signer, folder, kubeconfigs };
        server.ready().await?;
        Ok(server)
    }

    /// Returns its URL: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client of its API as administrator.
    pub fn api(&self) -> &KubeApi {
        &self.api
    }

    /// Returns a client of its API as one of the users `reader`, `writer`, `other`, `unprivileged`, or with another
    /// bearer token.
    pub fn api_as(&self, login: &Login) -> Result<KubeApi> {
        let rest = Rest::tls(&self.url, &self.certificate()?, None)?;
        Ok(KubeApi::new(match login.token()? {
            Some(token) => rest.header("authorization", &format!("Bearer {token}")),
            None => rest,
        }))
    }

    /// Returns its etcd.
    pub fn etcd(&self) -> &Arc<Etcd> {
        &self.etcd
    }

    /// Returns the process, to be killed and paused.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Returns the signer of its service accounts' tokens.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Writes a new kubeconfig file with this login; the file exists as long as the server.
    pub fn kubeconfig(&self, login: &Login) -> Result<PathBuf> {
        let text = login.kubeconfig(&self.url, &self.certificate()?, "default");
        // Counted, because tests that share a server request theirs at the same time.
        let count = self.kubeconfigs.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("kubeconfig-{count}.yaml"));
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Writes a kubeconfig file of the administrator.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig(&Login::user(ADMIN))
    }

    /// Restarts it on the same port with the same objects, and waits until it is ready.
    pub async fn restart(&self) -> Result<()> {
        self.daemon.start_again()?;
        self.ready().await
    }

    /// Kills it, and starts the cluster with this etcd prefix in its place, with the same port, certificate and
    /// users.
    pub async fn become_cluster(&self, etcd: &Etcd, prefix: &str) -> Result<()> {
        let flags = [format!("--etcd-servers={}", etcd.url()), format!("--etcd-prefix=/{prefix}")];
        self.daemon.start_with(flags.to_vec())?;
        self.ready().await
    }

    /// Waits until it reports ready.
    pub async fn ready(&self) -> Result<()> {
        eventually("the API server to be ready", STARTS_WITHIN, || async {
            self.daemon.check_running()?;
            let (status, body) = self.api.rest().send(Method::GET, "/readyz", None).await?;
            ensure!(status == StatusCode::OK, "readyz answered {status}: {body}");
            Ok(())
        })
        .await
    }

    /// Returns its certificate, in PEM, which it signed itself.
    pub fn certificate(&self) -> Result<String> {
        let path = self.folder.path().join("certs/apiserver.crt");
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }
}

/// Waits for the certificate that it creates at its first start.
async fn certificate(daemon: &Daemon, folder: &Path) -> Result<String> {
    let path = folder.join("certs/apiserver.crt");
    eventually("the API server's certificate", STARTS_WITHIN, || async {
        daemon.check_running()?;
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(text.trim_end().ends_with("-----END CERTIFICATE-----"), "it is still being written");
        Ok(text)
    })
    .await
}

fn flags(folder: &Path, etcd: &str, port: u16) -> Vec<String> {
    let folder = folder.display();
    let mut args = vec![
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        format!("--cert-dir={folder}/certs"),
        format!("--service-account-key-file={folder}/sa.pub"),
        format!("--service-account-signing-key-file={folder}/sa.key"),
        format!("--token-auth-file={folder}/tokens.csv"),
    ];
    let fixed = [
        "--bind-address=127.0.0.1",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/16,fd00:10::/108",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
    ];
    args.extend(fixed.map(str::to_owned));
    args
}

/// Returns the users' tokens: each is the user's name, so logs of tests show the user.
fn tokens() -> String {
    let users: String = USERS.iter().map(|user| format!("{user}-token,{user},{user}\n")).collect();
    format!("{ADMIN}-token,{ADMIN},{ADMIN},\"system:masters\"\n{users}")
}

fn bearer(user: &str) -> String {
    format!("Bearer {user}-token")
}
