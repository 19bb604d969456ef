//! Options of a Consul registry: the file's fields over the variables that every Consul tool reads.

use std::collections::BTreeSet;

use tributary_consul::config::{Address, ConsulConfig, Datacenters, ModeChoice, Pattern, TokenSource};
use tributary_consul::map::address::Family;
use tributary_consul::map::name::unlabel;
use tributary_consul::map::{Datacenter, Direct, Warning};
use tributary_model::{ClusterId, Namespace, NetworkId, PortNumber};

use crate::config::RegistryKind;
use crate::config::consul::{FamilyConfig, ModeConfig, TopologyConfig};
use crate::config::model::{Config, FederatedServiceConfig, RegistryConfig};
use crate::environment::Environment;
use crate::exit::CommandError;

/// Value that stands for every name.
const ALL: &str = "all";

/// Returns the adapter's configuration. Fields of the registry override `CONSUL_*`.
pub fn config(
    registry: &RegistryConfig,
    config: &Config,
    env: &Environment,
) -> Result<ConsulConfig, CommandError> {
    let name = registry.name.as_deref().unwrap_or_else(|| registry.kind.as_str());
    let wrong = |e: &dyn std::fmt::Display| CommandError::config(format!("registry `{name}`: {e}"));
    let vars = env.with_prefix("CONSUL_").map(|(rest, value)| (format!("CONSUL_{rest}"), value.to_owned()));
    let own = registry.addresses.as_ref().map(|all| all.join(","));
    let mut out = ConsulConfig::from_env(own.as_deref(), &vars.collect()).map_err(|e| wrong(&e))?;
    for (datacenter, addresses) in registry.datacenter_addresses.iter().flatten() {
        let parsed: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
        out.datacenter_addresses.insert(datacenter.clone(), parsed.map_err(|e| wrong(&e))?);
    }
    scopes(registry, &mut out);
    secrets(registry, &mut out);
    mapping(registry, config, &mut out);
    selection(registry, &config.federated_services, &mut out);
    out.check().map_err(|e| wrong(&e))?;
    Ok(out)
}

fn scopes(registry: &RegistryConfig, out: &mut ConsulConfig) {
    if let Some(names) = &registry.datacenters {
        let all = names.iter().any(|name| name == ALL);
        out.datacenters = if all { Datacenters::All } else { Datacenters::Listed(names.clone()) };
    }
    out.discover.namespaces = listed(&mut out.namespaces, registry.namespaces.as_ref());
    out.discover.partitions = listed(&mut out.partitions, registry.partitions.as_ref());
    out.discover.peers = listed(&mut out.peers, registry.peers.as_ref());
    out.mode = match registry.mode {
        None => out.mode,
        Some(ModeConfig::Auto) => ModeChoice::Auto,
        Some(ModeConfig::PerService) => ModeChoice::PerService,
        Some(ModeConfig::NotifyAndFetch) => ModeChoice::NotifyAndFetch,
    };
    set(&mut out.limits.rate, &registry.rate);
    if let Some(connections) = registry.connections {
        out.limits.connections = usize::try_from(connections).unwrap_or(usize::MAX);
    }
}

fn secrets(registry: &RegistryConfig, out: &mut ConsulConfig) {
    if let Some(path) = &registry.token_file {
        out.auth.token = TokenSource::File(path.clone());
        out.auth.token_addresses = None;
    }
    if let Some(login) = &registry.login {
        out.auth.token =
            TokenSource::Login { method: login.method.clone(), bearer: login.token_file.clone() };
        out.auth.token_addresses = None;
    }
    let Some(tls) = &registry.tls else { return };
    for (own, at) in [
        (&tls.ca_file, &mut out.tls.ca),
        (&tls.ca_path, &mut out.tls.ca_path),
        (&tls.cert_file, &mut out.tls.cert),
        (&tls.key_file, &mut out.tls.key),
    ] {
        if own.is_some() {
            at.clone_from(own);
        }
    }
    if tls.server_name.is_some() {
        out.tls.server_name.clone_from(&tls.server_name);
    }
}

/// Returns the given names, or an empty list and true if they are `all`.
fn listed(to: &mut Vec<String>, names: Option<&Vec<String>>) -> bool {
    let Some(names) = names else { return false };
    let all = names.iter().any(|name| name == ALL);
    if !all {
        to.clone_from(names);
    }
    all
}

fn selection(registry: &RegistryConfig, aliases: &[FederatedServiceConfig], out: &mut ConsulConfig) {
    let patterns = |list: &Option<Vec<String>>| -> Vec<Pattern> {
        list.iter().flatten().map(|text| Pattern::new(text)).collect()
    };
    out.select.include = patterns(&registry.include);
    out.select.exclude = patterns(&registry.exclude);
    set(&mut out.select.tags, &registry.tags);
    set(&mut out.select.meta, &registry.meta);
    out.select.names = named_by(aliases, &out.mapping.domain);
}

