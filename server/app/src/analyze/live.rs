//! Findings of a running server: the conditions of its policies and services, and the policies that it does not serve.

use serde_json::Value;
use tributary_model::Code;

use super::{Finding, Severity};
use crate::cli::Server;
use crate::cli::get::{items, parse};
use crate::document::{ConditionItem, List, ObjectItem, PolicyItem, ServiceItem};
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
}

/// Reads the policies and services of a server.
pub async fn findings(server: &Server, namespace: Option<&str>) -> Result<Answer, CommandError> {
    let mut answer = Answer::default();
    let policies: Vec<PolicyItem> = list(server, "/debug/policies", namespace, &mut answer).await?;
    let services: Vec<ServiceItem> = list(server, "/debug/services", namespace, &mut answer).await?;
    answer.findings.extend(policies.iter().flat_map(of_policy));
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

fn of_policy(item: &PolicyItem) -> Vec<Finding> {
    let object = format!("{} {}/{}", item.kind, item.namespace, item.name);
    let refused = (!item.code.is_empty()).then(|| Finding {
        severity: parse_code(&item.code).map_or(Severity::Error, Severity::of_unserved),
        ..finding(&item.code, &object, &item.source, &item.reason)
    });
    let conditions = item.conditions.iter().map(|one| of_condition(one, &object, &item.source));
    refused.into_iter().chain(conditions).collect()
}

fn of_service(item: &ServiceItem) -> Vec<Finding> {
    let object = format!("service {}/{}", item.namespace, item.host);
    item.conditions.iter().map(|one| of_condition(one, &object, &ObjectItem::default())).collect()
}

fn of_condition(one: &ConditionItem, object: &str, source: &ObjectItem) -> Finding {
    finding(&one.code, object, source, &one.message)
}

/// Returns a finding; a code that this version does not know is a warning.
fn finding(code: &str, object: &str, source: &ObjectItem, message: &str) -> Finding {
    match parse_code(code) {
        Some(code) => Finding::new(Severity::of(code), code, object.to_owned(), &source.position, message),
        None => Finding {
            severity: Severity::Warning,
            code: code.to_owned(),
            position: source.position.clone(),
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
        for (code, severity) in [("TRB0327", Severity::Warning), ("TRB0305", Severity::Error)] {
            let item = PolicyItem { code: code.into(), kind: "Telemetry".into(), ..PolicyItem::default() };
            assert_eq!(of_policy(&item).iter().map(|one| one.severity).collect::<Vec<_>>(), [severity]);
        }
    }
}
