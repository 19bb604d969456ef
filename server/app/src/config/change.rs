//! Difference between the running configuration and a new one: the parts that a reload applies and the parts
//! that need a restart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::model::RegistryConfig;
use super::{Config, RegistryKind};

/// Parts that a reload applies; every other change needs a restart.
const TAKEN: &[&str] =
    &["registries", "settings", "federatedServices", "merge", "log.level", "remotes.clusters", "metrics"];

/// Difference between the running configuration and a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// New registries.
    pub added: Vec<RegistryConfig>,
    /// Registries whose settings changed: each gets a replacement run.
    pub rotated: Vec<RegistryConfig>,
    /// Removed registries.
    pub removed: Vec<RegistryConfig>,
    /// Names of new and rotated registries between which sources move: their runs begin to serve in one turn, so that no source is without a
    /// registry meanwhile.
    pub moving: BTreeSet<String>,
    /// Whether settings, federated services or the merge rule changed.
    pub settings: bool,
    /// Whether policies of clusters of the directory changed.
    pub policies: bool,
    /// Whether the log level changed.
    pub level: bool,
    /// Fields whose change needs a restart.
    pub restart: Vec<String>,
}

/// Part of a change, which is applied or fails by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Log level.
    Level,
    /// New registry of this name.
    Added(String),
    /// Replacement run of the registry of this name.
    Rotated(String),
    /// Removal of the registry of this name.
    Removed(String),
}

impl Change {
    /// Compares two checked configurations; every registry has a name.
    #[must_use]
    pub fn between(running: &Config, new: &Config) -> Self {
        let by_name = |config: &Config| -> BTreeMap<String, RegistryConfig> {
            let named = config.registries.iter().filter_map(|r| Some((r.name.clone()?, r.clone())));
            named.collect()
        };
        let (old, next) = (by_name(running), by_name(new));
        let mut out = Self {
            removed: old
                .values()
                .filter(|r| !r.name.as_ref().is_some_and(|n| next.contains_key(n)))
                .cloned()
                .collect(),
            settings: running.settings != new.settings
                || running.federated_services != new.federated_services
                || running.merge != new.merge,
            policies: running.remotes.clusters != new.remotes.clusters,
            level: running.log.level != new.log.level,
            restart: restart(running, new),
            ..Self::default()
        };
        let (was, is) = (&running.settings, &new.settings);
        // Sources derive identities from the trust domain, so every source reads its objects again.
        let all = was.trust_domain != is.trust_domain;
        // A cluster derives hosts from the domain and networks from addresses.
        let clusters = was.domain != is.domain || was.networks != is.networks;
        let affected =
            |registry: &RegistryConfig| all || (clusters && registry.kind() == RegistryKind::Kubernetes);
        for (name, registry) in next {
            match old.get(&name) {
                None => out.added.push(registry),
                // The cluster is part of a registry's identity: with a new cluster it is a new registry.
                Some(before)
                    if before.kind() != registry.kind() || before.cluster_id != registry.cluster_id =>
                {
                    out.removed.push(before.clone());
                    out.added.push(registry);
                }
                Some(before) if affected(&registry) || *before != registry => out.rotated.push(registry),
                Some(_) => {}
            }
        }
        out.moving = moving(&old, &out);
        out
    }
    /// Returns the registry of a configuration that reads the source of a removed one under another name.
    #[must_use]
    pub fn successor<'c>(removed: &RegistryConfig, config: &'c Config) -> Option<&'c RegistryConfig> {
        config.registries.iter().find(|other| has_source_of(other, removed))
    }
    /// Rotates also the registries whose last rotation failed: their own fields may be equal while the settings that
    /// they derive facts from are not.
    #[must_use]
    pub fn again(mut self, failed: &[Part], new: &Config) -> Self {
        for part in failed {
            let Part::Rotated(name) = part else { continue };
            let is_named = |r: &&RegistryConfig| r.name.as_ref() == Some(name);
            if !self.added.iter().chain(&self.rotated).any(|r| is_named(&r)) {
                self.rotated.extend(new.registries.iter().find(is_named).cloned());
            }
        }
        self
    }
    /// Whether a reload applies nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self { restart: self.restart.clone(), ..Self::default() }
    }
}

/// Whether a registry reads the source that one of another name has.
fn has_source_of(registry: &RegistryConfig, other: &RegistryConfig) -> bool {
    registry.name != other.name && registry.source == other.source && registry.cluster_id == other.cluster_id
}

/// Returns the registries that take the source of a rotated one, and these.
fn moving(old: &BTreeMap<String, RegistryConfig>, change: &Change) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for gives in &change.rotated {
        let Some((name, before)) = gives.name.as_ref().and_then(|name| old.get_key_value(name)) else {
            continue;
        };
        let new = change.added.iter().chain(&change.rotated);
        let takes = new.filter(|other| has_source_of(other, before)).filter_map(|other| other.name.clone());
        let takes: Vec<String> = takes.collect();
        if before.source != gives.source && !takes.is_empty() {
            out.extend(takes);
            out.insert(name.clone());
        }
    }
    out
}

