//! A captured sidecar whose Sidecar has ingress listeners: connections to their ports reach the destinations that it
//! names, whatever the ports of the pod's services are.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use tokio::net::TcpListener;
use tributary_suites::capture::{Side, give_to_proxy, is_left_out};
use tributary_suites::{Backend, CapturedPod, Files, Variant};

use crate::documents::{Family, documents};
use crate::table::{Row, To, Wanted};
use crate::talk::Talk;
use crate::{Policy, machines, outcome, wanted, with_sidecar};

/// Port of an application that listens on the loopback address alone.
const LOCAL_PORT: u16 = 9300;

use Side::World;
use Talk::{Grpc, Http, Tcp};
use Wanted::Backend as Reaches;

const POD: To = To::Machine(2);

/// The rows; each holds for IPv4 and for IPv6.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    (World, POD, 8100, Http("own.test"), Reaches("own-local")),
    (World, POD, 8101, Tcp,              Reaches("own-tcp")),
    (World, POD, 8103, Tcp,              Reaches("own-socket")),
    (World, POD, 8104, Http("own.test"), Reaches("own-local")),
    (World, POD, 9102, Grpc("own.test"), Reaches("own-grpc")),
    // Ports of the pod's services pass, without a chain of their own.
    (World, POD, 9100, Http("own.test"), Reaches("own-http")),
    (World, POD, 9101, Tcp,              Reaches("own-tcp")),
];

/// Chains that must have had connections, and one that must not exist.
const USED: [&str; 4] = [
    "http.inbound|8100||.downstream_rq_total",
    "tcp.inbound|8101||.downstream_cx_total",
    "tcp.inbound|8103||.downstream_cx_total",
    "http.inbound|8104||.downstream_rq_total",
];

#[test]
fn ingress_listeners_of_a_captured_sidecar_reach_their_destinations() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let pod = CapturedPod::new(&machines())?;
    pod.in_world(async || check(&pod).await)
}

async fn check(pod: &CapturedPod) -> Result<()> {
    let local = pod.listen(Side::Pod, SocketAddr::from((Ipv4Addr::LOCALHOST, LOCAL_PORT)))?;
    let _local = Backend::accepting("own-local", TcpListener::from_std(local)?)?;
    let sockets = Files::new()?;
    let socket = sockets.path().join("own.sock");
    answer_on(&socket)?;
    give_to_proxy(&socket)?;
    let documents = documents() + &sidecar(&socket);
    with_sidecar(pod, &documents, Policy::AllowAny, Variant::Delta, async |envoy| {
        let listeners = envoy.listeners().await?;
        ensure!(listeners.contains("10.98.0.2_8104"), "no listener has a socket of its own: {listeners:?}");
        let mut wrong = Vec::new();
        for row in ROWS {
            for family in Family::BOTH {
                let outcome = outcome(pod, row, family).await?;
                if outcome != wanted(row, Policy::AllowAny) {
                    wrong.push(format!("{family:?} {row:?}: {outcome:?}"));
                }
            }
        }
        if !wrong.is_empty() {
            bail!("{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
        }
        for stat in USED {
            ensure!(envoy.stat(stat).await? > 0, "{stat} is 0");
        }
        Ok(())
    })
    .await
}

fn sidecar(socket: &Path) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {{name: own, namespace: default}}\nspec:\n  \
         ingress:\n  \
         - {{port: {{number: 8100, protocol: HTTP, name: http}}, defaultEndpoint: \"127.0.0.1:{LOCAL_PORT}\"}}\n  \
         - {{port: {{number: 8101, protocol: TCP, name: tcp}}, defaultEndpoint: \"0.0.0.0:9101\"}}\n  \
         - {{port: {{number: 8103, protocol: TCP, name: socket}}, defaultEndpoint: \"unix://{}\"}}\n  \
         - {{port: {{number: 8104, protocol: HTTP, name: bound}}, captureMode: NONE, defaultEndpoint: \
         \"127.0.0.1:{LOCAL_PORT}\"}}\n  \
         - {{port: {{number: 9102, protocol: GRPC, name: grpc}}}}\n",
        socket.display()
    )
}

/// Answers each connection to a Unix socket with its name.
fn answer_on(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            if stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
                let _ = stream.write_all(b"own-socket");
            }
        }
    });
    Ok(())
}
