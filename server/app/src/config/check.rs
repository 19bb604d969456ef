//! Rules on the values of a configuration that its types do not express.
//!
//! `load` calls them last, on the values of all layers. An error names the field and where it was set: a
//! flag, a variable, or file and line.

mod registries;

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{
    Code, FederatedService, HostPattern, Hostname, Namespace, NetworkId, PortNumber, RegistryName,
};

use super::Loaded;
use super::layers::Origins;
use super::model::{Config, FederatedMemberConfig};
use crate::exit::{CommandError, Exit};
use crate::extensions::Extensions;
use tributary_registry_api::Span;

/// Bound on the list, against configuration mistakes.
const MAX_FEDERATED_SERVICES: usize = 10_000;

/// Checks everything and assigns names to registries without one. Returns warnings for the operator.
pub fn check(
    config: &mut Config,
    origins: &Origins,
    extensions: &Extensions,
) -> Result<Vec<String>, CommandError> {
    let rules = Rules { origins, extensions };
    let mut warnings = rules.registries(config)?;
    rules.control_plane(config)?;
    warnings.extend(idle_writes(config));
    rules.addresses(config)?;
    rules.times(config)?;
    rules.settings(config)?;
    rules.federated(config)?;
    rules.log(config)?;
    rules.registered(config)?;
    Ok(warnings)
}

fn idle_writes(config: &Config) -> Option<String> {
    let idle = config.writes.iter().filter(|write| !write.has_effect());
    let idle: Vec<&str> = idle.map(|write| write.as_str()).collect();
    (!idle.is_empty()).then(|| format!("writes: this version does not write {}", idle.join(", ")))
}

/// Rejects a configuration without a registry. At start such a server would serve nothing; after a change the
/// file was probably saved half-written.
pub fn serves(loaded: Loaded) -> Result<Loaded, CommandError> {
    if !loaded.config.registries.is_empty() {
        return Ok(loaded);
    }
    let examples = "name a source of services, for example:\n    \
        tributary serve --registry file=./services\n    \
        tributary serve --registry kubernetes\n    \
        tributary serve --registry consul=http://127.0.0.1:8500\n    \
        tributary serve --config tributary.yaml";
    Err(CommandError::new(Exit::Usage, Code::NO_REGISTRY, Code::NO_REGISTRY.info().title).next(examples))
}

struct Rules<'a> {
    origins: &'a Origins,
    extensions: &'a Extensions,
}

