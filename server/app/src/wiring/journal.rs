//! Journal of the process: its directory, the restore at start, and the runtime's interface to it.
//!
//! It opens before anything runs, so that a directory held by another process ends the start. Any other
//! failure is a warning: the server runs without kept state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tributary_journal::{
    Journal, JournalOptions, JournalStats, Member, MemberOrigin, Now, RestoredRegistry, Restoring,
    StateChoice, StateDirectory, StateEnvironment, StateRefusal, choose_directory, refusal,
};
use tributary_model::{Code, Record, RegistryName, RegistrySpec, Timestamp, Version};
use tributary_registry_api::{Clock, RegistryFactory};
use tributary_runtime::{Handle, JournalSink, NoJournal, SnapshotRequest, SupervisorError};

use crate::config::Config;
use crate::config::model::{RegistryConfig, Source};
use crate::config::registry::is_internal;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Value of `stateDir` that disables the journal.
pub const NONE: &str = "none";

/// Journal, if there is one.
#[derive(Debug, Clone)]
pub struct State {
    /// Chosen directory; `None` if the journal is disabled.
    pub directory: Option<PathBuf>,
    /// Why there is no journal although one is configured.
    pub fault: Option<Arc<str>>,
    journal: Option<Arc<Journal>>,
    members: Arc<Mutex<BTreeMap<RegistryName, Member>>>,
}

/// Receiver of the journal's restored facts.
#[derive(Debug)]
pub struct Kept {
    restoring: Option<Restoring>,
}

impl Kept {
    /// Returns nothing to restore.
    #[must_use]
    pub const fn none() -> Self {
        Self { restoring: None }
    }
}

/// Result of a restore.
#[derive(Debug, Default)]
pub struct Recalled {
    /// Registries with restored facts.
    pub registries: BTreeSet<RegistryName>,
    /// Whether all remote clusters of Secrets and files were known.
    pub remotes_known: bool,
}

/// Registry as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// Specification for the core.
    pub spec: RegistrySpec,
    /// Kind and source.
    pub member: Member,
}

impl Configured {
    /// Returns a source that the server itself is: its configuration, or host names that it resolves.
    #[must_use]
    pub fn own(spec: RegistrySpec) -> Self {
        let member = Member {
            id: (*spec.id).clone(),
            kind: spec.id.name.to_string(),
            precedence: spec.precedence,
            scopes: spec.scopes.clone(),
            network: None,
            identity: None,
            origin: MemberOrigin::Flag,
            // its next list replaces all of its facts
            source_digest: Version(0),
            credential_from: String::new(),
        };
        Self { spec, member }
    }
    /// Returns true for a registry of a cluster that was found at run time.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        matches!(self.member.origin, MemberOrigin::Secret { .. } | MemberOrigin::Kubeconfig(_))
    }
    /// Returns the registries of one entry of the configuration.
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
                kind: registry.kind().as_str().to_owned(),
                precedence: spec.precedence,
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

/// Describes the source of a registry's credential; never the credential itself.
fn credential_from(registry: &RegistryConfig) -> String {
    let file = match &registry.source {
        Source::File(_) | Source::Registered(_) => None,
        Source::Kubernetes(fields) => fields.kubeconfig.as_ref(),
        Source::Consul(fields) => fields.token_file.as_ref(),
    };
    file.map(|file| file.display().to_string()).unwrap_or_default()
}

