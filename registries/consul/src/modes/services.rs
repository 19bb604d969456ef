//! The services of a scope: a loop for each, opened when it is listed or asked about, closed when it is gone.

use std::sync::Arc;

use tributary_model::Mono;

use super::{LoopId, Machine, Output, Turn};
use crate::answer::RequestFailure;
use crate::content::Instances;
use crate::watch::{Confidence, Event, Follow, Sight, Watch};

/// How many answers that are Consul's no more than the last show that the next will be none either.
pub(super) const PATIENCE: u32 = 3;

/// One service.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) watch: Watch<Instances>,
    /// Whether the list of names has it; one that is only asked about is closed when the answer is there.
    pub(super) listed: bool,
    /// The nodes that its instances run on, hashed.
    pub(super) nodes: Box<[u64]>,
    /// When the leader answered first that a peer's service has no instance, since it last had one.
    pub(super) emptied: Option<Mono>,
    sight: Sight,
    read: bool,
}

impl Machine {
    /// Opens a loop that has not begun.
    pub(super) fn open(&mut self, name: &Arc<str>, listed: bool) -> u32 {
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        let follow = if listed { self.follow() } else { Follow::Demand };
        let watch = Watch::new(Arc::clone(&self.policy), follow);
        let (name_kept, sight) = (Arc::clone(name), watch.sight());
        let (nodes, emptied) = (Box::default(), None);
        let opened = Slot { name: name_kept, watch, listed, nodes, emptied, sight, read: false };
        self.slots.insert(slot, Box::new(opened));
        self.by_name.insert(Arc::clone(name), slot);
        self.by_key.insert(Self::key(name), slot);
        self.unread += 1;
        slot
    }

    /// Closes a loop: an absent name is not watched, since it would wake whenever any service vanishes.
    pub(super) fn close(&mut self, slot: u32, turn: &mut Turn) {
        self.drive_service(slot, Event::Stopped, turn);
        let Some(closed) = self.slots.remove(&slot) else { return };
        self.by_name.remove(&closed.name);
        self.by_key.remove(&Self::key(&closed.name));
        self.doorbell.forget(slot, &closed.nodes);
        self.sights.replace(closed.sight, Sight::Whole);
        self.unread -= usize::from(!closed.read);
    }

    pub(super) fn drive_service(&mut self, id: u32, event: Event<Instances>, turn: &mut Turn) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        // many loops are driven in one step, and must not march in step
        let chance = (turn.chance + f64::from(id) * 0.618_033_988_75).fract();
        let actions = slot.watch.step(turn.now, chance, event);
        let sight = slot.watch.sight();
        self.sights.replace(std::mem::replace(&mut slot.sight, sight), sight);
        for (instances, word) in self.carry(LoopId::Service(id), actions, turn) {
            self.said_service(id, instances, word, turn);
        }
        if self.spared_until.is_some_and(|until| until > turn.now) {
            self.choose_mode(turn);
        }
    }

    fn said_service(&mut self, id: u32, instances: Instances, word: Confidence, turn: &mut Turn) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if !std::mem::replace(&mut slot.read, true) {
            self.unread -= 1;
        }
        let nodes = instances.nodes();
        self.doorbell.stands_on(id, &slot.nodes, &nodes);
        slot.nodes = nodes;
        let name = Arc::clone(&slot.name);
        let empty = instances.entries.is_empty();
        let fresh = word == Confidence::Confirmed && !slot.listed;
        slot.listed |= fresh && !empty;
        slot.emptied = slot.emptied.filter(|_| empty);
        let word = if empty { self.prove_empty(id, word, turn) } else { word };
        let unlisted = fresh || !self.listed.contains_key(&name);
        turn.out.push(Output::Say(name, instances, word));
        if word == Confidence::Confirmed && empty && unlisted {
            self.close(id, turn);
        } else if fresh && !empty {
            self.drive_service(id, Event::Follow(self.follow()), turn);
            // the leader has what the list of names lacked: the list was not true, and may look the same when it is
            self.drive_names(Event::Confirm, turn);
        }
    }

    /// One service that cannot be read, while the scope answers, keeps nobody waiting for the others: its object is
    /// shown as bad, and what was known of it stays.
    pub(super) fn pass_over(&mut self, id: u32, failure: RequestFailure) {
        let patience = match failure {
            RequestFailure::Config | RequestFailure::Unsupported => 1,
            RequestFailure::Broken => PATIENCE,
            RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Auth => return,
        };
        let slot = self.slots.get_mut(&id).filter(|slot| slot.watch.failures() >= patience);
        if slot.is_some_and(|slot| !std::mem::replace(&mut slot.read, true)) {
            self.unread -= 1;
        }
    }

    /// A question about a service, whether or not it is followed.
    pub(super) fn asked(&mut self, service: &Arc<str>, turn: &mut Turn) {
        let slot = match self.by_name.get(service) {
            Some(slot) => *slot,
            None => {
                let slot = self.open(service, false);
                // nobody waits for it to be ready
                self.unread -= 1;
                self.slots.entry(slot).and_modify(|slot| slot.read = true);
                slot
            }
        };
        self.drive_service(slot, Event::Asked, turn);
    }
}