impl Rules<'_> {
    /// Returns an error about a field, prefixed with where the field was set.
    fn wrong(&self, code: Code, field: &str, why: impl std::fmt::Display) -> CommandError {
        CommandError::new(Exit::Usage, code, format!("{}{field}: {why}", self.origin(field)))
    }
    /// Returns where a field or its nearest parent was set, as the start of a message.
    fn origin(&self, field: &str) -> String {
        let mut path = field;
        loop {
            if let Some(origin) = self.origins.get(path) {
                return format!("{origin}: ");
            }
            match path.rfind(['.', '[']) {
                Some(cut) => path = &path[..cut],
                None => return String::new(),
            }
        }
    }
    fn unknown_field(&self, field: &str, known: &[&str]) -> CommandError {
        let known = known.join(", ");
        CommandError::config(format!("{}unknown field `{field}`; use one of {known}", self.origin(field)))
    }
    fn invalid(&self, field: &str, why: impl std::fmt::Display) -> CommandError {
        self.wrong(Code::CONFIG_INVALID, field, why)
    }

    fn id(&self, field: &str, text: &str) -> Result<(), CommandError> {
        tributary_model::ClusterId::new(text).map(drop).map_err(|e| self.invalid(field, e))
    }

    fn control_plane(&self, config: &Config) -> Result<(), CommandError> {
        self.id("clusterId", &config.cluster_id)?;
        Namespace::new(&config.system_namespace).map_err(|e| self.invalid("systemNamespace", e))?;
        let Some(revision) = &config.revision else { return Ok(()) };
        let is_label = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if revision.is_empty() || revision.len() > 63 || !revision.chars().all(is_label) {
            return Err(self.invalid("revision", format!("`{revision}` is not the value of a label")));
        }
        Ok(())
    }

    fn addresses(&self, config: &Config) -> Result<(), CommandError> {
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
        self.distinct("admin.listen", admin, "xds.listen", xds)?;
        if let Some(health) = config.health.listen {
            self.distinct("health.listen", health, "xds.listen", xds)?;
            self.distinct("health.listen", health, "admin.listen", admin)?;
        }
        if config.xds.max_connections == 0 {
            return Err(self.invalid("xds.maxConnections", "must be more than 0"));
        }
        Ok(())
    }
    fn distinct(
        &self,
        field: &str,
        a: std::net::SocketAddr,
        other: &str,
        b: std::net::SocketAddr,
    ) -> Result<(), CommandError> {
        if a == b && a.port() != 0 {
            return Err(self.invalid(field, format!("{a} is already the address of {other}")));
        }
        Ok(())
    }

    fn times(&self, config: &Config) -> Result<(), CommandError> {
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

    fn domains(&self, config: &Config) -> Result<(), CommandError> {
        if let Some(domain) = &config.settings.domain {
            let found = Hostname::new(domain).map_err(|e| self.invalid("settings.domain", e))?;
            if found.as_str() != domain.to_ascii_lowercase() {
                return Err(self.invalid("settings.domain", format!("write `{found}`")));
            }
        }
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        match &config.settings.trust_domain {
            Some(domain) if domain.is_empty() || domain.len() > 255 || !domain.bytes().all(fine) => {
                let why = format!("`{domain}` is not 1 to 255 letters, digits, `-`, `.` and `_`");
                Err(self.invalid("settings.trustDomain", why))
            }
            _ => Ok(()),
        }
    }

    fn settings(&self, config: &Config) -> Result<(), CommandError> {
        self.domains(config)?;
        for entry in config.settings.default_export.iter().flatten() {
            if !matches!(entry.as_str(), "*" | "." | "~") {
                Namespace::new(entry).map_err(|e| self.invalid("settings.defaultExport", e))?;
            }
        }
        for host in config.settings.cluster_local.keys() {
            HostPattern::new(host).map_err(|e| self.invalid("settings.clusterLocal", e))?;
        }
        for (network, ranges) in &config.settings.networks {
            let field = format!("settings.networks.{network}");
            NetworkId::new(network).map_err(|e| self.invalid(&field, e))?;
            for range in ranges {
                let parsed: Result<ipnet::IpNet, _> = range.parse();
                parsed.map_err(|_| self.invalid(&field, format!("`{range}` is not a CIDR range")))?;
            }
        }
        Ok(())
    }

    fn federated(&self, config: &Config) -> Result<(), CommandError> {
        if config.federated_services.len() > MAX_FEDERATED_SERVICES {
            return Err(self.invalid("federatedServices", format!("more than {MAX_FEDERATED_SERVICES}")));
        }
        let mut seen = BTreeSet::new();
        for (i, federated) in config.federated_services.iter().enumerate() {
            let field = format!("federatedServices[{i}].host");
            Hostname::new(&federated.host).map_err(|e| self.invalid(&field, e))?;
            if !seen.insert(federated.host.as_str()) {
                return Err(self.invalid(&field, format!("`{}` is listed twice; keep one", federated.host)));
            }
            if let Some(namespace) = &federated.namespace {
                let field = format!("federatedServices[{i}].namespace");
                Namespace::new(namespace).map_err(|e| self.invalid(&field, e))?;
            }
            if federated.standby_after_stale.is_some_and(|time| time.get() < Duration::from_secs(1)) {
                let field = format!("federatedServices[{i}].standbyAfterStale");
                return Err(self.invalid(&field, "is less than 1s, the time of a reconnection"));
            }
            self.federated_members(&format!("federatedServices[{i}].members"), &federated.members)?;
        }
        Ok(())
    }

    fn federated_members(&self, field: &str, members: &[FederatedMemberConfig]) -> Result<(), CommandError> {
        if members.is_empty() || members.len() > FederatedService::MAX_MEMBERS {
            return Err(
                self.invalid(field, format!("names no host, or more than {}", FederatedService::MAX_MEMBERS))
            );
        }
        if members.iter().all(|member| member.standby) {
            return Err(self.invalid(field, "has standby members only; one must be active"));
        }
        for (i, member) in members.iter().enumerate() {
            let field = |name: &str| format!("{field}[{i}].{name}");
            Hostname::new(&member.host).map_err(|e| self.invalid(&field("host"), e))?;
            if let Some(name) = &member.registry {
                RegistryName::new(name).map_err(|e| self.invalid(&field("registry"), e))?;
            }
            if let Some(name) = &member.namespace {
                Namespace::new(name).map_err(|e| self.invalid(&field("namespace"), e))?;
            }
            for port in member.ports.iter().flat_map(|(own, theirs)| [*own, *theirs]) {
                PortNumber::new(u32::from(port)).map_err(|e| self.invalid(&field("ports"), e))?;
            }
        }
        Ok(())
    }

    fn log(&self, config: &Config) -> Result<(), CommandError> {
        let parsed = tracing_subscriber::EnvFilter::builder().parse(&config.log.level);
        parsed.map(drop).map_err(|e| self.invalid("log.level", format!("`{}`: {e}", config.log.level)))
    }
}