/// Returns the services that federated services name; they are read whatever the patterns match.
fn named_by(aliases: &[FederatedServiceConfig], domain: &str) -> BTreeSet<String> {
    let name = |host: &str| {
        let (label, rest) = host.split_once('.')?;
        let ours = rest.starts_with("service.") && rest.ends_with(&format!(".{domain}"));
        ours.then(|| unlabel(label)).flatten()
    };
    aliases.iter().flat_map(|alias| &alias.members).filter_map(|member| name(&member.host)).collect()
}

fn mapping(registry: &RegistryConfig, config: &Config, out: &mut ConsulConfig) {
    let to = &mut out.mapping;
    let cluster = registry.cluster_id.as_ref().unwrap_or(&config.cluster_id);
    to.cluster = ClusterId::new(cluster).ok();
    set(&mut to.domain, &registry.domain);
    set(&mut to.namespace, &registry.mesh_namespace.as_deref().and_then(|n| Namespace::new(n).ok()));
    to.service_port = registry.service_port.and_then(|n| PortNumber::new(u32::from(n)).ok());
    to.family = match registry.address_family {
        None => to.family,
        Some(FamilyConfig::PreferV4) => Family::PreferV4,
        Some(FamilyConfig::PreferV6) => Family::PreferV6,
        Some(FamilyConfig::Both) => Family::Both,
    };
    set(&mut to.lan, &registry.lan_addresses);
    set(&mut to.loopback, &registry.loopback_addresses);
    if registry.warning_is_unhealthy == Some(true) {
        to.warning = Warning::Withheld;
    }
    if let Some(keys) = &registry.keys {
        set(&mut to.protocol_key, &keys.protocol);
        set(&mut to.locality_keys.0, &keys.region);
        set(&mut to.locality_keys.1, &keys.zone);
        set(&mut to.pipe_tags, &keys.pipe_tags);
    }
    to.network = registry.network.as_deref().and_then(network);
    let topologies = registry.datacenter_topology.iter().flatten();
    to.datacenters = topologies.map(|(name, of)| (name.clone(), datacenter(of))).collect();
    to.direct = direct(registry, config);
}

/// Excludes services that were copied into Consul from clusters that are read directly.
fn direct(registry: &RegistryConfig, config: &Config) -> Direct {
    let clusters = config.registries.iter().filter(|r| r.kind == RegistryKind::Kubernetes);
    let id = |r: &RegistryConfig| ClusterId::new(r.cluster_id.as_ref().unwrap_or(&config.cluster_id)).ok();
    let nodes = registry.catalog_sync_nodes.iter().flatten();
    Direct {
        clusters: clusters.filter_map(id).collect(),
        nodes: nodes.filter_map(|(node, id)| Some((node.clone(), ClusterId::new(id).ok()?))).collect(),
        all: registry.exclude_kubernetes_copies.unwrap_or_default(),
    }
}

fn datacenter(config: &TopologyConfig) -> Datacenter {
    Datacenter {
        region: config.region.clone(),
        zone: config.zone.clone(),
        network: config.network.as_deref().and_then(network),
    }
}

/// The configuration has been checked.
fn network(text: &str) -> Option<NetworkId> {
    NetworkId::new(text).ok()
}

