//! Interface of a running server: reads the catalog, commands the core task, changes the membership.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tributary_core::{ApplyOutcome, Core, EndPlan, RunOrder};
use tributary_model::{
    Catalog, ClusterId, CollectionKind, Evidence, FactKey, Fingerprint, Generation, Record, RegistryName,
    RegistrySpec, Scope, ShardPriority,
};
use tributary_registry_api::{Clock, Membership, RegistryFactory, Run, UpdateSender, Wake, update_channel};

use crate::core_task::CoreCommand;
use crate::core_task::receivers::{RunReceiver, RunRole};
use crate::counters::{RuntimeCounters, RuntimeStats};
use crate::follow::{ClusterScope, ScopeSubscription, per_cluster};
use crate::published_catalog::{Catalogs, PublishedCatalog};
use crate::readiness::Readiness;
use crate::report::{Reports, RunReport};
use crate::status_changes::{StatusChanges, StatusFeed};
use crate::supervisor::{MemberOrder, RegistryFactories, SupervisorError};

/// The server has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is stopping; retry on a running server")]
pub struct Stopped;

/// Interface of a running server. Clones share the server.
#[derive(Clone)]
pub struct Handle {
    pub(crate) published: Arc<PublishedCatalog>,
    pub(crate) commands: mpsc::Sender<CoreCommand>,
    pub(crate) members: mpsc::Sender<MemberOrder>,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) reports: Reports,
    pub(crate) statuses: StatusFeed,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
}

