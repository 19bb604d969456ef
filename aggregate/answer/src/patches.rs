//! EnvoyFilters that apply to a client, in their order.
//!
//! [`SelectedPolicies`](crate::SelectedPolicies) has the filters that select clients by their labels; xds keeps the patches of
//! these that apply to a proxy in the client's class. Clients to which the same patches apply share every resource that these
//! change.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, ConfigPatch, EnvoyFilter, Labels, Namespace, PolicyKey, PolicyKind, PolicyView,
};

/// What patches may require of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ProxyFacts {
    /// Version.
    pub version: Option<Box<str>>,
    /// Metadata of its node that is text, by name.
    pub metadata: Box<[(Box<str>, Box<str>)]>,
}

impl ProxyFacts {
    fn value(&self, name: &str) -> Option<&str> {
        let at = self.metadata.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        self.metadata.get(at).map(|(_, value)| &**value)
    }
    fn fits(&self, patch: &ConfigPatch) -> bool {
        let version = self.version.as_deref();
        patch
            .proxy
            .version
            .as_ref()
            .is_none_or(|pattern| version.is_some_and(|version| pattern.is_in(version)))
            && patch.proxy.metadata.iter().all(|(name, value)| self.value(name) == Some(&**value))
    }
}

/// Patches that apply to a client. Equal if their content is, whatever version of a filter they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPatches {
    filters: Box<[FilterPatches]>,
}

/// Patches of one filter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FilterPatches {
    key: PolicyKey,
    all: Arc<[ConfigPatch]>,
    /// Positions of those that apply.
    chosen: Box<[u16]>,
}

impl Hash for ClientPatches {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for filter in &self.filters {
            (&filter.key, &filter.chosen).hash(state);
        }
    }
}

impl ClientPatches {
    /// Iterates over the patches, with their filters and their positions in these.
    pub fn iter(&self) -> impl Iterator<Item = (&PolicyKey, usize, &ConfigPatch)> {
        self.filters.iter().flat_map(|filter| {
            let chosen = filter.chosen.iter().map(|at| usize::from(*at));
            chosen.filter_map(|at| Some((&filter.key, at, filter.all.get(at)?)))
        })
    }
    /// Iterates over the filters whose patches are those of a catalog.
    pub fn current<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a PolicyKey> {
        let is_current = |filter: &&FilterPatches| {
            let now = catalog.policies.get(&filter.key).and_then(|view| view.envoy_filter());
            now.is_some_and(|now| now.patches == filter.all)
        };
        self.filters.iter().filter(is_current).map(|filter| &filter.key)
    }
    /// Iterates over the filters.
    pub fn keys(&self) -> impl Iterator<Item = &PolicyKey> {
        self.filters.iter().map(|filter| &filter.key)
    }
}

/// EnvoyFilters that select clients of a namespace by their labels, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelectedFilters {
    filters: Box<[(PolicyKey, Arc<[ConfigPatch]>)]>,
}

impl SelectedFilters {
    /// Returns the facts of a proxy on which its patches depend.
    #[must_use]
    pub fn compared(&self, proxy: &ProxyFacts) -> ProxyFacts {
        let all = || self.filters.iter().flat_map(|(_, patches)| patches.iter()).map(|patch| &patch.proxy);
        let version = proxy.version.clone().filter(|_| all().any(|of| of.version.is_some()));
        let names: BTreeSet<&str> =
            all().flat_map(|of| of.metadata.iter()).map(|(name, _)| &**name).collect();
        let pair = |name: &str| Some((name.into(), proxy.value(name)?.into()));
        ProxyFacts { version, metadata: names.into_iter().filter_map(pair).collect() }
    }
    /// Returns the patches that apply to a proxy; `None` if there are none.
    #[must_use]
    pub fn patches(&self, proxy: &ProxyFacts) -> Option<ClientPatches> {
        let of = |(key, all): &(PolicyKey, Arc<[ConfigPatch]>)| {
            let applied =
                |(_, patch): &(u16, &ConfigPatch)| patch.not_served().is_none() && proxy.fits(patch);
            let chosen: Box<[u16]> = (0..).zip(&**all).filter(applied).map(|(at, _)| at).collect();
            (!chosen.is_empty()).then(|| FilterPatches { key: key.clone(), all: Arc::clone(all), chosen })
        };
        let filters: Box<[FilterPatches]> = self.filters.iter().filter_map(of).collect();
        (!filters.is_empty()).then_some(ClientPatches { filters })
    }
}

