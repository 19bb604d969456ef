//! Traces of changes, sent to an OpenTelemetry collector. Off by default.
//!
//! The core task and the sessions give events to [`Traces`], which never waits: its queue is bounded, and what does not fit is dropped
//! and counted. One task turns events into spans ([`model`]), and another sends them ([`export`]). A collector that is slow or gone
//! costs spans and nothing else.

pub mod export;
pub mod model;
pub mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tributary_runtime::{ChangeRecorder, Publication};
use tributary_xds::push_recorder::{Answer, PushRecorder, SentResponse};

use self::export::Exporter;
use self::model::{Event, Limits, Model};
use self::span::{Identities, Span};
use crate::config::traces::TraceSettings;
use crate::exit::CommandError;

/// Most events that wait to become spans.
const EVENTS: usize = 8_192;
/// Most spans that wait to be sent.
const SPANS: usize = 4_096;
/// Most events that are taken at once.
const TAKEN: usize = 256;
/// Interval at which pushes that are over end.
const TICK: Duration = Duration::from_millis(250);
/// How long the end of the server waits for the collector.
const LAST: Duration = Duration::from_secs(2);

/// Counts of spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// Number of spans by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanResults {
    /// Taken by the collector.
    pub exported: u64,
    /// Lost because the collector did not take them.
    pub failed: u64,
    /// Dropped at a bound, as spans or as events.
    pub dropped: u64,
}

/// Receives what happens to changes. Shared by the core task and all sessions.
#[derive(Debug)]
pub struct Traces {
    began: (Instant, SystemTime),
    events: mpsc::Sender<Event>,
    counts: Arc<SpanCounts>,
    identities: Identities,
    share: f64,
    parts: Mutex<Option<Parts>>,
}

/// What the task takes when it starts.
#[derive(Debug)]
struct Parts {
    events: mpsc::Receiver<Event>,
    model: Model,
    exporter: Exporter,
}

impl Traces {
    /// Prepares traces; nothing is sent before [`Traces::run`]. `name` identifies the server among its replicas.
    pub fn new(settings: &TraceSettings, name: &str) -> Result<Self, CommandError> {
        let (sender, events) = mpsc::channel(EVENTS);
        let exporter = Exporter::new(settings, name)?;
        let seed = u64::from_be_bytes(RandomIdGenerator::default().new_span_id().to_bytes());
        let (identities, share) = (Identities::new(seed), settings.share);
        let model = Model::new(identities.clone(), share, Limits::of(settings.clients));
        let parts = Some(Parts { events, model, exporter });
        let began = (Instant::now(), SystemTime::now());
        Ok(Self {
            began,
            events: sender,
            counts: Arc::default(),
            identities,
            share,
            parts: Mutex::new(parts),
        })
    }
    /// Returns the counts of spans.
    #[must_use]
    pub fn results(&self) -> SpanResults {
        let SpanCounts { exported, failed, dropped } = &*self.counts;
        SpanResults {
            exported: exported.load(Relaxed),
            failed: failed.load(Relaxed),
            dropped: dropped.load(Relaxed),
        }
    }
    /// Returns the identity of the trace of a generation, as collectors show it; `None` if the generation is not sampled.
    #[must_use]
    pub fn id_of(&self, generation: u64) -> Option<String> {
        let trace = self.identities.trace(generation);
        trace.is_in(self.share).then(|| format!("{:032x}", trace.0))
    }
    fn add(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
    fn elapsed(&self) -> Duration {
        self.began.0.elapsed()
    }
    /// Sends spans until the server stops, and what is left then within [`LAST`]. Runs once.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let Some(Parts { events, model, exporter }) = self.parts.lock().take() else { return };
        let (spans, receiver) = mpsc::channel(SPANS);
        let export = exporter.run(receiver, self.began.1, Arc::clone(&self.counts));
        let ended = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST).await;
        };
        let work = async { tokio::join!(self.follow(events, model, spans, &stop), export) };
        tokio::select! {
            _ = work => {}
            () = ended => tracing::warn!("spans dropped at the end: the collector did not take them in time"),
        }
    }
    /// Turns events into spans.
    async fn follow(
        &self,
        mut events: mpsc::Receiver<Event>,
        mut model: Model,
        spans: mpsc::Sender<Span>,
        stop: &CancellationToken,
    ) {
        let (mut taken, mut made, mut left_out) = (Vec::with_capacity(TAKEN), Vec::new(), 0);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = events.recv_many(&mut taken, TAKEN) => {}
                _ = tick.tick(), if model.has_open() => model.expire(self.elapsed(), &mut made),
                () = stop.cancelled() => break,
            }
            taken.drain(..).for_each(|event| model.take(event, &mut made));
            self.pass_on(&mut made, &spans);
            self.counts.dropped.fetch_add(model.left_out - left_out, Relaxed);
            left_out = model.left_out;
        }
        while let Ok(event) = events.try_recv() {
            model.take(event, &mut made);
        }
        model.end_all(&mut made);
        self.pass_on(&mut made, &spans);
    }
    fn pass_on(&self, made: &mut Vec<Span>, spans: &mpsc::Sender<Span>) {
        let lost: u64 = made.drain(..).map(|span| u64::from(spans.try_send(span).is_err())).sum();
        self.counts.dropped.fetch_add(lost, Relaxed);
    }
}

impl ChangeRecorder for Traces {
    fn now(&self) -> Duration {
        self.elapsed()
    }
    fn published(&self, publication: Publication) {
        self.add(Event::Published(publication));
    }
}

impl PushRecorder for Traces {
    fn now(&self) -> Duration {
        self.elapsed()
    }
    fn sent(&self, response: SentResponse) {
        self.add(Event::Sent(response));
    }
    fn answered(&self, answer: Answer) {
        self.add(Event::Answered(answer));
    }
}
