//! Receiver without conflation, and a small world of facts for it.

#![allow(unreachable_pub, reason = "shared by the tests of one crate")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tributary_model::{
    Basis, ClusterId, Code, Collection, Completeness, EndEvidence, Evidence, ExcludedObject, Fact, FactId,
    FactKey, Fingerprint, Gateway, GatewayAddress, GatewayKey, NetworkId, ObjectId, ObjectRef, Problem,
    RegistryUpdate, Scope, Source, SourceState, SourceStatus, StaleSet, Withheld,
};

pub struct World {
    pub keys: Vec<FactKey>,
    pub collections: Vec<Collection>,
    pub scopes: Vec<Scope>,
    pub objects: Vec<ObjectId>,
}

pub fn mk_world() -> World {
    let scopes: Vec<Scope> = ["a", "b"].iter().map(|s| Scope::new(s).unwrap()).collect();
    let objects: Vec<ObjectId> = (0..3).map(|i| ObjectId::new("Gateway", "", format!("g{i}"))).collect();
    let mut keys = Vec::new();
    for scope in &scopes {
        for (i, object) in objects.iter().enumerate() {
            let item = FactId::Gateway(GatewayKey {
                network: NetworkId::new("net").unwrap(),
                cluster: ClusterId::new("c").unwrap(),
                object: object.clone(),
                index: u16::try_from(i).unwrap(),
            });
            keys.push(FactKey { scope: scope.clone(), item });
        }
    }
    let collections: BTreeSet<Collection> = keys.iter().map(FactKey::collection).collect();
    World { keys, collections: collections.into_iter().collect(), scopes, objects }
}

fn object_of(key: &FactKey) -> ObjectId {
    let FactId::Gateway(gateway) = &key.item else { unreachable!("the world has gateways only") };
    gateway.object.clone()
}

impl World {
    fn fact(&self, key: &FactKey, value: u32) -> Fact {
        let FactId::Gateway(gateway) = key.item.clone() else { unreachable!("gateways only") };
        let address = Some(GatewayAddress::Name(value.to_string().into()));
        let source = Source::new(gateway.object.clone());
        Fact::Gateway(gateway, Arc::new(Gateway { source, address, mtls_port: None, hbone_port: None }))
    }
    pub fn put(&self, key: &FactKey, value: u32) -> RegistryUpdate {
        RegistryUpdate::Put(key.scope.clone(), self.fact(key, value), Basis::Authoritative)
    }
    pub fn unsure(&self, key: &FactKey, value: u32) -> RegistryUpdate {
        RegistryUpdate::Put(key.scope.clone(), self.fact(key, value), Basis::PossiblyPartial("short".into()))
    }
    pub fn restart(&self, key: &FactKey) -> RegistryUpdate {
        RegistryUpdate::ListStarted(key.collection())
    }
    pub fn synced(&self, key: &FactKey) -> RegistryUpdate {
        RegistryUpdate::ListEnded(key.collection(), Completeness::Complete)
    }
}

pub fn any_update(problems: bool) -> impl Strategy<Value = RegistryUpdate> {
    let kinds = if problems { 0..15_u8 } else { 0..14_u8 };
    (kinds, any::<prop::sample::Index>(), 0..4_u32, any::<prop::sample::Index>()).prop_map(
        |(kind, which, value, other)| {
            let world = mk_world();
            let key = which.get(&world.keys);
            let reference = ObjectRef::new(object_of(key));
            match kind {
                0 | 1 => world.put(key, value),
                2 => world.unsure(key, value),
                3 => RegistryUpdate::Remove(key.clone(), Evidence::Deleted(reference)),
                4 => RegistryUpdate::Remove(key.clone(), Evidence::AbsentFromList),
                5 => world.restart(key),
                6 => world.synced(key),
                7 => match value {
                    0 => RegistryUpdate::ListEnded(key.collection(), Completeness::Partial),
                    1 => RegistryUpdate::ListEnded(key.collection(), Completeness::Filtered),
                    2 => RegistryUpdate::Follows {
                        required: vec![other.get(&world.collections).clone()],
                        optional: Vec::new(),
                    },
                    _ => world.synced(key),
                },
                8 => RegistryUpdate::Progress(key.collection()),
                9 => RegistryUpdate::Status(key.scope.clone(), mk_status(value)),
                10 => RegistryUpdate::Excluded(key.scope.clone(), mk_excluded(value)),
                11 => RegistryUpdate::Withheld(key.collection(), Withheld::forbidden("403")),
                12 if value == 0 => RegistryUpdate::End(key.scope.clone(), EndEvidence::Operator),
                12 => RegistryUpdate::Withheld(key.collection(), Withheld::failing("500")),
                13 => RegistryUpdate::Identity(Fingerprint::new(format!("uid-{value}")).unwrap()),
                _ => RegistryUpdate::Problem(key.scope.clone(), reference, (value > 0).then(mk_problem)),
            }
        },
    )
}