impl State {
    /// Returns a state without a journal.
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
            return Ok((Self::none(), Kept::none()));
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
                Ok(Self::over(choice.path, journal, restoring))
            }
            Err(error) => Ok(Self::without(choice, &error)),
        }
    }
    /// Uses an open journal.
    #[must_use]
    pub fn over(directory: PathBuf, journal: Journal, restoring: Restoring) -> (Self, Kept) {
        let members = restoring.members.iter().map(|member| (member.id.name.clone(), member.clone()));
        let members = Arc::new(Mutex::new(members.collect()));
        let journal = Some(Arc::new(journal));
        let state = Self { directory: Some(directory), fault: None, journal, members };
        (state, Kept { restoring: Some(restoring) })
    }

    fn without(choice: StateChoice, error: &dyn std::fmt::Display) -> (Self, Kept) {
        let directory = choice.path.display().to_string();
        tracing::warn!(directory, code = %Code::STATE_UNUSABLE, %error, "starting without kept state");
        let fault = Some(error.to_string().into());
        let state = Self { directory: Some(choice.path), fault, ..Self::none() };
        (state, Kept::none())
    }

    /// Returns the runtime's interface to the journal.
    #[must_use]
    pub fn sink(&self) -> Box<dyn JournalSink> {
        match &self.journal {
            Some(journal) => Box::new(Sink(Arc::clone(journal))),
            None => Box::new(NoJournal),
        }
    }
    /// Returns the journal's counters; `None` without a journal.
    #[must_use]
    pub fn stats(&self) -> Option<JournalStats> {
        self.journal.as_ref().map(|journal| journal.stats())
    }
    /// Returns the journal's last error and its changes; `None` without a journal.
    #[must_use]
    pub fn errors(&self) -> Option<watch::Receiver<Option<String>>> {
        self.journal.as_ref().map(|journal| journal.errors())
    }
    /// Returns why state is not kept although it is configured.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let closed = |stats: JournalStats| {
            (!stats.open).then(|| stats.last_error.unwrap_or_else(|| "the journal is not open".to_owned()))
        };
        self.fault.as_ref().map(ToString::to_string).or_else(|| self.stats().and_then(closed))
    }
    /// Records the registries that run now.
    pub fn remember(&self, all: &[Configured]) {
        let Some(journal) = &self.journal else { return };
        for configured in all {
            journal.member(configured.member.clone());
            self.members.lock().insert(configured.spec.id.name.clone(), configured.member.clone());
        }
    }
    /// Records that every registry runs; `with_remotes`: including the remote clusters of Secrets and files.
    pub fn membership_synced(&self, with_remotes: bool) {
        if let Some(journal) = &self.journal {
            journal.membership_synced();
            journal.remotes_known(with_remotes);
        }
    }
    /// Returns the registries that ran before.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.members.lock().values().cloned().collect()
    }
    /// Writes pending changes. Waits for the disk.
    pub async fn flush(&self) {
        let Some(journal) = self.journal.clone() else { return };
        // a failed task has nothing left to write with
        let _ = tokio::task::spawn_blocking(move || journal.flush()).await;
    }

    /// Restores the served facts into the core before any run starts. Registries that are not `configured`, which includes the
    /// remembered ones of remote clusters, are removed from the journal. `awaits_remotes`: Secrets or files declare further ones.
    pub async fn restore(
        &self,
        kept: Kept,
        handle: &Handle,
        configured: &[Configured],
        awaits_remotes: bool,
    ) -> Result<Recalled, CommandError> {
        let Some(mut restoring) = kept.restoring else { return Ok(Recalled::default()) };
        let was_ready = restoring.meta.ready_once;
        let remotes_known = awaits_remotes && restoring.meta.remotes_known;
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
        let kept: Vec<RegistryName> = self.members.lock().keys().cloned().collect();
        let never_served = |name: &&RegistryName| {
            known.get(*name).is_none_or(|one| one.is_remote() && !restored.given.contains(*name))
        };
        kept.iter().filter(never_served).for_each(|name| self.leave(name));
        let whole = restored.whole(&self.members.lock(), &known);
        restored.log(whole);
        handle
            .restored(was_ready && whole && (remotes_known || !awaits_remotes))
            .await
            .map_err(|_| CommandError::plain("the server stopped during its start"))?;
        Ok(Recalled { registries: restored.given, remotes_known: remotes_known && whole })
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
            // a new registry has the name
            self.leave(name);
            return Ok(());
        }
        let changed = before.is_some_and(|member| member.source_digest != one.member.source_digest);
        let RestoredRegistry { identity, records, refused, absent, .. } = piece;
        // the pinned identity precedes the facts, so that a source with a new identity is refused from the
        // start
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

/// Result of a restore.
#[derive(Debug, Default)]
struct Restored {
    /// The journal contains no registry.
    is_new: bool,
    given: BTreeSet<RegistryName>,
    /// Registries that were not restored completely.
    short: BTreeSet<RegistryName>,
}

impl Restored {
    fn log(&self, whole: bool) {
        let registries = self.given.iter().filter(|name| !is_internal(name.as_str())).count();
        if self.is_new && registries == 0 {
            tracing::info!("the state directory is empty");
        } else {
            tracing::info!(registries, whole, "restored the facts served before the restart");
        }
    }
    /// Whether every configured registry that the journal knew is restored completely.
    fn whole(
        &self,
        members: &BTreeMap<RegistryName, Member>,
        known: &BTreeMap<RegistryName, &Configured>,
    ) -> bool {
        let mut both = known.keys().filter(|name| members.contains_key(*name)).peekable();
        both.peek().is_some() && both.all(|name| self.given.contains(name) && !self.short.contains(name))
    }
}

/// Returns the next item; waits for one that is not decoded yet on a blocking thread.
async fn next_piece(mut restoring: Restoring) -> Result<(Option<RestoredRegistry>, Restoring), CommandError> {
    if restoring.is_ready() {
        return Ok((restoring.next(), restoring));
    }
    let waiting = tokio::task::spawn_blocking(move || (restoring.next(), restoring));
    waiting.await.map_err(|error| CommandError::plain(format!("reading the journal failed: {error}")))
}

fn failed(error: SupervisorError) -> CommandError {
    CommandError::plain(format!("a registry could not be restored: {error}"))
}

/// Returns the directory that the configuration and the environment name.
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
