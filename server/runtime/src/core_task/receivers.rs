//! The ends of all inlets that the pump drains, and the way back for questions.
//!
//! Owned by the pump. A registry has one served feed and, while it rotates, a shadow's beside it. Feeds
//! are served round-robin, one take or a slice of a large one at a time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use tributary_model::{ConfirmRequest, Generation, RegistryName, RegistryUpdate, Stamped};
use tributary_registry_api::{ConfirmSender, UpdateReceiver};

/// One run's ends.
#[derive(Debug)]
pub(crate) struct RunReceiver {
    pub(crate) receiver: UpdateReceiver,
    /// `None` for a source that the binary itself runs: it is never asked.
    pub(crate) confirms: Option<ConfirmSender>,
    /// What is left of a take that is passed on in slices.
    rest: VecDeque<Stamped<RegistryUpdate>>,
}

/// A part of what one run has reported.
#[derive(Debug)]
pub(crate) struct Slice {
    /// The updates, in order.
    pub(crate) updates: Vec<Stamped<RegistryUpdate>>,
    /// Whether the take ends with it: only then do its effects reach the state.
    pub(crate) last: bool,
}

impl RunReceiver {
    /// How many updates are taken in one slice.
    const SLICE: usize = 4096;

    /// A run's ends.
    pub(crate) fn new(receiver: UpdateReceiver, confirms: Option<ConfirmSender>) -> Self {
        Self { receiver, confirms, rest: VecDeque::new() }
    }
    /// The next slice: of a take that was begun, else of what is pending.
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

/// One of a registry's two feeds, or of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Served,
    Shadow,
}

#[derive(Debug, Default)]
struct Pair {
    served: Option<RunReceiver>,
    shadow: Option<RunReceiver>,
}

/// All feeds, by registry.
#[derive(Debug, Default)]
pub(crate) struct RunReceivers {
    pairs: BTreeMap<RegistryName, Pair>,
    /// The feed that was served last.
    last: Option<(RegistryName, Which)>,
}

impl RunReceivers {
    /// Sets the served feed; the one before it is closed.
    pub(crate) fn serve(&mut self, name: &RegistryName, feed: RunReceiver) {
        self.pairs.entry(name.clone()).or_default().served = Some(feed);
    }
    /// Sets the shadow's feed; the one before it is closed.
    pub(crate) fn shadow(&mut self, name: &RegistryName, feed: RunReceiver) {
        self.pairs.entry(name.clone()).or_default().shadow = Some(feed);
    }
    /// Closes the inlet of one run and returns what it had said; empty where there is no such run.
    pub(crate) fn last_words(
        &mut self,
        name: &RegistryName,
        generation: Generation,
    ) -> Vec<Stamped<RegistryUpdate>> {
        let Some(pair) = self.pairs.get_mut(name) else { return Vec::new() };
        let mut feeds = [&mut pair.served, &mut pair.shadow].into_iter().flatten();
        feeds.find(|feed| feed.generation() == generation).map_or_else(Vec::new, |feed| feed.receiver.close())
    }
    /// Removes the feed of one run and says which it was.
    pub(crate) fn end(&mut self, name: &RegistryName, generation: Generation) -> Option<Which> {
        let pair = self.pairs.get_mut(name)?;
        let ends = |feed: &mut RunReceiver| feed.generation() == generation;
        let served = pair.served.take_if(ends).map(|_| Which::Served);
        served.or_else(|| pair.shadow.take_if(ends).map(|_| Which::Shadow))
    }
    /// Closes all feeds of a registry.
    pub(crate) fn forget(&mut self, name: &RegistryName) {
        self.pairs.remove(name);
    }
    /// The next slice of updates, from the feed after the one that was served last; `None` when
    /// nothing is pending.
    pub(crate) fn next(&mut self) -> Option<Slice> {
        let after = self.last.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last.0));
        let second = after.as_ref().filter(|(_, which)| *which == Which::Served);
        let again = second.map(|(name, _)| (name.clone(), Which::Shadow));
        let names = |range: (Bound<&RegistryName>, Bound<&RegistryName>)| {
            let names = self.pairs.range::<RegistryName, _>(range).map(|(name, _)| name.clone());
            names.flat_map(|name| [(name.clone(), Which::Served), (name, Which::Shadow)]).collect::<Vec<_>>()
        };
        let rest = names((start, Bound::Unbounded));
        let until = after.as_ref().map(|(name, _)| name);
        let round = until.map(|until| names((Bound::Unbounded, Bound::Included(until)))).unwrap_or_default();
        let order: Vec<_> = again.into_iter().chain(rest).chain(round).collect();
        for (name, which) in order {
            if let Some(slice) = self.feed_mut(&name, which).and_then(RunReceiver::next) {
                self.last = Some((name, which));
                return Some(slice);
            }
        }
        None
    }
    /// The next slice of a take of this registry that was begun; `None` when it is finished.
    pub(crate) fn rest_of(&mut self, name: &RegistryName) -> Option<Slice> {
        let pair = self.pairs.get_mut(name)?;
        [&mut pair.served, &mut pair.shadow].into_iter().flatten().find_map(RunReceiver::rest)
    }
    fn feed_mut(&mut self, name: &RegistryName, which: Which) -> Option<&mut RunReceiver> {
        let pair = self.pairs.get_mut(name)?;
        match which {
            Which::Served => pair.served.as_mut(),
            Which::Shadow => pair.shadow.as_mut(),
        }
    }
    /// The registries that have a shadow, with its generation.
    pub(crate) fn shadows(&self) -> Vec<(RegistryName, Generation)> {
        let shadow =
            |(name, pair): (&RegistryName, &Pair)| Some((name.clone(), pair.shadow.as_ref()?.generation()));
        self.pairs.iter().filter_map(shadow).collect()
    }
    /// The shadow is served now; the feed that it replaces is closed.
    pub(crate) fn adopt(&mut self, name: &RegistryName) {
        if let Some(pair) = self.pairs.get_mut(name) {
            pair.served = pair.shadow.take();
        }
    }
    /// Hands a question to the run that it is for; false where there is none or it has no room.
    pub(crate) fn ask(&self, ask: &ConfirmRequest) -> bool {
        let Some(pair) = self.pairs.get(&ask.registry) else { return false };
        let feeds = [&pair.served, &pair.shadow].into_iter().flatten();
        let asked =
            feeds.filter(|feed| feed.generation() == ask.generation).find_map(|feed| feed.confirms.as_ref());
        asked.is_some_and(|confirms| confirms.send(ask.confirm.clone()))
    }
}
