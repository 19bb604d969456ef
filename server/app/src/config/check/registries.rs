//! Rules for the list of registries: fields of the kind, unique names, one registry for each cluster.

use std::collections::{BTreeMap, BTreeSet};

use tributary_consul::config::ConfigError;
use tributary_model::{ClusterId, Code, RegistryName};

use super::Rules;
use crate::config::errors::{about, unknown_field};
use crate::config::model::{Config, RegistryConfig, Source};
use crate::config::{RegistryKind, Staleness};
use crate::exit::{CommandError, Exit};

/// Bound on the list, against configuration mistakes.
const MAX_REGISTRIES: usize = 1_000;

impl Rules<'_> {
    /// Checks every registry and assigns missing names. Returns a warning for each duplicate.
    pub(super) fn registries(&mut self, config: &mut Config) -> Vec<String> {
        if config.registries.len() > MAX_REGISTRIES {
            self.invalid("registries", format!("lists more than {MAX_REGISTRIES} registries"));
            return Vec::new();
        }
        let mut used = BTreeSet::new();
        for (i, registry) in config.registries.iter().enumerate() {
            self.registry(i, registry);
            if registry.name.is_none() {
                continue;
            }
            for name in registry.names() {
                if !used.insert(name.clone()) {
                    let why = format!("name `{name}` is already used");
                    self.wrong(Code::REGISTRY_NAME_TAKEN, &format!("registries[{i}].name"), why);
                }
            }
        }
        let mut warnings = merge_duplicates(&mut config.registries);
        name_the_rest(&mut config.registries, &mut used);
        self.one_per_cluster(config);
        warnings.extend(only_remotes(config));
        warnings
    }
    fn registry(&mut self, i: usize, registry: &RegistryConfig) {
        let field = |name: &str| format!("registries[{i}].{name}");
        if let Source::Registered(source) = &registry.source
            && !self.is_registered(&source.kind)
        {
            return self.unknown_kind(&field("kind"), &source.kind);
        }
        for name in &registry.misplaced {
            self.misplaced(&field(name), name, &registry.kind());
        }
        for error in registry.source.check() {
            self.invalid(&field(&error.field), error.why);
        }
        if let Some(name) = &registry.name {
            self.name(&field("name"), name, registry);
        }
        if let Some(id) = &registry.cluster_id {
            self.id(&field("clusterId"), id);
        }
        if let Some(Staleness::Withdraw(after)) = registry.staleness
            && after.get().is_zero()
        {
            let why =
                "withdraw(0s) removes every endpoint while the source reconnects; write a time such as `1h`";
            self.invalid(&field("staleness"), why);
        }
    }
    fn is_registered(&self, kind: &str) -> bool {
        self.env.extensions().kinds().any(|known| known == kind)
    }
    fn unknown_kind(&mut self, field: &str, kind: &str) {
        let shown: String = kind.chars().take(40).collect();
        let own = RegistryKind::ALL.iter().map(RegistryKind::as_str);
        let valid = own.chain(self.env.extensions().kinds()).collect::<Vec<_>>().join(", ");
        let why = format!("unknown registry kind `{shown}`; use one of {valid}");
        self.wrong(Code::UNKNOWN_REGISTRY_KIND, field, why);
    }
    /// Builds every registry of a registered kind once, so that its crate checks its fields.
    pub(super) fn registered(&mut self, config: &Config) {
        for (i, registry) in config.registries.iter().enumerate() {
            let Source::Registered(source) = &registry.source else { continue };
            let name = RegistryName::new(registry.name.as_deref().unwrap_or_default());
            let cluster = ClusterId::new(registry.cluster_id.as_ref().unwrap_or(&config.cluster_id));
            // other rules report invalid names
            let (Ok(name), Ok(cluster)) = (name, cluster) else { continue };
            let built = self.env.extensions().build(&source.kind, (name, cluster), &source.fields);
            if let Some(Err(e)) = built {
                self.invalid(format!("registries[{i}].{}", e.field).trim_end_matches('.'), e.why);
            }
        }
    }
    /// Checks the `CONSUL_*` variables, which complete the fields of Consul registries.
    pub(super) fn consul_variables(&mut self, config: &Config) {
        let vars = self.env.consul();
        for (i, registry) in config.registries.iter().enumerate() {
            let Some(fields) = registry.consul().filter(|fields| fields.check().is_empty()) else { continue };
            let Err(error) = fields.config(&vars) else { continue };
            match error.variable() {
                Some(_) if self.errors.iter().any(|known| known.message == error.to_string()) => {}
                Some(_) => self.errors.push(variable(&error)),
                None => self.invalid(&format!("registries[{i}]"), error),
            }
        }
    }
    /// Adds the error about a field that the kind does not have.
    fn misplaced(&mut self, field: &str, name: &str, kind: &RegistryKind) {
        let own = kind.as_str();
        if name == RegistryConfig::LOCATION {
            let flag = self.origin(field).unwrap_or_default();
            let message =
                format!("{flag}: a registry of kind `{own}` takes no location; write its fields in a file");
            return self.errors.push(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message));
        }
        match RegistryKind::with_field(name) {
            Some(owner) => {
                let owner = owner.as_str();
                self.invalid(field, format!("belongs to `kind: {owner}`, but the kind is {own}"));
            }
            None => {
                let error = about(self.origin(field), unknown_field(field, kind.known_fields()));
                self.errors.push(error);
            }
        }
    }
    fn name(&mut self, field: &str, name: &str, registry: &RegistryConfig) {
        if let Some(Err(e)) = registry.names().into_iter().map(RegistryName::new).find(Result::is_err) {
            self.invalid(field, e);
        }
        if name == crate::config::registry::CONFIG_REGISTRY {
            let why = format!("`{name}` is reserved for the configuration itself");
            self.wrong(Code::REGISTRY_NAME_TAKEN, field, why);
        }
        if name == crate::config::registry::DNS_REGISTRY {
            let why = format!("`{name}` is reserved for host names of gateways");
            self.wrong(Code::REGISTRY_NAME_TAKEN, field, why);
        }
    }
    /// Two registries of one cluster would report conflicting facts about it.
    fn one_per_cluster(&mut self, config: &Config) {
        let mut clusters: BTreeMap<&str, &str> = BTreeMap::new();
        let kubernetes =
            config.registries.iter().enumerate().filter(|(_, r)| r.kind() == RegistryKind::Kubernetes);
        for (i, registry) in kubernetes {
            let cluster = registry.cluster_id.as_deref().unwrap_or(&config.cluster_id);
            let name = registry.name.as_deref().unwrap_or_default();
            if let Some(other) = clusters.insert(cluster, name) {
                let why = format!(
                    "cluster `{cluster}` already belongs to registry `{other}`; give each registry its own `clusterId`"
                );
                self.invalid(&format!("registries[{i}].clusterId"), why);
            }
        }
    }
}

