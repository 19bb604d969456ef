//! What the values of a configuration mean together: the rules that no type holds.
//!
//! Called last by `load`, on the values of all layers. An error names the field and where it was
//! set: a flag, a variable, or file and line.

use std::collections::BTreeSet;

use tributary_model::{Code, Hostname, Namespace, NetworkId, RegistryName};

use super::layers::Origins;
use super::model::{Config, RegistryConfig};
use super::span::Span;
use super::{Loaded, RegistryKind};
use crate::exit::{Exit, Failure};

/// Bounds on lists, so that a slip cannot make a server of a million watches.
const MAX_REGISTRIES: usize = 1_000;
const MAX_ALIASES: usize = 10_000;

/// Checks everything and names the registries that have no name.
pub fn check(config: &mut Config, origins: &Origins) -> Result<(), Failure> {
    let rules = Rules { origins };
    rules.registries(config)?;
    rules.addresses(config)?;
    rules.times(config)?;
    rules.settings(config)?;
    rules.aliases(config)?;
    rules.log(config)
}

/// A server needs a source. Without one at start there is nothing to serve; without one in a
/// changed file somebody has most likely saved half of it.
pub fn serves(loaded: Loaded) -> Result<Loaded, Failure> {
    if !loaded.config.registries.is_empty() {
        return Ok(loaded);
    }
    let examples = "say where services are declared, for example:\n    \
        tributary serve --registry file=./services\n    \
        tributary serve --registry file=/etc/tributary/services --xds-listen 127.0.0.1:15010\n    \
        tributary serve --config tributary.yaml";
    Err(Failure::new(Exit::Usage, Code::NO_REGISTRY, Code::NO_REGISTRY.info().title).next(examples))
}

struct Rules<'a> {
    origins: &'a Origins,
}

