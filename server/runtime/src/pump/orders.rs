//! What the pump can be told to do between two turns.
//!
//! Sent by the supervisor and by handles through one bounded queue, so that "the run ended" comes
//! after all that the run said and before the next one begins.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tributary_core::{Core, JoinError, Turn};
use tributary_model::{Evidence, Generation, RegistryName, RegistrySpec};

use super::Pump;
use super::feeds::{Feed, Which};

/// An order.
pub(crate) enum Order {
    /// A registry becomes a member; its adoptions are told to `adopted`.
    Join {
        spec: RegistrySpec,
        adopted: watch::Sender<Generation>,
        reply: oneshot::Sender<Result<(), JoinError>>,
    },
    /// A run begins on the registry's own shards.
    Serve { name: RegistryName, feed: Feed },
    /// A run begins in a shadow.
    Shadow { name: RegistryName, feed: Feed },
    /// A run ended; what it said stays, stale.
    Ended { name: RegistryName, generation: Generation, why: Arc<str> },
    /// A registry is no member any more.
    Leave { name: RegistryName, evidence: Evidence, reply: oneshot::Sender<()> },
    /// Somebody looks, or an operator's command.
    Visit(Box<dyn FnOnce(&mut Core) -> Turn + Send>),
}

impl Pump {
    pub(super) fn carry_out(&mut self, order: Order) {
        match order {
            Order::Join { spec, adopted, reply } => {
                let joined = self.join(&spec, adopted);
                let _ = reply.send(joined);
            }
            Order::Serve { name, feed } => self.serve(&name, feed),
            Order::Shadow { name, feed } => self.shadow(&name, feed),
            Order::Ended { name, generation, why } => self.ended(&name, generation, &why),
            Order::Leave { name, evidence, reply } => {
                self.leave(&name, &evidence);
                let _ = reply.send(());
            }
            Order::Visit(visit) => {
                let turn = visit(&mut self.core);
                self.take(turn, self.clock.now());
            }
        }
    }

    fn join(&mut self, spec: &RegistrySpec, adopted: watch::Sender<Generation>) -> Result<(), JoinError> {
        let name = &spec.id.name;
        if self.adoptions.contains_key(name) {
            // the core takes the same identity twice, for what a journal restored
            return Err(JoinError { name: name.clone(), known: spec.id.to_string() });
        }
        let turn = self.core.join(spec)?;
        self.start.left.remove(name);
        self.adoptions.insert(name.clone(), adopted);
        self.take(turn, self.clock.now());
        Ok(())
    }

    fn serve(&mut self, name: &RegistryName, feed: Feed) {
        let now = self.clock.now();
        let turn = self.core.restart(now, name, feed.outlet.run().generation);
        self.feeds.serve(name, feed);
        self.take(turn, now);
    }

    fn shadow(&mut self, name: &RegistryName, feed: Feed) {
        let now = self.clock.now();
        let turn = self.core.begin_shadow(now, name, feed.outlet.run().generation);
        self.feeds.shadow(name, feed);
        self.take(turn, now);
    }

    /// The last words of a run count; they may even be what makes a shadow complete. One that did
    /// not come to serve is forgotten whole.
    fn ended(&mut self, name: &RegistryName, generation: Generation, why: &Arc<str>) {
        let last_words = self.feeds.last_words(name, generation);
        self.turn(last_words);
        let now = self.clock.now();
        match self.feeds.end(name, generation) {
            Some(Which::Served) => {
                let turn = self.core.fail(now, name, why);
                self.take(turn, now);
            }
            Some(Which::Shadow) => self.core.drop_shadow(name),
            None => {}
        }
    }

    fn leave(&mut self, name: &RegistryName, evidence: &Evidence) {
        self.feeds.forget(name);
        self.adoptions.remove(name);
        self.start.left.insert(name.clone());
        let turn = self.core.leave(name, evidence);
        self.take(turn, self.clock.now());
    }
}
