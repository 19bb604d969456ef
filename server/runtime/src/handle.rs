//! What the rest of the server holds: reads the catalog, asks the owner, changes the membership.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tributary_core::{ApplyOutcome, Core, EndPlan, RunOrder};
use tributary_model::{
    Catalog, CollectionKind, Evidence, FactKey, Generation, Record, RegistryName, RegistrySpec, Scope,
};
use tributary_registry_api::{Clock, Membership, RegistryFactory, Run, UpdateSender, Wake, update_channel};

use crate::core_task::CoreCommand;
use crate::core_task::receivers::{RunReceiver, Which};
use crate::counters::{RuntimeCounters, RuntimeStats};
use crate::follow::{ClusterScope, Follower};
use crate::published_catalog::{Catalogs, PublishedCatalog};
use crate::readiness::Readiness;
use crate::report::{Reports, RunReport};
use crate::supervisor::{MemberOrder, RegistryFactories, SupervisorError};

/// The server has stopped; nobody is there to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is stopping; ask a running one")]
pub struct Stopped;

/// A way to a running server.
#[derive(Clone)]
pub struct Handle {
    pub(crate) board: Arc<PublishedCatalog>,
    pub(crate) orders: mpsc::Sender<CoreCommand>,
    pub(crate) members: mpsc::Sender<MemberOrder>,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) reports: Reports,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
}

