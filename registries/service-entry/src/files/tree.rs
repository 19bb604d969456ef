//! What is known of a directory, and what a listing of it means.
//!
//! Pure: time and listings are passed in. A listing never removes by itself; what it does not hold
//! is missing, and gone when another listing of the same directory, long enough after, agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Code, Completeness, Evidence, Mono, ObjectId, ObjectRef, Problem, Scope, SourceState, SourceStatus,
};

use super::contents::{Contents, Lying};
use super::document_claims::{DocumentClaim, Served, Verdict, decide};
use super::walk::{DirId, Fault, Listing, Seen, Stamps, Walk};
use crate::identity::About;
use crate::load;
use crate::source::{Change, ConfigEvent};

/// A directory as it is known.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Arc<str>,
    scope: Scope,
    confirm: Duration,
    dir: Option<DirId>,
    /// By which a file that did not change is known; always those of `files`.
    stamps: Stamps,
    files: BTreeMap<PathBuf, Contents>,
    served: BTreeMap<ObjectId, Served>,
    problems: BTreeMap<ObjectId, (ObjectRef, Problem)>,
    phase: Phase,
    state: Option<SourceStatus>,
}

/// How far the list of this run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No listing yet.
    Unlisted,
    /// Listed once, then; a second listing proves what the first did not hold.
    Listed(Mono),
    /// The end of the list has been said.
    Ended(Completeness),
}

/// What a listing came to.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// What is to be said, in order.
    pub(crate) events: Vec<ConfigEvent>,
    /// Whether to look again when `confirm` has passed.
    pub(crate) again: bool,
}

impl Tree {
    /// Nothing is known yet. `root` is the directory's name as messages show it.
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

    /// What the next walk compares files with.
    pub(crate) fn stamps(&self) -> Stamps {
        self.stamps.clone()
    }
    /// Takes a listing in.
    pub(crate) fn observe(&mut self, listing: Listing, now: Mono) -> Step {
        match listing {
            Listing::Unreadable(state, why) => self.unreadable(state, &why),
            Listing::Walked(walk) => match self.strange(&walk) {
                Some(why) => self.unreadable(SourceState::Broken, &why),
                None => self.walked(walk, now),
            },
        }
    }

    /// The directory says nothing: all stays, and what was missing must be missed anew.
    fn unreadable(&mut self, state: SourceState, why: &str) -> Step {
        self.served.values_mut().for_each(|served| served.missing = None);
        if matches!(self.phase, Phase::Listed(_)) {
            self.phase = Phase::Unlisted;
        }
        let mut step = Step::default();
        self.status(state, why, &mut step.events);
        step
    }

    /// Whether another directory lies under the name, in which something is not that is served. One
    /// that holds everything is taken as a move of the same.
    fn strange(&self, walk: &Walk) -> Option<String> {
        if self.dir.is_none_or(|dir| dir == walk.dir) {
            return None;
        }
        let files: BTreeSet<&Path> = self.served.values().map(|served| &*served.file).collect();
        let lost: Vec<_> = files.into_iter().filter(|file| !walk.files.contains_key(*file)).collect();
        let first = lost.first()?;
        Some(format!(
            "another directory lies under the name {}, without {} of the files that are served ({}); put them back, or restart to take it as it is",
            self.root,
            lost.len(),
            first.display()
        ))
    }

    fn walked(&mut self, walk: Walk, now: Mono) -> Step {
        let mut step = Step::default();
        let events = &mut step.events;
        if self.phase == Phase::Unlisted {
            events.push(ConfigEvent::Restart(self.scope.clone()));
            events.extend(self.served.values().map(|served| {
                let new = served.object.clone();
                ConfigEvent::Changed(self.scope.clone(), Change::Is { old: None, new })
            }));
        }
        self.dir = Some(walk.dir);
        let whole = walk.faults.is_empty();
        self.stamps = walk.stamps;
        self.take(walk.files);
        step.again = self.settle(whole, now, events);
        self.tell_problems(&walk.faults, events);
        match walk.faults.first() {
            None => self.status(SourceState::Live, "", events),
            Some(fault) => self.status(fault.state, &fault.why, events),
        }
        step.again |= self.end_of_list(whole, now, events);
        step
    }

    /// Takes the files' contents in; a file that was not listed is forgotten, its objects are not.
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

