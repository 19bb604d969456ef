//! The documents that explain and why-not return. Their JSON is a contract: fields are added, never
//! renamed.

use serde::Serialize;
use tributary_model::{Catalog, Code, RegistryName, Stage, TraceStep, Verdict};

use crate::client::Client;

/// Whether the client gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It does.
    Served,
    /// It does not.
    Dropped,
}

/// Why an endpoint is or is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The endpoint: `10.0.0.1:80`, `unix:/x`, `name:80`.
    pub endpoint: String,
    /// The service port that it stands behind: `pay.shop:80`; `pay.shop` where it waits for something.
    pub service: Option<String>,
    /// The client's node id.
    pub client: Option<String>,
    /// The outcome.
    pub verdict: Outcome,
    /// The decisions, in the order of the way.
    pub steps: Vec<StepDocument>,
    /// The time of the generation that this is about, by the server's clock.
    pub as_of: Option<String>,
    /// The generation of the catalog that this is about.
    pub generation: u64,
    /// Whether a source has not been heard yet, so that there may be more.
    pub partial: bool,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDocument {
    /// The part of the way.
    pub stage: Stage,
    /// What was decided.
    pub verdict: Verdict,
    /// The rule.
    pub code: Code,
    /// The source object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<StepObject>,
    /// When the source last confirmed it, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<String>,
    /// Since when that is so, where it waits for something, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The decision in words.
    pub detail: String,
}

/// A source object and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StepObject {
    /// The registry.
    pub registry: Option<RegistryName>,
    /// Its kind.
    pub kind: String,
    /// Its namespace, possibly empty.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where a person finds it, possibly empty.
    pub place: String,
}

impl StepDocument {
    fn of(step: TraceStep) -> Self {
        let object = StepObject::of(&step);
        let TraceStep { stage, verdict, code, detail, .. } = step;
        Self { stage, verdict, code, object, confirmed_at: None, since: None, detail }
    }
}

impl StepObject {
    fn of(step: &TraceStep) -> Option<Self> {
        let object = step.object.as_ref();
        if object.is_none() && step.registry.is_none() {
            return None;
        }
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        Some(Self {
            registry: step.registry.clone(),
            kind: text(object.map(|o| o.id.kind)),
            namespace: text(object.map(|o| &*o.id.namespace)),
            name: text(object.map(|o| &*o.id.name)),
            place: text(object.map(|o| &*o.place)),
        })
    }
}

impl Explanation {
    pub(super) fn new(catalog: &Catalog, endpoint: String, client: Option<&Client>) -> Self {
        Self {
            endpoint,
            service: None,
            client: client.map(|c| c.id.to_string()),
            verdict: Outcome::Dropped,
            steps: Vec::new(),
            as_of: None,
            generation: catalog.generation,
            partial: !catalog.complete,
        }
    }
    /// Adds decisions made elsewhere and keeps the order of the way. What was served is not when a
    /// later part of the way (delivery) ended there.
    pub fn add(&mut self, steps: impl IntoIterator<Item = TraceStep>) {
        for step in steps {
            if step.stage == Stage::Deliver && step.verdict == Verdict::Drop {
                self.verdict = Outcome::Dropped;
            }
            let step = StepDocument::of(step);
            if !self.steps.contains(&step) {
                self.steps.push(step);
            }
        }
        self.steps.sort_by_key(|step| step.stage);
    }
}

/// All that a client does not get of a host, grouped by rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// The host asked for.
    pub host: String,
    /// The service that serves it to this client.
    pub service: Option<String>,
    /// The client's node id.
    pub client: String,
    /// How many endpoints of it the client is told, over all ports.
    pub served: usize,
    /// The rules that left something out, in the order of the way.
    pub reasons: Vec<Reason>,
    /// What is served although its source no longer lists it, grouped as the reasons are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Reason>,
    /// Whether a source has not been heard yet.
    pub partial: bool,
}

/// A rule and what it left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The part of the way.
    pub stage: Stage,
    /// The rule.
    pub code: Code,
    /// The rule in words.
    pub title: &'static str,
    /// What a person does about it.
    pub next: &'static str,
    /// How many candidates it left out.
    pub count: usize,
    /// The first of them.
    pub dropped: Vec<Refused>,
}

/// A candidate that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refused {
    /// The endpoint; empty where the rule is about a service.
    pub endpoint: String,
    /// Its source.
    pub object: Option<StepObject>,
    /// Since when that is so, where it waits for something, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why, in words.
    pub detail: String,
}

impl WhyNot {
    /// Most candidates that are named per rule; the rest is counted.
    pub const MAX_NAMED: usize = 100;

    pub(super) fn new(catalog: &Catalog, host: &str, client: &Client) -> Self {
        Self {
            host: host.to_owned(),
            service: None,
            client: client.id.to_string(),
            served: 0,
            reasons: Vec::new(),
            held: Vec::new(),
            partial: !catalog.complete,
        }
    }
    /// Adds what other rules left out, and what is held; other steps are not kept.
    pub fn add(&mut self, steps: impl IntoIterator<Item = TraceStep>) {
        for step in steps {
            let list = match (step.verdict, step.code) {
                (Verdict::Drop, _) => &mut self.reasons,
                (_, Code::REMOVAL_HELD) => &mut self.held,
                _ => continue,
            };
            let reason = reason(list, step.stage, step.code);
            let object = StepObject::of(&step);
            let refused = Refused { endpoint: step.endpoint, object, since: None, detail: step.detail };
            if reason.dropped.contains(&refused) {
                continue;
            }
            reason.count += 1;
            if reason.dropped.len() < Self::MAX_NAMED {
                reason.dropped.push(refused);
            }
        }
        self.reasons.sort_by_key(|r| (r.stage, r.code));
    }
}

fn reason(list: &mut Vec<Reason>, stage: Stage, code: Code) -> &mut Reason {
    let at = list.iter().position(|r| (r.stage, r.code) == (stage, code));
    let at = at.unwrap_or_else(|| {
        let info = code.info();
        let (title, next) = (info.title, info.next);
        list.push(Reason { stage, code, title, next, count: 0, dropped: Vec::new() });
        list.len() - 1
    });
    &mut list[at]
}
