//! The source that the registry in memory reads: objects in two parts, and a log of their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tributary_model::WithheldCause;

use crate::harness::Act;

/// Faults of an adapter. The suite must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Treats a failed list as an empty one.
    ErrorIsEmpty,
    /// Treats a list that broke off as complete.
    TornIsComplete,
    /// Removes the facts of a bad object.
    BadIsGone,
    /// Leaves a task running after the run.
    LeavesTask,
    /// Ignores deletions in the log.
    MissesDeletes,
    /// Reports every part as failed when one fails.
    FailsTogether,
    /// Reports the end of a list before its last objects.
    SyncsEarly,
    /// Treats a refused list as an empty one.
    RefusalIsEmpty,
    /// Does not list a part again after a refusal, and only confirms its state.
    ForgetsToList,
    /// Stops following the other parts while a part is refused.
    RefusalStopsRest,
    /// Reports the end of a part that discovery omits.
    OmittedIsEnded,
    /// Follows only the parts that discovery lists, although others hold facts.
    IgnoresHeld,
    /// Follows a part that was removed from the configuration.
    IgnoresConfiguration,
    /// Does not report the end of a part.
    MissesEnds,
    /// Does not report the identity of the source.
    HidesIdentity,
    /// Reports the start of a list after its objects.
    RestartsLate,
    /// Clears the held facts that it does not know when a run begins.
    ClearsHeld,
    /// Removes all that it reported when a run ends.
    DropsWhenItEnds,
}

/// Number of changes that the log keeps; a reader that is further behind must list again.
const LONGEST_LOG: usize = 4096;

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) endpoints: BTreeSet<IpAddr>,
    pub(super) bad: bool,
}

/// A name, and its object after the change.
pub(super) type Change = (String, Option<Object>);

#[derive(Debug, Default)]
struct Part {
    objects: BTreeMap<String, Object>,
    log: Vec<Change>,
    /// Number of times the log was lost: a position of an earlier epoch is invalid.
    epoch: u64,
    failing: bool,
    tear: u32,
    lie: bool,
    refused: Option<WithheldCause>,
    unlisted: bool,
    ended: bool,
}

#[derive(Debug, Default)]
struct World {
    parts: [Part; 2],
    duplicate: bool,
    reorder: bool,
    /// Number of times the source was exchanged for another one.
    swaps: u64,
}

/// A list, and the position from which to follow later changes.
#[derive(Debug)]
pub(super) struct List {
    pub(super) objects: Vec<(String, Object)>,
    pub(super) torn: bool,
    pub(super) from: Position,
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    epoch: u64,
    at: usize,
}

/// Reasons for a failed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The part cannot be read.
    Down,
    /// The position belongs to a log that was lost.
    Gone,
    /// The part alone cannot be read.
    Refused(WithheldCause),
    /// The part has ended.
    Ended,
}

/// A source in memory; clones are the same source.
#[derive(Debug, Clone)]
pub struct MemorySource {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
    can_confirm: bool,
    bug: Option<Bug>,
}

impl Default for MemorySource {
    fn default() -> Self {
        Self::new(true, None)
    }
}

