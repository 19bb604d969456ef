//! The objects of one kind that is not served, and the problems that name them. Owned by [`super`].
//!
//! Pure: watch events come in, document events go out. The list counts as complete from the start and the source as live,
//! because no fact comes from it: nothing waits for it or becomes stale with it. The state of its watch shows as a part.
//! Objects of a different revision or of an unselected namespace are not shown. Memory per object is its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_kube_client::{ClusterContext, Event, ObjectName};
use tributary_model::stale_set::StaleSet;
use tributary_model::{
    Code, Completeness, Namespace, ObjectId, ObjectRef, Problem, Scope, SourcePart, SourceState, SourceStatus,
};

use super::UnservedObject;
use crate::document::unserved::UnservedKind;
use crate::source::SourceEvent;

/// The state of one kind.
#[derive(Debug)]
pub(super) struct UnservedTable {
    scope: Scope,
    kind: &'static str,
    /// The problem of every object.
    problem: Problem,
    /// The own revision.
    revision: Option<Arc<str>>,
    /// Known once the list was reported.
    context: Option<Arc<ClusterContext>>,
    rows: BTreeMap<ObjectName, Row>,
    stale: StaleSet<ObjectName>,
}

/// One object.
#[derive(Debug, Default)]
struct Row {
    /// The revision to which it belongs, if it names one.
    revision: Option<Arc<str>>,
    /// Whether its problem is reported.
    is_shown: bool,
}

impl UnservedTable {
    /// Most objects that are kept; more of one kind are not shown.
    const MOST: usize = 10_000;
    /// What a failure of the watch means.
    const DECIDES_NOTHING: &str = "nothing that clients receive depends on this kind: only its objects, which are not \
                                   served, are not listed";

    /// Creates an empty table.
    pub(super) fn new(scope: Scope, known: &UnservedKind, revision: Option<Arc<str>>) -> Self {
        let problem = Problem { code: Code::KIND_NOT_SERVED, message: known.message().into() };
        let (kind, rows) = (known.resource.kind, BTreeMap::new());
        Self { scope, kind, problem, revision, context: None, rows, stale: StaleSet::closed() }
    }

    /// Applies a watch event.
    pub(super) fn apply(&mut self, event: Event<UnservedObject>) -> Vec<SourceEvent> {
        match event {
            Event::Init => self.stale.open(self.rows.keys().cloned()),
            Event::Unchanged(name) => self.stale.mark_present(&name),
            Event::Apply(UnservedObject { name, revision }) => return self.put(name, revision),
            // it exists, and only its labels are unknown
            Event::Invalid(name, _) if !name.name.is_empty() => return self.put(name, None),
            Event::Delete(name) => return self.remove(&name).into_iter().collect(),
            Event::InitDone => return self.end_list(),
            Event::NotServed => {
                self.stale.open(self.rows.keys().cloned());
                return self.end_list();
            }
            Event::Confirmed => return self.confirmed().into_iter().collect(),
            Event::Status(part) => return vec![self.status(part)],
            Event::Invalid(..) | Event::Unavailable(_) | Event::Resumed | Event::Recovered(_) => {}
        }
        Vec::new()
    }

    /// Applies a new cluster context, which may show or hide objects.
    pub(super) fn set_context(&mut self, context: &Arc<ClusterContext>) -> Vec<SourceEvent> {
        if context.withheld.is_some() || self.context.as_ref() == Some(context) {
            return Vec::new();
        }
        let mut events = Vec::new();
        if self.context.replace(Arc::clone(context)).is_none() {
            events.push(SourceEvent::ListStarted(self.scope.clone()));
            events.push(SourceEvent::ListEnded(self.scope.clone(), Completeness::Complete));
        }
        let names: Vec<ObjectName> = self.rows.keys().cloned().collect();
        events.extend(names.iter().filter_map(|name| self.settle(name)));
        events
    }

    fn put(&mut self, name: ObjectName, revision: Option<Arc<str>>) -> Vec<SourceEvent> {
        self.stale.mark_present(&name);
        if self.rows.len() >= Self::MOST && !self.rows.contains_key(&name) {
            return Vec::new();
        }
        self.rows.entry(name.clone()).or_default().revision = revision;
        self.settle(&name).into_iter().collect()
    }

    fn remove(&mut self, name: &ObjectName) -> Option<SourceEvent> {
        let row = self.rows.remove(name)?;
        row.is_shown.then(|| self.report(name, false))
    }

    /// Ends a list: objects that it did not contain are removed.
    fn end_list(&mut self) -> Vec<SourceEvent> {
        let unseen: Vec<ObjectName> = self.stale.close().collect();
        let mut events: Vec<SourceEvent> = unseen.iter().filter_map(|name| self.remove(name)).collect();
        events.extend(self.confirmed());
        events
    }

    fn confirmed(&self) -> Option<SourceEvent> {
        self.context.as_ref().map(|_| SourceEvent::Confirmed(self.scope.clone()))
    }

    /// Reports or ends the problem of an object.
    fn settle(&mut self, name: &ObjectName) -> Option<SourceEvent> {
        let context = self.context.as_ref()?;
        let row = self.rows.get_mut(name)?;
        let namespace = name.namespace.as_deref().and_then(|namespace| Namespace::new(namespace).ok());
        let is_own = match (&row.revision, &self.revision) {
            (Some(theirs), Some(own)) => theirs == own,
            _ => true,
        };
        let is_shown = is_own && namespace.is_some_and(|namespace| context.selects(&namespace));
        let was_shown = std::mem::replace(&mut row.is_shown, is_shown);
        (was_shown != is_shown).then(|| self.report(name, is_shown))
    }

    fn report(&self, name: &ObjectName, is_shown: bool) -> SourceEvent {
        let namespace = name.namespace.as_deref().unwrap_or_default();
        let object = ObjectRef::new(ObjectId::new(self.kind, namespace, &name.name));
        SourceEvent::Problem(self.scope.clone(), object, is_shown.then(|| self.problem.clone()))
    }

    fn status(&self, part: SourcePart) -> SourceEvent {
        let reason = if part.state.is_failure() {
            format!("{}; {}", part.reason, Self::DECIDES_NOTHING).into()
        } else {
            Arc::clone(&part.reason)
        };
        let part = SourcePart { reason, ..part };
        let status = SourceStatus { parts: [part].into(), ..SourceStatus::new(SourceState::Live, "") };
        SourceEvent::Status(self.scope.clone(), status)
    }
}

#[cfg(test)]
mod tests;
