//! Which changes wake a session, and which hosts changed since it last ran.

use std::collections::BTreeSet;

use tributary_model::{Hostname, Version};

use crate::answers::ResourceType;

/// Changes that wake a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// Every generation.
    Every,
    /// A change of one of these hosts, sorted; a host need not exist yet.
    Hosts(Vec<Hostname>),
}

impl Interest {
    /// Returns the hosts, sorted; none for every generation.
    #[must_use]
    pub fn hosts(&self) -> &[Hostname] {
        match self {
            Self::Every => &[],
            Self::Hosts(hosts) => hosts,
        }
    }
}

/// Changes published since the last round of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ChangedHosts {
    /// No relevant change.
    #[default]
    Nothing,
    /// These hosts.
    Hosts(BTreeSet<Hostname>),
    /// Any host may have changed.
    Everything,
}

impl ChangedHosts {
    /// Most hosts that are listed; more become `Everything`.
    const MAX: usize = 64;

    /// Adds a host.
    pub fn add(&mut self, host: &Hostname) {
        match self {
            Self::Nothing => *self = Self::Hosts(BTreeSet::from([host.clone()])),
            Self::Hosts(hosts) if hosts.len() >= Self::MAX => *self = Self::Everything,
            Self::Hosts(hosts) => {
                hosts.insert(host.clone());
            }
            Self::Everything => {}
        }
    }
    pub(crate) fn merge(&mut self, more: Self) {
        match more {
            Self::Nothing => {}
            Self::Hosts(hosts) => hosts.iter().for_each(|host| self.add(host)),
            Self::Everything => *self = Self::Everything,
        }
    }
}

/// Maps a host to the subscribed names about it, with eight bytes a name. Two hosts with equal hashes
/// only cost an extra comparison.
#[derive(Debug, Default)]
pub(crate) struct HostIndex(Vec<(u32, u32)>);

impl HostIndex {
    const KIND_SHIFT: u32 = 30;

    pub(crate) fn add(&mut self, host: &Hostname, kind: ResourceType, at: usize) {
        let at = u32::try_from(at).unwrap_or(0) | (kind as u32) << Self::KIND_SHIFT;
        self.0.push((Self::hash(host), at));
    }
    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable();
        self.0.shrink_to_fit();
    }
    /// Returns the positions of a type's names that are about these hosts.
    pub(crate) fn find(&self, hosts: &BTreeSet<Hostname>, kind: ResourceType) -> Vec<usize> {
        let mut out = Vec::new();
        for hash in hosts.iter().map(Self::hash) {
            let start = self.0.partition_point(|(h, _)| *h < hash);
            let of_host = self.0[start..].iter().take_while(|(h, _)| *h == hash);
            let of_kind = of_host.filter(|(_, at)| at >> Self::KIND_SHIFT == kind as u32);
            out.extend(of_kind.map(|(_, at)| (at & ((1 << Self::KIND_SHIFT) - 1)) as usize));
        }
        out
    }
    fn hash(host: &Hostname) -> u32 {
        Version::of(host.as_str().as_bytes()).0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Hostname {
        Hostname::new(name).unwrap()
    }

    #[test]
    fn names_are_found_by_host_and_kind() {
        let mut index = HostIndex::default();
        index.add(&host("a.x"), ResourceType::Endpoints, 7);
        index.add(&host("a.x"), ResourceType::Route, 3);
        index.add(&host("b.x"), ResourceType::Endpoints, 1);
        index.sort();
        let hosts = BTreeSet::from([host("a.x"), host("none.x")]);
        assert_eq!(index.find(&hosts, ResourceType::Endpoints), [7]);
        assert_eq!(index.find(&hosts, ResourceType::Route), [3]);
        assert!(index.find(&hosts, ResourceType::Cluster).is_empty());
    }

    #[test]
    fn hosts_beyond_the_limit_become_everything() {
        let mut touched = ChangedHosts::default();
        (0..ChangedHosts::MAX).for_each(|n| touched.add(&host(&format!("h{n}.x"))));
        assert!(matches!(&touched, ChangedHosts::Hosts(hosts) if hosts.len() == ChangedHosts::MAX));
        touched.add(&host("more.x"));
        assert_eq!(touched, ChangedHosts::Everything);
    }
}
