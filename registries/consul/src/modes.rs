//! One scope (datacenter, partition, namespace, peer) followed as a whole, as a pure step: which names there are, which
//! of them are read and when, in which mode, and what is said of them.
//!
//! Owned by the rim, which sends what [`Output`]s ask for and reports what comes back as [`Input`]s with the time and
//! a chance. A scope fails as one: while its list of names cannot be read nothing else is asked, and when it can be
//! again, everything comes back at the pace of its gate. What is said of one service keeps its order.
//!
//! Modes: *precise*, a long poll per service; *doorbell*, two long polls (names and checks) and a read of whatever
//! they say has changed, beside a sweep that reads every service from time to time.

mod listing;
mod names;
mod notify_and_fetch;
mod proof;
mod report;
mod request_limiter;
mod services;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Completeness, Mono};

use crate::answer::{Headers, RequestFailure};
use crate::config::{Limits, ModeChoice, Timing};
use crate::content::{Instances, Marks, Names};
use crate::watch::{Action, Confidence, Event, Follow, Mode as ReadMode, Policy, Read, Ticket, Watch};
use listing::{Listing, Sights};
use notify_and_fetch::NotifyAndFetch;
pub use report::Report;
use request_limiter::RequestLimiter;
use services::Slot;

/// What a scope is told at its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Waits and pauses.
    pub timing: Timing,
    /// How much at a time.
    pub limits: Limits,
    /// How many services may have a long poll each: this scope's share of the connections.
    pub polls: usize,
    /// Whether the mode is chosen or given.
    pub mode: ModeChoice,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// How many addresses there are to ask.
    pub servers: usize,
    /// Whether names come from a peer, whose list cannot be waited on.
    pub peer: bool,
}

/// Which loop of a scope. Names come first, so that they are never kept waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopId {
    /// The list of names.
    Names,
    /// All checks, in doorbell mode.
    Checks,
    /// The token's own record.
    Token,
    /// One service.
    Service(u32),
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The names of services.
    Names,
    /// The state of all checks.
    Checks,
    /// Who the token is and what it may.
    Token,
    /// The instances of a service.
    Service(Arc<str>),
}

/// A request to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Under this number; each is used once.
    pub number: u64,
    /// For this.
    pub what: What,
    /// To this one of the addresses.
    pub server: usize,
    /// In this way.
    pub mode: ReadMode,
    /// And given up after this long.
    pub timeout: Duration,
    /// An answer with this index need not be decoded.
    pub skip: Option<u64>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Names.
    Names(Headers, Option<Names>),
    /// Checks.
    Checks(Headers, Option<Marks>),
    /// Instances.
    Service(Headers, Option<Instances>),
    /// A hash of who the token is and what it may.
    Token(u64),
}

/// What happens to a scope.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// It begins.
    Started,
    /// A request was answered or came to nothing.
    Replied(u64, Result<Answer, RequestFailure>),
    /// The core wants to know what is really there of a service.
    Asked(Arc<str>),
    /// The rim wants to know of the leader which names there are.
    NamesAsked,
    /// From now on another token is used.
    TokenChanged,
    /// Time has passed.
    Tick,
}

/// What a scope wants to have done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this.
    Send(Request),
    /// Give this up.
    Cancel(u64),
    /// Read the token anew from where it comes from.
    RereadToken,
    /// These are the instances of a service.
    Say(Arc<str>, Instances, Confidence),
    /// A list of names lacks this one that was there.
    Gone(Arc<str>, Confidence),
    /// Every service has been read once, and so much was seen of them.
    Synced(Completeness),
    /// The token hides something that was known. Ends with the next `Synced`.
    Hidden,
    /// The source confirmed that the scope is followed.
    Confirmed,
}

/// Whether the scope answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It does, or nothing else is known.
    Up,
    /// A read failed: the list of names is read to see whether all would.
    Probing,
    /// It does not.
    Down,
}

/// How services are followed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A long poll each.
    Precise,
    /// When the doorbell rings.
    Doorbell,
}

/// For how long a server that had too much is spared long polls.
const SPARED: Duration = Duration::from_secs(600);