/// Returns the running configuration with the parts of the new one that a reload applies.
#[must_use]
pub fn merged(running: &Config, new: &Config) -> Config {
    let mut out = running.clone();
    out.registries.clone_from(&new.registries);
    out.settings = new.settings.clone();
    out.federated_services.clone_from(&new.federated_services);
    out.merge = new.merge.clone();
    out.metrics = new.metrics.clone();
    out.remotes.clusters.clone_from(&new.remotes.clusters);
    out.log.level.clone_from(&new.log.level);
    out
}

/// Returns the configuration that runs after a change whose failed parts keep their old state.
#[must_use]
pub fn after(running: &Config, new: &Config, failed: &[Part]) -> Config {
    let mut out = merged(running, new);
    for part in failed {
        match part {
            Part::Level => out.log.level.clone_from(&running.log.level),
            Part::Added(name) => out.registries.retain(|r| r.name.as_ref() != Some(name)),
            Part::Rotated(name) | Part::Removed(name) => {
                let old = running.registries.iter().filter(|r| r.name.as_ref() == Some(name));
                out.registries.retain(|r| r.name.as_ref() != Some(name));
                out.registries.extend(old.cloned());
            }
        }
    }
    out
}

fn restart(running: &Config, new: &Config) -> Vec<String> {
    let value = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let mut out = Vec::new();
    differing(&value(running), &value(new), "", &mut out);
    out
}

fn differing(a: &Value, b: &Value, path: &str, out: &mut Vec<String>) {
    if a == b || TAKEN.contains(&path) {
        return;
    }
    let (Value::Object(x), Value::Object(y)) = (a, b) else {
        out.push(path.to_owned());
        return;
    };
    let names: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let at = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
        differing(&at(x), &at(y), &path, out);
    }
}

#[cfg(test)]
mod tests {
    use tributary_service_entry::FileFields;

    use super::*;
    use crate::config::model::{Source, TlsConfig};

    fn mk_registry(name: &str, path: &str, cluster: &str) -> RegistryConfig {
        RegistryConfig {
            name: Some(name.into()),
            cluster_id: Some(cluster.into()),
            ..Source::File(FileFields { path: Some(path.into()) }).into()
        }
    }

    fn mk_config(registries: Vec<RegistryConfig>) -> Config {
        Config { registries, ..Config::default() }
    }

