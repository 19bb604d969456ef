//! Follows one scope (datacenter, partition, namespace, peer) as a whole, as a pure step: which names exist, which
//! services are read and when, and what is reported.
//!
//! The run loop owns it, carries out each [`Output`], and passes each result as [`Input`] with the time and a random
//! number. A scope fails as one: while its list of names cannot be read, nothing else is requested; afterwards reads
//! resume at the pace of the request limiter. Reports about one service keep their order.
//!
//! A service has a long poll of its own while the poll budget lasts. The others are followed by *notify and fetch*:
//! two long polls (names and checks), one read for each service that they report as changed, and a full pass that
//! reads each of them at intervals.

mod catalog_moves;
mod listing;
mod names;
mod notify_and_fetch;
mod poll_budget;
mod poll_limit;
mod proof;
mod report;
mod request_limiter;
mod services;
#[cfg(test)]
mod tests;
mod token_identity;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Completeness, Mono};

use crate::answer::{Headers, RequestFailure};
use crate::config::{Limits, Timing};
use crate::content::{CheckStates, Instances, Listed, Names};
use crate::watch::{Action, Confidence, Event, Follow, Mode as ReadMode, Policy, Read, Ticket, Watch};
use listing::{Listing, TokenViews};
use notify_and_fetch::NotifyAndFetch;
use poll_budget::PollBudget;
pub use report::{Mode, Report};
use request_limiter::RequestLimiter;
use services::ServiceLoop;
use token_identity::TokenIdentity;

/// Settings of a scope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Waits and pauses.
    pub timing: Timing,
    /// Limits on concurrency and rate.
    pub limits: Limits,
    /// Poll budget: the maximum number of services with a long poll, this scope's share of the connections.
    pub polls: usize,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Number of addresses.
    pub servers: usize,
    /// Whether names come from a peer, whose list does not support blocking queries.
    pub peer: bool,
}

/// Loop of a scope. Names sort first, so that they never wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopId {
    /// List of names.
    Names,
    /// All checks, while a service has no long poll.
    Checks,
    /// The token's own record.
    Token,
    /// One service.
    Service(u32),
}

/// Object of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestTarget {
    /// Names of services.
    Names,
    /// States of all checks.
    Checks,
    /// Identity and policies of the token.
    Token,
    /// Instances of a service.
    Service(Arc<str>),
}

/// Request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Number of the request; each is used once.
    pub number: u64,
    /// Object.
    pub target: RequestTarget,
    /// Index of the address.
    pub server: usize,
    /// Read mode.
    pub mode: ReadMode,
    /// Time limit.
    pub timeout: Duration,
    /// Index whose answer need not be decoded.
    pub skip: Option<u64>,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Names.
    Names(Headers, Option<Names>),
    /// Checks.
    Checks(Headers, Option<CheckStates>),
    /// Instances.
    Service(Headers, Option<Instances>),
    /// Hash of the token's identity and policies; `None` if requests are anonymous.
    Token(Option<u64>),
}

/// Input of a scope.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The scope starts.
    Started,
    /// A request was answered or failed.
    Replied(u64, Result<Answer, RequestFailure>),
    /// The core requests confirmation of what exists of a service.
    ConfirmRequested(Arc<str>),
    /// The run loop requests the leader's list of names.
    NamesRequested,
    /// A new token applies.
    TokenChanged,
    /// The poll budget changed.
    Polls(usize),
    /// Time has passed.
    Tick,
}

/// Output of a scope.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this request.
    Send(Request),
    /// Abort the request with this number.
    Cancel(u64),
    /// Read the token from its source again.
    RereadToken,
    /// The instances of a service changed or became more certain.
    Report(Arc<str>, Instances, Confidence),
    /// A list of names lacks a service that was listed.
    Gone(Arc<str>, Confidence),
    /// Every service has been read once, with this completeness.
    Synced(Completeness),
    /// The token hides something that was known. The next `Synced` ends this.
    Hidden,
    /// The source confirmed that the scope is followed.
    Confirmed,
}

/// Whether the scope answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It answers, or its state is unknown.
    Up,
    /// A read failed: the list of names is read to find out whether the scope is down.
    Probing,
    /// It does not answer.
    Down,
}

