//! One stream: connects its session to requests, wake-ups and the transport.
//!
//! The stream's task owns the session, without a lock. For heavy work the session moves to a blocking thread and back;
//! the task waits for it and reads nothing meanwhile. Readers see the status that the task stored last: before a message
//! leaves, and before the task waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tributary_model::{Catalog, Mono, ObservedSince};
use tributary_proto::rope::BY_REFERENCE;
use tributary_proto::{Request, Rope, Variant};

use super::connection::Peer;
use super::debug::{self, Page};
use super::outbox::Outbox;
use super::patience::within;
use super::reader::{Reader, Received};
use super::server::Shared;
use crate::answers::ResourceType;
use crate::client::ClientNode;
use crate::interest::{Registration, Wake};
use crate::session::{ChangedHosts, FEW, Outgoing, Refusal, Session, Step};
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
        Ok((mut stream, session)) => stream.drive(session, &mut reader).await,
        Err(status) => {
            shared.env.counters.streams_refused.inc();
            status
        }
    };
    shared.env.counters.streams_ended.inc();
    outbox.finish(status);
}

/// Waits for the first request, admits its client, and handles the request.
async fn open(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    reader: &mut Reader,
    variant: Variant,
    outbox: &Arc<Outbox>,
) -> Result<(Stream, Box<Session>), Status> {
    let received = within(shared.limits.first_message, first(shared, reader)).await.ok_or_else(|| {
        Status::deadline_exceeded("no request arrived in time; send one after opening a stream")
    })?;
    let (first, is_large) = received?;
    let mut client = ClientNode::parse(first.node()).map_err(refusal)?.defaulting_to(shared.cluster.clone());
    if let Some(identities) = &peer.identities {
        client = client.authorize(identities, &shared.source.current().settings).map_err(refusal)?;
    }
    let (mut stream, mut session) = Stream::new(shared, peer, variant, client, outbox);
    let now = shared.now();
    let handled;
    if is_large {
        (session, handled) = stream.work(session, move |session| handle(session, first, now)).await?;
    } else {
        handled = handle(&mut session, first, now);
    }
    stream.follow_up(&session, handled?).await?;
    Ok((stream, session))
}

/// Returns the first request, and whether it is large. Agents may report their health before it.
async fn first(shared: &Shared, reader: &mut Reader) -> Result<(Request, bool), Status> {
    loop {
        let Some(received) = reader.next().await? else {
            return Err(Status::invalid_argument("the stream ended without a request"));
        };
        let is_large = received.is_large();
        let request = if is_large {
            shared.env.counters.offloaded.inc();
            shared.workers.turn().await.run(move || received.decode()).await.ok_or_else(failed)??
        } else {
            received.decode()?
        };
        if request.node().is_some() || request.type_url() != HEALTH_INFORMATION {
            return Ok((request, is_large));
        }
    }
}

fn refusal(refusal: Refusal) -> Status {
    tracing::warn!(code = %refusal.code, error = %refusal.message, "stream rejected or ended");
    Status::new(refusal.status, refusal.to_string())
}

/// Status of a stream whose work panicked.
fn failed() -> Status {
    Status::internal("the server failed to handle a request; reconnect")
}

/// What follows from a request.
enum Handled {
    /// The session took it. The next one must wait this long.
    Taken(Duration),
    /// It is about clients, which the session does not see.
    Debug(Box<Request>),
}

/// Handles a decoded request.
fn handle(session: &mut Session, request: Request, now: Mono) -> Result<Handled, Status> {
    if debug::is_debug(request.type_url()) {
        return Ok(Handled::Debug(Box::new(request)));
    }
    let wait = match &request {
        Request::Sotw(request) => session.on_sotw(request, now),
        Request::Delta(request) => session.on_delta(request, now),
    };
    wait.map(Handled::Taken).map_err(refusal)
}

/// Messages that leave in one write, because a write costs more than the bytes of a small one.
struct Batch {
    rope: Rope,
    /// Their types, and when building each began.
    pushing: Vec<(ResourceType, Instant)>,
}

impl Batch {
    /// Adds what follows a message while it is small.
    fn gather(first: Outgoing, began: Instant, mut next: impl FnMut() -> Option<Outgoing>) -> Self {
        let mut batch = Self { rope: first.rope, pushing: vec![(first.kind, began)] };
        while batch.rope.len() < BY_REFERENCE {
            let began = Instant::now();
            let Some(next) = next() else { break };
            batch.pushing.push((next.kind, began));
            batch.rope.append(next.rope);
        }
        batch
    }
}

