//! Why an endpoint is served, or where it was dropped: the steps, in the order of the way.

use serde::{Deserialize, Serialize};
use tributary_model::{Step, Verdict};

use super::ObjectItem;

/// One candidate and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainItem {
    /// The endpoint; empty where the steps are about the service.
    pub endpoint: String,
    /// `namespace/host:port`, or `host` where no service was found.
    pub service: String,
    /// The client, where one was named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// `served` or `dropped`.
    pub verdict: String,
    /// The decisions.
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
    /// The registry concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registry: String,
    /// The object concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectItem>,
    /// The decision in words.
    pub detail: String,
}

impl From<&Step> for StepItem {
    fn from(step: &Step) -> Self {
        Self {
            stage: word(&step.stage),
            verdict: word(&step.verdict),
            code: step.code.to_string(),
            registry: step.registry.as_ref().map(ToString::to_string).unwrap_or_default(),
            object: step.object.as_ref().map(ObjectItem::from),
            detail: step.detail.clone(),
        }
    }
}

fn word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

impl ExplainItem {
    /// The most candidates that one answer holds.
    pub const MAX: usize = 1_000;

    /// From the steps taken, put in the order of the way; one drop drops the candidate.
    #[must_use]
    pub fn new(endpoint: &str, service: &str, client: &str, mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.stage);
        let dropped = steps.iter().any(|step| step.verdict == Verdict::Drop);
        Self {
            endpoint: endpoint.to_owned(),
            service: service.to_owned(),
            client: client.to_owned(),
            verdict: if dropped { "dropped" } else { "served" }.to_owned(),
            steps: steps.iter().map(StepItem::from).collect(),
        }
    }
    /// Whether it is served.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.verdict == "served"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{Code, Stage};

    fn mk_step(stage: Stage, verdict: Verdict) -> Step {
        Step {
            stage,
            verdict,
            code: Code::HEALTHY,
            registry: None,
            object: None,
            endpoint: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn steps_stand_in_the_order_of_the_way_and_one_drop_decides() {
        let steps = vec![mk_step(Stage::Health, Verdict::Drop), mk_step(Stage::Source, Verdict::Pass)];
        let item = ExplainItem::new("10.0.0.1:80", "shop/pay", "", steps);
        assert_eq!(item.verdict, "dropped");
        let stages: Vec<&str> = item.steps.iter().map(|s| s.stage.as_str()).collect();
        assert_eq!(stages, ["source", "health"]);
        let item = ExplainItem::new("x", "y", "", vec![mk_step(Stage::Weight, Verdict::Warn)]);
        assert!(item.is_served());
    }
}
