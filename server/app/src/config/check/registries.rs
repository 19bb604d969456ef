//! Rules for the list of registries: fields of the kind, unique names, one registry for each cluster.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{ClusterId, Code, RegistryName};

use super::Rules;
use crate::config::RegistryKind;
use crate::config::model::{Config, RegistryConfig, Source};
use crate::exit::CommandError;

/// Bound on the list, against configuration mistakes.
const MAX_REGISTRIES: usize = 1_000;

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
        if let Source::Registered(source) = &registry.source
            && !self.extensions.kinds().any(|kind| kind == &*source.kind)
        {
            return Err(self.unknown_kind(&field("kind"), &source.kind));
        }
        if let Some(name) = registry.misplaced.first() {
            return Err(self.misplaced(&field(name), name, &registry.kind()));
        }
        registry.source.check().map_err(|e| self.invalid(&field(&e.field), e.why))?;
        if let Some(name) = &registry.name {
            self.name(&field("name"), name, registry)?;
        }
        match &registry.cluster_id {
            Some(id) => self.id(&field("clusterId"), id),
            None => Ok(()),
        }
    }
    fn unknown_kind(&self, field: &str, kind: &str) -> CommandError {
        let shown: String = kind.chars().take(40).collect();
        let own = RegistryKind::ALL.iter().map(RegistryKind::as_str);
        let valid = own.chain(self.extensions.kinds()).collect::<Vec<_>>().join(", ");
        let why = format!("unknown registry kind `{shown}`; use one of {valid}");
        self.wrong(Code::UNKNOWN_REGISTRY_KIND, field, why)
    }
    /// Builds every registry of a registered kind once, so that its crate checks its fields.
    pub(super) fn registered(&self, config: &Config) -> Result<(), CommandError> {
        for (i, registry) in config.registries.iter().enumerate() {
            let Source::Registered(source) = &registry.source else { continue };
            let field = |name: &str| format!("registries[{i}].{name}");
            let name = RegistryName::new(registry.name.as_deref().unwrap_or_default());
            let name = name.map_err(|e| self.invalid(&field("name"), e))?;
            let cluster = ClusterId::new(registry.cluster_id.as_ref().unwrap_or(&config.cluster_id));
            let cluster = cluster.map_err(|e| self.invalid(&field("clusterId"), e))?;
            if let Some(Err(e)) = self.extensions.build(&source.kind, (name, cluster), &source.fields) {
                return Err(self.invalid(field(&e.field).trim_end_matches('.'), e.why));
            }
        }
        Ok(())
    }
    /// Returns the error about a field that the kind does not have.
    fn misplaced(&self, field: &str, name: &str, kind: &RegistryKind) -> CommandError {
        match RegistryKind::with_field(name) {
            Some(owner) => {
                let (owner, kind) = (owner.as_str(), kind.as_str());
                self.invalid(field, format!("belongs to `kind: {owner}`, but the kind is {kind}"))
            }
            None => self.unknown_field(field, kind.known_fields()),
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
    /// Two registries of one cluster would report conflicting facts about it.
    fn one_per_cluster(&self, config: &Config) -> Result<(), CommandError> {
        let mut clusters: BTreeMap<&str, &str> = BTreeMap::new();
        let kubernetes =
            config.registries.iter().enumerate().filter(|(_, r)| r.kind() == RegistryKind::Kubernetes);
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
