//! Converts the configuration to facts: settings and federated services in the model's types.
//!
//! Callers pass a configuration that has been checked; a value that the model rejects nevertheless is
//! skipped, never guessed.

use std::sync::Arc;

use tributary_model::settings::ClusterLocal;
use tributary_model::{
    AccessLog, ExportTo, FederatedMember, FederatedService, HostPattern, Hostname, HttpRetries, LogEncoding,
    Namespace, NetworkId, PathNormalization, PortNumber, RegistryName, Settings, Visibility,
};

use super::merge::MergeConfig;
use super::model::{
    AccessLogConfig, AccessLogEncoding, CrossNetwork, FederatedMemberConfig, FederatedServiceConfig,
    HttpRetriesConfig, PathNormalizationConfig, SettingsConfig,
};

/// Returns the mesh-wide settings.
#[must_use]
pub fn settings(config: &SettingsConfig) -> Settings {
    let text = |value: &Option<String>| value.as_deref().map(Arc::from);
    Settings {
        default_export: config.default_export.as_deref().and_then(default_export),
        trust_domain: text(&config.trust_domain),
        trust_domain_aliases: (!config.trust_domain_aliases.is_empty())
            .then(|| config.trust_domain_aliases.iter().map(|alias| Arc::from(alias.as_str())).collect()),
        root_namespace: config.root_namespace.as_ref().and_then(|name| Namespace::new(name).ok()),
        domain: text(&config.domain),
        connect_timeout: config.connect_timeout.map(super::Span::get),
        block_unknown: config.block_unknown,
        access_log: config.access_log.as_ref().map(access_log).map(Arc::new),
        tracing: config.tracing.as_ref().and_then(|tracing| tracing.parse().ok()).map(Arc::new),
        auto_mtls: config.auto_mtls,
        path_normalization: config.path_normalization.map(path_normalization),
        sds_clusters: (!config.sds_clusters.is_empty())
            .then(|| config.sds_clusters.iter().map(|name| Arc::from(name.as_str())).collect()),
        locality: config.locality.as_ref().and_then(|locality| locality.parse().ok()).map(Arc::new),
        http_retries: config
            .http_retries
            .as_ref()
            .and_then(|retries| http_retries(retries).ok())
            .map(Arc::new),
        cluster_local: (!config.cluster_local.is_empty()).then(|| cluster_local(config)),
        entry_visibility: None,
        cross_network_direct: config.cross_network.map(|how| how == CrossNetwork::Direct),
        networks: (!config.networks.is_empty()).then(|| networks(config)),
        merge_by_name: None,
        // the config cluster has it
        mesh_text: None,
    }
}

const fn path_normalization(config: PathNormalizationConfig) -> PathNormalization {
    match config {
        PathNormalizationConfig::None => PathNormalization::None,
        PathNormalizationConfig::Base => PathNormalization::Base,
        PathNormalizationConfig::MergeSlashes => PathNormalization::MergeSlashes,
        PathNormalizationConfig::DecodeAndMergeSlashes => PathNormalization::DecodeAndMergeSlashes,
    }
}

/// Returns the mesh-wide settings with the rule for services of one name.
#[must_use]
pub fn settings_with(config: &SettingsConfig, merge: &MergeConfig) -> Settings {
    Settings { merge_by_name: Some(merge.by_name.into()), ..settings(config) }
}

/// Parses the retries of requests; the reason concerns the conditions.
pub(super) fn http_retries(config: &HttpRetriesConfig) -> Result<HttpRetries, String> {
    let retries = HttpRetries {
        attempts: config.attempts,
        per_try_timeout: config.per_try_timeout.map(super::Span::get),
        backoff: config.backoff.map(super::Span::get),
        remote_localities: config.retry_remote_localities,
        other_hosts: config.retry_ignore_previous_hosts,
        ..HttpRetries::default()
    };
    retries.on(&config.retry_on)
}

fn access_log(config: &AccessLogConfig) -> AccessLog {
    let encoding = match config.encoding {
        AccessLogEncoding::Text => LogEncoding::Text,
        AccessLogEncoding::Json => LogEncoding::Json,
    };
    let format = config.format.as_deref().filter(|format| !format.is_empty()).map(Arc::from);
    AccessLog { file: config.file.as_str().into(), encoding, format }
}

/// Parses `defaultExport`; `.` is each declaration's own namespace.
fn default_export(entries: &[String]) -> Option<Visibility> {
    Visibility::default_of(entries.iter().map(String::as_str))
}

fn cluster_local(config: &SettingsConfig) -> ClusterLocal {
    let pairs = config.cluster_local.iter();
    pairs.filter_map(|(host, local)| Some((HostPattern::new(host).ok()?, *local))).collect()
}

fn networks(config: &SettingsConfig) -> Arc<[(NetworkId, tributary_model::settings::Cidrs)]> {
    let ranges = |list: &[String]| list.iter().filter_map(|range| range.parse().ok()).collect();
    let pairs = config.networks.iter();
    pairs.filter_map(|(name, list)| Some((NetworkId::new(name).ok()?, ranges(list)))).collect()
}

/// Returns a federated service and its host.
#[must_use]
pub fn federated(config: &FederatedServiceConfig) -> Option<(Hostname, FederatedService)> {
    let host = Hostname::new(&config.host).ok()?;
    let namespace = Namespace::new(config.namespace.as_deref().unwrap_or("default")).ok()?;
    let export = ExportTo::parse(config.export_to.iter().map(String::as_str), &namespace);
    let members = config.members.iter().filter_map(member).collect();
    let active_until_healthy_below = config.min_healthy_active;
    let active_until_silent_for = config.standby_after_stale.map(super::Span::get);
    let by_name = false;
    Some((
        host,
        FederatedService {
            namespace,
            export,
            members,
            min_healthy_active: active_until_healthy_below,
            standby_after_stale: active_until_silent_for,
            by_name,
        },
    ))
}

