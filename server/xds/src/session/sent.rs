//! What a client was sent of one type, resource by resource, for `get resources` and `diff`.
//!
//! A [`SentView`] has references from a copy of the session's state, and looks up resources with them.
//! Nothing is copied per client: bodies come from the answers that all clients share. A version that the answers no
//! longer hold has no body, rather than that of another version.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tributary_model::{Catalog, EncodedResource, PolicyKey, Version};

use super::SyncStatus;
use super::ack::Acks;
use super::client_snapshot::ClientSnapshot;
use super::env::Env;
use super::held_versions::{HeldVersions, Holding};
use super::rejection::Verdict;
use super::status::SessionStatus;
use super::subscription::{Requested, TypeSubscription};
use crate::answers::{ClientClassKey, HostSources, RefusedPatch, ResourceType, empty_assignment};
use crate::client::ClientNode;

/// State of one resource at a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceState {
    /// It was sent.
    Sent(SyncStatus),
    /// It was in a response that the client rejected because of other resources. Whether the client uses it is not known.
    Unconfirmed,
    /// It was removed, and the client keeps it until it accepts its listeners and routes.
    Kept,
    /// The client subscribes to the name, and there is no such resource.
    Absent,
    /// The name is neither sent nor reported as absent while a registry is unknown.
    HeldBack,
}

impl ResourceState {
    /// Returns the text in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent(status) => status.as_str(),
            Self::Unconfirmed => SyncStatus::Stale.as_str(),
            Self::Kept => "KEPT",
            Self::Absent => "ABSENT",
            Self::HeldBack => "HELD BACK",
        }
    }
}

/// One resource of a client.
#[derive(Debug, Clone)]
pub struct SentResource {
    /// Type.
    pub kind: ResourceType,
    /// Name.
    pub name: Arc<str>,
    /// Version that the client holds.
    pub version: Option<Version>,
    /// State.
    pub state: ResourceState,
    /// Error text of the client, if it rejected the response with this resource.
    pub error: Option<Arc<str>>,
    found: Option<Found>,
}

/// A resource in the version that the client holds, and the generation that can encode it.
type Found = (Arc<EncodedResource>, Arc<ClientSnapshot>);

