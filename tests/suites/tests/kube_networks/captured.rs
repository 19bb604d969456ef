//! Captured sidecars on two networks: clients of a Tributary over an API server, workloads of another one over files. Each has a
//! network namespace of its own, and iptables redirects its connections. Pods reach those of their network alone; the routers, which
//! are in the world, reach all. So a request of one network to the other passes two captured sidecars and a gateway.

use std::net::IpAddr;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tributary_suites::capture::{Capture, CapturedPod, Side, Site, give_to_proxy, is_left_out};
use tributary_suites::http_client::get_over;
use tributary_suites::kube::ApiServerOptions;
use tributary_suites::{Echo, ServerOptions};

use super::routers::{EJECTS, Far, LOST, forwarded};
use super::*;

/// Networks of the pods: `10.96.0.0/16` and `10.98.0.0/16`.
const NEAR: u8 = 96;
const FAR: u8 = 98;
/// Service that answers with the request.
const WHO: &str = "who.test";
/// Port of the application that names itself, and of the one that answers with the request.
const PORTS: (u16, u16) = (8080, 8081);
const GATEWAY_PORT: u16 = 15_443;

/// Addresses of the world: the two servers, and the gateways.
fn host(number: u8) -> IpAddr {
    IpAddr::from([10, 90, 0, number])
}

fn gateway(number: u8) -> SocketAddr {
    SocketAddr::new(host(10 + number), GATEWAY_PORT)
}

fn in_site(test: impl AsyncFnOnce(&Site) -> Result<()> + Send) -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let hosts = [1, 2, 11, 12, 13].map(host);
    let site = Site::new(&hosts, &[NEAR, FAR])?;
    site.in_world(async || test(&site).await)
}

/// The two servers, which the pods reach.
struct Servers {
    networks: Networks,
    near: TestServer,
    far: Far,
    _config: TempDir,
}

impl Servers {
    async fn new() -> Result<Self> {
        // the world has no default route, from which the API server would take an address
        let options = ApiServerOptions::default().arg("--advertise-address=127.0.0.1");
        let networks = Networks::of(ApiServer::start_with(options).await?).await?;
        let identity = networks.authority.server("xds")?;
        give_to_proxy(&networks.authority.file())?;
        let secured = |options: ServerOptions, number| -> Result<ServerOptions> {
            Ok(options.tls(&identity, None).on(SocketAddr::new(host(number), 15_010), ports::free_addr()?))
        };
        let near = Watched::by_admin(&networks.cluster)?.based_on(secured(ServerOptions::default(), 1)?);
        let (near, config) = near.start().await?;
        let far = Far::start(|options| secured(options, 2)).await?;
        Ok(Self { networks, near, far, _config: config })
    }
    /// Starts the proxy of a pod of this name and identity.
    async fn sidecar(&self, pod: &CapturedPod, name: &str, uri: &str, is_near: bool) -> Result<Envoy> {
        let Self { networks: Networks { authority, .. }, near, far, .. } = self;
        let own = authority.workload(name, uri)?;
        let (server, network) = if is_near { (near, "near") } else { (&far.server, "far") };
        let id = format!("sidecar~{}~{name}.default~default.svc.cluster.local", pod.addresses());
        let metadata = json!({
            "NAMESPACE": "default",
            "CLUSTER_ID": "Kubernetes",
            "NETWORK": network,
            "INTERCEPTION_MODE": "REDIRECT",
            "INSTANCE_IPS": pod.addresses(),
            "LABELS": {"app": name},
            "TLS_CLIENT_CERT_CHAIN": own.certificate_file,
            "TLS_CLIENT_KEY": own.key_file,
            "TLS_CLIENT_ROOT_CERT": authority.file(),
        });
        let config = EnvoyConfig::new(server.xds(), Variant::Delta).node_id(&id).metadata(metadata);
        let envoy = Envoy::start_in(pod, &config.with_listeners().tls(authority, None)).await?;
        envoy.live(SOON).await?;
        Ok(envoy)
    }
    /// Declares a service of the far network, whose workloads listen on this port.
    fn serve(&self, name: &str, target: u16) -> Result<()> {
        let entry = Entry::http(name, self.networks.port).selects("group", "far").yaml();
        let entry = entry.replace("name: main", &format!("name: main, targetPort: {target}"));
        self.far.files.put(&format!("{name}.yaml"), &entry)
    }
    /// Declares a pod of the far network as one of their workloads, which accepts mesh TLS or not.
    fn join(&self, pod: &CapturedPod, app: &str, mode: &str) -> Result<()> {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {{name: {app}, namespace: default}}\n\
             spec: {{address: {}, network: far, serviceAccount: pay, \
             labels: {{group: far, app: {app}, security.istio.io/tlsMode: {mode}}}}}\n",
            pod.addresses()
        );
        self.far.files.put(&format!("workload-{app}.yaml"), &text)
    }
    /// Starts the router of a gateway and waits until it forwards to these workloads.
    async fn router(&self, name: &str, at: SocketAddr, workloads: &[SocketAddr]) -> Result<Envoy> {
        self.far.forward(name, at, "[\"*.test\"]")?;
        let config = EnvoyConfig::new(self.far.server.xds(), Variant::Delta).router(name, "far");
        let envoy = Envoy::start(&config.tls(&self.networks.authority, None)).await?;
        envoy.live(SOON).await?;
        envoy.has_hosts(&forwarded(self.networks.port, HOST), workloads, SOON).await?;
        Ok(envoy)
    }
    /// Returns the load of the application of a pod on the service.
    fn load(&self, pod: &CapturedPod) -> Load {
        Load::start(&LoadPlan::to(self.service()).host(HOST).from(pod))
    }
    /// Returns an address of no machine: connections to it are redirected, and routed by their host.
    fn service(&self) -> SocketAddr {
        SocketAddr::from(([10, 97, 0, 1], self.networks.port))
    }
    /// Sets the mode of the workloads with a label of the far network.
    fn mode(&self, app: &str, mode: &str) -> Result<()> {
        self.modes(app, &format!("mtls: {{mode: {mode}}}"))
    }
    /// Sets the modes of the workloads with a label of the far network, and of their ports.
    fn modes(&self, app: &str, modes: &str) -> Result<()> {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: {app}, namespace: default}}\n\
             spec: {{selector: {{matchLabels: {{app: {app}}}}}, {modes}}}\n"
        );
        self.far.files.put(&format!("mode-{app}.yaml"), &text)
    }
}

