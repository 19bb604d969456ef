//! One stream: connects its session to requests, wake-ups and the transport.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;
use tributary_model::ObservedSince;
use tributary_proto::Variant;

use super::connection::Peer;
use super::outbox::Outbox;
use super::reader::{Reader, Received, Request};
use super::server::Shared;
use crate::answers::ResourceType;
use crate::client::ClientNode;
use crate::interest::{Registration, Wake};
use crate::session::{ChangedHosts, Refusal, Session};
use crate::table::{ClientEntryGuard, Connected};

/// Type of a message that an agent may send before its node.
const HEALTH_INFORMATION: &str = "type.googleapis.com/istio.v1.HealthInformation";

/// Runs a stream until it ends.
pub(crate) async fn run(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    mut reader: Reader,
    variant: Variant,
    outbox: Arc<Outbox>,
) {
    shared.env.counters.streams.inc();
    let status = match open(&shared, &peer, &mut reader, variant, &outbox).await {
        Ok(mut stream) => stream.drive(&mut reader).await,
        Err(status) => {
            shared.env.counters.streams_refused.inc();
            status
        }
    };
    shared.env.counters.streams_ended.inc();
    outbox.finish(status);
}

/// Waits for the first request and admits its client.
async fn open(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    reader: &mut Reader,
    variant: Variant,
    outbox: &Arc<Outbox>,
) -> Result<Stream, Status> {
    let first = timeout(shared.limits.first_message, first(reader)).await.map_err(|_| {
        Status::deadline_exceeded("no request arrived in time; send one after opening a stream")
    })??;
    let mut client =
        ClientNode::parse(first.request.node()).map_err(refusal)?.defaulting_to(shared.cluster.clone());
    if let Some(identities) = &peer.identities {
        client = client.authorize(identities, &shared.source.current().settings).map_err(refusal)?;
    }
    let mut stream = Stream::new(shared, peer, variant, client, outbox);
    stream.take(&first.request).map_err(refusal)?;
    Ok(stream)
}

async fn first(reader: &mut Reader) -> Result<Received, Status> {
    loop {
        match reader.next().await? {
            Some(Received { request, .. })
                if request.node().is_none() && request.type_url() == HEALTH_INFORMATION => {}
            Some(received) => return Ok(received),
            None => {
                return Err(Status::invalid_argument("the stream ended without a request"));
            }
        }
    }
}

fn refusal(refusal: Refusal) -> Status {
    tracing::warn!(code = %refusal.code, error = %refusal.message, "stream rejected or ended");
    Status::new(refusal.status, refusal.to_string())
}

struct Stream {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    client: Arc<Connected>,
    outbox: Arc<Outbox>,
    wake: Arc<Wake>,
    registration: Registration,
    /// The message that the transport is taking, and when building it began.
    pushing: Option<(ResourceType, Instant)>,
    /// Earliest time to read the next request.
    read_at: Option<Instant>,
    /// Time at which the stream ends.
    end_at: Option<Instant>,
    _entry: ClientEntryGuard,
}

