//! Options of a run: the file's fields over the variables that every Consul tool reads.

use std::collections::BTreeMap;

use tributary_model::{ClusterId, Namespace, NetworkId, PortNumber};
use tributary_registry_api::Span;

use super::{AddressFamilyConfig, ConsulFields, DatacenterTopologyConfig};
use crate::config::{Address, ConfigError, ConsulConfig, Datacenters, Pattern, TokenSource};
use crate::map::address::Family;
use crate::map::{Datacenter, Warning};

/// Value that stands for every name.
const ALL: &str = "all";

impl ConsulFields {
    /// Returns the options of a run. The fields override `CONSUL_*` variables; the caller has called
    /// [`check`](Self::check). Clusters and federated services are left at their defaults.
    pub fn config(&self, vars: &BTreeMap<String, String>) -> Result<ConsulConfig, ConfigError> {
        let own = self.addresses.as_ref().map(|all| all.join(","));
        let mut out = ConsulConfig::from_env(own.as_deref(), vars)?;
        for (datacenter, addresses) in self.datacenter_addresses.iter().flatten() {
            let parsed: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
            out.datacenter_addresses.insert(datacenter.clone(), parsed?);
        }
        self.scopes(&mut out);
        self.secrets(&mut out);
        self.mapping(&mut out);
        self.selection(&mut out);
        out.check()?;
        Ok(out)
    }
    fn scopes(&self, out: &mut ConsulConfig) {
        if let Some(names) = &self.datacenters {
            let all = names.iter().any(|name| name == ALL);
            out.datacenters = if all { Datacenters::All } else { Datacenters::Listed(names.clone()) };
        }
        out.discover.namespaces = listed(&mut out.namespaces, self.namespaces.as_ref());
        out.discover.partitions = listed(&mut out.partitions, self.partitions.as_ref());
        out.discover.peers = listed(&mut out.peers, self.peers.as_ref());
        set(&mut out.limits.rate, &self.rate);
        if let Some(connections) = self.connections {
            out.limits.connections = usize::try_from(connections).unwrap_or(usize::MAX);
        }
        if let Some(streams) = self.streams {
            out.limits.streams = usize::try_from(streams).unwrap_or(usize::MAX);
        }
        set(&mut out.timing.wait, &self.wait.map(Span::get));
    }
    fn secrets(&self, out: &mut ConsulConfig) {
        if let Some(token) = &self.token {
            out.auth.token = TokenSource::Value(token.get().clone());
            out.auth.token_addresses = None;
        }
        if let Some(path) = &self.token_file {
            out.auth.token = TokenSource::File(path.clone());
            out.auth.token_addresses = None;
        }
        if let Some(login) = &self.login {
            out.auth.token =
                TokenSource::Login { method: login.method.clone(), bearer: login.token_file.clone() };
            out.auth.token_addresses = None;
        }
        let Some(tls) = &self.tls else { return };
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
    fn selection(&self, out: &mut ConsulConfig) {
        let patterns = |list: &Option<Vec<String>>| -> Vec<Pattern> {
            list.iter().flatten().map(|text| Pattern::new(text)).collect()
        };
        out.select.include = patterns(&self.include);
        out.select.exclude = patterns(&self.exclude);
        set(&mut out.select.tags, &self.tags);
        set(&mut out.select.meta, &self.meta);
    }
    fn mapping(&self, out: &mut ConsulConfig) {
        let to = &mut out.mapping;
        set(&mut to.domain, &self.domain);
        set(&mut to.namespace, &self.mesh_namespace.as_deref().and_then(|n| Namespace::new(n).ok()));
        to.service_port = self.service_port.and_then(|n| PortNumber::new(u32::from(n)).ok());
        to.family = match self.address_family {
            None => to.family,
            Some(AddressFamilyConfig::PreferV4) => Family::PreferV4,
            Some(AddressFamilyConfig::PreferV6) => Family::PreferV6,
            Some(AddressFamilyConfig::Both) => Family::Both,
        };
        set(&mut to.lan, &self.lan_addresses);
        set(&mut to.loopback, &self.loopback_addresses);
        if self.warning_is_unhealthy == Some(true) {
            to.warning = Warning::Withheld;
        }
        if let Some(keys) = &self.keys {
            set(&mut to.protocol_key, &keys.protocol);
            set(&mut to.locality_keys.0, &keys.region);
            set(&mut to.locality_keys.1, &keys.zone);
            set(&mut to.pipe_tags, &keys.pipe_tags);
        }
        to.network = self.network.as_deref().and_then(network);
        let topologies = self.datacenter_topology.iter().flatten();
        to.datacenters = topologies.map(|(name, of)| (name.clone(), datacenter(of))).collect();
        let nodes = self.catalog_sync_nodes.iter().flatten();
        to.direct.nodes =
            nodes.filter_map(|(node, id)| Some((node.clone(), ClusterId::new(id).ok()?))).collect();
        to.direct.all = self.exclude_kubernetes_copies.unwrap_or_default();
    }
}

/// Replaces the names, and returns whether they stand for all.
fn listed(to: &mut Vec<String>, names: Option<&Vec<String>>) -> bool {
    let Some(names) = names else { return false };
    let all = names.iter().any(|name| name == ALL);
    if !all {
        to.clone_from(names);
    }
    all
}

fn datacenter(config: &DatacenterTopologyConfig) -> Datacenter {
    Datacenter {
        region: config.region.clone(),
        zone: config.zone.clone(),
        network: config.network.as_deref().and_then(network),
    }
}

/// Returns the network of a name that `check` has accepted.
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
    use secrecy::ExposeSecret;

