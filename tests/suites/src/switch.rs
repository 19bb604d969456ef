//! A port that leads to one server and then to another: moves a client between replicas without its knowledge.
//! A move cuts every connection, as a load balancer does when it removes a replica.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::ports;

/// The port; closed when dropped.
#[derive(Debug)]
pub struct Switch {
    addr: SocketAddr,
    target: Arc<watch::Sender<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Switch {
    /// Opens a free port that leads to `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let addr = ports::free_addr()?;
        let listener = TcpListener::bind(addr).await.with_context(|| format!("listen on {addr}"))?;
        let target = Arc::new(watch::Sender::new(target));
        let task = tokio::spawn(accept(listener, target.subscribe()));
        Ok(Self { addr, target, task })
    }

    /// Returns the address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Cuts all connections; new ones lead to `target`.
    pub fn to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, mut target: watch::Receiver<SocketAddr>) {
    let mut connections = JoinSet::new();
    loop {
        let to = *target.borrow_and_update();
        tokio::select! {
            Ok(()) = target.changed() => connections.shutdown().await,
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(lead(stream, to));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn lead(mut from: TcpStream, to: SocketAddr) {
    let Ok(mut onward) = TcpStream::connect(to).await else { return };
    let _ = (from.set_nodelay(true), onward.set_nodelay(true));
    // The first end closes both directions.
    let _ = copy_bidirectional(&mut from, &mut onward).await;
}
