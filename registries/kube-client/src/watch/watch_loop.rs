//! Loop around the machine: performs its requests and returns their results as inputs.
//!
//! Where a cluster identity is set, it is confirmed before a result is used. A stream belongs to the server that began it,
//! so one confirmation after the response head and before the first line is enough.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tributary_model::Mono;
use tributary_registry_api::{Reason, SplitMix};

use super::WatchSpec;
use super::api_failure::ApiFailure;
use super::head::Head;
use super::machine::Machine;
use super::protocol::{Action, WatchInput, WatchRequest};
use super::send;
use super::wire::{self, Lines, WatchLine};
use crate::event::{Event, Projection};
use crate::identity::ClusterIdentity;
use crate::resource::ObjectName;

type Answer<T> = BoxFuture<'static, Result<T, ApiFailure>>;

/// Main request in flight.
enum Main {
    Idle,
    Opening(Answer<http::Response<Body>>),
    Streaming(Box<(Body, Lines)>),
    Page(Answer<Bytes>),
    Served(Answer<Option<usize>>),
}

/// First result of the requests in flight.
enum Woke {
    Tick,
    Opened(Result<http::Response<Body>, ApiFailure>),
    Chunk(Option<Result<Bytes, ApiFailure>>),
    Page(Result<Bytes, ApiFailure>),
    Served(Result<Option<usize>, ApiFailure>),
    Probe(Result<Bytes, ApiFailure>),
    Audit(Result<Bytes, ApiFailure>),
}

/// Watch with its requests in flight.
pub(crate) struct WatchLoop {
    client: kube::Client,
    pub(crate) spec: WatchSpec,
    /// Identity that is confirmed before a result is used.
    cluster: Option<ClusterIdentity>,
    machine: Machine,
    start: Instant,
    main: Main,
    probe: Option<Answer<Bytes>>,
    audit: Option<Answer<Bytes>>,
    actions: Vec<Action>,
}

impl WatchLoop {
    pub(crate) fn new(client: kube::Client, spec: WatchSpec, random: SplitMix) -> Self {
        Self {
            machine: Machine::new(spec.resource.clone(), spec.timing, random),
            client,
            spec,
            cluster: None,
            start: Instant::now(),
            main: Main::Idle,
            probe: None,
            audit: None,
            actions: Vec::new(),
        }
    }

    /// Requires a confirmed identity before a result is used.
    pub(crate) fn set_cluster(&mut self, cluster: ClusterIdentity) {
        self.cluster = Some(cluster);
    }
    /// Marks that objects of the kind are held from earlier runs.
    pub(crate) const fn hold(&mut self) {
        self.machine.hold();
    }

    /// Drops the main request for a list that begins now.
    pub(crate) fn list_again<P: Projection>(&mut self) -> Vec<Event<P>> {
        let mut events = Vec::new();
        self.step(WatchInput::ListAgain, None, &mut events);
        events
    }

    /// Returns the next events. Cancel-safe: awaited requests are kept in `self`.
    pub(crate) async fn next<P: Projection>(&mut self) -> Vec<Event<P>> {
        loop {
            let deadline = self.start + Duration::from_millis(self.machine.deadline().0);
            // the stream comes last: it can be ready for ever
            let woke = tokio::select! {
                biased;
                () = tokio::time::sleep_until(deadline) => Woke::Tick,
                got = side(&mut self.probe) => Woke::Probe(got),
                got = side(&mut self.audit) => Woke::Audit(got),
                woke = main(&mut self.main) => woke,
            };
            let mut events = Vec::new();
            self.take(woke, &mut events);
            if !events.is_empty() {
                return events;
            }
        }
    }

    fn take<P: Projection>(&mut self, woke: Woke, events: &mut Vec<Event<P>>) {
        match woke {
            Woke::Tick => self.step(WatchInput::Tick, None, events),
            Woke::Opened(Ok(response)) => {
                self.main = Main::Streaming(Box::new((response.into_body(), Lines::default())));
                self.step(WatchInput::Opened, None, events);
            }
            Woke::Chunk(chunk) => self.chunk(chunk, events),
            Woke::Page(Ok(body)) => self.page(&body, events),
            Woke::Served(Ok(version)) => self.step(WatchInput::Served(version), None, events),
            Woke::Opened(Err(failure)) | Woke::Page(Err(failure)) | Woke::Served(Err(failure)) => {
                self.step(WatchInput::Failed(failure), None, events);
            }
            Woke::Probe(got) => self.step(WatchInput::Probed(got.map(drop)), None, events),
            Woke::Audit(Ok(body)) => self.audit_page(&body, events),
            Woke::Audit(Err(failure)) => self.step(WatchInput::AuditFailed(failure), None, events),
        }
    }

