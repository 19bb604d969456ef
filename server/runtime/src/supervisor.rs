//! Keeps every registry running: one task tree each, contained, restarted, rotated, drained.
//!
//! The supervisor is one task that owns a member task per registry; a member owns its runs. So
//! dropping the supervisor drops every run in it, and what happens to one member touches no other.

mod member;
mod run_sequence;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;
use tributary_core::AddRegistryError;
use tributary_model::{Code, Evidence, Generation, RegistryId, RegistryName};
use tributary_registry_api::{
    BackoffPolicy, Clock, Credential, Kind, Reason, RegistryError, RegistryFactory, Wake,
};

use crate::core_task::CoreCommand;
use crate::counters::RuntimeCounters;
use crate::handle::Stopped;
use crate::report::Reports;
use member::{Member, ToMember};

/// Knows the adapters. Implemented by the binary.
pub trait RegistryFactories: Send + Sync {
    /// The factory of a registry of this kind with this credential.
    fn factory(
        &self,
        id: RegistryId,
        kind: &Kind,
        credential: Credential,
    ) -> Result<Arc<dyn RegistryFactory>, RegistryError>;
}

/// Why the membership was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupervisorError {
    /// The name is taken.
    #[error("{code}: a registry named {0} runs already; give one of them another name", code = Code::REGISTRY_NAME_TAKEN)]
    Taken(RegistryName),
    /// There is none of that name.
    #[error("{code}: no registry is named {0}; list them with `tributary get registries`", code = Code::NOT_FOUND)]
    Unknown(RegistryName),
    /// The name belongs to another provider or cluster: data of two must never mix.
    #[error("{code}: registry {0} is {1}; remove it before its name is used for another", code = Code::REGISTRY_NAME_TAKEN)]
    Identity(RegistryName, String),
    /// The core refused it.
    #[error(transparent)]
    Join(#[from] AddRegistryError),
    /// It cannot be built.
    #[error("the registry cannot be built: {0}")]
    Build(Reason),
    /// Nobody is there.
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
    Restart(RegistryName, Reply),
    Leave(RegistryName, Reply),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisorConfig {
    pub(crate) backoff: BackoffPolicy,
    pub(crate) stop_grace: Duration,
    pub(crate) seed: u64,
}

/// What every member needs.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: SupervisorConfig,
    pub(crate) orders: mpsc::Sender<CoreCommand>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) reports: Reports,
}

/// A registry's place. It stays taken until the core has let go of what the registry said.
struct MemberEntry {
    id: Arc<RegistryId>,
    orders: mpsc::Sender<ToMember>,
    leaving: bool,
    /// Joins once the place is free.
    next: Option<(Arc<dyn RegistryFactory>, Reply)>,
}

/// The supervisor's task.
pub(crate) struct Supervisor {
    shared: Shared,
    orders: mpsc::Receiver<MemberOrder>,
    seats: BTreeMap<RegistryName, MemberEntry>,
    tasks: JoinSet<()>,
    names: HashMap<task::Id, RegistryName>,
}

