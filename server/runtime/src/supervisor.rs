//! Keeps every registry running: one isolated task tree each, restarted, rotated, drained.
//!
//! The supervisor is one task that owns a member task per registry; a member owns its runs. So dropping
//! the supervisor drops every run, and a failure of one member affects no other.

mod member;
mod run_sequence;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;
use tributary_core::{AddRegistryError, RunGroup};
use tributary_model::{Code, Evidence, Generation, RegistryId, RegistryName};
use tributary_registry_api::{
    BackoffPolicy, Clock, Credential, Kind, Reason, RegistryError, RegistryFactory, Wake,
};

use crate::core_task::CoreCommand;
use crate::counters::RuntimeCounters;
use crate::handle::Stopped;
use crate::report::Reports;
use member::{Leave, Member, ToMember};

/// Builds factories of registries. The binary implements it.
pub trait RegistryFactories: Send + Sync {
    /// Returns the factory of a registry of this kind with this credential.
    fn factory(
        &self,
        id: RegistryId,
        kind: &Kind,
        credential: Credential,
    ) -> Result<Arc<dyn RegistryFactory>, RegistryError>;
}

/// Reason why the membership was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupervisorError {
    /// The name is taken.
    #[error("{code}: registry {0} already exists; use another name", code = Code::REGISTRY_NAME_TAKEN)]
    Taken(RegistryName),
    /// The name is unknown.
    #[error("{code}: registry {0} not found; list registries with `tributary get registries`", code = Code::NOT_FOUND)]
    Unknown(RegistryName),
    /// The name belongs to another provider or cluster: facts of two sources must never mix.
    #[error("{code}: registry {0} is {1}; remove it before you reuse its name", code = Code::REGISTRY_NAME_TAKEN)]
    Identity(RegistryName, String),
    /// The core rejected the registry.
    #[error(transparent)]
    Join(#[from] AddRegistryError),
    /// The factory failed.
    #[error("the registry cannot be built: {0}")]
    Build(Reason),
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<RegistryError> for SupervisorError {
    fn from(error: RegistryError) -> Self {
        Self::Build(error.reason().clone())
    }
}
impl<T> From<mpsc::error::SendError<T>> for SupervisorError {
    fn from(_: mpsc::error::SendError<T>) -> Self {
        Self::Stopped(Stopped)
    }
}
impl From<oneshot::error::RecvError> for SupervisorError {
    fn from(_: oneshot::error::RecvError) -> Self {
        Self::Stopped(Stopped)
    }
}

type Reply = oneshot::Sender<Result<(), SupervisorError>>;

/// A change of the membership.
pub(crate) enum MemberOrder {
    Join(Arc<dyn RegistryFactory>, Reply),
    Rotate(Arc<dyn RegistryFactory>, Reply),
    /// Adds or rotates registries that begin to serve in one turn.
    Put(Vec<Arc<dyn RegistryFactory>>, Reply),
    Restart(RegistryName, Reply),
    Leave(RegistryName, Reply),
    /// Stops the runs of registries; their facts stay.
    Pause(Vec<RegistryName>, Arc<str>, Reply),
    /// Removes registries together; unknown ones are removed from the core only.
    LeaveAll(Vec<RegistryName>, Reply),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisorConfig {
    pub(crate) backoff: BackoffPolicy,
    pub(crate) stop_grace: Duration,
    pub(crate) seed: u64,
}

/// State that all members share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: SupervisorConfig,
    pub(crate) commands: mpsc::Sender<CoreCommand>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) reports: Reports,
}

/// A registered name. It stays in use until the core has removed the registry's facts.
struct MemberEntry {
    id: Arc<RegistryId>,
    commands: mpsc::Sender<ToMember>,
    leaving: bool,
    /// Added once the name is free.
    next: Option<(Arc<dyn RegistryFactory>, Reply)>,
}

/// The supervisor's task.
pub(crate) struct Supervisor {
    shared: Shared,
    commands: mpsc::Receiver<MemberOrder>,
    members: BTreeMap<RegistryName, MemberEntry>,
    tasks: JoinSet<()>,
    names: HashMap<task::Id, RegistryName>,
    /// Number of groups so far.
    groups: u64,
}

