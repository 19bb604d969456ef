//! One scope of a run: its machine, its requests under way, and its reported problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::AbortHandle;
use tributary_model::{
    Basis, Code, Collection, CollectionKind, Evidence, ObjectRef, Problem, RegistryUpdate, Scope,
    SourceStatus, Withheld,
};
use tributary_registry_api::Reason;

use super::fetch::Fetch;
use super::mesh::Mesh;
use crate::answer::RequestFailure;
use crate::client::Fault;
use crate::content::Instances;
use crate::machine::{Machine, Output, Settings};
use crate::map::name::Tenancy;
use crate::map::{Area, Interner, MapConfig, facts, keys, object, read};
use crate::watch::Confidence;

/// Request under way.
pub(super) struct Begun {
    pub(super) task: AbortHandle,
    /// Service of the request.
    pub(super) service: Option<Arc<str>>,
}

/// One scope.
pub(super) struct ScopeRun {
    pub(super) area: Area,
    pub(super) fetch: Fetch,
    pub(super) machine: Machine,
    /// Poll budget of the machine.
    pub(super) polls: usize,
    pub(super) under_way: BTreeMap<u64, Begun>,
    /// Reason of the last failed request, until one succeeds.
    pub(super) fault: Option<Reason>,
    pub(super) last_status: Option<SourceStatus>,
    /// Consecutive lists that lacked it.
    pub(super) missed: u32,
    /// Whether no list names it: it is followed because facts of it are held.
    pub(super) unlisted: bool,
    /// Whether it was withheld before it could be read.
    pub(super) withheld: bool,
    pub(super) mesh: Mesh,
    /// Services whose last answer could not be read.
    unread: BTreeSet<Arc<str>>,
    /// Objects with a reported problem, by service.
    problems: BTreeMap<Arc<str>, Vec<ObjectRef>>,
}

/// Returns the collections of a scope: declarations and their endpoints.
pub(super) fn collections(scope: &Scope) -> [Collection; 2] {
    [CollectionKind::Services, CollectionKind::Groups].map(|kind| Collection { scope: scope.clone(), kind })
}

impl ScopeRun {
    pub(super) fn new(part: &Tenancy, own: &str, scope: Scope, fetch: Fetch, settings: Settings) -> Self {
        Self {
            area: Area::new(part.clone(), own, scope),
            fetch,
            machine: Machine::new(settings),
            polls: settings.polls,
            under_way: BTreeMap::new(),
            fault: None,
            last_status: None,
            missed: 0,
            unlisted: false,
            withheld: false,
            mesh: Mesh::default(),
            unread: BTreeSet::new(),
            problems: BTreeMap::new(),
        }
    }

    /// Converts an output of the machine to updates.
    pub(super) fn convert(
        &mut self,
        output: Output,
        config: &MapConfig,
        interner: &mut Interner,
        out: &mut Vec<RegistryUpdate>,
    ) {
        match output {
            Output::Report(name, instances, Confidence::Confirmed) if instances.entries.is_empty() => {
                self.withdraw(&name, config, &Evidence::Confirmed, out);
            }
            Output::Report(name, instances, confidence) => {
                self.put(&name, &instances, confidence, config, interner, out)
            }
            Output::Gone(name, Confidence::Confirmed) => {
                self.withdraw(&name, config, &Evidence::Confirmed, out)
            }
            Output::Gone(name, _) => self.withdraw(&name, config, &Evidence::AbsentFromList, out),
            Output::Synced(how) => {
                out.extend(
                    collections(&self.area.scope)
                        .map(|collection| RegistryUpdate::ListEnded(collection, how)),
                );
            }
            Output::Hidden => {
                let withheld = Withheld::forbidden("the token sees less than before; check its policies");
                let withhold = |collection| RegistryUpdate::Withheld(collection, withheld.clone());
                out.extend(collections(&self.area.scope).map(withhold));
            }
            Output::Confirmed => out.extend(collections(&self.area.scope).map(RegistryUpdate::Progress)),
            Output::Send(_) | Output::Cancel(_) | Output::RereadToken => {}
        }
    }

    /// Reports the facts of a service. An incomplete answer lacks instances; while the core holds those, it also
    /// keeps the declaration's known values.
    fn put(
        &mut self,
        name: &Arc<str>,
        instances: &Instances,
        confidence: Confidence,
        config: &MapConfig,
        interner: &mut Interner,
        out: &mut Vec<RegistryUpdate>,
    ) {
        let known = read(&instances.entries, &self.area, config, instances.translated, interner);
        let mut mapped = facts(&self.area, name, &known, config);
        self.mesh.mark(name, &mut mapped.facts);
        let basis = basis(confidence);
        let put = |fact| RegistryUpdate::Put(self.area.scope.clone(), fact, basis.clone());
        out.extend(mapped.facts.into_iter().map(put));
        let bad: Vec<ObjectRef> = mapped.problems.iter().map(|(object, _)| object.clone()).collect();
        out.extend(mapped.problems.into_iter().map(|(object, problem)| self.problem(object, Some(problem))));
        self.replace_problems(name, bad, out);
    }

    /// Sets or clears the problem of a service whose answer cannot be read.
    pub(super) fn note_answer(
        &mut self,
        name: &Arc<str>,
        fault: Option<&Fault>,
        out: &mut Vec<RegistryUpdate>,
    ) {
        let object = ObjectRef::new(object(&self.area, name));
        let own = |fault: &&Fault| {
            matches!(
                fault.failure,
                RequestFailure::Broken
                    | RequestFailure::Config
                    | RequestFailure::Unsupported
                    | RequestFailure::TooLarge
            )
        };
        match fault.filter(own) {
            Some(fault) if self.unread.insert(Arc::clone(name)) => {
                let problem = Problem { code: Code::ANSWER_UNREADABLE, message: fault.reason.shared() };
                out.push(self.problem(object, Some(problem)));
            }
            None if fault.is_none() && self.unread.remove(name) => out.push(self.problem(object, None)),
            _ => {}
        }
    }

    /// Returns whether no object has a problem.
    #[cfg(test)]
    pub(super) fn has_no_problem(&self) -> bool {
        self.unread.is_empty() && self.problems.is_empty()
    }

    fn withdraw(
        &mut self,
        name: &Arc<str>,
        config: &MapConfig,
        evidence: &Evidence,
        out: &mut Vec<RegistryUpdate>,
    ) {
        let keys = keys(&self.area, name, config);
        out.extend(keys.into_iter().map(|key| RegistryUpdate::Remove(key, evidence.clone())));
        self.mesh.forget(name);
        self.note_answer(name, None, out);
        self.replace_problems(name, Vec::new(), out);
    }

    fn problem(&self, object: ObjectRef, problem: Option<Problem>) -> RegistryUpdate {
        RegistryUpdate::Problem(self.area.scope.clone(), object, problem)
    }

    fn replace_problems(&mut self, name: &Arc<str>, bad: Vec<ObjectRef>, out: &mut Vec<RegistryUpdate>) {
        let before = match bad.is_empty() {
            true => self.problems.remove(name),
            false => self.problems.insert(Arc::clone(name), bad.clone()),
        };
        let good = before.into_iter().flatten().filter(|object| !bad.contains(object));
        out.extend(good.map(|object| self.problem(object, None)));
    }
}

fn basis(confidence: Confidence) -> Basis {
    match confidence {
        Confidence::Partial(_) => Basis::KnownPartial("consul's answer may be short or old".into()),
        Confidence::Plausible => Basis::PossiblyPartial("any server may have answered".into()),
        Confidence::Confirmed => Basis::Authoritative,
    }
}
