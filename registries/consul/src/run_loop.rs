//! Run loop: sends the requests of the scopes' machines, passes the answers and the time to them, and sends their
//! reports to the core. It makes no decisions.
//!
//! One task per run, plus one task per request under way; all end when it is dropped. Reports of one scope reach the
//! core in the order of its steps.

mod discover;
mod fetch;
mod lists;
mod mesh;
mod parts;
mod scope_run;
mod scopes;
mod status;
mod withhold;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tributary_model::{FactId, FactKey, Mono, RegistryUpdate, Scope};
use tributary_registry_api::{
    Backoff, BackoffPolicy, CancellationToken, ConfirmReceiver, RandomSource, Reason, RegistryError,
    RegistryIo, SplitMix, UpdateSender,
};

use crate::client::{Client, Fault};
use crate::config::ConsulConfig;
use crate::machine::{Answer, Input, Output, Request, RequestTarget};
use crate::map::Interner;
use crate::map::name::Tenancy;
use crate::token::Token;
use discover::Discovered;
use fetch::Fetch;
pub(crate) use parts::configured;
use scope_run::{Begun, ScopeRun, collections};
use withhold::Lists;

/// Result of a task.
enum Done {
    Reply(usize, u64, Result<Answer, Fault>),
    Token(Result<bool, Fault>),
    Discovered(Result<Discovered, Fault>),
}

/// One run.
pub(crate) struct RunLoop {
    config: Arc<ConsulConfig>,
    client: Client,
    out: UpdateSender,
    confirms: ConfirmReceiver,
    start: Instant,
    /// Scopes with facts from earlier runs; they are followed even if no list names them.
    held: BTreeSet<Tenancy>,
    random: SplitMix,
    token: Arc<Mutex<Token>>,
    interner: Interner,
    runs: BTreeMap<usize, ScopeRun>,
    /// Number of the next scope. Each is used once, so that an answer to an ended scope reaches no other.
    next_run: usize,
    by_scope: BTreeMap<Scope, usize>,
    tasks: JoinSet<Done>,
    discovery: Backoff,
    discover_at: Option<Instant>,
    discovered: bool,
    /// Datacenters whose lists of scopes are polled.
    listed: BTreeMap<String, Lists>,
    /// Lists that this Consul lacks and that were logged.
    without: BTreeSet<String>,
    files_at: Instant,
    status_at: Instant,
    token_busy: bool,
    token_at: Option<Instant>,
    token_refused: Instant,
    token_fault: Option<Reason>,
    /// Why the certificates cannot be read again; the previous ones stay in use.
    files_fault: Option<Reason>,
}

impl RunLoop {
    pub(crate) fn new(config: Arc<ConsulConfig>, client: Client, io: RegistryIo, seed: u64) -> Self {
        let now = Instant::now();
        let policy = BackoffPolicy {
            first: config.timing.pause_first,
            cap: config.timing.pause_most,
            ..BackoffPolicy::default()
        };
        Self {
            client,
            out: io.out,
            confirms: io.confirms,
            start: now,
            held: parts::held(&config, &io.held),
            random: SplitMix::seeded(seed),
            token: Arc::new(Mutex::new(Token::new(config.auth.token.clone()))),
            interner: Interner::default(),
            runs: BTreeMap::new(),
            next_run: 0,
            by_scope: BTreeMap::new(),
            tasks: JoinSet::new(),
            discovery: Backoff::new(policy),
            discover_at: None,
            discovered: false,
            listed: BTreeMap::new(),
            without: BTreeSet::new(),
            files_at: now + config.timing.files,
            status_at: now,
            token_busy: false,
            token_at: None,
            token_refused: now,
            token_fault: None,
            files_fault: None,
            config,
        }
    }

