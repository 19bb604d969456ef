//! Applies the patches of EnvoyFilters over the resources of a catalog.
//!
//! [`PatchedAnswers`] is what sessions hold. A class without patches gets exactly what [`CatalogAnswers`] has. A class with
//! patches gets the resources of the same class without them, with those in their place that patches change: so resources
//! that no patch matches stay shared with all other clients, and a changed one is shared by all clients with the same
//! patches.

mod table;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::smallvec;
use tributary_answer::OwnSide;
use tributary_model::{Catalog, EncodedResource, Hostname, PolicyKey, Version};
use tributary_proto::{Body, Variant};

use super::counters::Counter;
use super::singles::sort;
use super::{
    BodyChunks, Built, CatalogAnswers, ChangedSet, ClientClassKey, RefusedPatch, ResourceProvider,
    ResourceSet, ResourceType, Subscription,
};
use crate::patch::{HostSources, Side};
use table::{Applied, Patching, PatchingTable};
pub use table::{RefusedPatches, UsedPatches};

/// Resource provider over catalogs and patches. One per process; all sessions share it.
#[derive(Debug, Default)]
pub struct PatchedAnswers {
    plain: Arc<CatalogAnswers>,
    table: PatchingTable,
    /// Resources that patches have changed or removed.
    pub applied: Counter,
}

/// Resources of a type in a generation, for a class without its patches, and those patches.
struct Of<'a> {
    patching: Arc<Patching>,
    catalog: &'a Arc<Catalog>,
    class: &'a ClientClassKey,
    kind: ResourceType,
}

impl PatchedAnswers {
    /// Creates a provider over the resources of another one.
    #[must_use]
    pub fn new(plain: Arc<CatalogAnswers>) -> Self {
        Self { plain, ..Self::default() }
    }
    /// Returns the provider of the resources without patches.
    #[must_use]
    pub fn plain(&self) -> &CatalogAnswers {
        &self.plain
    }
    /// Returns the positions of the patches of a catalog that changed a resource of a connected client, by filter.
    #[must_use]
    pub fn used(&self, catalog: &Catalog) -> UsedPatches {
        self.table.used(catalog)
    }
    /// Returns the patches of a catalog that were left out of resources of connected clients, by filter.
    #[must_use]
    pub fn refused_patches(&self, catalog: &Catalog) -> RefusedPatches {
        self.table.refused_patches(catalog)
    }
    /// Returns the patches of a class; `None` if it has none for this type.
    fn of<'a>(
        &self,
        catalog: &'a Arc<Catalog>,
        class: &ClientClassKey,
        plain: &'a ClientClassKey,
        kind: ResourceType,
    ) -> Option<Of<'a>> {
        let patches = class.patches.as_ref().filter(|_| is_patched(kind))?;
        Some(Of { patching: self.table.get(patches)?, catalog, class: plain, kind })
    }
    /// Applies patches to one resource.
    fn apply(&self, of: &Of<'_>, resource: &Arc<EncodedResource>, side: Side) -> Applied {
        let body = || self.plain.body(of.catalog, of.class, of.kind, resource).map(joined);
        of.patching.apply((of.kind, side), resource, body, &self.applied)
    }
    /// Lays over a set what patches change in it, and what they add under these names.
    fn over(&self, of: &Of<'_>, base: &Arc<ResourceSet>, names: Option<&Subscription>) -> Arc<ResourceSet> {
        of.patching.set_over(of.kind, base, || {
            let (mut own, mut replaced) = (Vec::new(), Vec::new());
            for member in base.iter() {
                match self.apply(of, member, Side::Outbound) {
                    Applied::Same => continue,
                    Applied::Removed => {}
                    Applied::Changed(now) => own.push(now),
                }
                replaced.push(Arc::clone(member));
            }
            let is_wanted = |name: &str| names.is_none_or(|names| names.contains(name));
            let is_taken = |name: &str| {
                let gone = |member: &Arc<EncodedResource>| *member.name == *name;
                base.get(name).is_some() && !replaced.iter().any(gone) || own.iter().any(gone)
            };
            let added = of.patching.added(of.kind).iter();
            let free: Vec<_> = added
                .enumerate()
                .filter(|(_, added)| is_wanted(&added.name) && !is_taken(&added.name))
                .filter_map(|(at, _)| of.patching.use_added(of.kind, at))
                .collect();
            own.extend(free);
            match own.is_empty() && replaced.is_empty() {
                true => Arc::clone(base),
                false => Arc::new(ResourceSet::layered(base, own, &replaced)),
            }
        })
    }
    /// Applies patches to a difference.
    fn changes(&self, of: &Of<'_>, plain: &ChangedSet) -> ChangedSet {
        let mut out = ChangedSet::default();
        let mut gone: Vec<&Arc<str>> = plain.removed.iter().collect();
        for member in &plain.upserted {
            match self.apply(of, member, Side::Outbound) {
                Applied::Same => out.upserted.push(Arc::clone(member)),
                Applied::Changed(now) => out.upserted.push(now),
                Applied::Removed => gone.push(&member.name),
            }
        }
        for name in gone {
            match of.patching.added_as(of.kind, name) {
                Some(added) => out.upserted.push(added),
                None => out.removed.push(Arc::clone(name)),
            }
        }
        sort(out)
    }
}

/// Whether patches change resources of a type.
const fn is_patched(kind: ResourceType) -> bool {
    matches!(kind, ResourceType::Cluster | ResourceType::Listener | ResourceType::Route)
}

fn joined(body: BodyChunks) -> Bytes {
    match &*body {
        [one] => one.clone(),
        chunks => chunks.concat().into(),
    }
}

