//! A running source, and the accumulated events that it reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tributary_model::{ClusterId, Evidence, Fact, FactId, FactKey, RegistryUpdate, Scope, SourceState};
use tributary_scripted_api::{ApiServer, Kind};
use tributary_service_entry::{
    Context, CrdOptions, CrdSource, DocumentSource, SourceEvent, registry_updates,
};

pub(crate) const ENTRIES: &str = "serviceentries";
pub(crate) const WORKLOADS: &str = "workloadentries";
pub(crate) const GROUPS: &str = "workloadgroups";
pub(crate) const SIDECARS: &str = "sidecars";
pub(crate) const RULES: &str = "destinationrules";
pub(crate) const VIRTUALS: &str = "virtualservices";
pub(crate) const FILTERS: &str = "envoyfilters";
pub(crate) const PEERS: &str = "peerauthentications";
pub(crate) const AUTHORIZATIONS: &str = "authorizationpolicies";
pub(crate) const TOKENS: &str = "requestauthentications";

pub(crate) fn kind(plural: &'static str) -> Kind {
    served(plural, "v1")
}

pub(crate) fn served(plural: &'static str, version: &'static str) -> Kind {
    let kind = match plural {
        ENTRIES => "ServiceEntry",
        WORKLOADS => "WorkloadEntry",
        SIDECARS => "Sidecar",
        RULES => "DestinationRule",
        VIRTUALS => "VirtualService",
        FILTERS => "EnvoyFilter",
        PEERS => "PeerAuthentication",
        AUTHORIZATIONS => "AuthorizationPolicy",
        TOKENS => "RequestAuthentication",
        _ => "WorkloadGroup",
    };
    let is_of_security = [PEERS, AUTHORIZATIONS, TOKENS].contains(&plural);
    let group = if is_of_security { "security.istio.io" } else { "networking.istio.io" };
    Kind { group, version, plural, kind, namespaced: true }
}

pub(crate) fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": kind,
        "metadata": { "name": name, "namespace": "shop", "creationTimestamp": "2026-01-02T03:04:05Z" },
        "spec": spec,
    })
}

pub(crate) fn entry(name: &str, host: &str) -> Value {
    let ports = json!([{ "number": 80, "name": "http", "protocol": "HTTP" }]);
    let endpoints = json!([{ "address": "10.0.0.1" }]);
    let spec = json!({ "hosts": [host], "ports": ports, "resolution": "STATIC", "endpoints": endpoints });
    object("ServiceEntry", name, spec)
}

pub(crate) fn workload(name: &str, address: &str) -> Value {
    object("WorkloadEntry", name, json!({ "address": address }))
}

pub(crate) fn sidecar(name: &str, host: &str) -> Value {
    object("Sidecar", name, json!({ "egress": [{ "hosts": [host] }] }))
}

pub(crate) fn rule(name: &str, host: &str) -> Value {
    object("DestinationRule", name, json!({ "host": host, "subsets": [{ "name": "v1" }] }))
}

pub(crate) fn virtual_service(name: &str, host: &str) -> Value {
    let route = json!([{ "destination": { "host": "web" } }]);
    object("VirtualService", name, json!({ "hosts": [host], "http": [{ "route": route }] }))
}

/// An EnvoyFilter in the one version that Istio serves, with a patch of this operation.
pub(crate) fn filter(name: &str, operation: &str) -> Value {
    let patch = json!({ "operation": operation, "value": { "name": "x" } });
    let patches = json!({ "configPatches": [{ "applyTo": "CLUSTER", "patch": patch }] });
    let mut filter = object("EnvoyFilter", name, patches);
    filter["apiVersion"] = "networking.istio.io/v1alpha3".into();
    filter
}

/// A PeerAuthentication with this mode.
pub(crate) fn peer(name: &str, mode: &str) -> Value {
    let mut peer = object("PeerAuthentication", name, json!({ "mtls": { "mode": mode } }));
    peer["apiVersion"] = "security.istio.io/v1".into();
    peer
}

/// An AuthorizationPolicy for workloads `app=pay` with this action and one rule that matches everything.
pub(crate) fn authorization(name: &str, action: &str) -> Value {
    let selector = json!({ "matchLabels": { "app": "pay" } });
    let spec = json!({ "selector": selector, "action": action, "rules": [{}] });
    let mut policy = object("AuthorizationPolicy", name, spec);
    policy["apiVersion"] = "security.istio.io/v1".into();
    policy
}

/// A RequestAuthentication for workloads `app=pay` with one rule, whose keys are at this address.
pub(crate) fn tokens(name: &str, address: &str) -> Value {
    let selector = json!({ "matchLabels": { "app": "pay" } });
    let spec = json!({ "selector": selector, "jwtRules": [{ "issuer": "iss", "jwksUri": address }] });
    let mut policy = object("RequestAuthentication", name, spec);
    policy["apiVersion"] = "security.istio.io/v1".into();
    policy
}

pub(crate) fn server() -> ApiServer {
    ApiServer::new(&[
        kind(ENTRIES),
        kind(WORKLOADS),
        kind(GROUPS),
        kind(SIDECARS),
        kind(RULES),
        kind(VIRTUALS),
        served(FILTERS, "v1alpha3"),
        kind(PEERS),
        kind(AUTHORIZATIONS),
        kind(TOKENS),
    ])
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A source and the state that results from its events.
pub(crate) struct Fixture {
    pub(crate) server: ApiServer,
    source: CrdSource,
    context: Context,
    pub(crate) facts: BTreeMap<FactId, Fact>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) problems: BTreeMap<String, String>,
    pub(crate) excluded: BTreeMap<String, String>,
    pub(crate) listed: BTreeSet<String>,
    pub(crate) withheld: BTreeSet<String>,
    pub(crate) states: BTreeMap<String, SourceState>,
    /// Number of facts that were put.
    pub(crate) puts: usize,
    /// The reported identities, each with the number of facts put before it.
    pub(crate) identities: Vec<(String, usize)>,
}