/// Returns the filters that select a client: those of the root namespace and of its own, by priority, the root namespace
/// first, then by age and name.
#[must_use]
pub fn filters_of(
    catalog: &Catalog,
    kind: ClientKind,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> SelectedFilters {
    let Some(own) = namespace.filter(|_| kind == ClientKind::Sidecar && !catalog.policies.is_empty()) else {
        return SelectedFilters::default();
    };
    let root = catalog.settings.root_namespace().filter(|root| root != own);
    let mut filters: Vec<Candidate<'_>> = filters(catalog, own)
        .chain(root.iter().flat_map(|root| self::filters(catalog, root)))
        .filter(|(_, _, filter)| !filter.has_targets && filter.selector.is_subset_of(labels))
        .collect();
    filters.sort_by_cached_key(|filter| order(catalog, filter));
    let of = |(key, _, filter): Candidate<'_>| (key.clone(), Arc::clone(&filter.patches));
    SelectedFilters { filters: filters.into_iter().map(of).collect() }
}

type Candidate<'c> = (&'c PolicyKey, &'c PolicyView, &'c EnvoyFilter);

fn filters<'c>(catalog: &'c Catalog, namespace: &Namespace) -> impl Iterator<Item = Candidate<'c>> + use<'c> {
    let namespace = namespace.clone();
    let from = PolicyKey { kind: PolicyKind::EnvoyFilter, namespace: namespace.clone(), name: "".into() };
    let all = catalog.policies.range(from..);
    all.take_while(move |(key, _)| key.kind == PolicyKind::EnvoyFilter && key.namespace == namespace)
        .filter_map(|(key, view)| Some((key, &**view, view.envoy_filter()?)))
}

