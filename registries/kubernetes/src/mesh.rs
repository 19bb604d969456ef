//! Mesh configuration in Istio's format: the supported fields, and the invalid ones.
//!
//! Called by the projection of ConfigMaps. Each field is independent: an invalid one keeps its last valid value
//! ([`Mesh::inherit`]) and is named in a problem; an unsupported one is named once.

mod locality;
mod networks;
mod read;
mod requests;
mod tracing;
mod tree;
mod visibility;

use std::sync::Arc;
use std::time::Duration;

use tributary_model::settings::ClusterLocal;
use tributary_model::{
    AccessLog, HostPattern, Hostname, HttpRetries, LocalityBalancing, LogEncoding, Namespace,
    PathNormalization, RequestTracing, Visibility,
};

use crate::label_selector::Selectors;

pub(crate) use networks::address_of;
pub use networks::{GatewayTarget, MeshGateway, MeshNetwork, MeshNetworks};
pub use visibility::VisibilityPolicy;

/// Supported values of a mesh configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mesh {
    /// Selectors of the namespaces in scope.
    pub discovery: Selectors,
    /// Domain of identities.
    pub trust_domain: Option<Arc<str>>,
    /// Further domains of identities.
    pub trust_domain_aliases: Option<Arc<[Arc<str>]>>,
    /// Namespace whose policies apply to all namespaces.
    pub root_namespace: Option<Namespace>,
    /// Visibility of a Service without an annotation.
    pub default_export: Option<Visibility>,
    /// Connect timeout.
    pub connect_timeout: Option<Duration>,
    /// Whether traffic to unknown hosts is blocked.
    pub block_unknown: Option<bool>,
    /// Retries of HTTP requests.
    pub http_retries: Option<Arc<HttpRetries>>,
    /// File of the access log.
    pub access_log_file: Option<Arc<str>>,
    /// Format of its entries.
    pub access_log_format: Option<Arc<str>>,
    /// Form of its entries.
    pub access_log_encoding: LogEncoding,
    /// Whether requests are traced; they are if absent.
    pub enable_tracing: Option<bool>,
    /// How requests are traced.
    pub tracing: RequestTracing,
    /// Whether clients use mesh TLS where no rule decides; they do if absent.
    pub auto_mtls: Option<bool>,
    /// How sidecars normalize paths.
    pub path_normalization: Option<PathNormalization>,
    /// Which localities clients use.
    pub locality: Option<Arc<LocalityBalancing>>,
    /// Hosts that are served only within their cluster, and exceptions; each pattern once.
    pub cluster_local: ClusterLocal,
    /// Upper bounds of the visibility of ServiceEntries.
    pub entries: Option<VisibilityPolicy>,
    /// Networks with their members and gateways.
    pub networks: MeshNetworks,
    /// Invalid fields.
    pub faults: Arc<[Fault]>,
    /// Unsupported fields, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// Supported field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `discoverySelectors`.
    Discovery,
    /// `trustDomain`.
    TrustDomain,
    /// `trustDomainAliases`.
    TrustDomainAliases,
    /// `rootNamespace`.
    RootNamespace,
    /// `defaultServiceExportTo`.
    DefaultExport,
    /// `connectTimeout`.
    ConnectTimeout,
    /// `outboundTrafficPolicy`.
    Outbound,
    /// `defaultHttpRetryPolicy`.
    HttpRetries,
    /// `accessLogFile`.
    AccessLogFile,
    /// `accessLogFormat`.
    AccessLogFormat,
    /// `accessLogEncoding`.
    AccessLogEncoding,
    /// `enableTracing`.
    EnableTracing,
    /// `defaultConfig`.
    ProxyConfig,
    /// `enableAutoMtls`.
    AutoMtls,
    /// `pathNormalization`.
    PathNormalization,
    /// `localityLbSetting`.
    Locality,
    /// `serviceSettings`.
    ServiceSettings,
    /// `serviceEntryVisibility`.
    Entries,
    /// The key `meshNetworks`.
    Networks,
}

impl Field {
    /// Fields under the key `mesh`.
    const OF_MESH: [Self; 18] = [
        Self::Discovery,
        Self::TrustDomain,
        Self::TrustDomainAliases,
        Self::RootNamespace,
        Self::DefaultExport,
        Self::ConnectTimeout,
        Self::Outbound,
        Self::HttpRetries,
        Self::AccessLogFile,
        Self::AccessLogFormat,
        Self::AccessLogEncoding,
        Self::EnableTracing,
        Self::ProxyConfig,
        Self::AutoMtls,
        Self::PathNormalization,
        Self::Locality,
        Self::ServiceSettings,
        Self::Entries,
    ];

