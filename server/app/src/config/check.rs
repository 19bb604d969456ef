//! Rules on the values of a configuration that its types do not express.
//!
//! `load` calls them last, on the values of all layers, and reports every error at once. An error names the field
//! and where it was set: a flag, a variable, or file and line.

mod federated;
mod registries;
mod remotes;

use std::net::SocketAddr;
use std::time::Duration;

use tributary_model::{AccessLog, ClusterId, Code, HostPattern, Hostname, Namespace, NetworkId, Settings};

use super::Loaded;
use super::errors::{about, join};
use super::layers::{self, Origins};
use super::model::{
    AccessLogConfig, AccessLogEncoding, Config, DnsConfig, HttpRetriesConfig, LocalityConfig,
};
use super::remote_admin;
use super::traces::TraceSettings;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use tributary_registry_api::Span;

/// Bound on the aliases of the trust domain, against configuration mistakes.
const MAX_ALIASES: usize = 1_000;

/// Bound on the sources of certificates, each of which has its own encoding of every xDS cluster.
const MAX_SDS_CLUSTERS: usize = 16;

/// Bound on the audiences of tokens, which every review repeats.
const MAX_AUDIENCES: usize = 16;

/// Bounds on the times of retries: Envoy refuses a shorter one.
const RETRY_TIMES: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);

/// Checks everything and assigns names to registries without one. Returns warnings for the operator, or every
/// error.
pub fn check(config: &mut Config, origins: &Origins, env: &Environment) -> Result<Vec<String>, CommandError> {
    let mut rules = Rules { origins, env, errors: Vec::new() };
    let mut warnings = rules.registries(config);
    rules.control_plane(config);
    rules.remotes(config);
    warnings.extend(idle_writes(config));
    warnings.extend(config.settings.locality.as_ref().and_then(LocalityConfig::warning));
    rules.addresses(config);
    rules.certificates(config);
    rules.tokens(config);
    rules.times(config);
    rules.settings(config);
    rules.federated(config);
    rules.log(config);
    if let Err((field, why)) = TraceSettings::of(&config.traces, env) {
        rules.invalid(&field, why);
    }
    rules.consul_variables(config);
    rules.registered(config);
    join(rules.errors).map_or(Ok(warnings), Err)
}

/// Whether a filter is one bare name that is neither a level nor a target of the server; it would silence the log.
fn is_no_level(filter: &str) -> bool {
    let is_bare = !filter.is_empty() && filter.bytes().all(|b| b.is_ascii_alphabetic());
    is_bare && filter.parse::<tracing_subscriber::filter::LevelFilter>().is_err() && filter != "tributary"
}

fn idle_writes(config: &Config) -> Option<String> {
    let idle = config.writes.iter().filter(|write| !write.has_effect());
    let idle: Vec<&str> = idle.map(|write| write.as_str()).collect();
    (!idle.is_empty()).then(|| format!("writes: this version does not write {}", idle.join(", ")))
}

