//! Facts about services: per host, per namespace, per shard: declarations and groups.
//!
//! Filled by the store, read by merge. Facts lie here once; nothing else holds a group. Vectors are
//! sorted and small: most services have one shard, one declaration and a few groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    DeclKey, Declaration, EndpointGroup, EndpointGroupKey, FederatedService, Hostname, Mono, NetworkId,
    ObjectId, ServiceKey, ServiceView,
};

use crate::state::selectors::SelectorId;
use crate::state::shards::ShardId;

/// One declaration.
#[derive(Debug)]
pub(crate) struct Decl {
    /// The declaring object.
    pub(crate) object: ObjectId,
    /// What it says.
    pub(crate) declaration: Arc<Declaration>,
    /// What it was said to be last, where ports beside that stay for endpoints that are held.
    pub(crate) said: Option<Arc<Declaration>>,
    /// When it last said something new.
    pub(crate) changed: Mono,
    /// Whether its removal is held.
    pub(crate) held: bool,
    /// Its selector, where it selects workloads.
    pub(crate) selector: Option<SelectorId>,
}

/// One group.
#[derive(Debug)]
pub(crate) struct GroupFact {
    /// The declaration behind whose ports it stands.
    pub(crate) declaration: ObjectId,
    /// The object that lists it.
    pub(crate) object: ObjectId,
    /// Which bucket.
    pub(crate) bucket: u16,
    /// The addresses that are served, held ones last.
    pub(crate) group: Arc<EndpointGroup>,
    /// When it last said something new.
    pub(crate) changed: Mono,
    /// Addresses whose removal is held, by index.
    pub(crate) held: Option<Arc<[u32]>>,
}

impl GroupFact {
    fn key(&self) -> (&ObjectId, &ObjectId, u16) {
        (&self.declaration, &self.object, self.bucket)
    }
}

/// What one shard says about one service.
#[derive(Debug)]
pub(crate) struct ServiceShard {
    /// Which shard.
    pub(crate) id: ShardId,
    /// Its declarations, by object.
    pub(crate) declarations: Vec<Decl>,
    /// Its groups, by declaration, object and bucket.
    pub(crate) groups: Vec<GroupFact>,
}