/// Starts an application in a pod that answers with its name.
fn named(pod: &CapturedPod, name: &str) -> Result<Backend> {
    Backend::accepting(name, TcpListener::from_std(pod.listen(Side::Pod, pod.at(PORTS.0))?)?)
}

/// Waits until the application of a pod gets an answer with this text, or without it, from an address.
async fn answers(pod: &CapturedPod, to: SocketAddr, host: &str, text: &str, is_in: bool) -> Result<String> {
    let namespace = pod.namespace();
    eventually(&format!("{host} at {to}, {text}: {is_in}"), SOON, || async {
        let (status, body) = get_over(namespace.connect(to).await?, host).await?;
        ensure!(status == 200 && body.contains(text) == is_in, "it answers {status}: {body}");
        Ok(body)
    })
    .await
}

/// Waits until a connection in plain text gets no answer.
async fn is_refused(pod: &CapturedPod, to: SocketAddr) -> Result<()> {
    let namespace = pod.namespace();
    eventually(&format!("{to} to refuse plain text"), SOON, || async {
        let answer = get_over(namespace.connect(to).await?, WHO).await;
        ensure!(answer.is_err(), "it answers {answer:?}");
        Ok(())
    })
    .await
}

const CERTIFICATE_HEADER: &str = "x-forwarded-client-cert";

