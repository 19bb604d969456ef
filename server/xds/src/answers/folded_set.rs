//! The sets of one generation, the tables that they are folded from, and differences between sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::smallvec;
use tributary_model::{Catalog, ClientKind, EncodedResource};

use super::fold::{Fold, Start};
use super::listeners::{self, Listeners};
use super::routes::{self, Routes};
use super::runs::Runs;
use super::tables::TableChanges;
use super::{BodyChunks, ChangedSet, ClientClassKey, ResourceSet, ResourceType};
use crate::encode::route::empty_table;

/// How a type is built for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetStrategy {
    /// One xDS cluster per service port.
    Clusters,
    /// One assignment per service port.
    Assignments,
    /// One API listener per service port (gRPC).
    Targets,
    /// One route table per service port (gRPC).
    TargetRoutes,
    /// Listeners joined from the parts of services (sidecars).
    Listeners,
    /// Route tables joined from the parts of services (sidecars).
    Routes,
    /// Listeners of a router, which read nothing of services.
    Forwarding,
    /// Files of the client, by the names that its xDS clusters have for them.
    Secrets,
    /// No resources: a plain Envoy has its own listeners and routes, a router has no routes, and gRPC reads no files.
    Nothing,
}

impl SetStrategy {
    pub(crate) fn of(kind: ResourceType, class: &ClientClassKey) -> Self {
        match (kind, class.kind) {
            (ResourceType::Cluster, _) => Self::Clusters,
            (ResourceType::Endpoints, _) => Self::Assignments,
            (ResourceType::Listener, ClientKind::Grpc) => Self::Targets,
            (ResourceType::Route, ClientKind::Grpc) => Self::TargetRoutes,
            (ResourceType::Listener, ClientKind::Sidecar) => Self::Listeners,
            (ResourceType::Route, ClientKind::Sidecar) => Self::Routes,
            (ResourceType::Listener, ClientKind::Router) => Self::Forwarding,
            (ResourceType::Secret, ClientKind::Sidecar | ClientKind::Envoy) => Self::Secrets,
            (ResourceType::Listener | ResourceType::Route, ClientKind::Envoy)
            | (ResourceType::Secret, ClientKind::Grpc)
            | (ResourceType::Route | ResourceType::Secret, ClientKind::Router) => Self::Nothing,
        }
    }
}

impl SetStrategy {
    /// Whether a resource is joined from the parts of several services.
    pub(crate) fn is_composite(self) -> bool {
        matches!(self, Self::Listeners | Self::Routes)
    }
}

/// Tables of a set, from which the next generation continues.
#[derive(Debug, Clone)]
pub(crate) enum Tables {
    /// Each member comes from one service port.
    None,
    Listeners(Listeners),
    Routes(Routes),
    /// The runs of the route tables of an overlay, by name.
    Runs(BTreeMap<String, Runs>),
}

/// A set and its tables.
#[derive(Debug, Clone)]
pub(crate) struct FoldedSet {
    pub(crate) set: Arc<ResourceSet>,
    /// Empty for an overlay: they are computed again from those of the base.
    pub(crate) tables: Arc<Tables>,
    /// The base's tables, for an overlay.
    base: Option<Arc<Tables>>,
}

impl FoldedSet {
    /// Builds a set from members in any order.
    pub(crate) fn new(tables: Tables, mut members: Vec<Arc<EncodedResource>>) -> Self {
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self { set: Arc::new(ResourceSet::new(members)), tables: Arc::new(tables), base: None }
    }
    /// Keeps the previous set if the result is equal, so that its ropes stay shared.
    fn after(base: Option<(&Catalog, &Self)>, tables: Tables, members: Vec<Arc<EncodedResource>>) -> Self {
        let folded = Self::new(tables, members);
        match base {
            Some((_, before)) if before.set.version() == folded.set.version() => {
                Self { set: Arc::clone(&before.set), ..folded }
            }
            _ => folded,
        }
    }
    /// Builds a sidecar's listeners from those of another generation.
    pub(crate) fn listeners(
        fold: Fold<'_>,
        base: Option<(&Catalog, &Self)>,
        fixed: Option<Arc<EncodedResource>>,
    ) -> Self {
        let (nothing, none) = (Catalog::default(), Listeners::default());
        let (from, before) = match base.map(|(from, folded)| (from, &*folded.tables)) {
            Some((from, Tables::Listeners(before))) => (from, before),
            _ => (&nothing, &none),
        };
        let Some(tables) = before.advance(fold, Start::earlier(from, fold.class)) else {
            return base.map_or_else(
                || Self::new(Tables::Listeners(none.clone()), fixed.into_iter().collect()),
                |(_, m)| m.clone(),
            );
        };
        let members = tables.resources().cloned().chain(fixed).collect();
        Self::after(base, Tables::Listeners(tables), members)
    }
    /// Builds a sidecar's route tables from those of another generation.
    pub(crate) fn routes(fold: Fold<'_>, base: Option<(&Catalog, &Self)>) -> Self {
        let (nothing, none) = (Catalog::default(), Routes::default());
        let (from, before) = match base.map(|(from, folded)| (from, &*folded.tables)) {
            Some((from, Tables::Routes(before))) => (from, before),
            _ => (&nothing, &none),
        };
        let Some(tables) = before.advance(fold, Start::earlier(from, fold.class)) else {
            return base
                .map_or_else(|| Self::new(Tables::Routes(none.clone()), Vec::new()), |(_, m)| m.clone());
        };
        let members = tables.resources().cloned().collect();
        Self::after(base, Tables::Routes(tables), members)
    }
    /// Lays an overlay over this base.
    pub(crate) fn overlaid(
        &self,
        own: Vec<Arc<EncodedResource>>,
        replaced: &[Arc<EncodedResource>],
        tables: Tables,
    ) -> Self {
        let is_base = own.is_empty() && replaced.is_empty();
        let layered = || Arc::new(ResourceSet::layered(&self.set, own, replaced));
        let set = if is_base { Arc::clone(&self.set) } else { layered() };
        Self { set, tables: Arc::new(tables), base: Some(Arc::clone(&self.tables)) }
    }
    /// Whether the body of a member is at hand.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        let joined = |tables: &Arc<Tables>| tables.runs(name).is_some_and(Runs::are_written);
        let found = self.set.get(name);
        found.is_some_and(|found| found.body().is_some())
            || joined(&self.tables)
            || found.is_some() && self.tables.runs(name).is_none() && self.base.as_ref().is_some_and(joined)
    }
    /// Whether it is an overlay of this base, unchanged since.
    pub(crate) fn is_over(&self, base: &Self) -> bool {
        self.base.as_ref().is_some_and(|tables| Arc::ptr_eq(tables, &base.tables))
    }
}