impl SentResource {
    /// Returns the length of the body; `None` if the version is no longer held.
    #[must_use]
    pub fn len(&self) -> Option<u32> {
        self.found.as_ref().map(|(resource, _)| resource.len)
    }
    /// Whether the body is known to be empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// What a client was sent of one type.
#[derive(Debug)]
pub struct SentView {
    env: Arc<Env>,
    kind: ResourceType,
    client: Arc<ClientNode>,
    class: ClientClassKey,
    watch: TypeSubscription,
    /// Generation that the client received of this type, if no versions are recorded.
    at: Option<Arc<ClientSnapshot>>,
    known: Option<HeldVersions>,
    /// Removed resources that the client still holds, from its earlier generation.
    before: Option<Arc<ClientSnapshot>>,
    unsent: Vec<Arc<str>>,
    withheld: Vec<Arc<str>>,
    requested: Requested,
    held_back: Vec<Box<str>>,
    acks: Acks,
}

impl SessionStatus {
    /// Returns what the client was sent of a type; `None` if it does not subscribe to it.
    #[must_use]
    pub fn sent(&self, kind: ResourceType) -> Option<SentView> {
        let of = &self.kinds[kind];
        Some(SentView {
            env: Arc::clone(&self.env),
            kind,
            client: Arc::clone(&self.client),
            class: self.class.clone(),
            watch: of.watch.clone()?,
            at: of.at.clone(),
            known: of.known.clone(),
            before: self.base.clone(),
            unsent: of.pending.unsent.clone(),
            withheld: of.pending.withheld.clone(),
            requested: of.pending.requested.clone(),
            held_back: of.pending.held_back.clone(),
            acks: of.acks.clone(),
        })
    }
}

impl SentView {
    /// Returns the client's resources, by name. May encode, so call it outside of a stream's task.
    #[must_use]
    pub fn resources(&self, current: &Arc<Catalog>) -> Vec<SentResource> {
        let mut held = BTreeMap::new();
        match (&self.known, &self.at) {
            (Some(known), _) => self.add_known(known, current, &mut held),
            (None, Some(at)) => self.add_all(at, &mut held),
            (None, None) => {}
        }
        for name in self.withheld.iter().filter(|name| self.watch.wants(name)) {
            held.entry(Arc::clone(name)).or_insert((Holding::NotSent, None));
        }
        for name in self.watch.names.iter() {
            held.entry(Arc::from(&**name)).or_insert((Holding::NotSent, None));
        }
        self.held_back
            .iter()
            .for_each(|name| drop(held.insert(Arc::from(&**name), (Holding::NotSent, None))));
        held.into_iter().map(|(name, holding)| self.resource(name, holding)).collect()
    }
    /// Returns the body of a resource in the version that the client holds; `None` if it is no longer held.
    #[must_use]
    pub fn body(&self, resource: &SentResource) -> Option<Bytes> {
        let (encoded, at) = resource.found.as_ref()?;
        let again = || self.env.answers.body(&at.catalog, &at.class, self.kind, encoded);
        encoded.body().or_else(|| Some(again()?.concat().into()))
    }
    /// Whether a resource belongs to the client's own workload, so that no other client gets it.
    #[must_use]
    pub fn is_own(&self, resource: &SentResource) -> bool {
        let own = |(_, at): &Found| at.private(self.kind).iter().any(|own| own.name == resource.name);
        resource.found.as_ref().is_some_and(own)
    }
    /// Returns the EnvoyFilters that changed or added a resource, in order.
    #[must_use]
    pub fn patched_by(&self, resource: &SentResource) -> Vec<PolicyKey> {
        let by = |(encoded, at): &Found| {
            self.env.answers.patched_by(&at.class, self.kind, &resource.name, encoded.version)
        };
        resource.found.as_ref().map(by).unwrap_or_default()
    }
    /// Returns the patches that were left out of a version of a resource, because Envoy would refuse a part of it; of a route table
    /// those that concern the virtual host with a domain.
    #[must_use]
    pub fn left_out(
        &self,
        current: &Arc<Catalog>,
        (name, version): (&str, Version),
        domain: &str,
    ) -> Vec<RefusedPatch> {
        self.env.answers.left_out(current, &self.class, (self.kind, name, version), domain)
    }
    /// Returns the EnvoyFilters that changed parts of the virtual host at a position of a route table; `None` if none changed the
    /// table, or if this is not known any more.
    #[must_use]
    pub fn host_sources(&self, table: &SentResource, at: usize) -> Option<HostSources> {
        let (encoded, of) = table.found.as_ref().filter(|_| self.kind == ResourceType::Route)?;
        self.env.answers.host_sources(&of.catalog, &of.class, (&table.name, encoded.version), at)
    }
    /// Whether the client rejected a resource of the type and has not accepted a later version of it since.
    #[must_use]
    pub fn has_rejection(&self) -> bool {
        self.acks.nack().is_some()
    }
    /// Returns the type.
    #[must_use]
    pub const fn kind(&self) -> ResourceType {
        self.kind
    }
    /// Whether the client receives every resource that it may use.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.watch.is_wildcard()
    }
    /// Whether the client subscribes to a name.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.watch.wants(name)
    }
    /// Returns the EnvoyFilter that removed a resource of this name.
    #[must_use]
    pub fn removed_by(&self, name: &str) -> Option<PolicyKey> {
        self.env.answers.removed_by(&self.class, self.kind, name)
    }
    /// Returns the resources that the client would have without EnvoyFilters, with the filter that removed each, sorted by name.
    #[must_use]
    pub fn removed(&self, current: &Arc<Catalog>) -> Vec<(Arc<str>, PolicyKey)> {
        let mut all = self.env.answers.removed(current, &self.class, self.kind);
        all.retain(|(name, _)| self.watch.wants(name));
        all
    }
    /// Whether a resource name is about a host. Names about many hosts, such as a port's routes, are about none.
    #[must_use]
    pub fn is_of_host(&self, name: &str, host: &str) -> bool {
        let of = self.env.answers.host_of(&self.class, self.kind, name);
        of.is_some_and(|of| of.as_str().eq_ignore_ascii_case(host))
    }
    fn add_all(&self, at: &Arc<ClientSnapshot>, held: &mut Holdings) {
        let whole = if self.watch.is_wildcard() {
            at.all(&self.env, self.kind, &self.watch.names)
        } else {
            at.many(&self.env, self.kind, &self.watch.names)
        };
        for resource in whole.iter() {
            let found = Some((Arc::clone(resource), Arc::clone(at)));
            held.insert(Arc::clone(&resource.name), (Holding::Version(resource.version), found));
        }
        for (name, before) in self.unsent.iter().zip(self.before.iter().cycle()) {
            let Some(resource) = before.one(&self.env, self.kind, name) else { continue };
            let version = Holding::Version(resource.version);
            held.insert(Arc::clone(name), (version, Some((resource, Arc::clone(before)))));
        }
    }
    fn add_known(&self, known: &HeldVersions, current: &Arc<Catalog>, held: &mut Holdings) {
        let (class, own) = self.client.at(current);
        let class = self.env.class(class);
        let (at, current, ips) = (self.at.as_deref(), Arc::clone(current), &self.client.ips);
        let now = ClientSnapshot::after(at, &self.env, current, class, own, ips);
        let candidates: Vec<Arc<ClientSnapshot>> = self.at.iter().cloned().chain([Arc::new(now)]).collect();
        for (name, holding) in known.iter().filter(|(name, _)| self.watch.wants(name)) {
            let found = match holding {
                Holding::Version(version) => self.find(name, version, &candidates),
                Holding::NotSent | Holding::Absent => None,
            };
            held.insert(name.into(), (holding, found));
        }
    }
    /// Looks for a version in the generations that are at hand.
    fn find(&self, name: &str, version: Version, candidates: &[Arc<ClientSnapshot>]) -> Option<Found> {
        let of = |at: &Arc<ClientSnapshot>| match at.one(&self.env, self.kind, name) {
            None if self.kind == ResourceType::Endpoints => Some(empty_assignment(name)),
            found => found,
        };
        candidates.iter().find_map(|at| {
            let resource = of(at).filter(|resource| resource.version == version)?;
            Some((resource, Arc::clone(at)))
        })
    }
    fn resource(&self, name: Arc<str>, (holding, found): (Holding, Option<Found>)) -> SentResource {
        let version = match holding {
            Holding::Version(version) if holding != Holding::FOREIGN => Some(version),
            Holding::Version(_) | Holding::NotSent | Holding::Absent => None,
        };
        let (state, error) = self.state(&name, holding);
        SentResource { kind: self.kind, name, version, state, error, found }
    }
    fn state(&self, name: &str, holding: Holding) -> (ResourceState, Option<Arc<str>>) {
        let due = match &self.requested {
            Requested::Names(names) => names.contains(name),
            Requested::Nothing | Requested::Everything => false,
        };
        if self.held_back.iter().any(|held| **held == *name) {
            return (ResourceState::HeldBack, None);
        }
        if self.withheld.binary_search_by(|kept| (**kept).cmp(name)).is_ok() {
            return (ResourceState::Kept, None);
        }
        match holding {
            Holding::NotSent if due || self.acks.last().is_none() => {
                (ResourceState::Sent(SyncStatus::NotSent), None)
            }
            Holding::NotSent | Holding::Absent => (ResourceState::Absent, None),
            Holding::Version(_) if self.acks.is_unanswered(name) => {
                (ResourceState::Sent(SyncStatus::Stale), None)
            }
            Holding::Version(_) => match self.acks.verdict(name) {
                Verdict::Unacknowledged => (ResourceState::Unconfirmed, None),
                Verdict::Unaffected => (ResourceState::Sent(SyncStatus::Synced), None),
                rejected => {
                    let text = rejected.rejection(self.kind).map(|(text, _)| text);
                    (ResourceState::Sent(SyncStatus::Error), text)
                }
            },
        }
    }
}

type Holdings = BTreeMap<Arc<str>, (Holding, Option<Found>)>;
