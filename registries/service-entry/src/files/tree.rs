//! The state of a directory, and the meaning of a listing. Owned by [`super::source`].
//!
//! Pure: time and listings are parameters. One listing never removes an object: an object that it lacks
//! is missing, and removed when a later listing of the same directory, `confirm` later, agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Code, Completeness, Evidence, Mono, ObjectId, ObjectRef, Position, Problem, Scope, SourceState,
    SourceStatus,
};

use super::contents::{Contents, PlacedDocument};
use super::document_claims::{DocumentClaim, Served, Verdict, decide};
use super::walk::{DirId, Fault, Listing, Seen, Stamps, Walk};
use crate::document::Object;
use crate::read::identity::ObjectIdentity;
use crate::read::load;
use crate::source::{Change, SourceEvent};

/// The state of a directory.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Arc<str>,
    scope: Scope,
    confirm: Duration,
    dir: Option<DirId>,
    /// Stamps by which unchanged files are recognized; always those of `files`.
    stamps: Stamps,
    files: BTreeMap<PathBuf, Contents>,
    served: BTreeMap<ObjectId, Served>,
    problems: BTreeMap<ObjectId, (ObjectRef, Problem)>,
    phase: Phase,
    state: Option<SourceStatus>,
}

/// Progress of the list of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No listing yet.
    Unlisted,
    /// Listed once, at this time; a second listing proves what the first lacked.
    Listed(Mono),
    /// The end of the list has been reported.
    Ended(Completeness),
}

/// The result of a listing.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Events to report, in order.
    pub(crate) events: Vec<SourceEvent>,
    /// Whether to look again after `confirm`.
    pub(crate) again: bool,
}

impl Tree {
    /// Creates an empty state. `root` is the directory's name in messages.
    pub(crate) fn new(root: Arc<str>, scope: Scope, confirm: Duration) -> Self {
        Self {
            root,
            scope,
            confirm,
            dir: None,
            stamps: Stamps::default(),
            files: BTreeMap::new(),
            served: BTreeMap::new(),
            problems: BTreeMap::new(),
            phase: Phase::Unlisted,
            state: None,
        }
    }

    /// The stamps with which the next walk compares files.
    pub(crate) fn stamps(&self) -> Stamps {
        self.stamps.clone()
    }
    /// Applies a listing.
    pub(crate) fn observe(&mut self, listing: Listing, now: Mono) -> Step {
        match listing {
            Listing::Unreadable(state, why) => self.unreadable(state, &why),
            Listing::Walked(walk) => match self.replacement(&walk) {
                Some(why) => self.unreadable(SourceState::Broken, &why),
                None => self.walked(walk, now),
            },
        }
    }

    /// Handles an unreadable directory: all facts stay, and missing objects must be missed again.
    fn unreadable(&mut self, state: SourceState, why: &str) -> Step {
        self.served.values_mut().for_each(|served| served.missing = None);
        if matches!(self.phase, Phase::Listed(_)) {
            self.phase = Phase::Unlisted;
        }
        let mut step = Step::default();
        self.status(state, why, &mut step.events);
        step
    }

    /// Whether a different directory has the same name and lacks a served file. A directory with all served
    /// files counts as moved.
    fn replacement(&self, walk: &Walk) -> Option<String> {
        if self.dir.is_none_or(|dir| dir == walk.dir) {
            return None;
        }
        let files: BTreeSet<&Path> = self.served.values().map(|served| &*served.file).collect();
        let lost: Vec<_> = files.into_iter().filter(|file| !walk.files.contains_key(*file)).collect();
        let first = lost.first()?;
        Some(format!(
            "a different directory is at {}, without {} of the served files ({}); put them back, or restart to serve it as it is",
            self.root,
            lost.len(),
            first.display()
        ))
    }

    fn walked(&mut self, walk: Walk, now: Mono) -> Step {
        let mut step = Step::default();
        let events = &mut step.events;
        if self.phase == Phase::Unlisted {
            events.push(SourceEvent::ListStarted(self.scope.clone()));
            events.extend(self.served.values().map(|served| {
                let new = served.object.clone();
                SourceEvent::Changed(self.scope.clone(), Change::Updated { old: None, new })
            }));
        }
        self.dir = Some(walk.dir);
        let whole = walk.faults.is_empty();
        self.stamps = walk.stamps;
        self.take(walk.files);
        step.again = self.settle(whole, now, events);
        self.report_problems(&walk.faults, events);
        match walk.faults.first() {
            None => self.status(SourceState::Live, "", events),
            Some(fault) => self.status(fault.state, &fault.why, events),
        }
        step.again |= self.end_of_list(whole, now, events);
        step
    }

