//! Services of a scope: one loop each, opened when a service is listed or requested, closed when it is gone.

use std::sync::Arc;

use tributary_model::Mono;

use super::{LoopId, Machine, Output, StepContext};
use crate::answer::RequestFailure;
use crate::content::Instances;
use crate::watch::{Confidence, Event, Follow, TokenView, Watch};

/// Unreadable answers in a row after which the next is expected to be unreadable too.
pub(super) const PATIENCE: u32 = 3;

/// One service.
#[derive(Debug, Clone)]
pub(super) struct ServiceLoop {
    pub(super) name: Arc<str>,
    pub(super) watch: Watch<Instances>,
    /// Whether the list of names has it. A service that was only requested is closed after its answer.
    pub(super) listed: bool,
    /// Hashes of the nodes that its instances run on.
    pub(super) nodes: Box<[u64]>,
    /// Time of the leader's first answer without instances, for a peer's service, since it last had one.
    pub(super) emptied: Option<Mono>,
    view: TokenView,
    read: bool,
}

impl Machine {
    /// Opens a loop without starting it. It has no long poll before the budget gives it one.
    pub(super) fn open(&mut self, name: &Arc<str>, listed: bool) -> u32 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let watch = Watch::new(Arc::clone(&self.policy), Follow::Demand);
        let (name_kept, view) = (Arc::clone(name), watch.token_view());
        let (nodes, emptied) = (Box::default(), None);
        let opened = ServiceLoop { name: name_kept, watch, listed, nodes, emptied, view, read: false };
        self.services.insert(id, Box::new(opened));
        self.by_name.insert(Arc::clone(name), id);
        self.by_key.insert(Self::key(name), id);
        self.unread += 1;
        id
    }

    /// Closes a loop. An absent name is not watched, because its query would wake whenever any service vanishes.
    pub(super) fn close(&mut self, id: u32, cx: &mut StepContext) {
        self.drive_service(id, Event::Stopped, cx);
        let Some(closed) = self.services.remove(&id) else { return };
        self.by_name.remove(&closed.name);
        self.by_key.remove(&Self::key(&closed.name));
        self.budget.remove(id);
        self.notify.forget(id, &closed.nodes);
        self.views.replace(closed.view, TokenView::Whole);
        self.unread -= usize::from(!closed.read);
    }

    pub(super) fn drive_service(&mut self, id: u32, event: Event<Instances>, cx: &mut StepContext) {
        let Some(service) = self.services.get_mut(&id) else { return };
        // many loops run in one step and must not synchronize
        let random = (cx.random + f64::from(id) * 0.618_033_988_75).fract();
        let actions = service.watch.step(cx.now, random, event);
        let view = service.watch.token_view();
        self.views.replace(std::mem::replace(&mut service.view, view), view);
        for (instances, confidence) in self.perform(LoopId::Service(id), actions, cx) {
            self.report_service(id, instances, confidence, cx);
        }
    }

    fn report_service(
        &mut self,
        id: u32,
        instances: Instances,
        confidence: Confidence,
        cx: &mut StepContext,
    ) {
        let Some(service) = self.services.get_mut(&id) else { return };
        if std::mem::replace(&mut service.read, true) {
            self.budget.changed(id);
        } else {
            self.unread -= 1;
        }
        let nodes = instances.nodes();
        self.notify.set_nodes(id, &service.nodes, &nodes);
        service.nodes = nodes;
        let name = Arc::clone(&service.name);
        let empty = instances.entries.is_empty();
        let fresh = confidence == Confidence::Confirmed && !service.listed;
        service.listed |= fresh && !empty;
        service.emptied = service.emptied.filter(|_| empty);
        let confidence = if empty { self.prove_empty(id, confidence, cx) } else { confidence };
        let unlisted = fresh || !self.listed.contains_key(&name);
        cx.out.push(Output::Report(name, instances, confidence));
        if confidence == Confidence::Confirmed && empty && unlisted {
            self.close(id, cx);
        } else if fresh && !empty {
            self.budget.add(id, false);
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
        let service = self.services.get_mut(&id).filter(|service| service.watch.failures() >= patience);
        if service.is_some_and(|service| !std::mem::replace(&mut service.read, true)) {
            self.unread -= 1;
        }
    }

    /// Handles a confirm request for a service, followed or not.
    pub(super) fn confirm_requested(&mut self, name: &Arc<str>, cx: &mut StepContext) {
        let id = match self.by_name.get(name) {
            Some(id) => *id,
            None => {
                let id = self.open(name, false);
                // readiness does not wait for it
                self.unread -= 1;
                self.services.entry(id).and_modify(|service| service.read = true);
                id
            }
        };
        self.drive_service(id, Event::ConfirmRequested, cx);
    }
}
