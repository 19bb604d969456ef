//! A Consul in memory: its answers about a service go through the registry's own parsing and mapping, one at a
//! time, as its watches would deliver them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;
use tributary_consul::config::Select;
use tributary_consul::content::Instances;
use tributary_consul::map::name::Tenancy;
use tributary_consul::map::{Area, Interner, MapConfig, facts, keys, read};
use tributary_consul::wire;
use tributary_model::{
    Basis, ClusterId, Collection, CollectionKind, Completeness, Evidence, RegistryName, RegistryUpdate, Scope,
};

use crate::schema::ConsulSpec;

/// One datacenter of a Consul.
pub(super) struct Consul {
    pub(super) name: RegistryName,
    pub(super) scope: Scope,
    area: Area,
    config: MapConfig,
    pool: Interner,
}

impl Consul {
    /// Creates a Consul; `cluster` is the cluster that is watched beside it.
    pub(super) fn new(spec: &ConsulSpec, cluster: Option<&str>) -> Result<Self> {
        let scope = Scope::new(&spec.datacenter)?;
        let mut config = MapConfig::new()?;
        config.cluster = cluster.map(ClusterId::new).transpose()?;
        config.direct.clusters =
            cluster.map(ClusterId::new).transpose()?.into_iter().collect::<BTreeSet<_>>();
        let nodes =
            spec.sync_nodes.iter().map(|(node, cluster)| Ok((node.clone(), ClusterId::new(cluster)?)));
        config.direct.nodes = nodes.collect::<Result<BTreeMap<_, _>>>()?;
        let part = Tenancy { datacenter: spec.datacenter.clone(), ..Tenancy::default() };
        let area = Area::new(part, &spec.datacenter, scope.clone());
        Ok(Self { name: RegistryName::new("consul")?, scope, area, config, pool: Interner::default() })
    }
    /// Returns the updates of a Consul without services.
    pub(super) fn initial_updates(&self) -> Vec<RegistryUpdate> {
        let collections = [CollectionKind::Services, CollectionKind::Groups]
            .map(|kind| Collection { scope: self.scope.clone(), kind });
        let required = RegistryUpdate::Follows { required: collections.to_vec(), optional: Vec::new() };
        let synced = collections.clone().map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete));
        std::iter::once(required).chain(collections.map(RegistryUpdate::ListStarted)).chain(synced).collect()
    }
    /// Returns the updates for a service with these instances, as `/v1/health/service/NAME` answers; an empty
    /// list is a removed service.
    pub(super) fn answer(&mut self, service: &str, instances: &[Value]) -> Result<Vec<RegistryUpdate>> {
        if instances.is_empty() {
            let keys = keys(&self.area, service, &self.config);
            return Ok(keys
                .into_iter()
                .map(|key| RegistryUpdate::Remove(key, Evidence::Confirmed))
                .collect());
        }
        let body = serde_json::to_vec(instances)?;
        let entries = wire::health(Some("application/json"), &body)?;
        let read = read(
            &Instances::new(entries, false, &Select::default()).entries,
            &self.area,
            &self.config,
            false,
            &mut self.pool,
        );
        let mapped = facts(&self.area, service, &read, &self.config);
        let put = |fact| RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative);
        let problem = |(object, problem)| RegistryUpdate::Problem(self.scope.clone(), object, Some(problem));
        Ok(mapped.facts.into_iter().map(put).chain(mapped.problems.into_iter().map(problem)).collect())
    }
}
