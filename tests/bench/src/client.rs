//! The clients of a bench, in a process of their own: many streams that read everything, validate
//! a sample, and tell on standard output what they saw and when.
//!
//! Started by a bench as `tributary-bench client ADDR COUNT MODE SAMPLES STALLED`. Prints one JSON
//! line when every stream is loaded, one for each change that every stream has seen, and on the
//! line `report` one for each address that the sampled streams lost. Ends with its input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::io::AsyncBufReadExt as _;
use tokio::sync::Notify;

use crate::wire::{self, CDS, EDS, Response};

/// What all streams of this process share.
struct Shared {
    addr: String,
    mode: Mode,
    samples: usize,
    bytes: AtomicU64,
    resources: AtomicU64,
    loaded: AtomicUsize,
    news: Notify,
    /// Per change, when each stream saw it.
    changes: Mutex<BTreeMap<u64, Vec<u64>>>,
    /// Per address, when each sampled stream lost it.
    lost: Mutex<BTreeMap<String, Vec<u64>>>,
    /// What a client that comes back already holds.
    known: Mutex<Vec<(String, String, String)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sotw,
    Delta,
    /// Delta, with the versions of everything that a first stream was given.
    Known,
}

/// Runs until standard input ends.
pub(crate) fn main(args: &[&str]) -> Result<()> {
    if let ["raw", addr, count, bytes] = args {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(raw((*addr).to_owned(), count.parse()?, bytes.parse()?));
    }
    let [addr, count, mode, samples, stalled] = args else {
        return Err(anyhow!("usage: client ADDR COUNT sotw|delta|known SAMPLES STALLED"));
    };
    let mode = match *mode {
        "sotw" => Mode::Sotw,
        "delta" => Mode::Delta,
        "known" => Mode::Known,
        other => return Err(anyhow!("mode {other:?} is not sotw, delta or known")),
    };
    let shared = Arc::new(Shared {
        addr: (*addr).to_owned(),
        mode,
        samples: samples.parse()?,
        bytes: AtomicU64::new(0),
        resources: AtomicU64::new(0),
        loaded: AtomicUsize::new(0),
        news: Notify::new(),
        changes: Mutex::default(),
        lost: Mutex::default(),
        known: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(shared, count.parse()?, stalled.parse()?))
}

/// Reads that many bytes on each of that many plain connections: the floor's client.
async fn raw(addr: String, count: usize, bytes: usize) -> Result<()> {
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        let addr = addr.clone();
        tasks.spawn(async move {
            let mut tcp = tokio::net::TcpStream::connect(addr).await?;
            let mut buffer = vec![0; 1 << 18];
            let mut left = bytes;
            while left > 0 {
                let n = tokio::io::AsyncReadExt::read(&mut tcp, &mut buffer).await?;
                ensure!(n > 0, "{left} bytes are missing");
                left = left.saturating_sub(n);
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let wall_ms = begun.elapsed().as_secs_f64() * 1e3;
    println!("{}", serde_json::json!({"event": "ready", "wall_ms": wall_ms, "bytes": bytes, "resources": 0}));
    Ok(())
}

async fn run(shared: Arc<Shared>, count: usize, stalled: usize) -> Result<()> {
    let mut idle = Vec::new();
    for n in 0..stalled {
        // Asks for everything, and its window is full before the first answer ends.
        let mut stream = Stream::open_with(&shared, n + 1_000_000, Mode::Delta, 1 << 14).await?;
        stream.ask(CDS, &[], None).await?;
        idle.push(stream);
    }
    if shared.mode == Mode::Known {
        learn(&shared).await?;
        shared.bytes.store(0, Relaxed);
    }
    let begun = Instant::now();
    for n in 0..count {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            if let Err(error) = follow(&shared, n).await {
                println!(
                    "{}",
                    serde_json::json!({"event": "failed", "stream": n, "error": format!("{error:#}")})
                );
            }
        });
    }
    while shared.loaded.load(Relaxed) < count {
        shared.news.notified().await;
    }
    println!(
        "{}",
        serde_json::json!({
            "event": "ready", "wall_ms": begun.elapsed().as_secs_f64() * 1e3,
            "bytes": shared.bytes.load(Relaxed) / count.max(1) as u64,
            "resources": shared.resources.load(Relaxed) / count.max(1) as u64,
        })
    );
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut told = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) if line == "report" => report(&shared),
                Some(_) => {}
                None => return Ok(()),
            },
            () = shared.news.notified() => told = tell_changes(&shared, count, told),
        }
    }
}