/// Everything of a stream but its session, which is with the task or with a thread for heavy work.
struct Stream {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    client: Arc<Connected>,
    outbox: Arc<Outbox>,
    wake: Arc<Wake>,
    registration: Registration,
    /// The messages that the transport is taking, and when building each began.
    pushing: Vec<(ResourceType, Instant)>,
    /// An answer about clients that the transport has not taken yet.
    page: Option<Rope>,
    /// Held until the transport has taken that answer.
    page_permit: Option<OwnedSemaphorePermit>,
    /// Whether the stored status is the session's.
    is_stored: bool,
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
    ) -> (Self, Box<Session>) {
        let id = shared.next_client.fetch_add(1, Ordering::Relaxed);
        let now = shared.now();
        shared.facts.connected(id, &node, peer.address);
        let (identity, node) = (node.identity.clone(), Arc::new(node));
        let session = Box::new(Session::new(Arc::clone(&shared.env), variant, Arc::clone(&node), now));
        let status = ArcSwap::from_pointee(session.status());
        let client = Arc::new(Connected { id, peer: peer.address, identity, since: now, status });
        let wake = shared.interest.wake();
        let stream = Self {
            registration: shared.interest.register(Arc::clone(&wake), node),
            _entry: shared.clients.insert(Arc::clone(&client)),
            shared: Arc::clone(shared),
            peer: Arc::clone(peer),
            client,
            outbox: Arc::clone(outbox),
            wake,
            pushing: Vec::new(),
            page: None,
            page_permit: None,
            is_stored: false,
            read_at: None,
            end_at: None,
        };
        (stream, session)
    }
    /// Runs heavy work on the session.
    async fn work<T: Send + 'static>(
        &self,
        mut session: Box<Session>,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<(Box<Session>, T), Status> {
        let turn = self.shared.workers.turn().await;
        self.shared.env.counters.offloaded.inc();
        let done = turn.run(move || {
            let out = work(&mut session);
            (session, out)
        });
        done.await.ok_or_else(failed)
    }
    /// Handles a request. A large one, and one that changes or rejects some of many names, is heavy work.
    async fn take(&mut self, mut session: Box<Session>, received: Received) -> Result<Box<Session>, Status> {
        let now = self.shared.now();
        let handled;
        if received.is_large() {
            (session, handled) =
                self.work(session, move |session| handle(session, received.decode()?, now)).await?;
        } else {
            let request = received.decode()?;
            if session.takes_at_once(&request) {
                handled = handle(&mut session, request, now);
            } else {
                (session, handled) = self.work(session, move |session| handle(session, request, now)).await?;
            }
        }
        self.follow_up(&session, handled?).await?;
        Ok(session)
    }
    async fn follow_up(&mut self, session: &Session, handled: Handled) -> Result<(), Status> {
        let wait = match handled {
            Handled::Taken(wait) => wait,
            Handled::Debug(request) => {
                self.build_page(session, &request).await?;
                debug::PACE
            }
        };
        self.read_at = (!wait.is_zero()).then(|| Instant::now() + wait);
        Ok(())
    }
    /// Builds the answer to a request about clients. Few answers exist at once, over all streams.
    async fn build_page(&mut self, session: &Session, request: &Request) -> Result<(), Status> {
        let request = debug::admit(self.shared.debug.as_ref(), session.client(), request).map_err(refusal)?;
        self.page = None;
        if self.page_permit.is_none() {
            self.page_permit = Arc::clone(&self.shared.pages).acquire_owned().await.ok();
        }
        let (shared, variant) = (&self.shared, session.variant());
        let turn = shared.workers.turn().await;
        shared.env.counters.offloaded.inc();
        let page = Page {
            clients: Arc::clone(&shared.clients),
            catalog: shared.source.current(),
            now: shared.now(),
            nonce: shared.env.nonce(),
            server: shared.debug.as_ref().map(|access| Arc::clone(&access.name)).unwrap_or_default(),
        };
        let built = turn.run(move || page.build(&request, variant)).await;
        self.page = Some(built.ok_or_else(failed)?.map_err(refusal)?);
        Ok(())
    }
    /// Passes messages to the transport while it can take them. Registers the interest before it loads a
    /// catalog, and again if loading changed the class.
    async fn send(&mut self, mut session: Box<Session>) -> Result<Box<Session>, Status> {
        loop {
            session = self.register(session).await?;
            if !self.outbox.is_idle() {
                return Ok(session);
            }
            let began = Instant::now();
            for (kind, since) in self.pushing.drain(..) {
                self.shared.env.counters.pushes.delivered(kind, began.duration_since(since));
            }
            if let Some(page) = self.page.take() {
                session.on_sending(self.shared.now());
                self.outbox.put(page);
                return Ok(session);
            }
            self.page_permit = None;
            let out;
            self.is_stored &= !session.has_work();
            (session, out) = self.next_batch(session).await?;
            match out {
                Some(batch) => {
                    self.shared.env.counters.sends_joined.add(batch.pushing.len() - 1);
                    self.pushing = batch.pushing;
                    self.store_status(&session);
                    self.outbox.put(batch.rope);
                }
                None if !session.interest_is_due() && !self.registers_held(&mut session) => {
                    return Ok(session);
                }
                None => {}
            }
        }
    }
    /// Registers a changed interest.
    async fn register(&mut self, mut session: Box<Session>) -> Result<Box<Session>, Status> {
        if !session.interest_is_due() {
            return Ok(session);
        }
        let mut interest = None;
        if session.names() > FEW {
            (session, interest) = self.work(session, Session::take_interest).await?;
        }
        if let Some(interest) = interest.or_else(|| session.take_interest()) {
            self.registration.update(interest, session.class(), session.own_hosts().to_vec());
            session.on_generation(ChangedHosts::Everything);
        }
        Ok(session)
    }
    /// Returns the next messages. Streams of a class need the same for a new generation, so all but one wait until that
    /// one has built it.
    async fn next_batch(&self, mut session: Box<Session>) -> Result<(Box<Session>, Option<Batch>), Status> {
        let (workers, catalog) = (&self.shared.workers, self.shared.source.current());
        let key = session.work_key(&catalog);
        if key.from.is_some() && session.has_work() {
            workers.follow(key).await;
        }
        let began = Instant::now();
        let mut step = session.next_step(self.shared.now(), &catalog);
        let lead = matches!(step, Step::Work).then(|| workers.lead(key)).flatten();
        if matches!(step, Step::Work) && lead.is_none() {
            workers.follow(key).await;
            step = session.next_step(self.shared.now(), &catalog);
        }
        match step {
            Step::Send(out) => {
                let now = self.shared.now();
                let batch = Batch::gather(out, began, || session.following_at_once(now, &catalog));
                Ok((session, Some(batch)))
            }
            Step::Idle => Ok((session, None)),
            Step::Work => self.build(session, catalog).await,
        }
    }
    /// Builds the next messages on a thread for heavy work, unless others have built them by the time of the turn.
    async fn build(
        &self,
        mut session: Box<Session>,
        catalog: Arc<Catalog>,
    ) -> Result<(Box<Session>, Option<Batch>), Status> {
        let shared = Arc::clone(&self.shared);
        let turn = shared.workers.turn().await;
        let (began, now) = (Instant::now(), shared.now());
        match session.next_step(now, &catalog) {
            Step::Send(out) => {
                let batch = Batch::gather(out, began, || session.following_at_once(now, &catalog));
                return Ok((session, Some(batch)));
            }
            Step::Idle => return Ok((session, None)),
            Step::Work => shared.env.counters.offloaded.inc(),
        }
        let done = turn.run(move || {
            let now = shared.now();
            let first = session.on_writable(now, || Arc::clone(&catalog));
            // also what follows, for which the others of the class would be too early
            let batch = first.map(|out| Batch::gather(out, began, || session.following(now, &catalog)));
            (session, batch)
        });
        done.await.ok_or_else(failed)
    }
    /// Registers for what becomes readable while names are held back. Returns whether the session must look again: a
    /// generation may have been published before the registration.
    fn registers_held(&mut self, session: &mut Session) -> bool {
        let is_late = self.registration.hold(session.holds_names());
        if is_late {
            session.on_generation(ChangedHosts::Everything);
        }
        is_late
    }
    fn store_status(&mut self, session: &Session) {
        if !std::mem::replace(&mut self.is_stored, true) {
            self.client.status.store(Arc::new(session.status()));
        }
    }
    async fn drive(&mut self, mut session: Box<Session>, reader: &mut Reader) -> Status {
        loop {
            match self.turn(session, reader).await {
                Ok(next) => session = next,
                Err(status) => return status,
            }
        }
    }
    /// Sends what is due, then waits for one event and handles it.
    async fn turn(&mut self, session: Box<Session>, reader: &mut Reader) -> Result<Box<Session>, Status> {
        let mut session = self.send(session).await?;
        self.wake.handled();
        if self.outbox.is_closed() {
            return Err(Status::unavailable("the client disconnected"));
        }
        self.store_status(&session);
        match self.wait(&session, reader).await? {
            Event::Again => {}
            Event::Request(received) => {
                self.is_stored = false;
                return self.take(session, received).await;
            }
            Event::Woken(touched, observed) => session.on_generation_of(touched, observed),
            Event::Tick => {
                self.is_stored = false;
                let now = self.shared.now();
                let (session, ticked) = self.work(session, move |session| session.on_tick(now)).await?;
                return match ticked {
                    Ok(()) => Ok(session),
                    Err(end) => {
                        self.outbox.reset();
                        Err(refusal(end))
                    }
                };
            }
            Event::Ending => {
                self.end_at = Some(Instant::now() + self.shared.jitter(self.shared.limits.spread));
            }
        }
        Ok(session)
    }
    async fn wait(&self, session: &Session, reader: &mut Reader) -> Result<Event, Status> {
        let tick = session.deadline().map(|at| self.shared.instant(at));
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
            Some(received) => Ok(Event::Request(received)),
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
    Request(Received),
    Woken(ChangedHosts, ObservedSince),
    Tick,
    Ending,
}

async fn until(at: Option<Instant>) {
    sleep_until(at.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))).await;
}
