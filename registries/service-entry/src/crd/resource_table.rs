//! The objects of one kind, and what a word about them comes to.
//!
//! Pure: words come from a watch, events go to the registry. An object that is bad keeps its last good
//! version; one of another revision, or of a namespace that is not selected, is kept and not served.
//! Nothing is said before the surroundings are known, because what they leave out would have to be
//! taken back. A list is compared here, so that only what differs is said again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_kube_client::{Event, ObjectName};
use tributary_model::excluded_object::of_revision;
use tributary_model::hostname::HostPattern;
use tributary_model::labels::REVISION;
use tributary_model::stale_set::StaleSet;
use tributary_model::{
    Code, Completeness, Evidence, ExcludedObject, Namespace, ObjectId, ObjectRef, Problem, Scope, SourcePart,
    SourceState, SourceStatus, Withheld, WithheldCause,
};
use tributary_registry_api::ClusterContext;

use super::fetched::Fetched;
use crate::allocate::AddressClaim;
use crate::document::{Document, Object};
use crate::source::{Change, ConfigEvent};

/// One kind as it is known.
#[derive(Debug)]
pub(crate) struct ResourceTable {
    scope: Scope,
    kind: &'static str,
    revision: Option<Arc<str>>,
    around: Option<Arc<ClusterContext>>,
    rows: BTreeMap<ObjectName, Row>,
    sweep: StaleSet<ObjectName>,
    /// Whether the watch has shown a complete list.
    listed: bool,
    phase: Phase,
    /// Why the watch cannot read the kind, where it cannot.
    unreadable: Option<Withheld>,
    /// Why what surrounds the objects is not known, where that is known.
    unknown: Option<Withheld>,
    /// What was last reported of either.
    withheld: Option<Withheld>,
    /// How the watch of the kind is doing, as it said last.
    part: Option<SourcePart>,
    left_out: BTreeMap<ObjectName, ExcludedObject>,
    /// Whether what is left out differs from what has been said of it.
    unsaid: bool,
    touched: BTreeSet<ObjectName>,
}

/// How far the list of this run has been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not at all.
    Unsaid,
    /// It has begun.
    Begun,
    /// Its end has been said.
    Ended,
}

/// One object.
#[derive(Debug, Default)]
struct Row {
    /// Its last good version and the server's word for it.
    good: Option<(Arc<Document>, Arc<str>)>,
    /// What its latest version says, good or not.
    latest: Option<Arc<Document>>,
    /// The server's word for the latest version, and the API version it was read in.
    version: Arc<str>,
    api: &'static str,
    /// What is wrong with the latest version.
    problem: Option<Problem>,
    /// What else is wrong with the object.
    remark: Option<Problem>,
    /// What is served.
    served: Option<Object>,
    /// What has been said to be wrong.
    told: Option<Problem>,
}

