//! Planted bugs of runs: the updates that a run with the bug would send.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tributary_model::{
    Collection, Completeness, EndpointGroup, Evidence, Fact, FactKey, RegistryUpdate, Scope, SourceState,
    SourceStatus,
};
use tributary_registry_api::{ProcessClock, UpdateSender, update_channel};

use crate::bugs::Bug;

/// State of a run with a bug.
struct Tamper {
    bug: Bug,
    lane: u32,
    out: UpdateSender,
    required: Vec<Collection>,
    groups: BTreeSet<FactKey>,
    scopes: BTreeSet<Scope>,
}

/// Reports a scope as followed.
fn live(scope: &Scope) -> RegistryUpdate {
    RegistryUpdate::Status(scope.clone(), SourceStatus::new(SourceState::Live, ""))
}

/// Returns the channel that the adapter uses in place of `out`, and the task that passes its updates on; `None` if the bug is
/// not one of runs.
pub(super) fn between(
    bug: Bug,
    lane: u32,
    out: UpdateSender,
) -> Option<(UpdateSender, BoxFuture<'static, ()>)> {
    let is_of_runs = matches!(
        bug,
        Bug::UnseenForgotten
            | Bug::SwapBeforeSync
            | Bug::LateDelete
            | Bug::AdoptionRewrites
            | Bug::LiveWithoutProgress
    );
    if !is_of_runs {
        return None;
    }
    let wake = Arc::new(Notify::new());
    let clock = Arc::new(ProcessClock::starting_now());
    let (sender, mut receiver) = update_channel(out.run().clone(), clock, Arc::clone(&wake));
    let mut tamper =
        Tamper { bug, lane, out, required: Vec::new(), groups: BTreeSet::new(), scopes: BTreeSet::new() };
    let task = async move {
        let mut tick = tokio::time::interval(Duration::from_secs(15));
        tick.tick().await;
        loop {
            tokio::select! {
                biased;
                () = wake.notified() => {
                    let updates = receiver.take().into_iter().flat_map(|update| tamper.change(update.value));
                    let updates: Vec<_> = updates.collect();
                    tamper.out.send_all(updates);
                }
                _ = tick.tick() => tamper.tick(),
            }
        }
    };
    Some((sender, Box::pin(task)))
}

impl Tamper {
    fn change(&mut self, update: RegistryUpdate) -> Vec<RegistryUpdate> {
        match &update {
            RegistryUpdate::Follows { required, .. } => {
                self.required.clone_from(required);
                if self.bug == Bug::SwapBeforeSync {
                    return std::iter::once(update).chain(self.lists()).collect();
                }
            }
            RegistryUpdate::Put(scope, fact @ Fact::Group(..), _) => {
                self.groups.insert(FactKey { scope: scope.clone(), item: fact.item() });
            }
            RegistryUpdate::Status(scope, _) => {
                self.scopes.insert(scope.clone());
            }
            _ => {}
        }
        match update {
            RegistryUpdate::Put(scope, Fact::Group(key, group), basis)
                if self.bug == Bug::AdoptionRewrites =>
            {
                let group = Arc::new(self.rewritten(&group));
                vec![RegistryUpdate::Put(scope, Fact::Group(key, group), basis)]
            }
            RegistryUpdate::Status(..) if self.bug == Bug::LiveWithoutProgress => Vec::new(),
            // complete since the beginning, and followed
            RegistryUpdate::Status(scope, _) if self.bug == Bug::SwapBeforeSync => vec![live(&scope)],
            RegistryUpdate::ListStarted(_) | RegistryUpdate::ListEnded(..)
                if self.bug == Bug::SwapBeforeSync =>
            {
                Vec::new()
            }
            update => vec![update],
        }
    }
    /// Begins and ends every required list without a fact.
    fn lists(&self) -> Vec<RegistryUpdate> {
        let of = |collection: &Collection| {
            [
                RegistryUpdate::ListStarted(collection.clone()),
                RegistryUpdate::ListEnded(collection.clone(), Completeness::Complete),
            ]
        };
        self.required.iter().flat_map(of).collect()
    }
    /// Returns equal addresses in another order, by lane.
    fn rewritten(&self, group: &EndpointGroup) -> EndpointGroup {
        let mut addresses = group.addresses.to_vec();
        if self.lane.is_multiple_of(2) {
            addresses.reverse();
        }
        EndpointGroup { addresses: addresses.into(), ..group.clone() }
    }
    fn tick(&mut self) {
        let updates = match self.bug {
            Bug::UnseenForgotten => self.lists(),
            Bug::LateDelete => {
                let first = self.groups.pop_first();
                first.map(|key| RegistryUpdate::Remove(key, Evidence::AbsentFromList)).into_iter().collect()
            }
            Bug::LiveWithoutProgress => {
                let statuses = self.scopes.iter().map(live);
                statuses.chain(self.required.iter().cloned().map(RegistryUpdate::Progress)).collect()
            }
            _ => Vec::new(),
        };
        self.out.send_all(updates);
    }
}
