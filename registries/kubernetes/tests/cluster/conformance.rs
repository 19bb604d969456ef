//! The conformance suite over a scripted API server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tributary_conformance::{Ability, Act, Harness, Script, Service, conformance_tests};
use tributary_model::{Hostname, WithheldCause};
use tributary_registry_api::RegistryFactory;
use tributary_scripted_api::{Answer, ApiServer, Verb};

use crate::fixture::{KINDS, factory, serve, service, slice};

conformance_tests!(paused, ClusterHarness);

struct ClusterHarness;

#[async_trait]
impl Harness for ClusterHarness {
    async fn script(&self) -> Box<dyn Script> {
        let server = serve();
        // pages, so that a list can be torn apart from a watch
        server.streams(false);
        server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid-1"}}));
        Box::new(ClusterScript { server, twice: false, reversed: false })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::LieEmpty => Some("a list of an API server is what its store held at that version"),
            Ability::Parts => Some("a cluster is one scope: one server, one credential"),
            Ability::Shorten => {
                Some("scopes are configured; a kind that is not installed has tests of its own")
            }
            Ability::End => Some("a cluster ends when it is configured away"),
            _ => None,
        }
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

struct ClusterScript {
    server: ApiServer,
    twice: bool,
    reversed: bool,
}

const LISTS: [&str; 2] = ["/services", "/endpointslices"];

impl ClusterScript {
    fn end_watches(&self) {
        KINDS.iter().for_each(|kind| self.server.end(kind.plural));
    }
}

#[async_trait]
impl Script for ClusterScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        Arc::new(factory(&self.server))
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.shop.svc.cluster.local")).unwrap()
    }
    async fn set(&mut self, _: usize, said: &Service) {
        let ips: Vec<String> = said.endpoints.iter().map(ToString::to_string).collect();
        let mut objects =
            [("services", service(&said.name)), ("endpointslices", slice(&said.name, &said.name, &ips))];
        if self.reversed {
            objects.reverse();
        }
        for (plural, object) in objects {
            for _ in 0..=usize::from(self.twice) {
                self.server.put(plural, object.clone());
            }
        }
    }
    async fn delete(&mut self, service: &str) {
        self.server.delete("services", "shop", service);
        self.server.delete("endpointslices", "shop", service);
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
            Act::Refuse(cause) => {
                let code = if cause == WithheldCause::Forbidden { 403 } else { 500 };
                let refusal = Answer::Status(code, "not for you");
                self.server.answer("/endpointslices$", None, usize::MAX, refusal);
                self.server.end("endpointslices");
            }
            Act::Swap => {
                self.server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid-2"}}));
                for service in ["pay", "cart", "idle"] {
                    self.delete(service).await;
                }
            }
            Act::LieEmpty | Act::Shorten | Act::End => panic!("{act:?} was declined"),
        }
    }
}