impl Supervisor {
    pub(crate) fn new(
        config: SupervisorConfig,
        orders: mpsc::Sender<CoreCommand>,
        clock: Arc<dyn Clock>,
        wake: Wake,
        counters: Arc<RuntimeCounters>,
        reports: Reports,
    ) -> (Self, mpsc::Sender<MemberOrder>) {
        let shared = Shared { config, orders, clock, wake, counters, reports };
        let (sender, orders) = mpsc::channel(256);
        let (seats, tasks, names) = (BTreeMap::new(), JoinSet::new(), HashMap::new());
        (Self { shared, orders, seats, tasks, names }, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.member_ended(ended, &stop).await,
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(order, &stop).await,
                    None => break,
                },
            }
        }
        // members see the token too; each has its own grace
        while self.tasks.join_next().await.is_some() {}
    }

    async fn carry_out(&mut self, order: MemberOrder, stop: &CancellationToken) {
        match order {
            MemberOrder::Join(factory, reply) => self.join(factory, reply, stop).await,
            MemberOrder::Rotate(factory, reply) => {
                let _ = reply.send(self.rotate(factory).await);
            }
            MemberOrder::Restart(name, reply) => {
                let _ = reply.send(self.restart(&name).await);
            }
            MemberOrder::Leave(name, reply) => self.leave(&name, reply).await,
        }
    }

    async fn join(&mut self, factory: Arc<dyn RegistryFactory>, reply: Reply, stop: &CancellationToken) {
        let name = factory.spec().id.name.clone();
        match self.seats.get_mut(&name) {
            Some(seat) if seat.leaving && seat.next.is_none() => seat.next = Some((factory, reply)),
            Some(_) => drop(reply.send(Err(SupervisorError::Taken(name)))),
            None => drop(reply.send(self.seat(factory, stop).await)),
        }
    }

    async fn seat(
        &mut self,
        factory: Arc<dyn RegistryFactory>,
        stop: &CancellationToken,
    ) -> Result<(), SupervisorError> {
        let spec = factory.spec();
        let (id, name) = (Arc::clone(&spec.id), spec.id.name.clone());
        let (adopted, adoptions) = watch::channel(Generation(0));
        let (reply, answer) = oneshot::channel();
        self.shared.orders.send(CoreCommand::Join { spec, adopted, reply }).await?;
        answer.await??;
        let (orders, receiver) = mpsc::channel(16);
        let member = Member::new(name.clone(), factory, self.shared.clone(), receiver, adoptions);
        let task = self.tasks.spawn(member.run(stop.child_token()));
        self.names.insert(task.id(), name.clone());
        self.seats.insert(name, MemberEntry { id, orders, leaving: false, next: None });
        Ok(())
    }

    async fn rotate(&self, factory: Arc<dyn RegistryFactory>) -> Result<(), SupervisorError> {
        let id = factory.spec().id;
        let unknown = || SupervisorError::Unknown(id.name.clone());
        let seat = self.seats.get(&id.name).filter(|seat| !seat.leaving).ok_or_else(unknown)?;
        if seat.id != id {
            return Err(SupervisorError::Identity(id.name.clone(), seat.id.to_string()));
        }
        seat.orders.send(ToMember::Rotate(factory)).await.map_err(|_| unknown())
    }

    async fn restart(&self, name: &RegistryName) -> Result<(), SupervisorError> {
        let unknown = || SupervisorError::Unknown(name.clone());
        let seat = self.seats.get(name).filter(|seat| !seat.leaving).ok_or_else(unknown)?;
        seat.orders.send(ToMember::Restart).await.map_err(|_| unknown())
    }

    /// The reply comes when the core has let go of what the registry said.
    async fn leave(&mut self, name: &RegistryName, reply: Reply) {
        let Some(seat) = self.seats.get_mut(name) else {
            let _ = reply.send(Err(SupervisorError::Unknown(name.clone())));
            return;
        };
        if let Some((_, joining)) = seat.next.take() {
            let _ = joining.send(Err(SupervisorError::Unknown(name.clone())));
        }
        if std::mem::replace(&mut seat.leaving, true) {
            let _ = reply.send(Ok(()));
        } else if let Err(refused) = seat.orders.send(ToMember::Leave(reply)).await {
            // its task failed before; only the core still knows of it
            self.seats.remove(name);
            self.withdraw(name).await;
            if let ToMember::Leave(reply) = refused.0 {
                let _ = reply.send(Ok(()));
            }
        }
    }

    async fn withdraw(&self, name: &RegistryName) {
        let (reply, done) = oneshot::channel();
        let leave = CoreCommand::Leave { name: name.clone(), evidence: Evidence::Operator, reply };
        if self.shared.orders.send(leave).await.is_ok() {
            let _ = done.await;
        }
    }

    async fn member_ended(
        &mut self,
        ended: Result<(task::Id, ()), task::JoinError>,
        stop: &CancellationToken,
    ) {
        let id = ended.as_ref().map_or_else(task::JoinError::id, |(id, ())| *id);
        let Some(name) = self.names.remove(&id) else { return };
        if let Err(error) = &ended {
            tracing::error!(registry = %name, %error, "its supervision failed; what it said stays served");
        }
        if !self.seats.get(&name).is_some_and(|seat| seat.leaving) {
            return;
        }
        if ended.is_err() {
            self.withdraw(&name).await;
        }
        if let Some((factory, reply)) = self.seats.remove(&name).and_then(|seat| seat.next) {
            let _ = reply.send(self.seat(factory, stop).await);
        }
    }
}
