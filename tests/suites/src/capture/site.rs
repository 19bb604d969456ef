//! A world with pods on several networks: pods of one network reach each other through the world, those of two networks do not, and
//! the world reaches all of them, as gateways between networks do. Suites with several captured sidecars use it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::{CapturedPod, cable_to, rules};
use crate::netns::NetworkNamespace;

/// What happens to the connections of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// They are redirected to its proxy, in both directions.
    Redirected,
    /// They pass: the pod has no proxy.
    None,
}

/// The world.
#[derive(Debug)]
pub struct Site {
    world: Arc<NetworkNamespace>,
}

impl Site {
    /// Makes a world with these addresses, which every pod reaches, and these networks: network N is `10.N.0.0/16`.
    pub fn new(hosts: &[IpAddr], networks: &[u8]) -> Result<Self> {
        let world = NetworkNamespace::new()?;
        let addresses: String = hosts.iter().map(|ip| format!("addr add {ip}/32 dev lo\n")).collect();
        world.command("ip", &["-batch", "-"], &(addresses + "link set lo up\n"))?;
        world.command("iptables-restore", &[], &forwarding(networks))?;
        let forwards = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        world.run(|| forwards().context("turn on forwarding"))?;
        Ok(Self { world: Arc::new(world) })
    }

    /// Makes the pod with a number of a network: `10.NETWORK.NUMBER.2`.
    pub fn pod(&self, network: u8, number: u8, capture: Capture) -> Result<CapturedPod> {
        let pod = NetworkNamespace::new()?;
        let [router, own] = [1, 2].map(|last| Ipv4Addr::new(10, network, number, last));
        let device = format!("pod-{network}-{number}");
        let outside = cable_to(&device, &pod.process().to_string())
            + &format!("addr add {router}/24 dev {device}\nlink set {device} up\n");
        self.world.command("ip", &["-batch", "-"], &outside)?;
        let inside = format!(
            "addr add {own}/24 dev eth0\nlink set lo up\nlink set eth0 up\nroute add default via {router}\n"
        );
        pod.command("ip", &["-batch", "-"], &inside)?;
        if capture == Capture::Redirected {
            pod.command("iptables-restore", &[], &rules("127.0.0.1/32", "127.0.0.6/32"))?;
        }
        Ok(CapturedPod { pod: Arc::new(pod), world: Arc::clone(&self.world), own: (own, None) })
    }

    /// Runs a test inside the world: its sockets and processes belong there.
    pub fn in_world<T: Send>(&self, test: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
        super::in_world(&self.world, test)
    }
}

/// Returns the rules by which the world forwards. What they refuse fails at once, so no test waits for it.
fn forwarding(networks: &[u8]) -> String {
    let within = |n: &u8| format!("-A FORWARD -s 10.{n}.0.0/16 -d 10.{n}.0.0/16 -j ACCEPT\n");
    let within: String = networks.iter().map(within).collect();
    format!("*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n{within}-A FORWARD -j REJECT\nCOMMIT\n")
}
