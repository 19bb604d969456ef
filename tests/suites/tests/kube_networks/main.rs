//! Gateways between networks: a sidecar reaches endpoints of another network by mesh TLS through the gateways that the mesh
//! networks of a real API server name, and follows them when they change.
//!
//! The Envoy of the workload is at the address of the gateway: it takes mesh TLS of the sidecar with the server name of the
//! service, as a gateway forwards it. The addresses of the endpoints lead nowhere.
//!
//! In `captured`, workloads and clients are captured sidecars in network namespaces, on two networks that only gateways join. In
//! `routers`, another Tributary serves the gateways, which are Envoys of their own.

mod captured;
mod names;
mod routers;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tributary_suites::http_client::get_as;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{Watched, mk_namespace};
use tributary_suites::{
    ApiServer, Authority, Backend, DnsServer, Entry, Envoy, EnvoyConfig, Identity, Load, LoadPlan,
    TestServer, Variant, Workload, eventually, nowhere, outbound, ports,
};

const SOON: Duration = Duration::from_secs(60);
const HOST: &str = "far.test";
const WEB: &str = "spiffe://cluster.local/ns/default/sa/web";
const PAY: &str = "spiffe://cluster.local/ns/default/sa/pay";
/// Node id that [`EnvoyConfig::sidecar`] gives, for commands.
const SIDECAR: &str = "web.default";

/// A cluster with a service in network `far`, and the sidecar's certificates.
struct Networks {
    cluster: ApiServer,
    authority: Authority,
    web: Identity,
    far: Backend,
    port: u16,
}

impl Networks {
    async fn new() -> Result<Self> {
        Self::of(ApiServer::start().await?).await
    }
    async fn of(cluster: ApiServer) -> Result<Self> {
        let authority = Authority::new()?;
        cluster.api().define().await?;
        cluster.api().apply_all(&[mk_namespace("tributary-system"), mk_namespace("default")]).await?;
        let (web, far) = (authority.workload("web", WEB)?, Backend::start("far").await?);
        Ok(Self { cluster, authority, web, far, port: ports::free_port()? })
    }
    /// Sets the gateways into the network.
    async fn set_gateways(&self, gateways: &[SocketAddr]) -> Result<()> {
        let one = |at: &SocketAddr| json!({"address": at.ip().to_string(), "port": at.port()});
        self.declare_gateways(gateways.iter().map(one).collect()).await
    }
    async fn declare_gateways(&self, gateways: Vec<serde_json::Value>) -> Result<()> {
        let far = json!({"endpoints": [], "gateways": gateways});
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio", "namespace": "tributary-system"},
            "data": {
                "mesh": "enableAutoMtls: true\n",
                "meshNetworks": json!({"networks": {"far": far}}).to_string(),
            },
        });
        self.cluster.api().apply(&object).await.map(drop)
    }
    /// Declares the service, whose endpoint has these fields more.
    async fn declare(&self, fields: &str) -> Result<()> {
        self.declare_host(HOST, fields).await
    }
    /// Declares a service of this host, likewise.
    async fn declare_host(&self, host: &str, fields: &str) -> Result<()> {
        let endpoint = format!("network: far, serviceAccount: pay{fields}");
        let entry = Entry::http(host, self.port).with(nowhere(9), &endpoint);
        self.cluster.api().apply_all(&documents(&entry.yaml())?).await
    }
    /// Returns what a gateway at this address leads to.
    fn gateway(&self, name: &str, at: SocketAddr) -> Result<Workload> {
        let identity = self.authority.workload(name, PAY)?;
        let workload = Workload::new(at, &self.authority, &identity, self.far.addr());
        Ok(workload.server_name(&format!("outbound_.{}_._.{HOST}", self.port)).client(WEB))
    }
    async fn sidecar(&self, server: &TestServer, variant: Variant) -> Result<Envoy> {
        self.sidecar_of(server, variant, &self.web).await
    }
    /// Starts the sidecar with the certificates of an identity.
    async fn sidecar_of(&self, server: &TestServer, variant: Variant, own: &Identity) -> Result<Envoy> {
        let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(json!({
            "NAMESPACE": "default",
            "CLUSTER_ID": "Kubernetes",
            "INTERCEPTION_MODE": "NONE",
            "NETWORK": "near",
            "TLS_CLIENT_CERT_CHAIN": own.certificate_file,
            "TLS_CLIENT_KEY": own.key_file,
            "TLS_CLIENT_ROOT_CERT": self.authority.file(),
        }));
        let envoy = Envoy::start(&config).await?;
        envoy.live(SOON).await?;
        Ok(envoy)
    }
    fn requests(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
    async fn answers(&self, status: u16) -> Result<()> {
        eventually(&format!("{status}"), SOON, || async {
            let (found, body) = get_as(self.requests(), HOST, ("x-test", "1")).await?;
            ensure!(found.as_u16() == status, "it answers {found}: {body}");
            Ok(())
        })
        .await
    }
}

