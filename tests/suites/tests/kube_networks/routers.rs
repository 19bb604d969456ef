//! Two Tributaries that mesh over gateways: a sidecar of the one reaches workloads of the other through Envoys that the other serves
//! as routers. Only these know the addresses of the workloads.

use tributary_suites::{Files, ServerOptions};

use super::*;

/// Identity of another trust domain.
const STRANGER: &str = "spiffe://strange/ns/default/sa/web";
const ROUTER: &str = "one.istio-system";

/// The far side: a Tributary of its own, with its declarations as files.
pub(super) struct Far {
    pub(super) files: Files,
    pub(super) server: TestServer,
}

impl Far {
    async fn new(networks: &Networks, workload: SocketAddr) -> Result<Self> {
        let far = Self::start(Ok).await?;
        far.declare(HOST, networks.port, workload)?;
        Ok(far)
    }
    /// Starts a server without declarations, with further options.
    pub(super) async fn start(more: impl FnOnce(ServerOptions) -> Result<ServerOptions>) -> Result<Self> {
        let files = Files::new()?;
        Ok(Self { server: TestServer::start(more(ServerOptions::files(files.path()))?).await?, files })
    }
    /// Declares a service with one workload.
    fn declare(&self, host: &str, port: u16, workload: SocketAddr) -> Result<()> {
        let entry = Entry::http(host, port).with(workload, "network: far, serviceAccount: pay");
        self.files.put(&format!("{host}.yaml"), &entry.yaml())
    }
    /// Declares a gateway of this name for these hosts.
    pub(super) fn forward(&self, name: &str, at: SocketAddr, hosts: &str) -> Result<()> {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: istio-system}}\n\
             spec:\n  selector: {{gateway: {name}}}\n  servers:\n  - port: {{number: {}, name: tls, protocol: TLS}}\n    \
             bind: {}\n    tls: {{mode: AUTO_PASSTHROUGH}}\n    hosts: {hosts}\n",
            at.port(),
            at.ip()
        );
        self.files.put(&format!("gateway-{name}.yaml"), &text)
    }
    async fn router(&self, name: &str, variant: Variant) -> Result<Envoy> {
        let envoy = Envoy::start(&EnvoyConfig::new(self.server.xds(), variant).router(name, "far")).await?;
        envoy.live(SOON).await?;
        Ok(envoy)
    }
}

/// Name of a service as routers have it, and clients as server name.
pub(super) fn forwarded(port: u16, host: &str) -> String {
    format!("outbound_.{port}_._.{host}")
}

/// Requests cross a gateway, and the workload sees the identity of the sidecar. Services come, move and go without an update of the
/// router's listeners, and a gateway is replaced by one at another address: no request fails.
#[tokio::test]
async fn requests_cross_gateways_that_another_server_has() -> Result<()> {
    let networks = Networks::new().await?;
    let [first, second, at, moved] =
        [ports::free_addr()?, ports::free_addr()?, ports::free_addr()?, ports::free_addr()?];
    networks.set_gateways(&[first]).await?;
    networks.declare("").await?;
    // the workloads take mesh TLS of the sidecar alone
    let workloads = vec![networks.gateway("pay", at)?, networks.gateway("moved", moved)?];
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(workloads)).await?;
    let (server, _config) = Watched::by_admin(&networks.cluster)?.start().await?;
    for variant in Variant::BOTH {
        let far = Far::new(&networks, at).await?;
        far.forward("one", first, "[\"*.test\"]")?;
        far.forward("two", second, "[far.test]")?;
        networks.set_gateways(&[first]).await?;
        let (one, cluster) = (far.router("one", variant).await?, forwarded(networks.port, HOST));
        one.has_hosts(&cluster, &[at], SOON).await?;
        let sidecar = networks.sidecar(&server, variant).await?;
        networks.answers(200).await?;
        let listeners = one.stat("listener_manager.lds.update_success").await?;
        let load = Load::start(&LoadPlan::to(networks.requests()).host(HOST));
        load.reaches("far", 10, SOON).await?;
        far.declare("more.test", networks.port, moved)?;
        one.has_hosts(&forwarded(networks.port, "more.test"), &[moved], SOON).await?;
        far.declare(HOST, networks.port, moved)?;
        one.has_hosts(&cluster, &[moved], SOON).await?;
        load.reaches("far", 10, SOON).await?;
        far.files.remove("more.test.yaml")?;
        let gone = forwarded(networks.port, "more.test");
        eventually("the service to go", SOON, || async {
            ensure!(!one.clusters().await?.contains(&gone), "it is there");
            Ok(())
        })
        .await?;
        assert_eq!(
            one.stat("listener_manager.lds.update_success").await?,
            listeners,
            "services are no listeners"
        );
        let two = far.router("two", variant).await?;
        two.has_hosts(&cluster, &[moved], SOON).await?;
        networks.set_gateways(&[second]).await?;
        sidecar.has_hosts(&outbound(networks.port, HOST), &[second], SOON).await?;
        load.reaches("far", 10, SOON).await?;
        load.finish().await.check_clean()?;
        drop(one);
        networks.answers(200).await?;
        assert_eq!((two.refused().await?, sidecar.refused().await?), (0, 0));
    }
    Ok(())
}

