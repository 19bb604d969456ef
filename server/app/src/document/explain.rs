//! Why an endpoint is served, or where it was dropped, as the command line reads it.
//!
//! The answers are written by `answer::explain`, whose JSON is the contract; a test holds that
//! what it writes is read here.

use serde::{Deserialize, Serialize};

/// One candidate and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainItem {
    /// The endpoint.
    pub endpoint: String,
    /// The service port that it stands behind, or the service for which it waits.
    pub service: Option<String>,
    /// The client, where one was named.
    pub client: Option<String>,
    /// `served` or `dropped`.
    pub verdict: String,
    /// The decisions, in the order of the way.
    pub steps: Vec<StepItem>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepItem {
    /// `source`, `merge`, `scope`, `network`, `health`, `weight` or `deliver`.
    pub stage: String,
    /// `pass`, `warn` or `drop`.
    pub verdict: String,
    /// The rule.
    pub code: String,
    /// The object concerned.
    #[serde(default)]
    pub object: Option<StepObject>,
    /// When the source last confirmed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<String>,
    /// Since when that is so, where it waits for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The decision in words.
    pub detail: String,
}

/// An object and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepObject {
    /// The registry.
    #[serde(default)]
    pub registry: Option<String>,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Where a person finds it.
    #[serde(default)]
    pub position: String,
}

/// All that a client does not get of a host, grouped by rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyNotItem {
    /// The host.
    pub host: String,
    /// The service that serves it to this client.
    pub service: Option<String>,
    /// The client.
    pub client: String,
    /// How many endpoints the client is told.
    pub served: usize,
    /// The rules that left something out.
    pub reasons: Vec<ReasonItem>,
    /// What is served although its source no longer lists it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<ReasonItem>,
}

/// A rule and what it left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonItem {
    /// The part of the way.
    pub stage: String,
    /// The rule.
    pub code: String,
    /// The rule in words.
    pub title: String,
    /// What a person does about it.
    pub next: String,
    /// How many candidates it left out.
    pub count: usize,
    /// The first of them.
    pub dropped: Vec<RefusedItem>,
}

/// A candidate that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedItem {
    /// The endpoint; empty where the rule is about a service.
    pub endpoint: String,
    /// Its source.
    #[serde(default)]
    pub object: Option<StepObject>,
    /// Since when that is so, where it waits for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why, in words.
    pub detail: String,
}

impl ExplainItem {
    /// The most candidates that one answer holds.
    pub const MAX: usize = 1_000;

    /// Whether it is served.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.verdict == "served"
    }
}

impl std::fmt::Display for StepObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if self.kind.is_empty() { "" } else { " " };
        match self.namespace.as_str() {
            "" => write!(f, "{}{space}{}", self.kind, self.name),
            namespace => write!(f, "{}{space}{namespace}/{}", self.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_answer::{Client, Query, explain, why_not};
    use tributary_model::{Catalog, ClientKind};

    #[test]
    fn what_the_answers_write_is_read() {
        let catalog = Catalog::default();
        let client = Client::new("c", ClientKind::Grpc);
        let query: Query = "10.0.0.1:80".parse().unwrap();
        let written = serde_json::to_value(explain(&catalog, &query, Some(&client))).unwrap();
        let read: Vec<ExplainItem> = serde_json::from_value(written).unwrap();
        assert!(!read[0].is_served() && read[0].steps[0].code == "TRB0502", "{read:?}");
        let written = serde_json::to_value(why_not(&catalog, "a.b", &client)).unwrap();
        let read: WhyNotItem = serde_json::from_value(written).unwrap();
        assert_eq!((read.served, read.reasons[0].code.as_str()), (0, "TRB0524"));
    }
}