fn mk_status(value: u32) -> SourceStatus {
    let state = match value {
        0 => SourceState::Syncing,
        1 => SourceState::Live,
        2 => SourceState::Unreachable,
        _ => SourceState::Forbidden,
    };
    SourceStatus { state, ..SourceStatus::default() }
}

fn mk_excluded(count: u32) -> Arc<[ExcludedObject]> {
    let one = |n| ExcludedObject {
        object: ObjectRef::new(ObjectId::new("Namespace", "", format!("ns-{n}"))),
        code: Code::NAMESPACE_NOT_SELECTED,
        message: "not selected".into(),
        hosts: Arc::from([]),
    };
    (0..count).map(one).collect()
}

fn mk_problem() -> Problem {
    Problem { code: Code::MISSING_FIELD, message: "bad".into() }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    Value(Fact),
    Gone,
}

/// State of a key: the last sure value, and a later doubtful one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownFact {
    pub sure: Option<Fact>,
    pub doubt: Option<Doubt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fresh {
    #[default]
    Unknown,
    Syncing,
    Live,
    Stale,
}

#[derive(Debug, Default)]
pub struct Naive {
    can_confirm: bool,
    pub known: BTreeMap<FactKey, KnownFact>,
    stale_sets: BTreeMap<Collection, StaleSet<FactKey>>,
    pub problems: BTreeMap<(Scope, ObjectId), bool>,
    identity: Option<Fingerprint>,
    fresh: BTreeMap<Collection, Fresh>,
    ended: BTreeMap<Collection, Option<bool>>,
    status: BTreeMap<Scope, SourceState>,
    excluded: BTreeMap<Scope, Arc<[ExcludedObject]>>,
    required: Vec<Collection>,
}

impl PartialEq for Naive {
    fn eq(&self, other: &Self) -> bool {
        let open = |n: &Self| -> BTreeSet<Collection> {
            n.stale_sets.iter().filter(|(_, s)| s.is_open()).map(|(c, _)| c.clone()).collect()
        };
        self.known == other.known
            && self.problems == other.problems
            && self.fresh == other.fresh
            && self.ended == other.ended
            && self.status == other.status
            && self.excluded == other.excluded
            && self.required == other.required
            && self.identity == other.identity
            && open(self) == open(other)
    }
}