    #[test]
    fn registries_are_added_rotated_and_removed_by_name() {
        let old = mk_config(vec![
            mk_registry("a", "1", "x"),
            mk_registry("b", "2", "x"),
            mk_registry("c", "3", "x"),
        ]);
        let new = mk_config(vec![
            mk_registry("b", "9", "x"),
            mk_registry("c", "3", "y"),
            mk_registry("d", "4", "x"),
        ]);
        let change = Change::between(&old, &new);
        let names = |list: &[RegistryConfig]| list.iter().filter_map(|r| r.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&change.added), ["c", "d"]);
        assert_eq!(names(&change.rotated), ["b"]);
        assert_eq!(names(&change.removed), ["a", "c"], "a new cluster makes a new registry");
    }

    #[test]
    fn registries_between_which_sources_move_are_named() {
        let config = |all: &[(&str, &str)]| {
            mk_config(all.iter().map(|(name, path)| mk_registry(name, path, "x")).collect())
        };
        let old = config(&[("a", "1"), ("b", "2"), ("c", "3")]);
        for (new, moving, why) in [
            (&[("a", "2"), ("b", "3")][..], &["a", "b"][..], "the first of three without names leaves"),
            (&[("a", "2"), ("b", "1"), ("c", "3")], &["a", "b"], "two swap their sources"),
            (&[("a", "4"), ("b", "2"), ("c", "3"), ("d", "1")], &["a", "d"], "a new one takes a source"),
            (&[("a", "4"), ("b", "2"), ("c", "3")], &[], "a source changes"),
            (&[("d", "1"), ("b", "2"), ("c", "3")], &[], "a removal waits for its successor"),
            (&[("a", "1"), ("b", "2"), ("c", "1")], &[], "one source has two registries"),
        ] {
            let change = Change::between(&old, &config(new));
            assert_eq!(change.moving.iter().collect::<Vec<_>>(), moving, "{why}");
        }
        let renamed = config(&[("d", "1"), ("b", "2")]);
        let successor = Change::successor(&old.registries[0], &renamed);
        assert_eq!(successor.and_then(|registry| registry.name.as_deref()), Some("d"));
        assert_eq!(Change::successor(&old.registries[0], &old), None);
    }

    #[test]
    fn changed_trust_domain_rotates_every_source() {
        let old = mk_config(vec![mk_registry("a", "1", "x")]);
        let mut new = old.clone();
        new.settings.trust_domain = Some("prod".into());
        let change = Change::between(&old, &new);
        assert_eq!((change.rotated.len(), change.settings), (1, true));
    }

    #[test]
    fn changed_domain_or_networks_rotate_clusters_only() {
        let cluster =
            RegistryConfig { name: Some("k".into()), ..RegistryConfig::of_kind(RegistryKind::Kubernetes) };
        let old = mk_config(vec![mk_registry("a", "1", "x"), cluster]);
        let (mut domain, mut networks) = (old.clone(), old.clone());
        domain.settings.domain = Some("corp".into());
        networks.settings.networks.insert("n".into(), vec!["10.0.0.0/8".into()]);
        for new in [domain, networks] {
            let rotated = Change::between(&old, &new).rotated;
            let names: Vec<_> = rotated.iter().filter_map(|r| r.name.as_deref()).collect();
            assert_eq!(names, ["k"], "a folder of entries is not rotated");
        }
    }

    #[test]
    fn fields_that_need_a_restart_are_listed_and_not_applied() {
        let old = Config::default();
        let mut new = Config { cluster_id: "east".into(), ..Config::default() };
        new.xds.tls = Some(TlsConfig { cert_file: Some("c".into()), ..TlsConfig::default() });
        new.log.level = "debug".into();
        let change = Change::between(&old, &new);
        assert_eq!(change.restart, ["clusterId", "xds.tls"]);
        assert!(change.level && !change.settings && !change.is_empty());
        let running = merged(&old, &new);
        assert_eq!((running.log.level.as_str(), running.cluster_id.as_str()), ("debug", "Kubernetes"));
        assert_eq!(running.xds.tls, None);
    }

    #[test]
    fn policies_of_files_are_applied_and_another_directory_needs_a_restart() {
        let config = |text: &str| serde_saphyr::from_str::<Config>(text).unwrap();
        let old = config("{remotes: {directory: a}}");
        let new = config("{remotes: {directory: b, drain: 1s, clusters: {east: {paused: true}}}}");
        let change = Change::between(&old, &new);
        assert_eq!(change.restart, ["remotes.directory", "remotes.drain"]);
        assert!(change.policies && !change.is_empty());
        let running = merged(&old, &new);
        assert_eq!(running.remotes.directory, old.remotes.directory);
        assert!(running.remotes.clusters["east"].paused);
    }

    #[test]
    fn failed_part_keeps_its_state_and_is_a_change_again() {
        let all = |path: &str| ["a", "b", "c"].map(|name| mk_registry(name, path, "x")).to_vec();
        let (mut old, mut new) = (mk_config(all("1")), mk_config(all("2")));
        old.registries.push(mk_registry("gone", "1", "x"));
        new.registries[1].cluster_id = Some("y".into());
        new.registries.push(mk_registry("new", "2", "x"));
        (new.settings.trust_domain, new.log.level) = (Some("prod".into()), "debug".into());
        let [a, b, gone, added] = ["a", "b", "gone", "new"].map(str::to_owned);
        let failed = [Part::Level, Part::Rotated(a), Part::Removed(gone), Part::Added(b), Part::Added(added)];
        let running = after(&old, &new, &failed);
        let shown = |r: &RegistryConfig| (r.name.clone().unwrap(), r.source == old.registries[0].source);
        let mut kept: Vec<_> = running.registries.iter().map(shown).collect();
        kept.sort();
        let want = [("a", true), ("c", false), ("gone", true)].map(|(name, old)| (name.to_owned(), old));
        assert_eq!((kept, running.log.level.as_str()), (want.to_vec(), "info"));
        let again = Change::between(&running, &new).again(&failed, &new);
        let names = |list: &[RegistryConfig]| list.iter().filter_map(|r| r.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&again.added), names(&again.removed)),
            (vec!["b".into(), "new".into()], vec!["gone".into()])
        );
        assert_eq!((names(&again.rotated), again.settings, again.level), (vec!["a".into()], false, true));
    }

    #[test]
    fn failed_rotation_is_repeated_though_its_fields_are_equal() {
        let old = mk_config(vec![mk_registry("a", "1", "x")]);
        let mut new = old.clone();
        new.settings.trust_domain = Some("prod".into());
        let failed = [Part::Rotated("a".into())];
        let running = after(&old, &new, &failed);
        assert!(Change::between(&running, &new).is_empty(), "the settings are applied");
        assert_eq!(Change::between(&running, &new).again(&failed, &new).rotated.len(), 1);
    }

    #[test]
    fn the_same_configuration_changes_nothing() {
        let config = mk_config(vec![mk_registry("a", "1", "x")]);
        assert!(Change::between(&config, &config.clone()).is_empty());
    }
}