fn tell_changes(shared: &Shared, count: usize, mut told: u64) -> u64 {
    let changes = shared.changes.lock();
    while let Some(times) = changes.get(&(told + 1)).filter(|t| t.len() == count) {
        let mut times = times.clone();
        times.sort_unstable();
        let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
        told += 1;
        println!(
            "{}",
            serde_json::json!({"event": "seen", "change": told, "first": at(0.0), "p50": at(0.5), "p99": at(0.99), "last": at(1.0)})
        );
    }
    told
}

fn report(shared: &Shared) {
    for (address, times) in &*shared.lost.lock() {
        println!("{}", serde_json::json!({"event": "lost", "address": address, "at": times}));
    }
    println!("{}", serde_json::json!({"event": "reported"}));
}

/// Loads one delta stream to know what a client that comes back would hold.
async fn learn(shared: &Arc<Shared>) -> Result<()> {
    let mut stream = Stream::open_as(shared, 2_000_000, Mode::Delta).await?;
    let mut known = Vec::new();
    let clusters = stream.load_clusters().await?;
    known.extend(clusters.resources.iter().map(|(n, v, _)| (CDS.to_owned(), n.clone(), v.clone())));
    let names: Vec<String> = clusters.resources.into_iter().map(|(n, ..)| n).collect();
    for (name, version, _) in stream.load_endpoints(&names).await? {
        known.push((EDS.to_owned(), name, version));
    }
    *shared.known.lock() = known;
    Ok(())
}

async fn follow(shared: &Arc<Shared>, n: usize) -> Result<()> {
    let mut stream = Stream::open(shared, n).await?;
    if shared.mode == Mode::Known {
        stream.resume().await?;
    } else {
        stream.load(n == 0).await?;
    }
    shared.loaded.fetch_add(1, Relaxed);
    shared.news.notify_one();
    let sampled = n < shared.samples;
    let mut held: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if sampled {
        held = std::mem::take(&mut stream.held);
    }
    let mut change = 0;
    loop {
        let response = stream.next().await?;
        let at = unix_nanos();
        if response.type_url == EDS {
            change += 1;
            shared.changes.lock().entry(change).or_default().push(at);
            shared.news.notify_one();
            if sampled {
                note_lost(shared, &mut held, &response, at);
            }
        }
        stream.ack(&response).await?;
    }
}

fn note_lost(shared: &Shared, held: &mut BTreeMap<String, BTreeSet<String>>, response: &Response, at: u64) {
    for (_, _, body) in &response.resources {
        let now = addresses(body);
        let before = held.insert(wire::name_of(body), now.clone()).unwrap_or_default();
        for gone in before.difference(&now) {
            shared.lost.lock().entry(gone.clone()).or_default().push(at);
        }
    }
}

fn addresses(body: &Bytes) -> BTreeSet<String> {
    use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
    use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier};
    let Ok(cla) = ClusterLoadAssignment::decode(body.clone()) else { return BTreeSet::new() };
    let endpoints = cla.endpoints.into_iter().flat_map(|l| l.lb_endpoints);
    endpoints
        .filter_map(|e| match e.host_identifier {
            Some(HostIdentifier::Endpoint(e)) => e.address.and_then(|a| a.address),
            _ => None,
        })
        .filter_map(|a| match a {
            Kind::SocketAddress(s) => Some(s.address),
            _ => None,
        })
        .collect()
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// One ADS stream on a connection of its own.
struct Stream {
    shared: Arc<Shared>,
    delta: bool,
    send: h2::SendStream<Bytes>,
    /// The answer's head is awaited with the first message: a server may wait for the first request.
    head: Option<h2::client::ResponseFuture>,
    body: Option<h2::RecvStream>,
    pending: BytesMut,
    node: Option<Vec<u8>>,
    /// Names of the EDS subscription, which SotW acknowledgements repeat.
    names: Arc<Vec<String>>,
    held: BTreeMap<String, BTreeSet<String>>,
}

impl Stream {
    async fn open(shared: &Arc<Shared>, n: usize) -> Result<Self> {
        Self::open_as(shared, n, shared.mode).await
    }

    async fn open_as(shared: &Arc<Shared>, n: usize, mode: Mode) -> Result<Self> {
        Self::open_with(shared, n, mode, 1 << 20).await
    }