/// The workload sees the identity of a caller of another network; what its mode refuses and takes in its own network changes under
/// the traffic of that caller.
#[test]
fn captured_workload_knows_callers_of_another_network_and_refuses_plain_text() -> Result<()> {
    in_site(async |site| {
        let servers = Servers::new().await?;
        let (callee, caller) =
            (site.pod(FAR, 1, Capture::Redirected)?, site.pod(NEAR, 1, Capture::Redirected)?);
        let (plain, stranger) = (site.pod(FAR, 2, Capture::None)?, site.pod(NEAR, 2, Capture::None)?);
        let (at, who) = (callee.at(PORTS.0), callee.at(PORTS.1));
        let _named = named(&callee, "pay")?;
        let _echo = Echo::accepting(TcpListener::from_std(callee.listen(Side::Pod, who)?)?)?;
        let bare = callee.at(PORTS.1 + 1);
        let _bare = Echo::accepting(TcpListener::from_std(callee.listen(Side::Pod, bare)?)?)?;
        let networks = &servers.networks;
        servers.serve(HOST, PORTS.0)?;
        servers.serve(WHO, PORTS.1)?;
        servers.join(&callee, "pay", "istio")?;
        let pay = servers.sidecar(&callee, "pay", PAY, false).await?;
        let _router = servers.router("one", gateway(1), &[at]).await?;
        networks.set_gateways(&[gateway(1)]).await?;
        networks.declare("").await?;
        networks.declare_host(WHO, "").await?;
        let web = servers.sidecar(&caller, "web", WEB, true).await?;

        let answer = answers(&caller, servers.service(), WHO, CERTIFICATE_HEADER, true).await?;
        ensure!(answer.contains(&format!("URI={WEB}")) && answer.contains(&format!("By={PAY}")), "{answer}");
        ensure!(stranger.namespace().connect(who).await.is_err(), "the networks are not apart");

        let load = servers.load(&caller);
        load.reaches("pay", 10, SOON).await?;
        for mode in ["PERMISSIVE", "STRICT", "PERMISSIVE"] {
            servers.mode("pay", mode)?;
            if mode == "STRICT" {
                is_refused(&plain, who).await?;
            } else {
                answers(&plain, who, WHO, CERTIFICATE_HEADER, false).await?;
            }
            answers(&caller, servers.service(), WHO, CERTIFICATE_HEADER, true).await?;
            load.reaches("pay", 20, SOON).await?;
        }
        load.finish().await.check_clean()?;
        // a port of no service has a mode of its own too
        answers(&plain, bare, WHO, CERTIFICATE_HEADER, false).await?;
        servers.modes("pay", &format!("portLevelMtls: {{{}: {{mode: STRICT}}}}", bare.port()))?;
        is_refused(&plain, bare).await?;
        answers(&plain, who, WHO, CERTIFICATE_HEADER, false).await?;
        assert_eq!((pay.refused().await?, web.refused().await?), (0, 0));
        Ok(())
    })
}

/// Pods of the far network: two without a proxy, and two whose proxies take mesh TLS as well.
struct Workloads {
    pods: Vec<CapturedPod>,
    _applications: Vec<Backend>,
}

const NAMES: [&str; 4] = ["plain-0", "plain-1", "mesh-2", "mesh-3"];

impl Workloads {
    fn new(site: &Site) -> Result<Self> {
        let capture = |at: usize| if at < 2 { Capture::None } else { Capture::Redirected };
        let pod = |(at, number)| site.pod(FAR, number, capture(at));
        let pods: Vec<CapturedPod> = (0..NAMES.len()).zip(11..).map(pod).collect::<Result<_>>()?;
        let applications = pods.iter().zip(NAMES).map(|(pod, name)| named(pod, name));
        let applications = applications.collect::<Result<_>>()?;
        Ok(Self { pods, _applications: applications })
    }
    /// Declares them, of which those with these numbers accept mesh TLS.
    fn declare(&self, servers: &Servers, meshed: &[usize]) -> Result<()> {
        let mode = |at: &usize| if meshed.contains(at) { "istio" } else { "disabled" };
        let mut all = self.pods.iter().zip(NAMES).enumerate();
        all.try_for_each(|(at, (pod, name))| servers.join(pod, name, mode(&at)))
    }
}

/// Rule that ends connections after some requests: Envoy keeps open ones in plain text when an endpoint accepts mesh TLS.
const RENEWS: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: far, namespace: default}
spec: {host: far.test, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 10}}}}
";
/// Number of mesh connections that the proxy of a workload has accepted.
const HANDSHAKES: &str = "listener.0.0.0.0_15006.ssl.handshake";

