//! Registries as people read them: how each is doing, since when, and what is wrong in it.

use serde::{Deserialize, Serialize};

use super::filter::Filter;
use super::{ConditionItem, HeldItem, ObjectItem};

/// One registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryItem {
    /// Its name.
    pub name: String,
    /// `file`, …
    pub kind: String,
    /// Its provider.
    pub provider: String,
    /// The cluster that it speaks for.
    pub cluster: String,
    /// The run that is served.
    pub generation: u64,
    /// `LiveBackend`, `Stale`, `Syncing`, `Unreachable`, `AuthFailed`, `Forbidden`, `Broken` or `Failed`.
    pub state: String,
    /// Why it is not live.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The run that may replace the one that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_generation: Option<u64>,
    /// What keeps that run from being served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Whether that ends only when an operator accepts the run.
    #[serde(default)]
    pub needs_accept: bool,
    /// The identity of its source, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// How long ago its source last confirmed what it says, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
    /// How many of its runs have failed in a row.
    #[serde(default)]
    pub failures: u64,
    /// How many services it declares.
    pub services: u64,
    /// How many endpoints it has.
    pub endpoints: u64,
    /// Per part and kind of fact.
    pub collections: Vec<CollectionItem>,
    /// Parts that have ended, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedItem>,
    /// How each part of its source is doing, in the source's own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceItem>,
    /// How many removals are held, of which `held` may show the first alone.
    #[serde(default)]
    pub held_total: u64,
    /// How many objects are quarantined, of which `problems` may show the first alone.
    #[serde(default)]
    pub problems_total: u64,
    /// Removals that are held until they are confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldItem>,
    /// Objects that are quarantined; their last good version is served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemItem>,
    /// What is odd about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionItem>,
}

/// The facts of one kind in one part of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionItem {
    /// The part.
    pub scope: String,
    /// The kind of facts.
    pub kind: String,
    /// `LiveBackend`, `Stale: why`, `Syncing`, `Unknown`.
    pub freshness: String,
    /// Whether the source withholds it: what was known of it stays as it was.
    #[serde(default)]
    pub withheld: bool,
    /// How many facts of it are served.
    #[serde(default)]
    pub facts: u64,
}

/// A part of a registry that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedItem {
    /// The part.
    pub scope: String,
    /// How that is known.
    pub evidence: String,
    /// How long ago it ended, in milliseconds.
    pub ended_millis_ago: u64,
}

/// A part of a registry that fails as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceItem {
    /// The part.
    pub scope: String,
    /// `LiveBackend`, `Syncing`, `Unreachable`, `AuthFailed`, `Forbidden` or `Broken`.
    pub state: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How long ago it was said, in milliseconds.
    pub reported_millis_ago: u64,
    /// In how many milliseconds it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_millis: Option<u64>,
    /// How many removals of it are held until they are confirmed.
    #[serde(default)]
    pub held: u64,
    /// What fares apart within it: the watched kinds of a cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartItem>,
    /// More about it, in the source's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DetailItem>,
}

/// One part of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartItem {
    /// Which.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For how long, in milliseconds.
    pub since_millis_ago: u64,
    /// In how many milliseconds it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_millis: Option<u64>,
}

/// One thing that a source tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailItem {
    /// What.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One quarantined object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemItem {
    /// The object.
    pub object: ObjectItem,
    /// The row of the table of codes.
    pub code: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// The registries that the filter takes, by name.
#[must_use]
pub fn list(mut registries: Vec<RegistryItem>, filter: &Filter) -> Vec<RegistryItem> {
    registries.retain(|r| filter.takes_name(&r.name) && filter.takes_registry(&r.name));
    registries.sort_by(|a, b| a.name.cmp(&b.name));
    registries
}