fn member(config: &FederatedMemberConfig) -> Option<FederatedMember> {
    let number = |port: u16| PortNumber::new(u32::from(port)).ok();
    let ports = config.ports.iter().filter_map(|(own, theirs)| Some((number(*own)?, number(*theirs)?)));
    Some(FederatedMember {
        host: Hostname::new(&config.host).ok()?,
        registry: config.registry.as_ref().and_then(|name| RegistryName::new(name).ok()),
        namespace: config.namespace.as_ref().and_then(|name| Namespace::new(name).ok()),
        ports: ports.collect(),
        weight: config.weight,
        standby: config.standby,
    })
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        Distribution, LocalityBalancing, RequestTracing, SampledShare, SpanTag, SpanTagValue,
    };

    use super::*;

    fn mk_settings(text: &str) -> Settings {
        settings(&serde_saphyr::from_str(text).unwrap())
    }

    #[test]
    fn unset_fields_stay_unset() {
        assert_eq!(mk_settings("{}"), Settings::default());
        assert_eq!(mk_settings("{autoMtls: false}").auto_mtls, Some(false));
        let paths = mk_settings("{pathNormalization: decodeAndMergeSlashes}").path_normalization;
        assert_eq!(paths, Some(PathNormalization::DecodeAndMergeSlashes));
    }

    #[test]
    fn federated_service_keeps_its_members() {
        let text = "{host: Pay.Mesh, minHealthyActive: 2, standbyAfterStale: 90s, exportTo: [.], members: [{host: a.b}, \
            {host: c.d, registry: vms, namespace: n, ports: {80: 8080}, weight: 3, standby: true}]}";
        let (host, federated) = federated(&serde_saphyr::from_str(text).unwrap()).unwrap();
        assert_eq!((host.as_str(), federated.namespace.as_str()), ("pay.mesh", "default"));
        assert_eq!(
            federated.export,
            ExportTo::Set(Visibility::Namespaces([federated.namespace.clone()].into()))
        );
        assert_eq!(federated.min_healthy_active, Some(2));
        assert_eq!(federated.standby_after_stale, Some(std::time::Duration::from_secs(90)));
        assert_eq!(federated.members[0], FederatedMember::new(Hostname::new("a.b").unwrap()));
        let port = |n| PortNumber::new(n).unwrap();
        let second = FederatedMember {
            registry: RegistryName::new("vms").ok(),
            namespace: Namespace::new("n").ok(),
            ports: [(port(80), port(8080))].into(),
            weight: Some(3),
            standby: true,
            ..FederatedMember::new(Hostname::new("c.d").unwrap())
        };
        assert_eq!(federated.members[1], second);
    }

    #[test]
    fn settings_convert_to_the_models_types() {
        let settings = mk_settings(
            "{defaultExport: [b, a], rootNamespace: mesh, connectTimeout: 3s, crossNetwork: direct, networks: {n: [10.0.0.0/8]}, clusterLocal: {'*.svc': true}}",
        );
        let ns = |text| tributary_model::Namespace::new(text).unwrap();
        assert_eq!(settings.default_export, Some(Visibility::Namespaces([ns("a"), ns("b")].into())));
        assert_eq!(settings.connect_timeout(), std::time::Duration::from_secs(3));
        assert_eq!(settings.root_namespace, Some(ns("mesh")));
        assert_eq!(settings.cross_network_direct, Some(true));
        let log =
            mk_settings("accessLog: {file: /dev/stdout, encoding: json, format: '{}'}").access_log.unwrap();
        assert_eq!(
            (&*log.file, log.encoding, log.format.as_deref()),
            ("/dev/stdout", LogEncoding::Json, Some("{}"))
        );
        let tracing =
            mk_settings("tracing: {sampling: 2.5, customTags: {a: {header: x-user, defaultValue: none}}}");
        let tag = SpanTagValue::Header("x-user".into(), Some("none".into()));
        let want = RequestTracing {
            sampling: SampledShare::of_percent(2.5).unwrap(),
            tags: [SpanTag { name: "a".into(), value: tag }].into(),
            ..RequestTracing::default()
        };
        assert_eq!(tracing.tracing.as_deref(), Some(&want));
        let locality = mk_settings("locality: {distribute: [{from: eu, to: {eu: 80, us: 20}}]}").locality;
        let shares = Distribution { from: "eu".into(), to: [("eu".into(), 80), ("us".into(), 20)].into() };
        assert_eq!(locality.as_deref(), Some(&LocalityBalancing::Distribute([shares].into())));
        assert_eq!(mk_settings("httpRetries: {}").http_retries.as_deref(), Some(&HttpRetries::default()));
        let retries =
            mk_settings("httpRetries: {attempts: 3, retryOn: '5xx,503', perTryTimeout: 2s}").http_retries;
        let want = HttpRetries {
            attempts: 3,
            per_try_timeout: Some(std::time::Duration::from_secs(2)),
            ..HttpRetries::default()
        };
        assert_eq!(retries.as_deref(), Some(&want.on("5xx,503").unwrap()));
        assert_eq!(settings.networks.unwrap()[0].1.len(), 1);
        assert_eq!(settings.cluster_local.unwrap()[0].0.as_str(), "*.svc");
        for (entry, expected) in
            [("'*'", Visibility::Public), ("'.'", Visibility::Own), ("'~'", Visibility::Hidden)]
        {
            assert_eq!(mk_settings(&format!("defaultExport: [{entry}]")).default_export, Some(expected));
        }
    }
}
