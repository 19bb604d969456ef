//! Checks on the values of a Consul registry's fields. Pure: an error names the field.

use std::collections::BTreeSet;

use secrecy::ExposeSecret;
use tributary_model::{ClusterId, Hostname, Namespace, NetworkId};
use tributary_registry_api::InvalidField;

use super::ConsulFields;
use crate::config::{Address, ConfigError, MAX_STREAMS, MAX_WAIT, MIN_WAIT};
use crate::token::can_be_sent;

/// Error of a name without text.
const EMPTY: &str = "has an empty name; write the name or remove the entry";

impl ConsulFields {
    /// Checks values that the types do not express. Returns every error.
    #[must_use]
    pub fn check(&self) -> Vec<InvalidField> {
        let mut errors = Vec::new();
        self.check_addresses(&mut errors);
        self.check_credentials(&mut errors);
        errors.extend(self.check_token());
        self.check_limits(&mut errors);
        self.check_names(&mut errors);
        self.check_lists(&mut errors);
        errors
    }
    fn check_addresses(&self, errors: &mut Vec<InvalidField>) {
        let own = self.addresses.iter().map(|all| ("addresses".to_owned(), all));
        let by_datacenter = self.datacenter_addresses.iter().flatten();
        let by_datacenter = by_datacenter.map(|(name, all)| (format!("datacenterAddresses.{name}"), all));
        for (field, addresses) in own.chain(by_datacenter) {
            for (i, address) in addresses.iter().enumerate() {
                let wrong = Address::parse(address).err();
                errors.extend(wrong.map(|e| InvalidField::new(format!("{field}[{i}]"), e)));
            }
            if addresses.is_empty() {
                errors.push(InvalidField::new(field, "is empty; name at least one address"));
            }
        }
    }
    fn check_credentials(&self, errors: &mut Vec<InvalidField>) {
        if self.token_file.is_some() && self.login.is_some() {
            errors.push(InvalidField::new("login", "conflicts with `tokenFile`; keep one of them"));
        }
        if self.datacenters.as_ref().is_some_and(Vec::is_empty) {
            errors.push(InvalidField::new("datacenters", "is empty; omit it for the agent's own"));
        }
        if self.tls.is_some() && self.is_on_sockets() {
            let why = "has no effect on a unix socket, which carries plain HTTP; remove it, or name an https address";
            errors.push(InvalidField::new("tls", why));
        }
        if self.tls.as_ref().is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            errors
                .push(InvalidField::new("tls", "sets one of `certFile` and `keyFile`; set both or neither"));
        }
    }
    /// Whether addresses are named and all of them are unix sockets.
    fn is_on_sockets(&self) -> bool {
        let all = self
            .addresses
            .iter()
            .flatten()
            .chain(self.datacenter_addresses.iter().flatten().flat_map(|(_, all)| all));
        let mut parsed = all.map(|text| Address::parse(text)).peekable();
        self.addresses.is_some()
            && parsed.peek().is_some()
            && parsed.all(|address| address.is_ok_and(|address| address.socket().is_some()))
    }
    fn check_token(&self) -> Option<InvalidField> {
        let token = self.token.as_ref()?;
        let why = if self.token_file.is_some() || self.login.is_some() {
            "conflicts with `tokenFile` and `login`; keep one of them"
        } else if token.get().expose_secret().is_empty() {
            "is empty; omit it to send none"
        } else if !can_be_sent(token.get()) {
            "holds characters that no header may have; remove spaces and line breaks"
        } else {
            return None;
        };
        Some(InvalidField::new("token", why))
    }
    fn check_limits(&self, errors: &mut Vec<InvalidField>) {
        for (field, is_zero) in [
            ("rate", self.rate == Some(0)),
            ("connections", self.connections == Some(0)),
            ("servicePort", self.service_port == Some(0)),
        ] {
            if is_zero {
                errors.push(InvalidField::new(field, "must be more than 0"));
            }
        }
        if let Some(wait) = self.wait.filter(|wait| !(MIN_WAIT..=MAX_WAIT).contains(&wait.get())) {
            errors.push(InvalidField::new("wait", format!("{wait} is out of range; {}", ConfigError::Wait)));
        }
        if let Some(most) = self.streams.filter(|most| !(1..=MAX_STREAMS).contains(&(*most as usize))) {
            errors.push(InvalidField::new(
                "streams",
                format!("{most} is out of range; {}", ConfigError::Streams),
            ));
        }
    }
    /// Names must not be empty. A scope that is listed twice would be read twice.
    fn check_lists(&self, errors: &mut Vec<InvalidField>) {
        let scopes = [
            ("datacenters", &self.datacenters),
            ("namespaces", &self.namespaces),
            ("partitions", &self.partitions),
            ("peers", &self.peers),
        ];
        let lists = scopes.into_iter().chain([
            ("include", &self.include),
            ("exclude", &self.exclude),
            ("tags", &self.tags),
        ]);
        for (field, names) in lists {
            let names = names.iter().flatten().enumerate();
            let empty = names.filter(|(_, name)| name.trim().is_empty());
            errors.extend(empty.map(|(i, _)| InvalidField::new(format!("{field}[{i}]"), EMPTY)));
        }
        for (field, names) in scopes {
            let mut seen = BTreeSet::new();
            for (i, name) in names.iter().flatten().enumerate().filter(|(_, name)| !name.trim().is_empty()) {
                if !seen.insert(name) {
                    let why = format!("{name:?} is listed twice; keep one");
                    errors.push(InvalidField::new(format!("{field}[{i}]"), why));
                }
            }
        }
        let topologies =
            self.datacenter_topology.iter().flatten().map(|(name, _)| ("datacenterTopology", name));
        let addresses =
            self.datacenter_addresses.iter().flatten().map(|(name, _)| ("datacenterAddresses", name));
        let nodes = self.catalog_sync_nodes.iter().flatten().map(|(name, _)| ("catalogSyncNodes", name));
        let method = self.login.iter().map(|login| ("login.method", &login.method));
        let empty =
            topologies.chain(addresses).chain(nodes).chain(method).filter(|(_, name)| name.trim().is_empty());
        errors.extend(empty.map(|(field, _)| InvalidField::new(field, EMPTY)));
    }
    fn check_names(&self, errors: &mut Vec<InvalidField>) {
        if let Some(Err(e)) = self.mesh_namespace.as_ref().map(Namespace::new) {
            errors.push(InvalidField::new("meshNamespace", e));
        }
        if let Some(domain) = &self.domain
            && Hostname::new(format!("web.service.{domain}")).is_err()
        {
            let why = format!("{domain:?} is not a domain name; use one such as `consul`");
            errors.push(InvalidField::new("domain", why));
        }
        let networks = self.network.iter().map(|network| ("network".to_owned(), network));
        let topologies = self.datacenter_topology.iter().flatten();
        let by_datacenter = topologies.filter_map(|(datacenter, topology)| {
            Some((format!("datacenterTopology.{datacenter}.network"), topology.network.as_ref()?))
        });
        for (field, network) in networks.chain(by_datacenter) {
            errors.extend(NetworkId::new(network).err().map(|e| InvalidField::new(field, e)));
        }
        for (node, cluster) in self.catalog_sync_nodes.iter().flatten() {
            let field = format!("catalogSyncNodes.{node}");
            errors.extend(ClusterId::new(cluster).err().map(|e| InvalidField::new(field, e)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_field_and_no_secret() {
        let cases = [
            (serde_json::json!({"wait": "500ms"}), "wait"),
            (serde_json::json!({"wait": "11m"}), "wait"),
            (serde_json::json!({"streams": 0}), "streams"),
            (serde_json::json!({"streams": 251}), "streams"),
            (serde_json::json!({"token": ""}), "token"),
            (serde_json::json!({"token": "hunter2\n"}), "token"),
            (serde_json::json!({"token": "hunter2", "tokenFile": "f"}), "token"),
            (serde_json::json!({"token": "hunter2", "login": {"method": "k8s"}}), "token"),
            (serde_json::json!({"addresses": ["c:8500", "unix://run/consul.sock"]}), "addresses[1]"),
            (serde_json::json!({"datacenterAddresses": {"dc2": ["htp:/x"]}}), "datacenterAddresses.dc2[0]"),
            (serde_json::json!({"network": "a b"}), "network"),
            (
                serde_json::json!({"datacenterTopology": {"dc2": {"network": "a b"}}}),
                "datacenterTopology.dc2.network",
            ),
            (serde_json::json!({"catalogSyncNodes": {"k8s-sync": "a b"}}), "catalogSyncNodes.k8s-sync"),
            (serde_json::json!({"datacenters": ["dc1", "dc2", "dc1"]}), "datacenters[2]"),
            (serde_json::json!({"peers": ["p", "p"]}), "peers[1]"),
            (serde_json::json!({"namespaces": ["a", ""]}), "namespaces[1]"),
            (serde_json::json!({"tags": [" "]}), "tags[0]"),
            (serde_json::json!({"login": {"method": ""}}), "login.method"),
            (serde_json::json!({"datacenterTopology": {"": {}}}), "datacenterTopology"),
            (serde_json::json!({"addresses": ["unix:///a", "unix:///b"], "tls": {"caFile": "c"}}), "tls"),
        ];
        for (fields, want) in cases {
            let fields: ConsulFields = serde_json::from_value(fields).unwrap();
            let errors = fields.check();
            assert_eq!(errors.iter().map(|e| e.field.as_str()).collect::<Vec<_>>(), [want], "{fields:?}");
            assert!(!format!("{errors:?} {fields:?}").contains("hunter2"), "{errors:?}");
        }
        let several = serde_json::json!({"rate": 0, "addresses": ["a:1", "htp:/x", "b:"], "domain": "a b"});
        let errors = serde_json::from_value::<ConsulFields>(several).unwrap().check();
        let fields: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["addresses[1]", "addresses[2]", "rate", "domain"]);
        let fields = serde_json::json!({
            "wait": "10m", "streams": 1, "token": "t", "addresses": ["unix:///run/consul.sock", "https://c:8501"],
            "tls": {"caFile": "c"}, "datacenters": ["dc1", "dc2"],
        });
        assert_eq!(serde_json::from_value::<ConsulFields>(fields).unwrap().check(), []);
    }
}
