//! Free loopback ports, for everything in a test that must know its port in advance. Each test process locks a
//! block of ports below the range that the kernel assigns, so suites running side by side, and outgoing
//! connections, never take a port between its choice and its use.

use std::fs::{File, OpenOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;

const FIRST: u16 = 12_000;
const BLOCK: u16 = 200;
const BLOCKS: u16 = 100;

struct Claim {
    next: u16,
    first: u16,
    // Held so that the lock lasts as long as this process.
    _lock: File,
}

static CLAIM: Mutex<Option<Claim>> = Mutex::new(None);

/// Returns a loopback port without a listener that no other test receives.
pub fn free_port() -> Result<u16> {
    let mut claim = CLAIM.lock();
    if claim.is_none() {
        *claim = Some(claim_block()?);
    }
    let Some(claim) = claim.as_mut() else { bail!("no block of ports; run again") };
    for _ in 0..BLOCK {
        let port = claim.first + claim.next;
        claim.next = (claim.next + 1) % BLOCK;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("all {BLOCK} ports from {} on are in use; split the test or stop what holds them", claim.first)
}

/// Returns [`free_port`] as an address.
pub fn free_addr() -> Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)))
}

/// Returns an address of this machine other than loopback, which EndpointSlices may not hold.
pub fn own_ip() -> Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("open a socket")?;
    // Nothing is sent: the kernel reports the source address.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).context("this machine has no address but loopback")?;
    Ok(socket.local_addr()?.ip())
}

/// Returns true if the port is free. It connects and does not listen: a child that starts at that moment would
/// keep a listener open until it executes its own program.
fn is_free(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
}

fn claim_block() -> Result<Claim> {
    let folder = std::env::temp_dir().join("tributary-test-ports");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for block in 0..BLOCKS {
        let path = folder.join(format!("{block}.lock"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file =
            file.with_context(|| format!("open {}; remove the folder to start again", path.display()))?;
        if file.try_lock().is_ok() {
            return Ok(Claim { next: 0, first: FIRST + block * BLOCK, _lock: file });
        }
    }
    bail!("all {BLOCKS} blocks of test ports are locked; stop some of the tests that run")
}
