//! The objects of one kind, and the events that result from watch events. Owned by [`super::source`].
//!
//! Pure: watch events come in, document events go out. An invalid object keeps its last good version, and without one may
//! have a document that stands in for it;
//! an object of a different revision or of an unselected namespace is kept and not served. Nothing is
//! reported before the cluster context is known, because the context may exclude objects. A list is
//! compared with the table, so that only differences are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_kube_client::{ClusterContext, Event, ObjectName};
use tributary_model::excluded_object::of_revision;
use tributary_model::hostname::HostPattern;
use tributary_model::labels::REVISION;
use tributary_model::stale_set::StaleSet;
use tributary_model::{
    Code, Completeness, Evidence, ExcludedObject, Namespace, ObjectId, ObjectRef, Problem, Scope, SourcePart,
    SourceState, SourceStatus, Withheld, WithheldCause,
};

use super::fetched::Fetched;
use crate::allocate::AddressClaim;
use crate::document::{Document, Object};
use crate::read::stand_in;
use crate::source::{Change, SourceEvent};

/// The state of one kind.
#[derive(Debug)]
pub(crate) struct ResourceTable {
    scope: Scope,
    kind: &'static str,
    revision: Option<Arc<str>>,
    context: Option<Arc<ClusterContext>>,
    rows: BTreeMap<ObjectName, Row>,
    stale: StaleSet<ObjectName>,
    /// Whether the watch has delivered a complete list.
    listed: bool,
    phase: Phase,
    /// Why the watch cannot read the kind, if so.
    unreadable: Option<Withheld>,
    /// Why the cluster context is unknown, if so and reported.
    unknown: Option<Withheld>,
    /// The reason that was last reported.
    withheld: Option<Withheld>,
    /// The last status of the watch.
    part: Option<SourcePart>,
    excluded: BTreeMap<ObjectName, ExcludedObject>,
    /// Whether the excluded objects differ from those reported.
    exclusions_changed: bool,
    touched: BTreeSet<ObjectName>,
}

/// How far the list of this run has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not reported.
    NotStarted,
    /// The start has been reported.
    Started,
    /// The end has been reported.
    Ended,
}

/// One object.
#[derive(Debug, Default)]
struct Row {
    /// The last good version of the document, and its resource version.
    good: Option<(Arc<Document>, Arc<str>)>,
    /// What is served while there is no good version, and the resource version that it stands in for.
    stand_in: Option<(Arc<Document>, Arc<str>)>,
    /// The latest document, valid or not.
    latest: Option<Arc<Document>>,
    /// The latest resource version, and the API version in which it was read.
    version: Arc<str>,
    api: &'static str,
    /// The problem of the latest version.
    problem: Option<Problem>,
    /// A problem beside those of the document, such as a failed write.
    extra_problem: Option<Problem>,
    /// The served object.
    served: Option<Object>,
    /// The problem that was last reported.
    reported: Option<Problem>,
}

