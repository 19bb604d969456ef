//! What the pump can be told to do between two turns.
//!
//! Sent by the supervisor and by handles through one bounded queue, so that "the run ended" comes
//! after all that the run said and before the next one begins.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tributary_core::{AddRegistryError, ApplyOutcome, Begun, Core, OrderRefused, RunOrder};
use tributary_model::{Evidence, Generation, RegistryName, RegistrySpec};

use super::CoreTask;
use super::receivers::{RunReceiver, Slice, Which};

/// An order.
pub(crate) enum CoreCommand {
    /// A registry becomes a member; its adoptions are told to `adopted`.
    Join {
        spec: RegistrySpec,
        adopted: watch::Sender<Generation>,
        reply: oneshot::Sender<Result<(), AddRegistryError>>,
    },
    /// A run begins: on the served facts, or in a shadow.
    Begin {
        run: RunOrder,
        which: Which,
        feed: RunReceiver,
        reply: oneshot::Sender<Result<Begun, OrderRefused>>,
    },
    /// A run ended; what it said stays, stale.
    Ended { name: RegistryName, generation: Generation, why: Arc<str> },
    /// A registry is no member any more.
    Leave { name: RegistryName, evidence: Evidence, reply: oneshot::Sender<()> },
    /// What a journal kept was given back; whether that server had been ready.
    Restored { was_ready: bool },
    /// Somebody looks, or an operator's command.
    Visit(Box<dyn FnOnce(&mut Core) -> ApplyOutcome + Send>),
}

impl CoreTask {
    pub(super) fn carry_out(&mut self, order: CoreCommand) {
        match order {
            CoreCommand::Join { spec, adopted, reply } => {
                let joined = self.join(&spec, adopted);
                let _ = reply.send(joined);
            }
            CoreCommand::Begin { run, which, feed, reply } => {
                let _ = reply.send(self.begin_run(&run, which, feed));
            }
            CoreCommand::Ended { name, generation, why } => self.ended(&name, generation, &why),
            CoreCommand::Leave { name, evidence, reply } => {
                self.leave(&name, &evidence);
                let _ = reply.send(());
            }
            CoreCommand::Restored { was_ready } => self.start.restored |= was_ready,
            CoreCommand::Visit(visit) => {
                let turn = visit(&mut self.core);
                self.take(turn, self.clock.now());
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
            // the core takes the same identity twice, for what a journal restored
            return Err(AddRegistryError { name: name.clone(), known: spec.id.to_string() });
        }
        let turn = self.core.add_registry(spec)?;
        self.start.left.remove(name);
        self.adoptions.insert(name.clone(), adopted);
        self.take(turn, self.clock.now());
        Ok(())
    }

    fn begin_run(&mut self, run: &RunOrder, which: Which, feed: RunReceiver) -> Result<Begun, OrderRefused> {
        let now = self.clock.now();
        let name = &run.spec.id.name;
        self.finish_take(name);
        let (turn, begun) = match which {
            Which::Served => self.core.serve(now, run)?,
            Which::Shadow => {
                let (turn, begun) = self.core.begin_shadows(now, std::slice::from_ref(run))?;
                (turn, begun.into_iter().next().unwrap_or_default())
            }
        };
        if begun.in_shadow {
            self.feeds.shadow(name, feed);
        } else {
            self.feeds.serve(name, feed);
        }
        self.take(turn, now);
        Ok(begun)
    }

    /// Applies what is left of a take that is passed on in slices.
    fn finish_take(&mut self, name: &RegistryName) {
        while let Some(slice) = self.feeds.rest_of(name) {
            self.turn(slice);
        }
    }

    /// The last updates of a run count; they may even be what makes a shadow complete. One that did
    /// not come to serve is forgotten whole.
    fn ended(&mut self, name: &RegistryName, generation: Generation, why: &Arc<str>) {
        self.finish_take(name);
        let last = self.feeds.last_words(name, generation);
        self.turn(Slice { updates: last, last: true });
        let now = self.clock.now();
        match self.feeds.end(name, generation) {
            Some(Which::Served) => {
                let turn = self.core.fail(now, name, why);
                self.take(turn, now);
            }
            Some(Which::Shadow) => {
                let turn = self.core.drop_shadow(name);
                self.take(turn, now);
            }
            None => {}
        }
    }

    fn leave(&mut self, name: &RegistryName, evidence: &Evidence) {
        self.finish_take(name);
        self.feeds.forget(name);
        self.adoptions.remove(name);
        self.start.left.insert(name.clone());
        let turn = self.core.remove_registry(name, evidence);
        self.take(turn, self.clock.now());
    }
}