impl Handle {
    /// The current catalog.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.board.catalog.load_full()
    }
    /// Where the current catalog hangs.
    #[must_use]
    pub fn catalogs(&self) -> Catalogs {
        Arc::clone(&self.board.catalog)
    }
    /// Counts generations; changes after the catalog of that generation has been pinned.
    #[must_use]
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.board.generation.subscribe()
    }
    /// Follows what a cluster contributes.
    #[must_use]
    pub fn subscribe(&self, scope: ClusterScope) -> Follower {
        Follower::new(scope, self.catalogs(), self.generation())
    }
    /// Whether the server may answer, by the start rule.
    #[must_use]
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }
    /// How every registry's runs are doing.
    #[must_use]
    pub fn runs(&self) -> BTreeMap<RegistryName, RunReport> {
        self.reports.all()
    }
    /// What has been done so far.
    #[must_use]
    pub fn stats(&self) -> RuntimeStats {
        self.counters.read()
    }
    /// Looks into the core, between two turns.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.command(move |core| (look(core), ApplyOutcome::default())).await
    }
    /// An operator's command: does something to the core between two turns; what came of it is
    /// published as any other change.
    pub async fn command<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Core) -> (T, ApplyOutcome) + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let visit = move |core: &mut Core| {
            let (value, turn) = act(core);
            let _ = reply.send(value);
            turn
        };
        self.orders.send(CoreCommand::Visit(Box::new(visit))).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
    /// Gives back a part of what a journal kept of a registry, before its first run. The registry becomes known to
    /// the core; it joins with [`Handle::add_registry`] as always. `changed`: its source is configured otherwise now.
    pub async fn restore(
        &self,
        spec: RegistrySpec,
        records: Vec<Record>,
        changed: bool,
    ) -> Result<(), SupervisorError> {
        let now = self.clock.now();
        let restored = self.command(move |core| {
            let joined = core.add_registry(&spec);
            let turn = core.restore(now, &spec.id.name, records, changed);
            (joined.map(drop), turn)
        });
        Ok(restored.await??)
    }
    /// Takes back what was restored of a scope, as if the journal had not had it.
    pub async fn forget(&self, registry: RegistryName, scope: Scope) -> Result<(), Stopped> {
        self.command(move |core| ((), core.forget(&registry, &scope))).await
    }
    /// Everything that a journal kept has been given back. A server that had been ready is ready once that is
    /// published.
    pub async fn restored(&self, was_ready: bool) -> Result<(), Stopped> {
        self.orders.send(CoreCommand::Restored { was_ready }).await.map_err(|_| Stopped)
    }
    /// Takes a run that may read less, or whose source's identity changed, at an operator's request.
    pub async fn accept(&self, registry: RegistryName) -> Result<bool, Stopped> {
        let now = self.clock.now();
        self.command(move |core| core.accept(now, &registry)).await
    }
    /// Ends a registry's facts, those of a scope, or those of a kind in it; what ended. Where the run confirms some of
    /// these facts now, a new run lists the source again: what it still has comes back.
    pub async fn end(
        &self,
        registry: RegistryName,
        scope: Option<Scope>,
        kind: Option<CollectionKind>,
    ) -> Result<Vec<EndPlan>, Stopped> {
        let (now, name) = (self.clock.now(), registry.clone());
        let ended = self.command(move |core| {
            let plan = core.end_plan(&registry, scope.as_ref(), kind);
            (plan, core.end(now, &registry, scope.as_ref(), kind))
        });
        let ended = ended.await?;
        if ended.iter().any(|part| part.live) {
            // a source without a supervisor lists again when its holder makes it
            let _ = self.restart(name).await;
        }
        Ok(ended)
    }
    /// What [`Handle::end`] would end.
    pub async fn end_plan(
        &self,
        registry: RegistryName,
        scope: Option<Scope>,
        kind: Option<CollectionKind>,
    ) -> Result<Vec<EndPlan>, Stopped> {
        self.inspect(move |core| core.end_plan(&registry, scope.as_ref(), kind)).await
    }
    /// Whether it is known which registries there are; until then no catalog is complete.
    pub async fn set_membership_known(&self, known: bool) -> Result<(), Stopped> {
        self.command(move |core| ((), core.set_membership_known(known))).await
    }
    /// Lets a held removal happen, because a person says so. False where nothing is held there.
    pub async fn release(&self, registry: RegistryName, key: FactKey) -> Result<bool, Stopped> {
        let now = self.clock.now();
        self.command(move |core| {
            let released = core.release(now, &registry, &key);
            (released.is_some(), released.unwrap_or_default())
        })
        .await
    }
    /// Adds a registry and starts it.
    pub async fn add_registry(&self, factory: Arc<dyn RegistryFactory>) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Join(factory, reply)).await
    }
    /// Replaces a registry's factory: the new run fills a shadow while the old one serves.
    pub async fn rotate(&self, factory: Arc<dyn RegistryFactory>) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Rotate(factory, reply)).await
    }
    /// Begins a new run of a registry, which lists its source again; in a shadow, where the registry restarts so.
    pub async fn restart(&self, name: RegistryName) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Restart(name, reply)).await
    }
    /// Stops a registry and withdraws what it said.
    pub async fn remove_registry(&self, name: RegistryName) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Leave(name, reply)).await
    }
    /// Carries out what a list of registries says; `kinds` knows the adapters.
    pub async fn change(
        &self,
        change: Membership,
        kinds: &dyn RegistryFactories,
    ) -> Result<(), SupervisorError> {
        match change {
            Membership::Join(id, kind, credential) => {
                self.add_registry(kinds.factory(id, &kind, credential)?).await
            }
            Membership::Rotate(id, kind, credential) => {
                self.rotate(kinds.factory(id, &kind, credential)?).await
            }
            Membership::Leave(name) => self.remove_registry(name).await,
        }
    }
    /// A source that the caller runs itself, with one generation for the life of the server: the
    /// configuration file, clients' reports. It is asked nothing.
    pub async fn source(&self, spec: RegistrySpec) -> Result<Source, SupervisorError> {
        let name = spec.id.name.clone();
        let (reply, answer) = oneshot::channel();
        let run_order = RunOrder::first(spec.clone());
        let join = CoreCommand::Join { spec, adopted: watch::Sender::new(Generation(0)), reply };
        self.orders.send(join).await?;
        answer.await??;
        let run = Run { registry: name, generation: Generation(1) };
        let (updates, receiver) = update_channel(run, Arc::clone(&self.clock), Arc::clone(&self.wake));
        let feed = RunReceiver::new(receiver, None);
        let (reply, answer) = oneshot::channel();
        self.orders.send(CoreCommand::Begin { run: run_order, which: Which::Served, feed, reply }).await?;
        // only a run that a supervisor begins can compete with an adoption
        let _ = answer.await?;
        Ok(Source { updates, orders: self.orders.clone() })
    }
    async fn member(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), SupervisorError>>) -> MemberOrder,
    ) -> Result<(), SupervisorError> {
        let (reply, answer) = oneshot::channel();
        self.members.send(order(reply)).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)?
    }
    pub(crate) async fn members_stopped(&self) {
        self.members.closed().await;
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle(generation {})", *self.board.generation.borrow())
    }
}

/// A source that its holder runs.
#[derive(Debug, Clone)]
pub struct Source {
    /// Takes what the source says.
    pub updates: UpdateSender,
    orders: mpsc::Sender<CoreCommand>,
}

impl Source {
    /// Ends the source and withdraws what it said.
    pub async fn leave(self) -> Result<(), Stopped> {
        let (reply, answer) = oneshot::channel();
        let name = self.updates.run().registry.clone();
        let leave = CoreCommand::Leave { name, evidence: Evidence::Operator, reply };
        self.orders.send(leave).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}