impl Rules<'_> {
    /// An error about a field, which begins with where the field was set.
    fn wrong(&self, code: Code, field: &str, why: impl std::fmt::Display) -> Failure {
        let mut path = field;
        let origin = loop {
            if let Some(origin) = self.origins.get(path) {
                break Some(origin);
            }
            match path.rfind(['.', '[']) {
                Some(cut) => path = &path[..cut],
                None => break None,
            }
        };
        let message = origin.map_or_else(|| format!("{field}: {why}"), |o| format!("{o}: {field}: {why}"));
        Failure::new(Exit::Usage, code, message)
    }
    fn invalid(&self, field: &str, why: impl std::fmt::Display) -> Failure {
        self.wrong(Code::CONFIG_INVALID, field, why)
    }

    fn registries(&self, config: &mut Config) -> Result<(), Failure> {
        if config.registries.len() > MAX_REGISTRIES {
            return Err(self.invalid("registries", format!("more than {MAX_REGISTRIES}")));
        }
        let mut taken = BTreeSet::new();
        for (i, registry) in config.registries.iter().enumerate() {
            self.registry(i, registry)?;
            let Some(name) = &registry.name else { continue };
            if !taken.insert(name.clone()) {
                let field = format!("registries[{i}].name");
                return Err(self.wrong(Code::REGISTRY_NAME_TAKEN, &field, format!("`{name}` is taken")));
            }
        }
        self.id("clusterId", &config.cluster_id)?;
        name_the_rest(&mut config.registries, &mut taken);
        Ok(())
    }
    fn registry(&self, i: usize, registry: &RegistryConfig) -> Result<(), Failure> {
        let field = |name: &str| format!("registries[{i}].{name}");
        match (registry.kind, &registry.path) {
            (RegistryKind::File, None) => {
                Err(self.invalid(&field("path"), "a file registry needs a directory"))?
            }
            (RegistryKind::File, Some(path)) if path.as_os_str().is_empty() => {
                Err(self.invalid(&field("path"), "is empty"))?;
            }
            (RegistryKind::File, Some(_)) => {}
        }
        if let Some(name) = &registry.name {
            RegistryName::new(name).map_err(|e| self.invalid(&field("name"), e))?;
            if name == crate::wiring::config_source::NAME {
                let why = format!("`{name}` is the name of the configuration itself");
                return Err(self.wrong(Code::REGISTRY_NAME_TAKEN, &field("name"), why));
            }
        }
        match &registry.cluster_id {
            Some(id) => self.id(&field("clusterId"), id),
            None => Ok(()),
        }
    }
    fn id(&self, field: &str, text: &str) -> Result<(), Failure> {
        tributary_model::ClusterId::new(text).map(drop).map_err(|e| self.invalid(field, e))
    }

    fn addresses(&self, config: &Config) -> Result<(), Failure> {
        let xds = config.xds.listen;
        if config.xds.tls.is_none() && !xds.ip().is_loopback() {
            let why = format!("{xds} is not a loopback address and xds.tls is not set");
            return Err(self.wrong(Code::PLAINTEXT_NOT_LOOPBACK, "xds.listen", why));
        }
        let admin = config.admin.listen;
        if !admin.ip().is_loopback() {
            let why =
                format!("{admin} is not a loopback address; health.listen serves health and metrics on any");
            return Err(self.invalid("admin.listen", why));
        }
        self.apart("admin.listen", admin, "xds.listen", xds)?;
        if let Some(health) = config.health.listen {
            self.apart("health.listen", health, "xds.listen", xds)?;
            self.apart("health.listen", health, "admin.listen", admin)?;
        }
        if config.xds.max_connections == 0 {
            return Err(self.invalid("xds.maxConnections", "0 would serve nobody"));
        }
        Ok(())
    }
    fn apart(
        &self,
        field: &str,
        a: std::net::SocketAddr,
        other: &str,
        b: std::net::SocketAddr,
    ) -> Result<(), Failure> {
        if a == b && a.port() != 0 {
            return Err(self.invalid(field, format!("{a} is the address of {other} too")));
        }
        Ok(())
    }

    fn times(&self, config: &Config) -> Result<(), Failure> {
        let most = Span::seconds(30 * 24 * 3600);
        for (field, span) in [
            ("xds.maxConnectionAge", config.xds.max_connection_age),
            ("start.firstSyncTimeout", config.start.first_sync_timeout),
            ("drain.timeout", config.drain.timeout),
            ("settings.connectTimeout", config.settings.connect_timeout.unwrap_or_default()),
        ] {
            if span.get() > most.get() {
                return Err(self.invalid(field, format!("{span} is more than 30 days")));
            }
        }
        if config.settings.connect_timeout.is_some_and(|span| span.get().is_zero()) {
            return Err(self.invalid("settings.connectTimeout", "must be more than 0"));
        }
        Ok(())
    }

    fn settings(&self, config: &Config) -> Result<(), Failure> {
        for word in config.settings.default_export.iter().flatten() {
            if !matches!(word.as_str(), "*" | "." | "~") {
                Namespace::new(word).map_err(|e| self.invalid("settings.defaultExport", e))?;
            }
        }
        for host in config.settings.cluster_local.keys() {
            Hostname::new(host).map_err(|e| self.invalid("settings.clusterLocal", e))?;
        }
        for (network, ranges) in &config.settings.networks {
            let field = format!("settings.networks.{network}");
            NetworkId::new(network).map_err(|e| self.invalid(&field, e))?;
            for range in ranges {
                let parsed: Result<ipnet::IpNet, _> = range.parse();
                parsed.map_err(|_| self.invalid(&field, format!("`{range}` is no CIDR")))?;
            }
        }
        Ok(())
    }

    fn aliases(&self, config: &Config) -> Result<(), Failure> {
        if config.aliases.len() > MAX_ALIASES {
            return Err(self.invalid("aliases", format!("more than {MAX_ALIASES}")));
        }
        let mut seen = BTreeSet::new();
        for (i, alias) in config.aliases.iter().enumerate() {
            let field = format!("aliases[{i}].host");
            Hostname::new(&alias.host).map_err(|e| self.invalid(&field, e))?;
            if !seen.insert(alias.host.as_str()) {
                return Err(self.invalid(&field, format!("`{}` is given twice", alias.host)));
            }
            let members = format!("aliases[{i}].members");
            if alias.members.is_empty() {
                return Err(self.invalid(&members, "names no host"));
            }
            for member in &alias.members {
                Hostname::new(member).map_err(|e| self.invalid(&members, e))?;
            }
        }
        Ok(())
    }

    fn log(&self, config: &Config) -> Result<(), Failure> {
        let parsed = tracing_subscriber::EnvFilter::builder().parse(&config.log.level);
        parsed.map(drop).map_err(|e| self.invalid("log.level", format!("`{}`: {e}", config.log.level)))
    }
}

/// The kind, or the kind and the first number that is free.
fn name_the_rest(registries: &mut [RegistryConfig], taken: &mut BTreeSet<String>) {
    for registry in registries.iter_mut().filter(|registry| registry.name.is_none()) {
        let kind = registry.kind.as_str();
        let numbered = (2..).map(|n| format!("{kind}-{n}"));
        let name = std::iter::once(kind.to_owned()).chain(numbered).find(|name| !taken.contains(name));
        taken.extend(name.clone());
        registry.name = name;
    }
}
