//! What a provider has already built. Sessions ask before they read, so as to build on threads for heavy work only.

use std::sync::Arc;

use tributary_answer::listens_at;
use tributary_model::{Catalog, ClientKind, PortView};
use tributary_proto::Variant;

use super::catalog::CatalogAnswers;
use super::diff_cache::DiffKey;
use super::folded_set::{FoldedSet, SetStrategy};
use super::generations::{CachedGeneration, Generations};
use super::grpc::{self, TargetRoutes, Targets};
use super::singles::port_of;
use super::store::{Assignments, Clusters, ResourceFamily, named};
use super::{ChangedSet, ClientClassKey, ResourceSet, ResourceType, Subscription};

/// What a provider has already built. The methods build nothing, so a runtime worker may call them.
pub trait Built {
    /// Returns the members of a wildcard type, or the resources of these names, if set and rope of this form are built.
    fn built_set(
        &self,
        _catalog: &Arc<Catalog>,
        _class: &ClientClassKey,
        _kind: ResourceType,
        _names: Option<&Arc<Subscription>>,
        _variant: Variant,
    ) -> Option<Arc<ResourceSet>> {
        None
    }

    /// Returns the difference between two generations if it is built.
    fn built_changes(
        &self,
        _from: &Arc<Catalog>,
        _to: &Arc<Catalog>,
        _class: &ClientClassKey,
        _kind: ResourceType,
    ) -> Option<Arc<ChangedSet>> {
        None
    }

    /// Whether [`one`](super::ResourceProvider::one) and the body of its resource cost no encoding.
    fn has_one(
        &self,
        _catalog: &Arc<Catalog>,
        _class: &ClientClassKey,
        _kind: ResourceType,
        _name: &str,
    ) -> bool {
        false
    }
}

impl Built for CatalogAnswers {
    fn built_set(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: Option<&Arc<Subscription>>,
        variant: Variant,
    ) -> Option<Arc<ResourceSet>> {
        self.kept_set(catalog, class, kind, names).filter(|set| set.has_rope(variant))
    }

    fn built_changes(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<ChangedSet>> {
        let diff = self.diffs.find(from, to)?;
        if let Some(noted) = diff.of_class(class, kind) {
            return Some(noted);
        }
        let key = if SetStrategy::of(kind, class).is_composite() {
            self.known_composite_key(from, to, class, kind)?
        } else {
            diff.known_key(to, class, kind)?
        };
        let built = diff.results.get(&key)?;
        diff.note(class, kind, &built);
        Some(built)
    }

    fn has_one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> bool {
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => is_single_kept::<Clusters>(catalog, class, name),
            SetStrategy::Assignments => is_single_kept::<Assignments>(catalog, class, name),
            SetStrategy::TargetRoutes => is_single_kept::<TargetRoutes>(catalog, class, name),
            // a policy may have many rules
            SetStrategy::Targets if listens_at(name).is_some() => false,
            SetStrategy::Targets => match grpc::port_of(catalog, class, name) {
                // a listener under another name than the canonical one is built for each request
                Some(port) => Targets::cached(port, class).is_some_and(|built| {
                    let found = named(&built, name);
                    built.is_empty() || found.is_some_and(|found| found.body().is_some())
                }),
                None => true,
            },
            SetStrategy::Listeners | SetStrategy::Routes | SetStrategy::Forwarding => {
                self.kept(catalog, class, kind).is_some_and(|folded| folded.is_written(name))
            }
            SetStrategy::Secrets | SetStrategy::Nothing => true,
        }
    }
}

impl CatalogAnswers {
    /// Returns the whole set of a type if it is built.
    fn kept(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> Option<FoldedSet> {
        let cached = self.generations.find(catalog)?;
        cached.sets.get(&Generations::known_layer(&cached, class, kind)?.key)
    }
    /// Returns the set of a type, or of these names, if it is built.
    pub(super) fn kept_set(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: Option<&Arc<Subscription>>,
    ) -> Option<Arc<ResourceSet>> {
        let cached = self.generations.find(catalog)?;
        let layer = Generations::known_layer(&cached, class, kind)?;
        match names {
            None => Some(cached.sets.get(&layer.key)?.set),
            Some(names) => {
                let key = (Arc::as_ptr(names) as usize, layer.key.clone());
                Some(cached.subscribed.get(&key)?.1)
            }
        }
    }
    /// Returns the cache key of a difference of composites, if its layers are known.
    fn known_composite_key(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<DiffKey> {
        let layers = |cached: &CachedGeneration<FoldedSet>| {
            Some(Generations::known_layer(cached, class, kind)?.key.clone())
        };
        let Some(from) = self.generations.find(from) else {
            return Some(DiffKey::Class(class.clone(), kind));
        };
        let to = self.generations.find(to)?;
        Some(DiffKey::Layers([layers(&from)?, layers(&to)?].into()))
    }
}

fn is_single_kept<S: ResourceFamily>(catalog: &Catalog, class: &ClientClassKey, name: &str) -> bool {
    let is_fixed = S::KIND == ResourceType::Cluster && class.kind == ClientKind::Sidecar;
    port_of(catalog, class, name).map_or(!is_fixed, |port| is_port_kept::<S>(port, class, name))
}

fn is_port_kept<S: ResourceFamily>(port: &PortView, class: &ClientClassKey, name: &str) -> bool {
    let built = S::cached(port, class);
    built.is_some_and(|built| named(&built, name).is_none_or(|found| found.body().is_some()))
}
