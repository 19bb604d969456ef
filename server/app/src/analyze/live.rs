//! Findings of a running server: the conditions of its policies and services, and the objects that it does not serve.

use std::collections::BTreeSet;

use serde_json::Value;
use tributary_model::Code;

use super::{Finding, Severity, position_of};
use crate::cli::Server;
use crate::cli::get::{items, parse};
use crate::document::registries::ProblemItem;
use crate::document::{ConditionItem, List, ObjectItem, PolicyItem, RegistryItem, ServiceItem};
use crate::exit::CommandError;

/// Findings, and whether some may be missing.
#[derive(Debug, Default)]
pub struct Answer {
    /// Findings.
    pub findings: Vec<Finding>,
    /// Whether a registry has not synced.
    pub partial: bool,
    /// Objects beyond the limit of a list.
    pub remaining: usize,
    /// Registries whose objects may have changed since the server read them, with the reason.
    pub not_live: Vec<String>,
}

/// Reads the policies and services of a server.
pub async fn findings(server: &Server, namespace: Option<&str>) -> Result<Answer, CommandError> {
    let mut answer = Answer::default();
    let policies: Vec<PolicyItem> = list(server, "/debug/policies", namespace, &mut answer).await?;
    let services: Vec<ServiceItem> = list(server, "/debug/services", namespace, &mut answer).await?;
    // registries have no namespace
    let registries: Vec<RegistryItem> = list(server, "/debug/registries", None, &mut answer).await?;
    let is_wanted = |of: &&ProblemItem| namespace.is_none_or(|wanted| of.object.namespace == wanted);
    let problems = registries.iter().flat_map(|registry| &registry.problems).filter(is_wanted);
    let problems: Vec<&ProblemItem> = problems.collect();
    let shown: BTreeSet<String> = problems.iter().map(|problem| named(&problem.object)).collect();
    answer.findings.extend(problems.into_iter().map(of_problem));
    answer.findings.extend(policies.iter().flat_map(|item| of_policy(item, &shown)));
    answer.not_live = registries.iter().filter_map(not_live).collect();
    answer.findings.extend(services.iter().flat_map(of_service));
    Ok(answer)
}

async fn list<T: serde::de::DeserializeOwned>(
    server: &Server,
    path: &str,
    namespace: Option<&str>,
    answer: &mut Answer,
) -> Result<Vec<T>, CommandError> {
    let body = server.get(path, &[("namespace", namespace)]).await?;
    let list: List<Value> = parse(&body)?;
    answer.partial |= list.metadata.partial;
    answer.remaining += list.metadata.remaining;
    items(&list)
}

/// Returns the name of an object as it stands in a finding.
fn named(object: &ObjectItem) -> String {
    let namespace =
        if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
    format!("{} {namespace}{}", object.kind, object.name)
}

/// Returns why the objects of a registry may have changed since.
fn not_live(registry: &RegistryItem) -> Option<String> {
    let why = if registry.reason.is_empty() { String::new() } else { format!(": {}", registry.reason) };
    (registry.state != "Live").then(|| format!("{} is {}{why}", registry.name, registry.state))
}

/// Returns an object of which the last version, or none, is served. The message of a problem begins with its own position,
/// which is more exact than that of the object.
fn of_problem(problem: &ProblemItem) -> Finding {
    let own = position_of(&problem.message);
    let (position, message) = own.unwrap_or((&problem.object.position, &problem.message));
    refused(&problem.code, &named(&problem.object), position, message)
}

fn refused(code: &str, object: &str, position: &str, message: &str) -> Finding {
    let severity = parse_code(code).map_or(Severity::Error, Severity::of_unserved);
    Finding { severity, ..finding(code, object, position, message) }
}

/// Returns the conditions of a policy, and why it is not served unless its problem is shown.
fn of_policy(item: &PolicyItem, shown: &BTreeSet<String>) -> Vec<Finding> {
    let object = format!("{} {}/{}", item.kind, item.namespace, item.name);
    let is_refused = !item.code.is_empty() && !shown.contains(&object);
    let refused = is_refused.then(|| refused(&item.code, &object, &item.source.position, &item.reason));
    let conditions = item.conditions.iter().map(|one| of_condition(one, &object, &item.source));
    refused.into_iter().chain(conditions).collect()
}

fn of_service(item: &ServiceItem) -> Vec<Finding> {
    let object = format!("service {}/{}", item.namespace, item.host);
    item.conditions.iter().map(|one| of_condition(one, &object, &ObjectItem::default())).collect()
}

fn of_condition(one: &ConditionItem, object: &str, source: &ObjectItem) -> Finding {
    finding(&one.code, object, &source.position, &one.message)
}

/// Returns a finding; a code that this version does not know is a warning.
fn finding(code: &str, object: &str, position: &str, message: &str) -> Finding {
    match parse_code(code) {
        Some(code) => Finding::new(Severity::of(code), code, object.to_owned(), position, message),
        None => Finding {
            severity: Severity::Warning,
            code: code.to_owned(),
            position: position.to_owned(),
            object: object.to_owned(),
            message: message.to_owned(),
            next: String::new(),
        },
    }
}

/// Returns a code that this version knows.
fn parse_code(code: &str) -> Option<Code> {
    code.strip_prefix("TRB")?.parse().ok().and_then(Code::from_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_of_an_unserved_kind_is_a_warning_and_an_invalid_one_an_error() {
        for (code, severity) in [
            ("TRB0327", Severity::Warning),
            ("TRB0328", Severity::Warning),
            ("TRB0304", Severity::Error),
            ("TRB0305", Severity::Error),
        ] {
            let item = PolicyItem { code: code.into(), kind: "Telemetry".into(), ..PolicyItem::default() };
            let found = of_policy(&item, &BTreeSet::new());
            assert_eq!(found.iter().map(|one| one.severity).collect::<Vec<_>>(), [severity]);
        }
    }

    #[test]
    fn object_that_is_not_served_is_found_once_at_its_fault() {
        let object = ObjectItem {
            kind: "DestinationRule".into(),
            namespace: "shop".into(),
            name: "a".into(),
            position: "/x/a.yaml:1:1".into(),
            ..ObjectItem::default()
        };
        let message = "/x/a.yaml:5:9: spec.host is a list; it must be text".into();
        let problem = ProblemItem { object, code: "TRB0305".into(), message };
        let found = of_problem(&problem);
        assert_eq!((&*found.position, found.severity), ("/x/a.yaml:5:9", Severity::Error));
        assert_eq!(
            (&*found.object, &*found.message),
            ("DestinationRule shop/a", "spec.host is a list; it must be text")
        );
        let item = PolicyItem {
            code: "TRB0305".into(),
            kind: "DestinationRule".into(),
            namespace: "shop".into(),
            name: "a".into(),
            ..PolicyItem::default()
        };
        assert!(of_policy(&item, &BTreeSet::from([named(&problem.object)])).is_empty());
    }

    #[test]
    fn registry_that_is_not_live_is_noted() {
        let mut registry = RegistryItem { name: "f".into(), state: "Live".into(), ..RegistryItem::default() };
        assert_eq!(not_live(&registry), None);
        (registry.state, registry.reason) = ("Unreachable".into(), "the directory is gone".into());
        assert_eq!(not_live(&registry).unwrap(), "f is Unreachable: the directory is gone");
    }
}
