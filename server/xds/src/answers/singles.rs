//! CDS and EDS: resources that each come from one service port, named by port, subset and host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tributary_answer::members::Difference;
use tributary_answer::{ClusterName, PortSet, Scope, differing, members, resolve};
use tributary_model::{Catalog, EncodedResource, PortNumber, PortView, ServiceView};

use super::fold::{Fold, Start};
use super::folded_set::Tables;
use super::grpc::TargetRoutes;
use super::store::{Assignments, Clusters, ResourceFamily, Store, named};
use super::{ChangedSet, ClientClassKey, ResourceSet, ResourceType};

/// Returns the port that a resource name means to this class, whichever its subset.
pub(crate) fn port_of<'c>(catalog: &'c Catalog, class: &ClientClassKey, name: &str) -> Option<&'c PortView> {
    found(catalog, class, name).map(|(_, port)| port)
}

/// Whether the assignment of a name has no endpoints and nothing proves that there are none.
pub(crate) fn lacks_endpoints(catalog: &Catalog, class: &ClientClassKey, name: &str) -> bool {
    found(catalog, class, name).is_some_and(|(view, port)| catalog.lacks_endpoints(view, port))
}

fn found<'c>(
    catalog: &'c Catalog,
    class: &ClientClassKey,
    name: &str,
) -> Option<(&'c Arc<ServiceView>, &'c PortView)> {
    let name = ClusterName::parse(name, class.kind)?;
    let view = resolve(catalog, name.host.as_str(), class.scope(), &mut ())?;
    let port = view.port(name.port).filter(|port| class.scope().admits(view, port, PortSet::Reached))?;
    Some((view, port))
}

/// Returns every resource of the type for this class, by name.
pub(crate) fn all<S: ResourceFamily>(
    store: &Store,
    catalog: &Catalog,
    class: &ClientClassKey,
) -> Vec<Arc<EncodedResource>> {
    let scope = class.scope();
    let ports = members(catalog, scope).flat_map(|(_, view)| scope.ports(view, S::PORTS));
    let mut out = Vec::new();
    ports.for_each(|port| out.extend_from_slice(&S::fill(store, port, class)));
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
        for (_, before, after) in ports(&difference, class.scope(), S::PORTS) {
            one_port::<S>(store, class, before, after, &mut out);
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
        for (_, before, after) in ports(&difference, fold.scope(), S::PORTS) {
            let now = after.map(|port| S::fill(store, port, fold.class)).unwrap_or_default();
            for resource in now.iter() {
                let of_base = base.get(&resource.name);
                if of_base.is_none_or(|of_base| of_base.version != resource.version) {
                    own.push(Arc::clone(resource));
                    replaced.extend(of_base.cloned());
                }
            }
            let gone = before.map(|port| S::names_beside(port, start.class, &now)).unwrap_or_default();
            replaced.extend(gone.iter().filter_map(|name| base.get(name)).cloned());
        }
    }
    (own, replaced, Tables::None)
}

/// Returns the ports of either view that reach the client, by number.
pub(crate) fn ports<'c>(
    difference: &Difference<'c>,
    scope: Scope<'_>,
    set: PortSet,
) -> impl Iterator<Item = (PortNumber, Option<&'c PortView>, Option<&'c PortView>)> {
    let mut out: BTreeMap<PortNumber, (Option<&PortView>, Option<&PortView>)> = BTreeMap::new();
    let of = |view: Option<&'c Arc<ServiceView>>| view.into_iter().flat_map(|view| scope.ports(view, set));
    of(difference.before).for_each(|port| out.entry(port.number).or_default().0 = Some(port));
    of(difference.after).for_each(|port| out.entry(port.number).or_default().1 = Some(port));
    out.into_iter().map(|(number, (before, after))| (number, before, after))
}

/// Returns the names that the resources of these ports may have, of a type that is named by ports.
pub(crate) fn port_names(
    kind: ResourceType,
    class: &ClientClassKey,
    ports: [Option<&PortView>; 2],
) -> BTreeSet<String> {
    let client = Some(class.kind);
    let names = |port: &PortView| match kind {
        ResourceType::Cluster => Clusters::names(&port.cluster.inputs, client),
        ResourceType::Endpoints => Assignments::names(&port.endpoints.inputs, client),
        ResourceType::Route => TargetRoutes::names(&port.route.inputs, client),
        ResourceType::Listener | ResourceType::Secret => SmallVec::new(),
    };
    ports.into_iter().flatten().flat_map(names).map(|name| name.to_string()).collect()
}