    /// Processes a piece of the stream: each whole line, until one of them ends the stream.
    fn chunk<P: Projection>(&mut self, chunk: Option<Result<Bytes, ApiFailure>>, events: &mut Vec<Event<P>>) {
        let Main::Streaming(mut stream) = std::mem::replace(&mut self.main, Main::Idle) else { return };
        let (_, lines) = &mut *stream;
        let input = match chunk {
            Some(Ok(bytes)) => match lines.push(&bytes) {
                Ok(()) => None,
                Err(failure) => Some(WatchInput::Failed(failure)),
            },
            Some(Err(failure)) => Some(WatchInput::Failed(failure)),
            None if lines.is_unfinished() => {
                Some(WatchInput::Failed(ApiFailure::Torn("in mid-object".to_owned())))
            }
            None => Some(WatchInput::Ended),
        };
        if let Some(input) = input {
            return self.step(input, None, events);
        }
        while let Some(line) = lines.next() {
            if !self.line(&line, events) {
                return;
            }
        }
        self.main = Main::Streaming(stream);
    }

    /// Processes one line; returns false when the stream ends.
    fn line<P: Projection>(&mut self, line: &[u8], events: &mut Vec<Event<P>>) -> bool {
        let namespaced = self.spec.resource.namespaced;
        if line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        let (input, raw) = match wire::watch_line(line) {
            Ok(WatchLine::Bookmark { version, complete }) => {
                (WatchInput::Bookmark { version, complete }, None)
            }
            Ok(WatchLine::Error(failure)) | Err(failure) => (WatchInput::Failed(failure), None),
            Ok(WatchLine::Now(raw)) => match Head::read(raw, namespaced) {
                Some(head) => (WatchInput::Object(head), Some(raw)),
                None => return skip_nameless(events),
            },
            Ok(WatchLine::Deleted(raw)) => match Head::read(raw, namespaced) {
                Some(head) => (WatchInput::Deleted(head), Some(raw)),
                None => return skip_nameless(events),
            },
        };
        let ends = matches!(input, WatchInput::Failed(_));
        let moved = self.step_moved(input, raw, events);
        !ends && !moved
    }

    fn page<P: Projection>(&mut self, body: &[u8], events: &mut Vec<Event<P>>) {
        let page = match wire::page(body) {
            Ok(page) => page,
            Err(failure) => return self.step(WatchInput::Failed(failure), None, events),
        };
        for raw in page.items.into_iter().flatten() {
            match Head::read(raw, self.spec.resource.namespaced) {
                Some(head) => self.step(WatchInput::Item(head), Some(raw), events),
                None => events.push(nameless()),
            }
        }
        let (next, version) = page.metadata.next();
        self.step(WatchInput::Page { next, version }, None, events);
    }

    fn audit_page<P: Projection>(&mut self, body: &[u8], events: &mut Vec<Event<P>>) {
        let page = match wire::page(body) {
            Ok(page) => page,
            Err(failure) => return self.step(WatchInput::AuditFailed(failure), None, events),
        };
        for raw in page.items.into_iter().flatten() {
            if let Some(head) = Head::read(raw, self.spec.resource.namespaced) {
                self.step(WatchInput::Audited(head), None, events);
            }
        }
        let (next, version) = page.metadata.next();
        self.step(WatchInput::AuditPage { next, version }, None, events);
    }

    fn step<P: Projection>(
        &mut self,
        input: WatchInput<'_>,
        raw: Option<&RawValue>,
        events: &mut Vec<Event<P>>,
    ) {
        self.step_moved(input, raw, events);
    }

