//! One generation as one client sees it. Bases and rounds hold it.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_answer::OwnSide;
use tributary_model::{Catalog, ClientKind, EncodedResource, Version, WorkloadKey};

use super::env::Env;
use super::rejected_listeners::RejectedListeners;
use crate::answers::{
    BodyChunks, ClientClass, ClientClassKey, ResourceSet, ResourceType, Subscription, TypeMap,
};

/// A generation with the client's class. The client's private resources replace members of the
/// shared sets.
#[derive(Debug)]
pub(crate) struct ClientSnapshot {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) class: ClientClassKey,
    own: Arc<[WorkloadKey]>,
    private: Arc<Private>,
    /// Listeners that the client rejected, of a gRPC server.
    rejected: RejectedListeners,
}

type Private = TypeMap<Arc<[Arc<EncodedResource>]>>;

impl ClientSnapshot {
    /// Builds the snapshot. Reuses the private resources of an earlier snapshot of this client if their inputs are
    /// unchanged; its addresses never change.
    pub(crate) fn after(
        earlier: Option<&Self>,
        env: &Env,
        catalog: Arc<Catalog>,
        class: ClientClassKey,
        own: Vec<WorkloadKey>,
        ips: &[IpAddr],
    ) -> Self {
        let same = |old: &&Self| old.has_same_private(&class, &own, &catalog);
        let private = if class.kind != ClientKind::Sidecar {
            earlier
                .filter(|old| old.class.kind != ClientKind::Sidecar)
                .map_or_else(Arc::default, |old| Arc::clone(&old.private))
        } else if let Some(old) = earlier.filter(same) {
            Arc::clone(&old.private)
        } else {
            let side = OwnSide { workloads: &own, ips };
            Arc::new(TypeMap::from_fn(|kind| env.answers.private(&catalog, &class, kind, side).into()))
        };
        let held = earlier.filter(|old| *old.own == *own);
        let own = held.map_or_else(|| own.into(), |old| Arc::clone(&old.own));
        Self { catalog, class, own, private, rejected: RejectedListeners::default() }
    }
    /// Sets the listeners that the client rejected.
    pub(crate) fn with_rejected(self, rejected: &RejectedListeners) -> Self {
        Self { rejected: rejected.clone(), ..self }
    }
    /// Whether a client of this class with these workloads has the same private resources in this generation.
    pub(crate) fn has_same_private(
        &self,
        class: &ClientClass,
        own: &[WorkloadKey],
        catalog: &Catalog,
    ) -> bool {
        *self.class == *class && *self.own == *own && same_inbound(&self.catalog, catalog, own)
    }
    /// Whether both have the very same private resources.
    pub(crate) fn has_private_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.private, &other.private)
    }
    pub(crate) fn is_private(&self, kind: ResourceType, name: &str) -> bool {
        self.private[kind].iter().any(|e| *e.name == *name)
    }
    pub(crate) fn private(&self, kind: ResourceType) -> &[Arc<EncodedResource>] {
        &self.private[kind]
    }
    /// Iterates over the names of a type that the client rejected, and that are answered in another way since.
    pub(crate) fn rejected_names(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<str>> {
        self.rejected.iter().map(|(name, _)| name).filter(move |_| kind == ResourceType::Listener)
    }
    /// Returns one resource by name.
    pub(crate) fn one(&self, env: &Env, kind: ResourceType, name: &str) -> Option<Arc<EncodedResource>> {
        let private = self.private(kind);
        if let Ok(at) = private.binary_search_by(|e| (*e.name).cmp(name)) {
            return Some(Arc::clone(&private[at]));
        }
        let found = env.answers.one(&self.catalog, &self.class, kind, name)?;
        if kind == ResourceType::Listener && self.rejected.has(&found) {
            return env.answers.refusing_listener(name);
        }
        Some(found)
    }
    /// Returns all members of a wildcard type, and the resources subscribed by name.
    pub(crate) fn all(&self, env: &Env, kind: ResourceType, names: &Subscription) -> Whole {
        let set = env.answers.all(&self.catalog, &self.class, kind);
        let mut over = self.private(kind).to_vec();
        for name in names.iter() {
            if set.get(name).is_none() && !over.iter().any(|e| *e.name == **name) {
                over.extend(self.one(env, kind, name));
            }
        }
        Whole { set, over, absent: Vec::new() }
    }
    /// Returns the resources of these names; EDS has an empty assignment for each unknown name.
    pub(crate) fn many(&self, env: &Env, kind: ResourceType, names: &Arc<Subscription>) -> Whole {
        let set = env.answers.many(&self.catalog, &self.class, kind, names);
        let own = self.private(kind).iter().filter(|e| names.contains(&e.name)).cloned();
        let replaced =
            self.rejected.iter().filter(|(name, _)| kind == ResourceType::Listener && names.contains(name));
        let over = own.chain(replaced.filter_map(|(name, _)| self.one(env, kind, name))).collect();
        Whole { set, over, absent: Vec::new() }
    }
    /// Returns the body of a resource of this generation.
    pub(crate) fn body(
        &self,
        env: &Env,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<BodyChunks> {
        let one = |body| BodyChunks::from_elem(body, 1);
        let kept = resource.body().map(one);
        kept.or_else(|| env.answers.body(&self.catalog, &self.class, kind, resource))
            .or_else(|| self.one(env, kind, &resource.name)?.body().map(one))
    }
}

/// Whether every input of these workloads' inbound resources is unchanged.
fn same_inbound(old: &Catalog, new: &Catalog, own: &[WorkloadKey]) -> bool {
    let same_workload = |key| match (old.workloads.get(key), new.workloads.get(key)) {
        (Some(a), Some(b)) => {
            a == b && b.services.iter().all(|s| old.hosts.get(&s.host) == new.hosts.get(&s.host))
        }
        (a, b) => a.is_none() && b.is_none(),
    };
    (old.settings == new.settings || *old.settings == *new.settings) && own.iter().all(same_workload)
}

/// A shared set, and one session's own resources that replace or extend it.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) set: Arc<ResourceSet>,
    pub(crate) over: Vec<Arc<EncodedResource>>,
    /// Forms of requested names that do not exist. They are sent, and the client holds nothing under these names.
    pub(crate) absent: Vec<Arc<EncodedResource>>,
}

impl Whole {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<EncodedResource>> {
        self.over.iter().find(|e| *e.name == *name).or_else(|| self.set.get(name))
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<EncodedResource>> {
        let hidden = |name: &str| self.over.iter().any(|e| *e.name == *name);
        self.set.iter().filter(move |e| !hidden(&e.name)).chain(&self.over)
    }
    pub(crate) fn len(&self) -> usize {
        if self.over.is_empty() { self.set.len() } else { self.iter().count() }
    }
    /// Whether no own resource replaces a shared one, which allows sending the shared rope unchanged.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.over.iter().all(|e| self.set.get(&e.name).is_none())
    }
    pub(crate) fn version(&self) -> Version {
        if self.over.is_empty() {
            return self.set.version();
        }
        Version::of_all(std::iter::once(self.set.version()).chain(self.over.iter().map(|e| e.version)))
    }
}