/// A filter without a creation time counts as the oldest.
fn order(catalog: &Catalog, (key, view, filter): &Candidate<'_>) -> impl Ord + use<> {
    let is_own = catalog.settings.root_namespace().as_ref() != Some(&key.namespace);
    (filter.priority, is_own, view.declared.created, format!("{}.{}", key.name, key.namespace))
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        ApplyTo, DeclaredPolicy, ObjectMatch, Operation, PatchContext, Policy, ProxyMatch, Shared, Timestamp,
        VersionPattern,
    };

    use super::*;
    use crate::fixtures::*;

    fn mk_patch(name: &str) -> ConfigPatch {
        ConfigPatch {
            apply_to: ApplyTo::Cluster,
            context: PatchContext::Any,
            proxy: ProxyMatch::default(),
            object: ObjectMatch::All,
            operation: Operation::Merge,
            value: Some(name.as_bytes().into()),
        }
    }
    fn mk_filter(patches: &[ConfigPatch]) -> EnvoyFilter {
        EnvoyFilter { patches: patches.into(), ..EnvoyFilter::default() }
    }
    /// Adds a filter with one patch, distinct by its name.
    fn add(catalog: &mut Catalog, at: &str, created: Option<i64>, change: impl FnOnce(&mut EnvoyFilter)) {
        let (namespace, name) = at.split_once('/').unwrap();
        let mut filter = mk_filter(&[mk_patch(name)]);
        change(&mut filter);
        let (key, view) = mk_policy(namespace, name, Policy::EnvoyFilter(filter));
        let created = created.map(|at| Timestamp::from_second(at).unwrap());
        let declared = DeclaredPolicy { created, ..(*view.declared).clone() };
        catalog
            .policies
            .insert(key, Shared::new(PolicyView { declared: declared.into(), ..(*view).clone() }));
    }
    fn names(catalog: &Catalog, namespace: &str, labels: &[(&str, &str)]) -> Vec<String> {
        let labels = labels.iter().copied().collect();
        let ns = mk_ns(namespace);
        let found =
            filters_of(catalog, ClientKind::Sidecar, Some(&ns), &labels).patches(&ProxyFacts::default());
        let keys =
            found.iter().flat_map(|found| found.keys().map(|key| format!("{}/{}", key.namespace, key.name)));
        keys.collect()
    }

    #[test]
    fn filters_are_ordered_by_priority_root_namespace_age_and_name() {
        let mut catalog = Catalog::default();
        let priority = |priority| move |filter: &mut EnvoyFilter| filter.priority = priority;
        add(&mut catalog, "istio-system/all", Some(5), |_| {});
        add(&mut catalog, "istio-system/old", Some(1), |_| {});
        add(&mut catalog, "istio-system/low", Some(9), priority(-10));
        add(&mut catalog, "shop/all", Some(5), |_| {});
        add(&mut catalog, "shop/b", None, |_| {});
        add(&mut catalog, "shop/a", None, |_| {});
        add(&mut catalog, "shop/lower", Some(9), priority(-11));
        add(&mut catalog, "shop/high", Some(1), priority(7));
        add(&mut catalog, "other/all", Some(1), |_| {});
        let expected = [
            "shop/lower",
            "istio-system/low",
            "istio-system/old",
            "istio-system/all",
            "shop/a",
            "shop/b",
            "shop/all",
            "shop/high",
        ];
        assert_eq!(names(&catalog, "shop", &[]), expected);
        assert_eq!(names(&catalog, "istio-system", &[]).len(), 3, "those of the root namespace once");
    }

    #[test]
    fn filters_apply_by_labels_and_never_with_targets_or_to_other_clients() {
        let mut catalog = Catalog::default();
        let select = |labels: &'static [(&str, &str)]| {
            |filter: &mut EnvoyFilter| filter.selector = labels.iter().copied().collect()
        };
        add(&mut catalog, "shop/a", None, select(&[("app", "pay")]));
        add(&mut catalog, "shop/b", None, select(&[("app", "pay"), ("tier", "x")]));
        add(&mut catalog, "shop/c", None, |filter| filter.has_targets = true);
        assert_eq!(names(&catalog, "shop", &[("app", "pay")]), ["shop/a"]);
        assert_eq!(names(&catalog, "shop", &[("app", "pay"), ("tier", "x")]), ["shop/a", "shop/b"]);
        assert_eq!(names(&catalog, "shop", &[]), [""; 0]);
        let pay = [("app", "pay")].into_iter().collect();
        let shop = mk_ns("shop");
        for kind in [ClientKind::Grpc, ClientKind::Envoy] {
            assert_eq!(filters_of(&catalog, kind, Some(&shop), &pay), SelectedFilters::default());
        }
    }

    #[test]
    fn patches_apply_by_version_and_metadata_of_the_proxy() {
        let versioned = |pattern: &str| {
            let version = Some(VersionPattern::new(pattern).unwrap());
            ConfigPatch { proxy: ProxyMatch { version, ..ProxyMatch::default() }, ..mk_patch("v") }
        };
        let with = |name: &str, value: &str| {
            let metadata = [(name.into(), value.into())].into();
            ConfigPatch { proxy: ProxyMatch { metadata, ..ProxyMatch::default() }, ..mk_patch("m") }
        };
        let patches = [versioned("30"), versioned("^30"), with("a", "b"), with("a", "c"), with("none", "")];
        let mut catalog = Catalog::default();
        add(&mut catalog, "shop/a", None, |filter| filter.patches = patches.into());
        let count = |version: Option<&str>, metadata: &[(&str, &str)]| {
            let metadata = metadata.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let proxy = ProxyFacts { version: version.map(Into::into), metadata };
            let ns = mk_ns("shop");
            let found = filters_of(&catalog, ClientKind::Sidecar, Some(&ns), &Labels::default());
            assert_eq!(found.patches(&found.compared(&proxy)), found.patches(&proxy), "{proxy:?}");
            found.patches(&proxy).map_or(0, |found| found.iter().count())
        };
        assert_eq!(count(Some("1.30.3"), &[("a", "b")]), 2);
        assert_eq!(count(None, &[("a", "b")]), 1);
        assert_eq!(count(None, &[]), 0);
    }

    #[test]
    fn proxies_are_compared_by_what_patches_require() {
        let proxy = ProxyFacts {
            version: Some("1.30.3".into()),
            metadata: [("NAME".into(), "pay-1".into()), ("a".into(), "b".into())].into(),
        };
        let mut catalog = Catalog::default();
        let compared = |catalog: &Catalog| {
            let shop = mk_ns("shop");
            filters_of(catalog, ClientKind::Sidecar, Some(&shop), &Labels::default()).compared(&proxy)
        };
        add(&mut catalog, "shop/a", None, |_| {});
        assert_eq!(compared(&catalog), ProxyFacts::default());
        let of = ProxyMatch {
            version: Some(VersionPattern::new("30").unwrap()),
            metadata: [("a".into(), "c".into()), ("z".into(), "y".into())].into(),
        };
        let patch = ConfigPatch { proxy: of, ..mk_patch("b") };
        add(&mut catalog, "shop/b", None, |filter| filter.patches = [patch].into());
        let metadata = [("a".into(), "b".into())].into();
        assert_eq!(compared(&catalog), ProxyFacts { metadata, ..proxy.clone() });
    }
}