    /// Performs one step of the machine; returns whether the main request was replaced or dropped.
    fn step_moved<P: Projection>(
        &mut self,
        input: WatchInput<'_>,
        raw: Option<&RawValue>,
        events: &mut Vec<Event<P>>,
    ) -> bool {
        let now = Mono::from_elapsed(self.start.elapsed());
        let object = raw.and_then(|raw| match &input {
            WatchInput::Item(head) | WatchInput::Object(head) | WatchInput::Deleted(head) => {
                Some((head.clone(), raw))
            }
            _ => None,
        });
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step(input, now, &mut actions);
        let mut moved = false;
        for action in actions.drain(..) {
            match action {
                Action::Emit(event) => events.push(fill_in(event, object.as_ref())),
                action => moved |= self.perform(action),
            }
        }
        self.actions = actions;
        moved
    }

    /// Performs an action; returns whether it replaced or dropped the main request.
    fn perform(&mut self, action: Action) -> bool {
        match &action {
            Action::Main(request) => self.main = self.start_main(request),
            Action::StopMain => self.main = Main::Idle,
            Action::Probe(request) => self.probe = Some(self.fetch(request).boxed()),
            Action::StopProbe => self.probe = None,
            Action::Audit(request) => self.audit = Some(self.confirmed(self.fetch(request))),
            Action::StopAudit => self.audit = None,
            Action::Emit(_) => {}
        }
        matches!(action, Action::Main(_) | Action::StopMain)
    }

    fn start_main(&self, request: &WatchRequest) -> Main {
        let client = self.client.clone();
        match request {
            WatchRequest::Watch { .. } => {
                Main::Opening(self.confirmed(send::answer(client, send::request(&self.spec, request))))
            }
            WatchRequest::Served => {
                Main::Served(self.confirmed(send::served(client, self.spec.resource.clone())))
            }
            _ => Main::Page(self.confirmed(self.fetch(request))),
        }
    }

    fn fetch(
        &self,
        request: &WatchRequest,
    ) -> impl Future<Output = Result<Bytes, ApiFailure>> + Send + use<> {
        send::fetch(self.client.clone(), send::request(&self.spec, request))
    }

    /// Awaits an answer, then confirms the cluster that gave it.
    fn confirmed<T: Send + 'static>(
        &self,
        answer: impl Future<Output = Result<T, ApiFailure>> + Send + 'static,
    ) -> Answer<T> {
        let cluster = self.cluster.clone();
        let confirmed = async move {
            let got = answer.await?;
            if let Some(cluster) = cluster {
                cluster.confirm().await?;
            }
            Ok(got)
        };
        confirmed.boxed()
    }
}

/// Fills the object of the current input in.
fn fill_in<P: Projection>(event: Event<(), ()>, object: Option<&(Head<'_>, &RawValue)>) -> Event<P> {
    let name = || object.map(|(head, _)| head.object()).unwrap_or_default();
    let decode = |()| match object.map(|(_, raw)| P::decode(raw)) {
        Some(Ok(read)) => Event::Apply(read),
        Some(Err(why)) => Event::Invalid(name(), Reason::new(why).shared()),
        None => nameless(),
    };
    event.map(decode, |()| name())
}

/// Event about an object without a name.
fn nameless<P>() -> Event<P> {
    Event::Invalid(ObjectName::default(), "an object without a name or a version".into())
}

/// Reports an object without a name; the stream continues.
fn skip_nameless<P>(events: &mut Vec<Event<P>>) -> bool {
    events.push(nameless());
    true
}

async fn side(slot: &mut Option<Answer<Bytes>>) -> Result<Bytes, ApiFailure> {
    let Some(answer) = slot else { return std::future::pending().await };
    let got = answer.await;
    *slot = None;
    got
}

async fn main(main: &mut Main) -> Woke {
    let woke = match main {
        Main::Idle => std::future::pending().await,
        Main::Streaming(stream) => return Woke::Chunk(chunk(&mut stream.0).await),
        Main::Opening(answer) => Woke::Opened(answer.await),
        Main::Page(answer) => Woke::Page(answer.await),
        Main::Served(answer) => Woke::Served(answer.await),
    };
    *main = Main::Idle;
    woke
}

/// Returns the next data frame of a stream; skips trailers.
async fn chunk(body: &mut Body) -> Option<Result<Bytes, ApiFailure>> {
    loop {
        return match body.frame().await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => Some(Ok(data)),
                Err(_) => continue,
            },
            Err(error) => Some(Err(ApiFailure::Torn(error.to_string()))),
        };
    }
}