    use super::*;

    fn mk<const N: usize>(fields: serde_json::Value, vars: [(&str, &str); N]) -> ConsulConfig {
        let fields: ConsulFields = serde_json::from_value(fields).unwrap();
        assert_eq!(fields.check(), []);
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        fields.config(&vars.into()).unwrap()
    }

    #[test]
    fn default_consul_is_the_local_agent() {
        let config = mk(serde_json::json!({}), []);
        assert_eq!(config.addresses, [Address::parse("http://127.0.0.1:8500").unwrap()]);
        assert_eq!(config.datacenters, Datacenters::Local);
        assert!(matches!(config.auth.token, TokenSource::None));
    }

    #[test]
    fn registry_fields_override_consul_variables() {
        let vars = [
            ("CONSUL_HTTP_ADDR", "other:8500"),
            ("CONSUL_HTTP_TOKEN_FILE", "env-token"),
            ("CONSUL_CACERT", "env-ca"),
            ("CONSUL_TLS_SERVER_NAME", "env-name"),
        ];
        let fields = serde_json::json!({
            "addresses": ["https://a:1", "https://b:2"], "tokenFile": "own-token", "tls": {"caFile": "own-ca"},
        });
        let config = mk(fields, vars);
        let addresses: Vec<String> = config.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["https://a:1", "https://b:2"]);
        assert!(matches!(&config.auth.token, TokenSource::File(path) if path.ends_with("own-token")));
        assert_eq!(config.tls.ca.unwrap().to_str(), Some("own-ca"));
        assert_eq!(config.tls.server_name.as_deref(), Some("env-name"), "not set by the registry");
        let config = mk(serde_json::json!({}), vars);
        assert_eq!(config.addresses[0].to_string(), "http://other:8500");
    }

    #[test]
    fn inline_token_overrides_variables_and_goes_to_every_address() {
        let vars = [("CONSUL_HTTP_ADDR", "other:8500"), ("CONSUL_HTTP_TOKEN_FILE", "env-token")];
        let config = mk(serde_json::json!({"token": "hunter2"}), vars);
        assert!(
            matches!(&config.auth.token, TokenSource::Value(token) if token.expose_secret() == "hunter2")
        );
        assert_eq!(config.auth.token_addresses, None);
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn consul_options_take_every_field() {
        let config = mk(
            serde_json::json!({
                "datacenters": ["all"], "datacenterAddresses": {"dc2": ["c:3"]}, "namespaces": ["n"],
                "partitions": ["p"], "peers": ["q"], "login": {"method": "k8s"}, "include": ["shop-*"],
                "exclude": ["*-x"], "tags": ["t"], "meta": {"a": "b"}, "rate": 7,
                "connections": 8, "streams": 9, "wait": "2m", "servicePort": 80, "addressFamily": "both", "lanAddresses": true,
                "loopbackAddresses": true, "warningIsUnhealthy": true, "domain": "corp",
                "meshNamespace": "mesh", "network": "net", "datacenterTopology": {"dc2": {"zone": "z"}},
                "catalogSyncNodes": {"k8s-sync": "east"},
                "keys": {"protocol": "speaks", "region": "r", "zone": "z", "pipeTags": true},
            }),
            [],
        );
        assert_eq!(config.datacenters, Datacenters::All);
        assert_eq!(config.datacenter_addresses["dc2"][0].to_string(), "http://c:3");
        assert_eq!(
            (config.namespaces[0].as_str(), config.partitions[0].as_str(), config.peers[0].as_str()),
            ("n", "p", "q")
        );
        assert!(!config.discover.any());
        let all = mk(serde_json::json!({"namespaces": ["all"], "partitions": ["all"], "peers": ["all"]}), []);
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
        assert_eq!((config.limits.rate, config.limits.connections), (7, 8));
        assert_eq!((config.limits.streams, config.timing.wait.as_secs()), (9, 120));
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
        assert!(!mapping.direct.all);
    }
}