    async fn open_with(shared: &Arc<Shared>, n: usize, mode: Mode, window: u32) -> Result<Self> {
        let tcp = tokio::net::TcpStream::connect(&shared.addr).await.context("connect")?;
        tcp.set_nodelay(true)?;
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(window)
            .initial_connection_window_size(4 << 20)
            .max_frame_size(1 << 20)
            .handshake::<_, Bytes>(tcp)
            .await?;
        tokio::spawn(connection);
        let delta = mode != Mode::Sotw;
        let (send, head) = call(client, delta).await?;
        let held = BTreeMap::new();
        let (shared, pending, names) = (Arc::clone(shared), BytesMut::new(), Arc::default());
        Ok(Self {
            shared,
            delta,
            send,
            head: Some(head),
            body: None,
            pending,
            node: Some(node(n)),
            names,
            held,
        })
    }

    async fn load(&mut self, validate: bool) -> Result<()> {
        let clusters = self.load_clusters().await?;
        let names: Vec<String> = clusters.resources.iter().map(|(_, _, body)| wire::name_of(body)).collect();
        if validate {
            check_clusters(&clusters)?;
        }
        let names: Vec<String> = names.into_iter().filter(|n| n.starts_with("outbound|")).collect();
        let assignments = self.load_endpoints(&names).await?;
        if validate {
            check_assignments(&assignments)?;
        }
        let all = clusters.resources.len() + assignments.len();
        self.shared.resources.fetch_add(all as u64, Relaxed);
        for (_, _, body) in &assignments {
            self.held.insert(wire::name_of(body), addresses_if(body, self.shared.samples > 0));
        }
        Ok(())
    }

    async fn load_clusters(&mut self) -> Result<Response> {
        self.ask(CDS, &[], None).await?;
        let response = self.next().await?;
        ensure!(response.type_url == CDS, "asked for xDS clusters, got {}", response.type_url);
        self.ack(&response).await?;
        Ok(response)
    }

    async fn load_endpoints(&mut self, names: &[String]) -> Result<Vec<(String, String, Bytes)>> {
        self.names = Arc::new(names.to_vec());
        self.ask(EDS, names, None).await?;
        let mut all = Vec::with_capacity(names.len());
        while all.len() < names.len() {
            let mut response = self.next().await?;
            self.ack(&response).await?;
            if response.type_url == EDS {
                all.append(&mut response.resources);
            }
        }
        Ok(all)
    }

    /// Comes back with everything known: the server may answer with nothing, or not at all for
    /// assignments.
    async fn resume(&mut self) -> Result<()> {
        let known = self.shared.known.lock().clone();
        self.ask(CDS, &[], Some(&known)).await?;
        let response = self.next().await?;
        ensure!(response.resources.is_empty(), "{} xDS clusters were sent again", response.resources.len());
        self.ack(&response).await?;
        let names: Vec<String> = known.iter().filter(|(t, ..)| t == EDS).map(|(_, n, _)| n.clone()).collect();
        self.ask(EDS, &names, Some(&known)).await?;
        Ok(())
    }

    async fn next(&mut self) -> Result<Response> {
        loop {
            if let Some(message) = cut(&mut self.pending) {
                return Ok(wire::response(message, self.delta));
            }
            if let Some(head) = self.head.take() {
                self.body = Some(body_of(head).await?);
            }
            let body = self.body.as_mut().ok_or_else(|| anyhow!("the stream failed before"))?;
            let chunk = body.data().await.ok_or_else(|| anyhow!("the stream ended"))??;
            body.flow_control().release_capacity(chunk.len())?;
            self.shared.bytes.fetch_add(chunk.len() as u64, Relaxed);
            self.pending.extend_from_slice(&chunk);
        }
    }

    async fn ask(
        &mut self,
        type_url: &str,
        names: &[String],
        known: Option<&[(String, String, String)]>,
    ) -> Result<()> {
        let mut out = BytesMut::new();
        if let Some(node) = self.node.take() {
            wire::put(&mut out, if self.delta { 1 } else { 2 }, &node);
        }
        let (type_field, name_field) = if self.delta { (2, 3) } else { (4, 3) };
        wire::put(&mut out, type_field, type_url.as_bytes());
        for name in names {
            wire::put(&mut out, name_field, name.as_bytes());
        }
        for (_, name, version) in known.unwrap_or_default().iter().filter(|(t, ..)| t == type_url) {
            let mut entry = BytesMut::new();
            wire::put(&mut entry, 1, name.as_bytes());
            wire::put(&mut entry, 2, version.as_bytes());
            wire::put(&mut out, 5, &entry);
        }
        self.write(&out).await
    }

