//! Registries as documents: state, freshness and problems.

use serde::{Deserialize, Serialize};

use super::filter::Filter;
use super::{ConditionItem, HeldItem, ObjectItem};

/// One registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryItem {
    /// Name.
    pub name: String,
    /// Kind: `file`, …
    pub kind: String,
    /// Provider.
    pub provider: String,
    /// Cluster of the registry.
    pub cluster: String,
    /// Generation that is served.
    pub generation: u64,
    /// `Live`, `Stale`, `Syncing`, `Unreachable`, `AuthFailed`, `Forbidden`, `Broken` or `Failed`.
    pub state: String,
    /// Reason of a state other than live, or a note on a live one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Generation of the shadow run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_generation: Option<u64>,
    /// Why the shadow run does not serve.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Whether the shadow run waits until an operator accepts it.
    #[serde(default)]
    pub needs_accept: bool,
    /// Identity of its source, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Time since its source last confirmed the served facts, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
    /// Number of consecutive failed runs.
    #[serde(default)]
    pub failures: u64,
    /// Number of services that it declares.
    pub services: u64,
    /// Number of its endpoints.
    pub endpoints: u64,
    /// Collections: one for each scope and kind of facts.
    pub collections: Vec<CollectionItem>,
    /// Ended scopes, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedItem>,
    /// Status of each scope, as the adapter reports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceItem>,
    /// Number of held removals; `held` may list only the first.
    #[serde(default)]
    pub held_total: u64,
    /// Number of quarantined objects; `problems` may list only the first.
    #[serde(default)]
    pub problems_total: u64,
    /// Removals that are held until they are confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldItem>,
    /// Quarantined objects, whose last valid version is served; then objects of kinds that are not served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemItem>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionItem>,
}

/// Collection: the facts of one kind in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionItem {
    /// Scope.
    pub scope: String,
    /// Kind of facts.
    pub kind: String,
    /// `Live`, `Stale: why`, `Syncing`, `Unknown`.
    pub freshness: String,
    /// Whether the source withholds it: its facts stay unchanged.
    #[serde(default)]
    pub withheld: bool,
    /// Number of served facts.
    #[serde(default)]
    pub facts: u64,
}

/// Ended scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedItem {
    /// Scope.
    pub scope: String,
    /// Evidence of the end.
    pub evidence: String,
    /// Time since it ended, in milliseconds.
    pub ended_millis_ago: u64,
}

/// Status of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceItem {
    /// Scope.
    pub scope: String,
    /// `Live`, `Syncing`, `Unreachable`, `AuthFailed`, `Forbidden` or `Broken`.
    pub state: String,
    /// Reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time in this state, in milliseconds; absent if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_millis_ago: Option<u64>,
    /// Time since the status was reported, in milliseconds.
    pub reported_millis_ago: u64,
    /// Time until the next try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_millis: Option<u64>,
    /// Number of held removals of this scope.
    #[serde(default)]
    pub held: u64,
    /// Mode in which the adapter follows the source; its reason is in the details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Parts with a state of their own: the watched kinds of a cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartItem>,
    /// Details, in the adapter's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DetailItem>,
}

/// Status of one part of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartItem {
    /// Name.
    pub name: String,
    /// State.
    pub state: String,
    /// Reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time in this state, in milliseconds.
    pub since_millis_ago: u64,
    /// Time until the next try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_millis: Option<u64>,
}

/// Detail that an adapter reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetailItem {
    /// Name.
    pub name: String,
    /// Value; empty if it is an age.
    pub value: String,
    /// Value, if it is the time since something, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_millis: Option<u64>,
    /// Value, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

/// Quarantined object, object that is served without a field, or object of a kind that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemItem {
    /// Object.
    pub object: ObjectItem,
    /// Code from the table of codes.
    pub code: String,
    /// Problem and next step.
    pub message: String,
}

/// Returns the registries that match the filter, ordered by name.
#[must_use]
pub fn list(mut registries: Vec<RegistryItem>, filter: &Filter) -> Vec<RegistryItem> {
    registries.retain(|r| filter.takes_name(&r.name) && filter.takes_registry(&r.name));
    registries.sort_by(|a, b| a.name.cmp(&b.name));
    registries
}
