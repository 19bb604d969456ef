//! Documents that explain and why-not return. Their JSON is a contract: releases add fields and never
//! rename them.

use std::collections::BTreeSet;

use serde::Serialize;
use tributary_model::{
    Catalog, Code, Hostname, PolicyKey, PortNumber, RegistryName, Stage, StepTime, Subset, TraceStep, Verdict,
};

use super::reach::LED_BY_ROUTES;
use super::routes::ROUTES_CONNECTIONS;
use crate::client::Client;

/// Whether the client receives the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The client receives it.
    Served,
    /// The client does not receive it.
    Dropped,
}

/// Explanation why an endpoint is or is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Endpoint: `10.0.0.1:80`, `unix:/x`, `name:80`.
    pub endpoint: String,
    /// Service port that it serves: `pay.shop:80`; `pay.shop` if it is pending.
    pub service: Option<String>,
    /// Host of the service.
    #[serde(skip)]
    pub host: Option<Hostname>,
    /// Port of the service; `None` if the endpoint is pending.
    #[serde(skip)]
    pub port: Option<PortNumber>,
    /// Node id of the client.
    pub client: Option<String>,
    /// Outcome.
    pub verdict: Outcome,
    /// Decisions, in order of stage.
    pub steps: Vec<StepDocument>,
    /// Time of the explained catalog generation, by the server's clock.
    pub as_of: Option<String>,
    /// Explained catalog generation.
    pub generation: u64,
    /// Whether a registry has not synced, so more endpoints may follow.
    pub partial: bool,
}

/// Decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDocument {
    /// Stage.
    pub stage: Stage,
    /// Result.
    pub verdict: Verdict,
    /// Rule.
    pub code: Code,
    /// Source object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<StepObject>,
    /// Time of the source's last confirmation, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<String>,
    /// Start of the wait of a pending endpoint or held removal, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Decision as text.
    pub detail: String,
    /// Time of the step by the core's clock, for the application.
    #[serde(skip)]
    pub time: Option<StepTime>,
}

/// Source object and its registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StepObject {
    /// Registry.
    pub registry: Option<RegistryName>,
    /// Kind.
    pub kind: String,
    /// Namespace, possibly empty.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Position in the source, possibly empty.
    pub position: String,
}

impl StepDocument {
    fn of(step: TraceStep) -> Self {
        let object = StepObject::of(&step);
        let TraceStep { stage, verdict, code, detail, time, .. } = step;
        Self { stage, verdict, code, object, confirmed_at: None, since: None, detail, time }
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
            position: object.map(|o| o.position.to_string()).unwrap_or_default(),
        })
    }
}

impl Explanation {
    pub(super) fn new(catalog: &Catalog, endpoint: String, client: Option<&Client>) -> Self {
        Self {
            endpoint,
            service: None,
            host: None,
            port: None,
            client: client.map(|c| c.id.to_string()),
            verdict: Outcome::Dropped,
            steps: Vec::new(),
            as_of: None,
            generation: catalog.generation,
            partial: !catalog.complete,
        }
    }
    /// Sets the service that the endpoint serves; without a port if it is pending.
    pub(super) fn set_service(&mut self, host: &Hostname, port: Option<PortNumber>) {
        let port_text = port.map(|port| format!(":{port}")).unwrap_or_default();
        (self.service, self.host, self.port) = (Some(format!("{host}{port_text}")), Some(host.clone()), port);
    }
    /// Removes the steps about what leads to its port: the client was sent something else.
    pub fn forget_reach(&mut self) {
        let Some(port) = self.port else { return };
        self.steps.retain(|step| !leads_to(step, port));
    }
    /// Removes the steps about VirtualServices whose routes of connections to its port do not count for the client.
    pub fn forget_routes(&mut self, overruled: &BTreeSet<PolicyKey>) {
        let Some(port) = self.port.filter(|_| !overruled.is_empty()) else { return };
        let is_gone = |step: &StepDocument| {
            names_routes(step, port, overruled) || is_led_by_routes(step.code, &step.detail, port)
        };
        self.steps.retain(|step| !is_gone(step));
    }
    /// Adds decisions of other components and keeps the order of stages. A drop at the stage deliver turns the
    /// outcome into dropped.
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

/// All endpoints of a host that a client does not receive, grouped by rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// Requested host, in full; the wildcard host that matches it if no source declares it.
    pub host: String,
    /// Requested port, if the request names one; the answer is about this port alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNumber>,
    /// Requested subset, if the request names one; the answer is about its endpoints alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<Subset>,
    /// Service that serves it to this client.
    pub service: Option<String>,
    /// Node id of the client.
    pub client: String,
    /// Number of endpoints that the client receives, over all ports.
    pub served: usize,
    /// Whether a port needs no endpoints, because each connection or request names its destination.
    pub any_destination: bool,
    /// Whether no listener, route or target of the client leads to what it receives.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreached: bool,
    /// Rules that removed candidates, in order of stage.
    pub reasons: Vec<Reason>,
    /// What leads the client to the ports of the service, which service that is, and which DestinationRules apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<StepDocument>,
    /// Endpoints served although their source no longer lists them, grouped as the reasons are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Reason>,
    /// Whether a registry has not synced.
    pub partial: bool,
}