    /// Applies the contents of files; forgets unlisted files, but not their objects.
    fn take(&mut self, files: BTreeMap<PathBuf, Seen>) {
        self.files.retain(|path, _| files.contains_key(path));
        for (path, seen) in files {
            let contents =
                self.files.entry(path).or_insert_with_key(|path| Contents::unread(&self.root, path));
            match seen {
                Seen::Same => {}
                Seen::Text(text) => contents.update(&text),
                Seen::Failed(code, why) => contents.fail(code, &why),
            }
        }
    }

    /// Decides on every object; returns whether one is missing.
    fn settle(&mut self, whole: bool, now: Mono, events: &mut Vec<SourceEvent>) -> bool {
        let mut again = false;
        let verdicts = self.verdicts(whole, now);
        for (id, verdict, object) in verdicts {
            match verdict {
                Verdict::Keep => self.found(&id),
                Verdict::Missing => {
                    again = true;
                    if let Some(served) = self.served.get_mut(&id) {
                        served.missing.get_or_insert(now);
                    }
                }
                Verdict::Removed => events.extend(self.gone(&id)),
                Verdict::Serve(_) => events.extend(object.and_then(|served| self.serve(id, served))),
            }
        }
        again
    }

    fn verdicts(&self, whole: bool, now: Mono) -> Vec<(ObjectId, Verdict, Option<Served>)> {
        let claims = self.claims();
        let ids: BTreeSet<&ObjectId> = claims.keys().copied().chain(self.served.keys()).collect();
        let mut verdicts = Vec::new();
        for id in ids {
            let claims = claims.get(id).map_or(&[][..], |claims| claims);
            let served = self.served.get(id);
            let unclear = served.is_some_and(|s| self.files.get(&s.file).is_some_and(Contents::is_unclear));
            let verdict = decide(claims, served, whole && !unclear, now, self.confirm);
            let claim = if let Verdict::Serve(i) = verdict { claims.get(i) } else { None };
            let unchanged = claim.is_some_and(|claim| served.is_some_and(|served| served.is(claim)));
            if !unchanged {
                verdicts.push((id.clone(), verdict, claim.and_then(DocumentClaim::served)));
            }
        }
        verdicts
    }

