//! CDS and EDS: one resource per service port, named by port and host.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_answer::members::Difference;
use tributary_answer::{Scope, Surface, differing, members, names, resolve};
use tributary_model::{Catalog, EncodedResource, Hostname, PortNumber, PortView, ServiceView};

use super::fold::{Fold, Start};
use super::folded_set::Tables;
use super::store::{ResourceFamily, Store};
use super::{ChangedSet, ClientClassKey, ResourceSet};

/// Returns the port that a resource name means to this class.
pub(crate) fn port_of<'c>(catalog: &'c Catalog, class: &ClientClassKey, name: &str) -> Option<&'c PortView> {
    let (port, host) = names::parse_cluster_name(name)?;
    let view = resolve(catalog, host.as_str(), class.scope(), &mut ())?;
    view.port(port).filter(|port| class.scope().admits(view, port, Surface::Clusters))
}

/// Returns every resource of the type for this class, by name.
pub(crate) fn all<S: ResourceFamily>(
    store: &Store,
    catalog: &Catalog,
    class: &ClientClassKey,
) -> Vec<Arc<EncodedResource>> {
    let scope = class.scope();
    let ports = members(catalog, scope).flat_map(|(_, view)| scope.ports(view, Surface::Clusters));
    let mut out: Vec<_> = ports.filter_map(|port| S::fill(store, port, class)).collect();
    out.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Returns the difference between two generations. A resource that the class never requested in the
/// older one counts as changed: no client holds it.
pub(crate) fn changed<S: ResourceFamily>(
    store: &Store,
    (from, to): (&Catalog, &Catalog),
    class: &ClientClassKey,
) -> ChangedSet {
    let mut out = ChangedSet::default();
    for difference in differing(from, to, class.scope()) {
        for (number, before, after) in ports(&difference, class.scope(), Surface::Clusters) {
            one_port::<S>(store, class, (difference.host, number), before, after, &mut out);
        }
    }
    sort(out)
}

/// Returns the resources of a class that its base lacks, and the names of those of the base that they replace or that the
/// class does not have.
pub(crate) fn overlay<S: ResourceFamily>(
    store: &Store,
    fold: Fold<'_>,
    start: Start<'_>,
    base: &ResourceSet,
) -> (Vec<Arc<EncodedResource>>, Vec<Arc<EncodedResource>>, Tables) {
    let (mut own, mut replaced) = (Vec::new(), Vec::new());
    for difference in start.differences(fold) {
        for (number, _, after) in ports(&difference, fold.scope(), Surface::Clusters) {
            let before = base.get(&S::name(number, difference.host));
            let after = after.and_then(|port| S::fill(store, port, fold.class));
            if before.zip(after.as_ref()).is_none_or(|(a, b)| a.version != b.version) {
                own.extend(after);
                replaced.extend(before.cloned());
            }
        }
    }
    (own, replaced, Tables::None)
}

/// Returns the ports of either view that reach the client, by number.
pub(crate) fn ports<'c>(
    difference: &Difference<'c>,
    scope: Scope<'_>,
    surface: Surface,
) -> impl Iterator<Item = (PortNumber, Option<&'c PortView>, Option<&'c PortView>)> {
    let mut out: BTreeMap<PortNumber, (Option<&PortView>, Option<&PortView>)> = BTreeMap::new();
    let of =
        |view: Option<&'c Arc<ServiceView>>| view.into_iter().flat_map(|view| scope.ports(view, surface));
    of(difference.before).for_each(|port| out.entry(port.number).or_default().0 = Some(port));
    of(difference.after).for_each(|port| out.entry(port.number).or_default().1 = Some(port));
    out.into_iter().map(|(number, (before, after))| (number, before, after))
}

fn one_port<S: ResourceFamily>(
    store: &Store,
    class: &ClientClassKey,
    (host, number): (&Hostname, PortNumber),
    before: Option<&PortView>,
    after: Option<&PortView>,
    out: &mut ChangedSet,
) {
    if before.zip(after).is_some_and(|(a, b)| S::same(a, b)) {
        return;
    }
    match after.and_then(|port| S::fill(store, port, class)) {
        Some(now) => {
            let held = before.and_then(|port| S::cached(port, class)).flatten();
            if held.is_none_or(|held| held.version != now.version) {
                out.upserted.push(now);
            }
        }
        None if before.is_some_and(|port| S::exists(port, class)) => {
            out.removed.push(S::name(number, host).into());
        }
        None => {}
    }
}

/// Sorts by name: the order of hosts is not that of names.
pub(crate) fn sort(mut set: ChangedSet) -> ChangedSet {
    set.upserted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    set.removed.sort_unstable();
    set
}

/// Applies a difference to a set; costs a pointer per member.
pub(crate) fn applied(base: &ResourceSet, changed: &ChangedSet) -> Vec<Arc<EncodedResource>> {
    let mut upserted = changed.upserted.iter().peekable();
    let mut removed = changed.removed.iter().peekable();
    let mut out = Vec::with_capacity(base.len() + changed.upserted.len());
    for member in base.iter() {
        while let Some(next) = upserted.next_if(|next| next.name < member.name) {
            out.push(Arc::clone(next));
        }
        while removed.next_if(|name| **name < member.name).is_some() {}
        if let Some(next) = upserted.next_if(|next| next.name == member.name) {
            out.push(Arc::clone(next));
        } else if removed.next_if(|name| **name == member.name).is_none() {
            out.push(Arc::clone(member));
        }
    }
    out.extend(upserted.cloned());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn mk_resource(name: u8, body: u8) -> Arc<EncodedResource> {
        Arc::new(EncodedResource::new(format!("{name:03}").into(), vec![body].into()))
    }
    fn mk_set(map: &BTreeMap<u8, u8>) -> Vec<Arc<EncodedResource>> {
        map.iter().map(|(&name, &body)| mk_resource(name, body)).collect()
    }
    fn summary(members: &[Arc<EncodedResource>]) -> Vec<(Arc<str>, tributary_model::Version)> {
        members.iter().map(|m| (m.name.clone(), m.version)).collect()
    }

    proptest! {
        #[test]
        fn applied_difference_gives_the_later_set(
            from in prop::collection::btree_map(any::<u8>(), 0u8..3, 0..40),
            to in prop::collection::btree_map(any::<u8>(), 0u8..3, 0..40),
        ) {
            let changed = ChangedSet {
                upserted: mk_set(&to.iter().filter(|(k, v)| from.get(k) != Some(v)).map(|(&k, &v)| (k, v)).collect()),
                removed: from.keys().filter(|k| !to.contains_key(k)).map(|k| format!("{k:03}").into()).collect(),
            };
            let got = applied(&ResourceSet::new(mk_set(&from)), &changed);
            prop_assert_eq!(summary(&got), summary(&mk_set(&to)));
        }
    }
}
