//! The audit of what the watch has delivered: a list of names and versions, compared with the table.
//!
//! Owned by the machine while it follows a watch. What differs is only suspected: the watch may be about to
//! say it. What the watch says of a name after the audit began clears it; what is still suspected when the
//! watch has passed the list's version, or a grace has passed, was lost.

use std::collections::{HashMap, HashSet};

use tributary_model::Mono;

use super::head::Head;
use super::version_table::{Mark, VersionTable};

/// More names than this at odds, or moved while the audit ran: it is given up, or all is read again.
const MOST: usize = 16_384;

/// What came of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Still under way.
    Open,
    /// The watch had delivered everything.
    Clean,
    /// So many events were lost.
    Lost(u64),
    /// Too much moved to tell; nothing is said.
    Moot,
}

/// One audit.
#[derive(Debug)]
pub(crate) struct Audit {
    /// When the page under way was asked for; none when all pages are in.
    pub(crate) asked: Option<Mono>,
    /// What is at odds: the version listed, or none for what the list does not hold.
    suspects: HashMap<u64, Option<u64>>,
    /// What the watch has spoken of since the audit began.
    touched: HashSet<u64>,
    /// When all pages were in, their version and the end of the grace.
    settling: Option<(Option<u64>, Mono)>,
}

impl Audit {
    /// Begins an audit over the table.
    pub(crate) fn begin(table: &mut VersionTable, now: Mono) -> Self {
        table.open();
        Self { asked: Some(now), suspects: HashMap::new(), touched: HashSet::new(), settling: None }
    }
    /// The list holds this object.
    pub(crate) fn item(&mut self, table: &mut VersionTable, head: &Head<'_>) {
        let (key, stamp) = (head.key(), head.stamp());
        if table.see(key, stamp) == Mark::Changed && !self.touched.contains(&key) {
            self.suspect(key, Some(stamp));
        }
    }
    /// The watch spoke of this name.
    pub(crate) fn touch(&mut self, key: u64) {
        self.suspects.remove(&key);
        if self.settling.is_none() && self.touched.len() <= MOST {
            self.touched.insert(key);
        }
    }
    /// All pages are in: what the table holds and they did not is at odds too.
    pub(crate) fn complete(&mut self, table: &VersionTable, version: &str, grace: Mono) {
        self.asked = None;
        for key in table.unseen() {
            if !self.touched.contains(&key) {
                self.suspect(key, None);
            }
        }
        self.settling = Some((version.parse().ok(), grace));
    }
    /// What can be said now, with the watch at this version.
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
    /// When the grace ends, once all pages are in.
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
    fn what_was_lost_is_counted_once_the_watch_has_passed_the_list() {
        let mut table = mk_table(&[("kept", 1), ("changed", 2), ("deleted", 3)]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        for (name, version) in [("kept", 1), ("changed", 5), ("added", 6)] {
            audit.item(&mut table, &mk_head(name, version));
        }
        audit.complete(&table, "9", GRACE);
        assert_eq!(audit.verdict(&table, "8", Mono(10)), Verdict::Open, "the watch may be about to say it");
        assert_eq!(audit.verdict(&table, "9", Mono(10)), Verdict::Lost(3));
        assert_eq!(audit.verdict(&table, "opaque", GRACE), Verdict::Lost(3), "the grace is over");
    }

    #[test]
    fn what_the_watch_says_meanwhile_is_not_lost() {
        let mut table = mk_table(&[("late", 1), ("moved", 2)]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        // the watch is ahead of the page that lists the older version
        let moved = mk_head("moved", 7);
        table.put(moved.key(), moved.stamp());
        audit.touch(moved.key());
        audit.item(&mut table, &mk_head("moved", 2));
        // and behind it for the other
        audit.item(&mut table, &mk_head("late", 8));
        audit.complete(&table, "9", GRACE);
        let late = mk_head("late", 8);
        table.put(late.key(), late.stamp());
        audit.touch(late.key());
        assert_eq!(audit.verdict(&table, "7", Mono(10)), Verdict::Clean);
    }

    #[test]
    fn too_much_motion_is_no_verdict() {
        let mut table = mk_table(&[]);
        let mut audit = Audit::begin(&mut table, Mono(0));
        for key in 0..=(MOST as u64) {
            audit.touch(key);
        }
        audit.complete(&table, "9", GRACE);
        assert_eq!(audit.verdict(&table, "9", Mono(10)), Verdict::Moot);
    }
}