/// Half of the workloads of a service move from plain text to mesh TLS one by one, and back, under load of a captured client of their
/// network: no request fails. Clients of the other network get those that accept mesh TLS, and no others.
#[test]
fn captured_workloads_move_to_mesh_tls_and_back_under_load() -> Result<()> {
    in_site(async |site| {
        let servers = Servers::new().await?;
        let workloads = Workloads::new(site)?;
        servers.serve(HOST, PORTS.0)?;
        servers.far.files.put("renews.yaml", RENEWS)?;
        workloads.declare(&servers, &[])?;
        let mut proxies = Vec::new();
        for (pod, name) in workloads.pods.iter().zip(NAMES).skip(2) {
            proxies.push(servers.sidecar(pod, name, PAY, false).await?);
        }
        let router = servers.router("one", gateway(1), &[]).await?;
        let client = site.pod(FAR, 5, Capture::Redirected)?;
        let envoy = servers.sidecar(&client, "web", WEB, false).await?;
        let ats: Vec<SocketAddr> = workloads.pods.iter().map(|pod| pod.at(PORTS.0)).collect();
        envoy.has_hosts(&outbound(servers.networks.port, HOST), &ats, SOON).await?;
        let load = servers.load(&client);
        all_answer(&load).await?;
        for proxy in &proxies {
            assert_eq!(proxy.stat(HANDSHAKES).await?, 0, "all workloads get plain text");
        }
        let through = forwarded(servers.networks.port, HOST);
        for (meshed, proxy) in [(&[2][..], &proxies[0]), (&[2, 3], &proxies[1])] {
            workloads.declare(&servers, meshed)?;
            proxy.stat_is(HANDSHAKES, SOON, |count| count > 0).await?;
            let behind: Vec<SocketAddr> = meshed.iter().map(|at| ats[*at]).collect();
            router.has_hosts(&through, &behind, SOON).await?;
            all_answer(&load).await?;
        }
        for name in &NAMES[2..] {
            servers.mode(name, "STRICT")?;
        }
        let plain = site.pod(FAR, 6, Capture::None)?;
        for at in &ats[2..] {
            is_refused(&plain, *at).await?;
        }
        all_answer(&load).await?;
        for (name, at) in NAMES.iter().zip(&ats).skip(2) {
            servers.mode(name, "PERMISSIVE")?;
            answers(&plain, *at, HOST, name, true).await?;
        }
        workloads.declare(&servers, &[])?;
        router.has_hosts(&through, &[], SOON).await?;
        all_answer(&load).await?;
        load.finish().await.check_clean()?;
        for proxy in proxies.iter().chain([&envoy, &router]) {
            assert_eq!(proxy.refused().await?, 0);
        }
        Ok(())
    })
}

async fn all_answer(load: &Load) -> Result<()> {
    for name in NAMES {
        load.reaches(name, 20, SOON).await?;
    }
    Ok(())
}

/// A gateway dies under load of a captured client, and one at another address replaces it: only requests that were on their way
/// through the dead one may fail, and none for want of an endpoint.
#[test]
fn gateway_of_captured_sidecars_dies_and_another_address_replaces_it() -> Result<()> {
    in_site(async |site| {
        let servers = Servers::new().await?;
        let (callee, caller) =
            (site.pod(FAR, 1, Capture::Redirected)?, site.pod(NEAR, 1, Capture::Redirected)?);
        let _named = named(&callee, "pay")?;
        let networks = &servers.networks;
        servers.serve(HOST, PORTS.0)?;
        servers.join(&callee, "pay", "istio")?;
        let _pay = servers.sidecar(&callee, "pay", PAY, false).await?;
        let workload = [callee.at(PORTS.0)];
        let _first = servers.router("one", gateway(1), &workload).await?;
        let second = servers.router("two", gateway(2), &workload).await?;
        networks.set_gateways(&[gateway(1), gateway(2)]).await?;
        networks.declare("").await?;
        networks.cluster.api().apply_all(&documents(EJECTS)?).await?;
        let web = servers.sidecar(&caller, "web", WEB, true).await?;
        let cluster = outbound(networks.port, HOST);
        web.has_hosts(&cluster, &[gateway(1), gateway(2)], SOON).await?;
        let load = servers.load(&caller);
        load.reaches("pay", 50, SOON).await?;
        drop(second);
        let ejected = format!("cluster.{cluster}.outlier_detection.ejections_active");
        web.stat_is(&ejected, SOON, |active| active == 1).await?;
        let failed = load.tally();
        let third = servers.router("three", gateway(3), &workload).await?;
        networks.set_gateways(&[gateway(1), gateway(3)]).await?;
        web.has_hosts(&cluster, &[gateway(1), gateway(3)], SOON).await?;
        let passed = format!("cluster.{}.upstream_cx_total", forwarded(networks.port, HOST));
        third.stat_is(&passed, SOON, |count| count > 0).await?;
        load.reaches("pay", 200, SOON).await?;
        let end = load.finish().await;
        ensure!(end.failed <= LOST && failed.failed == end.failed, "{failed:?}, then {end:?}");
        let lacks = |text: &String| text.contains("no healthy upstream");
        ensure!(!end.failures.iter().any(lacks), "{end:?}");
        Ok(())
    })
}
