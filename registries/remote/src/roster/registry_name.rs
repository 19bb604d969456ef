//! The name of a remote cluster's registry.
//!
//! The roster calls it once per cluster. A name leaves room for the suffix of the registry of its custom resources, and no name of a
//! configured registry is given twice. It depends on the key and the configuration only, so that replicas agree; two keys may still
//! give one name, and the roster refuses the later cluster.

use std::collections::BTreeSet;

use ring::digest::{SHA256, digest};
use tributary_model::{ClusterId, RegistryName};

use super::digest::hex;

/// Suffix of the registry that serves the custom resources of a cluster.
pub const ENTRIES: &str = "-entries";
/// Longest name that leaves room for the suffix in the 63 bytes of a registry name.
const LONGEST: usize = 55;
/// Bytes of the key that a derived name keeps.
const KEPT: usize = 46;
/// Bytes of the SHA-256 that a derived name shows.
const SHOWN: usize = 4;

/// Returns the name of a cluster's registry: its key, or 46 bytes of it, `-` and 8 digits of its SHA-256 where the key is longer than
/// 55 bytes, ends in `-entries`, or is the name of a configured registry or of its custom resources.
#[must_use]
pub fn registry_name(cluster: &ClusterId, configured: &BTreeSet<RegistryName>) -> RegistryName {
    let key = cluster.as_str();
    let has_namesake = configured.contains(key) || configured.contains(format!("{key}{ENTRIES}").as_str());
    let is_plain = key.len() <= LONGEST && !key.ends_with(ENTRIES) && !has_namesake;
    let name = if is_plain { key.to_owned() } else { derived(key) };
    RegistryName::new(name).unwrap_or_else(|_| RegistryName::unnamed())
}

fn derived(key: &str) -> String {
    let hash = digest(&SHA256, key.as_bytes());
    let kept: String = key.chars().take(KEPT).collect();
    format!("{kept}-{}", hex(&hash.as_ref()[..SHOWN]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;

    fn named(key: &str, configured: &[&str]) -> String {
        let configured = configured.iter().map(|name| RegistryName::new(name).unwrap()).collect();
        registry_name(&ClusterId::new(key).unwrap(), &configured).to_string()
    }

    #[test]
    fn short_key_is_the_registry_name() {
        assert_eq!(named("east", &[]), "east");
        let longest = "a".repeat(55);
        assert_eq!(named(&longest, &["east"]), longest);
    }

    #[test]
    fn long_reserved_and_configured_keys_get_a_hash() {
        // printf %s KEY | sha256sum
        assert_eq!(named("east", &["east"]), "east-6bdb262b");
        assert_eq!(named("east", &["east-entries"]), "east-6bdb262b");
        let reserved = named("east-entries", &[]);
        assert!(reserved.starts_with("east-entries-") && reserved.len() == 21, "{reserved}");
        let long = named(&"a".repeat(56), &[]);
        assert!(long.starts_with(&format!("{}-", "a".repeat(46))) && long.len() == 55, "{long}");
        assert!(RegistryName::new(format!("{long}{ENTRIES}")).is_ok());
        assert_ne!(long, named(&"a".repeat(57), &[]), "the hash is that of the whole key");
    }
}