impl Supervisor {
    pub(crate) fn new(
        config: SupervisorConfig,
        commands: mpsc::Sender<CoreCommand>,
        clock: Arc<dyn Clock>,
        wake: Wake,
        counters: Arc<RuntimeCounters>,
        reports: Reports,
    ) -> (Self, mpsc::Sender<MemberOrder>) {
        let shared = Shared { config, commands, clock, wake, counters, reports };
        let (sender, commands) = mpsc::channel(256);
        let (members, tasks, names) = (BTreeMap::new(), JoinSet::new(), HashMap::new());
        (Self { shared, commands, members, tasks, names, groups: 0 }, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.member_ended(ended, &stop).await,
                order = self.commands.recv() => match order {
                    Some(order) => self.execute(order, &stop).await,
                    None => break,
                },
            }
        }
        // Members see the token too; each has its own grace.
        while self.tasks.join_next().await.is_some() {}
    }

    async fn execute(&mut self, order: MemberOrder, stop: &CancellationToken) {
        match order {
            MemberOrder::Join(factory, reply) => self.add(factory, reply, stop).await,
            MemberOrder::Rotate(factory, reply) => {
                let _ = reply.send(self.rotate(factory, None).await);
            }
            MemberOrder::Put(factories, reply) => {
                let _ = reply.send(self.put(factories, stop).await);
            }
            MemberOrder::Restart(name, reply) => {
                let _ = reply.send(self.restart(&name).await);
            }
            MemberOrder::Pause(names, why, reply) => {
                self.pause(&names, &why).await;
                let _ = reply.send(Ok(()));
            }
            MemberOrder::Leave(name, reply) if !self.members.contains_key(&name) => {
                let _ = reply.send(Err(SupervisorError::Unknown(name)));
            }
            MemberOrder::Leave(name, reply) => self.remove(vec![name], reply).await,
            MemberOrder::LeaveAll(names, reply) => self.remove(names, reply).await,
        }
    }

    async fn add(&mut self, factory: Arc<dyn RegistryFactory>, reply: Reply, stop: &CancellationToken) {
        let name = factory.spec().id.name.clone();
        match self.members.get_mut(&name) {
            Some(entry) if entry.leaving && entry.next.is_none() => entry.next = Some((factory, reply)),
            Some(_) => drop(reply.send(Err(SupervisorError::Taken(name)))),
            None => drop(reply.send(self.start_member((factory, None), stop).await)),
        }
    }

    async fn start_member(
        &mut self,
        (factory, group): (Arc<dyn RegistryFactory>, Option<RunGroup>),
        stop: &CancellationToken,
    ) -> Result<(), SupervisorError> {
        let spec = factory.spec();
        let (id, name) = (Arc::clone(&spec.id), spec.id.name.clone());
        let (adopted, adoptions) = watch::channel(Generation(0));
        let (reply, answer) = oneshot::channel();
        self.shared.commands.send(CoreCommand::Join { spec, adopted, reply }).await?;
        answer.await??;
        let (commands, receiver) = mpsc::channel(16);
        let shared = self.shared.clone();
        let member = Member::new(name.clone(), (factory, group), shared, receiver, adoptions);
        let task = self.tasks.spawn(member.run(stop.child_token()));
        self.names.insert(task.id(), name.clone());
        self.members.insert(name, MemberEntry { id, commands, leaving: false, next: None });
        Ok(())
    }

    /// Rotates registries and adds those that are new. Checks all of them first, so that a mistake changes nothing.
    async fn put(
        &mut self,
        factories: Vec<Arc<dyn RegistryFactory>>,
        stop: &CancellationToken,
    ) -> Result<(), SupervisorError> {
        let ids: Vec<Arc<RegistryId>> = factories.iter().map(|factory| factory.spec().id).collect();
        for id in ids.iter().filter(|id| self.members.contains_key(&id.name)) {
            self.member_of(id)?;
        }
        self.groups += 1;
        let names = ids.iter().map(|id| id.name.clone()).collect();
        let group = RunGroup { number: self.groups, names };
        for (factory, id) in factories.into_iter().zip(ids) {
            if self.members.contains_key(&id.name) {
                self.rotate(factory, Some(group.clone())).await?;
            } else {
                self.start_member((factory, Some(group.clone())), stop).await?;
            }
        }
        Ok(())
    }

    async fn rotate(
        &self,
        factory: Arc<dyn RegistryFactory>,
        group: Option<RunGroup>,
    ) -> Result<(), SupervisorError> {
        let id = factory.spec().id;
        let rotate = ToMember::Rotate(factory, group);
        let unknown = |_| SupervisorError::Unknown(id.name.clone());
        self.member_of(&id)?.commands.send(rotate).await.map_err(unknown)
    }

    /// Returns the member with this identity, unless it is leaving.
    fn member_of(&self, id: &RegistryId) -> Result<&MemberEntry, SupervisorError> {
        let unknown = || SupervisorError::Unknown(id.name.clone());
        let entry = self.members.get(&id.name).filter(|entry| !entry.leaving).ok_or_else(unknown)?;
        if *entry.id == *id {
            return Ok(entry);
        }
        Err(SupervisorError::Identity(id.name.clone(), entry.id.to_string()))
    }

    async fn restart(&self, name: &RegistryName) -> Result<(), SupervisorError> {
        let unknown = || SupervisorError::Unknown(name.clone());
        let entry = self.members.get(name).filter(|entry| !entry.leaving).ok_or_else(unknown)?;
        entry.commands.send(ToMember::Restart).await.map_err(|_| unknown())
    }

    async fn pause(&self, names: &[RegistryName], why: &Arc<str>) {
        for name in names {
            let Some(entry) = self.members.get(name).filter(|entry| !entry.leaving) else { continue };
            // a member whose task failed has no run
            let _ = entry.commands.send(ToMember::Pause(Arc::clone(why))).await;
        }
    }

    /// Stops members, then removes their facts in one turn of the core; the reply comes after it. Every name stays in use until then.
    async fn remove(&mut self, names: Vec<RegistryName>, reply: Reply) {
        let (withdrawn, mut leaving, mut stopped) = (CancellationToken::new(), Vec::new(), Vec::new());
        for name in names {
            match self.stop_member(&name, &withdrawn).await {
                Stop::Leaving => continue,
                Stop::Begun(ended) => stopped.push(ended),
                Stop::NoMember => self.shared.reports.forget(&name),
            }
            leaving.push(name);
        }
        let shared = self.shared.clone();
        self.tasks.spawn(async move {
            for ended in stopped {
                // a member whose task failed has stopped
                let _ = ended.await;
            }
            withdraw(&shared, leaving).await;
            withdrawn.cancel();
            let _ = reply.send(Ok(()));
        });
    }

    async fn stop_member(&mut self, name: &RegistryName, withdrawn: &CancellationToken) -> Stop {
        let Some(entry) = self.members.get_mut(name) else { return Stop::NoMember };
        if let Some((_, joining)) = entry.next.take() {
            let _ = joining.send(Err(SupervisorError::Unknown(name.clone())));
        }
        if std::mem::replace(&mut entry.leaving, true) {
            return Stop::Leaving;
        }
        let (stopped, ended) = oneshot::channel();
        let leave = Leave { stopped, withdrawn: withdrawn.clone() };
        if entry.commands.send(ToMember::Leave(leave)).await.is_err() {
            // The member's task failed before; only the core still knows the registry.
            self.members.remove(name);
            return Stop::NoMember;
        }
        Stop::Begun(ended)
    }

    async fn member_ended(
        &mut self,
        ended: Result<(task::Id, ()), task::JoinError>,
        stop: &CancellationToken,
    ) {
        let id = ended.as_ref().map_or_else(task::JoinError::id, |(id, ())| *id);
        let Some(name) = self.names.remove(&id) else { return };
        if let Err(error) = &ended {
            tracing::error!(registry = %name, %error, "registry supervision failed; restart the server to read the registry again");
        }
        if !self.members.get(&name).is_some_and(|entry| entry.leaving) {
            return;
        }
        if ended.is_err() {
            withdraw(&self.shared, vec![name.clone()]).await;
        }
        if let Some((factory, reply)) = self.members.remove(&name).and_then(|entry| entry.next) {
            let _ = reply.send(self.start_member((factory, None), stop).await);
        }
    }
}

/// What the removal of a registry waits for.
enum Stop {
    /// It is being removed by an earlier order.
    Leaving,
    /// Its runs are stopping.
    Begun(oneshot::Receiver<()>),
    /// Nothing runs.
    NoMember,
}

/// Removes registries from the core in one turn.
async fn withdraw(shared: &Shared, names: Vec<RegistryName>) {
    if names.is_empty() {
        return;
    }
    let (reply, done) = oneshot::channel();
    let leave = CoreCommand::Leave { names, evidence: Evidence::Operator, reply };
    // The core task ends only when the server stops.
    if shared.commands.send(leave).await.is_ok() {
        let _ = done.await;
    }
}