fn one_port<S: ResourceFamily>(
    store: &Store,
    class: &ClientClassKey,
    before: Option<&PortView>,
    after: Option<&PortView>,
    out: &mut ChangedSet,
) {
    if before.zip(after).is_some_and(|(a, b)| S::same(a, b)) {
        return;
    }
    let held = before.and_then(|port| S::cached(port, class)).unwrap_or_default();
    let now = after.map(|port| S::fill(store, port, class)).unwrap_or_default();
    let differs =
        |now: &&Arc<EncodedResource>| named(&held, &now.name).is_none_or(|held| held.version != now.version);
    out.upserted.extend(now.iter().filter(differs).cloned());
    out.removed.extend(before.map(|port| S::names_beside(port, class, &now)).unwrap_or_default());
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
    use tributary_answer::ClientClass;
    use tributary_model::{ClientKind, EndpointInputs, Projection, ResourceInputs, Subset};

    use crate::answers::budget::Budget;
    use crate::fixtures::{Svc, World, mk_svc};

    fn mk_resource(name: u8, body: u8) -> Arc<EncodedResource> {
        Arc::new(EncodedResource::new(format!("{name:03}").into(), vec![body].into()))
    }
    fn mk_set(map: &BTreeMap<u8, u8>) -> Vec<Arc<EncodedResource>> {
        map.iter().map(|(&name, &body)| mk_resource(name, body)).collect()
    }
    fn summary(members: &[Arc<EncodedResource>]) -> Vec<(Arc<str>, tributary_model::Version)> {
        members.iter().map(|m| (m.name.clone(), m.version)).collect()
    }

    /// Assignments of a port and of a subset for each of its endpoints.
    struct Parts;

    impl ResourceFamily for Parts {
        type Inputs = EndpointInputs;
        type Name = ClusterName;
        const KIND: ResourceType = ResourceType::Endpoints;

        fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<EndpointInputs>> {
            &port.endpoints.0
        }
        fn names(inputs: &EndpointInputs, _: Option<ClientKind>) -> SmallVec<[ClusterName; 1]> {
            let whole = ClusterName::new(inputs.port, &inputs.service.host);
            let count = inputs.sources.iter().map(|source| source.group.addresses.len()).sum();
            let part = |n: usize| ClusterName { subset: Subset::new(&format!("v{n}")), ..whole.clone() };
            (1..=count).map(part).chain([whole.clone()]).collect()
        }
        fn encode(_: &EndpointInputs, name: &ClusterName, _: &Projection) -> Option<Vec<u8>> {
            Some(name.to_string().into_bytes())
        }
        fn plans(_: &EndpointInputs, _: &ClusterName, _: &Projection) -> bool {
            true
        }
    }
    fn mk_at(endpoints: &[&str]) -> [Svc; 2] {
        [mk_svc("pay.shop").at(endpoints), mk_svc("cart.shop").at(&[])]
    }

    #[test]
    fn family_with_subsets_has_a_resource_for_each() {
        let (mut world, store) = (World::default(), Store::new(Budget::DEFAULT));
        let class = ClientClassKey::alone(ClientClass::new(ClientKind::Envoy));
        let two = world.next(&mk_at(&["10.0.0.1", "10.0.0.2"]));
        let names = |set: &[Arc<EncodedResource>]| -> Vec<String> {
            set.iter().map(|resource| resource.name.to_string()).collect()
        };
        let whole = ["outbound|80|v1|pay.shop", "outbound|80|v2|pay.shop", "outbound|80||cart.shop"];
        assert_eq!(names(&all::<Parts>(&store, &two, &class))[..3], whole);
        let find = |name: &str| {
            let found = Parts::find(&store, port_of(&two, &class, name)?, &class, name)?;
            (Parts::body(port_of(&two, &class, name)?, &class, name) == found.body().map(Into::into))
                .then(|| found.name.to_string())
        };
        assert_eq!(find(whole[1]).as_deref(), Some(whole[1]));
        assert_eq!(find("outbound|80|v3|pay.shop"), None);
        let one = world.next(&mk_at(&["10.0.0.3"]));
        let to_one = changed::<Parts>(&store, (&two, &one), &class);
        assert_eq!(
            (names(&to_one.upserted), &*to_one.removed),
            (vec![], &["outbound|80|v2|pay.shop".into()][..])
        );
        let to_two = changed::<Parts>(&store, (&one, &two), &class);
        assert_eq!(
            (names(&to_two.upserted), to_two.removed.len()),
            (vec!["outbound|80|v2|pay.shop".into()], 0)
        );
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
