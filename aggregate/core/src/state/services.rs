//! Facts of services, by host, namespace and shard: declarations and groups.
//!
//! Written by apply, read by merge. Each fact is stored here once. Vectors are sorted and small: most
//! services have one shard, one declaration and a few groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    DeclKey, Declaration, EndpointGroup, EndpointGroupKey, FederatedService, HostPattern, Hostname, Mono,
    NetworkId, ObjectId, ServiceKey, ServiceView,
};

use crate::state::host_patterns::Suffixes;
use crate::state::selectors::SelectorId;
use crate::state::shards::ShardId;

/// One shard's declaration of a service.
#[derive(Debug)]
pub(crate) struct Decl {
    /// Declaring object.
    pub(crate) object: ObjectId,
    /// Served value.
    pub(crate) declaration: Arc<Declaration>,
    /// Last reported value, if the served one keeps more ports for held endpoints.
    pub(crate) reported: Option<Arc<Declaration>>,
    /// Time of the last change.
    pub(crate) changed: Mono,
    /// Whether its removal is held.
    pub(crate) held: bool,
    /// Its selector, if it selects workloads.
    pub(crate) selector: Option<SelectorId>,
}

/// One shard's group of endpoints.
#[derive(Debug)]
pub(crate) struct GroupFact {
    /// Object of the declaration whose ports it serves.
    pub(crate) declaration: ObjectId,
    /// Object that lists it.
    pub(crate) object: ObjectId,
    /// Bucket number.
    pub(crate) bucket: u16,
    /// Served addresses, held ones last.
    pub(crate) group: Arc<EndpointGroup>,
    /// Time of the last change.
    pub(crate) changed: Mono,
    /// Indexes of the addresses whose removal is held.
    pub(crate) held: Option<Arc<[u32]>>,
}

impl GroupFact {
    fn key(&self) -> (&ObjectId, &ObjectId, u16) {
        (&self.declaration, &self.object, self.bucket)
    }
}

/// One shard's facts about one service.
#[derive(Debug)]
pub(crate) struct ServiceShard {
    /// Shard number.
    pub(crate) id: ShardId,
    /// Its declarations, by object.
    pub(crate) declarations: Vec<Decl>,
    /// Its groups, by declaration, object and bucket.
    pub(crate) groups: Vec<GroupFact>,
}

impl ServiceShard {
    /// Returns the declaration of an object.
    pub(crate) fn declaration(&self, object: &ObjectId) -> Option<&Decl> {
        let at = self.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        self.declarations.get(at)
    }
    /// Returns the groups of a declaration.
    pub(crate) fn groups_of(&self, declaration: &ObjectId) -> &[GroupFact] {
        let from = self.groups.partition_point(|g| g.declaration < *declaration);
        let rest = self.groups.get(from..).unwrap_or_default();
        let len = rest.partition_point(|g| g.declaration == *declaration);
        rest.get(..len).unwrap_or_default()
    }
    /// Returns the groups without a declaration. A group without endpoints does not wait: a source may report one for
    /// a name that is not a service, such as a name that only proxies have.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &GroupFact> {
        let waits = |fact: &&GroupFact| {
            !fact.group.addresses.is_empty() && self.declaration(&fact.declaration).is_none()
        };
        self.groups.iter().filter(waits)
    }
    fn find(&self, key: &EndpointGroupKey) -> Result<usize, usize> {
        self.groups.binary_search_by(|g| g.key().cmp(&(&key.declaration, &key.object, key.bucket)))
    }
}

/// One service: all facts about one host in one namespace.
#[derive(Debug)]
pub(crate) struct Service {
    /// Host and namespace.
    pub(crate) key: ServiceKey,
    /// Facts of each shard, by shard number.
    pub(crate) shards: Vec<ServiceShard>,
    /// Built view; `None` while nothing declares the service.
    pub(crate) view: Option<Arc<ServiceView>>,
    /// Networks of its addresses, under which it is indexed.
    pub(crate) networks: Vec<NetworkId>,
    /// Shards in which groups of it wait for a declaration.
    pub(crate) waiting: Vec<ShardId>,
    /// Federated service under its host and namespace.
    pub(crate) federated: Option<Arc<FederatedService>>,
    /// Whether its view is built from that federated service.
    pub(crate) is_join: bool,
}

