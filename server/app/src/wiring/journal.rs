//! The journal of the process: where it lies, what it gives back at start, and the runtime's way to it.
//!
//! Opened before anything runs, so that a directory of another process ends the start. What cannot be
//! opened for any other reason is left out with a warning: a server without memory serves all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_journal::{
    Journal, JournalOptions, JournalStats, Member, MemberOrigin, Now, RestoredRegistry, Restoring,
    StateChoice, StateDirectory, StateEnvironment, StateRefusal, choose_directory, refusal,
};
use tributary_model::{Code, Record, RegistryName, RegistrySpec, Timestamp, Version};
use tributary_registry_api::{Clock, RegistryFactory};
use tributary_runtime::{Handle, JournalSink, NoJournal, SnapshotRequest, SupervisorError};

use crate::config::Config;
use crate::config::model::RegistryConfig;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// The value of `stateDir` that keeps no journal.
const NONE: &str = "none";

/// The journal, where there is one.
#[derive(Debug, Clone)]
pub struct State {
    /// The directory that was chosen; `None` where none is wanted.
    pub directory: Option<PathBuf>,
    /// Why there is no journal although one is wanted.
    pub fault: Option<Arc<str>>,
    journal: Option<Arc<Journal>>,
    members: Arc<Mutex<BTreeMap<RegistryName, Member>>>,
}

/// What a journal gives back.
pub struct Kept {
    restoring: Option<Restoring>,
}

/// A configured registry as the journal remembers it.
pub struct Configured {
    /// What the core receives.
    pub spec: RegistrySpec,
    /// Its kind and source.
    pub member: Member,
}

impl Configured {
    /// The server's own configuration, which is a source of settings and aliases.
    #[must_use]
    pub fn own(spec: RegistrySpec) -> Self {
        let member = Member {
            id: (*spec.id).clone(),
            kind: "config".to_owned(),
            rank: spec.rank,
            scopes: spec.scopes.clone(),
            network: None,
            identity: None,
            origin: MemberOrigin::Flag,
            // its next list replaces all that it reported
            source_digest: Version(0),
            credential_from: String::new(),
        };
        Self { spec, member }
    }
    /// The registries that one entry of the configuration comes to.
    #[must_use]
    pub fn of(
        registry: &RegistryConfig,
        file: Option<&Path>,
        factories: &[Arc<dyn RegistryFactory>],
    ) -> Vec<Self> {
        let text = serde_json::to_vec(registry).unwrap_or_default();
        let digest = Version::of(&text);
        let origin =
            || file.map_or(MemberOrigin::Flag, |file| MemberOrigin::File(file.display().to_string()));
        let one = |factory: &Arc<dyn RegistryFactory>| {
            let spec = factory.spec();
            let member = Member {
                id: (*spec.id).clone(),
                kind: registry.kind.as_str().to_owned(),
                rank: spec.rank,
                scopes: spec.scopes.clone(),
                network: None,
                identity: None,
                origin: origin(),
                source_digest: digest,
                credential_from: credential_from(registry),
            };
            Self { spec, member }
        };
        factories.iter().map(one).collect()
    }
}

/// Where a registry's credential comes from; never the credential.
fn credential_from(registry: &RegistryConfig) -> String {
    let file = registry.kubeconfig.as_ref().or(registry.token_file.as_ref());
    file.map(|file| file.display().to_string()).unwrap_or_default()
}

impl State {
    /// No journal is kept.
    #[must_use]
    pub fn none() -> Self {
        Self { directory: None, fault: None, journal: None, members: Arc::default() }
    }

