//! A gateway with a host name, as load balancers on AWS have it: a scripted DNS server decides where it is.

use std::net::IpAddr;

use tributary_suites::kube::Named;

use super::*;

const NAME: &str = "gw.test";
const PORT: u16 = 15443;
/// Time within which an answer that has expired is replaced: names are asked for every half minute at most.
const ASKED_AGAIN: Duration = Duration::from_secs(90);

fn ips(all: &[&str]) -> Vec<IpAddr> {
    all.iter().filter_map(|ip| ip.parse().ok()).collect()
}

fn sockets(all: &[&str]) -> Vec<SocketAddr> {
    ips(all).into_iter().map(|ip| SocketAddr::new(ip, PORT)).collect()
}

/// Declares the gateway into network `far`: a Service whose load balancer has a host name.
async fn declare_gateway(cluster: &ApiServer) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "eastwest", "namespace": "default", "labels": {"topology.istio.io/network": "far"},
        },
        "spec": {
            "type": "LoadBalancer",
            "allocateLoadBalancerNodePorts": false,
            "ports": [{"name": "tls", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    });
    cluster.api().apply(&service).await?;
    let status = json!({"loadBalancer": {"ingress": [{"hostname": NAME}]}});
    cluster.api().apply_status(&Named::of(&service)?, &status).await.map(drop)
}

/// A client of another network gets the addresses of the name, follows a new answer, and keeps the last one while DNS is gone, also
/// across a restart of the server.
#[tokio::test]
async fn gateway_with_a_host_name_follows_dns() -> Result<()> {
    let (networks, dns, state) = (Networks::new().await?, DnsServer::start().await?, tempfile::tempdir()?);
    declare_gateway(&networks.cluster).await?;
    networks.declare("").await?;
    let watched = Watched::by_admin(&networks.cluster)?
        .config(&format!("dns: {{servers: [\"{}\"]}}", dns.addr()))
        .arg("--state-dir")
        .arg(&state.path().display().to_string());
    let (server, _config) = watched.start().await?;
    let cluster = outbound(networks.port, HOST);
    let envoy = networks.sidecar(&server, Variant::Delta).await?;
    let unresolved = "its host name has no address: the name does not exist (NXDOMAIN)";
    shows(&server, &["get", "gateways"], unresolved).await?;
    shows(&server, &["get", "registries", "-o", "wide"], "TRB0330").await?;
    envoy.has_hosts(&cluster, &[], SOON).await?;

    dns.set(NAME, 1, &ips(&["198.51.100.8", "198.51.100.7"]));
    envoy.has_hosts(&cluster, &sockets(&["198.51.100.7", "198.51.100.8"]), ASKED_AGAIN).await?;
    shows(&server, &["get", "gateways"], "gw.test:15443 (198.51.100.7, 198.51.100.8)   Used").await?;
    let through = "reached through the gateways of network far: 198.51.100.7:15443 (gw.test)";
    let at = nowhere(9).to_string();
    shows(&server, &["explain", &at, "--host", HOST, "--for-client", SIDECAR], through).await?;
    shows(&server, &["explain", "gw.test:15443"], &format!("it stands in for {at} of {HOST}")).await?;

    dns.set(NAME, 1, &ips(&["198.51.100.9"]));
    let last = sockets(&["198.51.100.9"]);
    envoy.has_hosts(&cluster, &last, ASKED_AGAIN).await?;

    dns.stop().await;
    eventually("the failure is shown", ASKED_AGAIN, || async {
        let (_, shown, _) = server.command(&["get", "gateways"]).await?;
        let kept = shown.contains("gw.test:15443 (198.51.100.9)")
            && shown.contains("the last addresses stay in use");
        ensure!(kept, "{shown}");
        Ok(())
    })
    .await?;
    shows(&server, &["get", "registries", "-o", "wide"], "TRB0331").await?;
    envoy.has_hosts(&cluster, &last, SOON).await?;
    drop(envoy);

    let server = server.restart().await?;
    let envoy = networks.sidecar(&server, Variant::Sotw).await?;
    envoy.has_hosts(&cluster, &last, SOON).await?;
    shows(&server, &["get", "gateways"], "the last addresses stay in use").await
}
