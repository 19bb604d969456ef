//! The configuration as facts: settings and aliases in the model's own types.
//!
//! Called with a configuration that has been checked; a value that the model refuses all the same
//! is left out rather than guessed.

use std::sync::Arc;

use tributary_model::settings::ClusterLocal;
use tributary_model::{Alias, HostPattern, Hostname, NetworkId, Settings, Visibility};

use super::model::{AliasConfig, CrossNetwork, SettingsConfig};

/// Mesh-wide values.
#[must_use]
pub fn settings(config: &SettingsConfig) -> Settings {
    let text = |value: &Option<String>| value.as_deref().map(Arc::from);
    Settings {
        default_export: config.default_export.as_deref().and_then(default_export),
        trust_domain: text(&config.trust_domain),
        domain: text(&config.domain),
        connect_timeout: config.connect_timeout.map(super::Span::get),
        block_unknown: config.block_unknown,
        cluster_local: (!config.cluster_local.is_empty()).then(|| cluster_local(config)),
        entry_visibility: None,
        cross_network_direct: config.cross_network.map(|how| how == CrossNetwork::Direct),
        networks: (!config.networks.is_empty()).then(|| networks(config)),
    }
}

/// The words of `defaultExport`; `.` is each declaration's own namespace.
fn default_export(words: &[String]) -> Option<Visibility> {
    Visibility::default_of(words.iter().map(String::as_str))
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

/// A name that joins services.
#[must_use]
pub fn alias(config: &AliasConfig) -> Option<(Hostname, Alias)> {
    let host = Hostname::new(&config.host).ok()?;
    let members = config.members.iter().filter_map(|member| Hostname::new(member).ok()).collect();
    Some((host, Alias { members }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_settings(text: &str) -> Settings {
        settings(&serde_saphyr::from_str(text).unwrap())
    }

    #[test]
    fn what_is_not_set_says_nothing() {
        assert_eq!(mk_settings("{}"), Settings::default());
    }

    #[test]
    fn values_arrive_in_the_models_types() {
        let settings = mk_settings(
            "{defaultExport: [b, a], connectTimeout: 3s, crossNetwork: direct, networks: {n: [10.0.0.0/8]}, clusterLocal: {'*.svc': true}}",
        );
        let ns = |text| tributary_model::Namespace::new(text).unwrap();
        assert_eq!(settings.default_export, Some(Visibility::Namespaces([ns("a"), ns("b")].into())));
        assert_eq!(settings.connect_timeout(), std::time::Duration::from_secs(3));
        assert_eq!(settings.cross_network_direct, Some(true));
        assert_eq!(settings.networks.unwrap()[0].1.len(), 1);
        assert_eq!(settings.cluster_local.unwrap()[0].0.as_str(), "*.svc");
        for (word, means) in
            [("'*'", Visibility::Public), ("'.'", Visibility::Own), ("'~'", Visibility::Hidden)]
        {
            assert_eq!(mk_settings(&format!("defaultExport: [{word}]")).default_export, Some(means));
        }
    }
}