/// State machine of one scope.
#[derive(Debug, Clone)]
pub struct Machine {
    settings: Settings,
    policy: Arc<Policy>,
    reach: Reach,
    names: Watch<Names>,
    /// `None` while every service has a long poll.
    checks: Option<Watch<CheckStates>>,
    /// Names in the last list.
    listed: Arc<BTreeMap<Arc<str>, Listed>>,
    /// Boxed, because tree nodes are half empty and would need twice the memory.
    services: BTreeMap<u32, Box<ServiceLoop>>,
    by_name: BTreeMap<Arc<str>, u32>,
    by_key: HashMap<u64, u32>,
    next_id: u32,
    /// Services that have not been read yet.
    unread: usize,
    /// Counts of services by how much the token shows.
    views: TokenViews,
    /// Times of the next leader read about services that may be gone.
    rechecks: BTreeSet<(Mono, u32)>,
    /// Whether the scope itself was not found.
    absent: bool,
    limiter: RequestLimiter,
    budget: PollBudget,
    notify: NotifyAndFetch,
    server: usize,
    token: TokenIdentity,
    next_names: Option<Mono>,
    listing: Option<Listing>,
    last_success: Option<Mono>,
    overloads: u64,
    /// Age of the last answering server's contact with its leader.
    lag: Duration,
}

