//! Commands that the core task executes between two batches.
//!
//! The supervisor and handles send them through one bounded queue, so "the run ended" comes after all
//! updates of the run and before the next run begins.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tributary_core::{AddRegistryError, ApplyOutcome, Begun, Core, OrderRefused, RunOrder};
use tributary_model::{Evidence, Generation, RegistryName, RegistrySpec};

use super::CoreTask;
use super::receivers::{RunReceiver, RunRole, Slice};

/// A command for the core task.
pub(crate) enum CoreCommand {
    /// Adds a registry; `adopted` receives the generation of each adopted run.
    Join {
        spec: RegistrySpec,
        adopted: watch::Sender<Generation>,
        reply: oneshot::Sender<Result<(), AddRegistryError>>,
    },
    /// Begins a run: on the served facts, or in a shadow.
    Begin {
        run: RunOrder,
        role: RunRole,
        receiver: RunReceiver,
        reply: oneshot::Sender<Result<Begun, OrderRefused>>,
    },
    /// Ends a run; its facts stay served as stale.
    Ended { name: RegistryName, generation: Generation, why: Arc<str> },
    /// Removes registries in one turn.
    Leave { names: Vec<RegistryName>, evidence: Evidence, reply: oneshot::Sender<()> },
    /// Ends the restore of a journal; `was_ready`: whether that server had been ready.
    Restored { was_ready: bool },
    /// Inspects the core, or executes an operator's command.
    Visit(Box<dyn FnOnce(&mut Core) -> ApplyOutcome + Send>),
}

impl CoreTask {
    pub(super) fn execute(&mut self, command: CoreCommand) {
        match command {
            CoreCommand::Join { spec, adopted, reply } => {
                let joined = self.join(&spec, adopted);
                let _ = reply.send(joined);
            }
            CoreCommand::Begin { run, role, receiver, reply } => {
                let _ = reply.send(self.begin_run(&run, role, receiver));
            }
            CoreCommand::Ended { name, generation, why } => self.ended(&name, generation, &why),
            CoreCommand::Leave { names, evidence, reply } => {
                self.leave(&names, &evidence);
                let _ = reply.send(());
            }
            CoreCommand::Restored { was_ready } => self.start.restored |= was_ready,
            CoreCommand::Visit(visit) => {
                let outcome = visit(&mut self.core);
                self.take(outcome, self.clock.now());
            }
        }
    }

    fn join(
        &mut self,
        spec: &RegistrySpec,
        adopted: watch::Sender<Generation>,
    ) -> Result<(), AddRegistryError> {
        let name = &spec.id.name;
        if self.adoptions.contains_key(name) {
            // The core accepts an equal identity twice, for registries that a journal restored.
            return Err(AddRegistryError { name: name.clone(), known: spec.id.to_string() });
        }
        let outcome = self.core.add_registry(spec)?;
        self.start.left.remove(name);
        self.adoptions.insert(name.clone(), adopted);
        self.take(outcome, self.clock.now());
        Ok(())
    }

    fn begin_run(
        &mut self,
        run: &RunOrder,
        role: RunRole,
        receiver: RunReceiver,
    ) -> Result<Begun, OrderRefused> {
        let now = self.clock.now();
        let name = &run.spec.id.name;
        self.finish_take(name);
        let (outcome, begun) = match role {
            RunRole::Served => self.core.serve(now, run)?,
            RunRole::Shadow => {
                let (outcome, begun) = self.core.begin_shadows(now, std::slice::from_ref(run))?;
                (outcome, begun.into_iter().next().unwrap_or_default())
            }
        };
        if begun.in_shadow {
            self.receivers.shadow(name, receiver);
        } else {
            self.receivers.serve(name, receiver);
        }
        self.take(outcome, now);
        Ok(begun)
    }

    /// Applies the rest of a take that is processed in slices.
    fn finish_take(&mut self, name: &RegistryName) {
        while let Some(slice) = self.receivers.rest_of(name) {
            self.apply_batch(slice);
        }
    }

    /// Applies the last updates of a run, which may complete a shadow. Drops all facts of a shadow that was
    /// not adopted.
    fn ended(&mut self, name: &RegistryName, generation: Generation, why: &Arc<str>) {
        self.finish_take(name);
        let last = self.receivers.close(name, generation);
        self.apply_batch(Slice { updates: last, last: true });
        let now = self.clock.now();
        match self.receivers.end(name, generation) {
            Some(RunRole::Served) => {
                let outcome = self.core.fail(now, name, why);
                self.take(outcome, now);
            }
            Some(RunRole::Shadow) => {
                let outcome = self.core.drop_shadow(name);
                self.take(outcome, now);
            }
            None => {}
        }
    }

    fn leave(&mut self, names: &[RegistryName], evidence: &Evidence) {
        for name in names {
            self.finish_take(name);
            self.receivers.forget(name);
            self.adoptions.remove(name);
            self.start.left.insert(name.clone());
        }
        let outcome = self.core.remove_registries(names, evidence);
        self.take(outcome, self.clock.now());
    }
}
