//! The servers of the suite, one for each group of faults, and the faults. Prometheus knows a server by its job.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use envoy_types::pb::envoy::config::core::v3::Node;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tributary_suites::ads::client::Tuning;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::consul::{ConsulOptions, Served};
use tributary_suites::envoy::sidecar_id;
use tributary_suites::kube::{Login, Watched, mk_namespace};
use tributary_suites::{
    AdsClient, ApiServer, Authority, Consul, Entry, Files, Follower, ServerOptions, TestServer, Variant,
    eventually, nowhere, ports,
};

/// Job of the server without a fault.
pub(crate) const HEALTHY: &str = "healthy";
const SOON: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3_600);
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;
/// Services of the slow client's server; their endpoints do not fit into its window.
const MANY: usize = 100;

/// All servers, and what they read.
pub(crate) struct Servers {
    targets: Vec<(&'static str, SocketAddr)>,
    healthy: Healthy,
    main: Main,
    consul: WithConsul,
    cluster: Cluster,
    slow: (TestServer, Files),
    /// Servers whose fault is there from the start.
    others: Vec<(TestServer, Option<Files>, TempDir)>,
    clients: JoinSet<Result<()>>,
}

struct Healthy {
    server: TestServer,
    _files: Files,
    _state: TempDir,
}

/// A server of files and of a directory of kubeconfigs.
struct Main {
    served: Served,
    gone: PathBuf,
    shop: Files,
    home: TempDir,
}

struct WithConsul {
    consul: Consul,
    served: Served,
    home: TempDir,
    health: SocketAddr,
}

struct Cluster {
    api: ApiServer,
    server: TestServer,
    _config: TempDir,
    tokens: [String; 2],
}

/// Address of an instance: Consul's may not be of loopback.
fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 8080))
}

fn entry(host: &str, last: u8) -> String {
    Entry::http(host, 80).at(nowhere(last)).yaml()
}

fn files(host: &str, last: u8) -> Result<Files> {
    let files = Files::new()?;
    files.put("a.yaml", &entry(host, last))?;
    Ok(files)
}

fn with_health(options: ServerOptions) -> Result<(ServerOptions, SocketAddr)> {
    let health = ports::free_addr()?;
    Ok((options.arg("--health-listen").arg(&health.to_string()), health))
}

impl Servers {
    /// Starts every server. The faults of some are there from the start.
    pub(crate) async fn start() -> Result<Self> {
        let mut targets = Vec::new();
        let (main, consul, cluster, healthy) =
            tokio::try_join!(Main::start(), WithConsul::start(), Cluster::start(), Healthy::start(),)?;
        let (main, main_health) = main;
        let (cluster, cluster_health) = cluster;
        let (healthy, healthy_health) = healthy;
        targets.extend([("main", main_health), ("consul", consul.health)]);
        targets.extend([("cluster", cluster_health), (HEALTHY, healthy_health)]);
        let (options, health) = with_health(ServerOptions::default())?;
        let slow = Files::new()?;
        write_many(slow.path(), 0)?;
        let server = TestServer::start(options.arg("--registry").arg(&of(slow.path()))).await?;
        targets.push(("slow", health));
        let mut servers = Self {
            targets,
            healthy,
            main,
            consul,
            cluster,
            slow: (server, slow),
            others: Vec::new(),
            clients: JoinSet::new(),
        };
        servers.start_others().await?;
        Ok(servers)
    }

    async fn start_others(&mut self) -> Result<()> {
        let (options, health) = with_health(ServerOptions::default())?;
        let closed = ports::free_addr()?;
        let options = options.arg("--registry").arg(&format!("consul=http://{closed}"));
        let unready = TestServer::launch(options.arg("--first-sync-timeout").arg("0s"))?;
        self.others.push((unready, None, tempfile::tempdir()?));
        self.targets.push(("unready", health));
        for hosts in [&["a.test"][..], &["a.test", "b.test"]] {
            let files = Files::new()?;
            for host in hosts {
                files.put(&format!("{host}.yaml"), &entry(host, 1))?;
            }
            self.add("replicas", files).await?;
        }
        self.start_disk().await
    }