impl ResourceTable {
    /// Nothing is known. Without a channel for surroundings there are none that matter.
    pub(crate) fn new(
        scope: Scope,
        kind: &'static str,
        revision: Option<Arc<str>>,
        around: Option<Arc<ClusterContext>>,
    ) -> Self {
        let unknown = around.as_ref().and_then(|around| around.withheld.clone());
        Self {
            scope,
            kind,
            revision,
            around: around.filter(|around| around.withheld.is_none()),
            rows: BTreeMap::new(),
            sweep: StaleSet::closed(),
            listed: false,
            phase: Phase::Unsaid,
            unreadable: None,
            unknown,
            withheld: None,
            part: None,
            left_out: BTreeMap::new(),
            unsaid: false,
            touched: BTreeSet::new(),
        }
    }
    /// Whether the kind is followed now.
    pub(crate) fn is_live(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.state == SourceState::Live)
    }
    /// Whether all objects are known.
    pub(crate) const fn is_listed(&self) -> bool {
        self.listed
    }
    /// The objects about which something new is known since this was asked last.
    pub(crate) fn touched(&mut self) -> BTreeSet<ObjectName> {
        std::mem::take(&mut self.touched)
    }
    /// What an object claims of addresses. One that is not served keeps what it has.
    pub(crate) fn claim(&self, name: &ObjectName) -> Option<AddressClaim> {
        let row = self.rows.get(name)?;
        let good = row.good.as_ref().map(|(document, _)| document);
        let document = row.latest.as_ref().or(good)?;
        let served = row.served.as_ref().is_some_and(|served| Arc::ptr_eq(&served.document, document));
        AddressClaim::of(document, row.version.clone(), row.api, served)
    }
    /// Something that is wrong with an object beside what its latest version says.
    pub(crate) fn remark(&mut self, name: &ObjectName, remark: Option<&Problem>) -> Vec<ConfigEvent> {
        let Some(row) = self.rows.get_mut(name) else { return Vec::new() };
        row.remark = remark.cloned();
        self.settled(name)
    }
    /// The object as the rest of Tributary names it.
    pub(crate) fn reference(&self, name: &ObjectName) -> ObjectRef {
        let namespace = name.namespace.as_deref().unwrap_or_default();
        ObjectRef::new(ObjectId::new(self.kind, namespace, &name.name))
    }

    /// Takes a word of the watch in.
    pub(crate) fn take(&mut self, event: Event<Fetched>) -> Vec<ConfigEvent> {
        match event {
            Event::Init => self.restart(),
            Event::Apply(fetched) => self.put(fetched),
            Event::Invalid(name, why) => self.bad(name, &why),
            Event::Unchanged(name) => {
                self.sweep.mark_present(&name);
                Vec::new()
            }
            Event::Delete(name) => {
                let evidence = Evidence::Deleted(self.reference(&name));
                self.remove(&name, &evidence)
            }
            Event::InitDone => self.swept(&Evidence::AbsentFromList),
            Event::NotServed => {
                self.sweep.open(self.rows.keys().cloned());
                self.swept(&Evidence::Confirmed)
            }
            Event::Confirmed if self.phase == Phase::Ended && self.withheld.is_none() => {
                vec![ConfigEvent::Confirmed(self.scope.clone())]
            }
            Event::Unavailable(why) => {
                self.unreadable = Some(why);
                Vec::new()
            }
            Event::Resumed => {
                self.unreadable = None;
                let mut events = Vec::new();
                self.end(&mut events);
                events
            }
            Event::Status(part) => {
                self.part = Some(part);
                self.status().into_iter().collect()
            }
            Event::Confirmed | Event::Recovered(_) => Vec::new(),
        }
    }

    /// Why the objects cannot be read, once and whenever that changes: the kind is refused, or fails although another
    /// kind of the same server is followed, or what surrounds the objects is unknown. That all kinds fail shows that the
    /// server does, and nothing of what it has.
    pub(crate) fn withhold(&mut self, others: bool) -> Option<ConfigEvent> {
        let counts = |why: &&Withheld| others || why.cause == WithheldCause::Forbidden;
        let why = self.unreadable.as_ref().filter(counts).or(self.unknown.as_ref())?;
        if self.withheld.as_ref() == Some(why) {
            return None;
        }
        self.withheld = Some(why.clone());
        Some(ConfigEvent::Withheld(self.scope.clone(), why.clone()))
    }

    /// Takes other surroundings in.
    pub(crate) fn surround(&mut self, around: Arc<ClusterContext>) -> Vec<ConfigEvent> {
        // what was known before still holds
        let unknown = around.withheld.clone().filter(|_| self.around.is_none());
        let news = self.unknown != unknown;
        self.unknown = unknown;
        let mut events: Vec<ConfigEvent> = self.status().filter(|_| news).into_iter().collect();
        if around.withheld.is_some() || self.around.as_ref() == Some(&around) {
            return events;
        }
        self.around = Some(around);
        if self.listed || self.sweep.is_open() {
            events.extend(self.begin());
        }
        let names: Vec<ObjectName> = self.rows.keys().cloned().collect();
        for name in &names {
            self.settle(name, &mut events);
        }
        self.end(&mut events);
        events
    }

    /// How the kind is doing; one that is followed, with the reason for which nothing of it may be reported.
    fn status(&self) -> Option<ConfigEvent> {
        let part = self.part.clone()?;
        let why = self.unknown.as_ref().filter(|_| part.state == SourceState::Live);
        let reason = why.map_or_else(|| Arc::clone(&part.reason), |why| Arc::clone(&why.why));
        let status = SourceStatus { reason, ..status(part) };
        Some(ConfigEvent::Status(self.scope.clone(), status))
    }

    fn restart(&mut self) -> Vec<ConfigEvent> {
        self.sweep.open(self.rows.keys().cloned());
        self.begin()
    }

    fn put(&mut self, fetched: Fetched) -> Vec<ConfigEvent> {
        let Fetched { name, version, api, draft, good, problem } = fetched;
        self.sweep.mark_present(&name);
        let row = self.rows.entry(name.clone()).or_default();
        (row.version, row.api, row.problem) = (version.clone(), api, problem);
        if row.latest != draft {
            row.latest = draft;
        }
        if let Some(document) = row.latest.clone().filter(|_| good) {
            row.good = Some((document, version));
        }
        self.settled(&name)
    }

    fn bad(&mut self, name: ObjectName, why: &str) -> Vec<ConfigEvent> {
        self.sweep.mark_present(&name);
        let row = self.rows.entry(name.clone()).or_default();
        row.latest = None;
        row.problem = Some(Problem { code: Code::OBJECT_UNREADABLE, message: why.into() });
        self.settled(&name)
    }

    fn settled(&mut self, name: &ObjectName) -> Vec<ConfigEvent> {
        let mut events = Vec::new();
        self.settle(name, &mut events);
        self.end(&mut events);
        events
    }

    fn remove(&mut self, name: &ObjectName, evidence: &Evidence) -> Vec<ConfigEvent> {
        let mut events = Vec::new();
        self.forget(name, evidence, &mut events);
        self.end(&mut events);
        events
    }

    fn forget(&mut self, name: &ObjectName, evidence: &Evidence, events: &mut Vec<ConfigEvent>) {
        let Some(row) = self.rows.remove(name) else { return };
        self.touched.insert(name.clone());
        self.unsaid |= self.left_out.remove(name).is_some();
        if let Some(old) = row.served {
            let gone = Change::Gone { old, evidence: evidence.clone() };
            events.push(ConfigEvent::Changed(self.scope.clone(), gone));
        }
        if row.told.is_some() {
            events.push(ConfigEvent::Problem(self.scope.clone(), self.reference(name), None));
        }
    }

    /// A list is complete: what it did not hold is gone.
    fn swept(&mut self, evidence: &Evidence) -> Vec<ConfigEvent> {
        let mut events = self.begin();
        let unseen: Vec<ObjectName> = self.sweep.close().collect();
        for name in &unseen {
            self.forget(name, evidence, &mut events);
        }
        self.listed = true;
        self.unreadable = None;
        if self.phase == Phase::Ended && self.withheld.is_none() {
            events.push(ConfigEvent::Confirmed(self.scope.clone()));
        }
        self.end(&mut events);
        events
    }

    fn begin(&mut self) -> Vec<ConfigEvent> {
        if self.phase != Phase::Unsaid || self.around.is_none() {
            return Vec::new();
        }
        self.phase = Phase::Begun;
        vec![ConfigEvent::Restart(self.scope.clone())]
    }

    fn end(&mut self, events: &mut Vec<ConfigEvent>) {
        let ended = self.phase == Phase::Ended;
        let begun = self.phase == Phase::Begun;
        let over = self.withheld.is_some() && self.unreadable.is_none();
        if self.listed && (begun || ended && over) {
            self.phase = Phase::Ended;
            self.withheld = None;
            events.push(ConfigEvent::Listed(self.scope.clone(), Completeness::Complete));
        }
        if self.phase == Phase::Ended && std::mem::take(&mut self.unsaid) {
            let said = self.left_out.values().take(ExcludedObject::MAX).cloned().collect();
            events.push(ConfigEvent::LeftOut(self.scope.clone(), said));
        }
    }

    /// Says what of an object differs from what has been said.
    fn settle(&mut self, name: &ObjectName, events: &mut Vec<ConfigEvent>) {
        let Some(around) = self.around.clone() else { return };
        let object = self.reference(name);
        let Some(row) = self.rows.get_mut(name) else { return };
        self.touched.insert(name.clone());
        let good = row.good.clone();
        let why =
            good.as_ref().and_then(|(document, _)| left_out(document, &around, self.revision.as_deref()));
        let new = good.filter(|_| why.is_none()).map(|(document, version)| Object {
            document,
            place: "".into(),
            version,
            cluster_context: around,
        });
        if let Some(change) = row.serve(new) {
            events.push(ConfigEvent::Changed(self.scope.clone(), change));
        }
        let wrong = row.wrong();
        if row.told != wrong {
            row.told.clone_from(&wrong);
            events.push(ConfigEvent::Problem(self.scope.clone(), object, wrong));
        }
        self.note(name, why);
    }

    /// Remembers why an object does not count.
    fn note(&mut self, name: &ObjectName, why: Option<ExcludedObject>) {
        if self.left_out.get(name) == why.as_ref() {
            return;
        }
        self.unsaid = true;
        match why {
            Some(why) => self.left_out.insert(name.clone(), why),
            None => self.left_out.remove(name),
        };
    }
}

