//! Options of a Consul registry: its own fields, and what the rest of the configuration adds.

use std::collections::BTreeSet;

use tributary_consul::config::{ConfigError, ConsulConfig, ConsulFields};
use tributary_consul::map::name::unlabel;
use tributary_model::ClusterId;

use crate::config::model::{Config, FederatedServiceConfig, RegistryConfig};
use crate::environment::Environment;

/// Returns the adapter's configuration. Fields of the registry override `CONSUL_*`.
pub fn config(
    fields: &ConsulFields,
    config: &Config,
    env: &Environment,
) -> Result<ConsulConfig, ConfigError> {
    let mut out = fields.config(&env.consul())?;
    out.select.names = named_by(&config.federated_services, &out.mapping.domain);
    // services that were copied into Consul from a cluster that is read directly are excluded
    let clusters = config.registries.iter().filter(|registry| registry.kubernetes().is_some());
    let id = |r: &RegistryConfig| ClusterId::new(r.cluster_id.as_ref().unwrap_or(&config.cluster_id)).ok();
    out.mapping.direct.clusters = clusters.filter_map(id).collect();
    Ok(out)
}

/// Returns the services that federated services name; they are read whatever the patterns match.
fn named_by(services: &[FederatedServiceConfig], domain: &str) -> BTreeSet<String> {
    let name = |host: &str| {
        let (label, rest) = host.split_once('.')?;
        let ours = rest.starts_with("service.") && rest.ends_with(&format!(".{domain}"));
        ours.then(|| unlabel(label)).flatten()
    };
    services.iter().flat_map(|service| &service.members).filter_map(|member| name(&member.host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RegistryKind;

    fn mk(fields: &str, services: &str) -> ConsulConfig {
        let whole = Config {
            federated_services: serde_saphyr::from_str(services).unwrap(),
            registries: vec![RegistryConfig::of_kind(RegistryKind::Kubernetes)],
            ..Config::default()
        };
        config(&serde_saphyr::from_str(fields).unwrap(), &whole, &Environment::default()).unwrap()
    }

    #[test]
    fn copies_of_clusters_that_are_read_are_excluded() {
        let config = mk("{}", "[]");
        let read: Vec<&str> = config.mapping.direct.clusters.iter().map(ClusterId::as_str).collect();
        assert_eq!((read, config.mapping.direct.all), (vec!["Kubernetes"], false));
    }

    #[test]
    fn services_of_a_federated_service_are_read() {
        let services = "[{host: pay.shop.global, members: [{host: pay.shop.svc.cluster.local}, \
                       {host: pay__v2.service.consul}, {host: web.service.dc2.dc.consul}, {host: service.consul}]}]";
        let config = mk("{include: ['x-*']}", services);
        assert_eq!(config.select.names.iter().collect::<Vec<_>>(), ["pay_v2", "web"]);
        assert!(config.select.service("web", &[]) && !config.select.service("other", &[]));
    }
}
