//! Checks on the values of a Consul registry's fields. Pure: an error names the field.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use tributary_model::{ClusterId, Hostname, Namespace, NetworkId};
use tributary_registry_api::InvalidField;

use super::ConsulFields;
use crate::config::{Address, ConfigError, MAX_STREAMS, MAX_WAIT, MIN_WAIT};
use crate::token::can_be_sent;

impl ConsulFields {
    /// Checks values that the types do not express. Returns the first error.
    pub fn check(&self) -> Result<(), InvalidField> {
        self.check_addresses()?;
        self.check_credentials()?;
        self.check_limits()?;
        self.check_names()
    }
    fn check_addresses(&self) -> Result<(), InvalidField> {
        let own = self.addresses.iter().map(|all| ("addresses", all));
        let by_datacenter = self.datacenter_addresses.iter().flat_map(BTreeMap::values);
        for (field, addresses) in own.chain(by_datacenter.map(|all| ("datacenterAddresses", all))) {
            if addresses.is_empty() {
                return Err(InvalidField::new(field, "is empty; name at least one address"));
            }
            for address in addresses {
                Address::parse(address).map_err(|e| InvalidField::new(field, e))?;
            }
        }
        Ok(())
    }
    fn check_credentials(&self) -> Result<(), InvalidField> {
        if self.token_file.is_some() && self.login.is_some() {
            return Err(InvalidField::new("login", "conflicts with `tokenFile`; keep one of them"));
        }
        self.check_token()?;
        if self.datacenters.as_ref().is_some_and(Vec::is_empty) {
            return Err(InvalidField::new("datacenters", "is empty; omit it for the agent's own"));
        }
        if self.tls.as_ref().is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            return Err(InvalidField::new("tls", "certFile and keyFile must be set together"));
        }
        Ok(())
    }
    fn check_token(&self) -> Result<(), InvalidField> {
        let Some(token) = &self.token else { return Ok(()) };
        if self.token_file.is_some() || self.login.is_some() {
            return Err(InvalidField::new(
                "token",
                "conflicts with `tokenFile` and `login`; keep one of them",
            ));
        }
        if token.get().expose_secret().is_empty() {
            return Err(InvalidField::new("token", "is empty; omit it to send none"));
        }
        if !can_be_sent(token.get()) {
            return Err(InvalidField::new("token", "holds characters that no header may have"));
        }
        Ok(())
    }
    fn check_limits(&self) -> Result<(), InvalidField> {
        for (field, is_zero) in [
            ("rate", self.rate == Some(0)),
            ("connections", self.connections == Some(0)),
            ("servicePort", self.service_port == Some(0)),
        ] {
            if is_zero {
                return Err(InvalidField::new(field, "must be more than 0"));
            }
        }
        if self.wait.is_some_and(|wait| !(MIN_WAIT..=MAX_WAIT).contains(&wait.get())) {
            return Err(InvalidField::new("wait", ConfigError::Wait));
        }
        if self.streams.is_some_and(|most| !(1..=MAX_STREAMS).contains(&(most as usize))) {
            return Err(InvalidField::new("streams", ConfigError::Streams));
        }
        Ok(())
    }
    fn check_names(&self) -> Result<(), InvalidField> {
        if let Some(namespace) = &self.mesh_namespace {
            Namespace::new(namespace).map_err(|e| InvalidField::new("meshNamespace", e))?;
        }
        if let Some(domain) = &self.domain {
            let why = || format!("{domain:?} is not a domain name; use one such as `consul`");
            Hostname::new(format!("web.service.{domain}")).map_err(|_| InvalidField::new("domain", why()))?;
        }
        let networks = self.network.iter().map(|network| ("network".to_owned(), network));
        let topologies = self.datacenter_topology.iter().flatten();
        let by_datacenter = topologies.filter_map(|(datacenter, topology)| {
            Some((format!("datacenterTopology.{datacenter}.network"), topology.network.as_ref()?))
        });
        for (field, network) in networks.chain(by_datacenter) {
            NetworkId::new(network).map_err(|e| InvalidField::new(field, e))?;
        }
        for (node, cluster) in self.catalog_sync_nodes.iter().flatten() {
            let field = || format!("catalogSyncNodes.{node}");
            ClusterId::new(cluster).map_err(|e| InvalidField::new(field(), e))?;
        }
        Ok(())
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
            (serde_json::json!({"addresses": ["unix://run/consul.sock"]}), "addresses"),
            (serde_json::json!({"network": "a b"}), "network"),
            (
                serde_json::json!({"datacenterTopology": {"dc2": {"network": "a b"}}}),
                "datacenterTopology.dc2.network",
            ),
            (serde_json::json!({"catalogSyncNodes": {"k8s-sync": "a b"}}), "catalogSyncNodes.k8s-sync"),
        ];
        for (fields, want) in cases {
            let fields: ConsulFields = serde_json::from_value(fields).unwrap();
            let error = fields.check().unwrap_err();
            assert_eq!(error.field, want, "{fields:?}");
            assert!(!format!("{error:?} {fields:?}").contains("hunter2"), "{error:?}");
        }
        let fields = serde_json::json!({
            "wait": "10m", "streams": 1, "token": "t", "addresses": ["unix:///run/consul.sock"],
        });
        assert_eq!(serde_json::from_value::<ConsulFields>(fields).unwrap().check(), Ok(()));
    }
}
