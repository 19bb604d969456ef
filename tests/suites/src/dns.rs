//! A DNS server whose answers a test decides.
//!
//! It answers over UDP and TCP on a loopback port: A and AAAA of the names that it has, NXDOMAIN for others. An answer that is too long
//! for UDP is truncated there. Once stopped, its port is closed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};

const HEADER: usize = 12;
/// Longest answer over UDP.
const MAX_UDP: usize = 512;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// Answer for one name.
#[derive(Debug, Clone)]
enum Records {
    Has { ttl: u32, ips: Vec<IpAddr> },
    Refused,
}

type Zone = Arc<Mutex<BTreeMap<String, Records>>>;

/// Running server.
#[derive(Debug)]
pub struct DnsServer {
    addr: SocketAddr,
    zone: Zone,
    task: JoinHandle<()>,
}

impl DnsServer {
    /// Starts a server that has no name.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("bind a DNS server")?;
        let (addr, zone) = (listener.local_addr()?, Zone::default());
        let socket = UdpSocket::bind(addr).await.context("bind a DNS server")?;
        let own = Arc::clone(&zone);
        let task = tokio::spawn(async move {
            tokio::join!(serve(socket, Arc::clone(&own)), serve_tcp(listener, own));
        });
        Ok(Self { addr, zone, task })
    }
    /// Address of the server.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
    /// Sets the addresses of a name, with their time to live in seconds.
    pub fn set(&self, name: &str, ttl: u32, ips: &[IpAddr]) {
        self.zone.lock().insert(name.to_owned(), Records::Has { ttl, ips: ips.to_vec() });
    }
    /// Answers queries for a name with SERVFAIL.
    pub fn refuse(&self, name: &str) {
        self.zone.lock().insert(name.to_owned(), Records::Refused);
    }
    /// Removes a name.
    pub fn remove(&self, name: &str) {
        self.zone.lock().remove(name);
    }
    /// Closes its port.
    pub async fn stop(self) {
        self.task.abort();
        // a task that was aborted has closed its socket
        let _ = self.task.await;
    }
}

async fn serve(socket: UdpSocket, zone: Zone) {
    let mut query = [0; 1500];
    while let Ok((length, from)) = socket.recv_from(&mut query).await {
        let answer = answer(&query[..length], &zone.lock());
        if let Some(mut answer) = answer {
            if answer.len() > MAX_UDP {
                truncate(&mut answer);
            }
            // a client that does not wait any more is no failure
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// Leaves the question alone, and marks the answer as truncated.
fn truncate(answer: &mut Vec<u8>) {
    answer[2] |= 0x02;
    answer[6..8].fill(0);
    if let Some((_, end)) = name_at(answer) {
        answer.truncate(end + 4);
    }
}

async fn serve_tcp(listener: TcpListener, zone: Zone) {
    // Dropped with this task: every connection ends with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(talk(stream, Arc::clone(&zone)));
    }
}

async fn talk(mut stream: TcpStream, zone: Zone) -> Result<()> {
    loop {
        let mut query = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut query).await?;
        let answer = answer(&query, &zone.lock()).context("a query without one question")?;
        stream.write_u16(u16::try_from(answer.len())?).await?;
        stream.write_all(&answer).await?;
    }
}

/// Returns the answer to a query with one question; `None` for anything else.
fn answer(query: &[u8], zone: &BTreeMap<String, Records>) -> Option<Vec<u8>> {
    let (name, end) = name_at(query)?;
    let kind = u16::from_be_bytes(query.get(end..end + 2)?.try_into().ok()?);
    let question = query.get(HEADER..end + 4)?;
    let (code, ttl, ips): (u8, u32, &[IpAddr]) = match zone.get(&name) {
        Some(Records::Has { ttl, ips }) => (NO_ERROR, *ttl, ips),
        Some(Records::Refused) => (SERVER_FAILURE, 0, &[]),
        None => (NO_SUCH_NAME, 0, &[]),
    };
    let ips = ips.iter().filter(|ip| kind == if ip.is_ipv4() { TYPE_A } else { TYPE_AAAA });
    let ips: Vec<&IpAddr> = ips.collect();
    let mut out = query.get(..2)?.to_vec();
    // a response that offers recursion, to one question
    out.extend([0x81, 0x80 | code, 0, 1]);
    out.extend(u16::try_from(ips.len()).ok()?.to_be_bytes());
    out.extend([0; 4]);
    out.extend(question);
    for ip in ips {
        // the name is that of the question
        out.extend([0xc0, HEADER as u8]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        let data = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        out.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        out.extend(data);
    }
    Some(out)
}

/// Returns the name of the question in lower case, and where it ends.
fn name_at(query: &[u8]) -> Option<(String, usize)> {
    let (mut at, mut labels) = (HEADER, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
        at += length;
    }
}