    async fn ack(&mut self, response: &Response) -> Result<()> {
        let mut out = BytesMut::new();
        if self.delta {
            wire::put(&mut out, 2, response.type_url.as_bytes());
            wire::put(&mut out, 6, response.nonce.as_bytes());
        } else {
            wire::put(&mut out, 1, response.version.as_bytes());
            if response.type_url == EDS {
                for name in self.names.iter() {
                    wire::put(&mut out, 3, name.as_bytes());
                }
            }
            wire::put(&mut out, 4, response.type_url.as_bytes());
            wire::put(&mut out, 5, response.nonce.as_bytes());
        }
        self.write(&out).await
    }

    async fn write(&mut self, message: &[u8]) -> Result<()> {
        let mut frame = wire::framed(message);
        while !frame.is_empty() {
            self.send.reserve_capacity(frame.len());
            let room = std::future::poll_fn(|cx| self.send.poll_capacity(cx)).await;
            let room = room.ok_or_else(|| anyhow!("the stream is closed"))??;
            let part = frame.split_to(room.min(frame.len()));
            self.send.send_data(part, false)?;
        }
        Ok(())
    }
}

fn addresses_if(body: &Bytes, wanted: bool) -> BTreeSet<String> {
    if wanted { addresses(body) } else { BTreeSet::new() }
}

async fn call(
    client: SendRequest<Bytes>,
    delta: bool,
) -> Result<(h2::SendStream<Bytes>, h2::client::ResponseFuture)> {
    let method = if delta { "DeltaAggregatedResources" } else { "StreamAggregatedResources" };
    let path = format!("http://bench/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
    let request =
        http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let mut client = client.ready().await?;
    let (response, send) = client.send_request(request.body(())?, false)?;
    Ok((send, response))
}

async fn body_of(head: h2::client::ResponseFuture) -> Result<h2::RecvStream> {
    let response =
        tokio::time::timeout(Duration::from_secs(60), head).await.context("no answer in 60 s")??;
    ensure!(response.status() == 200, "status {}", response.status());
    if let Some(status) = response.headers().get("grpc-status") {
        ensure!(status == "0", "grpc-status {status:?} {:?}", response.headers().get("grpc-message"));
    }
    Ok(response.into_body())
}

fn cut(pending: &mut BytesMut) -> Option<Bytes> {
    let header: [u8; 4] = pending.get(1..5)?.try_into().ok()?;
    let len = u32::from_be_bytes(header) as usize;
    if pending.len() < len + 5 {
        return None;
    }
    let mut message = pending.split_to(len + 5).freeze();
    Some(message.split_off(5))
}

/// `Node { id, cluster, metadata }` of a sidecar of its own workload in one shared namespace.
fn node(n: usize) -> Vec<u8> {
    let mut value = BytesMut::new();
    wire::put(&mut value, 3, b"default");
    let mut entry = BytesMut::new();
    wire::put(&mut entry, 1, b"NAMESPACE");
    wire::put(&mut entry, 2, &value);
    let mut fields = BytesMut::new();
    wire::put(&mut fields, 1, &entry);
    let mut node = BytesMut::new();
    let id =
        format!("sidecar~10.255.{}.{}~bench-{n}.default~default.svc.cluster.local", n >> 8 & 255, n & 255);
    wire::put(&mut node, 1, id.as_bytes());
    wire::put(&mut node, 2, b"bench");
    wire::put(&mut node, 3, &fields);
    node.to_vec()
}

fn check_clusters(response: &Response) -> Result<()> {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    for (_, _, body) in &response.resources {
        let cluster = Cluster::decode(body.clone()).context("an xDS cluster does not decode")?;
        ensure!(!cluster.name.is_empty(), "an xDS cluster has no name");
    }
    Ok(())
}

fn check_assignments(all: &[(String, String, Bytes)]) -> Result<()> {
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    for (_, _, body) in all {
        let cla = ClusterLoadAssignment::decode(body.clone()).context("an assignment does not decode")?;
        ensure!(!cla.endpoints.is_empty(), "assignment {} is empty", cla.cluster_name);
    }
    Ok(())
}
