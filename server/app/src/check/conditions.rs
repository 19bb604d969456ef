//! Conditions of many objects, counted by code with the first objects of each.
//!
//! `/debug/conditions` serves those of services, and the checks of services and policies read them. The counts of services come from
//! what the catalog keeps with each service and from ports and addresses; a condition that needs a walk of endpoints (TRB0403, TRB0416)
//! is shown by `get services` only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tributary_model::{Catalog, Condition, ServiceKey};

use super::finding::{counted, needs_nothing, parse_code};
use super::{Finding, Found};
use crate::document::PolicyItem;
use crate::document::services::Contested;

/// Maximum number of objects that are named for one code.
const MAX_EXAMPLES: usize = 3;

/// Conditions of one code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionCountItem {
    /// Code from the table of codes.
    pub code: String,
    /// Meaning of the code.
    pub title: String,
    /// Number of objects that have it.
    pub count: u64,
    /// The first objects in order, each with its message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ExampleItem>,
}

/// Object with a condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleItem {
    /// Service as NAMESPACE/HOST, or policy as KIND NAMESPACE/NAME.
    pub object: String,
    /// Description of the condition.
    pub message: String,
}

/// Counts conditions by code.
#[derive(Debug, Default)]
struct Counts(BTreeMap<String, ConditionCountItem>);

impl Counts {
    fn add(&mut self, code: String, object: impl Fn() -> String, message: &str) {
        let row = self.0.entry(code).or_default();
        row.count += 1;
        if row.examples.len() < MAX_EXAMPLES {
            row.examples.push(ExampleItem { object: object(), message: message.to_owned() });
        }
    }
    fn items(self) -> Vec<ConditionCountItem> {
        let title = |code: &str| parse_code(code).map_or("", |code| code.info().title).to_owned();
        let item = |(code, row): (String, ConditionCountItem)| ConditionCountItem {
            title: title(&code),
            code,
            ..row
        };
        self.0.into_iter().map(item).collect()
    }
}

/// Counts the conditions of services, ordered by code.
#[must_use]
pub fn of_services(catalog: &Catalog, contested: &Contested) -> Vec<ConditionCountItem> {
    let mut counts = Counts::default();
    let name = |key: &ServiceKey| format!("{}/{}", key.namespace, key.host);
    let mut add = |key: &ServiceKey, condition: &Condition| {
        counts.add(condition.code.to_string(), || name(key), &condition.message);
    };
    for view in catalog.hosts.values().flat_map(|entry| entry.claimants.iter()) {
        view.conditions.iter().for_each(|condition| add(&view.key, condition));
    }
    for (key, conditions) in contested.iter() {
        conditions.iter().for_each(|condition| add(key, condition));
    }
    counts.items()
}

/// Counts the conditions of policies, ordered by code.
#[must_use]
pub fn of_policies(policies: &[PolicyItem]) -> Vec<ConditionCountItem> {
    let mut counts = Counts::default();
    for policy in policies {
        let name = || format!("{} {}/{}", policy.kind, policy.namespace, policy.name);
        policy.conditions.iter().for_each(|one| counts.add(one.code.clone(), name, &one.message));
    }
    counts.items()
}

/// Returns a finding for each code: a warning, or an info if nothing is to be done.
pub(super) fn findings(kind: (&str, &str), counts: &[ConditionCountItem]) -> Vec<Finding> {
    counts.iter().map(|row| finding(kind, row)).collect()
}

fn finding((one, several): (&str, &str), row: &ConditionCountItem) -> Finding {
    let first = row.examples.first().map(|one| format!("{}: {}", one.object, one.message));
    let others: Vec<&str> = row.examples.iter().skip(1).map(|one| &*one.object).collect();
    let more = row.count.saturating_sub(row.examples.len() as u64);
    let mut message = format!("{}, such as {}", counted(row.count, one, several), first.unwrap_or_default());
    if !others.is_empty() {
        message.push_str(&format!("; also {}", others.join(", ")));
    }
    if more > 0 {
        message.push_str(&format!(" and {more} more"));
    }
    let title = if row.title.is_empty() { "condition" } else { &row.title };
    let made = if needs_nothing(&row.code) {
        Finding::info(title, message)
    } else {
        Finding::warning(title, message)
    };
    made.coded(&row.code)
}

/// Judges conditions of services.
pub(super) fn services(documents: &super::Documents) -> Found {
    let count: u64 = documents.conditions.iter().map(|row| row.count).sum();
    Found::new(
        counted(count, "condition", "conditions"),
        findings(("service", "services"), &documents.conditions),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ConditionItem;

    #[test]
    fn conditions_are_counted_by_code_with_a_few_examples() {
        let policy = |name: &str, codes: &[&str]| PolicyItem {
            kind: "DestinationRule".into(),
            namespace: "shop".into(),
            name: name.into(),
            conditions: codes
                .iter()
                .map(|code| ConditionItem { code: (*code).into(), message: "why".into(), objects: vec![] })
                .collect(),
            ..PolicyItem::default()
        };
        let all: Vec<_> = ["a", "b", "c", "d"].map(|name| policy(name, &["TRB0449"])).into();
        let counts = of_policies(&[&all[..], &[policy("e", &["TRB0425"])]].concat());
        assert_eq!(
            counts.iter().map(|row| (&*row.code, row.count)).collect::<Vec<_>>(),
            [("TRB0425", 1), ("TRB0449", 4)]
        );
        let found = findings(("policy", "policies"), &counts);
        assert_eq!(found[0].severity, crate::check::Severity::Info, "nothing is to be done");
        let text = "4 policies, such as DestinationRule shop/a: why; also DestinationRule shop/b, \
                    DestinationRule shop/c and 1 more";
        assert_eq!(found[1].message, text);
    }
}