impl Fixture {
    pub(crate) fn new(server: ApiServer, options: &CrdOptions) -> Self {
        Self {
            source: CrdSource::new(&server.client(), options).unwrap(),
            context: Context::new(ClusterId::new("c1").unwrap()),
            server,
            facts: BTreeMap::new(),
            evidence: Vec::new(),
            problems: BTreeMap::new(),
            excluded: BTreeMap::new(),
            listed: BTreeSet::new(),
            withheld: BTreeSet::new(),
            states: BTreeMap::new(),
            puts: 0,
            identities: Vec::new(),
        }
    }
    /// Marks a scope as held from an earlier run.
    pub(crate) fn hold(&mut self, scope: &str) {
        self.source.hold(&[Scope::new(scope).unwrap()]);
    }
    pub(crate) fn all(server: ApiServer) -> Self {
        Self::new(server, &CrdOptions::default())
    }
    /// Receives events until a condition holds.
    pub(crate) async fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + secs(3_600);
        while !so(self) {
            let received = tokio::time::timeout_at(until, self.source.next()).await;
            let Ok(events) = received else { panic!("{what}: did not come; {}", self.shown()) };
            events.unwrap().into_iter().for_each(|event| self.observe(event));
        }
    }
    /// Receives events until the source fails; returns the error.
    pub(crate) async fn until_ended(&mut self) -> String {
        let until = Instant::now() + secs(3_600);
        loop {
            match tokio::time::timeout_at(until, self.source.next()).await.expect("it goes on") {
                Ok(events) => events.into_iter().for_each(|event| self.observe(event)),
                Err(error) => return error.to_string(),
            }
        }
    }
    /// Receives events for a duration.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(events) = tokio::time::timeout_at(until, self.source.next()).await {
            events.unwrap().into_iter().for_each(|event| self.observe(event));
        }
    }
    pub(crate) async fn until_listed(&mut self, scopes: &[&str]) {
        self.until("listed", |f| scopes.iter().all(|scope| f.listed.contains(*scope))).await;
    }
    fn observe(&mut self, event: SourceEvent) {
        if let SourceEvent::Withheld(scope, _) = &event {
            self.withheld.insert(scope.to_string());
        }
        for update in registry_updates(event, &self.context) {
            self.apply(update);
        }
    }
    fn apply(&mut self, update: RegistryUpdate) {
        match update {
            RegistryUpdate::Put(_, fact, _) => {
                self.puts += 1;
                self.facts.insert(fact.item(), fact);
            }
            RegistryUpdate::Remove(FactKey { item, .. }, evidence) => {
                self.facts.remove(&item);
                self.evidence.push(evidence);
            }
            RegistryUpdate::ListStarted(collection) => drop(self.withheld.remove(collection.scope.as_str())),
            RegistryUpdate::ListEnded(collection, _) => {
                self.withheld.remove(collection.scope.as_str());
                self.listed.insert(collection.scope.to_string());
            }
            RegistryUpdate::Problem(_, object, Some(problem)) => {
                self.problems.insert(object.id.to_string(), problem.message.to_string());
            }
            RegistryUpdate::Problem(_, object, None) => drop(self.problems.remove(&object.id.to_string())),
            RegistryUpdate::Status(scope, status) => {
                self.states.insert(scope.to_string(), status.state);
            }
            RegistryUpdate::Excluded(_, list) => {
                self.excluded = list
                    .iter()
                    .map(|left| (left.object.id.name.to_string(), left.message.to_string()))
                    .collect();
            }
            RegistryUpdate::Follows { .. }
            | RegistryUpdate::Progress(_)
            | RegistryUpdate::Withheld(..)
            | RegistryUpdate::End(..) => {}
            RegistryUpdate::Identity(identity) => self.identities.push((identity.to_string(), self.puts)),
        }
    }
    /// The hosts, workloads and policies of the current facts.
    pub(crate) fn shown(&self) -> String {
        let show = |fact: &Fact| match fact {
            Fact::Service(key, _) => Some(key.service.host.to_string()),
            Fact::Workload(key, _) => Some(key.name.to_string()),
            Fact::Policy(key, _) => Some(key.to_string()),
            _ => None,
        };
        self.facts.values().filter_map(show).collect::<Vec<_>>().join(" ")
    }
    pub(crate) async fn until_shown(&mut self, expected: &str) {
        self.until(expected, |f| f.shown() == expected).await;
    }
    /// The addresses of a host, with a star after allocated ones.
    pub(crate) fn vips(&self, host: &str) -> String {
        let of = |fact: &Fact| match fact {
            Fact::Service(key, declaration) if key.service.host.as_str() == host => Some(declaration.clone()),
            _ => None,
        };
        let Some(declaration) = self.facts.values().find_map(of) else { return "none".into() };
        let show =
            |a: &tributary_model::ServiceAddress| format!("{}{}", a.ip, if a.allocated { "*" } else { "" });
        declaration.addresses.iter().map(show).collect::<Vec<_>>().join(" ")
    }
}