/// Rejects a configuration without a registry and without a directory of kubeconfigs. At start such a server would serve nothing; after a change the
/// file was probably saved half-written.
pub fn serves(loaded: &Loaded) -> Result<(), CommandError> {
    if !loaded.config.registries.is_empty() || loaded.config.remotes.directory.is_some() {
        return Ok(());
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
    env: &'a Environment,
    errors: Vec<CommandError>,
}

impl Rules<'_> {
    /// Adds an error about a field.
    fn invalid(&mut self, field: &str, why: impl std::fmt::Display) {
        let error = about(self.origin(field), format_args!("{field}: {why}"));
        self.errors.push(error);
    }
    /// Adds an error about a field with a code that has its own next step.
    fn wrong(&mut self, code: Code, field: &str, why: impl std::fmt::Display) {
        let message = about(self.origin(field), format_args!("{field}: {why}")).message;
        self.errors.push(CommandError::new(Exit::Usage, code, message));
    }
    /// Adds the error of a conversion.
    fn valid<T, E: std::fmt::Display>(&mut self, field: &str, result: Result<T, E>) {
        if let Err(why) = result {
            self.invalid(field, why);
        }
    }
    /// Returns where a field or its nearest parent was set.
    fn origin(&self, field: &str) -> Option<&str> {
        layers::origin(self.origins, field)
    }
    fn id(&mut self, field: &str, text: &str) {
        self.valid(field, ClusterId::new(text));
    }

    fn control_plane(&mut self, config: &Config) {
        self.id("clusterId", &config.cluster_id);
        self.valid("systemNamespace", Namespace::new(&config.system_namespace));
        let is_label = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if let Some(revision) = &config.revision
            && (revision.is_empty() || revision.len() > 63 || !revision.chars().all(is_label))
        {
            let why = format!(
                "`{revision}` is not the value of a label; use 1 to 63 letters, digits, `-`, `.` and `_`"
            );
            self.invalid("revision", why);
        }
    }

    fn addresses(&mut self, config: &Config) {
        let xds = config.xds.listen;
        if config.xds.tls.is_none() && !xds.ip().is_loopback() {
            let why = format!("{xds} is not a loopback address and xds.tls is not set");
            self.wrong(Code::PLAINTEXT_NOT_LOOPBACK, "xds.listen", why);
        }
        let admin = config.admin.listen;
        if !admin.ip().is_loopback() {
            let why =
                format!("{admin} is not a loopback address; health.listen serves health and metrics on any");
            self.invalid("admin.listen", why);
        }
        self.distinct("admin.listen", admin, "xds.listen", xds);
        if let Some(remote) = &config.admin.remote {
            self.distinct("admin.remote.listen", remote.listen, "xds.listen", xds);
            self.distinct("admin.remote.listen", remote.listen, "admin.listen", admin);
        }
        for (field, why) in remote_admin::faults(config) {
            self.invalid(&field, why);
        }
        if let Some(health) = config.health.listen {
            self.distinct("health.listen", health, "xds.listen", xds);
            self.distinct("health.listen", health, "admin.listen", admin);
        }
        if config.xds.max_connections == 0 {
            self.invalid("xds.maxConnections", "must be more than 0");
        }
        if config.dns.servers.len() > DnsConfig::MAX_SERVERS {
            self.invalid(
                "dns.servers",
                format!("has more than {} servers; list fewer", DnsConfig::MAX_SERVERS),
            );
        }
        for (i, server) in config.dns.servers.iter().enumerate() {
            if server.port() == 0 || server.ip().is_unspecified() {
                let why = format!("{server} is no address of a server; write one such as `10.96.0.10:53`");
                self.invalid(&format!("dns.servers[{i}]"), why);
            }
        }
    }
    /// Each layer may set a part of `xds.tls`; together they must set certificate and key.
    fn certificates(&mut self, config: &Config) {
        let Some(tls) = &config.xds.tls else { return };
        let Err(missing) = tls.pair() else { return };
        let set = [
            ("xds.tls.certFile", &tls.cert_file),
            ("xds.tls.keyFile", &tls.key_file),
            ("xds.tls.clientCaFile", &tls.client_ca_file),
        ];
        let beside = set.into_iter().find(|(_, file)| file.is_some()).map_or("xds.tls", |(field, _)| field);
        let why = format!(
            "xds.tls.{missing} is missing; set it, or start the server with --xds-cert and --xds-key"
        );
        self.errors.push(about(self.origin(beside), why));
    }
    /// Clusters review tokens, so there must be one; and the audiences must be some that a token can have.
    fn tokens(&mut self, config: &Config) {
        if let Some(tokens) = config.admin.remote.as_ref().and_then(|remote| remote.tokens.as_ref()) {
            self.audiences("admin.remote.tokens.audiences", &tokens.audiences);
        }
        let Some(tokens) = &config.xds.tokens else { return };
        let has_cluster = config.registries.iter().any(|registry| registry.kubernetes().is_some());
        if !has_cluster && config.remotes.directory.is_none() && !config.registries.is_empty() {
            let why = "no cluster is configured that could review tokens; add `--registry kubernetes`";
            self.invalid("xds.tokens", why);
        }
        self.audiences("xds.tokens.audiences", &tokens.audiences);
    }
    fn audiences(&mut self, field: &str, audiences: &[String]) {
        if audiences.is_empty() || audiences.len() > MAX_AUDIENCES {
            let why = format!("lists {} audiences; write 1 to {MAX_AUDIENCES}", audiences.len());
            self.invalid(field, why);
        }
        for (i, audience) in audiences.iter().enumerate().take(MAX_AUDIENCES) {
            if audience.is_empty() || audience.len() > 255 || !audience.bytes().all(|b| b.is_ascii_graphic())
            {
                let why =
                    format!("`{audience}` is not 1 to 255 visible characters; write for example `istio-ca`");
                self.invalid(&format!("{field}[{i}]"), why);
            }
        }
    }
    fn distinct(&mut self, field: &str, a: SocketAddr, other: &str, b: SocketAddr) {
        if a == b && a.port() != 0 {
            self.invalid(field, format!("{a} is already the address of {other}; choose another port"));
        }
    }

    fn times(&mut self, config: &Config) {
        let most = Span::seconds(30 * 24 * 3600);
        for (field, span) in [
            ("xds.maxConnectionAge", config.xds.max_connection_age),
            ("start.firstSyncTimeout", config.start.first_sync_timeout),
            ("drain.timeout", config.drain.timeout),
            ("settings.connectTimeout", config.settings.connect_timeout.unwrap_or_default()),
        ] {
            if span.get() > most.get() {
                self.invalid(field, format!("{span} is more than 30 days; write a shorter time"));
            }
        }
        if config.settings.connect_timeout.is_some_and(|span| span.get().is_zero()) {
            self.invalid("settings.connectTimeout", "must be more than 0; write a time such as `10s`");
        }
    }

    fn domains(&mut self, config: &Config) {
        if let Some(domain) = &config.settings.domain {
            match Hostname::new(domain) {
                Ok(found) if found.as_str() != domain.to_ascii_lowercase() => {
                    self.invalid(
                        "settings.domain",
                        format!("`{domain}` is not in its usual form; write `{found}`"),
                    );
                }
                found => self.valid("settings.domain", found),
            }
        }
        if let Some(domain) = &config.settings.trust_domain {
            self.trust_domain("settings.trustDomain", domain);
        }
        if let Some(root) = &config.settings.root_namespace {
            self.valid("settings.rootNamespace", Settings::parse_root_namespace(root));
        }
        self.sds_clusters(&config.settings.sds_clusters);
        let aliases = &config.settings.trust_domain_aliases;
        if aliases.len() > MAX_ALIASES {
            self.invalid("settings.trustDomainAliases", format!("lists more than {MAX_ALIASES} domains"));
        }
        for (i, alias) in aliases.iter().enumerate().take(MAX_ALIASES) {
            self.trust_domain(&format!("settings.trustDomainAliases[{i}]"), alias);
        }
    }
    fn sds_clusters(&mut self, names: &[String]) {
        if names.len() > MAX_SDS_CLUSTERS {
            let why = format!("lists more than {MAX_SDS_CLUSTERS} xDS clusters");
            self.invalid("settings.sdsClusters", why);
        }
        for (i, name) in names.iter().enumerate().take(MAX_SDS_CLUSTERS) {
            if name.is_empty() || name.len() > 255 || !name.bytes().all(|b| b.is_ascii_graphic()) {
                let why =
                    format!("`{name}` is not 1 to 255 visible characters; write the name of an xDS cluster");
                self.invalid(&format!("settings.sdsClusters[{i}]"), why);
            }
        }
    }
    fn trust_domain(&mut self, field: &str, domain: &str) {
        let is_fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if domain.is_empty() || domain.len() > 255 || !domain.bytes().all(is_fine) {
            self.invalid(field, format!("`{domain}` is not 1 to 255 letters, digits, `-`, `.` and `_`"));
        }
    }

    fn http_retries(&mut self, retries: &HttpRetriesConfig) {
        self.valid("settings.httpRetries.retryOn", super::facts::http_retries(retries));
        let times = [("perTryTimeout", retries.per_try_timeout), ("backoff", retries.backoff)];
        for (field, span) in times.into_iter().filter_map(|(field, span)| Some((field, span?.get()))) {
            if !RETRY_TIMES.contains(&span) {
                self.invalid(
                    &format!("settings.httpRetries.{field}"),
                    "is not between 1ms and 1h; write a time such as `2s`",
                );
            }
        }
    }

    fn access_log(&mut self, log: &AccessLogConfig) {
        let format = log.format.as_deref().unwrap_or_default();
        for (field, text) in [("file", &*log.file), ("format", format)] {
            if text.len() > AccessLog::MOST_TEXT {
                let why = format!("is longer than {} bytes", AccessLog::MOST_TEXT);
                self.invalid(&format!("settings.accessLog.{field}"), why);
            }
        }
        let is_object = |text| serde_json::from_str::<serde_json::Map<_, _>>(text).is_ok();
        if log.encoding == AccessLogEncoding::Json && !format.is_empty() && !is_object(format) {
            self.invalid("settings.accessLog.format", "is not a JSON object; write one, or `encoding: text`");
        }
    }

    fn settings(&mut self, config: &Config) {
        self.domains(config);
        if let Some(log) = &config.settings.access_log {
            self.access_log(log);
        }
        if let Some(tracing) = &config.settings.tracing {
            self.valid("settings.tracing.customTags", tracing.parse());
        }
        if let Some(locality) = &config.settings.locality {
            self.valid("settings.locality", locality.parse());
        }
        if let Some(retries) = &config.settings.http_retries {
            self.http_retries(retries);
        }
        for (i, entry) in config.settings.default_export.iter().flatten().enumerate() {
            if !matches!(entry.as_str(), "*" | "." | "~") {
                self.valid(&format!("settings.defaultExport[{i}]"), Namespace::new(entry));
            }
        }
        for host in config.settings.cluster_local.keys() {
            self.valid("settings.clusterLocal", HostPattern::new(host));
        }
        for (network, ranges) in &config.settings.networks {
            let field = format!("settings.networks.{network}");
            self.valid(&field, NetworkId::new(network));
            for (i, range) in ranges.iter().enumerate() {
                if range.parse::<ipnet::IpNet>().is_err() {
                    let why = format!("`{range}` is not an address range; write for example `10.0.0.0/8`");
                    self.invalid(&format!("{field}[{i}]"), why);
                }
            }
        }
    }

    fn log(&mut self, config: &Config) {
        let level = &config.log.level;
        if tracing_subscriber::EnvFilter::builder().parse(level).is_err() || is_no_level(level) {
            let why = format!(
                "`{level}` is not a log filter; write a level such as `info`, or `warn,tributary_xds=debug`"
            );
            self.invalid("log.level", why);
        }
    }
}