impl Stream {
    fn new(
        shared: &Arc<Shared>,
        peer: &Arc<Peer>,
        variant: Variant,
        node: ClientNode,
        outbox: &Arc<Outbox>,
    ) -> Self {
        let id = shared.next_client.fetch_add(1, Ordering::Relaxed);
        let now = shared.now();
        shared.facts.connected(id, &node, peer.address);
        let workload = node.workload.as_ref().and_then(|_| node.class.namespace.clone());
        let identity = node.identity.clone();
        let session = Mutex::new(Session::new(Arc::clone(&shared.env), variant, node, now));
        let client = Arc::new(Connected { id, peer: peer.address, identity, since: now, session });
        let wake = shared.interest.wake();
        Self {
            registration: shared.interest.register(Arc::clone(&wake), workload),
            _entry: shared.clients.insert(Arc::clone(&client)),
            shared: Arc::clone(shared),
            peer: Arc::clone(peer),
            client,
            outbox: Arc::clone(outbox),
            wake,
            pushing: None,
            read_at: None,
            end_at: None,
        }
    }
    fn take(&mut self, request: &Request) -> Result<(), Refusal> {
        let now = self.shared.now();
        let wait = {
            let mut session = self.client.session.lock();
            match request {
                Request::Sotw(request) => session.on_sotw(request, now)?,
                Request::Delta(request) => session.on_delta(request, now)?,
            }
        };
        self.read_at = (!wait.is_zero()).then(|| Instant::now() + wait);
        Ok(())
    }
    /// Passes messages to the transport while it can take them. Registers the interest before it loads a
    /// catalog, and again if loading changed the class.
    fn send(&mut self) {
        loop {
            let interest = self.client.session.lock().take_interest();
            if let Some(interest) = interest {
                self.registration.update(interest);
                self.client.session.lock().on_generation(ChangedHosts::Everything);
            }
            if !self.outbox.is_idle() {
                return;
            }
            let began = Instant::now();
            if let Some((kind, since)) = self.pushing.take() {
                self.shared.env.counters.pushes.delivered(kind, began.duration_since(since));
            }
            let (out, settled) = {
                let mut session = self.client.session.lock();
                let out = session.on_writable(self.shared.now(), || self.shared.source.current());
                (out, !session.interest_is_due())
            };
            match out {
                Some(out) => {
                    self.pushing = Some((out.kind, began));
                    self.outbox.put(out.rope);
                }
                None if settled && !self.registers_held() => return,
                None => {}
            }
        }
    }
    /// Registers for completeness while names are held back. Returns whether the session must look again, because the
    /// catalog became complete before.
    fn registers_held(&mut self) -> bool {
        let mut session = self.client.session.lock();
        let is_late = self.registration.hold(session.holds_names()) && self.shared.source.current().complete;
        if is_late {
            session.on_generation(ChangedHosts::Everything);
        }
        is_late
    }
    async fn drive(&mut self, reader: &mut Reader) -> Status {
        loop {
            self.send();
            self.wake.handled();
            if self.outbox.is_closed() {
                return Status::unavailable("the client disconnected");
            }
            match self.wait(reader).await {
                Ok(Event::Again) => {}
                Ok(Event::Request(received)) => {
                    if let Err(end) = self.take(&received.request) {
                        return refusal(end);
                    }
                }
                Ok(Event::Woken(touched, observed)) => {
                    self.client.session.lock().on_generation_of(touched, observed);
                }
                Ok(Event::Tick) => {
                    let ticked = self.client.session.lock().on_tick(self.shared.now());
                    if let Err(end) = ticked {
                        self.outbox.reset();
                        return refusal(end);
                    }
                }
                Ok(Event::Ending) => {
                    self.end_at = Some(Instant::now() + self.shared.jitter(self.shared.limits.spread));
                }
                Err(status) => return status,
            }
        }
    }
    async fn wait(&self, reader: &mut Reader) -> Result<Event, Status> {
        let tick = self.client.session.lock().deadline().map(|at| self.shared.instant(at));
        tokio::select! {
            biased;
            () = until(self.end_at), if self.end_at.is_some() => {
                Err(Status::ok("the server closes this connection; reconnect"))
            }
            () = self.peer.ending.cancelled(), if self.end_at.is_none() => Ok(Event::Ending),
            () = self.outbox.moved() => Ok(Event::Again),
            event = self.read(reader) => event,
            (touched, observed) = self.wake.woken() => Ok(Event::Woken(touched, observed)),
            () = until(tick), if tick.is_some() => Ok(Event::Tick),
        }
    }
    /// Reads the next request, once it may be read. Cancel-safe.
    async fn read(&self, reader: &mut Reader) -> Result<Event, Status> {
        if self.read_at.is_some() {
            until(self.read_at).await;
        }
        match reader.next().await? {
            Some(received) => Ok(Event::Request(Box::new(received))),
            None => Err(Status::ok("")),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.facts.disconnected(self.client.id);
    }
}

enum Event {
    Again,
    Request(Box<Received>),
    Woken(ChangedHosts, ObservedSince),
    Tick,
    Ending,
}

async fn until(at: Option<Instant>) {
    sleep_until(at.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))).await;
}
