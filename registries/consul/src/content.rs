//! Contents that are followed, each with its digest: instances, names, and check results.
//!
//! Built from decoded answers, outside the machine's task. The order within an answer and the output of checks do not
//! matter. What is not selected is removed before comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Select;
use crate::map::service_of;
use crate::watch::{Content, Digest, key_of};
use crate::wire::HealthEntry;
use crate::wire::lists::StateCheck;

/// Selected instances of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances {
    /// Entries sorted by node and id.
    pub entries: Arc<[HealthEntry]>,
    /// Whether the agent has already selected addresses for its clients.
    pub translated: bool,
    digest: Digest,
}

impl Instances {
    /// Selects the instances of an answer.
    #[must_use]
    pub fn new(mut entries: Vec<HealthEntry>, translated: bool, select: &Select) -> Self {
        entries.retain(|entry| entry.service.is_plain() && select.instance(entry));
        for entry in &mut entries {
            entry.checks.sort();
            entry.service.tags.sort();
        }
        entries.sort_by(|a, b| names(a).cmp(&names(b)).then_with(|| a.cmp(b)));
        let digest = Digest::of(entries.iter().map(|entry| (names(entry), entry)));
        Self { entries: entries.into(), translated, digest }
    }
    /// Returns the hashed names of the instances' nodes, sorted, without duplicates.
    #[must_use]
    pub fn nodes(&self) -> Box<[u64]> {
        let mut nodes: Vec<u64> = self.entries.iter().map(|entry| key_of(&*entry.node.node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into()
    }
}

fn names(entry: &HealthEntry) -> (&str, &str) {
    (&entry.node.node, &entry.service.id)
}

impl Content for Instances {
    fn digest(&self) -> Digest {
        self.digest.clone()
    }
}

/// Name in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Hash of the tags.
    pub tags: u64,
    /// Whether the selection names exactly this service.
    pub named: bool,
}

/// Selected names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// What is listed, by name.
    pub names: Arc<BTreeMap<Arc<str>, Listed>>,
    /// Those that have a sidecar; `None` if that is unknown. Not a part of the comparison.
    pub with_sidecar: Option<Arc<BTreeSet<Arc<str>>>>,
    /// Whether the object that holds the names was not found.
    pub absent: bool,
    digest: Digest,
}

impl Names {
    /// Selects the names of a list.
    #[must_use]
    pub fn new(listed: BTreeMap<String, Vec<String>>, select: &Select) -> Self {
        let mut names = BTreeMap::new();
        for (name, mut tags) in listed {
            if select.service(&name, &tags) {
                tags.sort();
                let named = select.names_exactly(&name);
                names.insert(name.into(), Listed { tags: key_of(&tags), named });
            }
        }
        let digest = Digest::of(names.iter().map(|(name, listed)| (name, &listed.tags)));
        Self { names: Arc::new(names), with_sidecar: None, absent: false, digest }
    }
    /// Adds which of the names have a sidecar, from a list of proxies.
    #[must_use]
    pub fn with_sidecars(mut self, proxies: &BTreeMap<String, Vec<String>>) -> Self {
        let service =
            |proxy: &String| self.names.get_key_value(service_of(proxy)?).map(|(name, _)| Arc::clone(name));
        self.with_sidecar = Some(Arc::new(proxies.keys().filter_map(service).collect()));
        self
    }
    /// Returns the empty list of an object that was not found.
    #[must_use]
    pub fn of_nothing() -> Self {
        let names = BTreeMap::new();
        Self { absent: true, ..Self::new(names, &Select::default()) }
    }
}

impl Content for Names {
    fn digest(&self) -> Digest {
        self.digest.clone()
    }
}

/// Hashed state of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckState {
    /// Hash of node, check id and service.
    pub check: u64,
    /// Hash of status and creation index.
    pub state: u64,
    /// Hash of the node.
    pub node: u64,
    /// Hash of the service; `None` for a node check.
    pub service: Option<u64>,
    /// Index of the last change. Not a part of the comparison: a change of the output moves it too.
    pub modified: u64,
}

/// Maximum indexes of checks that are kept of one kind.
pub const NEWEST: usize = 1_024;

/// Returns the highest indexes, ascending.
pub(crate) fn newest(mut indexes: Vec<u64>) -> Arc<[u64]> {
    indexes.sort_unstable();
    indexes.dedup();
    let first = indexes.len().saturating_sub(NEWEST);
    indexes.drain(..first);
    indexes.into()
}

/// States of all checks, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStates {
    /// One entry for each check.
    pub marks: Arc<[CheckState]>,
    /// Creation indexes of the newest checks, ascending.
    pub created: Arc<[u64]>,
    digest: Digest,
}