    /// Returns its name in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discoverySelectors",
            Self::TrustDomain => "trustDomain",
            Self::TrustDomainAliases => "trustDomainAliases",
            Self::RootNamespace => "rootNamespace",
            Self::DefaultExport => "defaultServiceExportTo",
            Self::ConnectTimeout => "connectTimeout",
            Self::Outbound => "outboundTrafficPolicy",
            Self::HttpRetries => "defaultHttpRetryPolicy",
            Self::AccessLogFile => "accessLogFile",
            Self::AccessLogFormat => "accessLogFormat",
            Self::AccessLogEncoding => "accessLogEncoding",
            Self::EnableTracing => "enableTracing",
            Self::ProxyConfig => "defaultConfig",
            Self::AutoMtls => "enableAutoMtls",
            Self::PathNormalization => "pathNormalization",
            Self::Locality => "localityLbSetting",
            Self::ServiceSettings => "serviceSettings",
            Self::Entries => "serviceEntryVisibility",
            Self::Networks => "meshNetworks",
        }
    }
}

/// Invalid field; its last valid value stays in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Field.
    pub field: Field,
    /// Reason.
    pub why: Arc<str>,
}

impl Mesh {
    /// Reads the two documents of a ConfigMap; a missing document counts as empty.
    #[must_use]
    pub fn read(mesh: Option<&str>, networks: Option<&str>) -> Self {
        read::read(mesh, networks)
    }
    /// Takes the last valid value of each invalid field.
    pub fn inherit(&mut self, last: &Self) {
        for fault in Arc::clone(&self.faults).iter() {
            match fault.field {
                Field::Discovery => self.discovery = last.discovery.clone(),
                Field::TrustDomain => self.trust_domain = last.trust_domain.clone(),
                Field::TrustDomainAliases => {
                    self.trust_domain_aliases = last.trust_domain_aliases.clone();
                }
                Field::RootNamespace => self.root_namespace = last.root_namespace.clone(),
                Field::DefaultExport => self.default_export = last.default_export.clone(),
                Field::ConnectTimeout => self.connect_timeout = last.connect_timeout,
                Field::Outbound => self.block_unknown = last.block_unknown,
                Field::HttpRetries => self.http_retries = last.http_retries.clone(),
                Field::AccessLogFile => self.access_log_file = last.access_log_file.clone(),
                Field::AccessLogFormat => self.access_log_format = last.access_log_format.clone(),
                Field::AccessLogEncoding => self.access_log_encoding = last.access_log_encoding,
                Field::EnableTracing => self.enable_tracing = last.enable_tracing,
                Field::ProxyConfig => self.tracing = last.tracing.clone(),
                Field::AutoMtls => self.auto_mtls = last.auto_mtls,
                Field::PathNormalization => self.path_normalization = last.path_normalization,
                Field::Locality => self.locality = last.locality.clone(),
                Field::ServiceSettings => self.cluster_local = Arc::clone(&last.cluster_local),
                Field::Entries => self.entries = last.entries.clone(),
                Field::Networks => self.networks = last.networks.clone(),
            }
        }
    }
    /// Returns the access log; `None` if no file is named.
    #[must_use]
    pub fn access_log(&self) -> Option<AccessLog> {
        let (encoding, format) = (self.access_log_encoding, self.access_log_format.clone());
        self.access_log_file.clone().map(|file| AccessLog { file, encoding, format })
    }
    /// Returns the tracing of requests.
    #[must_use]
    pub fn tracing(&self) -> RequestTracing {
        RequestTracing { enabled: self.enable_tracing.unwrap_or(true), ..self.tracing.clone() }
    }
    /// Describes the invalid fields in one line; `None` if all are valid.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let (of_mesh, others): (Vec<&Fault>, Vec<&Fault>) =
            self.faults.iter().partition(|fault| Field::OF_MESH.contains(&fault.field));
        let describe = |fault: &&Fault| format!("{}: {}", fault.field.as_str(), fault.why);
        let mut all: Vec<String> = match of_mesh.first() {
            // an unreadable document is one fault of all its fields
            Some(first)
                if of_mesh.len() == Field::OF_MESH.len() && of_mesh.iter().all(|f| f.why == first.why) =>
            {
                vec![format!("mesh: {}", first.why)]
            }
            _ => of_mesh.iter().map(describe).collect(),
        };
        all.extend(others.iter().map(describe));
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Returns the hosts that are cluster-local by default.
#[must_use]
pub fn usually_local(domain: &str) -> Vec<(HostPattern, bool)> {
    let system = HostPattern::new(format!("*.kube-system.svc.{domain}")).ok();
    let server = Hostname::new(format!("kubernetes.default.svc.{domain}")).ok().map(HostPattern::from);
    system.into_iter().chain(server).map(|pattern| (pattern, true)).collect()
}

#[cfg(test)]
mod tests;