    /// Opens the journal that the configuration and the environment name. Reads the disk.
    pub fn open(
        config: &Config,
        env: &Environment,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Kept), CommandError> {
        if config.state_dir.as_deref() == Some(Path::new(NONE)) {
            return Ok((Self::none(), Kept { restoring: None }));
        }
        let choice = choose(config.state_dir.clone(), env);
        let directory = match StateDirectory::open(&choice.path) {
            Ok(directory) => directory,
            Err(error) => {
                return match refusal(&choice, error) {
                    StateRefusal::Refuse(error) => {
                        Err(CommandError::new(Exit::Failed, Code::STATE_UNUSABLE, error.to_string()))
                    }
                    StateRefusal::Without(error) => Ok(Self::without(choice, &error)),
                };
            }
        };
        let now = move || Now { mono: clock.now(), wall: Timestamp::now() };
        match Journal::open(directory, JournalOptions::default(), Arc::new(now)) {
            Ok((journal, restoring)) => {
                let path = choice.path.display().to_string();
                match &restoring.notice {
                    Some(notice) => tracing::warn!(directory = path, "{notice}"),
                    None => tracing::info!(directory = path, "state directory opened"),
                }
                let members = restoring.members.iter().map(|member| (member.id.name.clone(), member.clone()));
                let members = Arc::new(Mutex::new(members.collect()));
                let journal = Some(Arc::new(journal));
                let state = Self { directory: Some(choice.path), fault: None, journal, members };
                Ok((state, Kept { restoring: Some(restoring) }))
            }
            Err(error) => Ok(Self::without(choice, &error)),
        }
    }

    fn without(choice: StateChoice, error: &dyn std::fmt::Display) -> (Self, Kept) {
        let directory = choice.path.display().to_string();
        tracing::warn!(directory, code = %Code::STATE_UNUSABLE, %error, "starting without memory of what was served");
        let fault = Some(error.to_string().into());
        let state = Self { directory: Some(choice.path), fault, ..Self::none() };
        (state, Kept { restoring: None })
    }

    /// The runtime's way to the journal.
    #[must_use]
    pub fn sink(&self) -> Box<dyn JournalSink> {
        match &self.journal {
            Some(journal) => Box::new(Sink(Arc::clone(journal))),
            None => Box::new(NoJournal),
        }
    }
    /// What the journal counts; `None` without one.
    #[must_use]
    pub fn stats(&self) -> Option<JournalStats> {
        self.journal.as_ref().map(|journal| journal.stats())
    }
    /// Why nothing is remembered although it is wanted.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let closed = |stats: JournalStats| {
            (!stats.open).then(|| stats.last_error.unwrap_or_else(|| "the journal is not open".to_owned()))
        };
        self.fault.as_ref().map(ToString::to_string).or_else(|| self.stats().and_then(closed))
    }
    /// Remembers registries that run now.
    pub fn remember(&self, all: &[Configured]) {
        let Some(journal) = &self.journal else { return };
        for configured in all {
            journal.member(configured.member.clone());
            self.members.lock().insert(configured.spec.id.name.clone(), configured.member.clone());
        }
    }
    /// Every configured registry runs.
    pub fn membership_synced(&self) {
        if let Some(journal) = &self.journal {
            journal.membership_synced();
        }
    }
    /// Writes what is not written yet. Waits for the disk.
    pub async fn flush(&self) {
        let Some(journal) = self.journal.clone() else { return };
        // a task that fails here has nothing left to write with
        let _ = tokio::task::spawn_blocking(move || journal.flush()).await;
    }

    /// Gives back to the core what was served, before any run begins. What is not configured any more
    /// leaves the journal.
    pub async fn restore(
        &self,
        kept: Kept,
        handle: &Handle,
        configured: &[Configured],
    ) -> Result<(), CommandError> {
        let Some(mut restoring) = kept.restoring else { return Ok(()) };
        let was_ready = restoring.meta.ready_once;
        let is_new = self.members.lock().is_empty();
        let known: BTreeMap<RegistryName, &Configured> =
            configured.iter().map(|one| (one.spec.id.name.clone(), one)).collect();
        let mut restored = Restored { is_new, ..Restored::default() };
        loop {
            let (next, rest) = next_piece(restoring).await?;
            restoring = rest;
            let Some(piece) = next else { break };
            match known.get(&piece.name) {
                Some(one) => self.give_back(handle, one, piece, &mut restored).await.map_err(failed)?,
                None => self.leave(&piece.name),
            }
        }
        let gone: Vec<RegistryName> = self.members.lock().keys().cloned().collect();
        gone.iter().filter(|name| !known.contains_key(*name)).for_each(|name| self.leave(name));
        let whole = restored.whole(&self.members.lock(), &known);
        restored.log(whole);
        handle
            .restored(was_ready && whole)
            .await
            .map_err(|_| CommandError::plain("the server stopped while it started"))
    }

    async fn give_back(
        &self,
        handle: &Handle,
        one: &Configured,
        piece: RestoredRegistry,
        restored: &mut Restored,
    ) -> Result<(), SupervisorError> {
        let name = &one.spec.id.name;
        let before = self.members.lock().get(name).cloned();
        let same_source = |member: &Member| member.id == one.member.id;
        if !before.as_ref().is_some_and(same_source) {
            // another registry has the name now
            self.leave(name);
            return Ok(());
        }
        let changed = before.is_some_and(|member| member.source_digest != one.member.source_digest);
        let RestoredRegistry { identity, records, refused, absent, .. } = piece;
        // the pinned identity goes before the facts: a source of another identity is refused from the start
        let pinned = identity.map(|identity| Record::Identity(name.clone(), identity));
        handle.restore(one.spec.clone(), pinned.into_iter().chain(records).collect(), changed).await?;
        restored.given.insert(name.clone());
        for (scope, why) in refused {
            tracing::warn!(registry = %name, %scope, reason = %why, "a scope is not restored");
            restored.short.insert(name.clone());
            handle.forget(name.clone(), scope).await?;
        }
        if let Some(why) = absent {
            tracing::warn!(registry = %name, reason = %why, "a registry is not restored");
            restored.short.insert(name.clone());
        }
        Ok(())
    }

    fn leave(&self, name: &RegistryName) {
        if let Some(journal) = &self.journal {
            journal.record(vec![Record::Left(name.clone())]);
        }
        self.members.lock().remove(name);
    }
}