impl Machine {
    /// Creates a machine that has not started.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let policy = Arc::new(settings.policy());
        let follow = if settings.peer { Follow::Demand } else { Follow::Poll };
        Self {
            reach: Reach::Up,
            names: Watch::new(Arc::clone(&policy), follow),
            checks: None,
            policy,
            listed: Arc::default(),
            services: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_key: HashMap::new(),
            next_id: 0,
            unread: 0,
            views: TokenViews::default(),
            rechecks: BTreeSet::new(),
            absent: false,
            limiter: RequestLimiter::new(&settings),
            budget: PollBudget::default(),
            notify: NotifyAndFetch::default(),
            server: 0,
            token: TokenIdentity::new(settings.has_token),
            next_names: None,
            listing: None,
            last_success: None,
            overloads: 0,
            lag: Duration::ZERO,
            settings,
        }
    }
    /// Returns the number of requests under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.limiter.under_way()
    }
    /// Performs one step. `random` is in the range from 0 to 1, excluding 1.
    #[must_use]
    pub fn step(&mut self, now: Mono, random: f64, input: Input) -> Vec<Output> {
        let mut cx = StepContext { now, random, answered: false, out: Vec::new() };
        match input {
            Input::Started => self.started(&mut cx),
            Input::Replied(number, reply) => self.replied(number, reply, &mut cx),
            Input::ConfirmRequested(service) => self.confirm_requested(&service, &mut cx),
            Input::NamesRequested => self.drive_names(Event::ReadLeader, &mut cx),
            Input::TokenChanged => self.switched(true, &mut cx),
            Input::Polls(most) => self.limiter.share_polls(most),
            Input::Tick => {}
        }
        self.poll_names(&mut cx);
        self.share_out_polls(&mut cx);
        self.tick_notify(&mut cx);
        self.recheck(&mut cx);
        self.start_reads(&mut cx);
        self.notice_listing(&mut cx);
        cx.out
    }
    /// Returns when the next step is due without an input.
    #[must_use]
    pub fn due(&self, now: Mono) -> Option<Mono> {
        let recheck = self.rechecks.first().map(|(at, _)| *at);
        let limiter = self.limiter.due(now, self.reach == Reach::Up);
        let times = [limiter, self.notify_due(), self.next_names, recheck];
        times.into_iter().flatten().min()
    }

    fn started(&mut self, cx: &mut StepContext) {
        if self.settings.has_token {
            self.read_token(cx);
        }
        self.drive_names(Event::Started, cx);
    }

    fn replied(&mut self, number: u64, reply: Result<Answer, RequestFailure>, cx: &mut StepContext) {
        let Some(begun) = self.limiter.done(number) else { return };
        if reply.is_ok() {
            self.last_success = Some(cx.now);
            self.limiter.went_well();
        } else if matches!(reply, Err(RequestFailure::Overload)) {
            self.overloads += 1;
        }
        match (begun.id, reply) {
            (LoopId::Names, reply) => self.names_replied(begun.ticket, reply, cx),
            (LoopId::Token, Ok(Answer::Token(token))) => self.token.learn(token),
            (LoopId::Token, _) => {}
            (id, Ok(Answer::Token(token))) => self.token_checked(id, begun.ticket, token, cx),
            (LoopId::Checks, Ok(Answer::Checks(headers, marks))) => {
                self.drive_checks(Event::Answered(begun.ticket, headers, marks), cx);
            }
            (LoopId::Service(id), Ok(Answer::Service(headers, instances))) => {
                self.drive_service(id, Event::Answered(begun.ticket, headers, instances), cx);
            }
            (id, reply) => {
                self.loop_failed(id, begun.ticket, reply.err().unwrap_or(RequestFailure::Broken), cx)
            }
        }
    }

    fn loop_failed(&mut self, id: LoopId, ticket: Ticket, failure: RequestFailure, cx: &mut StepContext) {
        match id {
            LoopId::Checks => self.drive_checks(Event::Failed(ticket, failure), cx),
            LoopId::Service(id) => {
                self.drive_service(id, Event::Failed(ticket, failure), cx);
                self.stop_waiting_for(id, failure);
            }
            LoopId::Names | LoopId::Token => return,
        }
        if matches!(failure, RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Auth) {
            self.suspect(cx);
        }
    }

    /// Carries out a loop's actions and returns what it reports.
    fn perform<C>(
        &mut self,
        id: LoopId,
        actions: Vec<Action<C>>,
        cx: &mut StepContext,
    ) -> Vec<(C, Confidence)> {
        let mut reports = Vec::new();
        for action in actions {
            match action {
                Action::Cancel(ticket) => cx.out.extend(self.limiter.cancel(id, ticket).map(Output::Cancel)),
                Action::Read(read) => self.limiter.want(cx.now, id, read),
                Action::CheckToken(ticket) => self.check_token(id, ticket, cx),
                Action::RereadToken => cx.out.push(Output::RereadToken),
                Action::Ease => self.limiter.ease(cx.now, self.budget.polled()),
                Action::Report(content, confidence) => reports.push((content, confidence)),
                Action::State(_) => {}
            }
        }
        reports
    }

    fn read_token(&mut self, cx: &mut StepContext) {
        let number = self.limiter.begin(LoopId::Token, Ticket(0), false);
        cx.out.push(Output::Send(self.request(number, RequestTarget::Token, self.settings.timing.grace)));
    }

    /// Checks the token. Without one nothing can confirm what is hidden.
    fn check_token(&mut self, id: LoopId, ticket: Ticket, cx: &mut StepContext) {
        if self.token.is_comparable() {
            let number = self.limiter.begin(id, ticket, false);
            cx.out.push(Output::Send(self.request(number, RequestTarget::Token, self.settings.timing.grace)));
        } else {
            self.token_checked(id, ticket, None, cx);
        }
    }

    fn token_checked(&mut self, id: LoopId, ticket: Ticket, token: Option<u64>, cx: &mut StepContext) {
        let check = self.token.compare(token);
        match id {
            LoopId::Names => self.drive_names(Event::TokenChecked(ticket, check), cx),
            LoopId::Checks => self.drive_checks(Event::TokenChecked(ticket, check), cx),
            LoopId::Service(id) => self.drive_service(id, Event::TokenChecked(ticket, check), cx),
            LoopId::Token => {}
        }
    }

    /// Restarts every loop without an index, because the server or the token changed.
    fn switched(&mut self, token: bool, cx: &mut StepContext) {
        if token {
            if self.token.forget() {
                self.read_token(cx);
            }
            self.drive_names(Event::Switched { token }, cx);
        }
        self.drive_checks(Event::Switched { token }, cx);
        let ids: Vec<u32> = self.services.keys().copied().collect();
        for id in ids {
            self.drive_service(id, Event::Switched { token }, cx);
        }
        self.notify.full_pass_soon();
    }

    fn request(&self, number: u64, target: RequestTarget, timeout: Duration) -> Request {
        Request { number, target, server: self.server, mode: ReadMode::Any, timeout, skip: None }
    }

    /// Starts all reads that may start.
    fn start_reads(&mut self, cx: &mut StepContext) {
        self.limiter.tick(cx.now);
        while let Some((number, id, read)) = self.limiter.next(cx.now, self.reach == Reach::Up) {
            let Read { mode, timeout, skip, .. } = read;
            let target = match id {
                LoopId::Names => RequestTarget::Names,
                LoopId::Checks => RequestTarget::Checks,
                LoopId::Token => RequestTarget::Token,
                LoopId::Service(id) => match self.services.get(&id) {
                    Some(service) => RequestTarget::Service(Arc::clone(&service.name)),
                    None => continue,
                },
            };
            cx.out.push(Output::Send(Request { mode, skip, ..self.request(number, target, timeout) }));
        }
    }
}

impl Settings {
    fn policy(&self) -> Policy {
        Policy { timing: self.timing, has_token: self.has_token, ..Policy::default() }
    }
}

/// Context of one step.
struct StepContext {
    now: Mono,
    random: f64,
    /// Whether the list of names was answered.
    answered: bool,
    out: Vec<Output>,
}