    /// Decides on every object; whether one is missing.
    fn settle(&mut self, whole: bool, now: Mono, events: &mut Vec<ConfigEvent>) -> bool {
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
                Verdict::Gone => events.extend(self.gone(&id)),
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
            for lying in &contents.documents {
                if let About::Object(id) = &lying.read.about {
                    claims.entry(id).or_default().push(DocumentClaim { file, contents, lying });
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

    fn gone(&mut self, id: &ObjectId) -> Option<ConfigEvent> {
        let old = self.served.remove(id)?.object;
        Some(ConfigEvent::Changed(self.scope.clone(), Change::Gone { old, evidence: Evidence::Confirmed }))
    }

    /// Serves a document; says so where it is another one. One that only moved is remembered anew.
    fn serve(&mut self, id: ObjectId, new: Served) -> Option<ConfigEvent> {
        let object = new.object.clone();
        let old = self.served.insert(id, new).map(|served| served.object);
        if old.as_ref().is_some_and(|old| old.document == object.document) {
            return None;
        }
        Some(ConfigEvent::Changed(self.scope.clone(), Change::Is { old, new: object }))
    }

    /// Says the end of the list once a second listing has confirmed the first, and again when it is
    /// more complete than it was; whether to look again for that.
    fn end_of_list(&mut self, whole: bool, now: Mono, events: &mut Vec<ConfigEvent>) -> bool {
        let unclear = !whole || self.files.values().any(Contents::is_unclear);
        let how = if unclear { Completeness::Partial } else { Completeness::Complete };
        match self.phase {
            Phase::Unlisted => {
                self.phase = Phase::Listed(now);
                return true;
            }
            Phase::Listed(since) if now.since(since) < self.confirm => return true,
            Phase::Ended(Completeness::Complete) => events.push(ConfigEvent::Confirmed(self.scope.clone())),
            Phase::Ended(said) if said == how => events.push(ConfigEvent::Confirmed(self.scope.clone())),
            Phase::Listed(_) | Phase::Ended(_) => {
                self.phase = Phase::Ended(how);
                events.push(ConfigEvent::Listed(self.scope.clone(), how));
            }
        }
        false
    }

    fn status(&mut self, state: SourceState, why: &str, events: &mut Vec<ConfigEvent>) {
        let status = SourceStatus::new(state, why);
        if self.state.as_ref() == Some(&status) {
            return;
        }
        let back = self.state.as_ref().is_some_and(|was| was.state != SourceState::Live);
        events.push(ConfigEvent::Status(self.scope.clone(), status.clone()));
        self.state = Some(status);
        // What was listed in part is live again only when its end is said again.
        if let (true, SourceState::Live, Phase::Ended(how)) = (back, state, self.phase) {
            events.push(ConfigEvent::Listed(self.scope.clone(), how));
        }
    }

    /// Says which problems are new, different or over.
    fn tell_problems(&mut self, faults: &[Fault], events: &mut Vec<ConfigEvent>) {
        let now = self.find_problems(faults);
        for (id, (object, problem)) in &now {
            let known = self.problems.get(id);
            if known.is_none_or(|(o, p)| (o, p) != (object, problem)) {
                events.push(ConfigEvent::Problem(self.scope.clone(), object.clone(), Some(problem.clone())));
            }
        }
        for (id, (object, _)) in &self.problems {
            if !now.contains_key(id) {
                events.push(ConfigEvent::Problem(self.scope.clone(), object.clone(), None));
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
            for (index, lying) in contents.documents.iter().enumerate() {
                if let Some(problem) = contents.problem(lying) {
                    let id = load::named(&lying.read.about, &contents.name, index);
                    found.add(ObjectRef { id, place: contents.place(lying) }, problem);
                }
            }
        }
        for (id, claims) in self.claims() {
            let mut claims = claims.iter();
            let first = claims.next().map(|claim| claim.contents.place(claim.lying)).unwrap_or_default();
            for DocumentClaim { contents, lying, .. } in claims {
                let object = ObjectRef { id: id.clone(), place: contents.place(lying) };
                found.add(object, duplicate(id, &first, contents, lying));
            }
        }
        found.extend(self.kept().map(|(served, problem)| (served.object.source().reference(), problem)));
        found.0
    }

    /// Objects that stay although no document says their names, because one that cannot be told may
    /// be theirs.
    fn kept(&self) -> impl Iterator<Item = (&Served, Problem)> {
        let claims = self.claims();
        self.served.iter().filter_map(move |(id, served)| {
            let contents = self.files.get(&served.file).filter(|contents| contents.is_unclear())?;
            if claims.contains_key(id) {
                return None;
            }
            let message = format!(
                "{id} stays as it was at {}: {} holds a document that does not say which object it is; correct it, or remove it",
                served.object.place, contents.name
            );
            Some((served, Problem { code: Code::OBJECT_KEPT, message: message.into() }))
        })
    }
}

fn duplicate(id: &ObjectId, first: &str, contents: &Contents, lying: &Lying) -> Problem {
    let fault = load::duplicate(id, first, lying.read.at);
    let message = format!("{}: {}", contents.place(lying), fault.message);
    Problem { code: fault.code, message: message.into() }
}

/// One problem for each object: of several, the first's code and all their words.
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