/// A gateway that dies under load costs a few requests at most: the others are tried at the next one, and a rule with outlier
/// detection ejects it.
#[tokio::test]
async fn gateway_that_dies_is_replaced_by_the_others() -> Result<()> {
    let networks = Networks::new().await?;
    let [first, second, at] = [ports::free_addr()?, ports::free_addr()?, ports::free_addr()?];
    networks.set_gateways(&[first, second]).await?;
    networks.declare("").await?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![networks.gateway("pay", at)?])).await?;
    networks.cluster.api().apply_all(&documents(EJECTS)?).await?;
    let (server, _config) = Watched::by_admin(&networks.cluster)?.start().await?;
    let far = Far::new(&networks, at).await?;
    let mut routers = Vec::new();
    for (name, gateway) in [("one", first), ("two", second)] {
        far.forward(name, gateway, "[\"*\"]")?;
        routers.push(far.router(name, Variant::Delta).await?);
    }
    for router in &routers {
        router.has_hosts(&forwarded(networks.port, HOST), &[at], SOON).await?;
    }
    let sidecar = networks.sidecar(&server, Variant::Delta).await?;
    sidecar.has_hosts(&outbound(networks.port, HOST), &[first, second], SOON).await?;
    let load = Load::start(&LoadPlan::to(networks.requests()).host(HOST));
    load.reaches("far", 50, SOON).await?;
    drop(routers.pop());
    let ejected = format!("cluster.{}.outlier_detection.ejections_active", outbound(networks.port, HOST));
    sidecar.stat_is(&ejected, SOON, |active| active == 1).await?;
    let failed = load.tally();
    load.reaches("far", 200, SOON).await?;
    networks.set_gateways(&[first]).await?;
    sidecar.has_hosts(&outbound(networks.port, HOST), &[first], SOON).await?;
    load.reaches("far", 50, SOON).await?;
    let end = load.finish().await;
    ensure!(end.failed <= LOST && failed.failed == end.failed, "{failed:?}, then {end:?}");
    Ok(())
}

/// Most requests that fail before the gateway is ejected.
pub(super) const LOST: u64 = 8;
/// Rule that ejects a gateway after two failures.
pub(super) const EJECTS: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: far, namespace: default}
spec:
  host: far.test
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 2, interval: 1s, baseEjectionTime: 180s, maxEjectionPercent: 100}
";

