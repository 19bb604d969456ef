//! The conformance suite over a scripted API server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tributary_conformance::{Ability, Act, Harness, Refusable, Rest, Script, Service, conformance_tests};
use tributary_kubernetes::{Options, RunMemory};
use tributary_model::{Hostname, Namespace, WithheldCause};
use tributary_registry_api::RegistryFactory;
use tributary_scripted_api::{Answer, ApiServer, Verb};

use crate::fixture::{KINDS, factory_with, options_for_every_kind, serve_every_kind, service, slice};

conformance_tests!(paused, ClusterHarness { named: false });

/// Namespaces are configured by name: part 1 is one of them.
mod named {
    use super::ClusterHarness;
    use tributary_conformance::{Scenario, conformance};

    #[tokio::test(start_paused = true)]
    async fn namespace_that_is_configured_away_is_withdrawn() {
        conformance(Scenario::ScopeConfiguredAway, &ClusterHarness { named: true }).await;
    }
}

struct ClusterHarness {
    named: bool,
}

/// Effect of each kind, and the change that stays visible while the kind is unreadable.
const REFUSABLES: [Refusable; 9] = [
    refusable("configmaps", true, Rest::Removal),
    refusable("endpointslices", true, Rest::Removal),
    refusable("gateways", true, Rest::Removal),
    refusable("namespaces", false, Rest::Removal),
    refusable("nodes", false, Rest::Removal),
    refusable("pods", true, Rest::Removal),
    refusable("serviceexports", true, Rest::Removal),
    refusable("serviceimports", true, Rest::Removal),
    refusable("services", true, Rest::Endpoint(0)),
];

const fn refusable(name: &'static str, goes_stale: bool, rest: Rest) -> Refusable {
    Refusable { name, goes_stale, rest }
}

/// Service that always exists, with an object of every kind.
const EVERY: &str = "every";
const EVERY_IPS: [&str; 2] = ["10.40.0.1", "10.40.0.2"];

#[async_trait]
impl Harness for ClusterHarness {
    async fn script(&self) -> Box<dyn Script> {
        let server = serve_every_kind(EVERY, EVERY_IPS);
        // pages, so that a list can be torn without its watch
        server.streams(false);
        server.put("namespaces", json!({"metadata": {"name": "far"}}));
        let namespaces = if self.named { vec!["shop", "far"] } else { Vec::new() };
        let memory = Arc::default();
        Box::new(ClusterScript { server, namespaces, memory, twice: false, reversed: false })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::LieEmpty => Some("a list of an API server is what its store held at that version"),
            Ability::Parts => Some("a cluster is one scope: one server, one credential"),
            Ability::Shorten => {
                Some("scopes are configured; a kind that is not installed has tests of its own")
            }
            Ability::End => Some("nothing proves that a cluster no longer exists"),
            Ability::Narrow if !self.named => {
                Some("every namespace is read; the named ones have a test below")
            }
            _ => None,
        }
    }
    fn refusables(&self) -> &[Refusable] {
        &REFUSABLES
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

struct ClusterScript {
    server: ApiServer,
    /// Configured namespaces; empty means all.
    namespaces: Vec<&'static str>,
    memory: Arc<RunMemory>,
    twice: bool,
    reversed: bool,
}

const LISTS: [&str; 2] = ["/services", "/endpointslices"];

impl ClusterScript {
    /// Returns the namespace of a service.
    fn home(&self, service: &str) -> &'static str {
        if service == "far" && !self.namespaces.is_empty() { "far" } else { "shop" }
    }
    fn end_watches(&self) {
        KINDS.iter().for_each(|kind| self.server.end(kind.plural));
    }
}

#[async_trait]
impl Script for ClusterScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        let namespaces = self.namespaces.iter().map(|name| Namespace::new(name).unwrap()).collect();
        let options = Options { namespaces, ..options_for_every_kind() };
        Arc::new(factory_with(&self.server, options).memory(Arc::clone(&self.memory)))
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.{}.svc.cluster.local", self.home(service))).unwrap()
    }
    fn always(&self) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
        let ips: BTreeSet<IpAddr> = EVERY_IPS.iter().map(|ip| ip.parse().unwrap()).collect();
        let hosts = [self.host(EVERY), Hostname::new(format!("{EVERY}.shop.svc.clusterset.local")).unwrap()];
        hosts.into_iter().map(|host| (host, ips.clone())).collect()
    }
    async fn set(&mut self, _: usize, wanted: &Service) {
        let ips: Vec<String> = wanted.endpoints.iter().map(ToString::to_string).collect();
        let mut objects = [
            ("services", service(&wanted.name)),
            ("endpointslices", slice(&wanted.name, &wanted.name, &ips)),
        ];
        if self.reversed {
            objects.reverse();
        }
        for (plural, mut object) in objects {
            object["metadata"]["namespace"] = self.home(&wanted.name).into();
            for _ in 0..=usize::from(self.twice) {
                self.server.put(plural, object.clone());
            }
        }
    }
    async fn delete(&mut self, service: &str) {
        for plural in ["services", "endpointslices"] {
            self.server.delete(plural, self.home(service), service);
        }
    }
    async fn act(&mut self, act: Act) {
        match act {
            Act::Fail(_) => {
                self.server.answer("", None, usize::MAX, Answer::Status(503, "the server is going down"));
                self.end_watches();
            }
            Act::Recover => self.server.heal(),
            Act::Corrupt(name) => {
                let mut bad = service(&name);
                bad["spec"]["ports"] = json!([{"port": "eighty"}]);
                self.server.put("services", bad);
            }
            Act::Relist => {
                self.server.compact();
                self.end_watches();
            }
            Act::Tear(times) => {
                for list in LISTS {
                    self.server.answer(list, Some(Verb::Get), times as usize, Answer::Torn(150));
                }
            }
            Act::Duplicate => self.twice = true,
            Act::Reorder => self.reversed = true,
            Act::Refuse(kind, cause) => {
                let code = if cause == WithheldCause::Forbidden { 403 } else { 500 };
                let refusal = Answer::Status(code, "not for you");
                self.server.answer(&format!("/{kind}$"), None, usize::MAX, refusal);
                self.server.end(kind);
            }
            Act::Swap => {
                self.server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid-2"}}));
                for service in ["pay", "cart", "idle"] {
                    self.delete(service).await;
                }
            }
            Act::Narrow => self.namespaces.retain(|name| *name != "far"),
            Act::LieEmpty | Act::Shorten | Act::End => panic!("{act:?} was declined"),
        }
    }
}
