//! A steady HTTP load: a number of keep-alive connections and a request rate; each answer is counted under the
//! backend that named itself in it. It never retries, so one failed request is one counted failure.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::CapturedPod;
use crate::netns::NetworkNamespace;

const KEPT_FAILURES: usize = 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Parameters of a load.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Address to connect to: usually a listener of Envoy.
    pub target: SocketAddr,
    /// The host header.
    pub host: String,
    /// Number of open connections.
    pub connections: u32,
    /// Requests per second over all connections.
    pub per_second: u32,
    /// Namespace to connect from; the caller's if absent.
    pub from: Option<Arc<NetworkNamespace>>,
    /// Minimum of requests per second in the end, for [`Load::keeps`].
    pub at_least: f64,
}

impl LoadPlan {
    /// Returns the load that the proofs require: 8 connections, 240 requests per second.
    pub fn to(target: SocketAddr) -> Self {
        Self {
            target,
            host: "backend.test".to_owned(),
            connections: 8,
            per_second: 240,
            from: None,
            at_least: 0.0,
        }
    }

    /// Sets the requests per second without which the load proves nothing.
    pub fn at_least(mut self, per_second: f64) -> Self {
        self.at_least = per_second;
        self
    }

    /// Connects from a pod.
    pub fn from(mut self, pod: &CapturedPod) -> Self {
        self.from = Some(pod.namespace());
        self
    }

    /// Sets the host header.
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }
}

/// Results so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Answers by the name in their body.
    pub answers: BTreeMap<String, u64>,
    /// Requests without an answer of status 200.
    pub failed: u64,
    /// The first failures, as text.
    pub failures: Vec<String>,
}

impl Tally {
    /// Returns the number of answers.
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }

    /// Returns the number of answers of one backend.
    pub fn of(&self, backend: &str) -> u64 {
        self.answers.get(backend).copied().unwrap_or(0)
    }

    /// Fails if any request failed, or if none was answered.
    pub fn check_clean(&self) -> Result<()> {
        ensure!(self.failed == 0, "{} requests failed, such as: {:#?}", self.failed, self.failures);
        ensure!(self.answered() > 0, "no request was answered at all");
        Ok(())
    }

    fn add(&mut self, outcome: Result<String>) {
        match outcome {
            Ok(name) => *self.answers.entry(name).or_default() += 1,
            Err(error) => {
                self.failed += 1;
                if self.failures.len() < KEPT_FAILURES {
                    self.failures.push(format!("{error:#}"));
                }
            }
        }
    }
}

/// A running load; ends when dropped, or in order with [`Load::finish`].
#[derive(Debug)]
pub struct Load {
    tally: Arc<Mutex<Tally>>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
    began: Instant,
}

impl Load {
    /// Starts the load.
    pub fn start(plan: &LoadPlan) -> Self {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for index in 0..plan.connections {
            workers.spawn(work(plan.clone(), index, Arc::clone(&tally), stopped.clone()));
        }
        Self { tally, stop, workers, began: Instant::now() }
    }

    /// Returns the results so far.
    pub fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// Returns the requests per second since the start.
    pub fn rate(&self) -> f64 {
        let tally = self.tally.lock();
        (tally.answered() + tally.failed) as f64 / self.began.elapsed().as_secs_f64()
    }

    /// Waits until this rate was reached on average since the start: delays of a busy machine are made up as
    /// soon as possible.
    pub async fn keeps(&self, per_second: f64, within: Duration) -> Result<()> {
        crate::eventually(&format!("{per_second} requests a second"), within, || async {
            let rate = self.rate();
            if rate >= per_second { Ok(()) } else { bail!("only {rate} were made") }
        })
        .await
    }

    /// Waits until `backend` has answered `more` further requests.
    pub async fn reaches(&self, backend: &str, more: u64, within: Duration) -> Result<()> {
        let goal = self.tally().of(backend) + more;
        let what = format!("{more} further answers of {backend}");
        crate::eventually(&what, within, || async {
            let now = self.tally();
            if now.of(backend) >= goal { Ok(()) } else { bail!("answers so far: {:?}", now.answers) }
        })
        .await
    }

    /// Lets requests in flight end, and returns the final results.
    pub async fn finish(mut self) -> Tally {
        let _ = self.stop.send(true);
        while self.workers.join_next().await.is_some() {}
        self.tally.lock().clone()
    }
}

/// Runs one connection: a request at each tick, a new connection after a failure or at the peer's request.
async fn work(plan: LoadPlan, index: u32, tally: Arc<Mutex<Tally>>, mut stopped: watch::Receiver<bool>) {
    let period = Duration::from_secs(1) * plan.connections / plan.per_second.max(1);
    let mut ticks = interval_at(Instant::now() + period * index / plan.connections, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut connection = None;
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            _ = ticks.tick() => {}
        }
        let outcome = match tokio::time::timeout(ANSWER_WITHIN, ask(&plan, &mut connection)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow::anyhow!("no answer within {ANSWER_WITHIN:?}")),
        };
        if outcome.is_err() {
            connection = None;
        }
        tally.lock().add(outcome);
    }
}

async fn ask(plan: &LoadPlan, connection: &mut Option<SendRequest<Empty<Bytes>>>) -> Result<String> {
    let mut sender = match connection.take() {
        Some(sender) => sender,
        None => connect(plan).await.context("connect")?,
    };
    let request = Request::builder().uri("/").header("host", &plan.host).body(Empty::new())?;
    let response = sender.send_request(request).await.context("send")?;
    let closes = response.headers().get("connection").is_some_and(|value| value.as_bytes() == b"close");
    let status = response.status();
    let body = response.into_body().collect().await.context("read the answer")?.to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    if !closes {
        *connection = Some(sender);
    }
    ensure!(status.is_success(), "answered {status}: {body}");
    Ok(body)
}

async fn connect(plan: &LoadPlan) -> Result<SendRequest<Empty<Bytes>>> {
    let stream = match &plan.from {
        Some(namespace) => namespace.connect(plan.target).await?,
        None => TcpStream::connect(plan.target).await?,
    };
    stream.set_nodelay(true)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender.ready().await?;
    Ok(sender)
}