impl Service {
    fn new(key: ServiceKey) -> Self {
        let (shards, networks, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, shards, view: None, networks, waiting, federated: None, is_join: false }
    }
    /// Returns the facts of a shard.
    pub(crate) fn shard(&self, id: ShardId) -> Option<&ServiceShard> {
        self.shards.iter().find(|s| s.id == id)
    }
    fn shard_mut(&mut self, id: ShardId) -> Option<&mut ServiceShard> {
        self.shards.iter_mut().find(|s| s.id == id)
    }
    fn shard_or_new(&mut self, id: ShardId) -> &mut ServiceShard {
        let at = self.shards.partition_point(|s| s.id < id);
        if self.shards.get(at).is_none_or(|s| s.id != id) {
            self.shards.reserve_exact(1);
            self.shards.insert(at, ServiceShard { id, declarations: Vec::new(), groups: Vec::new() });
        }
        &mut self.shards[at]
    }
    /// Returns a declaration, mutable.
    pub(crate) fn declaration_mut(&mut self, shard: ShardId, object: &ObjectId) -> Option<&mut Decl> {
        let shard = self.shard_mut(shard)?;
        let at = shard.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        shard.declarations.get_mut(at)
    }
    /// Returns a group.
    pub(crate) fn group(&self, shard: ShardId, key: &EndpointGroupKey) -> Option<&GroupFact> {
        let shard = self.shard(shard)?;
        shard.groups.get(shard.find(key).ok()?)
    }
    /// Returns a group, mutable.
    pub(crate) fn group_mut(&mut self, shard: ShardId, key: &EndpointGroupKey) -> Option<&mut GroupFact> {
        let shard = self.shard_mut(shard)?;
        let at = shard.find(key).ok()?;
        shard.groups.get_mut(at)
    }
    /// Adds a declaration that is absent.
    pub(crate) fn add_declaration(&mut self, shard: ShardId, decl: Decl) {
        let shard = self.shard_or_new(shard);
        let at = shard.declarations.partition_point(|d| d.object < decl.object);
        shard.declarations.reserve_exact(1);
        shard.declarations.insert(at, decl);
    }
    /// Adds a group that is absent.
    pub(crate) fn add_group(&mut self, shard: ShardId, fact: GroupFact) {
        let shard = self.shard_or_new(shard);
        let at = shard.groups.partition_point(|g| g.key() < fact.key());
        if shard.groups.len() < 4 {
            shard.groups.reserve_exact(1);
        }
        shard.groups.insert(at, fact);
    }
    /// Removes a declaration.
    pub(crate) fn remove_declaration(&mut self, shard: ShardId, object: &ObjectId) -> Option<Decl> {
        let own = self.shard_mut(shard)?;
        let at = own.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        let gone = own.declarations.remove(at);
        self.prune(shard);
        Some(gone)
    }
    /// Removes a group.
    pub(crate) fn remove_group(&mut self, shard: ShardId, key: &EndpointGroupKey) -> Option<GroupFact> {
        let own = self.shard_mut(shard)?;
        let at = own.find(key).ok()?;
        let gone = own.groups.remove(at);
        self.prune(shard);
        Some(gone)
    }
    fn prune(&mut self, id: ShardId) {
        self.shards.retain(|s| s.id != id || !s.declarations.is_empty() || !s.groups.is_empty());
    }
}

/// All services, by host and then namespace.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    map: BTreeMap<Hostname, Vec<Service>>,
}

impl Hosts {
    /// Returns the services that claim a host, by namespace.
    pub(crate) fn of(&self, host: &Hostname) -> &[Service] {
        self.map.get(host).map_or(&[], |services| services)
    }
    /// Returns the services that claim a host, mutable.
    pub(crate) fn of_mut(&mut self, host: &Hostname) -> &mut [Service] {
        self.map.get_mut(host).map_or(&mut [], |services| services)
    }
    /// Returns every service, by host and namespace.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.map.values().flatten()
    }
    /// Returns the services whose host matches any of the patterns. Wildcards, however many, look at every host once.
    pub(crate) fn matching(&self, patterns: &BTreeSet<HostPattern>) -> BTreeSet<ServiceKey> {
        let suffixes = Suffixes::of(patterns);
        let exact = patterns.iter().filter(|pattern| pattern.suffix().is_none());
        let exact = exact.filter_map(|pattern| self.map.get(&Hostname::new(pattern.as_str()).ok()?));
        let all = (!suffixes.is_empty()).then(|| self.map.iter()).into_iter().flatten();
        let ending = all.filter(|(host, _)| suffixes.end(host.as_str())).map(|(_, services)| services);
        exact.chain(ending).flatten().map(|service| service.key.clone()).collect()
    }
    /// Returns a service.
    pub(crate) fn get(&self, key: &ServiceKey) -> Option<&Service> {
        self.of(&key.host).iter().find(|s| s.key.namespace == key.namespace)
    }
    /// Returns a service, mutable.
    pub(crate) fn get_mut(&mut self, key: &ServiceKey) -> Option<&mut Service> {
        self.of_mut(&key.host).iter_mut().find(|s| s.key.namespace == key.namespace)
    }
    /// Returns a service; adds it if it is absent.
    pub(crate) fn get_or_new(&mut self, key: &ServiceKey) -> &mut Service {
        let services = self.map.entry(key.host.clone()).or_default();
        let at = services.partition_point(|s| s.key.namespace < key.namespace);
        if services.get(at).is_none_or(|s| s.key.namespace != key.namespace) {
            services.reserve_exact(1);
            services.insert(at, Service::new(key.clone()));
        }
        &mut services[at]
    }
    /// Removes the services of a host without facts, view and federated service.
    pub(crate) fn prune(&mut self, host: &Hostname) {
        let Some(services) = self.map.get_mut(host) else { return };
        services.retain(|s| !s.shards.is_empty() || s.view.is_some() || s.federated.is_some());
        if services.is_empty() {
            self.map.remove(host);
        }
    }
}

/// Returns the key of a declaration.
pub(crate) fn decl_key(service: &ServiceKey, object: &ObjectId) -> DeclKey {
    DeclKey { service: service.clone(), object: object.clone() }
}

/// Returns the key of a group.
pub(crate) fn group_key(service: &ServiceKey, fact: &GroupFact) -> EndpointGroupKey {
    EndpointGroupKey {
        service: service.clone(),
        declaration: fact.declaration.clone(),
        object: fact.object.clone(),
        bucket: fact.bucket,
    }
}
