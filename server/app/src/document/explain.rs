//! Explanations as documents: why an endpoint is served, or where it was dropped.
//!
//! `answer::explain` writes the JSON, which is the contract; a test checks that these types read it.

use serde::{Deserialize, Serialize};

/// One candidate with its decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainItem {
    /// Endpoint.
    pub endpoint: String,
    /// Service port behind which it is served, or the service that it waits for.
    pub service: Option<String>,
    /// Client, if one was named.
    pub client: Option<String>,
    /// `served` or `dropped`.
    pub verdict: String,
    /// Decisions, in pipeline order.
    pub steps: Vec<StepItem>,
    /// Replicas that give this item, if others do not; only in documents that a command merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<String>,
}

/// One decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepItem {
    /// `source`, `merge`, `visibility`, `network`, `health`, `weight` or `deliver`.
    pub stage: String,
    /// `pass`, `warn` or `drop`.
    pub verdict: String,
    /// Code of the rule.
    pub code: String,
    /// Object concerned.
    #[serde(default)]
    pub object: Option<StepObject>,
    /// Time of the last confirmation by the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<String>,
    /// Start of the wait, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Description.
    pub detail: String,
}

/// Object and its registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepObject {
    /// Registry.
    #[serde(default)]
    pub registry: Option<String>,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Namespace.
    #[serde(default)]
    pub namespace: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Position in the source.
    #[serde(default)]
    pub position: String,
}

/// Everything of a host that a client does not receive, grouped by rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyNotItem {
    /// Replicas that give this item, if others do not; only in documents that a command merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<String>,
    /// Host.
    pub host: String,
    /// Service that serves the host to this client.
    pub service: Option<String>,
    /// Client.
    pub client: String,
    /// Number of endpoints that the client receives.
    pub served: usize,
    /// Whether a port needs no endpoints, because each connection or request names its destination.
    #[serde(default)]
    pub any_destination: bool,
    /// Whether no listener, route or target of the client leads to what it receives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreached: bool,
    /// What leads the client to the ports of the service, and which service that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<StepItem>,
    /// Rules that excluded candidates.
    pub reasons: Vec<ReasonItem>,
    /// Endpoints that are served although their source no longer lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<ReasonItem>,
}

/// Rule with the candidates that it excluded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonItem {
    /// Stage of the pipeline.
    pub stage: String,
    /// Code of the rule.
    pub code: String,
    /// Description of the rule.
    pub title: String,
    /// Next step for the operator.
    pub next: String,
    /// Number of excluded candidates.
    pub count: usize,
    /// First excluded candidates.
    pub dropped: Vec<RefusedItem>,
}

/// Excluded candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedItem {
    /// Endpoint; empty if the rule is about a service.
    pub endpoint: String,
    /// Its source.
    #[serde(default)]
    pub object: Option<StepObject>,
    /// Start of the wait, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Reason.
    pub detail: String,
}

impl ExplainItem {
    /// Maximum number of candidates in one answer.
    pub const MAX: usize = 1_000;

    /// Whether it is served.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.verdict == "served"
    }
}

impl WhyNotItem {
    /// Whether the client reaches the service.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        (self.served > 0 || self.any_destination) && !self.unreached
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
    fn documents_read_what_the_answers_write() {
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
