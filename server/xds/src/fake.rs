//! A resource provider for tests: a table of resources by generation, without a core.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_answer::OwnSide;
use tributary_model::{Catalog, EncodedResource, Hostname};
use tributary_proto::{Body, Variant};

use crate::answers::{
    BodyChunks, Built, ChangedSet, ClientClassKey, ResourceProvider, ResourceSet, ResourceType, Subscription,
    empty_assignment,
};

/// Resources of every type by name; the text is the body.
pub(crate) type World = BTreeMap<(ResourceType, String), String>;

/// Resources by generation.
#[derive(Default)]
pub(crate) struct Fake {
    worlds: Mutex<HashMap<u64, Arc<World>>>,
    encoded: Mutex<HashMap<(ResourceType, String, String), Arc<EncodedResource>>>,
    lookups: AtomicU64,
    lookups_on_workers: AtomicU64,
    /// Whether look-ups wait.
    blocked: AtomicBool,
    private_builds: AtomicU64,
    /// Whether resources and differences count as built.
    built: AtomicBool,
    /// Names whose endpoints were never read.
    unread: Mutex<Vec<String>>,
}

/// Name of the resource that only the client's own workload receives.
pub(crate) const INBOUND: &str = "*inbound";
/// Body of a listener that refuses every request.
pub(crate) const REFUSING: &str = "refusing";

impl Fake {
    /// Publishes resources as a generation.
    pub(crate) fn publish(&self, generation: u64, complete: bool, world: &World) -> Arc<Catalog> {
        self.publish_with(world, Catalog { generation, complete, ..Catalog::default() })
    }
    /// Publishes resources as a generation of this catalog.
    pub(crate) fn publish_with(&self, world: &World, catalog: Catalog) -> Arc<Catalog> {
        self.worlds.lock().insert(catalog.generation, Arc::new(world.clone()));
        Arc::new(catalog)
    }
    /// Returns the number of look-ups of single resources.
    pub(crate) fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }
    /// Returns the number of look-ups of single resources on the runtime's workers.
    pub(crate) fn lookups_on_workers(&self) -> u64 {
        self.lookups_on_workers.load(Ordering::Relaxed)
    }
    /// Sets the names whose endpoints were never read.
    pub(crate) fn set_unread(&self, names: &[&str]) {
        *self.unread.lock() = names.iter().map(|name| (*name).to_owned()).collect();
    }
    /// Blocks every caller, or releases them.
    pub(crate) fn block(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Release);
    }
    /// Lets resources and differences count as built, so that few responses are work.
    pub(crate) fn build_all(&self) {
        self.built.store(true, Ordering::Release);
    }
    /// Returns how often private resources were built.
    pub(crate) fn private_builds(&self) -> u64 {
        self.private_builds.load(Ordering::Relaxed)
    }
    fn world(&self, catalog: &Catalog) -> Arc<World> {
        while self.blocked.load(Ordering::Acquire) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        self.worlds.lock().get(&catalog.generation).cloned().unwrap_or_default()
    }
    fn encode(&self, kind: ResourceType, name: &str, body: &str) -> Arc<EncodedResource> {
        let mut all = self.encoded.lock();
        let key = (kind, name.to_owned(), body.to_owned());
        Arc::clone(all.entry(key).or_insert_with(|| {
            let empty = kind == ResourceType::Endpoints && body.is_empty();
            let body = Bytes::from(format!("{name}={body}"));
            if empty { empty_assignment(name) } else { Arc::new(EncodedResource::new(name.into(), body)) }
        }))
    }
}

/// Nothing counts as built at first, so every response is work.
impl Built for Fake {
    fn built_changes(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<ChangedSet>> {
        self.built.load(Ordering::Acquire).then(|| self.changed(from, to, class, kind))
    }
    fn has_one(&self, _: &Arc<Catalog>, _: &ClientClassKey, _: ResourceType, _: &str) -> bool {
        self.built.load(Ordering::Acquire)
    }
}

impl ResourceProvider for Fake {
    fn all(&self, catalog: &Arc<Catalog>, _: &ClientClassKey, kind: ResourceType) -> Arc<ResourceSet> {
        if !kind.has_wildcard() {
            return Arc::default();
        }
        let world = self.world(catalog);
        let of_kind = world.iter().filter(|((k, name), _)| *k == kind && name != INBOUND);
        Arc::new(ResourceSet::new(of_kind.map(|((_, name), body)| self.encode(kind, name, body)).collect()))
    }
    fn refusing_listener(&self, name: &str) -> Option<Arc<EncodedResource>> {
        Some(self.encode(ResourceType::Listener, name, REFUSING))
    }
    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet> {
        let one = |name: &str| match self.one(catalog, class, kind, name) {
            None if kind == ResourceType::Endpoints => Some(empty_assignment(name)),
            found => found,
        };
        Arc::new(ResourceSet::new(names.iter().filter_map(|name| one(name)).collect()))
    }
    fn one(
        &self,
        catalog: &Arc<Catalog>,
        _: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        if crate::work::is_on_runtime() {
            self.lookups_on_workers.fetch_add(1, Ordering::Relaxed);
        }
        let world = self.world(catalog);
        world.get(&(kind, name.to_owned())).map(|body| self.encode(kind, name, body))
    }
    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        _: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<ChangedSet> {
        let (from, to) = (self.world(from), self.world(to));
        let new =
            to.iter().filter(|(key, body)| key.0 == kind && key.1 != INBOUND && from.get(key) != Some(body));
        let upserted = new.map(|((_, name), body)| self.encode(kind, name, body)).collect();
        let removed = from.keys().filter(|key| key.0 == kind && key.1 != INBOUND && !to.contains_key(key));
        Arc::new(ChangedSet { upserted, removed: removed.map(|(_, name)| name.as_str().into()).collect() })
    }
    fn lacks_endpoints(&self, _: &Catalog, _: &ClientClassKey, name: &str) -> bool {
        self.unread.lock().iter().any(|unread| unread == name)
    }
    fn host_of(&self, _: &ClientClassKey, _: ResourceType, name: &str) -> Option<Hostname> {
        Hostname::new(name).ok()
    }
    fn body(
        &self,
        _: &Arc<Catalog>,
        _: &ClientClassKey,
        _: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<BodyChunks> {
        resource.body().map(|body| BodyChunks::from_elem(body, 1))
    }
    fn rope(
        &self,
        _: &Arc<Catalog>,
        _: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        variant: Variant,
    ) -> Body {
        set.rope_or_make(variant, || {
            let members: Vec<_> = set.iter().collect();
            let body = |member: &Arc<EncodedResource>| Some(BodyChunks::from_elem(member.body()?, 1));
            crate::answers::chunks::Chunks::default().rope(variant, kind, &members, body).0
        })
    }
    fn private(
        &self,
        catalog: &Arc<Catalog>,
        _: &ClientClassKey,
        kind: ResourceType,
        own: OwnSide<'_>,
    ) -> Vec<Arc<EncodedResource>> {
        self.private_builds.fetch_add(1, Ordering::Relaxed);
        let world = self.world(catalog);
        let inbound = world.get(&(kind, INBOUND.into())).filter(|_| !own.workloads.is_empty());
        inbound.map(|body| self.encode(kind, "inbound", body)).into_iter().collect()
    }
}