impl Naive {
    pub fn new(can_confirm: bool) -> Self {
        Self { can_confirm, ..Self::default() }
    }
    pub fn apply_all(&mut self, updates: impl IntoIterator<Item = RegistryUpdate>) {
        updates.into_iter().for_each(|update| self.apply(update));
    }
    /// State of keys whose objects were never invalid.
    pub fn without_problems_ever(&self) -> BTreeMap<FactKey, KnownFact> {
        let fine = |key: &FactKey| !self.problems.contains_key(&(key.scope.clone(), object_of(key)));
        self.known.iter().filter(|(k, _)| fine(k)).map(|(k, b)| (k.clone(), b.clone())).collect()
    }
    fn apply(&mut self, update: RegistryUpdate) {
        match update {
            RegistryUpdate::Put(scope, fact, basis) => {
                let key = FactKey { scope, item: fact.item() };
                self.see(&key);
                let known = self.known.entry(key).or_default();
                if basis == Basis::Authoritative || !self.can_confirm {
                    *known = KnownFact { sure: Some(fact), doubt: None };
                } else {
                    known.doubt = Some(Doubt::Value(fact));
                }
            }
            RegistryUpdate::Remove(key, evidence) => {
                self.see(&key);
                if evidence.is_absence() {
                    self.absent(&key);
                } else {
                    self.known.remove(&key);
                }
            }
            RegistryUpdate::ListStarted(c) => {
                let live: Vec<FactKey> = self.known.keys().filter(|k| k.collection() == c).cloned().collect();
                self.stale_sets.entry(c.clone()).or_insert_with(StaleSet::closed).open(live);
                let fresh = self.fresh.entry(c).or_default();
                *fresh = match *fresh {
                    Fresh::Unknown | Fresh::Syncing => Fresh::Syncing,
                    Fresh::Live | Fresh::Stale => Fresh::Stale,
                };
            }
            RegistryUpdate::ListEnded(c, how) => {
                if how == Completeness::Complete {
                    let unseen: Vec<FactKey> =
                        self.stale_sets.entry(c.clone()).or_insert_with(StaleSet::closed).close().collect();
                    let object = |key: &FactKey| (key.scope.clone(), object_of(key));
                    let bad = |key: &FactKey| self.problems.get(&object(key)) == Some(&true);
                    let gone: Vec<FactKey> = unseen.into_iter().filter(|k| !bad(k)).collect();
                    gone.iter().for_each(|key| self.absent(key));
                }
                self.ended.insert(c.clone(), Some(how == Completeness::Complete));
                self.fresh.insert(c, Fresh::Live);
            }
            RegistryUpdate::Progress(c) => self.recover(|other| *other == c),
            RegistryUpdate::Follows { required, .. } => self.required = required,
            RegistryUpdate::Problem(scope, object, problem) => {
                self.problems.insert((scope, object.id), problem.is_some());
            }
            RegistryUpdate::Status(scope, status) => self.status(scope, status.state),
            RegistryUpdate::Excluded(scope, list) => drop(self.excluded.insert(scope, list)),
            RegistryUpdate::Withheld(c, _) => {
                self.ended.insert(c.clone(), None);
                self.fresh.insert(c, Fresh::Stale);
            }
            RegistryUpdate::End(scope, _) => self.end(&scope),
            RegistryUpdate::Identity(identity) => self.identity = Some(identity),
        }
    }
    fn status(&mut self, scope: Scope, state: SourceState) {
        match state {
            SourceState::Syncing => {}
            SourceState::Live => self.recover(|c| c.scope == scope),
            _ => {
                for (_, fresh) in self.fresh.iter_mut().filter(|(c, _)| c.scope == scope) {
                    *fresh = match *fresh {
                        Fresh::Unknown | Fresh::Syncing => Fresh::Unknown,
                        Fresh::Live | Fresh::Stale => Fresh::Stale,
                    };
                }
            }
        }
        self.status.insert(scope, state);
    }
    /// Collections that were listed, and are not being listed again, are live again.
    fn recover(&mut self, of: impl Fn(&Collection) -> bool) {
        for (c, fresh) in self.fresh.iter_mut().filter(|(c, f)| of(c) && **f == Fresh::Stale) {
            let listing = self.stale_sets.get(c).is_some_and(StaleSet::is_open);
            if self.ended.get(c).is_some_and(Option::is_some) && !listing {
                *fresh = Fresh::Live;
            }
        }
    }
    fn end(&mut self, scope: &Scope) {
        self.known.retain(|key, _| key.scope != *scope);
        self.stale_sets.retain(|c, _| c.scope != *scope);
        self.fresh.retain(|c, _| c.scope != *scope);
        self.ended.retain(|c, _| c.scope != *scope);
        self.problems.retain(|(of, _), _| of != scope);
        self.status.remove(scope);
        self.excluded.remove(scope);
    }
    fn see(&mut self, key: &FactKey) {
        self.stale_sets.entry(key.collection()).or_insert_with(StaleSet::closed).mark_present(key);
    }
    fn absent(&mut self, key: &FactKey) {
        let Some(known) = self.known.get_mut(key) else { return };
        if self.can_confirm && known.sure.is_some() {
            known.doubt = Some(Doubt::Gone);
        } else {
            self.known.remove(key);
        }
    }
}
