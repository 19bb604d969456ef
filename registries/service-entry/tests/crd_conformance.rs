//! Runs the conformance suite over custom resources, on a scripted API server and a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tributary_conformance::{Ability, Act, Harness, Refusable, Rest, Script, Service, conformance_tests};
use tributary_kube_client::Connection;
use tributary_model::{ClusterId, Hostname, Namespace, RegistryName, WithheldCause};
use tributary_registry_api::RegistryFactory;
use tributary_scripted_api::{Answer, ApiServer, Kind, Verb};
use tributary_service_entry::{CrdFactory, CrdOptions};

conformance_tests!(paused, CrdHarness { named: false });

/// Namespaces are configured by name, so each is a scope: part 1 is one of them.
mod named {
    use super::CrdHarness;
    use tributary_conformance::{Scenario, conformance};

    #[tokio::test(start_paused = true)]
    async fn namespace_that_is_configured_away_is_withdrawn() {
        conformance(Scenario::ScopeConfiguredAway, &CrdHarness { named: true }).await;
    }
}

const ENTRIES: &str = "serviceentries";
const WORKLOADS: &str = "workloadentries";
const GROUPS: &str = "workloadgroups";
const SIDECARS: &str = "sidecars";
const RULES: &str = "destinationrules";
const VIRTUALS: &str = "virtualservices";
const FILTERS: &str = "envoyfilters";
const PEERS: &str = "peerauthentications";
const AUTHORIZATIONS: &str = "authorizationpolicies";
const TOKENS: &str = "requestauthentications";

struct CrdHarness {
    named: bool,
}

const REFUSABLES: [Refusable; 10] = [
    Refusable { name: ENTRIES, goes_stale: true, rest: Rest::Endpoint(1) },
    Refusable { name: WORKLOADS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: GROUPS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: SIDECARS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: RULES, goes_stale: true, rest: Rest::Removal },
    Refusable { name: VIRTUALS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: FILTERS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: PEERS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: AUTHORIZATIONS, goes_stale: true, rest: Rest::Removal },
    Refusable { name: TOKENS, goes_stale: true, rest: Rest::Removal },
];

const fn kind(plural: &'static str, kind: &'static str) -> Kind {
    Kind { group: "networking.istio.io", version: "v1", plural, kind, namespaced: true }
}

#[async_trait]
impl Harness for CrdHarness {
    async fn script(&self) -> Box<dyn Script> {
        let server = ApiServer::new(&[
            kind(ENTRIES, "ServiceEntry"),
            kind(WORKLOADS, "WorkloadEntry"),
            kind(GROUPS, "WorkloadGroup"),
            kind(SIDECARS, "Sidecar"),
            kind(RULES, "DestinationRule"),
            kind(VIRTUALS, "VirtualService"),
            kind(FILTERS, "EnvoyFilter"),
            Kind { group: "security.istio.io", ..kind(PEERS, "PeerAuthentication") },
            Kind { group: "security.istio.io", ..kind(AUTHORIZATIONS, "AuthorizationPolicy") },
            Kind { group: "security.istio.io", ..kind(TOKENS, "RequestAuthentication") },
            Kind { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false },
        ]);
        be(&server, "uid-1");
        let namespaces = if self.named { vec!["shop", "far"] } else { Vec::new() };
        Box::new(CrdScript { server, namespaces, twice: false, selected: BTreeSet::new() })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::LieEmpty => Some(
                "a list of an API server comes from a majority of its store; an object that it lacks is removed",
            ),
            Ability::Parts if self.named => None,
            Ability::Narrow if !self.named => {
                Some("every namespace is read; a test below covers configured namespaces")
            }
            Ability::Parts => Some("all ServiceEntries of a cluster are listed as one"),
            Ability::Reorder => {
                Some("an API server delivers the events of a kind in the order of their versions")
            }
            Ability::Shorten => Some("scopes are kinds, and those are configured"),
            Ability::End => Some("an uninstalled kind is a complete empty list; it has separate tests"),
            _ => None,
        }
    }
    fn refusables(&self) -> &[Refusable] {
        &REFUSABLES
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(120)
    }
}

/// Sets the identity of the cluster.
fn be(server: &ApiServer, uid: &str) {
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
}

