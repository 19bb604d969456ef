//! Warns of files with a token that every user of the machine may read.
//!
//! Called when all layers have been read. A file that cannot be examined gives no warning: the registry reports it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::model::{Config, Source};
use crate::environment::Environment;

/// Returns a warning for each file with a Consul token that others may read. `file` is the configuration file.
pub fn warnings(config: &Config, file: Option<&Path>, env: &Environment) -> Vec<String> {
    let files = token_files(config, file, env);
    files
        .iter()
        .filter(|path| std::fs::metadata(path).is_ok_and(|m| is_open(m.mode())))
        .map(|p| text(p))
        .collect()
}

/// Whether users other than the owner and the group may read a file of this mode.
const fn is_open(mode: u32) -> bool {
    mode & 0o004 != 0
}

fn token_files(config: &Config, file: Option<&Path>, env: &Environment) -> BTreeSet<PathBuf> {
    let mut out = BTreeSet::new();
    for registry in &config.registries {
        let Source::Consul(fields) = &registry.source else { continue };
        let has_own = fields.token.is_some() || fields.token_file.is_some() || fields.login.is_some();
        let of_variable = env.get("CONSUL_HTTP_TOKEN_FILE").filter(|path| !has_own && !path.is_empty());
        out.extend(fields.token_file.clone().or_else(|| of_variable.map(PathBuf::from)));
        out.extend(file.filter(|_| fields.token.is_some()).map(Path::to_owned));
    }
    out
}

fn text(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} contains a Consul token, and every user of this machine may read it; run `chmod 600 {path}` (a mounted \
         Secret: `defaultMode: 0400`)"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::{RegistryKind, registry::RegistryConfig};

    #[test]
    fn only_files_that_others_may_read_are_open() {
        let open = [0o100_644, 0o100_604, 0o100_444];
        assert!(open.into_iter().all(is_open));
        assert!(![0o100_600, 0o100_640, 0o100_400, 0o100_000].into_iter().any(is_open));
    }

    #[test]
    fn warning_names_each_file_with_a_token_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, "x").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (token, safe, file) = (path("token", 0o644), path("safe", 0o600), path("config.yaml", 0o644));
        let of = |token_file: Option<&Path>| {
            let mut registry = RegistryConfig::of_kind(RegistryKind::Consul);
            let Source::Consul(fields) = &mut registry.source else { panic!("not of Consul") };
            fields.token_file = token_file.map(Path::to_owned);
            registry
        };
        let env = Environment::default();
        let found = |registries: Vec<RegistryConfig>| {
            warnings(&Config { registries, ..Config::default() }, Some(&file), &env)
        };
        let open = found(vec![of(Some(&token)), of(Some(&token)), of(Some(&safe))]);
        assert_eq!(open.len(), 1, "{open:?}");
        assert!(open[0].contains(&format!("chmod 600 {}", token.display())), "{open:?}");
        assert!(found(vec![of(None), of(Some(&safe)), of(Some(Path::new("/absent")))]).is_empty());
        let mut inline = of(None);
        let Source::Consul(fields) = &mut inline.source else { panic!("not of Consul") };
        fields.token = Some("hunter2".into());
        assert!(found(vec![inline]).concat().contains("config.yaml contains"));
    }
}
