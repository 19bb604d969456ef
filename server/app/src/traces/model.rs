//! Spans of changes: what was published, sent and answered becomes the spans of one trace for each generation.
//!
//! A trace is a chain: `registry.event` (a batch of a source waits), `merge` (the core applies it and publishes a generation), `encode`
//! (the first response of a class of clients and a type is built), `push` (from that response to the last answer of the class), `ack` (a
//! client answers). A function of its inputs: times and seed are passed in. Everything is bounded; what exceeds a bound is
//! counted in attributes or in [`Model::left_out`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tributary_runtime::{AppliedBatch, Publication};
use tributary_xds::answers::ResourceType;
use tributary_xds::push_recorder::{Answer, SentResponse};

use super::span::{Identities, Span, SpanId, TraceId, Value};

/// Input of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A generation was published.
    Published(Publication),
    /// A response with a change was built.
    Sent(SentResponse),
    /// A client answered a response.
    Answered(Answer),
}

/// Bounds of the model.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most generations whose pushes are followed.
    pub changes: usize,
    /// Most classes and types with spans of their own, for each generation.
    pub pushes: usize,
    /// Most clients with spans of their own, for each push; as many again if they reject.
    pub clients: usize,
    /// Most responses whose answers are awaited.
    pub open: usize,
    /// A push ends so long after its last response or answer, if every answer has arrived.
    pub settled: Duration,
    /// A push ends so long after its last response or answer.
    pub idle: Duration,
}

impl Limits {
    /// Bounds with this number of clients.
    #[must_use]
    pub const fn of(clients: usize) -> Self {
        Self {
            changes: 64,
            pushes: 32,
            clients,
            open: 65_536,
            settled: Duration::from_secs(1),
            idle: Duration::from_secs(15),
        }
    }
}

/// Most links of a span to earlier traces.
const LINKS: usize = 8;
/// Most bytes of a text that a client chose.
const TEXT: usize = 256;

/// A generation whose pushes are followed.
#[derive(Debug)]
struct Change {
    generation: u64,
    trace: TraceId,
    merge: SpanId,
    pushes: Vec<Push>,
}

/// Responses of one type to the clients of one class.
#[derive(Debug)]
struct Push {
    class: usize,
    kind: ResourceType,
    id: SpanId,
    encode: SpanId,
    began: Duration,
    last: Duration,
    clients: u64,
    bytes: u64,
    acked: u64,
    rejected: u64,
    /// Responses whose answers are awaited, by nonce: the client, when it was sent, and whether its answer has a span.
    open: HashMap<u64, (Arc<str>, Duration, bool)>,
    unfollowed: u64,
    has_ended: bool,
}

/// Changes in progress.
#[derive(Debug)]
pub struct Model {
    limits: Limits,
    share: f64,
    identities: Identities,
    changes: VecDeque<Change>,
    open: usize,
    /// Responses without spans, beyond the bounds.
    pub left_out: u64,
}

