//! One name served from a real Kubernetes API server and a real Consul. Consul is stopped under traffic through
//! real Envoy, and so is the API server: no request may fail, and each side is followed while the other is
//! down.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tributary_suites::consul::{ConsulOptions, PORT, Served};
use tributary_suites::kube::{mk_namespace, mk_service, mk_slices};
use tributary_suites::{ApiServer, Backend, Consul, eventually, outbound, ports};

const SOON: Duration = Duration::from_secs(60);
const HOST: &str = "pay.mesh";

struct World {
    cluster: ApiServer,
    consul: Consul,
    served: Served,
    pod: Backend,
    machine: Backend,
}

/// Starts a federated service of one Service and one service of Consul; `federated` holds further fields.
async fn world(federated: &Value, machine: &Value) -> Result<World> {
    let cluster = ApiServer::start().await?;
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    let ip = ports::own_ip()?;
    let (pod, vm) = (Backend::start_on("pod", ip).await?, Backend::start_on("machine", ip).await?);
    cluster.api().apply(&mk_namespace("shop")).await?;
    cluster.api().apply(&mk_service("shop", "pay", &[("http", 80, 80)])).await?;
    slices(&cluster, &[pod.addr()]).await?;
    consul.set("pay", "n1", &[vm.addr()]).await?;
    let mut member = json!({"host": "pay.service.consul", "registry": "consul", "ports": {"80": PORT}});
    let mut whole = json!({"host": HOST, "members": []});
    merge(&mut member, machine);
    merge(&mut whole, federated);
    whole["members"] = json!([{"host": "pay.shop.svc.cluster.local", "registry": "east"}, member]);
    let served = Served::start(&json!({
        "registries": [
            {"kind": "kubernetes", "name": "east", "kubeconfig": cluster.admin_kubeconfig()?},
            {"kind": "consul", "name": "consul", "addresses": [consul.url()]},
        ],
        "federatedServices": [whole],
    }))
    .await?;
    Ok(World { cluster, consul, served, pod, machine: vm })
}

fn merge(at: &mut Value, over: &Value) {
    for (key, value) in over.as_object().into_iter().flatten() {
        at[key] = value.clone();
    }
}

async fn slices(cluster: &ApiServer, hosts: &[SocketAddr]) -> Result<()> {
    cluster.api().set_slices("shop", "pay", &mk_slices("shop", "pay", "http", hosts)).await
}

#[tokio::test]
async fn one_name_from_both_survives_the_loss_of_each() -> Result<()> {
    let World { cluster, consul, served, pod, machine } = world(&json!({}), &json!({})).await?;
    let (envoy, load) = served.traffic(HOST, 80).await?;
    load.reaches("pod", 20, SOON).await?;
    load.reaches("machine", 20, SOON).await?;
    consul.daemon().kill();
    served.server.registry_is("consul", "Unreachable", &[], SOON).await?;
    load.reaches("machine", 100, SOON).await?;
    let other = Backend::start_on("other", ports::own_ip()?).await?;
    slices(&cluster, &[pod.addr(), other.addr()]).await?;
    load.reaches("other", 20, SOON).await?;
    load.reaches("machine", 20, SOON).await?;
    consul.restart().await?;
    served.server.registry_is("consul", "Live", &[], Duration::from_secs(120)).await?;
    consul.set("pay", "n1", &[]).await?;
    envoy.has_hosts(&outbound(80, HOST), &[pod.addr(), other.addr()], Duration::from_secs(120)).await?;
    load.reaches("pod", 20, SOON).await?;
    machine.close().await;
    consul.daemon().kill();
    load.reaches("other", 50, SOON).await?;
    load.finish().await.check_clean()
}

/// A Service and a service of Consul with one name are served as one, until the name is ambiguous.
#[tokio::test]
async fn services_of_one_name_are_joined_until_it_is_ambiguous() -> Result<()> {
    let cluster = ApiServer::start().await?;
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    let ip = ports::own_ip()?;
    let (pod, vm) = (Backend::start_on("pod", ip).await?, Backend::start_on("machine", ip).await?);
    for namespace in ["shop", "test"] {
        cluster.api().apply(&mk_namespace(namespace)).await?;
    }
    cluster.api().apply(&mk_service("shop", "pay", &[("http", PORT, PORT)])).await?;
    slices(&cluster, &[pod.addr()]).await?;
    consul.set("pay", "n1", &[vm.addr()]).await?;
    let served = Served::start(&json!({
        "registries": [
            {"kind": "kubernetes", "name": "east", "kubeconfig": cluster.admin_kubeconfig()?},
            {"kind": "consul", "name": "consul", "addresses": [consul.url()]},
        ],
        "merge": {"byName": "on"},
    }))
    .await?;
    let host = "pay.shop.svc.cluster.local";
    let (envoy, load) = served.traffic(host, PORT).await?;
    load.reaches("pod", 20, SOON).await?;
    load.reaches("machine", 20, SOON).await?;
    cluster.api().apply(&mk_service("test", "pay", &[("http", PORT, PORT)])).await?;
    envoy.has_hosts(&outbound(PORT, host), &[pod.addr()], SOON).await?;
    eventually("the reason to be shown", SOON, || async {
        let names = served.server.items("merges").await?;
        ensure!(names[0]["reason"] == "ambiguous", "{names:?}");
        Ok(())
    })
    .await?;
    load.reaches("pod", 50, SOON).await?;
    load.finish().await.check_clean()
}

/// The machine is unused while the pod is healthy, and serves when the pod is removed.
#[tokio::test]
async fn standby_in_consul_takes_over_from_the_cluster() -> Result<()> {
    let (federated, standby) = (json!({"minHealthyActive": 1}), json!({"standby": true}));
    let World { cluster, served, pod, machine, consul: _consul } = world(&federated, &standby).await?;
    let (envoy, load) = served.traffic(HOST, 80).await?;
    load.reaches("pod", 50, SOON).await?;
    ensure!(machine.requests() == 0, "the standby was used");
    let both = [pod.addr(), machine.addr()];
    slices(&cluster, &[]).await?;
    eventually("the standby to be in use", SOON, || async {
        let hosts = envoy.hosts(&outbound(80, HOST)).await?;
        ensure!(hosts.contains(&machine.addr().to_string()), "{hosts:?}, of {both:?}");
        Ok(())
    })
    .await?;
    load.reaches("machine", 50, SOON).await?;
    slices(&cluster, &[pod.addr()]).await?;
    load.reaches("pod", 50, SOON).await?;
    envoy.has_hosts(&outbound(80, HOST), &[pod.addr()], SOON).await?;
    load.finish().await.check_clean()
}