impl Handle {
    /// Returns the current catalog.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.published.catalog.load_full()
    }
    /// Returns the shared reference to the current catalog.
    #[must_use]
    pub fn catalogs(&self) -> Catalogs {
        Arc::clone(&self.published.catalog)
    }
    /// Returns the current generation's number; it changes after the catalog is published.
    #[must_use]
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.published.generation.subscribe()
    }
    /// Subscribes to the facts of a cluster.
    #[must_use]
    pub fn subscribe(&self, scope: ClusterScope) -> ScopeSubscription {
        self.published.subscribe(scope).1
    }
    /// Runs a handler for each cluster, from the generation that adds it to the one that removes it and across rotations, until the
    /// server has stopped. The subscription of a handler ends with its cluster. Dropping the future ends all handlers. A handler that
    /// returns or panics earlier is not begun again.
    pub async fn per_cluster<F, H>(&self, handler: F)
    where
        F: FnMut(ClusterId, ScopeSubscription) -> H,
        H: Future<Output = ()> + Send + 'static,
    {
        per_cluster::run(Arc::clone(&self.published), handler).await;
    }
    /// Returns whether the server may answer, by the start rule.
    #[must_use]
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }
    /// Returns the state of every registry's runs.
    #[must_use]
    pub fn runs(&self) -> BTreeMap<RegistryName, RunReport> {
        self.reports.all()
    }
    /// Returns a reader of the registries whose status, in the core or of their runs, changed.
    #[must_use]
    pub fn status_changes(&self) -> StatusChanges {
        self.statuses.subscribe()
    }
    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> RuntimeStats {
        self.counters.read()
    }
    /// Reads the core, between two batches.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.command(move |core| (look(core), ApplyOutcome::default())).await
    }
    /// Executes an operator's command on the core between two batches; its effects are published like any
    /// other change.
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
        self.commands.send(CoreCommand::Visit(Box::new(visit))).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
    /// Restores a part of the facts that a journal kept of a registry, before its first run. The registry becomes
    /// known to the core; [`Handle::add_registry`] adds it as always. `changed`: its source is configured differently now.
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
    /// Drops the restored facts of a scope, as if the journal had not contained it.
    pub async fn forget(&self, registry: RegistryName, scope: Scope) -> Result<(), Stopped> {
        self.command(move |core| ((), core.forget(&registry, &scope))).await
    }
    /// Ends the restore of a journal. A server that had been ready becomes ready once the restored facts are
    /// published.
    pub async fn restored(&self, was_ready: bool) -> Result<(), Stopped> {
        self.commands.send(CoreCommand::Restored { was_ready }).await.map_err(|_| Stopped)
    }
    /// Accepts, as the operator, a run that may read less or whose source's identity changed. If the core refused the
    /// updates of the served run, a new run lists the source again.
    pub async fn accept(&self, registry: RegistryName) -> Result<bool, Stopped> {
        let (now, name) = (self.clock.now(), registry.clone());
        let accepted = self.command(move |core| {
            let refused = core.refuses_updates(&registry);
            let (accepted, outcome) = core.accept(now, &registry);
            ((accepted, accepted && refused), outcome)
        });
        let (accepted, lists_again) = accepted.await?;
        if lists_again {
            // A source without a supervisor lists again when its holder restarts it.
            let _ = self.restart(name).await;
        }
        Ok(accepted)
    }
    /// Ends the facts of a registry, of a scope, or of a kind in it; returns what ended. If the run confirms some of
    /// these facts now, a new run lists the source again, which restores what still exists.
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
            // A source without a supervisor lists again when its holder restarts it.
            let _ = self.restart(name).await;
        }
        Ok(ended)
    }
    /// Returns what [`Handle::end`] would end.
    pub async fn end_plan(
        &self,
        registry: RegistryName,
        scope: Option<Scope>,
        kind: Option<CollectionKind>,
    ) -> Result<Vec<EndPlan>, Stopped> {
        self.inspect(move |core| core.end_plan(&registry, scope.as_ref(), kind)).await
    }
    /// Sets whether all registries are known; until then no catalog is complete.
    pub async fn set_membership_known(&self, known: bool) -> Result<(), Stopped> {
        self.command(move |core| ((), core.set_membership_known(known))).await
    }
    /// Releases a held removal, as the operator. Returns false if no removal is held for this fact.
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
    /// Replaces a registry's factory: the previous run serves until the new run syncs in a shadow.
    pub async fn rotate(&self, factory: Arc<dyn RegistryFactory>) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Rotate(factory, reply)).await
    }
    /// Rotates registries, and adds those that are new: their runs begin to serve in one turn, once each of them may.
    pub async fn put_registries(
        &self,
        factories: Vec<Arc<dyn RegistryFactory>>,
    ) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Put(factories, reply)).await
    }
    /// Begins a new run of a registry, which lists its source again; in a shadow if the registry restarts so.
    pub async fn restart(&self, name: RegistryName) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Restart(name, reply)).await
    }
    /// Stops a registry and removes its facts.
    pub async fn remove_registry(&self, name: RegistryName) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Leave(name, reply)).await
    }
    /// Stops registries and removes their facts in one turn, also those of registries that a journal restored and that were not added
    /// since. Unknown names are skipped.
    pub async fn remove_registries(&self, names: Vec<RegistryName>) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::LeaveAll(names, reply)).await
    }
    /// Sets the identity that the sources of registries may have in place of the pinned one, and whether runs that can read less may
    /// replace the served ones.
    pub async fn set_accepted(
        &self,
        names: Vec<RegistryName>,
        identity: Option<Fingerprint>,
        fewer_rights: bool,
    ) -> Result<(), Stopped> {
        let now = self.clock.now();
        self.command(move |core| ((), core.set_accepted(now, &names, (identity.as_ref(), fewer_rights))))
            .await
    }
    /// Sets the priority at which the facts of registries are served, in one turn.
    pub async fn set_priority(
        &self,
        names: Vec<RegistryName>,
        priority: ShardPriority,
    ) -> Result<(), Stopped> {
        let now = self.clock.now();
        self.command(move |core| ((), core.set_priorities(now, &names, priority))).await
    }
    /// Stops the runs of registries until they are rotated; their facts stay, stale for this reason. Unknown names are skipped.
    pub async fn pause_registries(
        &self,
        names: Vec<RegistryName>,
        why: Arc<str>,
    ) -> Result<(), SupervisorError> {
        self.member(|reply| MemberOrder::Pause(names, why, reply)).await
    }
    /// Lists a restored registry among the runs, before its first run.
    pub fn await_run(&self, name: &RegistryName) {
        self.reports.update(name, |_, _| {});
    }
    /// Applies the changes of a list of registries; `kinds` builds the adapters.
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
    /// Adds a source that the caller runs itself, with one generation for the life of the server: the
    /// configuration file, clients' reports. It gets no confirm requests.
    pub async fn source(&self, spec: RegistrySpec) -> Result<Source, SupervisorError> {
        let name = spec.id.name.clone();
        let (reply, answer) = oneshot::channel();
        let run_order = RunOrder::first(spec.clone());
        let join = CoreCommand::Join { spec, adopted: watch::Sender::new(Generation(0)), reply };
        self.commands.send(join).await?;
        answer.await??;
        let run = Run { registry: name, generation: Generation(1) };
        let (updates, receiver) = update_channel(run, Arc::clone(&self.clock), Arc::clone(&self.wake));
        let receiver = RunReceiver::new(receiver, None);
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(CoreCommand::Begin { run: run_order, role: RunRole::Served, receiver, reply })
            .await?;
        // Only a run that a supervisor begins can compete with an adoption.
        let _ = answer.await?;
        Ok(Source { updates, commands: self.commands.clone() })
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
        write!(f, "Handle(generation {})", *self.published.generation.borrow())
    }
}

/// A source that its holder runs.
#[derive(Debug, Clone)]
pub struct Source {
    /// Sends updates of the source.
    pub updates: UpdateSender,
    commands: mpsc::Sender<CoreCommand>,
}

impl Source {
    /// Ends the source and removes its facts.
    pub async fn leave(self) -> Result<(), Stopped> {
        let (reply, answer) = oneshot::channel();
        let names = vec![self.updates.run().registry.clone()];
        let leave = CoreCommand::Leave { names, evidence: Evidence::Operator, reply };
        self.commands.send(leave).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}
