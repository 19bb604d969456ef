//! Rules for the list of registries: fields by kind, unique names, one registry for each cluster.

use std::collections::{BTreeMap, BTreeSet};

use tributary_consul::config::Address;
use tributary_model::{Code, Hostname, Namespace, NetworkId, RegistryName};

use super::Rules;
use crate::config::RegistryKind;
use crate::config::model::{Config, RegistryConfig};
use crate::exit::CommandError;

/// Bound on the list, against configuration mistakes.
const MAX_REGISTRIES: usize = 1_000;
/// Bound on the namespaces of one registry: each has watches of its own.
const MAX_NAMESPACES: usize = 1_000;

impl Rules<'_> {
    /// Checks every registry and assigns missing names. Returns a warning for each duplicate.
    pub(super) fn registries(&self, config: &mut Config) -> Result<Vec<String>, CommandError> {
        if config.registries.len() > MAX_REGISTRIES {
            return Err(self.invalid("registries", format!("more than {MAX_REGISTRIES}")));
        }
        let mut used = BTreeSet::new();
        for (i, registry) in config.registries.iter().enumerate() {
            self.registry(i, registry)?;
            if registry.name.is_none() {
                continue;
            }
            for name in registry.names() {
                if !used.insert(name.clone()) {
                    let field = format!("registries[{i}].name");
                    return Err(self.wrong(
                        Code::REGISTRY_NAME_TAKEN,
                        &field,
                        format!("name `{name}` is already used"),
                    ));
                }
            }
        }
        let warnings = merge_duplicates(&mut config.registries);
        name_the_rest(&mut config.registries, &mut used);
        self.one_per_cluster(config)?;
        Ok(warnings)
    }
    fn registry(&self, i: usize, registry: &RegistryConfig) -> Result<(), CommandError> {
        let field = |name: &str| format!("registries[{i}].{name}");
        if let Some((name, kind)) = registry.foreign_fields().first() {
            let why =
                format!("belongs to `kind: {}`, but the kind is {}", kind.as_str(), registry.kind.as_str());
            return Err(self.invalid(&field(name), why));
        }
        match registry.kind {
            RegistryKind::File => self.file(&field("path"), registry)?,
            RegistryKind::Kubernetes => self.kubernetes(&field, registry)?,
            RegistryKind::Consul => self.consul(&field, registry)?,
        }
        if let Some(name) = &registry.name {
            self.name(&field("name"), name, registry)?;
        }
        match &registry.cluster_id {
            Some(id) => self.id(&field("clusterId"), id),
            None => Ok(()),
        }
    }
    fn name(&self, field: &str, name: &str, registry: &RegistryConfig) -> Result<(), CommandError> {
        for name in registry.names() {
            RegistryName::new(name).map_err(|e| self.invalid(field, e))?;
        }
        if name == crate::config::registry::CONFIG_REGISTRY {
            let why = format!("`{name}` is reserved for the configuration itself");
            return Err(self.wrong(Code::REGISTRY_NAME_TAKEN, field, why));
        }
        Ok(())
    }
    fn file(&self, field: &str, registry: &RegistryConfig) -> Result<(), CommandError> {
        match &registry.path {
            None => Err(self.invalid(field, "a file registry needs a directory; set `path`")),
            Some(path) if path.as_os_str().is_empty() => Err(self.invalid(field, "is empty")),
            Some(_) => Ok(()),
        }
    }
    fn kubernetes(
        &self,
        field: &dyn Fn(&str) -> String,
        registry: &RegistryConfig,
    ) -> Result<(), CommandError> {
        if registry.kubeconfig.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(self.invalid(&field("kubeconfig"), "is empty"));
        }
        if let Some(namespaces) = &registry.namespaces {
            self.namespaces(&field("namespaces"), namespaces)?;
        }
        for (name, span) in [
            ("probeInterval", registry.probe_interval),
            ("staleAfter", registry.stale_after),
            ("auditInterval", registry.audit_interval),
        ] {
            if span.is_some_and(|span| span.get().is_zero()) {
                return Err(self.invalid(&field(name), "must be more than 0"));
            }
        }
        Ok(())
    }
    fn namespaces(&self, field: &str, namespaces: &[String]) -> Result<(), CommandError> {
        if namespaces.is_empty() {
            return Err(self.invalid(field, "is empty; omit it to read all"));
        }
        if namespaces.len() > MAX_NAMESPACES {
            return Err(self.invalid(field, format!("more than {MAX_NAMESPACES}")));
        }
        for namespace in namespaces {
            Namespace::new(namespace).map_err(|e| self.invalid(field, e))?;
        }
        Ok(())
    }
    fn consul(&self, field: &dyn Fn(&str) -> String, registry: &RegistryConfig) -> Result<(), CommandError> {
        let own = registry.addresses.iter().map(|all| ("addresses", all));
        let by_datacenter = registry.datacenter_addresses.iter().flat_map(BTreeMap::values);
        for (name, addresses) in own.chain(by_datacenter.map(|all| ("datacenterAddresses", all))) {
            if addresses.is_empty() {
                return Err(self.invalid(&field(name), "is empty; name at least one address"));
            }
            for address in addresses {
                Address::parse(address).map_err(|e| self.invalid(&field(name), e))?;
            }
        }
        if registry.token_file.is_some() && registry.login.is_some() {
            return Err(self.invalid(&field("login"), "conflicts with `tokenFile`; keep one of them"));
        }
        if registry.datacenters.as_ref().is_some_and(Vec::is_empty) {
            return Err(self.invalid(&field("datacenters"), "is empty; omit it for the agent's own"));
        }
        let tls = registry.tls.as_ref();
        if tls.is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            return Err(self.invalid(&field("tls"), "certFile and keyFile must be set together"));
        }
        if registry.rate == Some(0) || registry.connections == Some(0) || registry.service_port == Some(0) {
            return Err(self.invalid(&field("rate"), "rate, connections and servicePort must be more than 0"));
        }
        if let Some(namespace) = &registry.mesh_namespace {
            Namespace::new(namespace).map_err(|e| self.invalid(&field("meshNamespace"), e))?;
        }
        if let Some(domain) = &registry.domain {
            let host = Hostname::new(format!("web.service.{domain}"));
            host.map_err(|_| {
                self.invalid(
                    &field("domain"),
                    format!("{domain:?} is not a domain name; use one such as `consul`"),
                )
            })?;
        }
        let networks =
            registry.datacenter_topology.iter().flat_map(BTreeMap::values).filter_map(|p| p.network.as_ref());
        for network in registry.network.iter().chain(networks) {
            NetworkId::new(network).map_err(|e| self.invalid(&field("network"), e))?;
        }
        Ok(())
    }
    /// Two registries of one cluster would report conflicting facts about it.
    fn one_per_cluster(&self, config: &Config) -> Result<(), CommandError> {
        let mut clusters: BTreeMap<&str, &str> = BTreeMap::new();
        let kubernetes =
            config.registries.iter().enumerate().filter(|(_, r)| r.kind == RegistryKind::Kubernetes);
        for (i, registry) in kubernetes {
            let cluster = registry.cluster_id.as_deref().unwrap_or(&config.cluster_id);
            let name = registry.name.as_deref().unwrap_or_default();
            if let Some(other) = clusters.insert(cluster, name) {
                let why = format!("cluster `{cluster}` already belongs to registry `{other}`");
                return Err(self.invalid(&format!("registries[{i}].clusterId"), why));
            }
        }
        Ok(())
    }
}

/// Removes repeated registries without a name. Returns a warning for each.
fn merge_duplicates(registries: &mut Vec<RegistryConfig>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<RegistryConfig> = Vec::new();
    registries.retain(|registry| {
        let duplicate = registry.name.is_none() && seen.contains(registry);
        if duplicate {
            warnings.push(format!("registry `{}` is given twice; one copy is used", registry.kind.as_str()));
        } else {
            seen.push(registry.clone());
        }
        !duplicate
    });
    warnings
}

/// Assigns each registry without a name its kind, with a number if that name is used.
fn name_the_rest(registries: &mut [RegistryConfig], used: &mut BTreeSet<String>) {
    for registry in registries.iter_mut().filter(|registry| registry.name.is_none()) {
        let kind = registry.kind.as_str();
        let numbered = (2..).map(|n| format!("{kind}-{n}"));
        let mut names = std::iter::once(kind.to_owned()).chain(numbered);
        registry.name = names.find(|name| {
            let named = RegistryConfig { name: Some(name.clone()), ..RegistryConfig::of_kind(registry.kind) };
            named.names().iter().all(|name| !used.contains(name))
        });
        used.extend(registry.names());
    }
}
