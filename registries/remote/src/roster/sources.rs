//! The sources' objects, indexed by the clusters that they claim.
//!
//! The roster writes events here and reads the claims of a cluster in their order. A failed source keeps its objects. Sizes are bounded:
//! a source keeps 2,000 objects and an object 256 claims; what is beyond is counted, and a source that dropped an object does not prove
//! that a claim is gone until it is listed within the bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{ClusterId, Code};

use super::claim::{Claim, ClaimObject, Fault, Source, SourceKind, Verdict};
use super::order::SourceHealth;

/// Most clusters of one object.
pub const MOST_CLAIMS: usize = 256;
/// Most objects of one source.
pub const MOST_OBJECTS: usize = 2_000;
/// Most faults that are kept of an object or a claim.
const MOST_FAULTS: usize = 16;

/// Clusters whose claims changed.
pub(super) type Touched = BTreeSet<ClusterId>;

/// Tests whether the server holds facts of a cluster.
pub(super) type IsHeld<'a> = &'a dyn Fn(&ClusterId) -> bool;

/// One object as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) object: ClaimObject,
    /// Number of clusters beyond the bound.
    pub(super) beyond: usize,
}

/// One source.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) health: SourceHealth,
    is_listed: bool,
    pub(super) objects: BTreeMap<Arc<str>, Kept>,
    /// Number of objects beyond the bound in the last list, and of updates of such objects since.
    pub(super) beyond: usize,
}

impl Table {
    const fn new() -> Self {
        Self { health: SourceHealth::Unsynced, is_listed: false, objects: BTreeMap::new(), beyond: 0 }
    }
    fn is_complete(&self) -> bool {
        self.health == SourceHealth::Synced && self.beyond == 0
    }
}

/// Every enabled source.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    tables: BTreeMap<Source, Table>,
    index: BTreeMap<ClusterId, BTreeSet<(Source, Arc<str>)>>,
}

impl Sources {
    pub(super) fn new(enabled: &BTreeSet<Source>) -> Self {
        let tables = enabled.iter().map(|source| (*source, Table::new())).collect();
        Self { tables, index: BTreeMap::new() }
    }

    /// Takes a complete list. Of two objects with one name the last counts.
    pub(super) fn list(&mut self, source: Source, objects: Vec<ClaimObject>, is_held: IsHeld<'_>) -> Touched {
        if !self.tables.contains_key(&source) {
            return Touched::new();
        }
        let (objects, beyond) = within_bound(objects);
        let mut touched = Touched::new();
        for name in self.names(source).filter(|name| !objects.contains_key(&**name)).collect::<Vec<_>>() {
            touched.append(&mut self.delete(source, &name));
        }
        for object in objects.into_values() {
            touched.append(&mut self.put(source, object, is_held));
        }
        if let Some(table) = self.tables.get_mut(&source) {
            (table.health, table.is_listed, table.beyond) = (SourceHealth::Synced, true, beyond);
        }
        touched
    }

    /// Takes one object; one of a new name beyond the bound is counted only.
    pub(super) fn put(&mut self, source: Source, object: ClaimObject, is_held: IsHeld<'_>) -> Touched {
        let Some(table) = self.tables.get_mut(&source) else { return Touched::new() };
        if table.objects.len() >= MOST_OBJECTS && !table.objects.contains_key(object.name.as_str()) {
            table.beyond = table.beyond.saturating_add(1);
            return Touched::new();
        }
        let mut touched = self.delete(source, &object.name);
        let (name, kept): (Arc<str>, _) = (object.name.as_str().into(), kept(object, is_held));
        for cluster in kept.object.claims.keys() {
            self.index.entry(cluster.clone()).or_default().insert((source, Arc::clone(&name)));
            touched.insert(cluster.clone());
        }
        if let Some(table) = self.tables.get_mut(&source) {
            table.objects.insert(name, kept);
        }
        touched
    }

    pub(super) fn delete(&mut self, source: Source, name: &str) -> Touched {
        let removed = self.tables.get_mut(&source).and_then(|table| table.objects.remove_entry(name));
        let Some((name, kept)) = removed else { return Touched::new() };
        let key = (source, name);
        for cluster in kept.object.claims.keys() {
            if let Some(claims) = self.index.get_mut(cluster) {
                claims.remove(&key);
            }
            if self.index.get(cluster).is_some_and(BTreeSet::is_empty) {
                self.index.remove(cluster);
            }
        }
        kept.object.claims.into_keys().collect()
    }