    /// A server whose state directory has no room for more than it has.
    async fn start_disk(&mut self) -> Result<()> {
        let (folder, files) = (tempfile::tempdir()?, files("disk.test", 1)?);
        let state = folder.path().join("state");
        let options = ServerOptions::files(files.path()).arg("--state-dir").arg(&state.display().to_string());
        let server = TestServer::start(options.clone()).await?;
        eventually("the state to be written", SOON, || async {
            let pending = server.metric("tributary_state_pending_keys").await?;
            let commits = server.metric("tributary_state_commits_total").await?;
            ensure!(pending == 0.0 && commits > 0.0, "{pending} keys are pending");
            Ok(())
        })
        .await?;
        server.stop(SOON).await?;
        write_many(files.path(), 0)?;
        let full = std::fs::metadata(state.join("journal.redb"))?.len();
        let (options, health) = with_health(options.largest_file(full))?;
        self.others.push((TestServer::start(options).await?, Some(files), folder));
        self.targets.push(("disk", health));
        Ok(())
    }

    async fn add(&mut self, job: &'static str, files: Files) -> Result<()> {
        let (options, health) = with_health(ServerOptions::files(files.path()))?;
        self.others.push((TestServer::start(options).await?, Some(files), tempfile::tempdir()?));
        self.targets.push((job, health));
        Ok(())
    }

    /// Returns every server as job and address.
    pub(crate) fn targets(&self) -> Vec<(&str, SocketAddr)> {
        self.targets.clone()
    }

    /// Lets every further fault begin.
    pub(crate) async fn break_all(&mut self) -> Result<()> {
        self.consul.gets_less().await?;
        self.main.begin(&mut self.clients).await?;
        self.cluster.begin(&mut self.clients).await?;
        let (server, files) = (&self.slow.0, self.slow.1.path().to_owned());
        self.clients.spawn(reads_slowly(server.xds(), files));
        // Faults that change what a client sees come after those that need a change.
        self.main.end()?;
        self.consul.lose_rights().await?;
        self.healthy.server.is_ready().await.map(drop)
    }
}

fn of(folder: &Path) -> String {
    format!("file={}", folder.display())
}

impl Healthy {
    async fn start() -> Result<(Self, SocketAddr)> {
        let (files, state) = (files("healthy.test", 1)?, tempfile::tempdir()?);
        let (options, health) = with_health(ServerOptions::files(files.path()))?;
        let options = options.arg("--state-dir").arg(&state.path().join("state").display().to_string());
        let server = TestServer::start(options).await?;
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("content")).await?;
        client.has_endpoints("outbound|80||healthy.test", &[nowhere(1)], SOON).await?;
        // It stays connected, and takes what comes.
        tokio::spawn(async move { while client.next(HOUR).await.is_ok() {} });
        Ok((Self { server, _files: files, _state: state }, health))
    }
}

