//! One stream: connects its session to requests, wake-ups and the transport.
//!
//! The stream's task owns the session, which lies in a [`SessionCell`](crate::session_cell::SessionCell) for readers. For
//! heavy work it moves to a blocking thread and back; the task waits for it and reads nothing meanwhile.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::Status;
use tributary_model::{Catalog, Mono, ObservedSince};
use tributary_proto::{Request, Rope, Variant};

use super::admission::{Admission, Presented};
use super::alarm::Alarm;
use super::batch::{Batch, Heavy};
use super::connection::Peer;
use super::debug::{self, Page};
use super::outbox::{Outbox, Pushing};
use super::patience::within;
use super::reader::{Reader, Received};
use super::server::Shared;
use crate::client::ClientNode;
use crate::client_events::ClientChange;
use crate::interest::{Registration, Wake};
use crate::session::{ChangedHosts, FEW, Refusal, Session};
use crate::session_cell::SessionCell;
use crate::table::{ClientEntryGuard, Connected};
use crate::work::Turn;

/// Type of a message that an agent may send before its node.
const HEALTH_INFORMATION: &str = "type.googleapis.com/istio.v1.HealthInformation";

/// Runs a stream until it ends.
pub(crate) async fn run(
    shared: Arc<Shared>,
    caller: (Arc<Peer>, Presented),
    mut reader: Reader,
    variant: Variant,
    outbox: Arc<Outbox>,
) {
    shared.env.counters.streams.inc();
    let status = match open(&shared, caller, &mut reader, variant, &outbox).await {
        Ok(mut stream) => stream.drive(&mut reader).await,
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
    (peer, token): (Arc<Peer>, Presented),
    reader: &mut Reader,
    variant: Variant,
    outbox: &Arc<Outbox>,
) -> Result<Stream, Status> {
    let received = within(shared.limits.first_message, first(shared, reader)).await.ok_or_else(|| {
        Status::deadline_exceeded("no request arrived in time; send one after opening a stream")
    })?;
    let (first, is_large) = received?;
    let client = ClientNode::parse(first.node()).map_err(refusal)?;
    let client = client.defaulting_to(shared.cluster.clone()).sharing(&shared.env.selections);
    let admission = Admission {
        source: &*shared.source,
        tokens: shared.tokens.as_deref(),
        counters: &shared.env.counters,
        limit: shared.limits.first_message,
    };
    let client = admission.admit(client, peer.identities.as_deref(), token).await.map_err(refusal)?;
    let mut stream = Stream::new(shared, &peer, variant, client, outbox);
    let now = shared.now();
    let handled = if is_large {
        stream.work(move |session| handle(session, first, now)).await?
    } else {
        stream.session(|session| handle(session, first, now))?
    };
    stream.follow_up(handled?).await?;
    Ok(stream)
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

/// A stream.
struct Stream {
    shared: Arc<Shared>,
    client: Arc<Connected>,
    outbox: Arc<Outbox>,
    wake: Arc<Wake>,
    registration: Registration,
    /// An answer about clients that the transport has not taken yet.
    page: Option<Rope>,
    /// Held until the transport has taken that answer.
    page_permit: Option<OwnedSemaphorePermit>,
    /// Earliest time to read the next request.
    read_at: Option<Instant>,
    /// Time at which the stream ends.
    end_at: Option<Instant>,
    alarm: Alarm,
    /// Completes when the connection must end.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Its entry in the table of clients.
    entry: Option<ClientEntryGuard>,
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
        let (verified, node) = (node.verified.clone(), Arc::new(node));
        let session = Box::new(Session::new(Arc::clone(&shared.env), variant, Arc::clone(&node), now));
        let session = SessionCell::new(session);
        let client = Arc::new(Connected { id, peer: peer.address, verified, since: now, session });
        let wake = shared.interest.wake();
        let entry = shared.clients.insert(Arc::clone(&client));
        shared.env.counters.events.record(&node.id, ClientChange::Connected(peer.address));
        Self {
            registration: shared.interest.register(Arc::clone(&wake), node),
            entry: Some(entry),
            shared: Arc::clone(shared),
            client,
            outbox: Arc::clone(outbox),
            wake,
            page: None,
            page_permit: None,
            read_at: None,
            end_at: None,
            alarm: Alarm::default(),
            ending: Box::pin(peer.ending.clone().cancelled_owned()),
        }
    }
    /// Works on the session, for a short time.
    fn session<T>(&self, work: impl FnOnce(&mut Session) -> T) -> Result<T, Status> {
        self.client.session.with(work).ok_or_else(failed)
    }
    /// Runs heavy work on the session.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let turn = self.shared.workers.turn().await;
        self.shared.env.counters.offloaded.inc();
        self.work_in(turn, work).await
    }
    async fn work_in<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let mut session = self.client.session.take().ok_or_else(failed)?;
        let client = Arc::clone(&self.client);
        let done = turn.run(move || {
            let out = work(&mut session);
            client.session.put(session);
            out
        });
        done.await.ok_or_else(failed)
    }
    /// Handles a request. A large one, and one that changes or rejects some of many names, is heavy work.
    async fn take(&mut self, received: Received) -> Result<(), Status> {
        let now = self.shared.now();
        let handled = if received.is_large() {
            self.work(move |session| handle(session, received.decode()?, now)).await?
        } else {
            let request = received.decode()?;
            if self.session(|session| session.takes_at_once(&request))? {
                self.session(|session| handle(session, request, now))?
            } else {
                self.work(move |session| handle(session, request, now)).await?
            }
        };
        self.follow_up(handled?).await
    }
    async fn follow_up(&mut self, handled: Handled) -> Result<(), Status> {
        let wait = match handled {
            Handled::Taken(wait) => wait,
            Handled::Debug(request) => {
                self.build_page(&request).await?;
                debug::PACE
            }
        };
        self.read_at = (!wait.is_zero()).then(|| Instant::now() + wait);
        Ok(())
    }
    /// Builds the answer to a request about clients. Few answers exist at once, over all streams.
    async fn build_page(&mut self, request: &Request) -> Result<(), Status> {
        let access = self.shared.debug.as_ref();
        let admitted = self.session(|session| debug::admit(access, session.client(), request))?;
        let request = admitted.map_err(refusal)?;
        let variant = self.session(|session| session.variant())?;
        self.page = None;
        if self.page_permit.is_none() {
            self.page_permit = Arc::clone(&self.shared.pages).acquire_owned().await.ok();
        }
        let shared = &self.shared;
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
    async fn send(&mut self) -> Result<(), Status> {
        loop {
            self.register().await?;
            let has_more = self.session(|session| session.has_work() || session.holds_names())?;
            let has_page = self.page.is_some() || self.page_permit.is_some();
            if !self.outbox.is_idle(has_more || has_page) {
                return Ok(());
            }
            self.session(Session::on_taken)?;
            if let Some(page) = self.page.take() {
                self.session(|session| session.on_sending(self.shared.now()))?;
                self.outbox.put(page, Pushing::new());
                continue;
            }
            self.page_permit = None;
            match if has_more { self.next_batch().await? } else { None } {
                Some(batch) => {
                    self.shared.env.counters.sends_joined.add(batch.pushing.len() - 1);
                    self.outbox.put(batch.rope, batch.pushing);
                }
                None if !self.session(|session| session.interest_is_due())? && !self.registers_held()? => {
                    return Ok(());
                }
                None => {}
            }
        }
    }
    /// Registers a changed interest.
    async fn register(&mut self) -> Result<(), Status> {
        let due = self.session(|session| session.interest_is_due().then(|| session.names() > FEW))?;
        let Some(has_many) = due else { return Ok(()) };
        let interest = if has_many {
            self.work(Session::take_interest).await?
        } else {
            self.session(Session::take_interest)?
        };
        if let Some(interest) = interest {
            let (class, own) =
                self.session(|session| (session.class().clone(), session.own_hosts().to_vec()))?;
            self.registration.update(interest, &class, own);
            self.session(|session| session.on_generation(ChangedHosts::Everything))?;
        }
        Ok(())
    }
    /// Returns the next messages. Streams of a class need the same for a new generation, so all but one wait until that
    /// one has built it.
    async fn next_batch(&self) -> Result<Option<Batch>, Status> {
        let (workers, catalog) = (&self.shared.workers, self.shared.source.current());
        let (began, now) = (Instant::now(), self.shared.now());
        let key = match self.session(|session| match session.repeat_round(now, &catalog) {
            Some(round) => Err(round),
            None => Ok(session.work_key(&catalog)),
        })? {
            Err(round) => return Ok(Some(Batch::repeated(round, began))),
            Ok(key) => key,
        };
        if key.from.is_some() {
            workers.follow(key).await;
        }
        if let Ok(batch) = self.at_once(&catalog)? {
            return Ok(batch);
        }
        let lead = workers.lead(key);
        if lead.is_none() {
            workers.follow(key).await;
            if let Ok(batch) = self.at_once(&catalog)? {
                return Ok(batch);
            }
        }
        self.build(catalog).await
    }
    fn at_once(&self, catalog: &Arc<Catalog>) -> Result<Result<Option<Batch>, Heavy>, Status> {
        let (began, now) = (Instant::now(), self.shared.now());
        self.session(|session| Batch::at_once(session, now, catalog, began))
    }
    /// Builds the next messages on a thread for heavy work, unless others have built them by the time of the turn.
    async fn build(&self, catalog: Arc<Catalog>) -> Result<Option<Batch>, Status> {
        let shared = Arc::clone(&self.shared);
        let turn = shared.workers.turn().await;
        if let Ok(batch) = self.at_once(&catalog)? {
            return Ok(batch);
        }
        shared.env.counters.offloaded.inc();
        let began = Instant::now();
        let work = move |session: &mut Session| {
            let now = shared.now();
            let first = session.on_writable(now, || Arc::clone(&catalog));
            // also what follows, for which the others of the class would be too early
            first.map(|out| Batch::gather(out, began, || session.following(now, &catalog)))
        };
        self.work_in(turn, work).await
    }
    /// Registers for what becomes readable while names are held back. Returns whether the session must look again: a
    /// generation may have been published before the registration.
    fn registers_held(&mut self) -> Result<bool, Status> {
        let is_late =
            self.registration.hold(self.client.session.with(|session| session.holds_names()) == Some(true));
        if is_late {
            self.session(|session| session.on_generation(ChangedHosts::Everything))?;
        }
        Ok(is_late)
    }
    async fn drive(&mut self, reader: &mut Reader) -> Status {
        loop {
            if let Err(status) = self.turn(reader).await {
                return status;
            }
        }
    }
    /// Sends what is due, then waits for one event and handles it.
    async fn turn(&mut self, reader: &mut Reader) -> Result<(), Status> {
        self.send().await?;
        self.wake.handled();
        if self.outbox.is_closed() {
            return Err(Status::unavailable("the client disconnected"));
        }
        match self.wait(reader).await? {
            Event::Again => Ok(()),
            Event::Request(received) => self.take(received).await,
            Event::Woken(touched, observed) => {
                self.session(|session| session.on_generation_of(touched, observed))
            }
            Event::Tick => self.tick().await,
            Event::Ending => {
                self.end_at = Some(Instant::now() + self.shared.jitter(self.shared.limits.spread));
                Ok(())
            }
        }
    }
    /// Applies the session's time limits.
    async fn tick(&mut self) -> Result<(), Status> {
        if self.end_at.is_some_and(|at| at <= Instant::now()) {
            return Err(Status::ok("the server closes this connection; reconnect"));
        }
        if self.outbox.is_idle(false) {
            return self.session(Session::on_taken);
        }
        let now = self.shared.now();
        self.work(move |session| session.on_tick(now)).await?.map_err(|end| {
            self.outbox.reset();
            refusal(end)
        })
    }
    async fn wait(&mut self, reader: &mut Reader) -> Result<Event, Status> {
        self.shared.env.counters.waits.inc();
        let tick = self.session(|session| session.deadline())?.map(|at| self.shared.instant(at));
        let due = tick.into_iter().chain(self.end_at).min();
        let mut read = pin!(read(self.read_at, reader));
        poll_fn(|cx| match self.poll_event(due, cx) {
            Poll::Ready(event) => Poll::Ready(Ok(event)),
            Poll::Pending => match read.as_mut().poll(cx) {
                Poll::Ready(event) => Poll::Ready(event),
                Poll::Pending => {
                    self.wake.poll_woken(cx).map(|(touched, since)| Ok(Event::Woken(touched, since)))
                }
            },
        })
        .await
    }
    /// Completes with an event that comes before requests and wake-ups.
    fn poll_event(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> Poll<Event> {
        if self.alarm.poll(due, cx).is_ready() {
            return Poll::Ready(Event::Tick);
        }
        if self.end_at.is_none() && self.ending.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Event::Ending);
        }
        ready!(self.outbox.poll_moved(cx));
        Poll::Ready(Event::Again)
    }
}

/// Reads the next request, once it may be read. Cancel-safe.
async fn read(at: Option<Instant>, reader: &mut Reader) -> Result<Event, Status> {
    if let Some(at) = at {
        sleep_until(at).await;
    }
    match reader.next().await? {
        Some(received) => Ok(Event::Request(received)),
        None => Err(Status::ok("")),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.client.session.with(|session| session.on_end(now));
        self.shared.facts.disconnected(self.client.id);
        // a reader that the event wakes no longer finds the client
        self.entry = None;
        let ended = ClientChange::Disconnected(self.client.peer);
        self.shared.env.counters.events.record(&self.client.node(), ended);
    }
}

enum Event {
    Again,
    Request(Received),
    Woken(ChangedHosts, ObservedSince),
    Tick,
    Ending,
}