    /// Sets the state of a source. One that was never listed cannot become synced.
    pub(super) fn set_health(&mut self, source: Source, health: SourceHealth) {
        if let Some(table) = self.tables.get_mut(&source)
            && (table.is_listed || health != SourceHealth::Synced)
        {
            table.health = health;
        }
    }

    /// Returns the claims of a cluster, the first in order first. A Secret in two watches has one claim.
    pub(super) fn claims(&self, cluster: &ClusterId) -> Vec<Claim<'_>> {
        let keys = self.index.get(cluster).into_iter().flatten();
        let mut claims: Vec<Claim<'_>> = keys.filter_map(|key| self.claim(cluster, key)).collect();
        claims.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let mut distinct: Vec<Claim<'_>> = Vec::with_capacity(claims.len());
        for claim in claims {
            if !distinct.iter().any(|earlier| earlier.is_same_object(&claim)) {
                distinct.push(claim);
            }
        }
        distinct
    }

    fn claim(&self, cluster: &ClusterId, (source, name): &(Source, Arc<str>)) -> Option<Claim<'_>> {
        let table = self.tables.get(source)?;
        let object = &table.objects.get(name)?.object;
        let is_healthy = table.health == SourceHealth::Synced;
        Some(Claim { source: *source, object, verdict: object.claims.get(cluster)?, is_healthy })
    }

    /// Returns true if every enabled source of a kind is complete; of all kinds for `None`.
    pub(super) fn is_complete(&self, kind: Option<SourceKind>) -> bool {
        let of_kind = |source: &Source| kind.is_none_or(|kind| source.kind() == kind);
        self.tables.iter().filter(|(source, _)| of_kind(source)).all(|(_, table)| table.is_complete())
    }

    /// Returns every claimed cluster.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.index.keys()
    }
    /// Returns every enabled source.
    pub(super) fn tables(&self) -> impl Iterator<Item = (Source, &Table)> {
        self.tables.iter().map(|(source, table)| (*source, table))
    }
    fn names(&self, source: Source) -> impl Iterator<Item = Arc<str>> {
        self.tables.get(&source).into_iter().flat_map(|table| table.objects.keys().cloned())
    }
}

/// Returns the objects that a source keeps, the first in their order, and the number of others.
fn within_bound(objects: Vec<ClaimObject>) -> (BTreeMap<String, ClaimObject>, usize) {
    let mut objects: BTreeMap<String, ClaimObject> =
        objects.into_iter().map(|object| (object.name.clone(), object)).collect();
    let beyond = objects.len().saturating_sub(MOST_OBJECTS);
    if beyond > 0 {
        let mut all: Vec<ClaimObject> = objects.into_values().collect();
        all.sort_by(|a, b| a.position().cmp(&b.position()));
        all.truncate(MOST_OBJECTS);
        objects = all.into_iter().map(|object| (object.name.clone(), object)).collect();
    }
    (objects, beyond)
}

/// Applies the bounds of an object. Claims beyond them are dropped; that of a cluster which the server holds becomes a refused claim,
/// so that the cluster stays.
fn kept(mut object: ClaimObject, is_held: IsHeld<'_>) -> Kept {
    object.faults.truncate(MOST_FAULTS);
    let rest = object.claims.keys().nth(MOST_CLAIMS).cloned();
    let rest = rest.map(|first| object.claims.split_off(&first)).unwrap_or_default();
    let beyond = rest.len();
    let text = || format!("the object declares more than {MOST_CLAIMS} clusters; divide it");
    let fault = || vec![Fault::coded(Code::SOURCE_LIMIT, text())];
    let held = rest.into_keys().filter(|cluster| is_held(cluster));
    let held: Vec<_> = held.map(|cluster| (cluster, Verdict::Refused(fault()))).collect();
    object.claims.extend(held);
    for verdict in object.claims.values_mut() {
        if let Verdict::Refused(faults) = verdict {
            faults.truncate(MOST_FAULTS);
        }
    }
    Kept { object, beyond }
}