/// One scope.
#[derive(Debug, Clone)]
pub struct Machine {
    settings: Settings,
    policy: Arc<Policy>,
    reach: Reach,
    mode: Mode,
    spared_until: Option<Mono>,
    names: Watch<Names>,
    checks: Watch<Marks>,
    /// The names that were listed last.
    listed: Arc<BTreeMap<Arc<str>, u64>>,
    /// Each on its own: in the tree's nodes, of which half is room, they would take twice as much.
    slots: BTreeMap<u32, Box<Slot>>,
    by_name: BTreeMap<Arc<str>, u32>,
    by_key: HashMap<u64, u32>,
    next_slot: u32,
    /// Slots that have not been read yet.
    unread: usize,
    /// How the services are seen.
    sights: Sights,
    /// When the leader is asked again about services that may be gone.
    rechecks: BTreeSet<(Mono, u32)>,
    /// Whether the scope itself was not found.
    absent: bool,
    gate: RequestLimiter,
    doorbell: NotifyAndFetch,
    server: usize,
    /// Who the token was, and what it could, when it was seen first.
    token: Option<u64>,
    next_names: Option<Mono>,
    listing: Option<Listing>,
    last_success: Option<Mono>,
    overloads: u64,
    /// How long the server that answered last had not heard from its leader.
    lag: Duration,
}

