//! Keeps every registry running: one task tree each, contained, restarted, rotated, drained.
//!
//! The supervisor is one task that owns a member task per registry; a member owns its runs. So
//! dropping the supervisor drops every run in it, and what happens to one member touches no other.

mod lane;
mod member;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_core::JoinError;
use tributary_model::{Code, Generation, RegistryId, RegistryName};
use tributary_registry_api::{
    BackoffPolicy, Clock, Credential, Kind, Reason, RegistryError, RegistryFactory, Wake,
};

use crate::counters::RuntimeCounters;
use crate::handle::Stopped;
use crate::pump::Order;
use crate::report::Reports;
use member::{Member, ToMember};

/// Knows the adapters. Implemented by the binary.
pub trait Kinds: Send + Sync {
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
    /// The core refused it.
    #[error(transparent)]
    Join(#[from] JoinError),
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
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) reports: Reports,
}

/// The supervisor's task.
pub(crate) struct Supervisor {
    shared: Shared,
    orders: mpsc::Receiver<MemberOrder>,
    members: BTreeMap<RegistryName, mpsc::Sender<ToMember>>,
    tasks: JoinSet<RegistryName>,
}

impl Supervisor {
    pub(crate) fn new(
        config: SupervisorConfig,
        orders: mpsc::Sender<Order>,
        clock: Arc<dyn Clock>,
        wake: Wake,
        counters: Arc<RuntimeCounters>,
        reports: Reports,
    ) -> (Self, mpsc::Sender<MemberOrder>) {
        let shared = Shared { config, orders, clock, wake, counters, reports };
        let (sender, receiver) = mpsc::channel(256);
        (Self { shared, orders: receiver, members: BTreeMap::new(), tasks: JoinSet::new() }, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.tasks.join_next() => self.member_ended(ended),
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
            MemberOrder::Join(factory, reply) => {
                let joined = self.join(factory, stop).await;
                let _ = reply.send(joined);
            }
            MemberOrder::Rotate(factory, reply) => {
                let name = factory.spec().id.name.clone();
                self.tell(&name, ToMember::Rotate(factory), reply).await;
            }
            MemberOrder::Leave(name, reply) => self.leave(&name, reply).await,
        }
    }

    async fn join(
        &mut self,
        factory: Arc<dyn RegistryFactory>,
        stop: &CancellationToken,
    ) -> Result<(), SupervisorError> {
        let spec = factory.spec();
        let name = spec.id.name.clone();
        if self.members.contains_key(&name) {
            return Err(SupervisorError::Taken(name));
        }
        let (adopted, adoptions) = watch::channel(Generation(0));
        let (reply, answer) = oneshot::channel();
        self.shared.orders.send(Order::Join { spec, adopted, reply }).await?;
        answer.await??;
        let (sender, receiver) = mpsc::channel(16);
        let member = Member::new(name.clone(), factory, self.shared.clone(), receiver, adoptions);
        self.members.insert(name, sender);
        self.tasks.spawn(member.run(stop.child_token()));
        Ok(())
    }

    async fn tell(&self, name: &RegistryName, order: ToMember, reply: Reply) {
        let told = match self.members.get(name) {
            None => Err(SupervisorError::Unknown(name.clone())),
            Some(member) => member.send(order).await.map_err(|_| SupervisorError::Unknown(name.clone())),
        };
        let _ = reply.send(told);
    }

    /// Forgets the member at once, so that the name may be used again; the reply comes when the
    /// core has let go of what it said.
    async fn leave(&mut self, name: &RegistryName, reply: Reply) {
        match self.members.remove(name) {
            None => drop(reply.send(Err(SupervisorError::Unknown(name.clone())))),
            Some(member) => {
                let _ = member.send(ToMember::Leave(reply)).await;
            }
        }
    }

    fn member_ended(&mut self, ended: Result<RegistryName, tokio::task::JoinError>) {
        if let Err(error) = ended {
            tracing::error!(%error, "the task that supervises a registry failed; what the registry said stays served");
        }
    }
}
