//! Logs each object that gets a problem, and the end of the problem; both are entries of the timeline, too.
//!
//! The status log calls it after each change of a status and passes the time. It keeps the problems that it knows;
//! their number and the number of lines a minute are bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_core::ProblemView;
use tributary_model::{Code, Mono, ObjectId, RegistryName};

use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Maximum number of problems that are compared.
pub const MOST_PROBLEMS: usize = 10_000;
/// Maximum number of lines in an interval; one summary may follow them.
const MOST_LINES: u32 = 20;
/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(60);

type Key = (RegistryName, ObjectId);

/// Problems that were logged or counted in a summary, and the budget of lines.
#[derive(Debug, Default)]
pub struct ProblemLog {
    known: BTreeMap<Key, Code>,
    budget: Budget,
}

/// Change of an object's problem.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change<'a> {
    Begun(&'a ProblemView),
    Ended(Key),
}

/// Lines that are left in the current interval.
#[derive(Debug, Default)]
struct Budget {
    since: Option<Mono>,
    used: u32,
    is_summed_up: bool,
}

impl Budget {
    /// Starts a new interval if the last one has passed.
    fn renew(&mut self, now: Mono) {
        if self.since.is_none_or(|since| now.since(since) >= INTERVAL) {
            *self = Self { since: Some(now), ..Self::default() };
        }
    }
    /// Takes up to this many lines; returns how many may be written.
    fn take(&mut self, wanted: usize) -> usize {
        let left = MOST_LINES.saturating_sub(self.used);
        let taken = left.min(u32::try_from(wanted).unwrap_or(u32::MAX));
        self.used += taken;
        taken as usize
    }
}

impl ProblemLog {
    /// Logs the changes since the last call, and returns them as entries of the timeline. Beyond the bound of an interval one line and
    /// one entry sum them up.
    pub fn compare(
        &mut self,
        now: Mono,
        problems: &[ProblemView],
        is_configured: impl Fn(&str) -> bool,
    ) -> Vec<TimelineItem> {
        let changes = self.changes(problems, is_configured);
        self.budget.renew(now);
        let lines = self.budget.take(changes.len());
        changes.iter().take(lines).for_each(write);
        let mut entries: Vec<TimelineItem> = changes.iter().take(lines).map(entry).collect();
        let unlogged = changes.len() - lines;
        if unlogged > 0 && !std::mem::replace(&mut self.budget.is_summed_up, true) {
            tracing::warn!(
                unlogged,
                problems = self.known.len(),
                within = ?INTERVAL,
                "problems of more objects changed than are logged; list them with `tributary get registries -o wide`"
            );
            entries.push(sum(unlogged));
        }
        entries
    }
    /// Returns the objects that got a problem, or one with another code, and those whose problem ended. A removed
    /// registry's problems are forgotten. An object that waits for its pod is not invalid, and not listed.
    fn changes<'a>(
        &mut self,
        problems: &'a [ProblemView],
        is_configured: impl Fn(&str) -> bool,
    ) -> Vec<Change<'a>> {
        let key = |view: &ProblemView| (view.registry.clone(), view.object.id.clone());
        let is_compared = |view: &&ProblemView| {
            view.problem.code != Code::POD_NOT_SEEN && is_configured(view.registry.as_str())
        };
        let now: BTreeMap<Key, &ProblemView> =
            problems.iter().take(MOST_PROBLEMS).filter(is_compared).map(|view| (key(view), view)).collect();
        let begun = now.iter().filter(|(key, view)| self.known.get(*key) != Some(&view.problem.code));
        let mut begun: Vec<&ProblemView> = begun.map(|(_, view)| *view).collect();
        // objects whose kind is not served may be many, and must not take the lines of the others
        begun.sort_by_key(|view| view.problem.code == Code::KIND_NOT_SERVED);
        let begun = begun.into_iter().map(Change::Begun);
        // of more problems than are compared, any may be missing here
        let is_whole = problems.len() <= MOST_PROBLEMS;
        let ended = self.known.keys().filter(|key| is_whole && !now.contains_key(*key));
        let ended = ended.filter(|(registry, _)| is_configured(registry.as_str()));
        let changes = begun.chain(ended.cloned().map(Change::Ended)).collect();
        self.known = now.into_iter().map(|(key, view)| (key, view.problem.code)).collect();
        changes
    }
}

/// Returns the entry of the timeline.
fn entry(change: &Change<'_>) -> TimelineItem {
    let about = |registry: &RegistryName, object: &ObjectId| {
        let name = if object.namespace.is_empty() {
            object.name.to_string()
        } else {
            format!("{}/{}", object.namespace, object.name)
        };
        TimelineItem {
            kind: TimelineKind::Problem,
            object: TimelineObject::new(object.kind, name),
            registry: registry.to_string(),
            ..TimelineItem::default()
        }
    };
    match change {
        Change::Begun(ProblemView { registry, object, problem, .. }) => {
            let is_unserved = problem.code == Code::KIND_NOT_SERVED;
            TimelineItem {
                severity: if is_unserved { TimelineSeverity::Info } else { TimelineSeverity::Warning },
                message: problem.message.to_string(),
                code: problem.code.to_string(),
                ..about(registry, &object.id)
            }
        }
        Change::Ended((registry, object)) => {
            TimelineItem { message: "valid again, or removed".to_owned(), ..about(registry, object) }
        }
    }
}

/// Returns the entry about changes that have none of their own.
fn sum(count: usize) -> TimelineItem {
    TimelineItem {
        kind: TimelineKind::Problem,
        severity: TimelineSeverity::Warning,
        message: format!("problems of {count} more objects changed; see `tributary get registries -o wide`"),
        ..TimelineItem::default()
    }
}