impl Model {
    /// Creates the model of one process.
    #[must_use]
    pub fn new(identities: Identities, share: f64, limits: Limits) -> Self {
        Self { limits, share, identities, changes: VecDeque::new(), open: 0, left_out: 0 }
    }
    /// Takes an event; adds the spans that it finishes.
    pub fn take(&mut self, event: Event, out: &mut Vec<Span>) {
        match event {
            Event::Published(publication) => self.published(publication, out),
            Event::Sent(response) => self.sent(response, out),
            Event::Answered(answer) => self.answered(answer, out),
        }
    }
    /// Whether pushes have yet to end.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.changes.iter().flat_map(|change| &change.pushes).any(|push| !push.has_ended)
    }
    /// Ends the pushes that nothing more is expected of.
    pub fn expire(&mut self, now: Duration, out: &mut Vec<Span>) {
        let (settled, idle) = (self.limits.settled, self.limits.idle);
        self.end(out, |push| now >= push.last + if push.open.is_empty() { settled } else { idle });
    }
    /// Ends every push.
    pub fn end_all(&mut self, out: &mut Vec<Span>) {
        self.end(out, |_| true);
    }
    fn end(&mut self, out: &mut Vec<Span>, is_over: impl Fn(&Push) -> bool) {
        for change in &mut self.changes {
            for push in change.pushes.iter_mut().filter(|push| !push.has_ended) {
                if is_over(push) {
                    self.open -= push.open.len();
                    out.push(push.end((change.generation, change.trace)));
                }
            }
        }
    }

    fn published(&mut self, publication: Publication, out: &mut Vec<Span>) {
        let Publication { generation, batches, more, began, ended } = publication;
        let trace = self.identities.trace(generation);
        if !trace.is_in(self.share) {
            return;
        }
        let mut root = None;
        for batch in &batches {
            let id = self.identities.span();
            out.push(event_span((generation, trace), (id, root), batch));
            root.get_or_insert(id);
        }
        let merge = self.identities.span();
        let attributes = vec![
            ("tributary.generation", Value::Number(generation)),
            ("tributary.events", Value::Number((batches.len() + more) as u64)),
        ];
        let span = Span { attributes, ..span(trace, (merge, root), "merge", (began, ended)) };
        out.push(span);
        if self.changes.len() >= self.limits.changes
            && let Some(mut oldest) = self.changes.pop_front()
        {
            for push in oldest.pushes.iter_mut().filter(|push| !push.has_ended) {
                self.open -= push.open.len();
                out.push(push.end((oldest.generation, oldest.trace)));
            }
        }
        self.changes.push_back(Change { generation, trace, merge, pushes: Vec::new() });
    }

    fn sent(&mut self, response: SentResponse, out: &mut Vec<Span>) {
        let Some(at) = self.change(response.generation) else { return };
        let is = |push: &Push| push.class == response.class && push.kind == response.kind;
        let found = self.changes[at].pushes.iter().position(is);
        let position = match found {
            Some(position) if self.changes[at].pushes[position].has_ended => {
                self.left_out += 1;
                return;
            }
            Some(position) => position,
            None if self.changes[at].pushes.len() < self.limits.pushes => {
                let push = self.encoded(at, &response, out);
                self.changes[at].pushes.push(push);
                self.changes[at].pushes.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        let has_room = self.open < self.limits.open;
        let push = &mut self.changes[at].pushes[position];
        push.sent(response, self.limits.clients, has_room);
        self.open += usize::from(has_room);
    }
    /// Begins the push of a class and a type with its first response, which encoded what the others share.
    fn encoded(&mut self, at: usize, response: &SentResponse, out: &mut Vec<Span>) -> Push {
        let (encode, id) = (self.identities.span(), self.identities.span());
        let (change, links) = (&self.changes[at], self.links(response));
        let mut attributes = about(change.generation, response.kind);
        attributes.push(("tributary.bytes", Value::Number(response.bytes as u64)));
        let resources = response.resources.map(|count| ("tributary.resources", Value::Number(count as u64)));
        attributes.extend(resources);
        let times = (response.began, response.ended);
        let span = span(change.trace, (encode, Some(change.merge)), "encode", times);
        out.push(Span { attributes, links, ..span });
        Push {
            class: response.class,
            kind: response.kind,
            id,
            encode,
            began: response.ended,
            last: response.ended,
            clients: 0,
            bytes: 0,
            acked: 0,
            rejected: 0,
            open: HashMap::new(),
            unfollowed: 0,
            has_ended: false,
        }
    }
    /// Returns the merges of the newest generations that the client skips, whose changes the response carries, too.
    fn links(&self, response: &SentResponse) -> Vec<(TraceId, SpanId)> {
        let Some(base) = response.base else { return Vec::new() };
        let skipped = self.changes.iter().rev();
        let skipped = skipped.filter(|one| one.generation > base && one.generation < response.generation);
        skipped.take(LINKS).map(|one| (one.trace, one.merge)).collect()
    }

    fn answered(&mut self, answer: Answer, out: &mut Vec<Span>) {
        let Some(at) = self.change(answer.generation) else { return };
        let change = &mut self.changes[at];
        let of_kind = change.pushes.iter_mut().filter(|push| push.kind == answer.kind && !push.has_ended);
        for push in of_kind {
            let Some((client, sent, is_shown)) = push.open.remove(&answer.nonce) else { continue };
            self.open -= 1;
            push.last = push.last.max(answer.at);
            let is_rejected = answer.rejected.is_some();
            let is_shown = is_shown || (is_rejected && push.rejected < self.limits.clients as u64);
            *(if is_rejected { &mut push.rejected } else { &mut push.acked }) += 1;
            if is_shown {
                let id = self.identities.span();
                let mut attributes = about(answer.generation, answer.kind);
                attributes.push(("xds.client", Value::Text(cut(&client))));
                let span = span(change.trace, (id, Some(push.id)), "ack", (sent, answer.at));
                out.push(Span { attributes, error: answer.rejected.as_deref().map(cut), ..span });
            }
            return;
        }
    }
    /// Returns the position of a generation. The newest are looked at first.
    fn change(&self, generation: u64) -> Option<usize> {
        self.changes.iter().rposition(|change| change.generation == generation)
    }
}

impl Push {
    fn sent(&mut self, response: SentResponse, most: usize, has_room: bool) {
        let is_shown = self.clients < most as u64;
        self.clients += 1;
        self.bytes += response.bytes as u64;
        self.last = self.last.max(response.ended);
        if has_room {
            self.open.insert(response.nonce, (response.client, response.ended, is_shown));
        } else {
            self.unfollowed += 1;
        }
    }
    /// Returns the span of the whole push; takes nothing more.
    fn end(&mut self, (generation, trace): (u64, TraceId)) -> Span {
        self.has_ended = true;
        let unanswered = std::mem::take(&mut self.open).len() as u64 + self.unfollowed;
        let mut attributes = about(generation, self.kind);
        let counts = [
            ("tributary.responses", self.clients),
            ("tributary.bytes", self.bytes),
            ("tributary.acked", self.acked),
            ("tributary.rejected", self.rejected),
            ("tributary.unanswered", unanswered),
        ];
        attributes.extend(counts.map(|(name, count)| (name, Value::Number(count))));
        let error = (self.rejected > 0).then(|| "clients rejected responses".to_owned());
        let span = span(trace, (self.id, Some(self.encode)), "push", (self.began, self.last));
        Span { attributes, error, ..span }
    }
}

fn span(
    trace: TraceId,
    (id, parent): (SpanId, Option<SpanId>),
    name: &'static str,
    (began, ended): (Duration, Duration),
) -> Span {
    let (attributes, links) = (Vec::new(), Vec::new());
    Span { trace, id, parent, name, began, ended: ended.max(began), attributes, links, error: None }
}

/// The event of a batch, from its report to the start of its merge.
fn event_span(
    (generation, trace): (u64, TraceId),
    ids: (SpanId, Option<SpanId>),
    batch: &AppliedBatch,
) -> Span {
    let kind = if batch.lists { "list" } else { "change" };
    let attributes = vec![
        ("tributary.generation", Value::Number(generation)),
        ("tributary.registry", Value::Text(batch.registry.to_string())),
        ("tributary.event", Value::Text(kind.to_owned())),
        ("tributary.updates", Value::Number(batch.updates as u64)),
        ("tributary.facts", Value::Number(batch.facts as u64)),
        ("tributary.removals", Value::Number(batch.removals as u64)),
    ];
    Span { attributes, ..span(trace, ids, "registry.event", (batch.reported, batch.applied)) }
}

fn about(generation: u64, kind: ResourceType) -> Vec<(&'static str, Value)> {
    vec![
        ("tributary.generation", Value::Number(generation)),
        ("xds.type_url", Value::Text(kind.type_url().to_owned())),
    ]
}

/// Bounds a text that a client chose.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].escape_debug().to_string()
}

#[cfg(test)]
mod tests;
