//! Finds how fresh the report behind an endpoint is.
//!
//! Explain and the list of endpoints call it. The core keeps the freshness of every collection.

use tributary_model::{
    Address, AddressRef, Catalog, CollectionKind, EndpointSource, Freshness, ShardRef, WorkloadView,
};

/// Returns the freshness of the collection that an endpoint comes from: that of the workload if the declaration
/// selects it, else that of the listed endpoints. `None` for an unknown registry.
#[must_use]
pub fn endpoint_freshness<'c>(
    catalog: &'c Catalog,
    source: &EndpointSource,
    address: &Address,
) -> Option<&'c Freshness> {
    match selected(catalog, source, address) {
        Some(workload) => of_kind(catalog, &workload.shard, CollectionKind::Workloads),
        None => of_kind(catalog, &source.shard, CollectionKind::Groups),
    }
}

fn of_kind<'c>(catalog: &'c Catalog, shard: &ShardRef, kind: CollectionKind) -> Option<&'c Freshness> {
    let registry = catalog.registries.get(&shard.registry.name)?;
    let mut of_scope = registry.collections.iter().filter(|(collection, _)| collection.scope == shard.scope);
    let of_kind = of_scope.clone().find(|(collection, _)| collection.kind == kind);
    of_kind.or_else(|| of_scope.next()).map(|(_, freshness)| freshness)
}

/// Returns the workload behind an endpoint of a selected group. Such a group has the declaration's object.
fn selected<'c>(
    catalog: &'c Catalog,
    source: &EndpointSource,
    address: &Address,
) -> Option<&'c WorkloadView> {
    let origin = address.origin.as_ref()?;
    if source.group.source.object != source.declaration.source.object {
        return None;
    }
    let AddressRef::Ip(ip) = &address.at else { return None };
    let keys = catalog.workload_ips.get(ip)?;
    let views = keys.iter().filter_map(|key| catalog.workloads.get(key));
    views.map(|view| &**view).find(|view| view.workload.source.object == origin.object)
}