impl Row {
    /// All that is wrong with it, as one problem.
    fn wrong(&self) -> Option<Problem> {
        match (&self.problem, &self.remark) {
            (Some(first), Some(second)) => {
                let message = format!("{}; {}", first.message, second.message).into();
                Some(Problem { code: first.code, message })
            }
            (first, second) => first.as_ref().or(second.as_ref()).cloned(),
        }
    }
    /// Serves this from now on; what differs from what was served.
    fn serve(&mut self, new: Option<Object>) -> Option<Change> {
        let same = |old: &Object, new: &Object| {
            old.document == new.document && old.cluster_context == new.cluster_context
        };
        match (self.served.take(), new) {
            (Some(old), Some(new)) if same(&old, &new) => {
                self.served = Some(new);
                None
            }
            (old, Some(new)) => {
                self.served = Some(new.clone());
                Some(Change::Is { old, new })
            }
            // The object is there and does not count any more, by its own new version or by its namespace's.
            (Some(old), None) => {
                let evidence = Evidence::Changed(old.source().reference());
                Some(Change::Gone { old, evidence })
            }
            (None, None) => None,
        }
    }
}

/// Why an object does not count, where it does not.
fn left_out(document: &Document, around: &ClusterContext, revision: Option<&str>) -> Option<ExcludedObject> {
    let namespace: &Namespace = &document.meta.namespace;
    let labels = &document.meta.labels.value;
    let (code, message) = if !around.selects(namespace) {
        let message = format!("namespace {namespace} is not among those that are selected");
        (Code::NAMESPACE_NOT_SELECTED, message)
    } else if !of_revision(labels, revision) {
        let theirs = labels.get(REVISION).unwrap_or_default();
        (Code::OTHER_REVISION, format!("its label {REVISION} is {theirs:?}"))
    } else {
        return None;
    };
    let hosts = document.hosts().filter_map(|host| HostPattern::new(host).ok()).collect();
    Some(ExcludedObject { object: ObjectRef::new(document.id()), code, message: message.into(), hosts })
}

fn status(part: SourcePart) -> SourceStatus {
    SourceStatus {
        state: part.state,
        reason: part.reason.clone(),
        retry_in: part.retry_in,
        parts: [part].into(),
        details: Arc::default(),
    }
}

#[cfg(test)]
mod tests;