impl ResourceTable {
    /// Creates an empty table. `context` is `None` until the cluster context is known.
    pub(crate) fn new(
        scope: Scope,
        kind: &'static str,
        revision: Option<Arc<str>>,
        context: Option<Arc<ClusterContext>>,
    ) -> Self {
        let unknown = context.as_ref().and_then(|context| context.withheld.clone());
        Self {
            scope,
            kind,
            revision,
            context: context.filter(|context| context.withheld.is_none()),
            rows: BTreeMap::new(),
            stale: StaleSet::closed(),
            listed: false,
            phase: Phase::NotStarted,
            unreadable: None,
            unknown,
            withheld: None,
            part: None,
            excluded: BTreeMap::new(),
            exclusions_changed: false,
            touched: BTreeSet::new(),
        }
    }
    /// Whether the watch is live.
    pub(crate) fn is_live(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.state == SourceState::Live)
    }
    /// Whether all objects are known.
    pub(crate) const fn is_listed(&self) -> bool {
        self.listed
    }
    /// Returns the objects that changed since the last call.
    pub(crate) fn touched(&mut self) -> BTreeSet<ObjectName> {
        std::mem::take(&mut self.touched)
    }
    /// The address claim of an object. An object that is not served keeps its addresses.
    pub(crate) fn claim(&self, name: &ObjectName) -> Option<AddressClaim> {
        let row = self.rows.get(name)?;
        let good = row.good.as_ref().map(|(document, _)| document);
        let document = row.latest.as_ref().or(good)?;
        let served = row.served.as_ref().is_some_and(|served| Arc::ptr_eq(&served.document, document));
        AddressClaim::of(document, row.version.clone(), row.api, served)
    }
    /// Sets the problem of an object beside those of its document.
    pub(crate) fn set_extra_problem(
        &mut self,
        name: &ObjectName,
        problem: Option<&Problem>,
    ) -> Vec<SourceEvent> {
        let Some(row) = self.rows.get_mut(name) else { return Vec::new() };
        row.extra_problem = problem.cloned();
        self.settled(name)
    }
    /// The reference of an object in facts and problems.
    pub(crate) fn reference(&self, name: &ObjectName) -> ObjectRef {
        let namespace = name.namespace.as_deref().unwrap_or_default();
        ObjectRef::new(ObjectId::new(self.kind, namespace, &name.name))
    }

    /// Applies a watch event.
    pub(crate) fn apply(&mut self, event: Event<Fetched>) -> Vec<SourceEvent> {
        match event {
            Event::Init => self.restart(),
            Event::Apply(fetched) => self.put(fetched),
            Event::Invalid(name, why) => self.invalid(name, &why),
            Event::Unchanged(name) => {
                self.stale.mark_present(&name);
                Vec::new()
            }
            Event::Delete(name) => {
                let evidence = Evidence::Deleted(self.reference(&name));
                self.remove(&name, &evidence)
            }
            Event::InitDone => self.end_list(&Evidence::AbsentFromList),
            Event::NotServed => {
                self.stale.open(self.rows.keys().cloned());
                self.end_list(&Evidence::Confirmed)
            }
            Event::Confirmed if self.phase == Phase::Ended && self.withheld.is_none() => {
                vec![SourceEvent::Confirmed(self.scope.clone())]
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

    /// Returns the reason why the objects cannot be read, once per change: access is forbidden, or the kind fails while a
    /// different kind of the same server is live (`others`), or the cluster context is unknown. If all kinds fail, the
    /// server is down, which proves nothing about its objects.
    pub(crate) fn withhold(&mut self, others: bool) -> Option<SourceEvent> {
        let counts = |why: &&Withheld| others || why.cause == WithheldCause::Forbidden;
        let why = self.unreadable.as_ref().filter(counts).or(self.unknown.as_ref())?;
        if self.withheld.as_ref() == Some(why) {
            return None;
        }
        self.withheld = Some(why.clone());
        Some(SourceEvent::Withheld(self.scope.clone(), why.clone()))
    }

    /// Applies a new cluster context.
    pub(crate) fn set_context(&mut self, context: Arc<ClusterContext>) -> Vec<SourceEvent> {
        // A context that was known stays valid.
        let unknown = context.withheld.clone().filter(|_| self.context.is_none());
        let news = self.unknown != unknown;
        self.unknown = unknown;
        let mut events: Vec<SourceEvent> = self.status().filter(|_| news).into_iter().collect();
        if context.withheld.is_some() || self.context.as_ref() == Some(&context) {
            return events;
        }
        self.context = Some(context);
        if self.listed || self.stale.is_open() {
            events.extend(self.begin());
        }
        let names: Vec<ObjectName> = self.rows.keys().cloned().collect();
        for name in &names {
            self.settle(name, &mut events);
        }
        self.end(&mut events);
        events
    }

    /// The status of the kind; for a live kind with the reason why its objects are withheld. That a kind is not installed is
    /// nothing to report: only the part has it.
    fn status(&self) -> Option<SourceEvent> {
        let part = self.part.clone()?;
        let reason = match &self.unknown {
            _ if part.state != SourceState::Live => Arc::clone(&part.reason),
            why => why.as_ref().map(|why| Arc::clone(&why.why)).unwrap_or_default(),
        };
        let status = SourceStatus { reason, ..status(part) };
        Some(SourceEvent::Status(self.scope.clone(), status))
    }

    fn restart(&mut self) -> Vec<SourceEvent> {
        self.stale.open(self.rows.keys().cloned());
        self.begin()
    }

    fn put(&mut self, fetched: Fetched) -> Vec<SourceEvent> {
        let Fetched { name, version, api, draft, good, stand_in, problem } = fetched;
        self.stale.mark_present(&name);
        let row = self.rows.entry(name.clone()).or_default();
        (row.version, row.api, row.problem) = (version.clone(), api, problem);
        if row.latest != draft {
            row.latest = draft;
        }
        row.stand_in = stand_in.map(|document| (document, version.clone()));
        if let Some(document) = row.latest.clone().filter(|_| good) {
            row.good = Some((document, version));
        }
        self.settled(&name)
    }

    fn invalid(&mut self, name: ObjectName, why: &str) -> Vec<SourceEvent> {
        self.stale.mark_present(&name);
        let stand_in = stand_in::of_object(&self.reference(&name).id);
        let row = self.rows.entry(name.clone()).or_default();
        row.latest = None;
        row.stand_in = stand_in.map(|document| (document, Arc::default()));
        row.problem = Some(Problem { code: Code::OBJECT_UNREADABLE, message: why.into() });
        self.settled(&name)
    }

    fn settled(&mut self, name: &ObjectName) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        self.settle(name, &mut events);
        self.end(&mut events);
        events
    }

    fn remove(&mut self, name: &ObjectName, evidence: &Evidence) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        self.forget(name, evidence, &mut events);
        self.end(&mut events);
        events
    }

    fn forget(&mut self, name: &ObjectName, evidence: &Evidence, events: &mut Vec<SourceEvent>) {
        let Some(row) = self.rows.remove(name) else { return };
        self.touched.insert(name.clone());
        self.exclusions_changed |= self.excluded.remove(name).is_some();
        if let Some(old) = row.served {
            let gone = Change::Removed { old, evidence: evidence.clone() };
            events.push(SourceEvent::Changed(self.scope.clone(), gone));
        }
        if row.reported.is_some() {
            events.push(SourceEvent::Problem(self.scope.clone(), self.reference(name), None));
        }
    }

    /// Ends a list: objects that it did not contain are removed.
    fn end_list(&mut self, evidence: &Evidence) -> Vec<SourceEvent> {
        let mut events = self.begin();
        let unseen: Vec<ObjectName> = self.stale.close().collect();
        for name in &unseen {
            self.forget(name, evidence, &mut events);
        }
        self.listed = true;
        self.unreadable = None;
        if self.phase == Phase::Ended && self.withheld.is_none() {
            events.push(SourceEvent::Confirmed(self.scope.clone()));
        }
        self.end(&mut events);
        events
    }

    fn begin(&mut self) -> Vec<SourceEvent> {
        if self.phase != Phase::NotStarted || self.context.is_none() {
            return Vec::new();
        }
        self.phase = Phase::Started;
        vec![SourceEvent::ListStarted(self.scope.clone())]
    }

    fn end(&mut self, events: &mut Vec<SourceEvent>) {
        let ended = self.phase == Phase::Ended;
        let begun = self.phase == Phase::Started;
        let over = self.withheld.is_some() && self.unreadable.is_none();
        if self.listed && (begun || ended && over) {
            self.phase = Phase::Ended;
            self.withheld = None;
            events.push(SourceEvent::ListEnded(self.scope.clone(), Completeness::Complete));
        }
        if self.phase == Phase::Ended && std::mem::take(&mut self.exclusions_changed) {
            let list = self.excluded.values().take(ExcludedObject::MAX).cloned().collect();
            events.push(SourceEvent::Excluded(self.scope.clone(), list));
        }
    }

    /// Reports how an object differs from its last report.
    fn settle(&mut self, name: &ObjectName, events: &mut Vec<SourceEvent>) {
        let Some(context) = self.context.clone() else { return };
        let object = self.reference(name);
        let Some(row) = self.rows.get_mut(name) else { return };
        self.touched.insert(name.clone());
        let good = row.good.clone().or_else(|| row.stand_in.clone());
        let why =
            good.as_ref().and_then(|(document, _)| exclusion(document, &context, self.revision.as_deref()));
        let new = good.filter(|_| why.is_none()).map(|(document, version)| Object {
            document,
            position: "".into(),
            version,
            cluster_context: context,
        });
        if let Some(change) = row.serve(new) {
            events.push(SourceEvent::Changed(self.scope.clone(), change));
        }
        let problem_now = row.problem_now();
        if row.reported != problem_now {
            row.reported.clone_from(&problem_now);
            events.push(SourceEvent::Problem(self.scope.clone(), object, problem_now));
        }
        self.record_exclusion(name, why);
    }

    /// Records why an object is excluded.
    fn record_exclusion(&mut self, name: &ObjectName, why: Option<ExcludedObject>) {
        if self.excluded.get(name) == why.as_ref() {
            return;
        }
        self.exclusions_changed = true;
        match why {
            Some(why) => self.excluded.insert(name.clone(), why),
            None => self.excluded.remove(name),
        };
    }
}

impl Row {
    /// All problems of the object, as one.
    fn problem_now(&self) -> Option<Problem> {
        match (&self.problem, &self.extra_problem) {
            (Some(first), Some(second)) => {
                let message = format!("{}; {}", first.message, second.message).into();
                Some(Problem { code: first.code, message })
            }
            (first, second) => first.as_ref().or(second.as_ref()).cloned(),
        }
    }
    /// Sets the served object; returns the change.
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
                Some(Change::Updated { old, new })
            }
            // The object exists and no longer counts, by its new version or by its namespace.
            (Some(old), None) => {
                let evidence = Evidence::Changed(old.source().reference());
                Some(Change::Removed { old, evidence })
            }
            (None, None) => None,
        }
    }
}

/// Why an object is excluded, if it is.
fn exclusion(
    document: &Document,
    context: &ClusterContext,
    revision: Option<&str>,
) -> Option<ExcludedObject> {
    let namespace: &Namespace = &document.meta.namespace;
    let labels = &document.meta.labels.value;
    let (code, message) = if !context.selects(namespace) {
        let message = format!("namespace {namespace} is not selected");
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
        ..SourceStatus::default()
    }
}

#[cfg(test)]
mod tests;
