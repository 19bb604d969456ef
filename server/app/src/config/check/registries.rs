//! The rules of the list of registries: whose field is set, which names are free, who speaks for
//! which cluster.

use std::collections::{BTreeMap, BTreeSet};

use tributary_consul::config::Address;
use tributary_model::{Code, Hostname, Namespace, NetworkId, RegistryName};

use super::Rules;
use crate::config::RegistryKind;
use crate::config::model::{Config, RegistryConfig};
use crate::exit::CommandError;

/// A bound on the list, so that a slip cannot make a server of a million watches.
const MAX_REGISTRIES: usize = 1_000;
/// A bound on the namespaces of one registry: each is watched apart.
const MAX_NAMESPACES: usize = 1_000;

impl Rules<'_> {
    /// Checks every registry and names those without a name; returns what was given twice.
    pub(super) fn registries(&self, config: &mut Config) -> Result<Vec<String>, CommandError> {
        if config.registries.len() > MAX_REGISTRIES {
            return Err(self.invalid("registries", format!("more than {MAX_REGISTRIES}")));
        }
        let mut taken = BTreeSet::new();
        for (i, registry) in config.registries.iter().enumerate() {
            self.registry(i, registry)?;
            if registry.name.is_none() {
                continue;
            }
            for name in registry.names() {
                if !taken.insert(name.clone()) {
                    let field = format!("registries[{i}].name");
                    return Err(self.wrong(Code::REGISTRY_NAME_TAKEN, &field, format!("`{name}` is taken")));
                }
            }
        }
        let warnings = drop_doubles(&mut config.registries);
        name_the_rest(&mut config.registries, &mut taken);
        self.one_per_cluster(config)?;
        Ok(warnings)
    }
    fn registry(&self, i: usize, registry: &RegistryConfig) -> Result<(), CommandError> {
        let field = |name: &str| format!("registries[{i}].{name}");
        if let Some((name, kind)) = registry.strangers().first() {
            let why = format!("belongs to `kind: {}`, this one is {}", kind.as_str(), registry.kind.as_str());
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
        if name == crate::wiring::config_source::NAME {
            let why = format!("`{name}` is the name of the configuration itself");
            return Err(self.wrong(Code::REGISTRY_NAME_TAKEN, field, why));
        }
        Ok(())
    }
    fn file(&self, field: &str, registry: &RegistryConfig) -> Result<(), CommandError> {
        match &registry.path {
            None => Err(self.invalid(field, "a file registry needs a directory")),
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
            ("liveFor", registry.live_for),
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
            return Err(self.invalid(field, "names none; leave it out to read all"));
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
        let apart = registry.datacenter_addresses.iter().flat_map(BTreeMap::values);
        for (name, addresses) in own.chain(apart.map(|all| ("datacenterAddresses", all))) {
            if addresses.is_empty() {
                return Err(self.invalid(&field(name), "names no address"));
            }
            for address in addresses {
                Address::parse(address).map_err(|e| self.invalid(&field(name), e))?;
            }
        }
        if registry.token_file.is_some() && registry.login.is_some() {
            return Err(self.invalid(&field("login"), "`tokenFile` is set too; keep one of them"));
        }
        if registry.datacenters.as_ref().is_some_and(Vec::is_empty) {
            return Err(self.invalid(&field("datacenters"), "names none; leave it out for the agent's own"));
        }
        let tls = registry.tls.as_ref();
        if tls.is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            return Err(self.invalid(&field("tls"), "certFile and keyFile need each other"));
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
                self.invalid(&field("domain"), format!("{domain:?} is no domain, such as `consul`"))
            })?;
        }
        let networks = registry.places.iter().flat_map(BTreeMap::values).filter_map(|p| p.network.as_ref());
        for network in registry.network.iter().chain(networks) {
            NetworkId::new(network).map_err(|e| self.invalid(&field("network"), e))?;
        }
        Ok(())
    }
    /// Two registries that both speak for a cluster would contradict each other about it.
    fn one_per_cluster(&self, config: &Config) -> Result<(), CommandError> {
        let mut clusters: BTreeMap<&str, &str> = BTreeMap::new();
        let kubernetes =
            config.registries.iter().enumerate().filter(|(_, r)| r.kind == RegistryKind::Kubernetes);
        for (i, registry) in kubernetes {
            let cluster = registry.cluster_id.as_deref().unwrap_or(&config.cluster_id);
            let name = registry.name.as_deref().unwrap_or_default();
            if let Some(other) = clusters.insert(cluster, name) {
                let why = format!("`{cluster}` is the cluster of registry `{other}` too");
                return Err(self.invalid(&format!("registries[{i}].clusterId"), why));
            }
        }
        Ok(())
    }
}

/// The same source twice is one source.
fn drop_doubles(registries: &mut Vec<RegistryConfig>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<RegistryConfig> = Vec::new();
    registries.retain(|registry| {
        let double = registry.name.is_none() && seen.contains(registry);
        if double {
            warnings.push(format!("registry `{}` is given twice and taken once", registry.kind.as_str()));
        } else {
            seen.push(registry.clone());
        }
        !double
    });
    warnings
}

/// The kind, or the kind and the first number that is free.
fn name_the_rest(registries: &mut [RegistryConfig], taken: &mut BTreeSet<String>) {
    for registry in registries.iter_mut().filter(|registry| registry.name.is_none()) {
        let kind = registry.kind.as_str();
        let numbered = (2..).map(|n| format!("{kind}-{n}"));
        let mut names = std::iter::once(kind.to_owned()).chain(numbered);
        registry.name = names.find(|name| {
            let named = RegistryConfig { name: Some(name.clone()), ..RegistryConfig::of_kind(registry.kind) };
            named.names().iter().all(|name| !taken.contains(name))
        });
        taken.extend(registry.names());
    }
}
