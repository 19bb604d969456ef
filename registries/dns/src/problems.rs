//! Problems of objects whose gateways have a host name that cannot be resolved.
//!
//! Owned by [`Names`](crate::Names), which compares after each change. A problem is reported once until it changes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tributary_model::{Code, ObjectId, ObjectRef, Problem, RegistryUpdate, ResolvedName, Scope};

/// Most names, and most addresses of a name, that one problem lists.
const MAX_NAMED: usize = 4;

/// Problems as they were reported last.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    reported: BTreeMap<ObjectId, (ObjectRef, Problem)>,
}

/// Problems of the names as they are now.
#[derive(Debug, Default)]
pub(crate) struct Current(BTreeMap<ObjectId, Found>);

#[derive(Debug)]
struct Found {
    object: ObjectRef,
    code: Code,
    lines: Vec<String>,
    more: usize,
}

impl Current {
    /// Adds a name that cannot be resolved, for each object that has it.
    pub(crate) fn add_failing<'a>(
        &mut self,
        name: &str,
        resolved: &ResolvedName,
        objects: impl IntoIterator<Item = &'a ObjectRef>,
    ) {
        let Some(failure) = &resolved.failure else { return };
        let (code, effect) = match listed(&resolved.addresses) {
            None => {
                (Code::GATEWAY_NAME_UNRESOLVED, "clients of other networks do not use the gateway".to_owned())
            }
            Some(last) => (Code::GATEWAY_NAME_FAILING, format!("its last addresses stay in use: {last}")),
        };
        let line = format!("host name {name} cannot be resolved: {}; {effect}", failure.reason);
        self.add(code, &line, objects);
    }
    /// Adds a name that is not asked for, for each object that has it.
    pub(crate) fn add_unasked<'a>(
        &mut self,
        name: &str,
        most: usize,
        objects: impl IntoIterator<Item = &'a ObjectRef>,
    ) {
        let line = format!(
            "host name {name} is not asked for: of more than {most} host names of gateways, {most} are, those with addresses first"
        );
        self.add(Code::GATEWAY_NAME_UNRESOLVED, &line, objects);
    }
    fn add<'a>(&mut self, code: Code, line: &str, objects: impl IntoIterator<Item = &'a ObjectRef>) {
        for object in objects {
            let found = self.0.entry(object.id.clone()).or_insert_with(|| Found {
                object: object.clone(),
                code,
                lines: Vec::new(),
                more: 0,
            });
            if code == Code::GATEWAY_NAME_UNRESOLVED {
                found.code = code;
            }
            if found.lines.len() < MAX_NAMED {
                found.lines.push(line.to_owned());
            } else {
                found.more += 1;
            }
        }
    }
}

/// Returns the first addresses as text; `None` without any.
fn listed(addresses: &[IpAddr]) -> Option<String> {
    let first: Vec<String> = addresses.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = addresses.len().saturating_sub(MAX_NAMED);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("{}{end}", first.join(", ")))
}

impl Found {
    fn problem(&self) -> Problem {
        let end = if self.more > 0 { format!("; and {} more", self.more) } else { String::new() };
        Problem { code: self.code, message: format!("{}{end}", self.lines.join("; ")).into() }
    }
}

impl Problems {
    /// Returns the updates that make the reported problems the current ones.
    pub(crate) fn compare(&mut self, scope: &Scope, current: &Current) -> Vec<RegistryUpdate> {
        let now: BTreeMap<ObjectId, (ObjectRef, Problem)> = current
            .0
            .iter()
            .map(|(id, found)| (id.clone(), (found.object.clone(), found.problem())))
            .collect();
        let ended = self.reported.iter().filter(|(id, _)| !now.contains_key(*id));
        let ended = ended.map(|(_, (object, _))| (object.clone(), None));
        let begun = now.iter().filter(|(id, (_, problem))| {
            self.reported.get(*id).is_none_or(|(_, reported)| reported != problem)
        });
        let begun = begun.map(|(_, (object, problem))| (object.clone(), Some(problem.clone())));
        let updates = ended.chain(begun);
        let out = updates
            .map(|(object, problem)| RegistryUpdate::Problem(scope.clone(), object, problem))
            .collect();
        self.reported = now;
        out
    }
}