/// Returns the error about a `CONSUL_*` variable.
fn variable(error: &ConfigError) -> CommandError {
    CommandError::config(error.to_string()).next("correct the variable or unset it")
}

/// Warns of clusters of which none is the config cluster: start, policies and mesh configuration differ then.
fn only_remotes(config: &Config) -> Option<String> {
    let has_clusters = config.registries.iter().any(|registry| registry.kubernetes().is_some());
    (has_clusters && config.config_cluster().is_none()).then(|| {
        format!(
            "registries: no Kubernetes registry has the server's clusterId `{}`, so all clusters are remote: the mesh \
             configuration, ServiceEntries and policies of none are read, and none must sync before the server is \
             ready; set `clusterId` to that of the config cluster",
            config.cluster_id
        )
    })
}

/// Removes repeated registries without a name. Returns a warning for each.
fn merge_duplicates(registries: &mut Vec<RegistryConfig>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<RegistryConfig> = Vec::new();
    registries.retain(|registry| {
        let duplicate = registry.name.is_none() && seen.contains(registry);
        if duplicate {
            warnings
                .push(format!("registry `{}` is given twice; one copy is used", registry.kind().as_str()));
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
        let kind = registry.kind();
        let kind = kind.as_str();
        let numbered = (2..).map(|n| format!("{kind}-{n}"));
        let mut names = std::iter::once(kind.to_owned()).chain(numbered);
        registry.name = names.find(|name| {
            let named =
                RegistryConfig { name: Some(name.clone()), ..RegistryConfig::of_kind(registry.kind()) };
            named.names().iter().all(|name| !used.contains(name))
        });
        used.extend(registry.names());
    }
}
