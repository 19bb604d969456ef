//! The clients of a bench, in a separate process: many streams that read everything, validate a sample, and
//! print on standard output what they received and when.
//!
//! A bench starts it as `tributary-bench client ADDR COUNT MODE SAMPLES STALLED`. It prints one JSON line when
//! every stream is loaded, one for each change that every stream has seen, and on the line `report` one for
//! each address that the sampled streams lost. It ends when its input ends.

mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, ensure};
use parking_lot::Mutex;
use tokio::io::AsyncBufReadExt as _;
use tokio::sync::{Notify, Semaphore};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

use crate::wire::{self, CDS, EDS, Response};
use stream::{Stream, addresses};

/// State that all streams of this process share.
struct Shared {
    addr: String,
    mode: Mode,
    /// TLS connector, if the server uses TLS.
    tls: Option<TlsConnector>,
    samples: usize,
    bytes: AtomicU64,
    resources: AtomicU64,
    /// Limit of streams that load at once: more than the storm's number would only wait for each other.
    loading: Semaphore,
    loaded: AtomicUsize,
    news: Notify,
    /// Times at which each stream saw a change, by change.
    changes: Mutex<BTreeMap<u64, Vec<u64>>>,
    /// Times at which each sampled stream lost an address, by address.
    lost: Mutex<BTreeMap<String, Vec<u64>>>,
    /// Resources that a returning client already holds.
    known: Mutex<Vec<(String, String, String)>>,
}

/// Environment variable with the file of the authority that signed the server's certificate, if it uses TLS.
pub(crate) const CA: &str = "TRIBUTARY_BENCH_CA";

fn connector(ca: &std::path::Path) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sotw,
    Delta,
    /// Delta, with the versions of everything that a first stream received.
    Known,
    /// Delta, of sidecars that take turns in these namespaces and load all four types.
    Sidecars(Turns),
    /// State of the world, one sidecar in each of these namespaces, with the route table of port 80 alone.
    Routes(Turns),
}

/// Namespaces that the clients of a world with namespaces take turns in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turns {
    first: usize,
    count: usize,
    /// Whether the sidecars have certificates of the mesh.
    meshed: bool,
}

impl Mode {
    /// Parses `sotw`, `delta`, `known`, `sidecars:FIRST:COUNT`, `meshed:FIRST:COUNT` or `routes:FIRST:COUNT`.
    fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["sotw"] => Ok(Self::Sotw),
            ["delta"] => Ok(Self::Delta),
            ["known"] => Ok(Self::Known),
            [of @ ("sidecars" | "meshed" | "routes"), first, count] => {
                let turns = Turns { first: first.parse()?, count: count.parse()?, meshed: *of == "meshed" };
                Ok(if *of == "routes" { Self::Routes(turns) } else { Self::Sidecars(turns) })
            }
            _ => Err(anyhow!(
                "mode {text:?} is not sotw, delta, known, sidecars:N:N, meshed:N:N or routes:N:N"
            )),
        }
    }
    fn is_delta(self) -> bool {
        !matches!(self, Self::Sotw | Self::Routes(_))
    }
    /// Whether the clients have certificates of the mesh.
    fn is_meshed(self) -> bool {
        matches!(self, Self::Sidecars(turns) if turns.meshed)
    }
    /// Returns the namespace of client `n`.
    fn namespace(self, n: usize) -> String {
        match self {
            Self::Sidecars(turns) | Self::Routes(turns) => format!("ns-{}", turns.first + n % turns.count),
            Self::Sotw | Self::Delta | Self::Known => "default".to_owned(),
        }
    }
}

/// Runs until standard input ends.
pub(crate) fn main(args: &[&str]) -> Result<()> {
    if let ["raw", addr, count, bytes] = args {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(raw((*addr).to_owned(), count.parse()?, bytes.parse()?));
    }
    let [addr, count, mode, samples, stalled] = args else {
        return Err(anyhow!("usage: client ADDR COUNT MODE SAMPLES STALLED"));
    };
    let shared = Arc::new(Shared {
        addr: (*addr).to_owned(),
        mode: Mode::parse(mode)?,
        tls: std::env::var_os(CA).map(|path| connector(path.as_ref())).transpose()?,
        samples: samples.parse()?,
        bytes: AtomicU64::new(0),
        resources: AtomicU64::new(0),
        loading: Semaphore::new(200),
        loaded: AtomicUsize::new(0),
        news: Notify::new(),
        changes: Mutex::default(),
        lost: Mutex::default(),
        known: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(shared, count.parse()?, stalled.parse()?))
}

/// Reads `bytes` bytes on each of `count` plain connections: the client of the floor.
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
        // Requests everything; its window is full before the first response ends.
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
    let mut printed = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) if line == "report" => report(&shared),
                Some(_) => {}
                None => return Ok(()),
            },
            () = shared.news.notified() => printed = print_changes(&shared, count, printed),
        }
    }
}

fn print_changes(shared: &Shared, count: usize, mut printed: u64) -> u64 {
    let changes = shared.changes.lock();
    while let Some(times) = changes.get(&(printed + 1)).filter(|t| t.len() == count) {
        let mut times = times.clone();
        times.sort_unstable();
        let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
        printed += 1;
        println!(
            "{}",
            serde_json::json!({"event": "seen", "change": printed, "first": at(0.0), "p50": at(0.5), "p99": at(0.99), "last": at(1.0)})
        );
    }
    printed
}

fn report(shared: &Shared) {
    for (address, times) in &*shared.lost.lock() {
        println!("{}", serde_json::json!({"event": "lost", "address": address, "at": times}));
    }
    println!("{}", serde_json::json!({"event": "reported"}));
}

/// Loads one delta stream to learn what a returning client would hold.
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
    let loading = shared.loading.acquire().await?;
    let mut stream = Stream::open(shared, n).await?;
    match shared.mode {
        Mode::Known => stream.resume().await?,
        Mode::Routes(_) => stream.load_routes().await?,
        Mode::Sidecars(_) => {
            stream.load(n == 0).await?;
            stream.load_listeners().await?;
            stream.load_routes().await?;
        }
        Mode::Sotw | Mode::Delta => stream.load(n == 0).await?,
    }
    drop(loading);
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

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