impl Main {
    async fn start() -> Result<(Self, SocketAddr)> {
        let (home, shop, health) = (tempfile::tempdir()?, files("shop.test", 1)?, ports::free_addr()?);
        let (gone, clusters) = (home.path().join("gone"), home.path().join("clusters"));
        std::fs::create_dir(&gone)?;
        std::fs::create_dir(&clusters)?;
        std::fs::write(gone.join("a.yaml"), entry("gone.test", 1))?;
        let authority = Authority::new()?;
        for (name, seconds) in [("expiring", 2 * 86_400), ("soon", 3 * 3_600), ("expired", -60)] {
            std::fs::write(clusters.join(name), kubeconfig(&authority, seconds)?.to_string())?;
        }
        let mut refused = kubeconfig(&authority, 86_400 * 90)?;
        refused["users"][0]["user"] =
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}});
        std::fs::write(clusters.join("refused"), refused.to_string())?;
        let served = Served::start(&json!({
            "registries": [
                {"kind": "file", "name": "gone", "path": gone},
                {"kind": "file", "name": "shop", "path": shop.path()},
            ],
            "remotes": {"directory": clusters, "secrets": "off", "allowServerCidrs": ["127.0.0.0/8"]},
            "start": {"firstSyncTimeout": "1s"},
            "health": {"listen": health.to_string()},
        }))
        .await?;
        Ok((Self { served, gone, shop, home }, health))
    }

    /// A client rejects everything from now on, and the endpoints change now and then.
    async fn begin(&self, clients: &mut JoinSet<Result<()>>) -> Result<()> {
        let mut client =
            AdsClient::connect(self.served.server.xds(), Variant::Delta, node("rejects")).await?;
        client.subscribe(CDS, &[])?;
        clients.spawn(async move {
            loop {
                let answer = client.next(HOUR).await?;
                client.nack(&answer, "it rejects everything")?;
            }
        });
        let folder = self.shop.path().to_owned();
        clients.spawn(async move {
            for number in 0..u8::MAX {
                std::fs::write(folder.join("b.yaml"), entry(&format!("host-{number}.test"), number))?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        });
        Ok(())
    }

    /// A document becomes invalid, a directory vanishes, and the configuration has a mistake.
    fn end(&self) -> Result<()> {
        self.shop.put("c.yaml", &entry("c.test", 3).replace("STATIC", "NEVER"))?;
        std::fs::rename(&self.gone, self.home.path().join("away"))?;
        self.served.reload(&json!({"registrys": []}))
    }
}

/// Returns a kubeconfig of a cluster that does not answer, with a token that expires in this time.
fn kubeconfig(authority: &Authority, seconds: i64) -> Result<Value> {
    let expires = jiff::Timestamp::now().as_second().saturating_add(seconds);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let issued = expires.saturating_sub(90 * 86_400);
    let token =
        [part(&json!({"alg": "RS256"})), part(&json!({"exp": expires, "iat": issued})), "c2ln".to_owned()]
            .join(".");
    let url = format!("https://{}", ports::free_addr()?);
    let text = Login::Token(token).kubeconfig(&url, authority.certificate(), "default");
    serde_json::from_str(&text).context("read the kubeconfig")
}

impl WithConsul {
    async fn start() -> Result<Self> {
        let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
        for (service, last) in [("web", 1), ("pay", 3)] {
            consul.instance(service, &format!("{service}-1"), "n1", at(last)).await?;
        }
        let (home, health) = (tempfile::tempdir()?, ports::free_addr()?);
        for (name, rules) in [("wide", ALL), ("narrow", WEB)] {
            std::fs::write(home.path().join(name), consul.token(name, rules).await?.1)?;
        }
        let token = home.path().join("token");
        std::fs::copy(home.path().join("wide"), &token)?;
        // A registry that names no token reads that of the variable's file again when it changes.
        let options = ServerOptions::default().env("CONSUL_HTTP_TOKEN_FILE", &token.display().to_string());
        let served = Served::start_with(&config(&consul, &home.path().join("wide"), health), options).await?;
        Ok(Self { consul, served, home, health })
    }

    /// The token in use is replaced by one that may read less.
    async fn lose_rights(&self) -> Result<()> {
        std::fs::copy(self.home.path().join("narrow"), self.home.path().join("token"))?;
        // A change ends the query that still has the old token.
        self.consul.instance("web", "web-2", "n2", at(2)).await
    }

    /// The configuration names a token that may read less: the run that uses it waits.
    async fn gets_less(&self) -> Result<()> {
        let narrow = self.home.path().join("narrow");
        self.served.reload(&config(&self.consul, &narrow, self.health))?;
        eventually("the new run to wait", SOON, || async {
            let registry = self.served.server.registry("second").await?;
            ensure!(registry["needsAccept"] == true, "it does not: {registry}");
            Ok(())
        })
        .await
    }
}

/// Two registries of one Consul: `consul` has the token of the environment, `second` that of a file.
fn config(consul: &Consul, token: &Path, health: SocketAddr) -> Value {
    let mk = |name: &str| json!({"kind": "consul", "name": name, "addresses": [consul.url()]});
    let mut second = mk("second");
    second["tokenFile"] = json!(token);
    json!({"registries": [mk("consul"), second], "health": {"listen": health.to_string()}})
}