/// Rule and the candidates that it removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// Stage.
    pub stage: Stage,
    /// Rule.
    pub code: Code,
    /// Title of the rule.
    pub title: &'static str,
    /// What an operator does about it.
    pub next: &'static str,
    /// Number of removed candidates.
    pub count: usize,
    /// The first removed candidates.
    pub dropped: Vec<Refused>,
}

/// Removed candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refused {
    /// Endpoint; empty if the rule concerns a service.
    pub endpoint: String,
    /// Source object.
    pub object: Option<StepObject>,
    /// Start of the wait of a pending endpoint or held removal, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Reason as text.
    pub detail: String,
    /// Time of the step by the core's clock, for the application.
    #[serde(skip)]
    pub time: Option<StepTime>,
}

impl WhyNot {
    /// Maximum number of candidates listed per rule; the others are only counted.
    pub const MAX_NAMED: usize = 100;

    pub(super) fn new(catalog: &Catalog, host: &str, client: &Client) -> Self {
        Self {
            host: host.to_owned(),
            port: None,
            subset: None,
            service: None,
            client: client.id.to_string(),
            served: 0,
            any_destination: false,
            unreached: false,
            reasons: Vec::new(),
            reached: Vec::new(),
            held: Vec::new(),
            partial: !catalog.complete,
        }
    }
    /// Removes the steps about what leads to a port: the client was sent something else.
    pub fn forget_reach(&mut self, port: PortNumber) {
        self.reached.retain(|step| !leads_to(step, port));
    }
    /// Removes the steps about VirtualServices whose routes of connections to a port do not count for the client.
    pub fn forget_routes(&mut self, port: PortNumber, overruled: &BTreeSet<PolicyKey>) {
        if overruled.is_empty() {
            return;
        }
        self.reached.retain(|step| !names_routes(step, port, overruled));
        for reason in &mut self.reasons {
            let code = reason.code;
            let before = reason.dropped.len();
            reason.dropped.retain(|one| !is_led_by_routes(code, &one.detail, port));
            reason.count -= before - reason.dropped.len();
        }
        self.reasons.retain(|reason| reason.count > 0);
    }
    /// Adds removed candidates, held removals and what leads to a port; ignores other steps.
    pub fn add(&mut self, steps: impl IntoIterator<Item = TraceStep>) {
        for step in steps {
            let list = match (step.verdict, step.code) {
                (Verdict::Drop, _) => &mut self.reasons,
                (_, Code::REMOVAL_HELD) => &mut self.held,
                (
                    _,
                    Code::REACHED
                    | Code::ROUTED
                    | Code::ALIAS
                    | Code::WILDCARD
                    | Code::RULE_APPLIES
                    | Code::MESH_LOCALITY
                    | Code::CONNECTION_SECURITY
                    | Code::NOT_FOR_GRPC
                    | Code::ROUTES_APPLY
                    | Code::ROUTES_EMPTY
                    | Code::ROUTES_NOT_FOR_GRPC
                    | Code::PATCH_LEFT_OUT,
                ) => {
                    self.reached
                        .extend((self.reached.len() < Self::MAX_NAMED).then(|| StepDocument::of(step)));
                    continue;
                }
                _ => continue,
            };
            let reason = reason(list, step.stage, step.code);
            let object = StepObject::of(&step);
            let TraceStep { endpoint, detail, time, .. } = step;
            let refused = Refused { endpoint, object, since: None, detail, time };
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
    /// Records whether anything leads the client to what it receives. Call it after the last step was added.
    pub fn conclude(&mut self) {
        let leads = |step: &StepDocument| matches!(step.code, Code::REACHED | Code::ROUTED);
        let receives = self.served > 0 || self.any_destination;
        self.unreached = receives && !self.reached.iter().any(leads);
    }
}

/// Whether a step names what leads to a port. [`super::reach`] writes its detail.
fn leads_to(step: &StepDocument, port: PortNumber) -> bool {
    step.code == Code::REACHED && is_of_port(&step.detail, port)
}

/// Whether a step names one of these VirtualServices as what routes the connections to a port.
fn names_routes(step: &StepDocument, port: PortNumber, of: &BTreeSet<PolicyKey>) -> bool {
    let is = |key: &PolicyKey, object: &StepObject| {
        let name = (key.kind.as_str(), key.namespace.as_str(), &*key.name);
        name == (&*object.kind, &*object.namespace, &*object.name)
    };
    let is_one = || step.object.as_ref().is_some_and(|object| of.iter().any(|key| is(key, object)));
    step.code == Code::ROUTES_APPLY
        && step.detail.ends_with(ROUTES_CONNECTIONS)
        && is_of_port(&step.detail, port)
        && is_one()
}

/// Whether a detail is about connections to a port that a VirtualService leads elsewhere. [`super::reach`] writes it.
fn is_led_by_routes(code: Code, detail: &str, port: PortNumber) -> bool {
    code == Code::ROUTED_ELSEWHERE && detail.contains(LED_BY_ROUTES) && is_of_port(detail, port)
}

fn is_of_port(detail: &str, port: PortNumber) -> bool {
    let rest = detail.strip_prefix("port ").and_then(|rest| rest.strip_prefix(&port.to_string()));
    rest.is_some_and(|rest| rest.starts_with([' ', ':']))
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
