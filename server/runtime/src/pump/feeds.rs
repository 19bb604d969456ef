//! The ends of all inlets that the pump drains, and the way back for questions.
//!
//! Owned by the pump. A registry has one served feed and, while it rotates, a shadow's beside it.

use std::collections::BTreeMap;

use tributary_model::{Ask, Delta, Generation, RegistryName, Stamped};
use tributary_registry_api::{AskSender, Outlet};

/// One run's ends.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) outlet: Outlet,
    /// `None` for a source that the binary itself runs: it is never asked.
    pub(crate) asks: Option<AskSender>,
}

impl Feed {
    fn generation(&self) -> Generation {
        self.outlet.run().generation
    }
}

/// Which of a registry's two feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Served,
    Shadow,
}

#[derive(Debug, Default)]
struct Pair {
    served: Option<Feed>,
    shadow: Option<Feed>,
}

/// All feeds, by registry.
#[derive(Debug, Default)]
pub(crate) struct Feeds(BTreeMap<RegistryName, Pair>);

impl Feeds {
    /// Sets the served feed; the one before it is closed.
    pub(crate) fn serve(&mut self, name: &RegistryName, feed: Feed) {
        self.0.entry(name.clone()).or_default().served = Some(feed);
    }
    /// Sets the shadow's feed; the one before it is closed.
    pub(crate) fn shadow(&mut self, name: &RegistryName, feed: Feed) {
        self.0.entry(name.clone()).or_default().shadow = Some(feed);
    }
    /// Closes the inlet of one run and returns what it had said; empty where there is no such run.
    pub(crate) fn last_words(&mut self, name: &RegistryName, generation: Generation) -> Vec<Stamped<Delta>> {
        let Some(pair) = self.0.get_mut(name) else { return Vec::new() };
        let mut feeds = [&mut pair.served, &mut pair.shadow].into_iter().flatten();
        feeds.find(|feed| feed.generation() == generation).map_or_else(Vec::new, |feed| feed.outlet.close())
    }
    /// Removes the feed of one run and says which it was.
    pub(crate) fn end(&mut self, name: &RegistryName, generation: Generation) -> Option<Which> {
        let pair = self.0.get_mut(name)?;
        let ends = |feed: &mut Feed| feed.generation() == generation;
        let served = pair.served.take_if(ends).map(|_| Which::Served);
        served.or_else(|| pair.shadow.take_if(ends).map(|_| Which::Shadow))
    }
    /// Closes all feeds of a registry.
    pub(crate) fn forget(&mut self, name: &RegistryName) {
        self.0.remove(name);
    }
    /// Everything that is pending, registry by registry; a shadow's after that of the served run.
    pub(crate) fn take(&mut self) -> Vec<Stamped<Delta>> {
        let mut words = Vec::new();
        for pair in self.0.values_mut() {
            for feed in [&mut pair.served, &mut pair.shadow].into_iter().flatten() {
                words.append(&mut feed.outlet.take());
            }
        }
        words
    }
    /// The registries that have a shadow, with its generation.
    pub(crate) fn shadows(&self) -> Vec<(RegistryName, Generation)> {
        let shadow =
            |(name, pair): (&RegistryName, &Pair)| Some((name.clone(), pair.shadow.as_ref()?.generation()));
        self.0.iter().filter_map(shadow).collect()
    }
    /// The shadow is served now; the feed that it replaces is closed.
    pub(crate) fn adopt(&mut self, name: &RegistryName) {
        if let Some(pair) = self.0.get_mut(name) {
            pair.served = pair.shadow.take();
        }
    }
    /// Hands a question to the run that it is for; false where there is none or it has no room.
    pub(crate) fn ask(&self, ask: &Ask) -> bool {
        let Some(pair) = self.0.get(&ask.registry) else { return false };
        let feeds = [&pair.served, &pair.shadow].into_iter().flatten();
        let asked =
            feeds.filter(|feed| feed.generation() == ask.generation).find_map(|feed| feed.asks.as_ref());
        asked.is_some_and(|asks| asks.send(ask.confirm.clone()))
    }
}
