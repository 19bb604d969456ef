//! What the registry in memory reads: objects in two parts, and a log of what happened to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tributary_model::WithheldCause;

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
    /// A list that is refused counts as an empty one.
    RefusalIsEmpty,
    /// What was refused is not listed again: only its followed state is confirmed.
    ForgetsToList,
    /// While a part is refused the others are not followed.
    RefusalStopsRest,
    /// A part that discovery omits has ended.
    OmittedIsEnded,
    /// Only parts that discovery lists are followed, whatever facts are held.
    IgnoresHeld,
    /// A part that is configured away is followed on.
    IgnoresConfiguration,
    /// The end of a part is not reported.
    MissesEnds,
    /// The identity of the source is not reported.
    HidesIdentity,
    /// A list begins after its objects were reported.
    RestartsLate,
    /// A run drops what it does not know when it begins on facts that are held.
    ClearsHeld,
    /// A run that ends takes back what it reported.
    DropsWhenItEnds,
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
    refused: Option<WithheldCause>,
    unlisted: bool,
    ended: bool,
}

#[derive(Debug, Default)]
struct World {
    parts: [Part; 2],
    duplicate: bool,
    reorder: bool,
    /// How often the source was exchanged for another one.
    swaps: u64,
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
            // what is configured is the factory's
            Act::Narrow => {}
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
    /// The parts that discovery lists.
    pub(super) fn parts(&self) -> Vec<usize> {
        let world = self.world.lock();
        let listed = world.parts.iter().enumerate().filter(|(_, part)| !part.unlisted);
        listed.map(|(at, _)| at).collect()
    }
    /// The names of all that a part holds.
    pub(super) fn names(&self, part: usize) -> Vec<String> {
        self.world.lock().parts[part].objects.keys().cloned().collect()
    }
    /// Who the source is.
    pub(super) fn identity(&self) -> String {
        format!("memory-{}", self.world.lock().swaps)
    }
    /// Whether any part is refused.
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
    /// What happened since a position, and the position after it.
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