struct CrdScript {
    server: ApiServer,
    /// The configured namespaces; empty means all.
    namespaces: Vec<&'static str>,
    twice: bool,
    /// The workloads of the service of part 1.
    selected: BTreeSet<String>,
}

fn entry(name: &str, endpoints: &[Value], resolution: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": {
            "hosts": [format!("{name}.example.com")],
            "ports": [{ "number": 5432, "name": "tcp", "protocol": "TCP" }],
            "resolution": resolution,
            "endpoints": endpoints,
        },
    })
}

/// An entry that selects workloads, and the workloads.
fn selecting(service: &Service) -> (Value, Vec<Value>) {
    let mut entry = entry(&service.name, &[], "STATIC");
    entry["spec"]["workloadSelector"] = json!({ "labels": { "app": service.name } });
    let workload = |ip: &std::net::IpAddr| {
        json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "WorkloadEntry",
            "metadata": { "name": format!("{}-{ip}", service.name), "namespace": "shop" },
            "spec": { "address": ip, "labels": { "app": service.name } },
        })
    };
    (entry, service.endpoints.iter().map(workload).collect())
}

impl CrdScript {
    /// The namespace of a service.
    fn home(&self, service: &str) -> &'static str {
        if service == "far" && !self.namespaces.is_empty() { "far" } else { "shop" }
    }
    fn set_selecting(&mut self, service: &Service) {
        let home = self.home(&service.name);
        let (mut entry, mut workloads) = selecting(service);
        for object in workloads.iter_mut().chain([&mut entry]) {
            object["metadata"]["namespace"] = home.into();
        }
        let named = |workload: &Value| workload["metadata"]["name"].as_str().unwrap().to_owned();
        let names = workloads.iter().map(named).collect();
        self.server.put(ENTRIES, entry);
        for workload in workloads {
            self.server.put(WORKLOADS, workload);
        }
        for gone in std::mem::replace(&mut self.selected, names).difference(&self.selected) {
            self.server.delete(WORKLOADS, home, gone);
        }
    }
}

#[async_trait]
impl Script for CrdScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        let connection = Connection::over(self.server.client(), "none", "in this process");
        let (name, cluster) = (RegistryName::new("entries").unwrap(), ClusterId::new("c1").unwrap());
        let namespaces = self.namespaces.iter().map(|name| Namespace::new(name).unwrap()).collect();
        let options = CrdOptions { namespaces, ..CrdOptions::default() };
        Arc::new(CrdFactory::new(name, cluster, connection, options))
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.example.com")).unwrap()
    }
    async fn set(&mut self, part: usize, service: &Service) {
        if part == 1 {
            return self.set_selecting(service);
        }
        let endpoints: Vec<Value> = service.endpoints.iter().map(|ip| json!({ "address": ip })).collect();
        for _ in 0..=usize::from(self.twice) {
            self.server.put(ENTRIES, entry(&service.name, &endpoints, "STATIC"));
        }
    }
    async fn delete(&mut self, service: &str) {
        self.server.delete(ENTRIES, self.home(service), service);
    }
    async fn act(&mut self, act: Act) {
        match act {
            Act::Fail(_) => {
                self.server.answer("/", None, usize::MAX, Answer::Status(503, "etcd is away"));
                self.server.end(ENTRIES);
            }
            Act::Recover => self.server.heal(),
            Act::Corrupt(name) => self.server.put(ENTRIES, entry(&name, &[], "SOMEHOW")),
            Act::Relist => {
                self.server.compact();
                self.server.end(ENTRIES);
            }
            Act::Tear(times) => {
                self.server.answer(ENTRIES, Some(Verb::Watch), times as usize, Answer::Torn(700));
            }
            Act::Duplicate => self.twice = true,
            Act::Refuse(kind, cause) => {
                let code = if cause == WithheldCause::Forbidden { 403 } else { 500 };
                let refusal = Answer::Status(code, "not for you");
                self.server.answer(&format!("/{kind}$"), None, usize::MAX, refusal);
                self.server.end(kind);
            }
            Act::Swap => {
                be(&self.server, "uid-2");
                for service in ["pay", "cart", "idle"] {
                    self.delete(service).await;
                }
            }
            Act::Narrow => self.namespaces.retain(|name| *name != "far"),
            Act::LieEmpty | Act::Reorder | Act::Shorten | Act::End => panic!("{act:?} was declined"),
        }
    }
}