fn set<T: Clone>(at: &mut T, own: &Option<T>) {
    if let Some(own) = own {
        at.clone_from(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RegistryKind;

    fn mk(registry: &str, aliases: &str, env: Environment) -> ConsulConfig {
        let registry: RegistryConfig = serde_saphyr::from_str(registry).unwrap();
        let whole = Config {
            federated_services: serde_saphyr::from_str(aliases).unwrap(),
            registries: vec![registry.clone(), RegistryConfig::of_kind(RegistryKind::Kubernetes)],
            ..Config::default()
        };
        config(&registry, &whole, &env).unwrap()
    }

    #[test]
    fn default_consul_is_the_local_agent() {
        let config = mk("{kind: consul}", "[]", Environment::default());
        assert_eq!(config.addresses, [Address::parse("http://127.0.0.1:8500").unwrap()]);
        assert_eq!(config.datacenters, Datacenters::Local);
        assert!(matches!(config.auth.token, TokenSource::None));
        assert_eq!(RegistryConfig::of_kind(RegistryKind::Consul).names(), ["consul"]);
    }

    #[test]
    fn registry_fields_override_consul_variables() {
        let env = || {
            Environment::from([
                ("CONSUL_HTTP_ADDR", "other:8500"),
                ("CONSUL_HTTP_TOKEN_FILE", "env-token"),
                ("CONSUL_CACERT", "env-ca"),
                ("CONSUL_TLS_SERVER_NAME", "env-name"),
            ])
        };
        let config = mk(
            "{kind: consul, addresses: ['https://a:1', 'https://b:2'], tokenFile: own-token, tls: {caFile: own-ca}}",
            "[]",
            env(),
        );
        let addresses: Vec<String> = config.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["https://a:1", "https://b:2"]);
        assert!(matches!(&config.auth.token, TokenSource::File(path) if path.ends_with("own-token")));
        assert_eq!(config.tls.ca.unwrap().to_str(), Some("own-ca"));
        assert_eq!(config.tls.server_name.as_deref(), Some("env-name"), "not set by the registry");
        let config = mk("{kind: consul}", "[]", env());
        assert_eq!(config.addresses[0].to_string(), "http://other:8500");
    }

    #[test]
    fn consul_options_take_every_field() {
        let config = mk(
            "{kind: consul, datacenters: [all], datacenterAddresses: {dc2: ['c:3']}, namespaces: [n], partitions: [p], \
             peers: [q], login: {method: k8s}, include: ['shop-*'], exclude: ['*-x'], tags: [t], meta: {a: b}, \
             mode: notifyAndFetch, rate: 7, connections: 8, servicePort: 80, addressFamily: both, lanAddresses: true, \
             loopbackAddresses: true, warningIsUnhealthy: true, domain: corp, meshNamespace: mesh, network: net, datacenterTopology: {dc2: {zone: z}}, \
             catalogSyncNodes: {k8s-sync: east}, keys: {protocol: speaks, region: r, zone: z, pipeTags: true}}",
            "[]",
            Environment::default(),
        );
        assert_eq!(config.datacenters, Datacenters::All);
        assert_eq!(config.datacenter_addresses["dc2"][0].to_string(), "http://c:3");
        assert_eq!(
            (config.namespaces[0].as_str(), config.partitions[0].as_str(), config.peers[0].as_str()),
            ("n", "p", "q")
        );
        assert!(!config.discover.any());
        let all = mk(
            "{kind: consul, namespaces: [all], partitions: [all], peers: [all]}",
            "[]",
            Environment::default(),
        );
        assert!(all.discover.namespaces && all.discover.partitions && all.discover.peers);
        assert!(all.namespaces.is_empty() && all.peers.is_empty());
        assert!(matches!(&config.auth.token, TokenSource::Login { method, bearer }
            if method == "k8s" && bearer.ends_with("serviceaccount/token")));
        let select = &config.select;
        assert_eq!(
            (select.include.len(), select.exclude.len(), &select.tags[..]),
            (1, 1, &["t".to_owned()][..])
        );
        assert_eq!(select.meta["a"], "b");
        assert_eq!(
            (config.mode, config.limits.rate, config.limits.connections),
            (ModeChoice::NotifyAndFetch, 7, 8)
        );
        let mapping = &config.mapping;
        assert_eq!((mapping.service_port.map(PortNumber::get), mapping.family), (Some(80), Family::Both));
        assert_eq!((mapping.lan, mapping.loopback, mapping.warning), (true, true, Warning::Withheld));
        assert_eq!((mapping.domain.as_str(), mapping.namespace.as_str()), ("corp", "mesh"));
        assert_eq!(mapping.network.as_ref().unwrap().as_str(), "net");
        let (region, zone) = &mapping.locality_keys;
        assert_eq!((mapping.protocol_key.as_str(), region.as_str(), zone.as_str()), ("speaks", "r", "z"));
        assert!(mapping.pipe_tags);
        assert_eq!(mapping.datacenters["dc2"].zone.as_deref(), Some("z"));
        assert_eq!(mapping.direct.nodes["k8s-sync"].as_str(), "east");
        let read: Vec<&str> = mapping.direct.clusters.iter().map(ClusterId::as_str).collect();
        assert_eq!(
            (read, mapping.direct.all),
            (vec!["Kubernetes"], false),
            "clusters that are read directly"
        );
    }

    #[test]
    fn services_of_a_federated_service_are_read() {
        let aliases = "[{host: pay.shop.global, members: [{host: pay.shop.svc.cluster.local}, \
                       {host: pay__v2.service.consul}, {host: web.service.dc2.dc.consul}, {host: service.consul}]}]";
        let config = mk("{kind: consul, include: ['x-*']}", aliases, Environment::default());
        assert_eq!(config.select.names.iter().collect::<Vec<_>>(), ["pay_v2", "web"]);
        assert!(config.select.service("web", &[]) && !config.select.service("other", &[]));
    }
}
