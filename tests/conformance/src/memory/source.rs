//! What the registry in memory reads: objects in two parts, and a log of what happened to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::harness::Act;

/// A way for an adapter to be wrong. The suite must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A list that failed counts as an empty one.
    ErrorIsEmpty,
    /// A list that broke off counts as complete.
    TornIsComplete,
    /// A bad object is dropped.
    BadIsGone,
    /// A task goes on after the run.
    LeavesTask,
    /// A deletion in the log is overlooked.
    MissesDeletes,
    /// A failing part takes the others with it.
    FailsTogether,
    /// The end of a list is said before its last objects.
    SyncsEarly,
}

/// How many changes the log keeps; whoever is further behind must list again.
const LONGEST_LOG: usize = 4096;

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) endpoints: BTreeSet<IpAddr>,
    pub(super) bad: bool,
}

/// What became of the object of a name.
pub(super) type Change = (String, Option<Object>);

#[derive(Debug, Default)]
struct Part {
    objects: BTreeMap<String, Object>,
    log: Vec<Change>,
    /// Changes when the log was lost: a position in it means nothing any more.
    epoch: u64,
    failing: bool,
    tear: u32,
    lie: bool,
}

#[derive(Debug, Default)]
struct World {
    parts: [Part; 2],
    duplicate: bool,
    reorder: bool,
}

/// A list, and from where to follow what happens after it.
#[derive(Debug)]
pub(super) struct List {
    pub(super) objects: Vec<(String, Object)>,
    pub(super) torn: bool,
    pub(super) from: Position,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    epoch: u64,
    at: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The part cannot be read.
    Down,
    /// The position lies in a log that was lost.
    Gone,
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
    /// An empty source.
    #[must_use]
    pub fn new(can_confirm: bool, bug: Option<Bug>) -> Self {
        Self { world: Arc::default(), changed: watch::Sender::new(0), can_confirm, bug }
    }
    /// Holds a service with these endpoints in a part, 0 or 1.
    pub fn set(&self, part: usize, name: &str, endpoints: impl IntoIterator<Item = IpAddr>) {
        let object = Object { endpoints: endpoints.into_iter().collect(), bad: false };
        self.change(|world| world.parts[part].write(name, Some(object)));
    }
    /// Holds no service of this name.
    pub fn delete(&self, name: &str) {
        self.change(|world| {
            for part in &mut world.parts {
                part.write(name, None);
            }
        });
    }
    /// Does what the conformance suite asks for.
    pub fn act(&self, act: Act) {
        self.change(|world| match act {
            Act::Fail(which) => world.each(which, |part| part.failing = true),
            Act::Recover => world.each(None, |part| part.failing = false),
            Act::Corrupt(name) => world.each(None, |part| part.corrupt(&name)),
            Act::Relist => world.each(None, Part::lose_log),
            Act::Tear(times) => world.each(None, |part| part.tear = times),
            Act::LieEmpty => world.each(None, |part| part.lie = true),
            Act::Duplicate => world.duplicate = true,
            Act::Reorder => world.reorder = true,
        });
    }
    /// Whether it can be asked about a removal.
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
    pub(super) fn list(&self, part: usize) -> Result<List, Refusal> {
        let mut world = self.world.lock();
        let reorder = world.reorder;
        let part = &mut world.parts[part];
        if part.failing {
            return Err(Refusal::Down);
        }
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
    /// What happened since a position, and the position after it.
    pub(super) fn since(&self, part: usize, from: Position) -> Result<(Vec<Change>, Position), Refusal> {
        let world = self.world.lock();
        let (duplicate, reorder) = (world.duplicate, world.reorder);
        let part = &world.parts[part];
        if part.failing {
            return Err(Refusal::Down);
        }
        if part.epoch != from.epoch {
            return Err(Refusal::Gone);
        }
        let mut news = part.log.get(from.at..).unwrap_or_default().to_vec();
        if reorder {
            // things of different names may overtake each other, words about one name may not
            news.sort_by(|(a, _), (b, _)| b.cmp(a));
        }
        if duplicate {
            news = news.into_iter().flat_map(|change| [change.clone(), change]).collect();
        }
        Ok((news, Position { at: part.log.len(), ..from }))
    }
    /// One object, read again; the outer `None` where the part cannot be read.
    pub(super) fn read(&self, part: usize, name: &str) -> Option<Option<Object>> {
        let world = self.world.lock();
        let part = &world.parts[part];
        (!part.failing).then(|| part.objects.get(name).cloned())
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
}

impl Part {
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