/// What was given back.
#[derive(Debug, Default)]
struct Restored {
    /// No registry was ever remembered.
    is_new: bool,
    given: BTreeSet<RegistryName>,
    /// Of these not everything could be trusted.
    short: BTreeSet<RegistryName>,
}

impl Restored {
    fn log(&self, whole: bool) {
        let registries = self.given.len();
        if self.is_new && registries == 0 {
            tracing::info!("no state is remembered yet");
        } else {
            tracing::info!(registries, whole, "restored what was served before the restart");
        }
    }
    /// Whether every registry that is configured and was known before is back whole.
    fn whole(
        &self,
        members: &BTreeMap<RegistryName, Member>,
        known: &BTreeMap<RegistryName, &Configured>,
    ) -> bool {
        let mut both = known.keys().filter(|name| members.contains_key(*name)).peekable();
        both.peek().is_some() && both.all(|name| self.given.contains(name) && !self.short.contains(name))
    }
}

/// Waits for the next piece on a thread that may block.
async fn next_piece(mut restoring: Restoring) -> Result<(Option<RestoredRegistry>, Restoring), CommandError> {
    let waiting = tokio::task::spawn_blocking(move || (restoring.next(), restoring));
    waiting.await.map_err(|error| CommandError::plain(format!("reading the journal failed: {error}")))
}

fn failed(error: SupervisorError) -> CommandError {
    CommandError::plain(format!("a registry could not be restored: {error}"))
}

/// The directory that the configuration and the environment name.
#[must_use]
pub fn choose(flag: Option<PathBuf>, env: &Environment) -> StateChoice {
    let get = |name: &str| env.get(name).map(ToOwned::to_owned);
    let from = StateEnvironment {
        flag,
        state_directory: get("STATE_DIRECTORY"),
        xdg_state_home: get("XDG_STATE_HOME"),
        home: get("HOME"),
    };
    choose_directory(&from, |path| std::fs::create_dir_all(path).is_ok())
}

struct Sink(Arc<Journal>);

impl JournalSink for Sink {
    fn record(&mut self, records: Vec<Record>) {
        self.0.record(records);
    }
    fn wanted(&mut self) -> Option<SnapshotRequest> {
        let wanted = self.0.wanted()?;
        Some(SnapshotRequest { registry: wanted.registry, after: wanted.after, most: wanted.most })
    }
    fn slice(&mut self, registry: &RegistryName, records: Vec<Record>, last: bool) {
        self.0.slice(registry, records, last);
    }
    fn ready(&mut self) {
        self.0.ready();
    }
}
