//! The rim: sends what the scopes' machines ask for, tells them what came back and what time it is, and says on what
//! they say. It decides nothing.
//!
//! One task per run, with a task for each request under way; all end when it is dropped. What one scope says reaches
//! the core in the order of its steps.

mod discover;
mod fetch;
mod lists;
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
use crate::map::Pool;
use crate::map::name::Tenancy;
use crate::modes::{Answer, Input, Output, Request, What};
use crate::token::Token;
use discover::Discovered;
use fetch::Fetch;
pub(crate) use parts::configured;
use scope_run::{Begun, ScopeRun, collections};
use withhold::Lists;

/// How often a scope's status is told at least, and what changes slowly at most.
const STATUS: Duration = Duration::from_secs(5);
/// How long a refused token is not looked at again.
const REREAD: Duration = Duration::from_secs(5);

/// What a task has come to.
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
    /// Scopes of which facts are held from earlier runs; they are followed whatever lists name.
    held: BTreeSet<Tenancy>,
    chance: SplitMix,
    token: Arc<Mutex<Token>>,
    pool: Pool,
    places: BTreeMap<usize, ScopeRun>,
    /// Each number is used once, so that an answer to a scope that ended reaches no other scope.
    next_place: usize,
    by_scope: BTreeMap<Scope, usize>,
    tasks: JoinSet<Done>,
    discovery: Backoff,
    discover_at: Option<Instant>,
    discovered: bool,
    /// The datacenters whose lists of scopes are asked for.
    listed: BTreeMap<String, Lists>,
    /// What has been said once of lists that this Consul does not have.
    without: BTreeSet<String>,
    files_at: Instant,
    status_at: Instant,
    token_busy: bool,
    token_at: Option<Instant>,
    token_refused: Instant,
    token_fault: Option<Reason>,
    /// Why certificates cannot be read again; those that were read are used.
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
            chance: SplitMix::seeded(seed),
            token: Arc::new(Mutex::new(Token::new(config.auth.token.clone()))),
            pool: Pool::default(),
            places: BTreeMap::new(),
            next_place: 0,
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

    /// Runs until it is stopped or nobody listens any more.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), RegistryError> {
        self.announce();
        self.look_at_token(false);
        while !self.out.is_closed() {
            let due = self.due();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                key = self.confirms.next() => self.asked(&key),
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

    /// Says what must be known before this registry counts, as far as that is known itself.
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
            Ok(Done::Reply(place, number, reply)) => self.replied(place, number, reply),
            Ok(Done::Token(looked)) => self.token_looked(looked),
            Ok(Done::Discovered(Ok(found))) => self.discovered(&found)?,
            Ok(Done::Discovered(Err(fault))) => self.undiscovered(&fault),
            Err(error) if error.is_cancelled() => {}
            Err(_) => return Err(RegistryError::retryable("a request ended in a panic")),
        }
        Ok(())
    }

    fn replied(&mut self, place: usize, number: u64, reply: Result<Answer, Fault>) {
        let Some(known) = self.places.get_mut(&place) else { return };
        let begun = known.under_way.remove(&number);
        if let Some(name) = begun.and_then(|begun| begun.service) {
            let mut said = Vec::new();
            known.note_answer(&name, reply.as_ref().err(), &mut said);
            if !said.is_empty() {
                self.out.send_all(said);
            }
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
        self.step(place, Input::Replied(number, reply));
    }

    fn asked(&mut self, key: &FactKey) {
        let name = match &key.item {
            FactId::Service(decl) => &decl.object.name,
            FactId::Group(group) => &group.object.name,
            FactId::Workload(_)
            | FactId::Gateway(_)
            | FactId::Settings
            | FactId::Alias(_)
            | FactId::Waiting(_) => {
                return;
            }
        };
        // all that was known of a scope that has ended is gone with it
        if let Some(place) = self.by_scope.get(&key.scope) {
            self.step(*place, Input::Asked(Arc::clone(name)));
        }
    }

    fn step(&mut self, place: usize, input: Input) {
        let (now, chance) = (self.now(), self.chance.unit());
        let Some(known) = self.places.get_mut(&place) else { return };
        let outputs = known.machine.step(now, chance, input);
        let mut said = Vec::new();
        let mut reread = false;
        for output in outputs {
            match output {
                Output::Send(request) => send(&mut self.tasks, known, place, request),
                Output::Cancel(number) => {
                    if let Some(begun) = known.under_way.remove(&number) {
                        begun.task.abort();
                    }
                }
                Output::RereadToken => reread = true,
                other => known.say(other, &self.config.mapping, &mut self.pool, &mut said),
            }
        }
        if !said.is_empty() {
            self.out.send_all(said);
        }
        if reread && self.token_refused <= Instant::now() {
            self.token_refused = Instant::now() + REREAD;
            self.look_at_token(true);
        }
    }

    /// When something is to be done without anything having come.
    fn due(&self) -> Instant {
        let now = self.now();
        let machines = self.places.values().filter_map(|place| place.machine.due(now));
        let machines = machines.min().map(|at| self.start + Duration::from_millis(at.0));
        let times = [machines, self.discover_at, self.token_at, Some(self.files_at), Some(self.status_at)];
        times.into_iter().flatten().min().unwrap_or(self.files_at)
    }

    fn tick(&mut self) -> Result<(), RegistryError> {
        let now = self.now();
        let is_due = |place: &ScopeRun| place.machine.due(now).is_some_and(|due| due <= now);
        let due = self.places.iter().filter(|(_, place)| is_due(place)).map(|(at, _)| *at);
        for place in due.collect::<Vec<_>>() {
            self.step(place, Input::Tick);
        }
        let now = Instant::now();
        if self.discover_at.is_some_and(|at| at <= now) {
            self.discover_at = None;
            self.tasks.spawn(discover::discover(self.client.clone(), Arc::clone(&self.config)));
        }
        if self.token_at.is_some_and(|at| at <= now) {
            self.token_at = None;
            self.look_at_token(false);
        }
        if self.files_at <= now {
            self.files_at = now + self.config.timing.files;
            self.look_at_files();
        }
        self.withhold();
        self.tell_status(now);
        Ok(())
    }

    fn look_at_files(&mut self) {
        let own = std::iter::once(&self.client);
        let apart = self.places.values().map(|place| &place.fetch.client).filter(|one| !one.is(&self.client));
        // a file that is being written is read again the next time; a fault of one keeps none of the others waiting
        let faults = own.chain(apart).filter_map(|client| client.reload(&self.config).err());
        let fault = faults.reduce(|first, _| first);
        let fault = fault.map(|error| Reason::new(format!("keeps the certificates that it has: {error}")));
        if self.files_fault != fault {
            if let Some(fault) = &fault {
                tracing::warn!("{fault}");
            }
            (self.files_fault, self.status_at) = (fault, Instant::now());
        }
        self.look_at_token(false);
    }

    fn look_at_token(&mut self, refused: bool) {
        if std::mem::replace(&mut self.token_busy, true) {
            return;
        }
        let (token, client) = (Arc::clone(&self.token), self.client.clone());
        self.tasks.spawn(async move {
            Done::Token(token.lock().await.refresh(&client, jiff::Timestamp::now(), refused).await)
        });
    }

    /// The first look lets everything begin; a token that is another one makes everything begin anew.
    fn token_looked(&mut self, looked: Result<bool, Fault>) {
        self.token_busy = false;
        let begun = self.discovered || self.discover_at.is_some();
        match looked {
            Ok(changed) => {
                if self.token_fault.take().is_some() {
                    self.status_at = Instant::now();
                }
                if !begun {
                    self.discover_at = Some(Instant::now());
                } else if changed {
                    self.share_token();
                    let places: Vec<usize> = self.places.keys().copied().collect();
                    places.into_iter().for_each(|place| self.step(place, Input::TokenChanged));
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

fn send(tasks: &mut JoinSet<Done>, place: &mut ScopeRun, at: usize, request: Request) {
    let (fetch, number): (Fetch, u64) = (place.fetch.clone(), request.number);
    let service = match &request.what {
        What::Service(name) => Some(Arc::clone(name)),
        What::Names | What::Checks | What::Token => None,
    };
    let task = tasks.spawn(async move { Done::Reply(at, number, fetch.run(request).await) });
    place.under_way.insert(number, Begun { task, service });
}
