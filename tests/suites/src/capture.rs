//! A pod whose connections are redirected to a real Envoy, as Istio's init container does it: two network
//! namespaces joined by a cable, the pod's with redirect rules, the other one with backends and the server.
//! The captured suite runs in the second and connects from both. A [`Site`] is a world with many such pods, on networks of their
//! own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::netns::NetworkNamespace;

mod site;
pub use site::{Capture, Site};

/// User of the proxy; its connections are not redirected.
pub const PROXY_USER: u32 = 1337;
/// Admin port of the proxy, which is not redirected.
pub const ADMIN_PORT: u16 = 15_000;

const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
const POD: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 98, 0, 2), Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 2));

/// The pod and the world outside it.
#[derive(Debug)]
pub struct CapturedPod {
    pod: Arc<NetworkNamespace>,
    world: Arc<NetworkNamespace>,
    own: (Ipv4Addr, Option<Ipv6Addr>),
}

/// The two ends of a connection's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The pod: what leaves it and what enters it is redirected.
    Pod,
    /// Everything else.
    World,
}

impl CapturedPod {
    /// Makes the namespaces, their cable, and the rules. `hosts` are the addresses of the world, each of
    /// which the pod reaches.
    pub fn new(hosts: &[IpAddr]) -> Result<Self> {
        let (pod, world) = (NetworkNamespace::new()?, NetworkNamespace::new()?);
        let peer = pod.process().to_string();
        world.command("ip", &["-batch", "-"], &cable_to("cable", &peer))?;
        let addresses: String = hosts.iter().map(|ip| address(*ip, "cable")).collect();
        world.command("ip", &["-batch", "-"], &(addresses + "link set cable up\nlink set lo up\n"))?;
        pod.command("ip", &["-batch", "-"], &inside())?;
        pod.command("iptables-restore", &[], &rules("127.0.0.1/32", "127.0.0.6/32"))?;
        pod.command("ip6tables-restore", &[], &rules("::1/128", "::6/128"))?;
        Ok(Self { pod: Arc::new(pod), world: Arc::new(world), own: (POD.0, Some(POD.1)) })
    }

    /// Returns the address of one of its ports, of IPv4.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.own.0, port))
    }

    /// Returns the address of the proxy's admin port, which the world reaches.
    pub fn admin(&self) -> SocketAddr {
        self.at(ADMIN_PORT)
    }

    /// Returns the pod's addresses as the node metadata lists them.
    pub fn addresses(&self) -> String {
        self.own.1.map_or_else(|| self.own.0.to_string(), |six| format!("{},{six}", self.own.0))
    }

    /// Returns its namespace, for connections of a load.
    pub fn namespace(&self) -> Arc<NetworkNamespace> {
        Arc::clone(&self.pod)
    }

    /// Runs a test inside the world: its sockets and processes belong there.
    pub fn in_world<T: Send>(&self, test: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
        in_world(&self.world, test)
    }

    /// Runs `work` inside the pod, within the caller's runtime.
    pub fn in_pod<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let runtime = tokio::runtime::Handle::current();
        self.pod.run(|| {
            let _entered = runtime.enter();
            work()
        })
    }

    /// Connects from one side.
    pub fn connect(&self, from: Side, to: SocketAddr) -> Result<TcpStream> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&to, CONNECTS_WITHIN);
            stream.with_context(|| format!("connect to {to}"))
        };
        let stream = self.side(from).run(connect)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Listens on one side.
    pub fn listen(&self, side: Side, at: SocketAddr) -> Result<TcpListener> {
        let listener =
            self.side(side).run(|| TcpListener::bind(at).with_context(|| format!("listen on {at}")))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn side(&self, side: Side) -> &NetworkNamespace {
        match side {
            Side::Pod => &self.pod,
            Side::World => &self.world,
        }
    }
}

/// Whether tests that need network namespaces are left out on this machine.
pub fn is_left_out() -> bool {
    let left_out = std::env::var_os("TRIBUTARY_SKIP_CAPTURE").is_some_and(|value| value == "1");
    if left_out {
        eprintln!("left out: TRIBUTARY_SKIP_CAPTURE is 1");
    }
    left_out
}

fn in_world<T: Send>(world: &NetworkNamespace, test: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    world.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test())
    })
}

/// Lets the proxy read a file in a folder that only the test's user may enter.
pub fn give_to_proxy(file: &Path) -> Result<()> {
    for path in [Some(file), file.parent()].into_iter().flatten() {
        chown(path, Some(PROXY_USER), None)
            .with_context(|| format!("give {} to the proxy", path.display()))?;
    }
    Ok(())
}

fn cable_to(device: &str, peer: &str) -> String {
    format!("link add {device} type veth peer name eth0 netns {peer}\n")
}

fn address(ip: IpAddr, device: &str) -> String {
    match ip.is_ipv6() {
        true => format!("addr add {ip}/64 dev {device} nodad\n"),
        false => format!("addr add {ip}/24 dev {device}\n"),
    }
}

/// Every address is on the cable's link, also those of no machine: a connection to one of them is redirected
/// before it needs a neighbour.
fn inside() -> String {
    let own = address(POD.0.into(), "eth0") + &address(POD.1.into(), "eth0");
    // Envoy connects from ::6 to the application; Istio adds it as well, while 127.0.0.6 is there already.
    let up = "addr add ::6/128 dev lo\nlink set lo up\nlink set eth0 up\n";
    own + up + "route add default dev eth0\nroute add ::/0 dev eth0\n"
}

/// Returns the redirect rules of one IP family. They are those of Istio's init container.
fn rules(local: &str, inbound_source: &str) -> String {
    let proxy = format!("-m owner --uid-owner {PROXY_USER}");
    format!(
        "*nat\n:PREROUTING ACCEPT\n:INPUT ACCEPT\n:OUTPUT ACCEPT\n:POSTROUTING ACCEPT\n\
         -A PREROUTING -p tcp --dport {ADMIN_PORT} -j RETURN\n\
         -A PREROUTING -p tcp -j REDIRECT --to-ports 15006\n\
         -A OUTPUT -s {inbound_source} -o lo -j RETURN\n\
         -A OUTPUT ! -d {local} -o lo -p tcp {proxy} -j REDIRECT --to-ports 15006\n\
         -A OUTPUT -o lo -m owner ! --uid-owner {PROXY_USER} -j RETURN\n\
         -A OUTPUT {proxy} -j RETURN\n\
         -A OUTPUT -d {local} -j RETURN\n\
         -A OUTPUT -p tcp -j REDIRECT --to-ports 15001\n\
         COMMIT\n"
    )
}
