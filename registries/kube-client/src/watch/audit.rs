//! Audit of what the watch delivered: a list of names and versions, compared with the version table.
//!
//! Owned by the machine while it follows a watch. A difference is only a suspicion, because the watch may be about to
//! deliver the event. An event for a name after the audit began clears its suspicion; the suspicions that remain when the
//! watch has passed the list's version, or when the grace period has ended, are lost events.

use std::collections::{HashMap, HashSet};

use tributary_model::Mono;

use super::head::Head;
use super::version_table::{Mark, VersionTable};

/// Largest number of suspects, and of names that changed during the audit. Beyond it the audit is inconclusive.
const MOST: usize = 16_384;

/// Result of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Still running.
    Open,
    /// The watch delivered everything.
    Clean,
    /// The watch lost this number of events.
    Lost(u64),
    /// Inconclusive: too many names changed meanwhile.
    Moot,
}

/// Running audit.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Request time of the current page; `None` once all pages arrived.
    pub(crate) asked: Option<Mono>,
    /// Differing names, with the listed version; `None` for an object that the list lacks.
    suspects: HashMap<u64, Option<u64>>,
    /// Names for which the watch delivered an event since the audit began.
    touched: HashSet<u64>,
    /// Once all pages arrived: their version, and the end of the grace period.
    settling: Option<(Option<u64>, Mono)>,
}

impl Audit {
    /// Begins an audit of the table.
    pub(crate) fn begin(table: &mut VersionTable, now: Mono) -> Self {
        table.open();
        Self { asked: Some(now), suspects: HashMap::new(), touched: HashSet::new(), settling: None }
    }
    /// Compares a listed object.
    pub(crate) fn item(&mut self, table: &mut VersionTable, head: &Head<'_>) {
        let (key, stamp) = (head.key(), head.stamp());
        if table.see(key, stamp) == Mark::Changed && !self.touched.contains(&key) {
            self.suspect(key, Some(stamp));
        }
    }
    /// Notes an event of the watch for this name.
    pub(crate) fn touch(&mut self, key: u64) {
        self.suspects.remove(&key);
        if self.settling.is_none() && self.touched.len() <= MOST {
            self.touched.insert(key);
        }
    }
    /// Ends the list: objects of the table that the list lacks differ too.
    pub(crate) fn complete(&mut self, table: &VersionTable, version: &str, grace: Mono) {
        self.asked = None;
        for key in table.unseen() {
            if !self.touched.contains(&key) {
                self.suspect(key, None);
            }
        }
        self.settling = Some((version.parse().ok(), grace));
    }
    /// Returns the result at this time, with the watch at this version.
    pub(crate) fn verdict(&self, table: &VersionTable, watch_at: &str, now: Mono) -> Verdict {
        let Some((version, grace)) = &self.settling else { return Verdict::Open };
        if self.touched.len() > MOST {
            return Verdict::Moot;
        }
        if self.suspects.is_empty() {
            return Verdict::Clean;
        }
        let passed = |version: &u64| watch_at.parse().is_ok_and(|at: u64| at >= *version);
        if now < *grace && !version.as_ref().is_some_and(passed) {
            return Verdict::Open;
        }
        let lost = self.suspects.iter().filter(|(key, stamp)| !table.holds(**key, **stamp)).count();
        if lost == 0 { Verdict::Clean } else { Verdict::Lost(lost as u64) }
    }
    /// Returns the end of the grace period, once all pages arrived.
    pub(crate) fn grace(&self) -> Option<Mono> {
        self.settling.as_ref().map(|(_, grace)| *grace)
    }

    fn suspect(&mut self, key: u64, stamp: Option<u64>) {
        if self.suspects.len() < MOST {
            self.suspects.insert(key, stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_head(name: &str, version: u64) -> Head<'static> {
        Head { namespace: "".into(), name: name.to_owned().into(), version: version.to_string().into() }
    }

    fn mk_table(names: &[(&str, u64)]) -> VersionTable {
        let mut table = VersionTable::default();
        for (name, version) in names {
            let head = mk_head(name, *version);
            table.put(head.key(), head.stamp());
        }
        table
    }

    const GRACE: Mono = Mono(1_000);

    #[test]
    fn losses_count_once_the_watch_passes_the_list() {
        let mut table = mk_table(&[("kept", 1), ("changed", 2), ("deleted", 3)]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        for (name, version) in [("kept", 1), ("changed", 5), ("added", 6)] {
            audit.item(&mut table, &mk_head(name, version));
        }
        audit.complete(&table, "9", GRACE);
        assert_eq!(audit.verdict(&table, "8", Mono(10)), Verdict::Open, "the watch may still deliver it");
        assert_eq!(audit.verdict(&table, "9", Mono(10)), Verdict::Lost(3));
        assert_eq!(audit.verdict(&table, "opaque", GRACE), Verdict::Lost(3), "the grace is over");
    }

    #[test]
    fn events_during_the_audit_are_not_lost() {
        let mut table = mk_table(&[("late", 1), ("moved", 2)]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        // the watch is ahead of the page that lists the older version
        let moved = mk_head("moved", 7);
        table.put(moved.key(), moved.stamp());
        audit.touch(moved.key());
        audit.item(&mut table, &mk_head("moved", 2));
        // and behind it for the other name
        audit.item(&mut table, &mk_head("late", 8));
        audit.complete(&table, "9", GRACE);
        let late = mk_head("late", 8);
        table.put(late.key(), late.stamp());
        audit.touch(late.key());
        assert_eq!(audit.verdict(&table, "7", Mono(10)), Verdict::Clean);
    }

    #[test]
    fn too_many_changes_are_inconclusive() {
        let mut table = mk_table(&[]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        for key in 0..=(MOST as u64) {
            audit.touch(key);
        }
        audit.complete(&table, "9", GRACE);
        assert_eq!(audit.verdict(&table, "9", Mono(10)), Verdict::Moot);
    }
}