impl MemorySource {
    /// Returns an empty source.
    #[must_use]
    pub fn new(can_confirm: bool, bug: Option<Bug>) -> Self {
        Self { world: Arc::default(), changed: watch::Sender::new(0), can_confirm, bug }
    }
    /// Makes a part (0 or 1) hold a service with these endpoints.
    pub fn set(&self, part: usize, name: &str, endpoints: impl IntoIterator<Item = IpAddr>) {
        let object = Object { endpoints: endpoints.into_iter().collect(), bad: false };
        self.change(|world| world.parts[part].write(name, Some(object)));
    }
    /// Removes the service of this name.
    pub fn delete(&self, name: &str) {
        self.change(|world| {
            for part in &mut world.parts {
                part.write(name, None);
            }
        });
    }
    /// Performs an act of the conformance suite.
    pub fn act(&self, act: Act) {
        self.change(|world| match act {
            Act::Fail(which) => world.each(which, |part| part.failing = true),
            Act::Recover => world.each(None, Part::recover),
            Act::Corrupt(name) => world.each(None, |part| part.corrupt(&name)),
            Act::Relist => world.each(None, Part::lose_log),
            Act::Tear(times) => world.each(None, |part| part.tear = times),
            Act::LieEmpty => world.each(None, |part| part.lie = true),
            Act::Duplicate => world.duplicate = true,
            Act::Reorder => world.reorder = true,
            Act::Refuse(_, cause) => world.each(Some(1), |part| part.refused = Some(cause)),
            Act::Shorten => world.each(Some(1), |part| part.unlisted = true),
            Act::End => world.each(Some(1), |part| part.ended = true),
            Act::Swap => world.swap(),
            // the factory owns the configuration
            Act::Narrow => {}
        });
    }
    /// Returns true if the source can confirm a removal.
    #[must_use]
    pub const fn can_confirm(&self) -> bool {
        self.can_confirm
    }
    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
    /// Returns the parts that discovery lists.
    pub(super) fn parts(&self) -> Vec<usize> {
        let world = self.world.lock();
        let listed = world.parts.iter().enumerate().filter(|(_, part)| !part.unlisted);
        listed.map(|(at, _)| at).collect()
    }
    /// Returns the names of all objects in a part.
    pub(super) fn names(&self, part: usize) -> Vec<String> {
        self.world.lock().parts[part].objects.keys().cloned().collect()
    }
    /// Returns the identity of the source.
    pub(super) fn identity(&self) -> String {
        format!("memory-{}", self.world.lock().swaps)
    }
    /// Returns true if any part is refused.
    pub(super) fn refuses(&self) -> bool {
        self.world.lock().parts.iter().any(|part| part.refused.is_some())
    }
    pub(super) fn list(&self, part: usize) -> Result<List, Refusal> {
        let mut world = self.world.lock();
        let reorder = world.reorder;
        let part = &mut world.parts[part];
        part.check()?;
        let mut objects: Vec<_> = part.objects.iter().map(|(n, o)| (n.clone(), o.clone())).collect();
        if std::mem::take(&mut part.lie) {
            objects.clear();
        }
        if reorder {
            objects.reverse();
        }
        let torn = part.tear > 0;
        if torn {
            part.tear -= 1;
            objects.truncate(objects.len() / 2);
        }
        Ok(List { objects, torn, from: Position { epoch: part.epoch, at: part.log.len() } })
    }
    /// Returns the changes since a position, and the position after them.
    pub(super) fn since(&self, part: usize, from: Position) -> Result<(Vec<Change>, Position), Refusal> {
        let world = self.world.lock();
        let (duplicate, reorder) = (world.duplicate, world.reorder);
        let part = &world.parts[part];
        part.check()?;
        if part.epoch != from.epoch {
            return Err(Refusal::Gone);
        }
        let mut news = part.log.get(from.at..).unwrap_or_default().to_vec();
        if reorder {
            // changes of different names may overtake each other, changes of one name may not
            news.sort_by(|(a, _), (b, _)| b.cmp(a));
        }
        if duplicate {
            news = news.into_iter().flat_map(|change| [change.clone(), change]).collect();
        }
        Ok((news, Position { at: part.log.len(), ..from }))
    }
    /// Reads one object again; the outer `None` if the part cannot be read.
    pub(super) fn read(&self, part: usize, name: &str) -> Option<Option<Object>> {
        let world = self.world.lock();
        let part = &world.parts[part];
        part.check().is_ok().then(|| part.objects.get(name).cloned())
    }
    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world.lock());
        self.changed.send_modify(|n| *n += 1);
    }
}

impl World {
    fn each(&mut self, which: Option<usize>, change: impl Fn(&mut Part)) {
        let chosen = self.parts.iter_mut().enumerate().filter(|(i, _)| which.is_none_or(|w| w == *i));
        chosen.for_each(|(_, part)| change(part));
    }
    fn swap(&mut self) {
        self.swaps += 1;
        self.each(None, |part| {
            part.objects.clear();
            part.lose_log();
        });
    }
}

impl Part {
    const fn check(&self) -> Result<(), Refusal> {
        match self.refused {
            _ if self.ended => Err(Refusal::Ended),
            _ if self.failing => Err(Refusal::Down),
            Some(cause) => Err(Refusal::Refused(cause)),
            None => Ok(()),
        }
    }
    const fn recover(&mut self) {
        (self.failing, self.refused, self.unlisted) = (false, None, false);
    }
    fn write(&mut self, name: &str, object: Option<Object>) {
        let before = match &object {
            Some(object) => self.objects.insert(name.to_owned(), object.clone()),
            None => self.objects.remove(name),
        };
        if object.is_none() && before.is_none() {
            return;
        }
        self.log.push((name.to_owned(), object));
        if self.log.len() > LONGEST_LOG {
            self.lose_log();
        }
    }
    fn corrupt(&mut self, name: &str) {
        if let Some(object) = self.objects.get(name) {
            let bad = Object { bad: true, ..object.clone() };
            self.write(name, Some(bad));
        }
    }
    fn lose_log(&mut self) {
        self.log.clear();
        self.epoch += 1;
    }
}