impl CheckStates {
    /// Hashes a list of checks.
    #[must_use]
    pub fn new(checks: &[StateCheck<'_>]) -> Self {
        let mark = |check: &StateCheck<'_>| CheckState {
            check: key_of(&(&*check.node, &*check.check_id, &*check.service_name)),
            state: key_of(&(&*check.status, check.create_index)),
            node: key_of(&*check.node),
            service: (!check.service_name.is_empty()).then(|| key_of(&*check.service_name)),
            modified: check.modify_index,
        };
        let mut marks: Vec<CheckState> = checks.iter().map(mark).collect();
        marks.sort_unstable();
        marks.dedup_by_key(|mark| mark.check);
        let hash = Digest::of(marks.iter().map(|mark| (mark.check, &mark.state))).hash;
        // Absences in the list of checks are not reported, so the keys need not be kept.
        let created = newest(checks.iter().map(|check| check.create_index).collect());
        Self { marks: marks.into(), created, digest: Digest { hash, keys: Arc::from([]) } }
    }
    /// Returns how many pairs of node and service have a check in the other list that this one lacks.
    #[must_use]
    pub fn removed_since(&self, before: &Self) -> usize {
        let gone = before.marks.iter().filter(|mark| self.state_of(mark.check).is_none());
        gone.map(|mark| (mark.node, mark.service)).collect::<BTreeSet<_>>().len()
    }
    /// Returns the indexes at which the checks changed whose state differs from the one in the other list.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<u64> {
        let is_changed =
            |mark: &&CheckState| before.state_of(mark.check).is_some_and(|state| state != mark.state);
        self.marks.iter().filter(is_changed).map(|mark| mark.modified).collect()
    }
    fn state_of(&self, check: u64) -> Option<u64> {
        let at = self.marks.binary_search_by_key(&check, |own| own.check).ok()?;
        self.marks.get(at).map(|mark| mark.state)
    }
    /// Returns the entries that are in only one of the two lists or differ.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a CheckState> {
        let only = |a: &'a Self, b: &'a Self| {
            a.marks.iter().filter(|mark| b.state_of(mark.check) != Some(mark.state))
        };
        only(self, other).chain(only(other, self))
    }
}

impl Content for CheckStates {
    fn digest(&self) -> Digest {
        self.digest.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::wire::Check;

    fn mk_entry(node: &str, id: &str) -> HealthEntry {
        let mut entry = HealthEntry::default();
        (entry.node.node, entry.service.id) = (node.into(), id.into());
        let check = |id: &str| Check { check_id: id.into(), status: "passing".into() };
        entry.checks = vec![check("a"), check("b")];
        entry
    }

    #[test]
    fn order_does_not_matter_and_nodes_separate_equal_ids() {
        let select = Select::default();
        let (a, b) = (mk_entry("n1", "web"), mk_entry("n2", "web"));
        let one = Instances::new(vec![a.clone(), b.clone()], false, &select);
        let mut reversed = vec![b, a];
        reversed.iter_mut().for_each(|entry| entry.checks.reverse());
        let two = Instances::new(reversed, false, &select);
        assert_eq!(one, two);
        assert_eq!((one.entries.len(), one.digest().keys.len(), one.nodes().len()), (2, 2, 2));
    }

    #[test]
    fn proxies_are_no_instances() {
        let mut proxy = mk_entry("n1", "web-sidecar-proxy");
        proxy.service.kind = "connect-proxy".into();
        let instances = Instances::new(vec![proxy, mk_entry("n1", "web")], false, &Select::default());
        assert_eq!(instances.entries.iter().map(|e| &*e.service.id).collect::<Vec<_>>(), ["web"]);
    }

    #[test]
    fn check_status_changes_the_digest() {
        let select = Select::default();
        let one = Instances::new(vec![mk_entry("n1", "web")], false, &select);
        let mut entry = mk_entry("n1", "web");
        entry.checks[0].status = "critical".into();
        let two = Instances::new(vec![entry], false, &select);
        assert_ne!(one.digest().hash, two.digest().hash);
        assert_eq!(one.digest().keys, two.digest().keys);
    }

    #[test]
    fn differing_checks_name_their_service_or_node() {
        let check =
            |node: &'static str, id: &'static str, status: &'static str, service: &'static str| StateCheck {
                node: Cow::Borrowed(node),
                check_id: Cow::Borrowed(id),
                status: Cow::Borrowed(status),
                service_name: Cow::Borrowed(service),
                create_index: 1,
                modify_index: 2,
            };
        let before =
            CheckStates::new(&[check("n", "serf", "passing", ""), check("n", "c", "passing", "web")]);
        let after =
            CheckStates::new(&[check("n", "serf", "passing", ""), check("n", "c", "critical", "web")]);
        let services: Vec<_> = after.differing(&before).map(|mark| mark.service).collect();
        assert_eq!(services, [Some(key_of("web")); 2]);
        assert_eq!((after.changed_since(&before), before.changed_since(&before)), (vec![2], vec![]));
        let gone = CheckStates::new(&[check("n", "c", "critical", "web")]);
        let nodes: Vec<_> = gone.differing(&after).map(|mark| (mark.node, mark.service)).collect();
        assert_eq!(nodes, [(key_of("n"), None)]);
        assert_eq!(before.differing(&before.clone()).count(), 0);
    }

    #[test]
    fn names_are_selected_and_tags_compared() {
        let list = |tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            Names::new([("web".to_owned(), tags), ("consul".to_owned(), vec![])].into(), &Select::default())
        };
        assert_eq!(list(&["a", "b"]), list(&["b", "a"]));
        assert_eq!(list(&[]).names.len(), 1);
        assert_ne!(list(&["a"]).digest().hash, list(&[]).digest().hash);
        assert_eq!(list(&["a"]).digest().keys, list(&[]).digest().keys);
    }
}
