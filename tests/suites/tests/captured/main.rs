//! A captured sidecar for real: a pod in a network namespace whose connections iptables redirects to a real Envoy,
//! and a table of what reaches what, in both directions, over IPv4 and IPv6. `TRIBUTARY_SKIP_CAPTURE=1` leaves
//! the suite out on a machine without network namespaces.

mod documents;
mod ingress;
mod table;
mod talk;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use documents::{
    Family, OWN, OWN_SECRET, PROXY, SERVICES, STRANGER, STRANGER_PORTS, documents, egress_proxy,
};
use serde_json::json;
use table::{ROWS, Row, To, Wanted};
use talk::{Outcome, speak};
use tokio::net::TcpListener;
use tributary_suites::capture::{Side, give_to_proxy, is_left_out};
use tributary_suites::{
    Authority, Backend, CapturedPod, Envoy, EnvoyConfig, Files, ServerOptions, TestServer, Variant,
};

const SOON: Duration = Duration::from_secs(20);
const CONFIG: &str = "apiVersion: tributary.dev/v1alpha1\nkind: Config\n";
const NAME: &str = "own";

/// Outbound policy of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    AllowAny,
    RegistryOnly,
    /// Strangers reach the egress proxy of a Sidecar.
    Proxy,
}

#[test]
fn captured_sidecar_that_allows_any_matches_the_table_sotw() -> Result<()> {
    check(Policy::AllowAny, Variant::Sotw)
}

#[test]
fn captured_sidecar_that_allows_any_matches_the_table_delta() -> Result<()> {
    check(Policy::AllowAny, Variant::Delta)
}

#[test]
fn captured_sidecar_of_the_registry_only_matches_the_table_sotw() -> Result<()> {
    check(Policy::RegistryOnly, Variant::Sotw)
}

#[test]
fn captured_sidecar_of_the_registry_only_matches_the_table_delta() -> Result<()> {
    check(Policy::RegistryOnly, Variant::Delta)
}

#[test]
fn captured_sidecar_with_an_egress_proxy_matches_the_table_sotw() -> Result<()> {
    check(Policy::Proxy, Variant::Sotw)
}

#[test]
fn captured_sidecar_with_an_egress_proxy_matches_the_table_delta() -> Result<()> {
    check(Policy::Proxy, Variant::Delta)
}

fn check(policy: Policy, variant: Variant) -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let pod = CapturedPod::new(&machines())?;
    pod.in_world(async || {
        let proxy = if policy == Policy::Proxy { egress_proxy() } else { String::new() };
        with_sidecar(&pod, &(documents() + &proxy), policy, variant, async |envoy| {
            matches_the_table(&pod, policy, variant, envoy).await
        })
        .await
    })
}

/// Returns the address of every machine of the world; number 1 is the server's.
fn machines() -> Vec<IpAddr> {
    let numbers = SERVICES.iter().map(|service| service.machine).chain([1, STRANGER]);
    numbers.flat_map(|number| Family::BOTH.map(|family| family.host(number))).collect()
}

/// Runs a check against the proxy of the pod, which has everything that these documents give it.
async fn with_sidecar(
    pod: &CapturedPod,
    documents: &str,
    policy: Policy,
    variant: Variant,
    check: impl AsyncFnOnce(&Envoy) -> Result<()>,
) -> Result<()> {
    let _backends = backends(pod)?;
    let files = Files::new()?;
    files.put("all.yaml", documents)?;
    let settings = Files::new()?;
    let blocks = policy == Policy::RegistryOnly;
    settings.put("config.yaml", &format!("{CONFIG}settings: {{blockUnknown: {blocks}}}\n"))?;
    let options = ServerOptions::files(files.path()).config(&settings.path().join("config.yaml"));
    let xds = SocketAddr::new(Family::V4.host(1), 15_010);
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, 15_014));
    let authority = Authority::new()?;
    let options = options.tls(&authority.server("xds")?, None).on(xds, admin);
    let server = TestServer::start(options).await?;
    give_to_proxy(&authority.file())?;
    let envoy = Envoy::start_in(pod, &sidecar(pod, xds, variant).tls(&authority, None)).await?;
    settled(&server, &envoy).await?;
    check(&envoy).await
}