async fn shows(server: &TestServer, command: &[&str], part: &str) -> Result<()> {
    eventually(part, SOON, || async {
        let (_, shown, _) = server.command(command).await?;
        ensure!(shown.contains(part), "{shown}");
        Ok(())
    })
    .await
}

/// Gateways are replaced under load without a failed request, and named by `explain`.
#[tokio::test]
async fn sidecar_follows_the_gateways_of_another_network() -> Result<()> {
    let networks = Networks::new().await?;
    let (first, second) = (ports::free_addr()?, ports::free_addr()?);
    networks.set_gateways(&[first]).await?;
    networks.declare("").await?;
    let workloads = vec![networks.gateway("first", first)?, networks.gateway("second", second)?];
    let _gateways = Envoy::start(&EnvoyConfig::of_workloads(workloads)).await?;
    let (server, _config) = Watched::by_admin(&networks.cluster)?.start().await?;
    for variant in Variant::BOTH {
        networks.set_gateways(&[first]).await?;
        let envoy = networks.sidecar(&server, variant).await?;
        networks.answers(200).await?;
        let cluster = outbound(networks.port, HOST);
        envoy.has_hosts(&cluster, &[first], SOON).await?;
        let load = Load::start(&LoadPlan::to(networks.requests()).host(HOST));
        load.reaches("far", 10, SOON).await?;
        for gateways in [&[first, second][..], &[second]] {
            networks.set_gateways(gateways).await?;
            envoy.has_hosts(&cluster, gateways, SOON).await?;
            load.reaches("far", 10, SOON).await?;
        }
        load.finish().await.check_clean()?;
        let at = nowhere(9).to_string();
        let through = format!("TRB0556  reached through the gateways of network far: {second}");
        shows(&server, &["explain", &at, "--host", HOST, "--for-client", SIDECAR], &through).await?;
        shows(&server, &["why-not", HOST, "--for-client", SIDECAR], "1 endpoint served").await?;
        assert_eq!(envoy.refused().await?, 0);
    }
    Ok(())
}

/// An endpoint without mesh TLS is not sent through a gateway, and the reason is shown; with it, it is.
#[tokio::test]
async fn endpoint_without_mesh_tls_has_no_gateway() -> Result<()> {
    let networks = Networks::new().await?;
    let at = ports::free_addr()?;
    networks.set_gateways(&[at]).await?;
    networks.declare(", labels: {security.istio.io/tlsMode: disabled}").await?;
    let _gateways = Envoy::start(&EnvoyConfig::of_workloads(vec![networks.gateway("pay", at)?])).await?;
    let (server, _config) = Watched::by_admin(&networks.cluster)?.start().await?;
    let _envoy = networks.sidecar(&server, Variant::Delta).await?;
    networks.answers(503).await?;
    let why = "gateways need mesh TLS, which the endpoint does not accept";
    let endpoint = nowhere(9).to_string();
    shows(&server, &["explain", &endpoint, "--host", HOST, "--for-client", SIDECAR], why).await?;
    shows(&server, &["why-not", HOST, "--for-client", SIDECAR], "TRB0510").await?;
    networks.declare("").await?;
    networks.answers(200).await
}

/// A network whose only gateway has a host name that cannot be resolved stays closed, and what is missing is shown; without a declared
/// gateway it is reached directly.
#[tokio::test]
async fn network_is_closed_until_no_gateway_is_declared() -> Result<()> {
    let networks = Networks::new().await?;
    let at = ports::free_addr()?;
    networks.set_gateways(&[at]).await?;
    networks.declare("").await?;
    let dns = DnsServer::start().await?;
    let servers = format!("dns: {{servers: [\"{}\"]}}", dns.addr());
    let (server, _config) = Watched::by_admin(&networks.cluster)?.config(&servers).start().await?;
    let envoy = networks.sidecar(&server, Variant::Delta).await?;
    let cluster = outbound(networks.port, HOST);
    envoy.has_hosts(&cluster, &[at], SOON).await?;
    shows(&server, &["get", "gateways"], &format!("{at}   Used")).await?;
    shows(&server, &["explain", &at.to_string()], &format!("it stands in for {} of {HOST}", nowhere(9)))
        .await?;
    networks.declare_gateways(vec![json!({"address": "gw.test", "port": 15443})]).await?;
    envoy.has_hosts(&cluster, &[], SOON).await?;
    shows(&server, &["get", "gateways"], "gw.test:15443   Unusable").await?;
    shows(&server, &["get", "registries", "-o", "wide"], "TRB0330").await?;
    networks.set_gateways(&[]).await?;
    envoy.has_hosts(&cluster, &[nowhere(9)], SOON).await
}