    fn claims(&self) -> BTreeMap<&ObjectId, Vec<DocumentClaim<'_>>> {
        let mut claims: BTreeMap<&ObjectId, Vec<DocumentClaim<'_>>> = BTreeMap::new();
        for (file, contents) in &self.files {
            for placed in &contents.documents {
                if let ObjectIdentity::Object(id) = &placed.read.identity {
                    claims.entry(id).or_default().push(DocumentClaim { file, contents, placed });
                }
            }
        }
        claims
    }

    fn found(&mut self, id: &ObjectId) {
        if let Some(served) = self.served.get_mut(id) {
            served.missing = None;
        }
    }

    fn gone(&mut self, id: &ObjectId) -> Option<SourceEvent> {
        let old = self.served.remove(id)?.object;
        Some(SourceEvent::Changed(self.scope.clone(), Change::Removed { old, evidence: Evidence::Confirmed }))
    }

    /// Serves a document; returns an event if it differs or moved.
    fn serve(&mut self, id: ObjectId, new: Served) -> Option<SourceEvent> {
        let object = new.object.clone();
        let old = self.served.insert(id, new).map(|served| served.object);
        let is_known = |old: &Object| old.document == object.document && old.position == object.position;
        if old.as_ref().is_some_and(is_known) {
            return None;
        }
        Some(SourceEvent::Changed(self.scope.clone(), Change::Updated { old, new: object }))
    }

    /// Reports the end of the list once a second listing confirms the first, and again when it becomes
    /// complete; returns whether to look again for that.
    fn end_of_list(&mut self, whole: bool, now: Mono, events: &mut Vec<SourceEvent>) -> bool {
        let is_unclear = || self.files.values().any(Contents::is_unclear);
        let how = match whole {
            false => Completeness::Partial,
            true if is_unclear() => Completeness::ExceptInvalid,
            true => Completeness::Complete,
        };
        match self.phase {
            Phase::Unlisted => {
                self.phase = Phase::Listed(now);
                return true;
            }
            Phase::Listed(since) if now.since(since) < self.confirm => return true,
            Phase::Ended(Completeness::Complete) => events.push(SourceEvent::Confirmed(self.scope.clone())),
            Phase::Ended(reported) if reported == how => {
                events.push(SourceEvent::Confirmed(self.scope.clone()))
            }
            Phase::Listed(_) | Phase::Ended(_) => {
                self.phase = Phase::Ended(how);
                events.push(SourceEvent::ListEnded(self.scope.clone(), how));
            }
        }
        false
    }

    fn status(&mut self, state: SourceState, why: &str, events: &mut Vec<SourceEvent>) {
        let status = SourceStatus::new(state, why);
        if self.state.as_ref() == Some(&status) {
            return;
        }
        let back = self.state.as_ref().is_some_and(|was| was.state != SourceState::Live);
        events.push(SourceEvent::Status(self.scope.clone(), status.clone()));
        self.state = Some(status);
        // A partial list is live again only after its end is reported again.
        if let (true, SourceState::Live, Phase::Ended(how)) = (back, state, self.phase) {
            events.push(SourceEvent::ListEnded(self.scope.clone(), how));
        }
    }

    /// Reports problems that began, changed or ended.
    fn report_problems(&mut self, faults: &[Fault], events: &mut Vec<SourceEvent>) {
        let now = self.find_problems(faults);
        for (id, (object, problem)) in &now {
            let known = self.problems.get(id);
            if known.is_none_or(|(o, p)| p != problem || o.position.text() != object.position.text()) {
                events.push(SourceEvent::Problem(self.scope.clone(), object.clone(), Some(problem.clone())));
            }
        }
        for (id, (object, _)) in &self.problems {
            if !now.contains_key(id) {
                events.push(SourceEvent::Problem(self.scope.clone(), object.clone(), None));
            }
        }
        self.problems = now;
    }

    fn find_problems(&self, faults: &[Fault]) -> BTreeMap<ObjectId, (ObjectRef, Problem)> {
        let mut found = Found::default();
        for (index, fault) in faults.iter().enumerate() {
            let id = ObjectId::new("Directory", "", format!("{}#{index}", self.root));
            found.add(ObjectRef::new(id), Problem { code: fault.code, message: fault.why.as_str().into() });
        }
        for contents in self.files.values() {
            found.extend(contents.fault.clone().map(|problem| (contents.reference(), problem)));
            for (index, placed) in contents.documents.iter().enumerate() {
                if let Some(problem) = contents.problem(placed) {
                    let id = load::named(&placed.read.identity, &contents.name, index);
                    found.add(ObjectRef { id, position: Position::new(contents.position(placed)) }, problem);
                }
            }
        }
        for (id, claims) in self.claims() {
            let mut claims = claims.iter();
            let first = claims.next().map(|claim| claim.contents.position(claim.placed)).unwrap_or_default();
            for DocumentClaim { contents, placed, .. } in claims {
                let object = ObjectRef { id: id.clone(), position: Position::new(contents.position(placed)) };
                found.add(object, duplicate(id, &first, contents, placed));
            }
        }
        let held = self.kept().chain(self.stale());
        found.extend(held.map(|(served, problem)| (served.object.source().reference(), problem)));
        found.0
    }

    /// Objects that stay as they were because their file cannot be read.
    fn stale(&self) -> impl Iterator<Item = (&Served, Problem)> {
        let problem = |served: &Served| self.files.get(&served.file)?.staleness().cloned();
        self.served.values().filter_map(move |served| Some((served, problem(served)?)))
    }

    /// Objects that stay served although no document names them, because an unclear document may be
    /// theirs.
    fn kept(&self) -> impl Iterator<Item = (&Served, Problem)> {
        let claims = self.claims();
        self.served.iter().filter_map(move |(id, served)| {
            let contents = self.files.get(&served.file).filter(|contents| contents.is_unclear())?;
            if claims.contains_key(id) {
                return None;
            }
            let message = format!(
                "{id} stays as it was at {}: {} contains a document that does not name its object; correct it, or remove it",
                served.object.position, contents.name
            );
            Some((served, Problem { code: Code::OBJECT_KEPT, message: message.into() }))
        })
    }
}

fn duplicate(id: &ObjectId, first: &str, contents: &Contents, placed: &PlacedDocument) -> Problem {
    let fault = load::duplicate(id, first, placed.read.at);
    let message = format!("{}: {}", contents.position(placed), fault.message);
    Problem { code: fault.code, message: message.into() }
}

/// One problem for each object: the code of the first, the messages of all.
#[derive(Default)]
struct Found(BTreeMap<ObjectId, (ObjectRef, Problem)>);

impl Found {
    fn add(&mut self, object: ObjectRef, problem: Problem) {
        match self.0.get_mut(&object.id) {
            Some((_, known)) if known.message.len() < 4096 => {
                known.message = format!("{}; {}", known.message, problem.message).into();
            }
            Some(_) => {}
            None => {
                self.0.insert(object.id.clone(), (object, problem));
            }
        }
    }
    fn extend(&mut self, more: impl IntoIterator<Item = (ObjectRef, Problem)>) {
        for (object, problem) in more {
            self.add(object, problem);
        }
    }
}

#[cfg(test)]
mod tests;
