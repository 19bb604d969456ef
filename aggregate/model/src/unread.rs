//! Collections that were never read, and what an empty assignment therefore proves.
//!
//! The core fills [`RegistryView::unread`](crate::RegistryView::unread). Sessions ask before they empty the assignment of a
//! client that holds endpoints, and the diagnosis to name the reason. Pure.

use std::sync::Arc;

use crate::catalog::{Catalog, RegistryView};
use crate::code::Code;
use crate::declaration::Resolution;
use crate::id::{RegistryName, Scope};
use crate::status::Freshness;
use crate::update::{Collection, CollectionKind};
use crate::view::{Condition, PortView, ServiceView};

/// A collection that decides about endpoints and was never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadCollection<'c> {
    /// Registry that cannot read it.
    pub registry: &'c RegistryName,
    /// Collection.
    pub collection: &'c Collection,
    /// Answer of the source; empty while the first list is in progress.
    pub why: &'c str,
    /// The registry.
    state: &'c RegistryView,
}

impl UnreadCollection<'_> {
    /// Returns the collection with the reason, for operators.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { registry, collection: Collection { scope, kind }, why, state } = self;
        let what = match kind {
            // a scope has collections of kinds that its source does not have
            _ if state.lacks_scope(scope) => "",
            CollectionKind::Workloads => "the workloads of ",
            CollectionKind::Services => "the services of ",
            CollectionKind::Policies => "the policies of ",
            _ => "the endpoints of ",
        };
        let why = if why.is_empty() { "the first list is in progress" } else { why };
        format!("registry {registry} has never read {what}scope {scope}: {why}")
    }
}

impl Catalog {
    /// Whether something that clients may hold was never read: an absence proves nothing then (law 1).
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.complete || self.registries.values().any(|registry| !registry.unread.is_empty())
    }
    /// Returns every collection that was never read.
    pub fn unread<'c>(&'c self) -> impl Iterator<Item = UnreadCollection<'c>> {
        self.registries.iter().flat_map(|(registry, state)| {
            let of = move |collection: &'c Collection| UnreadCollection {
                registry,
                collection,
                why: state.reason(collection),
                state,
            };
            state.unread.iter().map(of)
        })
    }
    /// Returns the collections that decide about the endpoints of this service and were never read: the endpoints and
    /// workloads of the scopes that declare it, and all workloads if it selects them. An alias has none.
    pub fn unread_endpoints<'c>(
        &'c self,
        view: &'c ServiceView,
    ) -> impl Iterator<Item = UnreadCollection<'c>> {
        let selects = view.declarations.iter().any(|d| d.declaration.selector.is_some());
        let has_endpoints = view.alias_target().is_none();
        self.unread().filter(move |_| has_endpoints).filter(move |unread| {
            let declares = || {
                let mut shards = view.declarations.iter().map(|d| &d.shard);
                shards.any(|s| s.registry.name == *unread.registry && s.scope == unread.collection.scope)
            };
            match unread.collection.kind {
                CollectionKind::Groups => declares(),
                CollectionKind::Workloads => selects || declares(),
                _ => false,
            }
        })
    }
    /// Whether this server knows no endpoint of the port and cannot know whether there are any.
    #[must_use]
    pub fn lacks_endpoints(&self, view: &ServiceView, port: &PortView) -> bool {
        let inputs = &port.endpoints.inputs;
        let is_empty = inputs.sources.iter().all(|source| source.group.addresses.is_empty());
        let is_sent = inputs.resolution == Resolution::ClientSide;
        is_sent && is_empty && self.unread_endpoints(view).next().is_some()
    }
    /// Returns the condition of a service whose endpoints cannot all be known.
    #[must_use]
    pub fn unread_condition(&self, view: &ServiceView) -> Option<Condition> {
        const NAMED: usize = 4;
        let mut unread: Vec<String> = self.unread_endpoints(view).take(NAMED).map(|one| one.text()).collect();
        unread.dedup();
        let message = format!(
            "{}; an assignment without endpoints is not sent to a client that holds some",
            unread.join("; ")
        );
        let code = Code::ENDPOINTS_UNREAD;
        let condition = Condition { code, objects: Arc::from([]), message: message.into() };
        (!unread.is_empty()).then_some(condition)
    }
}

impl RegistryView {
    /// Whether none of several collections of a scope was ever read.
    fn lacks_scope(&self, scope: &Scope) -> bool {
        let mut all = self.collections.iter().map(|(one, _)| one).filter(|one| one.scope == *scope);
        all.clone().count() > 1 && all.all(|one| self.unread.contains(one))
    }
    /// Returns why a collection is not followed; empty if that is unknown.
    fn reason(&self, collection: &Collection) -> &str {
        match self.collections.iter().find(|(known, _)| known == collection) {
            Some((_, Freshness::Stale { why, .. })) => why,
            _ => "",
        }
    }
}
