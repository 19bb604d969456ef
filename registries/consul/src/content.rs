//! The contents that are followed, each with its digest: what is registered, who is healthy, which checks say what.
//!
//! Made of a decoded answer off the machine's task; order within an answer, the output of checks and their number do
//! not matter, and what is not selected is left out before anything is compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Select;
use crate::watch::{Content, Digest, key_of};
use crate::wire::HealthEntry;
use crate::wire::lists::StateCheck;

/// The selected instances of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances {
    /// Sorted by node and id.
    pub entries: Arc<[HealthEntry]>,
    /// Whether the agent has chosen addresses for its clients already.
    pub translated: bool,
    digest: Digest,
}

impl Instances {
    /// What of an answer is selected.
    #[must_use]
    pub fn new(mut entries: Vec<HealthEntry>, translated: bool, select: &Select) -> Self {
        entries.retain(|entry| select.instance(entry));
        for entry in &mut entries {
            entry.checks.sort();
            entry.service.tags.sort();
        }
        entries.sort_by(|a, b| names(a).cmp(&names(b)).then_with(|| a.cmp(b)));
        let digest = Digest::of(entries.iter().map(|entry| (names(entry), entry)));
        Self { entries: entries.into(), translated, digest }
    }
    /// The hashed names of the nodes that they run on, sorted, each once.
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

/// The selected names, and a hash of each one's tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// By name.
    pub names: Arc<BTreeMap<Arc<str>, u64>>,
    /// Whether what would have names was not found itself.
    pub absent: bool,
    digest: Digest,
}

impl Names {
    /// What of a list is selected.
    #[must_use]
    pub fn new(listed: BTreeMap<String, Vec<String>>, select: &Select) -> Self {
        let mut names = BTreeMap::new();
        for (name, mut tags) in listed {
            if select.service(&name, &tags) {
                tags.sort();
                names.insert(name.into(), key_of(&tags));
            }
        }
        let digest = Digest::of(names.iter());
        Self { names: Arc::new(names), absent: false, digest }
    }
    /// None, of what was not found itself.
    #[must_use]
    pub fn of_nothing() -> Self {
        let names = BTreeMap::new();
        Self { digest: Digest::of(names.iter()), names: Arc::new(names), absent: true }
    }
}

impl Content for Names {
    fn digest(&self) -> Digest {
        self.digest.clone()
    }
}

/// What one check says, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Its node and id.
    pub check: u64,
    /// Its outcome, its service, and when it was registered.
    pub says: u64,
    /// Its node.
    pub node: u64,
    /// Its service; `None` where the node is checked.
    pub service: Option<u64>,
}

/// What all checks say, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// One for each check.
    pub marks: Arc<[Mark]>,
    digest: Digest,
}

impl Marks {
    /// Of a list of checks.
    #[must_use]
    pub fn new(checks: &[StateCheck<'_>]) -> Self {
        let mark = |check: &StateCheck<'_>| Mark {
            check: key_of(&(&*check.node, &*check.check_id, &*check.service_name)),
            says: key_of(&(&*check.status, check.create_index)),
            node: key_of(&*check.node),
            service: (!check.service_name.is_empty()).then(|| key_of(&*check.service_name)),
        };
        let mut marks: Vec<Mark> = checks.iter().map(mark).collect();
        marks.sort_unstable();
        marks.dedup_by_key(|mark| mark.check);
        let hash = Digest::of(marks.iter().map(|mark| (mark.check, &mark.says))).hash;
        // A doorbell's absences are not told to anybody, so that its keys need not be kept.
        Self { marks: marks.into(), digest: Digest { hash, keys: Arc::from([]) } }
    }
    /// The marks that stand in one of both only, or differ.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Mark> {
        let only = |a: &'a [Mark], b: &'a [Mark]| a.iter().filter(move |mark| b.binary_search(mark).is_err());
        only(&self.marks, &other.marks).chain(only(&other.marks, &self.marks))
    }
}

impl Content for Marks {
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
    fn order_makes_no_difference_and_equal_ids_on_two_nodes_are_two() {
        let select = Select::default();
        let (a, b) = (mk_entry("n1", "web"), mk_entry("n2", "web"));
        let one = Instances::new(vec![a.clone(), b.clone()], false, &select);
        let mut turned = vec![b, a];
        turned.iter_mut().for_each(|entry| entry.checks.reverse());
        let two = Instances::new(turned, false, &select);
        assert_eq!(one, two);
        assert_eq!((one.entries.len(), one.digest().keys.len(), one.nodes().len()), (2, 2, 2));
    }

    #[test]
    fn an_outcome_makes_a_difference() {
        let select = Select::default();
        let one = Instances::new(vec![mk_entry("n1", "web")], false, &select);
        let mut entry = mk_entry("n1", "web");
        entry.checks[0].status = "critical".into();
        let two = Instances::new(vec![entry], false, &select);
        assert_ne!(one.digest().hash, two.digest().hash);
        assert_eq!(one.digest().keys, two.digest().keys);
    }

    #[test]
    fn checks_that_differ_are_found_with_their_service_or_node() {
        let check =
            |node: &'static str, id: &'static str, status: &'static str, service: &'static str| StateCheck {
                node: Cow::Borrowed(node),
                check_id: Cow::Borrowed(id),
                status: Cow::Borrowed(status),
                service_name: Cow::Borrowed(service),
                create_index: 1,
            };
        let before = Marks::new(&[check("n", "serf", "passing", ""), check("n", "c", "passing", "web")]);
        let after = Marks::new(&[check("n", "serf", "passing", ""), check("n", "c", "critical", "web")]);
        let services: Vec<_> = after.differing(&before).map(|mark| mark.service).collect();
        assert_eq!(services, [Some(key_of("web")); 2]);
        let gone = Marks::new(&[check("n", "c", "critical", "web")]);
        let nodes: Vec<_> = gone.differing(&after).map(|mark| (mark.node, mark.service)).collect();
        assert_eq!(nodes, [(key_of("n"), None)]);
        assert_eq!(before.differing(&before.clone()).count(), 0);
    }

    #[test]
    fn names_are_selected_and_their_tags_compared() {
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