impl ResourceProvider for PatchedAnswers {
    fn all(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> Arc<ResourceSet> {
        let plain = class.plain();
        let base = self.plain.all(catalog, &plain, kind);
        match self.of(catalog, class, &plain, kind).filter(|_| kind.has_wildcard()) {
            Some(of) => self.over(&of, &base, None),
            None => base,
        }
    }

    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet> {
        let plain = class.plain();
        let base = self.plain.many(catalog, &plain, kind, names);
        match self.of(catalog, class, &plain, kind) {
            Some(of) => self.over(&of, &base, Some(names)),
            None => base,
        }
    }

    fn one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        let plain = class.plain();
        let found = self.plain.one(catalog, &plain, kind, name);
        let Some(of) = self.of(catalog, class, &plain, kind) else { return found };
        match found.map(|found| (self.apply(&of, &found, Side::Outbound), found)) {
            Some((Applied::Same, found)) => Some(found),
            Some((Applied::Changed(now), _)) => Some(now),
            Some((Applied::Removed, _)) | None => of.patching.added_as(kind, name),
        }
    }

    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<ChangedSet> {
        let plain = class.plain();
        let changed = self.plain.changed(from, to, &plain, kind);
        match self.of(to, class, &plain, kind).filter(|_| !changed.is_empty()) {
            Some(of) => Arc::new(self.changes(&of, &changed)),
            None => changed,
        }
    }

    fn refusing_listener(&self, name: &str) -> Option<Arc<EncodedResource>> {
        self.plain.refusing_listener(name)
    }

    fn lacks_endpoints(&self, catalog: &Catalog, class: &ClientClassKey, name: &str) -> bool {
        self.plain.lacks_endpoints(catalog, &class.plain(), name)
    }

    fn host_of(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<Hostname> {
        self.plain.host_of(&class.plain(), kind, name)
    }

    fn body(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<BodyChunks> {
        // that of a changed resource is never evicted
        let own = resource.body().map(|body| smallvec![body]);
        own.or_else(|| self.plain.body(catalog, &class.plain(), kind, resource))
    }

    fn rope(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        variant: Variant,
    ) -> Body {
        self.plain.rope(catalog, &class.plain(), kind, set, variant)
    }

    fn private(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        own: OwnSide<'_>,
    ) -> Vec<Arc<EncodedResource>> {
        let plain = class.plain();
        let all = self.plain.private(catalog, &plain, kind, own);
        let Some(of) = self.of(catalog, class, &plain, kind) else { return all };
        let patched = |resource| match self.apply(&of, &resource, Side::Inbound) {
            Applied::Same => Some(resource),
            Applied::Changed(now) => Some(now),
            Applied::Removed => None,
        };
        all.into_iter().filter_map(patched).collect()
    }

    fn patched_by(
        &self,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
        version: Version,
    ) -> Vec<PolicyKey> {
        let patches = class.patches.as_ref().filter(|_| is_patched(kind));
        let patching = patches.and_then(|patches| self.table.get(patches));
        patching.map_or_else(Vec::new, |patching| patching.sources(kind, name, version))
    }

    fn host_sources(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        (name, version): (&str, Version),
        at: usize,
    ) -> Option<HostSources> {
        let (plain, kind) = (class.plain(), ResourceType::Route);
        let patching = self.table.get(class.patches.as_ref()?)?;
        let base = self.plain.one(catalog, &plain, kind, name)?;
        let body = joined(self.plain.body(catalog, &plain, kind, &base)?);
        patching.host_sources((name, version), (&body, at))
    }

    fn left_out(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        (kind, name, version): (ResourceType, &str, Version),
        domain: &str,
    ) -> Vec<RefusedPatch> {
        let plain = class.plain();
        let Some(of) = self.of(catalog, class, &plain, kind) else { return Vec::new() };
        let all = of.patching.left_out(kind, name, version);
        if kind != ResourceType::Route || all.is_empty() {
            return all;
        }
        let base = self.plain.one(catalog, &plain, kind, name);
        let body = base.and_then(|base| self.plain.body(catalog, &plain, kind, &base)).map(joined);
        body.map_or(all, |body| of.patching.left_out_of_host(name, (&body, domain)))
    }

    fn removed_by(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<PolicyKey> {
        let patches = class.patches.as_ref().filter(|_| is_patched(kind))?;
        self.table.get(patches)?.remover(kind, name)
    }

    fn removed(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Vec<(Arc<str>, PolicyKey)> {
        let plain = class.plain();
        let Some(of) = self.of(catalog, class, &plain, kind) else { return Vec::new() };
        let mut all = of.patching.removed(kind);
        // other clients with the same patches may have more
        all.retain(|(name, _)| self.plain.one(catalog, &plain, kind, name).is_some());
        all
    }
}

impl Built for PatchedAnswers {
    fn built_set(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: Option<&Arc<Subscription>>,
        variant: Variant,
    ) -> Option<Arc<ResourceSet>> {
        let plain = class.plain();
        match &class.patches {
            Some(patches) if is_patched(kind) => {
                let base = self.plain.kept_set(catalog, &plain, kind, names)?;
                self.table.get(patches)?.known_set(kind, &base).filter(|set| set.has_rope(variant))
            }
            _ => self.plain.built_set(catalog, &plain, kind, names, variant),
        }
    }

    fn built_changes(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<ChangedSet>> {
        let changed = self.plain.built_changes(from, to, &class.plain(), kind)?;
        let is_done = class.patches.is_none() || !is_patched(kind) || changed.is_empty();
        is_done.then_some(changed)
    }

    fn has_one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> bool {
        let is_plain = class.patches.is_none() || !is_patched(kind);
        is_plain && self.plain.has_one(catalog, &class.plain(), kind, name)
    }
}

#[cfg(test)]
mod tests;