/// Names that lead to nothing that the gateway exports close the connection: of hidden services and of those outside its hosts, of
/// other ports and forms, and of xDS clusters of the router itself. So do clients of another trust domain, at the workload.
#[tokio::test]
async fn router_forwards_what_its_gateways_export_and_nothing_else() -> Result<()> {
    let networks = Networks::new().await?;
    let [gateway, at] = [ports::free_addr()?, ports::free_addr()?];
    networks.set_gateways(&[gateway]).await?;
    networks.declare("").await?;
    let identity = networks.authority.workload("any", PAY)?;
    // whatever its server name
    let open = Workload::new(at, &networks.authority, &identity, networks.far.addr()).client(WEB);
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![open])).await?;
    let far = Far::new(&networks, at).await?;
    let port = networks.port;
    let hidden = Entry::http("hidden.test", port).with(at, "network: far, serviceAccount: pay").yaml();
    far.files.put("hidden.yaml", &hidden.replace("spec:\n", "spec:\n  exportTo: [.]\n"))?;
    far.declare("other.example", port, at)?;
    let plain = Entry::http("plain.test", port).with(at, "network: far");
    far.files.put("plain.yaml", &plain.yaml())?;
    far.forward("one", gateway, "[\"*.test\"]")?;
    let router = far.router("one", Variant::Delta).await?;
    router.has_hosts(&forwarded(port, HOST), &[at], SOON).await?;
    let cases = [
        (forwarded(port, HOST), 200),
        (forwarded(port, "hidden.test"), 503),
        (forwarded(port, "other.example"), 503),
        (forwarded(port, "plain.test"), 503),
        (forwarded(port, "nothing.test"), 503),
        (forwarded(1, HOST), 503),
        (outbound(port, HOST), 503),
        (HOST.to_owned(), 503),
        ("control-plane".to_owned(), 503),
        ("control-plane.test".to_owned(), 503),
    ];
    for (n, (name, _)) in cases.iter().enumerate() {
        let host = format!("sneak-{n}.test");
        let entry = Entry::http(&host, port).with(gateway, "serviceAccount: pay").yaml();
        let rule = format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: sneak-{n}, namespace: default}}\n\
             spec: {{host: {host}, trafficPolicy: {{tls: {{mode: ISTIO_MUTUAL, sni: \"{name}\"}}}}}}\n"
        );
        networks.cluster.api().apply_all(&documents(&format!("{entry}---\n{rule}"))?).await?;
    }
    let (server, _config) = Watched::by_admin(&networks.cluster)?.start().await?;
    let sidecar = networks.sidecar(&server, Variant::Delta).await?;
    for (n, (name, status)) in cases.iter().enumerate() {
        let host = format!("sneak-{n}.test");
        eventually(&format!("{name} to give {status}"), SOON, || async {
            sidecar.has_hosts(&outbound(port, &host), &[gateway], SOON).await?;
            let (found, body) = get_as(networks.requests(), &host, ("x-test", "1")).await?;
            ensure!(found.as_u16() == *status, "it answers {found}: {body}");
            Ok(())
        })
        .await?;
    }
    drop(sidecar);
    let stranger = networks.authority.workload("stranger", STRANGER)?;
    let envoy = networks.sidecar_of(&server, Variant::Delta, &stranger).await?;
    envoy.has_hosts(&outbound(port, HOST), &[gateway], SOON).await?;
    let passed = format!("cluster.{}.upstream_cx_total", forwarded(port, HOST));
    let before = router.stat(&passed).await?;
    networks.answers(503).await?;
    ensure!(router.stat(&passed).await? > before, "the router passes it on, and the workload refuses it");
    drop(envoy);
    let names = router.clusters().await?;
    let names: Vec<&String> = names.iter().filter(|name| name.starts_with("outbound")).collect();
    assert_eq!(names, [&forwarded(port, HOST), &forwarded(port, "plain.test")]);
    shows(&far.server, &["why-not", "plain.test", "--for-client", ROUTER], "TRB0558").await?;
    shows(&far.server, &["why-not", "other.example", "--for-client", ROUTER], "TRB0530").await?;
    shows(&far.server, &["why-not", HOST, "--for-client", ROUTER], "1 endpoint served").await
}
