//! Seeds of random pauses and audits.
//!
//! The application computes one per registry; each watch mixes its kind in. So replicas, registries and kinds do not pause
//! and audit in step.

use tributary_model::{RegistryName, Version};

/// Returns the seed of a registry in a process on a host. Containers often have the same process id on every host.
#[must_use]
pub fn seed(host: &str, process: u32, registry: &RegistryName) -> u64 {
    let process = process.to_le_bytes();
    Version::of_all([host.as_bytes(), &process, registry.as_str().as_bytes()].map(Version::of)).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn seeds_differ_by_host_and_registry() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let hosts = ["tributary-0", "tributary-1"];
        let registries = [name("east"), name("west")];
        let seeds = hosts.iter().flat_map(|host| registries.iter().map(|registry| seed(host, 1, registry)));
        assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(seed(hosts[0], 1, &registries[0]), seed(hosts[0], 1, &registries[0]));
    }
}
