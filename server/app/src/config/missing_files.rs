//! Warns of sources and their files that do not exist.
//!
//! Called by `config validate`. They are no error: `serve` starts without them and waits for them.

use std::path::{Path, PathBuf};

use super::model::{Config, Source};
use super::registry::RegistryConfig;

/// Returns a warning for each file or directory of a registry, and for a directory of kubeconfigs, that does not exist.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let is_missing = |path: &&PathBuf| matches!(path.try_exists(), Ok(false));
    let of = |registry| paths(registry).filter(is_missing).map(move |path| text(registry, path));
    let directory = config.remotes.directory.iter().filter(is_missing);
    let directory = directory
        .map(|path| format!("remotes.directory: {} does not exist; serve waits for it", path.display()));
    config.registries.iter().flat_map(of).chain(directory).collect()
}

fn paths(registry: &RegistryConfig) -> impl Iterator<Item = &PathBuf> {
    let all = match &registry.source {
        Source::File(fields) => [fields.path.as_ref(), None, None, None, None],
        Source::Kubernetes(fields) => [fields.kubeconfig.as_ref(), None, None, None, None],
        Source::Consul(fields) => {
            let tls = fields.tls.as_ref();
            [
                fields.token_file.as_ref(),
                tls.and_then(|tls| tls.ca_file.as_ref()),
                tls.and_then(|tls| tls.ca_path.as_ref()),
                tls.and_then(|tls| tls.cert_file.as_ref()),
                tls.and_then(|tls| tls.key_file.as_ref()),
            ]
        }
        Source::Registered(_) => [None; 5],
    };
    all.into_iter().flatten()
}

fn text(registry: &RegistryConfig, path: &Path) -> String {
    let name = registry.names().into_iter().next().unwrap_or_default();
    format!("registry {name}: {} does not exist; serve waits for it", path.display())
}

#[cfg(test)]
mod tests {
    use tributary_service_entry::FileFields;

    use super::*;
    use crate::config::RegistryKind;

    #[test]
    fn missing_files_of_registries_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &Path| RegistryConfig::from(Source::File(FileFields { path: Some(path.into()) }));
        let mut consul = RegistryConfig::of_kind(RegistryKind::Consul);
        consul.name = Some("east".to_owned());
        let Source::Consul(fields) = &mut consul.source else { panic!("not of Consul") };
        fields.tls.get_or_insert_default().ca_file = Some("/absent/ca.pem".into());
        let registries = vec![file(dir.path()), file(&dir.path().join("later")), consul];
        let found = warnings(&Config { registries, ..Config::default() });
        let later = dir.path().join("later");
        let expected = [
            format!("registry file: {} does not exist; serve waits for it", later.display()),
            "registry east: /absent/ca.pem does not exist; serve waits for it".to_owned(),
        ];
        assert_eq!(found, expected);
    }
}