impl ServiceShard {
    /// The declaration of an object.
    pub(crate) fn declaration(&self, object: &ObjectId) -> Option<&Decl> {
        let at = self.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        self.declarations.get(at)
    }
    /// The groups that stand behind a declaration's ports.
    pub(crate) fn groups_of(&self, declaration: &ObjectId) -> &[GroupFact] {
        let from = self.groups.partition_point(|g| g.declaration < *declaration);
        let rest = self.groups.get(from..).unwrap_or_default();
        let len = rest.partition_point(|g| g.declaration == *declaration);
        rest.get(..len).unwrap_or_default()
    }
    /// The groups whose declaration is not there. One without endpoints waits for nothing: a source may say so of
    /// what is no service, such as proxies alone.
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

/// One service: all that is said of one host in one namespace.
#[derive(Debug)]
pub(crate) struct Service {
    /// Host and namespace.
    pub(crate) key: ServiceKey,
    /// What each shard says, by shard number.
    pub(crate) shards: Vec<ServiceShard>,
    /// What was built from it; `None` while nothing declares it.
    pub(crate) view: Option<Arc<ServiceView>>,
    /// The networks of its addresses, under which it is indexed.
    pub(crate) networks: Vec<NetworkId>,
    /// The shards in which groups of it wait for a declaration.
    pub(crate) waiting: Vec<ShardId>,
    /// What the configuration joins under it.
    pub(crate) alias: Option<Arc<FederatedService>>,
    /// Whether its view is of that alias.
    pub(crate) is_join: bool,
}

impl Service {
    fn new(key: ServiceKey) -> Self {
        let (shards, networks, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, shards, view: None, networks, waiting, alias: None, is_join: false }
    }
    /// What a shard says.
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
    /// A declaration, to change.
    pub(crate) fn declaration_mut(&mut self, shard: ShardId, object: &ObjectId) -> Option<&mut Decl> {
        let shard = self.shard_mut(shard)?;
        let at = shard.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        shard.declarations.get_mut(at)
    }
    /// A group.
    pub(crate) fn group(&self, shard: ShardId, key: &EndpointGroupKey) -> Option<&GroupFact> {
        let shard = self.shard(shard)?;
        shard.groups.get(shard.find(key).ok()?)
    }
    /// A group, to change.
    pub(crate) fn group_mut(&mut self, shard: ShardId, key: &EndpointGroupKey) -> Option<&mut GroupFact> {
        let shard = self.shard_mut(shard)?;
        let at = shard.find(key).ok()?;
        shard.groups.get_mut(at)
    }
    /// Adds a declaration that was not there.
    pub(crate) fn add_declaration(&mut self, shard: ShardId, decl: Decl) {
        let shard = self.shard_or_new(shard);
        let at = shard.declarations.partition_point(|d| d.object < decl.object);
        shard.declarations.reserve_exact(1);
        shard.declarations.insert(at, decl);
    }
    /// Adds a group that was not there.
    pub(crate) fn add_group(&mut self, shard: ShardId, fact: GroupFact) {
        let shard = self.shard_or_new(shard);
        let at = shard.groups.partition_point(|g| g.key() < fact.key());
        if shard.groups.len() < 4 {
            shard.groups.reserve_exact(1);
        }
        shard.groups.insert(at, fact);
    }
    /// Takes a declaration away.
    pub(crate) fn remove_declaration(&mut self, shard: ShardId, object: &ObjectId) -> Option<Decl> {
        let own = self.shard_mut(shard)?;
        let at = own.declarations.binary_search_by(|d| d.object.cmp(object)).ok()?;
        let gone = own.declarations.remove(at);
        self.prune(shard);
        Some(gone)
    }
    /// Takes a group away.
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
    /// The services that claim a host, by namespace.
    pub(crate) fn of(&self, host: &Hostname) -> &[Service] {
        self.map.get(host).map_or(&[], |services| services)
    }
    /// The services that claim a host, to change.
    pub(crate) fn of_mut(&mut self, host: &Hostname) -> &mut [Service] {
        self.map.get_mut(host).map_or(&mut [], |services| services)
    }
    /// Every service, by host and namespace.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.map.values().flatten()
    }
    /// A service.
    pub(crate) fn get(&self, key: &ServiceKey) -> Option<&Service> {
        self.of(&key.host).iter().find(|s| s.key.namespace == key.namespace)
    }
    /// A service, to change.
    pub(crate) fn get_mut(&mut self, key: &ServiceKey) -> Option<&mut Service> {
        self.of_mut(&key.host).iter_mut().find(|s| s.key.namespace == key.namespace)
    }
    /// A service, made when it is new.
    pub(crate) fn get_or_new(&mut self, key: &ServiceKey) -> &mut Service {
        let services = self.map.entry(key.host.clone()).or_default();
        let at = services.partition_point(|s| s.key.namespace < key.namespace);
        if services.get(at).is_none_or(|s| s.key.namespace != key.namespace) {
            services.reserve_exact(1);
            services.insert(at, Service::new(key.clone()));
        }
        &mut services[at]
    }
    /// Forgets services of a host of which nobody says anything any more.
    pub(crate) fn prune(&mut self, host: &Hostname) {
        let Some(services) = self.map.get_mut(host) else { return };
        services.retain(|s| !s.shards.is_empty() || s.view.is_some() || s.alias.is_some());
        if services.is_empty() {
            self.map.remove(host);
        }
    }
}

/// The key of a declaration.
pub(crate) fn decl_key(service: &ServiceKey, object: &ObjectId) -> DeclKey {
    DeclKey { service: service.clone(), object: object.clone() }
}

/// The key of a group.
pub(crate) fn group_key(service: &ServiceKey, fact: &GroupFact) -> EndpointGroupKey {
    EndpointGroupKey {
        service: service.clone(),
        declaration: fact.declaration.clone(),
        object: fact.object.clone(),
        bucket: fact.bucket,
    }
}
