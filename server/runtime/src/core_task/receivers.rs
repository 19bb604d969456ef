//! Receiving ends of all update channels, and the way back for confirm requests.
//!
//! The core task owns them. A registry has one served run and, while it rotates, a shadow. Runs are
//! drained round-robin, one take or a slice of a large one at a time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use tributary_model::{ConfirmRequest, Generation, RegistryName, RegistryUpdate, Stamped};
use tributary_registry_api::{ConfirmSender, UpdateReceiver};

/// Channel ends of one run.
#[derive(Debug)]
pub(crate) struct RunReceiver {
    pub(crate) receiver: UpdateReceiver,
    /// `None` for a source that the binary itself runs: it gets no confirm requests.
    pub(crate) confirms: Option<ConfirmSender>,
    /// Rest of a take that is processed in slices.
    rest: VecDeque<Stamped<RegistryUpdate>>,
}

/// A part of the updates of one run.
#[derive(Debug)]
pub(crate) struct Slice {
    /// The updates, in order.
    pub(crate) updates: Vec<Stamped<RegistryUpdate>>,
    /// Whether it ends the take: only then do its effects reach the state.
    pub(crate) last: bool,
}

impl RunReceiver {
    /// Most updates of one slice.
    const SLICE: usize = 4096;

    /// Combines the channel ends of a run.
    pub(crate) fn new(receiver: UpdateReceiver, confirms: Option<ConfirmSender>) -> Self {
        Self { receiver, confirms, rest: VecDeque::new() }
    }
    /// Returns the next slice: of an unfinished take, else of pending updates.
    fn next(&mut self) -> Option<Slice> {
        if self.rest.is_empty() {
            let take = self.receiver.take();
            if take.len() <= Self::SLICE {
                return (!take.is_empty()).then_some(Slice { updates: take, last: true });
            }
            self.rest = take.into();
        }
        self.rest()
    }
    fn rest(&mut self) -> Option<Slice> {
        let count = self.rest.len().min(Self::SLICE);
        let updates: Vec<_> = self.rest.drain(..count).collect();
        let last = self.rest.is_empty();
        (!updates.is_empty()).then_some(Slice { updates, last })
    }
    fn generation(&self) -> Generation {
        self.receiver.run().generation
    }
}

/// Role of a run: its facts are served, or it fills a shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunRole {
    Served,
    Shadow,
}

#[derive(Debug, Default)]
struct Pair {
    served: Option<RunReceiver>,
    shadow: Option<RunReceiver>,
}

/// Receivers of all runs, by registry.
#[derive(Debug, Default)]
pub(crate) struct RunReceivers {
    pairs: BTreeMap<RegistryName, Pair>,
    /// The run that was drained last.
    last: Option<(RegistryName, RunRole)>,
}

impl RunReceivers {
    /// Sets the served run; closes the previous one.
    pub(crate) fn serve(&mut self, name: &RegistryName, receiver: RunReceiver) {
        self.pairs.entry(name.clone()).or_default().served = Some(receiver);
    }
    /// Sets the shadow; closes the previous one.
    pub(crate) fn shadow(&mut self, name: &RegistryName, receiver: RunReceiver) {
        self.pairs.entry(name.clone()).or_default().shadow = Some(receiver);
    }
    /// Closes the channel of one run and returns its pending updates; empty if the run is unknown.
    pub(crate) fn close(
        &mut self,
        name: &RegistryName,
        generation: Generation,
    ) -> Vec<Stamped<RegistryUpdate>> {
        let Some(pair) = self.pairs.get_mut(name) else { return Vec::new() };
        let mut receivers = [&mut pair.served, &mut pair.shadow].into_iter().flatten();
        receivers
            .find(|receiver| receiver.generation() == generation)
            .map_or_else(Vec::new, |receiver| receiver.receiver.close())
    }
    /// Removes one run and returns which it was.
    pub(crate) fn end(&mut self, name: &RegistryName, generation: Generation) -> Option<RunRole> {
        let pair = self.pairs.get_mut(name)?;
        let ends = |receiver: &mut RunReceiver| receiver.generation() == generation;
        let served = pair.served.take_if(ends).map(|_| RunRole::Served);
        served.or_else(|| pair.shadow.take_if(ends).map(|_| RunRole::Shadow))
    }
    /// Closes all runs of a registry.
    pub(crate) fn forget(&mut self, name: &RegistryName) {
        self.pairs.remove(name);
    }
    /// Returns the next slice of updates, from the run after the one that was drained last; `None` if no
    /// update is pending.
    pub(crate) fn next(&mut self) -> Option<Slice> {
        let after = self.last.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last.0));
        let second = after.as_ref().filter(|(_, role)| *role == RunRole::Served);
        let again = second.map(|(name, _)| (name.clone(), RunRole::Shadow));
        let names = |range: (Bound<&RegistryName>, Bound<&RegistryName>)| {
            let names = self.pairs.range::<RegistryName, _>(range).map(|(name, _)| name.clone());
            names
                .flat_map(|name| [(name.clone(), RunRole::Served), (name, RunRole::Shadow)])
                .collect::<Vec<_>>()
        };
        let rest = names((start, Bound::Unbounded));
        let until = after.as_ref().map(|(name, _)| name);
        let round = until.map(|until| names((Bound::Unbounded, Bound::Included(until)))).unwrap_or_default();
        let order: Vec<_> = again.into_iter().chain(rest).chain(round).collect();
        for (name, role) in order {
            if let Some(slice) = self.receiver_mut(&name, role).and_then(RunReceiver::next) {
                self.last = Some((name, role));
                return Some(slice);
            }
        }
        None
    }
    /// Returns the next slice of an unfinished take of this registry; `None` if no take is unfinished.
    pub(crate) fn rest_of(&mut self, name: &RegistryName) -> Option<Slice> {
        let pair = self.pairs.get_mut(name)?;
        [&mut pair.served, &mut pair.shadow].into_iter().flatten().find_map(RunReceiver::rest)
    }
    fn receiver_mut(&mut self, name: &RegistryName, role: RunRole) -> Option<&mut RunReceiver> {
        let pair = self.pairs.get_mut(name)?;
        match role {
            RunRole::Served => pair.served.as_mut(),
            RunRole::Shadow => pair.shadow.as_mut(),
        }
    }
    /// Returns the registries with a shadow, and its generation.
    pub(crate) fn shadows(&self) -> Vec<(RegistryName, Generation)> {
        let shadow =
            |(name, pair): (&RegistryName, &Pair)| Some((name.clone(), pair.shadow.as_ref()?.generation()));
        self.pairs.iter().filter_map(shadow).collect()
    }
    /// Makes the shadow the served run; closes the run that it replaces.
    pub(crate) fn adopt(&mut self, name: &RegistryName) {
        if let Some(pair) = self.pairs.get_mut(name) {
            pair.served = pair.shadow.take();
        }
    }
    /// Sends a confirm request to its run; false if the run is unknown or its queue is full.
    pub(crate) fn confirm(&self, request: &ConfirmRequest) -> bool {
        let Some(pair) = self.pairs.get(&request.registry) else { return false };
        let receivers = [&pair.served, &pair.shadow].into_iter().flatten();
        let target = receivers
            .filter(|receiver| receiver.generation() == request.generation)
            .find_map(|receiver| receiver.confirms.as_ref());
        target.is_some_and(|confirms| confirms.send(request.confirm.clone()))
    }
}