impl Machine {
    /// A scope that has not begun.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let policy = Arc::new(settings.policy());
        let follow = if settings.peer { Follow::Demand } else { Follow::Poll };
        Self {
            reach: Reach::Up,
            mode: Mode::Precise,
            spared_until: None,
            names: Watch::new(Arc::clone(&policy), follow),
            checks: Watch::new(notify_and_fetch::policy(*policy), Follow::Poll),
            policy,
            listed: Arc::default(),
            slots: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_key: HashMap::new(),
            next_slot: 0,
            unread: 0,
            sights: Sights::default(),
            rechecks: BTreeSet::new(),
            absent: false,
            gate: RequestLimiter::new(&settings.limits),
            doorbell: NotifyAndFetch::default(),
            server: 0,
            token: None,
            next_names: None,
            listing: None,
            last_success: None,
            overloads: 0,
            lag: Duration::ZERO,
            settings,
        }
    }
    /// How services are followed.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }
    /// How many requests are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.gate.under_way()
    }
    /// One step. `chance` is from 0 up to, not including, 1.
    #[must_use]
    pub fn step(&mut self, now: Mono, chance: f64, input: Input) -> Vec<Output> {
        let mut turn = Turn { now, chance, answered: false, out: Vec::new() };
        match input {
            Input::Started => self.started(&mut turn),
            Input::Replied(number, reply) => self.replied(number, reply, &mut turn),
            Input::Asked(service) => self.asked(&service, &mut turn),
            Input::NamesAsked => self.drive_names(Event::Confirm, &mut turn),
            Input::TokenChanged => self.switched(true, &mut turn),
            Input::Tick => {}
        }
        self.poll_names(&mut turn);
        self.tick_doorbell(&mut turn);
        self.recheck(&mut turn);
        self.pump(&mut turn);
        self.notice_listing(&mut turn);
        turn.out
    }
    /// When it is to be stepped again, whatever happens before.
    #[must_use]
    pub fn due(&self, now: Mono) -> Option<Mono> {
        let recheck = self.rechecks.first().map(|(at, _)| *at);
        let gate = self.gate.due(now, self.reach == Reach::Up);
        let times = [gate, self.doorbell_due(), self.next_names, recheck];
        times.into_iter().flatten().min()
    }

    fn started(&mut self, turn: &mut Turn) {
        if self.settings.has_token {
            self.read_token(turn);
        }
        self.drive_names(Event::Started, turn);
    }

    fn replied(&mut self, number: u64, reply: Result<Answer, RequestFailure>, turn: &mut Turn) {
        let Some(begun) = self.gate.done(number) else { return };
        if reply.is_ok() {
            self.last_success = Some(turn.now);
            self.gate.went_well();
        } else if matches!(reply, Err(RequestFailure::Overload)) {
            self.overloads += 1;
        }
        match (begun.id, reply) {
            (LoopId::Names, reply) => self.names_replied(begun.ticket, reply, turn),
            (LoopId::Token, Ok(Answer::Token(token))) => {
                self.token.get_or_insert(token);
            }
            (LoopId::Token, _) => {}
            (id, Ok(Answer::Token(token))) => self.token_checked(id, begun.ticket, Some(token), turn),
            (LoopId::Checks, Ok(Answer::Checks(headers, marks))) => {
                self.drive_checks(Event::Answered(begun.ticket, headers, marks), turn);
            }
            (LoopId::Service(slot), Ok(Answer::Service(headers, instances))) => {
                self.drive_service(slot, Event::Answered(begun.ticket, headers, instances), turn);
            }
            (id, reply) => {
                self.loop_failed(id, begun.ticket, reply.err().unwrap_or(RequestFailure::Broken), turn)
            }
        }
    }

    fn loop_failed(&mut self, id: LoopId, ticket: Ticket, failure: RequestFailure, turn: &mut Turn) {
        match id {
            LoopId::Checks => self.drive_checks(Event::Failed(ticket, failure), turn),
            LoopId::Service(slot) => {
                self.drive_service(slot, Event::Failed(ticket, failure), turn);
                self.pass_over(slot, failure);
            }
            LoopId::Names | LoopId::Token => return,
        }
        if matches!(failure, RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Auth) {
            self.suspect(turn);
        }
    }

    /// What a loop wants done, except for what it says.
    fn carry<C>(&mut self, id: LoopId, actions: Vec<Action<C>>, turn: &mut Turn) -> Vec<(C, Confidence)> {
        let mut said = Vec::new();
        for action in actions {
            match action {
                Action::Cancel(ticket) => turn.out.extend(self.gate.cancel(id, ticket).map(Output::Cancel)),
                Action::Read(read) => self.gate.want(turn.now, id, read),
                Action::CheckToken(ticket) => self.check_token(id, ticket, turn),
                Action::RereadToken => turn.out.push(Output::RereadToken),
                Action::Ease => self.ease(turn),
                Action::Say(content, word) => said.push((content, word)),
                Action::State(_) => {}
            }
        }
        said
    }

    /// Less at a time; and no long poll per service for a while.
    fn ease(&mut self, turn: &Turn) {
        self.gate.ease();
        if self.settings.mode == ModeChoice::Auto {
            self.spared_until = Some(turn.now.plus(SPARED));
        }
    }

    fn read_token(&mut self, turn: &mut Turn) {
        let number = self.gate.begin(LoopId::Token, Ticket(0), false);
        turn.out.push(Output::Send(self.request(number, What::Token, self.settings.timing.grace)));
    }

    /// Without a token there is nothing that could vouch for what is hidden.
    fn check_token(&mut self, id: LoopId, ticket: Ticket, turn: &mut Turn) {
        if self.settings.has_token {
            let number = self.gate.begin(id, ticket, false);
            turn.out.push(Output::Send(self.request(number, What::Token, self.settings.timing.grace)));
        } else {
            self.token_checked(id, ticket, None, turn);
        }
    }

    fn token_checked(&mut self, id: LoopId, ticket: Ticket, token: Option<u64>, turn: &mut Turn) {
        let same = token.is_some() && token == self.token;
        if self.token.is_none() {
            self.token = token;
        }
        match id {
            LoopId::Names => self.drive_names(Event::TokenChecked(ticket, same), turn),
            LoopId::Checks => self.drive_checks(Event::TokenChecked(ticket, same), turn),
            LoopId::Service(slot) => self.drive_service(slot, Event::TokenChecked(ticket, same), turn),
            LoopId::Token => {}
        }
    }

    /// Another server or another token: every loop begins without an index.
    fn switched(&mut self, token: bool, turn: &mut Turn) {
        if token {
            self.token = None;
            self.read_token(turn);
            self.drive_names(Event::Switched { token }, turn);
        }
        self.drive_checks(Event::Switched { token }, turn);
        let slots: Vec<u32> = self.slots.keys().copied().collect();
        for slot in slots {
            self.drive_service(slot, Event::Switched { token }, turn);
        }
        self.doorbell.sweep_soon();
    }

    fn request(&self, number: u64, what: What, timeout: Duration) -> Request {
        Request { number, what, server: self.server, mode: ReadMode::Any, timeout, skip: None }
    }

    /// Begins whatever may begin.
    fn pump(&mut self, turn: &mut Turn) {
        self.gate.tick(turn.now);
        while let Some((number, id, read)) = self.gate.next(turn.now, self.reach == Reach::Up) {
            let Read { mode, timeout, skip, .. } = read;
            let what = match id {
                LoopId::Names => What::Names,
                LoopId::Checks => What::Checks,
                LoopId::Token => What::Token,
                LoopId::Service(slot) => match self.slots.get(&slot) {
                    Some(slot) => What::Service(Arc::clone(&slot.name)),
                    None => continue,
                },
            };
            turn.out.push(Output::Send(Request { mode, skip, ..self.request(number, what, timeout) }));
        }
    }
}

impl Settings {
    fn policy(&self) -> Policy {
        Policy { timing: self.timing, has_token: self.has_token, ..Policy::default() }
    }
}

/// One step under way.
struct Turn {
    now: Mono,
    chance: f64,
    /// Whether the list of names was answered.
    answered: bool,
    out: Vec<Output>,
}
