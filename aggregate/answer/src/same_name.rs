//! What could be merged by name: services of a cluster and of a Consul that are called the same and that no alias
//! joins. Nothing is merged by this: names are flat in a Consul and have namespaces in a cluster, so that an operator
//! reads the list first, and takes of it what is one service.
//!
//! Called with a catalog, by whoever shows the list or makes aliases of it. The order is by name.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Alias, AliasMember, Catalog, ExportTo, Hostname, Provider, Resolution, ServiceKey, ServiceView,
};

/// Services of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameName {
    /// The name.
    pub name: String,
    /// The services, the cluster's first.
    pub services: Vec<ServiceKey>,
    /// Why they could not be joined as they are.
    pub obstacle: Option<Obstacle>,
}

/// Why services of one name could not be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Several namespaces of the cluster have one: which is meant only a person knows.
    Ambiguous,
    /// Their endpoints are not told one by one.
    Resolution,
    /// They have no port number in common; an alias can map one to the other.
    Ports,
}

impl SameName {
    /// The alias that would join them, under the cluster's host, unless something stands against it.
    #[must_use]
    pub fn alias(&self) -> Option<(Hostname, Alias)> {
        let first = self.services.first().filter(|_| self.obstacle.is_none())?;
        let member = |key: &ServiceKey| AliasMember {
            namespace: Some(key.namespace.clone()),
            ..AliasMember::new(key.host.clone())
        };
        let alias = Alias {
            namespace: first.namespace.clone(),
            export: ExportTo::Default,
            members: self.services.iter().map(member).collect(),
            active_until_healthy_below: None,
        };
        Some((first.host.clone(), alias))
    }
}

/// What could be merged by name.
#[must_use]
pub fn same_names(catalog: &Catalog) -> Vec<SameName> {
    let joined = joined(catalog);
    let mut by_name: BTreeMap<&str, [Vec<&ServiceView>; 2]> = BTreeMap::new();
    for view in catalog.services().filter(|view| !joined.contains(&view.key.host)) {
        if let Some((name, at)) = named(view) {
            by_name.entry(name).or_default()[at].push(view);
        }
    }
    let both = by_name.into_iter().filter(|(_, [cluster, consul])| !cluster.is_empty() && !consul.is_empty());
    both.map(|(name, [cluster, consul])| SameName {
        name: name.to_owned(),
        obstacle: obstacle(&cluster, &consul),
        services: cluster.iter().chain(&consul).map(|view| view.key.clone()).collect(),
    })
    .collect()
}

/// The hosts that aliases have, and those that they join.
fn joined(catalog: &Catalog) -> BTreeSet<&Hostname> {
    let mut out = BTreeSet::new();
    for view in catalog.services() {
        let sources = view.ports.iter().flat_map(|port| port.endpoints.facts.sources.iter());
        for joined in sources.filter_map(|source| source.joined.as_deref()) {
            out.extend([&view.key.host, &joined.host]);
        }
    }
    out
}

/// A service's own name, and whether it is a cluster's (0) or a Consul's (1). Of a Consul's hosts the short one
/// counts.
fn named(view: &ServiceView) -> Option<(&str, usize)> {
    let provider = view.first()?.shard.registry.provider;
    let (name, rest) = view.key.host.as_str().split_once('.')?;
    match provider {
        Provider::Kubernetes => Some((name, 0)),
        Provider::Consul => {
            let short = rest.starts_with("service.") && !rest.contains(".dc.");
            short.then_some((name, 1))
        }
        Provider::ServiceEntry | Provider::Config | Provider::Memory => None,
    }
}

fn obstacle(cluster: &[&ServiceView], consul: &[&ServiceView]) -> Option<Obstacle> {
    if cluster.len() > 1 || consul.len() > 1 {
        return Some(Obstacle::Ambiguous);
    }
    let all = || cluster.iter().chain(consul);
    let told = |view: &&&ServiceView| {
        view.first().is_some_and(|first| first.declaration.resolution == Resolution::ClientSide)
    };
    if !all().all(|view| told(&view)) {
        return Some(Obstacle::Resolution);
    }
    let first = all().next()?;
    let common = |number| all().all(|view| view.port(number).is_some());
    (!first.ports.iter().any(|port| common(port.number))).then_some(Obstacle::Ports)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::*;

    use super::*;
    use crate::mk::*;

    /// A service of a provider with one port 80.
    fn mk_of(provider: Provider, host: &str, namespace: &str, joined: Option<&str>) -> Arc<ServiceView> {
        let plain = mk_view(host, namespace, &[Visibility::Public]);
        let mut first = plain.declarations[0].clone();
        let id = RegistryId { provider, ..RegistryId::clone(&first.shard.registry) };
        first.shard = Arc::new(ShardRef { registry: Arc::new(id), scope: first.shard.scope.clone() });
        let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
        source.joined = joined.map(|host| {
            let (share, enough, labels) = (None, None, Labels::default());
            Arc::new(Joined { member: 0, host: mk_host(host), share, standby: false, enough, labels })
        });
        let port = mk_port_view(mk_facts(vec![source]));
        Arc::new(ServiceView {
            key: plain.key.clone(),
            declarations: Arc::from([first]),
            ports: Arc::from([port]),
            conditions: Arc::from([]),
            aliases: Arc::from([]),
            addresses: 1,
        })
    }
    fn kube(name: &str, namespace: &str) -> Arc<ServiceView> {
        mk_of(Provider::Kubernetes, &format!("{name}.{namespace}.svc"), namespace, None)
    }
    fn consul(host: &str) -> Arc<ServiceView> {
        mk_of(Provider::Consul, host, "consul", None)
    }
    fn found(views: Vec<Arc<ServiceView>>) -> Vec<(String, Vec<String>, Option<Obstacle>)> {
        let keys = |same: &SameName| same.services.iter().map(ToString::to_string).collect();
        same_names(&mk_catalog(views)).iter().map(|s| (s.name.clone(), keys(s), s.obstacle)).collect()
    }

    #[test]
    fn what_has_one_name_in_two_registries_could_be_joined() {
        let views = vec![
            kube("pay", "shop"),
            kube("cart", "shop"),
            consul("pay.service.consul"),
            consul("pay.service.dc1.dc.consul"),
            consul("ledger.service.consul"),
        ];
        let keys = ["shop/pay.shop.svc", "consul/pay.service.consul"].map(str::to_owned).to_vec();
        assert_eq!(found(views.clone()), [("pay".to_owned(), keys, None)]);
        let (host, alias) = same_names(&mk_catalog(views))[0].alias().unwrap();
        assert_eq!((host.as_str(), alias.namespace.as_str()), ("pay.shop.svc", "shop"));
        let members: Vec<&str> = alias.members.iter().map(|member| member.host.as_str()).collect();
        assert_eq!(members, ["pay.shop.svc", "pay.service.consul"]);
    }

    #[test]
    fn a_name_that_several_namespaces_have_is_never_joined() {
        let views = vec![kube("pay", "shop"), kube("pay", "test"), consul("pay.service.consul")];
        let same = &same_names(&mk_catalog(views))[0];
        assert_eq!(same.obstacle, Some(Obstacle::Ambiguous));
        assert!(same.alias().is_none());
    }

    #[test]
    fn what_an_alias_joins_already_is_not_proposed() {
        let alias = mk_of(Provider::Kubernetes, "pay.mesh", "default", Some("pay.service.consul"));
        assert!(found(vec![kube("pay", "shop"), consul("pay.service.consul"), alias]).is_empty());
    }
}