async fn matches_the_table(pod: &CapturedPod, policy: Policy, variant: Variant, envoy: &Envoy) -> Result<()> {
    let mut wrong = Vec::new();
    for row in ROWS {
        for family in Family::BOTH {
            let outcome = outcome(pod, row, family).await?;
            if outcome != wanted(row, policy) {
                wrong.push(format!("{family:?} {row:?}: {outcome:?}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{policy:?}, {variant:?}: {} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    }
    passed_its_chains(envoy).await
}

fn sidecar(pod: &CapturedPod, xds: SocketAddr, variant: Variant) -> EnvoyConfig {
    let metadata = json!({
        "NAMESPACE": "default",
        "CLUSTER_ID": "Kubernetes",
        "INTERCEPTION_MODE": "REDIRECT",
        "INSTANCE_IPS": pod.addresses(),
    });
    let id = format!("sidecar~{}~{NAME}.default~default.svc.cluster.local", Family::V4.host(2));
    EnvoyConfig::new(xds, variant).node_id(&id).metadata(metadata).with_listeners()
}

/// Starts a backend for each service, for the stranger, and for the application of the pod.
fn backends(pod: &CapturedPod) -> Result<Vec<Backend>> {
    let mut all = Vec::new();
    let mut start = |side, name: &str, at: SocketAddr| -> Result<()> {
        all.push(Backend::accepting(name, TcpListener::from_std(pod.listen(side, at)?)?)?);
        Ok(())
    };
    for family in Family::BOTH {
        for service in SERVICES {
            let at = SocketAddr::new(family.host(service.machine), service.target);
            start(Side::World, service.host, at)?;
        }
        for port in STRANGER_PORTS {
            start(Side::World, "stranger", SocketAddr::new(family.host(STRANGER), port))?;
        }
        let own = OWN.map(|(_, _, port, name)| (port, name));
        for (port, name) in own.into_iter().chain([OWN_SECRET]) {
            start(Side::Pod, name, SocketAddr::new(family.host(2), port))?;
        }
    }
    Ok(all)
}

/// Waits until Envoy uses everything that it was sent.
async fn settled(server: &TestServer, envoy: &Envoy) -> Result<()> {
    envoy.live(SOON).await?;
    let id = format!("sidecar~{}~{NAME}.default~default.svc.cluster.local", Family::V4.host(2));
    server.is_content(&id, SOON).await?;
    envoy.stat_is("listener_manager.total_listeners_warming", SOON, |warming| warming == 0).await?;
    envoy.stat_is("cluster_manager.warming_clusters", SOON, |warming| warming == 0).await?;
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

async fn outcome(pod: &CapturedPod, (from, to, port, talk, _): &Row, family: Family) -> Result<Outcome> {
    let ip = match *to {
        To::Vip(number) => family.virtual_ip(number),
        To::Machine(number) => family.host(number),
    };
    speak(pod.connect(*from, SocketAddr::new(ip, *port))?, *talk).await
}

fn wanted((.., wanted): &Row, policy: Policy) -> Outcome {
    let reached = |name: &str| Outcome::Reached(name.to_owned());
    match (*wanted, policy) {
        (Wanted::Backend(name), _) => reached(name),
        (Wanted::Passed(name) | Wanted::PassedOr(name, _), Policy::AllowAny) => reached(name),
        (Wanted::Passed(_) | Wanted::PassedOr(..), Policy::Proxy) => reached(PROXY),
        (Wanted::PassedOr(_, status), Policy::RegistryOnly) => Outcome::Status(status),
        (Wanted::Passed(_), Policy::RegistryOnly) | (Wanted::Closed, _) => Outcome::Closed,
    }
}

/// The rows alone do not distinguish a connection that passed from one that a chain took; Envoy's counters do.
async fn passed_its_chains(envoy: &Envoy) -> Result<()> {
    for stat in [
        "http.inbound|9100||.downstream_rq_total",
        "tcp.inbound|9101||.downstream_cx_total",
        "http.inbound|9102||.downstream_rq_total",
        "http.InboundPassthroughCluster.downstream_rq_total",
    ] {
        let count = envoy.stat(stat).await?;
        ensure!(count > 0, "{stat} is 0");
    }
    Ok(())
}