impl Tables {
    /// Computes the tables of an overlay from those of its base.
    pub(crate) fn overlaid(&self, fold: Fold<'_>, start: Start<'_>) -> Self {
        match self {
            Self::None | Self::Runs(_) => Self::None,
            Self::Listeners(base) => {
                Self::Listeners(base.advance(fold, start).unwrap_or_else(|| base.clone()))
            }
            Self::Routes(base) => Self::Routes(base.advance(fold, start).unwrap_or_else(|| base.clone())),
        }
    }
    /// Returns the resources that differ from those of another table.
    pub(crate) fn differing<'a>(&'a self, from: &'a Self) -> TableChanges<'a> {
        match (from, self) {
            (Self::Listeners(from), Self::Listeners(to)) => to.differing(from),
            (Self::Routes(from), Self::Routes(to)) => to.differing(from),
            _ => TableChanges::default(),
        }
    }
    fn runs(&self, name: &str) -> Option<&Runs> {
        match self {
            Self::None | Self::Listeners(_) => None,
            Self::Routes(tables) => tables.runs(name),
            Self::Runs(runs) => runs.get(name),
        }
    }
    /// Returns what an overlay keeps of its tables.
    pub(crate) fn kept(&self, base: &Self) -> Self {
        match (self, base) {
            (Self::Routes(own), Self::Routes(base)) => Self::Runs(own.runs_beside(base)),
            _ => Self::None,
        }
    }
    /// Returns the body of a member, encoded again; `None` if an overlay lacks a part that was evicted.
    pub(crate) fn body(&self, fold: Fold<'_>, name: &str) -> Option<BodyChunks> {
        match self {
            Self::None => None,
            Self::Listeners(tables) => tables.body(fold, name).map(|body| smallvec![body.into()]),
            Self::Routes(tables) => tables.body(fold, name),
            Self::Runs(runs) => routes::joined(fold, name, runs.get(name)?, |_, _| None),
        }
    }
}

/// Returns the difference between the listeners of two generations. Compares with the older set if it
/// is still cached; otherwise returns every listener that a change affects.
pub(crate) fn changed_listeners(
    fold: Fold<'_>,
    from: &Catalog,
    held: Option<&ResourceSet>,
    now: &ResourceSet,
) -> ChangedSet {
    let mut out = ChangedSet::default();
    for name in listeners::touched_names(Start::earlier(from, fold.class), fold) {
        match now.get(&name) {
            Some(now) if differs(held, now) => out.upserted.push(Arc::clone(now)),
            Some(_) => {}
            None => out.removed.push(name.into()),
        }
    }
    super::singles::sort(out)
}

/// Returns the difference between route tables. A port without services still has an empty table.
pub(crate) fn changed_routes(
    fold: Fold<'_>,
    from: &Catalog,
    held: Option<&ResourceSet>,
    now: &ResourceSet,
) -> ChangedSet {
    let mut out = ChangedSet::default();
    for number in routes::touched_ports(Start::earlier(from, fold.class), fold) {
        let name = tributary_answer::route_table_name(number);
        let resource = now.get(&name).cloned().unwrap_or_else(|| no_routes(fold, &name));
        let was_empty = held.is_some_and(|held| held.get(&name).is_none());
        if differs(held, &resource) && !(was_empty && now.get(&name).is_none()) {
            out.upserted.push(resource);
        }
    }
    super::singles::sort(out)
}

/// Builds the table of a port without services.
pub(crate) fn no_routes(fold: Fold<'_>, name: &str) -> Arc<EncodedResource> {
    Arc::new(EncodedResource::new(name.into(), empty_table(name, &fold.unclaimed()).into()))
}

fn differs(held: Option<&ResourceSet>, now: &EncodedResource) -> bool {
    held.and_then(|held| held.get(&now.name)).is_none_or(|before| before.version != now.version)
}

/// Compares two whole sets, for changes that may affect every member.
pub(crate) fn difference(held: &ResourceSet, now: &ResourceSet) -> ChangedSet {
    let upserted = now.iter().filter(|member| differs(Some(held), member)).cloned().collect();
    let is_removed = |member: &&Arc<EncodedResource>| now.get(&member.name).is_none();
    let removed = held.iter().filter(is_removed).map(|member| member.name.clone()).collect();
    ChangedSet { upserted, removed }
}