impl Cluster {
    /// A cluster with a network whose gateway has a name that cannot be resolved.
    async fn start() -> Result<(Self, SocketAddr)> {
        let api = ApiServer::start().await?;
        for namespace in ["default", "tributary-system"] {
            api.api().apply(&mk_namespace(namespace)).await?;
        }
        api.api().fill_pay(80, &["10.77.0.10"]).await?;
        api.api().create_account("default", "web").await?;
        let networks = json!({"networks": {"far": {"endpoints": [{"fromRegistry": "far"}],
            "gateways": [{"address": "gateway.nowhere.test", "port": 15_443}]}}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "istio", "namespace": "tributary-system"},
            "data": {"mesh": "{}", "meshNetworks": networks.to_string()}});
        api.api().apply(&map).await?;
        let [first, second] = [&["istio-ca"][..], &["tributary"]];
        let tokens = [
            api.api().token_of("default", "web", first).await?,
            api.api().token_of("default", "web", second).await?,
        ];
        let health = ports::free_addr()?;
        let watched =
            Watched::by_admin(&api)?.arg("--xds-tokens").arg("--health-listen").arg(&health.to_string());
        let more = format!("metrics: {{istioNames: true}}\ndns: {{servers: [\"{}\"]}}", ports::free_addr()?);
        let (server, config) = watched.config(&more).start().await?;
        Ok((Self { api, server, _config: config, tokens }, health))
    }

    /// A client is served; then the API server is gone. Clients with a new token and without any connect again and again.
    async fn begin(&self, clients: &mut JoinSet<Result<()>>) -> Result<()> {
        let xds = self.server.xds();
        let mut served = open(xds, Some(&self.tokens[0])).await?;
        let first = served.next(SOON).await?;
        served.ack(&first)?;
        clients.spawn(async move {
            loop {
                let answer = served.next(HOUR).await?;
                served.ack(&answer)?;
            }
        });
        self.api.daemon().kill();
        for token in [None, Some(self.tokens[1].clone())] {
            clients.spawn(async move {
                loop {
                    open(xds, token.as_deref()).await?.expect_end(SOON).await?;
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
        Ok(())
    }
}

async fn open(xds: SocketAddr, token: Option<&str>) -> Result<AdsClient> {
    let tuning = Tuning { token: token.map(str::to_owned), ..Tuning::default() };
    let node = Node { id: sidecar_id("web"), ..Node::default() };
    let mut client =
        AdsClient::over(TcpStream::connect(xds).await?, Variant::Delta, Some(node), tuning).await?;
    client.subscribe(CDS, &[])?;
    Ok(client)
}

/// Writes services whose endpoints depend on the number.
fn write_many(folder: &Path, number: u8) -> Result<()> {
    let mut hosts: Vec<SocketAddr> = (100..=200).map(nowhere).collect();
    hosts.push(nowhere(number % 90));
    let one = |at: usize| Entry::http(&format!("many-{at}.test"), 80).all(&hosts).yaml();
    let text: Vec<String> = (0..MANY).map(one).collect();
    std::fs::write(folder.join(".next"), text.join("---\n"))?;
    Ok(std::fs::rename(folder.join(".next"), folder.join("many.yaml"))?)
}

/// A client that leaves each response unread for longer than the objective while the endpoints change.
async fn reads_slowly(xds: SocketAddr, files: PathBuf) -> Result<()> {
    let tuning = Tuning { stream_window: 1 << 16, connection_window: 1 << 16, ..Tuning::default() };
    let mut client =
        AdsClient::over(TcpStream::connect(xds).await?, Variant::Delta, Some(node("slow")), tuning).await?;
    let names: Vec<String> = (0..MANY).map(|at| format!("outbound|80||many-{at}.test")).collect();
    client.subscribe(EDS, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    for number in 1..u8::MAX {
        write_many(&files, number)?;
        // Longer than the objective, and than the server takes to read the file.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let answer = client.next(SOON).await?;
        client.ack(&answer)?;
    }
    Ok(())
}