fn write(change: &Change<'_>) {
    match change {
        Change::Begun(ProblemView { registry, object, problem, .. }) => {
            let position = Some(object.position.text()).filter(|position| !position.is_empty());
            let position = position.as_deref();
            tracing::warn!(
                %registry, object = %object.id, position, code = %problem.code, reason = &*problem.message,
                "object has a problem"
            );
        }
        Change::Ended((registry, object)) => {
            tracing::info!(%registry, %object, "problem of an object ended; it is valid or was removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{ObjectRef, Problem};

    use super::*;

    fn mk_problem(name: &str, code: Code) -> ProblemView {
        ProblemView {
            registry: RegistryName::new("file").unwrap(),
            object: ObjectRef::new(ObjectId::new("ServiceEntry", "shop", name)),
            problem: Problem { code, message: "bad".into() },
            since: 0,
        }
    }

    fn names(changes: &[Change<'_>]) -> Vec<String> {
        let name = |change: &Change<'_>| match change {
            Change::Begun(view) => format!("+{}", view.object.id.name),
            Change::Ended((_, id)) => format!("-{}", id.name),
        };
        changes.iter().map(name).collect()
    }

    #[test]
    fn problem_is_logged_once_at_its_start_and_its_end() {
        let mut log = ProblemLog::default();
        let mut look = |problems: &[ProblemView]| names(&log.changes(problems, |_| true));
        let [a, b] = ["a", "b"].map(|name| mk_problem(name, Code::INVALID_HOST));
        assert_eq!(look(std::slice::from_ref(&a)), ["+a"]);
        assert_eq!(look(&[a.clone(), b.clone()]), ["+b"]);
        let moved = Problem { message: "the same, on another line".into(), ..a.problem.clone() };
        assert!(look(&[ProblemView { problem: moved, ..a.clone() }, b.clone()]).is_empty());
        assert_eq!(
            look(&[mk_problem("a", Code::INVALID_PORT), b]),
            ["+a"],
            "a different code is a new problem"
        );
        assert_eq!(look(&[mk_problem("a", Code::INVALID_PORT)]), ["-b"]);
    }

    #[test]
    fn objects_of_unserved_kinds_are_logged_last() {
        let all = [mk_problem("a", Code::KIND_NOT_SERVED), mk_problem("b", Code::INVALID_HOST)];
        assert_eq!(names(&ProblemLog::default().changes(&all, |_| true)), ["+b", "+a"]);
    }

    #[test]
    fn waiting_object_and_removed_registry_are_not_logged() {
        let mut log = ProblemLog::default();
        assert!(log.changes(&[mk_problem("a", Code::POD_NOT_SEEN)], |_| true).is_empty());
        assert_eq!(names(&log.changes(&[mk_problem("a", Code::INVALID_HOST)], |_| true)), ["+a"]);
        assert!(log.changes(&[], |_| false).is_empty());
        assert!(log.known.is_empty());
    }

    #[test]
    fn lines_of_an_interval_are_bounded() {
        let mut budget = Budget::default();
        let most = MOST_LINES as usize;
        budget.renew(Mono(5));
        assert_eq!([budget.take(most - 1), budget.take(9), budget.take(9)], [most - 1, 1, 0]);
        budget.renew(Mono(59_000));
        assert_eq!(budget.take(1), 0);
        budget.renew(Mono(60_005));
        assert_eq!(budget.take(1), 1);
    }

    #[test]
    fn quarantined_object_is_in_the_timeline_until_it_is_valid() {
        let mut log = ProblemLog::default();
        let begun = log.compare(Mono(1), &[mk_problem("a", Code::INVALID_HOST)], |_| true);
        assert_eq!(begun.len(), 1);
        let object = begun[0].object.clone().map(|object| (object.kind, object.name));
        assert_eq!(object, Some(("ServiceEntry".to_owned(), "shop/a".to_owned())));
        assert_eq!((&*begun[0].message, begun[0].severity), ("bad", TimelineSeverity::Warning));
        assert_eq!((&*begun[0].code, &*begun[0].registry), (&*Code::INVALID_HOST.to_string(), "file"));
        let ended = log.compare(Mono(2), &[], |_| true);
        assert_eq!((ended.len(), ended[0].severity), (1, TimelineSeverity::Info));
        let many: Vec<_> = (0..100).map(|at| mk_problem(&format!("o{at}"), Code::INVALID_HOST)).collect();
        let entries = log.compare(Mono(3), &many, |_| true);
        assert_eq!(entries.len(), MOST_LINES as usize - 2 + 1, "the rest of the interval, and the sum");
        assert!(entries.last().unwrap().message.starts_with("problems of 82 more objects"), "{entries:?}");
        assert!(log.compare(Mono(4), &[], |_| true).is_empty(), "one sum in an interval");
    }

    #[test]
    fn problems_beyond_the_bound_do_not_end() {
        let mut log = ProblemLog::default();
        let many: Vec<_> =
            (0..=MOST_PROBLEMS).map(|at| mk_problem(&format!("o{at}"), Code::INVALID_HOST)).collect();
        assert_eq!(log.changes(&many, |_| true).len(), MOST_PROBLEMS);
        let more = (0..2).map(|at| mk_problem(&format!("p{at}"), Code::INVALID_HOST));
        let later: Vec<_> = more.chain(many).collect();
        assert!(log.changes(&later, |_| true).iter().all(|change| matches!(change, Change::Begun(_))));
    }
}
