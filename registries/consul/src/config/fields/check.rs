//! Checks on the values of a Consul registry's fields. Pure: an error names the field.

use std::collections::BTreeMap;

use tributary_model::{Hostname, Namespace, NetworkId};
use tributary_registry_api::InvalidField;

use super::ConsulFields;
use crate::config::Address;

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
        if self.datacenters.as_ref().is_some_and(Vec::is_empty) {
            return Err(InvalidField::new("datacenters", "is empty; omit it for the agent's own"));
        }
        if self.tls.as_ref().is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            return Err(InvalidField::new("tls", "certFile and keyFile must be set together"));
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
        let topologies = self.datacenter_topology.iter().flat_map(BTreeMap::values);
        let networks = topologies.filter_map(|topology| topology.network.as_ref());
        for network in self.network.iter().chain(networks) {
            NetworkId::new(network).map_err(|e| InvalidField::new("network", e))?;
        }
        Ok(())
    }
}
