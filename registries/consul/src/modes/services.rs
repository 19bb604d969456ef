//! Services of a scope: one loop each, opened when a service is listed or requested, closed when it is gone.

use std::sync::Arc;

use tributary_model::Mono;

use super::{LoopId, Machine, Output, StepContext};
use crate::answer::RequestFailure;
use crate::content::Instances;
use crate::watch::{Confidence, Event, Follow, Sight, Watch};

/// Unreadable answers in a row after which the next is expected to be unreadable too.
pub(super) const PATIENCE: u32 = 3;

/// One service.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) watch: Watch<Instances>,
    /// Whether the list of names has it. A service that was only requested is closed after its answer.
    pub(super) listed: bool,
    /// Hashes of the nodes that its instances run on.
    pub(super) nodes: Box<[u64]>,
    /// Time of the leader's first answer without instances, for a peer's service, since it last had one.
    pub(super) emptied: Option<Mono>,
    sight: Sight,
    read: bool,
}

impl Machine {
    /// Opens a loop without starting it.
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

    /// Closes a loop. An absent name is not watched, because its query would wake whenever any service vanishes.
    pub(super) fn close(&mut self, slot: u32, cx: &mut StepContext) {
        self.drive_service(slot, Event::Stopped, cx);
        let Some(closed) = self.slots.remove(&slot) else { return };
        self.by_name.remove(&closed.name);
        self.by_key.remove(&Self::key(&closed.name));
        self.notify.forget(slot, &closed.nodes);
        self.sights.replace(closed.sight, Sight::Whole);
        self.unread -= usize::from(!closed.read);
    }

    pub(super) fn drive_service(&mut self, id: u32, event: Event<Instances>, cx: &mut StepContext) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        // many loops run in one step and must not synchronize
        let random = (cx.random + f64::from(id) * 0.618_033_988_75).fract();
        let actions = slot.watch.step(cx.now, random, event);
        let sight = slot.watch.sight();
        self.sights.replace(std::mem::replace(&mut slot.sight, sight), sight);
        for (instances, confidence) in self.perform(LoopId::Service(id), actions, cx) {
            self.report_service(id, instances, confidence, cx);
        }
        if self.spared_until.is_some_and(|until| until > cx.now) {
            self.choose_mode(cx);
        }
    }

    fn report_service(
        &mut self,
        id: u32,
        instances: Instances,
        confidence: Confidence,
        cx: &mut StepContext,
    ) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if !std::mem::replace(&mut slot.read, true) {
            self.unread -= 1;
        }
        let nodes = instances.nodes();
        self.notify.set_nodes(id, &slot.nodes, &nodes);
        slot.nodes = nodes;
        let name = Arc::clone(&slot.name);
        let empty = instances.entries.is_empty();
        let fresh = confidence == Confidence::Confirmed && !slot.listed;
        slot.listed |= fresh && !empty;
        slot.emptied = slot.emptied.filter(|_| empty);
        let confidence = if empty { self.prove_empty(id, confidence, cx) } else { confidence };
        let unlisted = fresh || !self.listed.contains_key(&name);
        cx.out.push(Output::Report(name, instances, confidence));
        if confidence == Confidence::Confirmed && empty && unlisted {
            self.close(id, cx);
        } else if fresh && !empty {
            self.drive_service(id, Event::Follow(self.follow()), cx);
            // the leader has a service that the list of names lacked, so that list was wrong and may not change when
            // it becomes right
            self.drive_names(Event::ReadLeader, cx);
        }
    }

    /// Stops waiting for a service that cannot be read while the scope answers: its object gets a problem, and what
    /// was known of it stays.
    pub(super) fn stop_waiting_for(&mut self, id: u32, failure: RequestFailure) {
        let patience = match failure {
            RequestFailure::Config | RequestFailure::Unsupported | RequestFailure::TooLarge => 1,
            RequestFailure::Broken => PATIENCE,
            RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Auth => return,
        };
        let slot = self.slots.get_mut(&id).filter(|slot| slot.watch.failures() >= patience);
        if slot.is_some_and(|slot| !std::mem::replace(&mut slot.read, true)) {
            self.unread -= 1;
        }
    }

    /// Handles a confirm request for a service, followed or not.
    pub(super) fn confirm_requested(&mut self, service: &Arc<str>, cx: &mut StepContext) {
        let slot = match self.by_name.get(service) {
            Some(slot) => *slot,
            None => {
                let slot = self.open(service, false);
                // readiness does not wait for it
                self.unread -= 1;
                self.slots.entry(slot).and_modify(|slot| slot.read = true);
                slot
            }
        };
        self.drive_service(slot, Event::ConfirmRequested, cx);
    }
}