    /// Runs until it is stopped or the receiver is closed.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), RegistryError> {
        self.announce();
        self.read_token(false);
        while !self.out.is_closed() {
            let due = self.due();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                key = self.confirms.next() => self.confirm_requested(&key),
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.done(done)?,
                () = sleep_until(due) => {}
            }
            self.tick()?;
        }
        Ok(())
    }

    fn now(&self) -> Mono {
        Mono::from_elapsed(self.start.elapsed())
    }

    /// Reports the collections that must be listed before this registry counts, as far as they are known.
    fn announce(&self) {
        let scopes = parts::configured(&self.config).unwrap_or_default();
        let scopes = scopes.iter().filter(|scope| parts::part_of(scope).is_some());
        let directory = parts::directory();
        let required = directory.iter().chain(scopes).flat_map(collections).collect();
        let held = self.held.iter().filter_map(|part| parts::scope(part).ok());
        let optional = held.flat_map(|scope| collections(&scope)).collect();
        self.out.send(RegistryUpdate::Follows { required, optional });
    }

    fn done(&mut self, done: Result<Done, JoinError>) -> Result<(), RegistryError> {
        match done {
            Ok(Done::Reply(run, number, reply)) => self.replied(run, number, reply),
            Ok(Done::Token(result)) => self.token_read(result),
            Ok(Done::Discovered(Ok(found))) => self.discovered(&found)?,
            Ok(Done::Discovered(Err(fault))) => self.undiscovered(&fault),
            Err(error) if error.is_cancelled() => {}
            Err(_) => return Err(RegistryError::retryable("a request ended in a panic")),
        }
        Ok(())
    }

    fn replied(&mut self, run: usize, number: u64, reply: Result<Answer, Fault>) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        let begun = known.under_way.remove(&number);
        let mut updates = Vec::new();
        if let Some(name) = begun.and_then(|begun| begun.service) {
            known.note_answer(&name, reply.as_ref().err(), &mut updates);
        }
        if let Ok(Answer::Names(_, Some(names))) = &reply {
            known.note_sidecars(names, &self.config.mapping, &mut updates);
        }
        if !updates.is_empty() {
            self.out.send_all(updates);
        }
        let reply = match reply {
            Ok(answer) => {
                known.fault = None;
                Ok(answer)
            }
            Err(fault) => {
                known.fault = Some(fault.reason);
                Err(fault.failure)
            }
        };
        self.step(run, Input::Replied(number, reply));
    }

    fn confirm_requested(&mut self, key: &FactKey) {
        let name = match &key.item {
            FactId::Service(decl) => &decl.object.name,
            FactId::Group(group) => &group.object.name,
            FactId::Workload(_)
            | FactId::Gateway(_)
            | FactId::GatewayName(_)
            | FactId::Settings
            | FactId::FederatedService(_)
            | FactId::Waiting(_)
            | FactId::Policy(_) => {
                return;
            }
        };
        // an ended scope has no facts left
        if let Some(run) = self.by_scope.get(&key.scope) {
            self.step(*run, Input::ConfirmRequested(Arc::clone(name)));
        }
    }

    fn step(&mut self, run: usize, input: Input) {
        let (now, random) = (self.now(), self.random.unit());
        let Some(known) = self.runs.get_mut(&run) else { return };
        let outputs = known.machine.step(now, random, input);
        let mut updates = Vec::new();
        let mut reread = false;
        for output in outputs {
            match output {
                Output::Send(request) => send(&mut self.tasks, known, run, request),
                Output::Cancel(number) => {
                    if let Some(begun) = known.under_way.remove(&number) {
                        begun.task.abort();
                    }
                }
                Output::RereadToken => reread = true,
                other => known.convert(other, &self.config.mapping, &mut self.interner, &mut updates),
            }
        }
        if !updates.is_empty() {
            self.out.send_all(updates);
        }
        if reread && self.token_refused <= Instant::now() {
            self.token_refused = Instant::now() + self.config.timing.reread;
            self.read_token(true);
        }
    }

    /// Returns when the next tick is due.
    fn due(&self) -> Instant {
        let now = self.now();
        let machines = self.runs.values().filter_map(|run| run.machine.due(now));
        let machines = machines.min().map(|at| self.start + Duration::from_millis(at.0));
        let times = [machines, self.discover_at, self.token_at, Some(self.files_at), Some(self.status_at)];
        times.into_iter().flatten().min().unwrap_or(self.files_at)
    }

    fn tick(&mut self) -> Result<(), RegistryError> {
        let now = self.now();
        let is_due = |run: &ScopeRun| run.machine.due(now).is_some_and(|due| due <= now);
        let due = self.runs.iter().filter(|(_, run)| is_due(run)).map(|(at, _)| *at);
        for run in due.collect::<Vec<_>>() {
            self.step(run, Input::Tick);
        }
        let now = Instant::now();
        if self.discover_at.is_some_and(|at| at <= now) {
            self.discover_at = None;
            self.tasks.spawn(discover::discover(self.client.clone(), Arc::clone(&self.config)));
        }
        if self.token_at.is_some_and(|at| at <= now) {
            self.token_at = None;
            self.read_token(false);
        }
        if self.files_at <= now {
            self.files_at = now + self.config.timing.files;
            self.check_files();
        }
        self.withhold();
        if self.status_at <= now {
            self.share_polls();
        }
        self.report_status(now);
        Ok(())
    }

    fn check_files(&mut self) {
        let own = std::iter::once(&self.client);
        let others = self.runs.values().map(|run| &run.fetch.client).filter(|one| !one.is(&self.client));
        // a file that is being written is read again next time; a fault of one client does not stop the others
        let faults = own.chain(others).filter_map(|client| client.reload(&self.config).err());
        let fault = faults.reduce(|first, _| first);
        let fault = fault.map(|error| Reason::new(format!("the previous certificates stay in use: {error}")));
        if self.files_fault != fault {
            if let Some(fault) = &fault {
                tracing::warn!("{fault}");
            }
            (self.files_fault, self.status_at) = (fault, Instant::now());
        }
        self.read_token(false);
    }

    fn read_token(&mut self, refused: bool) {
        if std::mem::replace(&mut self.token_busy, true) {
            return;
        }
        let (token, client) = (Arc::clone(&self.token), self.client.clone());
        self.tasks.spawn(async move {
            Done::Token(token.lock().await.refresh(&client, jiff::Timestamp::now(), refused).await)
        });
    }

    /// Handles the result of a token read: the first one starts discovery, a changed token restarts every scope's
    /// loops.
    fn token_read(&mut self, result: Result<bool, Fault>) {
        self.token_busy = false;
        let begun = self.discovered || self.discover_at.is_some();
        match result {
            Ok(changed) => {
                if self.token_fault.take().is_some() {
                    self.status_at = Instant::now();
                }
                if !begun {
                    self.discover_at = Some(Instant::now());
                } else if changed {
                    self.share_token();
                    let runs: Vec<usize> = self.runs.keys().copied().collect();
                    runs.into_iter().for_each(|run| self.step(run, Input::TokenChanged));
                }
            }
            Err(fault) => {
                if self.token_fault.replace(fault.reason.clone()).is_none() {
                    self.status_at = Instant::now();
                }
                if !begun {
                    self.undiscovered(&fault);
                    self.token_at = self.discover_at.take();
                }
            }
        }
    }
}

fn send(tasks: &mut JoinSet<Done>, run: &mut ScopeRun, at: usize, request: Request) {
    let (fetch, number): (Fetch, u64) = (run.fetch.clone(), request.number);
    let service = match &request.target {
        RequestTarget::Service(name) => Some(Arc::clone(name)),
        RequestTarget::Names | RequestTarget::Checks | RequestTarget::Token => None,
    };
    let task = tasks.spawn(async move { Done::Reply(at, number, fetch.run(request).await) });
    run.under_way.insert(number, Begun { task, service });
}
